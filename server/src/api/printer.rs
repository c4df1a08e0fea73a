//! Printers: the one that a resource has. What each prints is `table`'s.

/// How the objects of a resource are shown. Chosen once, when the registry is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Printer {
    /// Name and creation time: a resource of Kubernetes without columns of its own.
    Default,
    /// Name and age: a declared resource, as kube-apiserver shows custom resources.
    Custom,
    ConfigMaps,
    CronJobs,
    DaemonSets,
    Deployments,
    EndpointSlices,
    Endpoints,
    Events,
    HorizontalPodAutoscalers,
    Ingresses,
    Jobs,
    Leases,
    Namespaces,
    Nodes,
    PersistentVolumeClaims,
    PersistentVolumes,
    Pods,
    ReplicaSets,
    Secrets,
    ServiceAccounts,
    Services,
    StatefulSets,
    ApiServices,
    ControllerRevisions,
    CsiNodes,
    IngressClasses,
    NetworkPolicies,
    PodDisruptionBudgets,
    PodTemplates,
    PriorityClasses,
    ResourceQuotas,
    RoleBindings,
    RuntimeClasses,
    SigningRequests,
    StorageClasses,
    VolumeAttachments,
    VolumeAttributesClasses,
    Webhooks,
}

impl Printer {
    /// The printer of a built-in resource.
    #[must_use]
    pub fn builtin(group: &str, plural: &str) -> Self {
        match (group, plural) {
            ("", "configmaps") => Self::ConfigMaps,
            ("", "endpoints") => Self::Endpoints,
            ("", "events") => Self::Events,
            ("", "namespaces") => Self::Namespaces,
            ("", "nodes") => Self::Nodes,
            ("", "persistentvolumeclaims") => Self::PersistentVolumeClaims,
            ("", "persistentvolumes") => Self::PersistentVolumes,
            ("", "pods") => Self::Pods,
            ("", "replicationcontrollers") | ("apps", "replicasets") => Self::ReplicaSets,
            ("", "secrets") => Self::Secrets,
            ("", "serviceaccounts") => Self::ServiceAccounts,
            ("", "services") => Self::Services,
            ("apps", "daemonsets") => Self::DaemonSets,
            ("apps", "deployments") => Self::Deployments,
            ("apps", "statefulsets") => Self::StatefulSets,
            ("autoscaling", "horizontalpodautoscalers") => Self::HorizontalPodAutoscalers,
            ("batch", "cronjobs") => Self::CronJobs,
            ("batch", "jobs") => Self::Jobs,
            ("coordination.k8s.io", "leases") => Self::Leases,
            ("discovery.k8s.io", "endpointslices") => Self::EndpointSlices,
            ("networking.k8s.io", "ingresses") => Self::Ingresses,
            ("apiregistration.k8s.io", "apiservices") => Self::ApiServices,
            ("apps", "controllerrevisions") => Self::ControllerRevisions,
            ("storage.k8s.io", "csinodes") => Self::CsiNodes,
            ("networking.k8s.io", "ingressclasses") => Self::IngressClasses,
            ("networking.k8s.io", "networkpolicies") => Self::NetworkPolicies,
            ("policy", "poddisruptionbudgets") => Self::PodDisruptionBudgets,
            ("", "podtemplates") => Self::PodTemplates,
            ("scheduling.k8s.io", "priorityclasses") => Self::PriorityClasses,
            ("", "resourcequotas") => Self::ResourceQuotas,
            ("rbac.authorization.k8s.io", "rolebindings")
            | ("rbac.authorization.k8s.io", "clusterrolebindings") => Self::RoleBindings,
            ("node.k8s.io", "runtimeclasses") => Self::RuntimeClasses,
            ("certificates.k8s.io", "certificatesigningrequests") => Self::SigningRequests,
            ("storage.k8s.io", "storageclasses") => Self::StorageClasses,
            ("storage.k8s.io", "volumeattachments") => Self::VolumeAttachments,
            ("storage.k8s.io", "volumeattributesclasses") => Self::VolumeAttributesClasses,
            ("admissionregistration.k8s.io", "mutatingwebhookconfigurations")
            | ("admissionregistration.k8s.io", "validatingwebhookconfigurations") => Self::Webhooks,
            _ => Self::Default,
        }
    }
}
