//! The demo's cluster: which objects there are, and which change comes next.
//!
//! Pure: it makes requests and is told which were refused. Deployments are rolled out one after another: for each replica a new
//! pod is created, bound to a node and started, and an old one is marked and removed; between these steps nodes report and
//! ConfigMaps are edited, come and go.

use std::collections::{HashMap, VecDeque};

use http::Method;
use serde_json::{Value, json};

use super::view::{Attributes, Resource, node_name};

/// Nodes of the cluster.
pub(super) const NODES: usize = 6;
/// Replicas of each deployment.
const REPLICAS: usize = 3;
/// Deployments, with their namespaces.
pub(super) const APPS: [(&str, &str); 10] = [
    ("shop", "frontend"),
    ("shop", "cart"),
    ("shop", "catalog"),
    ("shop", "checkout"),
    ("payments", "ledger"),
    ("payments", "fraud"),
    ("payments", "invoices"),
    ("search", "indexer"),
    ("search", "query"),
    ("search", "suggest"),
];
/// Namespaces of the deployments.
pub(super) const NAMESPACES: [&str; 3] = ["shop", "payments", "search"];
/// Every so many steps of a rollout something else happens.
const ELSE_EVERY: u64 = 4;

/// A request, and what it does to the object if it is not refused.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Option<Vec<u8>>,
    pub(super) resource: Resource,
    /// `NAMESPACE/NAME`.
    pub(super) key: String,
    /// The states between which the object goes, one event for each pair of neighbours; `None`: it is not there.
    pub(super) states: Vec<Option<Attributes>>,
}

#[derive(Debug)]
struct Pod {
    name: String,
    node: Option<usize>,
    ip: String,
    is_running: bool,
    /// Whether it was told to end.
    is_marked: bool,
}

/// A step of a rollout.
#[derive(Clone, Copy, Debug)]
enum Step {
    Roll(usize),
    Create(usize),
    Bind(usize),
    Start(usize),
    Mark(usize),
    Remove(usize),
    Report(usize),
}

/// The state of the cluster, as far as the next change depends on it.
#[derive(Debug)]
pub(super) struct Cluster {
    rng: fastrand::Rng,
    steps: VecDeque<Step>,
    /// Of each deployment, oldest first.
    pods: Vec<VecDeque<Pod>>,
    releases: Vec<u32>,
    /// ConfigMaps and nodes that exist, by path: an edit of one that is missing creates it.
    exists: HashMap<String, Attributes>,
    turn: u64,
    next_app: usize,
    /// The time, as Kubernetes writes it.
    now: String,
}

impl Cluster {
    /// An empty cluster.
    pub(super) fn new(seed: u64, now: String) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(seed),
            steps: VecDeque::new(),
            pods: APPS.iter().map(|_| VecDeque::new()).collect(),
            releases: vec![1; APPS.len()],
            exists: HashMap::new(),
            turn: 0,
            next_app: 0,
            now,
        }
    }

    /// The changes that fill it.
    pub(super) fn fill(&mut self) -> Vec<Change> {
        let mut changes: Vec<Change> = NAMESPACES.iter().map(|name| namespace(name)).collect();
        changes.extend((0..NODES).map(|node| self.report_of_node(node)));
        for app in 0..APPS.len() {
            changes.extend([self.configure(app), self.deploy(app)]);
            for _ in 0..REPLICAS {
                let steps = [Step::Create(app), Step::Bind(app), Step::Start(app)];
                changes.extend(steps.map(|step| self.take(step)).into_iter().flatten());
            }
            changes.push(self.report(app));
        }
        changes
    }

    /// The next change.
    pub(super) fn next(&mut self, now: String) -> Change {
        self.now = now;
        loop {
            self.turn += 1;
            if self.turn.is_multiple_of(ELSE_EVERY) {
                return self.something_else();
            }
            match self.steps.pop_front() {
                Some(step) => {
                    if let Some(change) = self.take(step) {
                        return change;
                    }
                }
                None => self.plan(),
            }
        }
    }

    /// A change was refused: another client has deleted the object (or made it: then it `exists`).
    pub(super) fn refused(&mut self, change: &Change, exists: bool) {
        if !exists {
            self.exists.remove(change.path.strip_suffix("/status").unwrap_or(&change.path));
        }
        for pods in &mut self.pods {
            pods.retain(|pod| !change.key.ends_with(&format!("/{}", pod.name)));
        }
    }

    /// How many pods there are.
    #[cfg(test)]
    fn pods(&self) -> usize {
        self.pods.iter().map(VecDeque::len).sum()
    }

    fn plan(&mut self) {
        let app = self.next_app;
        self.next_app = (app + 3) % APPS.len();
        self.steps.push_back(Step::Roll(app));
        for _ in 0..REPLICAS {
            use Step::{Bind, Create, Mark, Remove, Report, Start};
            self.steps.extend([Create(app), Bind(app), Start(app), Mark(app), Remove(app), Report(app)]);
        }
    }

    fn take(&mut self, step: Step) -> Option<Change> {
        match step {
            Step::Roll(app) => {
                self.releases[app] += 1;
                Some(self.deploy(app))
            }
            Step::Create(app) => Some(self.create(app)),
            Step::Bind(app) => {
                let node = self.rng.usize(..NODES);
                self.place(app, |pod| pod.node.is_none(), |pod| pod.node = Some(node))
            }
            Step::Start(app) => {
                let waits = |pod: &Pod| pod.node.is_some() && !pod.is_running;
                self.place(app, waits, |pod| pod.is_running = true)
            }
            Step::Mark(app) => self.mark(app),
            Step::Remove(app) => self.remove(app),
            Step::Report(app) => Some(self.report(app)),
        }
    }

    fn create(&mut self, app: usize) -> Change {
        let (namespace, name) = APPS[app];
        let suffix: String = (0..5)
            .map(|_| self.rng.choice(b"bcdfghjklmnpqrstvwxz2456789").map_or('x', |b| char::from(*b)))
            .collect();
        let pod = Pod {
            name: format!("{name}-{:x}-{suffix}", 0x5d8f_0000_u32 + self.releases[app]),
            node: None,
            ip: format!("10.1.{}.{}", self.rng.u8(..), self.rng.u8(1..255)),
            is_running: false,
            is_marked: false,
        };
        let body = self.pod(app, &pod);
        let key = format!("{namespace}/{}", pod.name);
        self.pods[app].push_back(pod);
        let states = vec![None, Some(attributes(app, None))];
        change(Method::POST, Resource::Pods.path(Some(namespace)), Some(&body), Resource::Pods, key, states)
    }

    /// The newest pod that `waits` is changed and written: its binding to the object, its start to its status.
    fn place(&mut self, app: usize, waits: fn(&Pod) -> bool, set: impl Fn(&mut Pod)) -> Option<Change> {
        let pod = self.pods[app].iter_mut().rev().find(|pod| waits(pod))?;
        let before = attributes(app, pod.node);
        set(pod);
        let after = attributes(app, pod.node);
        let (name, is_running) = (pod.name.clone(), pod.is_running);
        let pod = self.pods[app].iter().find(|pod| pod.name == name)?;
        let path = format!("{}{}", pod_path(app, pod), if is_running { "/status" } else { "" });
        let key = format!("{}/{name}", APPS[app].0);
        let body = self.pod(app, pod);
        Some(change(Method::PUT, path, Some(&body), Resource::Pods, key, vec![Some(before), Some(after)]))
    }

    /// The oldest pod is told to end: its node has a grace for that.
    fn mark(&mut self, app: usize) -> Option<Change> {
        let is_surplus = self.pods[app].len() > REPLICAS;
        let pod = self.pods[app].front_mut().filter(|pod| is_surplus && pod.is_running)?;
        pod.is_marked = true;
        let state = Some(attributes(app, pod.node));
        let key = format!("{}/{}", APPS[app].0, pod.name);
        let path = pod_path(app, pod);
        Some(change(Method::DELETE, path, None, Resource::Pods, key, vec![state, state]))
    }

    /// It has ended. That its grace is over is written before it is removed.
    fn remove(&mut self, app: usize) -> Option<Change> {
        self.pods[app].front().filter(|pod| pod.is_marked)?;
        let pod = self.pods[app].pop_front()?;
        let state = Some(attributes(app, pod.node));
        let key = format!("{}/{}", APPS[app].0, pod.name);
        let path = format!("{}?gracePeriodSeconds=0", pod_path(app, &pod));
        Some(change(Method::DELETE, path, None, Resource::Pods, key, vec![state, state, None]))
    }

    fn something_else(&mut self) -> Change {
        let app = self.rng.usize(..APPS.len());
        match self.rng.u8(..10) {
            0..4 => {
                let node = self.rng.usize(..NODES);
                self.report_of_node(node)
            }
            4..9 => self.configure(app),
            _ => self.forget_configuration(app),
        }
    }

    /// A node says that it is well.
    fn report_of_node(&mut self, node: usize) -> Change {
        let name = node_name(node);
        let path = format!("{}/{name}", Resource::Nodes.path(None));
        let used = self.rng.u32(20..90);
        let body = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{}", node % 3)}},
            "spec": {"podCIDR": format!("10.1.{node}.0/24")},
            "status": {
                "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
                "allocatable": {"cpu": "7800m", "memory": "30Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
                                "message": format!("{used}% of memory in use"), "lastHeartbeatTime": self.now}],
                "nodeInfo": {"kubeletVersion": "v1.34.0", "osImage": "Demo Linux", "architecture": "amd64"},
            },
        });
        let attributes = Attributes { namespace: "", app: "", node: None };
        self.write((Resource::Nodes, None, &name), path, "/status", attributes, &body)
    }

    fn configure(&mut self, app: usize) -> Change {
        let (namespace, name) = APPS[app];
        let path = format!("{}/{name}", Resource::ConfigMaps.path(Some(namespace)));
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"app": name}},
            "data": {"log-level": if self.rng.bool() { "info" } else { "debug" },
                     "requests-per-second": self.rng.u32(100..1000).to_string(),
                     "features": "search,checkout-v2,recommendations"},
        });
        self.write((Resource::ConfigMaps, Some(namespace), name), path, "", attributes(app, None), &body)
    }

    fn forget_configuration(&mut self, app: usize) -> Change {
        let (namespace, name) = APPS[app];
        let path = format!("{}/{name}", Resource::ConfigMaps.path(Some(namespace)));
        match self.exists.remove(&path) {
            None => self.configure(app),
            Some(state) => {
                let key = format!("{namespace}/{name}");
                change(Method::DELETE, path, None, Resource::ConfigMaps, key, vec![Some(state), None])
            }
        }
    }

    fn deploy(&mut self, app: usize) -> Change {
        self.deployment(app, "")
    }

    /// The status of a deployment.
    fn report(&mut self, app: usize) -> Change {
        self.deployment(app, "/status")
    }

    fn deployment(&mut self, app: usize, part: &str) -> Change {
        let (namespace, name) = APPS[app];
        let path = format!("{}/{name}", Resource::Deployments.path(Some(namespace)));
        let ready = self.pods[app].iter().filter(|pod| pod.is_running).count();
        let body = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"replicas": REPLICAS, "selector": {"matchLabels": {"app": name}},
                     "template": {"metadata": {"labels": {"app": name}}, "spec": self.pod_spec(app)}},
            "status": {"replicas": self.pods[app].len(), "readyReplicas": ready, "availableReplicas": ready,
                       "updatedReplicas": ready.min(REPLICAS)},
        });
        self.write((Resource::Deployments, Some(namespace), name), path, part, attributes(app, None), &body)
    }

    /// An edit of an object, of a `part` of it or of the whole; or its creation, if it is not there.
    fn write(
        &mut self,
        (resource, namespace, name): (Resource, Option<&str>, &str),
        path: String,
        part: &str,
        state: Attributes,
        body: &Value,
    ) -> Change {
        let key = format!("{}/{name}", namespace.unwrap_or_default());
        match self.exists.insert(path.clone(), state) {
            Some(before) => {
                change(Method::PUT, path + part, Some(body), resource, key, vec![Some(before), Some(state)])
            }
            None => change(
                Method::POST,
                resource.path(namespace),
                Some(body),
                resource,
                key,
                vec![None, Some(state)],
            ),
        }
    }

    fn pod(&self, app: usize, pod: &Pod) -> Value {
        let (namespace, name) = APPS[app];
        let mut spec = self.pod_spec(app);
        if let Some(node) = pod.node {
            spec["nodeName"] = node_name(node).into();
        }
        let status = if pod.is_running {
            json!({"phase": "Running", "podIP": pod.ip, "startTime": self.now,
                   "conditions": [{"type": "Ready", "status": "True"}],
                   "containerStatuses": [{"name": name, "ready": true, "restartCount": 0, "started": true,
                                          "image": self.image(app), "imageID": "",
                                          "state": {"running": {"startedAt": self.now}}}]})
        } else {
            json!({"phase": "Pending"})
        };
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": pod.name, "namespace": namespace, "labels": {"app": name, "release": self.releases[app].to_string()}},
            "spec": spec,
            "status": status,
        })
    }

    fn pod_spec(&self, app: usize) -> Value {
        let name = APPS[app].1;
        json!({
            "terminationGracePeriodSeconds": 30,
            "containers": [{
                "name": name, "image": self.image(app), "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                "env": [{"name": "LOG_LEVEL", "valueFrom": {"configMapKeyRef": {"name": name, "key": "log-level"}}}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 5},
            }],
        })
    }

    fn image(&self, app: usize) -> String {
        format!("registry.example/{}:v1.{}", APPS[app].1, self.releases[app])
    }
}

fn attributes(app: usize, node: Option<usize>) -> Attributes {
    let (namespace, app) = APPS[app];
    Attributes { namespace, app, node }
}

fn pod_path(app: usize, pod: &Pod) -> String {
    format!("{}/{}", Resource::Pods.path(Some(APPS[app].0)), pod.name)
}

fn namespace(name: &str) -> Change {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "status": {"phase": "Active"}});
    let state = Attributes { namespace: "", app: "", node: None };
    let (resource, key) = (Resource::Namespaces, format!("/{name}"));
    change(Method::POST, resource.path(None), Some(&body), resource, key, vec![None, Some(state)])
}

fn change(
    method: Method,
    path: String,
    body: Option<&Value>,
    resource: Resource,
    key: String,
    states: Vec<Option<Attributes>>,
) -> Change {
    Change { method, path, body: body.map(|body| body.to_string().into_bytes()), resource, key, states }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;

    use super::*;

    /// What a server would hold after these changes.
    fn apply(there: &mut HashMap<String, Attributes>, change: &Change) {
        let name = format!("{:?} {}", change.resource, change.key);
        assert_eq!(there.get(&name).copied(), change.states[0], "{change:?}");
        let body = change.body.as_deref().map(|body| serde_json::from_slice::<Value>(body).unwrap());
        if let Some(body) = body {
            let key = change.key.split_once('/').unwrap().1;
            assert_eq!(body["metadata"]["name"], key);
        }
        match *change.states.last().unwrap() {
            Some(state) => there.insert(name, state),
            None => there.remove(&name),
        };
    }

    #[test]
    fn thousands_of_changes_fit_together_and_stay_bounded() {
        let mut cluster = Cluster::new(7, "2026-01-01T00:00:00Z".to_owned());
        let mut there = HashMap::new();
        cluster.fill().iter().for_each(|change| apply(&mut there, change));
        assert_eq!(cluster.pods(), APPS.len() * REPLICAS);
        let (filled, mut kinds) = (there.len(), HashSet::new());
        for _ in 0..5000 {
            let change = cluster.next(String::new());
            apply(&mut there, &change);
            kinds.insert((change.method.clone(), change.resource, change.states.len()));
            assert!(there.len() <= filled + 2, "{}", there.len());
        }
        assert!(kinds.len() >= 9, "{kinds:?}");
    }

    #[test]
    fn what_others_delete_is_made_again() {
        let mut cluster = Cluster::new(7, String::new());
        let mut there = HashMap::new();
        cluster.fill().iter().for_each(|change| apply(&mut there, change));
        for number in 0..2000 {
            let change = cluster.next(String::new());
            // Somebody deletes what was to be changed.
            if number % 10 == 0 && change.states[0].is_some() {
                there.remove(&format!("{:?} {}", change.resource, change.key));
                cluster.refused(&change, false);
            } else {
                apply(&mut there, &change);
            }
        }
        assert!(cluster.pods() >= APPS.len() * (REPLICAS - 1), "{}", cluster.pods());
    }
}
