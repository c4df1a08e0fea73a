//! The table of Kubernetes' usual resources, as data.
//!
//! One row per persisted resource with list and watch, in the order in which kube-apiserver 1.36 lists groups. Reviews
//! and bindings are not objects and have no row. A row has the versions of Kubernetes 1.33 to 1.37 that kube-apiserver has,
//! with the releases that have them; objects are kept in the first of them that a release has, so that is one that
//! all others can be made of (`test/integration/etcd/data.go` of Kubernetes has what is stored).

/// One resource of the table. Selectable fields are `label`, `label=path` for an alias, `label=path|other` for one that
/// reads `other` if there is no value at `path`, or `label=` for a label that is accepted but always empty
/// (`pkg/apis/*/v1/conversion.go` of Kubernetes). After a colon is the value that a field reads as when the object has
/// none: what Kubernetes fills in when it stores the object, or prints for Go's zero value
/// (`pkg/apis/*/v1/defaults.go`, `pkg/registry/*/*/strategy.go`).
#[derive(Debug)]
pub(super) struct Row {
    pub(super) group: &'static str,
    /// The first version: the one that its objects are kept in, and that names it in the embedded store.
    pub(super) version: &'static str,
    /// The first release that has the version.
    pub(super) since: u32,
    /// The other versions.
    pub(super) others: &'static [Version],
    /// The group and the plural of the row whose objects it shows; `None`: it has its own.
    pub(super) stored_as: Option<(&'static str, &'static str)>,
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespaced: bool,
    pub(super) status: bool,
    pub(super) short_names: &'static [&'static str],
    pub(super) categories: &'static [&'static str],
    pub(super) fields: &'static [&'static str],
}

/// A version besides the first one, and the releases that have it.
#[derive(Debug)]
pub(super) struct Version {
    name: &'static str,
    since: u32,
    until: u32,
}

impl Version {
    const fn since(self, since: u32) -> Self {
        Self { since, ..self }
    }

    const fn until(self, until: u32) -> Self {
        Self { until, ..self }
    }
}

/// A version that all releases have.
const fn v(name: &'static str) -> Version {
    Version { name, since: 0, until: u32::MAX }
}

/// A namespaced resource.
const fn ns(group: &'static str, version: &'static str, plural: &'static str, kind: &'static str) -> Row {
    Row {
        group,
        version,
        since: 0,
        others: &[],
        stored_as: None,
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
    /// The versions that Kubernetes 1.`minor` has, the one that objects are kept in first.
    pub(super) fn versions(&self, minor: u32) -> impl Iterator<Item = &'static str> {
        let first = (minor >= self.since).then_some(self.version);
        let has = move |version: &&Version| (version.since..=version.until).contains(&minor);
        first.into_iter().chain(self.others.iter().filter(has).map(|version| version.name))
    }

    const fn since(self, since: u32) -> Self {
        Self { since, ..self }
    }

    const fn also(self, others: &'static [Version]) -> Self {
        Self { others, ..self }
    }

    const fn stored_as(self, group: &'static str, plural: &'static str) -> Self {
        Self { stored_as: Some((group, plural)), ..self }
    }

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
    "type",
    "source=source.component|reportingComponent",
];

/// The same as events.k8s.io/v1 calls them, in the same order; it has no name for the last one.
const NEW_EVENT_FIELDS: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

const ADMISSION: &str = "admissionregistration.k8s.io";
const APISERVER_FLOW: &str = "flowcontrol.apiserver.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const COORDINATION: &str = "coordination.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const SCHEDULING: &str = "scheduling.k8s.io";
const STORAGE: &str = "storage.k8s.io";

/// The other versions of what dynamic resource allocation has.
const DEVICE_VERSIONS: &[Version] = &[v("v1beta2"), v("v1beta1")];

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
    ns("events.k8s.io", "v1", "events", "Event")
        .short(&["ev"])
        .fields(NEW_EVENT_FIELDS)
        .stored_as("", "events"),
    ns("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
        .also(&[v("v1")])
        .short(&["hpa"])
        .all()
        .status(),
    ns("batch", "v1", "cronjobs", "CronJob").short(&["cj"]).all().status(),
    ns("batch", "v1", "jobs", "Job").all().status().fields(&["status.successful=status.succeeded:0"]),
    cluster(CERTIFICATES, "v1", "certificatesigningrequests", "CertificateSigningRequest")
        .short(&["csr"])
        .status()
        .fields(&["spec.signerName"]),
    cluster(CERTIFICATES, "v1", "clustertrustbundles", "ClusterTrustBundle")
        .since(37)
        .also(&[v("v1beta1"), v("v1alpha1").until(36)])
        .fields(&["spec.signerName"]),
    ns(CERTIFICATES, "v1", "podcertificaterequests", "PodCertificateRequest")
        .since(37)
        .also(&[v("v1beta1").since(35), v("v1alpha1").since(34).until(34)])
        .status()
        .fields(&["spec.signerName", "spec.podName", "spec.nodeName"]),
    cluster(NETWORKING, "v1", "ingressclasses", "IngressClass"),
    ns(NETWORKING, "v1", "ingresses", "Ingress").short(&["ing"]).status(),
    cluster(NETWORKING, "v1", "ipaddresses", "IPAddress").also(&[v("v1beta1").until(36)]).short(&["ip"]),
    ns(NETWORKING, "v1", "networkpolicies", "NetworkPolicy").short(&["netpol"]),
    cluster(NETWORKING, "v1", "servicecidrs", "ServiceCIDR").also(&[v("v1beta1").until(36)]).status(),
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
    cluster(STORAGE, "v1", "volumeattributesclasses", "VolumeAttributesClass")
        .since(34)
        .also(&[v("v1beta1").until(36), v("v1alpha1").until(34)])
        .short(&["vac"]),
    cluster(ADMISSION, "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy")
        .since(36)
        .also(&[v("v1beta1").since(34), v("v1alpha1")])
        .extension(),
    cluster(ADMISSION, "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding")
        .since(36)
        .also(&[v("v1beta1").since(34), v("v1alpha1")])
        .extension(),
    cluster(ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration").extension(),
    cluster(ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy")
        .also(&[v("v1beta1").until(33)])
        .extension()
        .status(),
    cluster(ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding")
        .also(&[v("v1beta1").until(33)])
        .extension(),
    cluster(ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration").extension(),
    cluster("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition")
        .short(&["crd", "crds"])
        .extension()
        .status(),
    cluster(SCHEDULING, "v1", "priorityclasses", "PriorityClass").short(&["pc"]),
    ns(SCHEDULING, "v1alpha3", "compositepodgroups", "CompositePodGroup").since(37).status(),
    ns(SCHEDULING, "v1beta1", "podgroups", "PodGroup")
        .since(37)
        .also(&[v("v1alpha3").since(37), v("v1alpha2").since(36).until(36)])
        .status(),
    ns(SCHEDULING, "v1beta1", "workloads", "Workload").since(37).also(&[
        v("v1alpha3").since(37),
        v("v1alpha2").since(36).until(36),
        v("v1alpha1").since(35).until(35),
    ]),
    ns(COORDINATION, "v1", "leases", "Lease"),
    ns(COORDINATION, "v1beta1", "leasecandidates", "LeaseCandidate").also(&[v("v1alpha2")]),
    cluster("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass"),
    ns("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    cluster(RESOURCE, "v1", "devicetaintrules", "DeviceTaintRule")
        .since(37)
        .also(&[v("v1alpha3"), v("v1beta2").since(36)])
        .status(),
    cluster(RESOURCE, "v1alpha3", "resourcepoolstatusrequests", "ResourcePoolStatusRequest")
        .since(36)
        .status(),
    cluster(RESOURCE, "v1", "deviceclasses", "DeviceClass").since(34).also(DEVICE_VERSIONS),
    ns(RESOURCE, "v1", "resourceclaims", "ResourceClaim").since(34).also(DEVICE_VERSIONS).status(),
    ns(RESOURCE, "v1", "resourceclaimtemplates", "ResourceClaimTemplate").since(34).also(DEVICE_VERSIONS),
    cluster(RESOURCE, "v1", "resourceslices", "ResourceSlice")
        .since(34)
        .also(DEVICE_VERSIONS)
        .fields(&["spec.nodeName", "spec.driver"]),
    cluster(APISERVER_FLOW, "v1", "flowschemas", "FlowSchema").status(),
    cluster(APISERVER_FLOW, "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration").status(),
    cluster("internal.apiserver.k8s.io", "v1alpha1", "storageversions", "StorageVersion").status(),
    ns("lifecycle.k8s.io", "v1alpha1", "evictionrequests", "EvictionRequest").since(37).status(),
    cluster("storagemigration.k8s.io", "v1", "storageversionmigrations", "StorageVersionMigration")
        .since(37)
        .also(&[v("v1beta1").since(35), v("v1alpha1").until(34)])
        .status(),
];
