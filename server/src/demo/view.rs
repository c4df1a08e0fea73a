//! What the demo's watchers watch, and which events a change means to each.
//!
//! Pure. It owns the demo's own idea of a selector, so that what the server sends is compared with something that the
//! server did not compute.

/// Resources of the demo's cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Resource {
    Namespaces,
    Nodes,
    Deployments,
    Pods,
    ConfigMaps,
}

impl Resource {
    /// The path of its collection, of all namespaces or of one.
    pub(super) fn path(self, namespace: Option<&str>) -> String {
        let (root, plural) = match self {
            Self::Namespaces => ("/api/v1", "namespaces"),
            Self::Nodes => ("/api/v1", "nodes"),
            Self::Deployments => ("/apis/apps/v1", "deployments"),
            Self::Pods => ("/api/v1", "pods"),
            Self::ConfigMaps => ("/api/v1", "configmaps"),
        };
        namespace.map_or_else(
            || format!("{root}/{plural}"),
            |namespace| format!("{root}/namespaces/{namespace}/{plural}"),
        )
    }
}

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Added,
    Modified,
    Deleted,
}

/// What selectors see of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attributes {
    /// Empty: it has no namespace.
    pub(super) namespace: &'static str,
    /// Its label `app`; empty: it has none.
    pub(super) app: &'static str,
    /// Its `spec.nodeName`.
    pub(super) node: Option<usize>,
}

/// The scope and the selector of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) resource: Resource,
    pub(super) namespace: Option<&'static str>,
    pub(super) app: Option<&'static str>,
    pub(super) node: Option<usize>,
}

impl View {
    /// Everything of a resource.
    pub(super) const fn all(resource: Resource) -> Self {
        Self { resource, namespace: None, app: None, node: None }
    }

    /// The path and the selectors of its list and its watch; more parameters may follow.
    pub(super) fn path(&self) -> String {
        let path = self.resource.path(self.namespace);
        match (self.app, self.node) {
            (Some(app), _) => format!("{path}?labelSelector=app%3D{app}&"),
            (None, Some(node)) => format!("{path}?fieldSelector=spec.nodeName%3D{}&", node_name(node)),
            (None, None) => format!("{path}?"),
        }
    }

    /// The event that a change of an object means to it.
    pub(super) fn verb(
        &self,
        resource: Resource,
        before: Option<Attributes>,
        after: Option<Attributes>,
    ) -> Option<Verb> {
        let shows = |object: Option<Attributes>| {
            resource == self.resource && object.is_some_and(|object| self.matches(object))
        };
        match (shows(before), shows(after)) {
            (false, false) => None,
            (false, true) => Some(Verb::Added),
            (true, true) => Some(Verb::Modified),
            (true, false) => Some(Verb::Deleted),
        }
    }

    fn matches(&self, object: Attributes) -> bool {
        self.namespace.is_none_or(|namespace| namespace == object.namespace)
            && self.app.is_none_or(|app| app == object.app)
            && self.node.is_none_or(|node| Some(node) == object.node)
    }
}

/// The name of a node.
pub(super) fn node_name(node: usize) -> String {
    format!("node-{}", node + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_enters_and_leaves() {
        let waiting = Attributes { namespace: "shop", app: "cart", node: None };
        let bound = Attributes { node: Some(2), ..waiting };
        let pods = View::all(Resource::Pods);
        let node = View { node: Some(2), ..pods };
        assert_eq!(node.path(), "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-3&");
        assert_eq!(node.verb(Resource::Pods, None, Some(waiting)), None);
        assert_eq!(pods.verb(Resource::Pods, None, Some(waiting)), Some(Verb::Added));
        assert_eq!(node.verb(Resource::Pods, Some(waiting), Some(bound)), Some(Verb::Added));
        assert_eq!(pods.verb(Resource::Pods, Some(waiting), Some(bound)), Some(Verb::Modified));
        assert_eq!(node.verb(Resource::Pods, Some(bound), None), Some(Verb::Deleted));
        let other = View { namespace: Some("search"), app: Some("cart"), ..pods };
        assert_eq!(other.path(), "/api/v1/namespaces/search/pods?labelSelector=app%3Dcart&");
        assert_eq!(other.verb(Resource::Pods, None, Some(bound)), None);
        assert_eq!(pods.verb(Resource::ConfigMaps, None, Some(bound)), None);
    }
}
