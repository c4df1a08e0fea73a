//! The table of Kubernetes' usual resources, as data.
//!
//! One row per persisted resource with list and watch, in the order in which kube-apiserver 1.36 lists groups. Reviews
//! and bindings are not objects and have no row. A group has one version here, because revcast converts nothing: two
//! versions would be two separate stores of what clients take for the same objects.

/// One resource of the table. Selectable fields are `label`, `label=path` for an alias, `label=path|other` for one that
/// reads `other` if there is no value at `path`, or `label=` for a label that is accepted but always empty
/// (`pkg/apis/*/v1/conversion.go` of Kubernetes). After a colon is the value that a field reads as when the object has
/// none: what Kubernetes fills in when it stores the object, or prints for Go's zero value
/// (`pkg/apis/*/v1/defaults.go`, `pkg/registry/*/*/strategy.go`).
#[derive(Debug)]
pub(super) struct Row {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespaced: bool,
    pub(super) status: bool,
    pub(super) short_names: &'static [&'static str],
    pub(super) categories: &'static [&'static str],
    pub(super) fields: &'static [&'static str],
}

/// A namespaced resource.
const fn ns(group: &'static str, version: &'static str, plural: &'static str, kind: &'static str) -> Row {
    Row {
        group,
        version,
        plural,
        kind,
        namespaced: true,
        status: false,
        short_names: &[],
        categories: &[],
        fields: &[],
    }
}

/// A resource without namespaces.
const fn cluster(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
) -> Row {
    Row { namespaced: false, ..ns(group, version, plural, kind) }
}

impl Row {
    const fn status(self) -> Self {
        Self { status: true, ..self }
    }

    const fn short(self, short_names: &'static [&'static str]) -> Self {
        Self { short_names, ..self }
    }

    const fn all(self) -> Self {
        Self { categories: &["all"], ..self }
    }

    const fn extension(self) -> Self {
        Self { categories: &["api-extensions"], ..self }
    }

    const fn fields(self, fields: &'static [&'static str]) -> Self {
        Self { fields, ..self }
    }
}

const POD_FIELDS: &[&str] = &[
    "spec.nodeName",
    "spec.host=spec.nodeName",
    "spec.restartPolicy:Always",
    "spec.schedulerName:default-scheduler",
    "spec.serviceAccountName",
    "spec.hostNetwork:false",
    "status.phase",
    "status.podIP",
    "status.podIPs=",
    "status.nominatedNodeName",
];

const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source=source.component|reportingComponent",
    "type",
];

const ADMISSION: &str = "admissionregistration.k8s.io";
const APISERVER_FLOW: &str = "flowcontrol.apiserver.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const STORAGE: &str = "storage.k8s.io";

/// All rows; within a version ordered by plural, as discovery lists them.
pub(super) const TABLE: &[Row] = &[
    ns("", "v1", "configmaps", "ConfigMap").short(&["cm"]),
    ns("", "v1", "endpoints", "Endpoints").short(&["ep"]),
    ns("", "v1", "events", "Event").short(&["ev"]).fields(EVENT_FIELDS),
    ns("", "v1", "limitranges", "LimitRange").short(&["limits"]),
    cluster("", "v1", "namespaces", "Namespace").short(&["ns"]).status().fields(&["status.phase"]),
    cluster("", "v1", "nodes", "Node").short(&["no"]).status().fields(&["spec.unschedulable:false"]),
    ns("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim").short(&["pvc"]).status(),
    cluster("", "v1", "persistentvolumes", "PersistentVolume").short(&["pv"]).status(),
    ns("", "v1", "pods", "Pod").short(&["po"]).all().status().fields(POD_FIELDS),
    ns("", "v1", "podtemplates", "PodTemplate"),
    ns("", "v1", "replicationcontrollers", "ReplicationController")
        .short(&["rc"])
        .all()
        .status()
        .fields(&["status.replicas:0"]),
    ns("", "v1", "resourcequotas", "ResourceQuota").short(&["quota"]).status(),
    ns("", "v1", "secrets", "Secret").fields(&["type:Opaque"]),
    ns("", "v1", "serviceaccounts", "ServiceAccount").short(&["sa"]),
    ns("", "v1", "services", "Service")
        .short(&["svc"])
        .all()
        .status()
        .fields(&["spec.clusterIP", "spec.type:ClusterIP"]),
    cluster("apiregistration.k8s.io", "v1", "apiservices", "APIService").extension().status(),
    ns("apps", "v1", "controllerrevisions", "ControllerRevision"),
    ns("apps", "v1", "daemonsets", "DaemonSet").short(&["ds"]).all().status(),
    ns("apps", "v1", "deployments", "Deployment").short(&["deploy"]).all().status(),
    ns("apps", "v1", "replicasets", "ReplicaSet").short(&["rs"]).all().status(),
    ns("apps", "v1", "statefulsets", "StatefulSet")
        .short(&["sts"])
        .all()
        .status()
        .fields(&["status.successful="]),
    ns("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
        .short(&["hpa"])
        .all()
        .status(),
    ns("batch", "v1", "cronjobs", "CronJob").short(&["cj"]).all().status(),
    ns("batch", "v1", "jobs", "Job").all().status().fields(&["status.successful=status.succeeded:0"]),
    cluster("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest")
        .short(&["csr"])
        .status()
        .fields(&["spec.signerName"]),
    cluster(NETWORKING, "v1", "ingressclasses", "IngressClass"),
    ns(NETWORKING, "v1", "ingresses", "Ingress").short(&["ing"]).status(),
    cluster(NETWORKING, "v1", "ipaddresses", "IPAddress").short(&["ip"]),
    ns(NETWORKING, "v1", "networkpolicies", "NetworkPolicy").short(&["netpol"]),
    cluster(NETWORKING, "v1", "servicecidrs", "ServiceCIDR").status(),
    ns("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget").short(&["pdb"]).status(),
    cluster(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding"),
    cluster(RBAC, "v1", "clusterroles", "ClusterRole"),
    ns(RBAC, "v1", "rolebindings", "RoleBinding"),
    ns(RBAC, "v1", "roles", "Role"),
    cluster(STORAGE, "v1", "csidrivers", "CSIDriver"),
    cluster(STORAGE, "v1", "csinodes", "CSINode"),
    ns(STORAGE, "v1", "csistoragecapacities", "CSIStorageCapacity"),
    cluster(STORAGE, "v1", "storageclasses", "StorageClass").short(&["sc"]),
    cluster(STORAGE, "v1", "volumeattachments", "VolumeAttachment").status(),
    cluster(STORAGE, "v1", "volumeattributesclasses", "VolumeAttributesClass").short(&["vac"]),
    cluster(ADMISSION, "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy").extension(),
    cluster(ADMISSION, "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding").extension(),
    cluster(ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration").extension(),
    cluster(ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy").extension().status(),
    cluster(ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding")
        .extension(),
    cluster(ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration").extension(),
    cluster("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition")
        .short(&["crd", "crds"])
        .extension()
        .status(),
    cluster("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass").short(&["pc"]),
    ns("coordination.k8s.io", "v1", "leases", "Lease"),
    cluster("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass"),
    ns("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    cluster(RESOURCE, "v1", "deviceclasses", "DeviceClass"),
    ns(RESOURCE, "v1", "resourceclaims", "ResourceClaim").status(),
    ns(RESOURCE, "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    cluster(RESOURCE, "v1", "resourceslices", "ResourceSlice").fields(&["spec.nodeName", "spec.driver"]),
    cluster(APISERVER_FLOW, "v1", "flowschemas", "FlowSchema").status(),
    cluster(APISERVER_FLOW, "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration").status(),
];
