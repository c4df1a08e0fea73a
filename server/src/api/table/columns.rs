//! The columns of each table. Columns of priority 1 are for `-o wide`.

use serde::Serialize;

/// One column, as `TableColumnDefinition` of `meta.k8s.io/v1` writes it.
#[derive(Debug, Serialize)]
pub(super) struct Column {
    pub(super) name: &'static str,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) format: &'static str,
    pub(super) description: &'static str,
    pub(super) priority: u8,
}

const fn text(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 0 }
}

const fn number(name: &'static str, description: &'static str) -> Column {
    Column { kind: "integer", ..text(name, description) }
}

const fn boolean(name: &'static str, description: &'static str) -> Column {
    Column { kind: "boolean", ..text(name, description) }
}

impl Column {
    const fn wide(self) -> Self {
        Self { priority: 1, ..self }
    }
}

const NAME_TEXT: &str = "Name must be unique within a namespace. Is required when creating resources, although some \
resources may allow a client to request the generation of an appropriate name automatically. Name is primarily \
intended for creation idempotence and configuration definition. Cannot be updated. More info: \
https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
pub(super) const CREATED_TEXT: &str = "CreationTimestamp is a timestamp representing the server time when this object was \
created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this \
value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More \
info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const DATA_TEXT: &str = "Data contains the configuration data. Each key must consist of alphanumeric characters, \
'-', '_' or '.'. Values with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in Data must \
not overlap with the keys in the BinaryData field, this is enforced during validation process.";

pub(super) const NAME: Column = Column { format: "name", ..text("Name", NAME_TEXT) };
const AGE: Column = text("Age", CREATED_TEXT);
const CONTAINERS: Column = text("Containers", "Names of the containers of the template.").wide();
const IMAGES: Column = text("Images", "Images of the containers of the template.").wide();
const SELECTOR: Column = text("Selector", "Which pods belong to it.").wide();
const DESIRED: Column = number("Desired", "The desired number of replicas.");
const CURRENT: Column = number("Current", "How many replicas there are.");

pub(super) const DEFAULT: &[Column] = &[NAME, Column { kind: "date", ..text("Created At", CREATED_TEXT) }];
pub(super) const CUSTOM: &[Column] = &[NAME, Column { kind: "date", ..AGE }];
pub(super) const CONFIG_MAPS: &[Column] = &[NAME, text("Data", DATA_TEXT), AGE];
pub(super) const SECRETS: &[Column] =
    &[NAME, text("Type", "What the secret is for."), text("Data", "How many entries it has."), AGE];
pub(super) const PODS: &[Column] = &[
    NAME,
    text("Ready", "Ready containers of all containers."),
    text("Status", "What the containers of the pod are doing."),
    text("Restarts", "How often containers were restarted, and when last."),
    AGE,
    text("IP", "The pod's address.").wide(),
    text("Node", "Where the pod runs.").wide(),
    text("Nominated Node", "Where the pod will run once preempted pods are gone.").wide(),
    text("Readiness Gates", "True readiness gates of all readiness gates.").wide(),
];
pub(super) const NODES: &[Column] = &[
    NAME,
    text("Status", "Whether the node is ready and takes pods."),
    text("Roles", "The roles in the node's labels."),
    AGE,
    text("Version", "The kubelet's version."),
    text("Internal-IP", "The first internal address.").wide(),
    text("External-IP", "The first external address.").wide(),
    text("OS-Image", "The operating system.").wide(),
    text("Kernel-Version", "The kernel, and the architecture.").wide(),
    text("Container-Runtime", "The container runtime.").wide(),
];
pub(super) const NAMESPACES: &[Column] = &[NAME, text("Status", "Active or Terminating."), AGE];
pub(super) const SERVICES: &[Column] = &[
    NAME,
    text("Type", "How the service is exposed."),
    text("Cluster-IP", "Its address inside the cluster."),
    text("External-IP", "Its addresses outside the cluster."),
    text("Port(s)", "Its ports, with the node port and protocol."),
    AGE,
    SELECTOR,
];
pub(super) const ENDPOINTS: &[Column] = &[NAME, text("Endpoints", "Addresses with ports."), AGE];
pub(super) const ENDPOINT_SLICES: &[Column] = &[
    NAME,
    text("AddressType", "IPv4, IPv6 or FQDN."),
    text("Ports", "The ports of every endpoint."),
    text("Endpoints", "The addresses."),
    AGE,
];
pub(super) const DEPLOYMENTS: &[Column] = &[
    NAME,
    text("Ready", "Ready replicas of wanted replicas."),
    text("Up-to-date", "Replicas of the current template."),
    text("Available", "Replicas that have been ready long enough."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
pub(super) const REPLICA_SETS: &[Column] = &[
    NAME,
    DESIRED,
    CURRENT,
    number("Ready", "How many replicas are ready."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
pub(super) const STATEFUL_SETS: &[Column] =
    &[NAME, text("Ready", "Ready replicas of wanted replicas."), AGE, CONTAINERS, IMAGES];
pub(super) const DAEMON_SETS: &[Column] = &[
    NAME,
    number("Desired", "How many nodes should run it."),
    number("Current", "How many of these nodes run it."),
    number("Ready", "On how many nodes it is ready."),
    number("Up-to-date", "On how many nodes it is of the current template."),
    number("Available", "On how many nodes it has been ready long enough."),
    text("Node Selector", "Which nodes should run it."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
pub(super) const JOBS: &[Column] = &[
    NAME,
    text("Status", "What the job is doing."),
    text("Completions", "Pods that succeeded of those that must."),
    text("Duration", "How long it ran, or has been running."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
pub(super) const CRON_JOBS: &[Column] = &[
    NAME,
    text("Schedule", "When it runs, in cron form."),
    text("Timezone", "The time zone of the schedule."),
    boolean("Suspend", "Whether it is paused."),
    number("Active", "How many jobs run now."),
    text("Last Schedule", "When a job was last started."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
pub(super) const EVENTS: &[Column] = &[
    text("Last Seen", "When it was seen last."),
    text("Type", "Normal or Warning."),
    text("Reason", "Why, in one word."),
    text("Object", "What it is about."),
    text("Subobject", "Which part of the object it is about.").wide(),
    text("Source", "The component that reports it.").wide(),
    text("Message", "What happened."),
    text("First Seen", "When it was seen first.").wide(),
    text("Count", "How often it was seen.").wide(),
    Column { priority: 1, ..NAME },
];
pub(super) const PERSISTENT_VOLUMES: &[Column] = &[
    NAME,
    text("Capacity", "How much it holds."),
    text("Access Modes", "How it can be mounted."),
    text("Reclaim Policy", "What happens to it after its claim."),
    text("Status", "Whether it is free, bound or released."),
    text("Claim", "The claim that it is bound to."),
    text("StorageClass", "The class it belongs to."),
    text("VolumeAttributesClass", "The class of its attributes."),
    text("Reason", "Why it failed."),
    AGE,
    text("VolumeMode", "Filesystem or Block.").wide(),
];
pub(super) const PERSISTENT_VOLUME_CLAIMS: &[Column] = &[
    NAME,
    text("Status", "Whether it is pending, bound or lost."),
    text("Volume", "The volume that it is bound to."),
    text("Capacity", "How much the volume holds."),
    text("Access Modes", "How the volume can be mounted."),
    text("StorageClass", "The class it asks for."),
    text("VolumeAttributesClass", "The class of its attributes."),
    AGE,
    text("VolumeMode", "Filesystem or Block.").wide(),
];
pub(super) const INGRESSES: &[Column] = &[
    NAME,
    text("Class", "Which controller serves it."),
    text("Hosts", "Host names that its rules match."),
    text("Address", "Where the load balancer listens."),
    text("Ports", "80, and 443 when it has TLS."),
    AGE,
];
pub(super) const LEASES: &[Column] = &[NAME, text("Holder", "The identity of the holder."), AGE];
pub(super) const AUTOSCALERS: &[Column] = &[
    NAME,
    text("Reference", "What it scales."),
    text("Targets", "Current value and target of its metrics."),
    text("MinPods", "The least replicas."),
    text("MaxPods", "The most replicas."),
    text("Replicas", "How many replicas there are."),
    AGE,
];

pub(super) const STORAGE_CLASSES: &[Column] = &[
    NAME,
    text("Provisioner", "The provisioner of its volumes."),
    text("ReclaimPolicy", "What happens to a volume after its claim."),
    text("VolumeBindingMode", "When volumes are made and bound."),
    text("AllowVolumeExpansion", "Whether a claim may ask for more later."),
    AGE,
];
pub(super) const VOLUME_ATTRIBUTES_CLASSES: &[Column] =
    &[NAME, text("DriverName", "The driver of the attributes."), AGE];
pub(super) const INGRESS_CLASSES: &[Column] = &[
    NAME,
    text("Controller", "Which controller serves it."),
    text("Parameters", "Where the controller's settings are."),
    AGE,
];
pub(super) const NETWORK_POLICIES: &[Column] = &[NAME, text("Pod-Selector", "Which pods it is about."), AGE];
pub(super) const PRIORITY_CLASSES: &[Column] = &[
    NAME,
    number("Value", "The priority: higher ones are scheduled first."),
    boolean("Global-Default", "Whether pods without a class have this one."),
    AGE,
    text("PreemptionPolicy", "Whether pods of lower priority make room."),
];
pub(super) const RUNTIME_CLASSES: &[Column] =
    &[NAME, text("Handler", "What the container runtime calls it."), AGE];
pub(super) const DISRUPTION_BUDGETS: &[Column] = &[
    NAME,
    text("Min Available", "How many pods must stay."),
    text("Max Unavailable", "How many pods may be away."),
    number("Allowed Disruptions", "How many pods may be evicted now."),
    AGE,
];
pub(super) const ROLE_BINDINGS: &[Column] = &[
    NAME,
    text("Role", "The role that is granted."),
    AGE,
    text("Users", "Users that have it.").wide(),
    text("Groups", "Groups that have it.").wide(),
    text("ServiceAccounts", "Service accounts that have it.").wide(),
];
pub(super) const SIGNING_REQUESTS: &[Column] = &[
    NAME,
    AGE,
    text("SignerName", "The requested signer."),
    text("Requestor", "The user that requests it."),
    text("RequestedDuration", "For how long."),
    text("Condition", "How far the request is."),
];
pub(super) const RESOURCE_QUOTAS: &[Column] = &[
    NAME,
    text("Request", "Used and allowed amounts, except of limits."),
    text("Limit", "The same for limits."),
    AGE,
];
pub(super) const API_SERVICES: &[Column] = &[
    NAME,
    text("Service", "The service that implements it."),
    text("Available", "Whether it can be reached."),
    AGE,
];
pub(super) const WEBHOOKS: &[Column] = &[NAME, number("Webhooks", "How many webhooks it has."), AGE];
pub(super) const CSI_NODES: &[Column] = &[NAME, number("Drivers", "How many drivers the node has."), AGE];
pub(super) const VOLUME_ATTACHMENTS: &[Column] = &[
    NAME,
    Column { format: "name", ..text("Attacher", "The driver that attaches it.") },
    text("PV", "Which volume."),
    text("Node", "To which node."),
    boolean("Attached", "Whether it is attached."),
    AGE,
];
pub(super) const POD_TEMPLATES: &[Column] = &[
    NAME,
    text("Containers", "Names of the containers of the template."),
    text("Images", "Images of the containers of the template."),
    text("Pod Labels", "The labels of its pods."),
];
pub(super) const CONTROLLER_REVISIONS: &[Column] = &[
    NAME,
    text("Controller", "The controller whose state it is."),
    text("Revision", "Which of its states."),
    AGE,
];
pub(super) const NAME_AND_AGE: &[Column] = &[NAME, AGE];
pub(super) const CSI_DRIVERS: &[Column] = &[
    NAME,
    boolean("AttachRequired", "Whether volumes of it must be attached."),
    boolean("PodInfoOnMount", "Whether it is told which pod mounts a volume."),
    boolean("StorageCapacity", "Whether the scheduler considers its capacity."),
    text("TokenRequests", "For whom it needs tokens of service accounts."),
    boolean("RequiresRepublish", "Whether its volumes are published again and again."),
    text("Modes", "Persistent, Ephemeral or both."),
    AGE,
];
/// Rows have a third cell, the age, without a column: this is how kube-apiserver 1.36 prints them.
pub(super) const IP_ADDRESSES: &[Column] = &[NAME, text("ParentRef", "What the address belongs to.")];
pub(super) const SERVICE_CIDRS: &[Column] =
    &[NAME, text("CIDRs", "The ranges that services get addresses from."), AGE];
pub(super) const LEASE_CANDIDATES: &[Column] = &[
    NAME,
    text("LeaseName", "The lease that it can hold."),
    text("BinaryVersion", "The version of its program."),
    text("EmulationVersion", "The version that it behaves like."),
    AGE,
];
const PARAM_KIND: Column = text("ParamKind", "The kind of its parameters.");
pub(super) const MUTATING_POLICIES: &[Column] =
    &[NAME, number("Mutations", "How many mutations it has."), PARAM_KIND, AGE];
pub(super) const VALIDATING_POLICIES: &[Column] =
    &[NAME, number("Validations", "How many validations it has."), PARAM_KIND, AGE];
pub(super) const POLICY_BINDINGS: &[Column] = &[
    NAME,
    text("PolicyName", "The policy that it puts into force."),
    text("ParamRef", "The parameters of the policy."),
    AGE,
];
pub(super) const FLOW_SCHEMAS: &[Column] = &[
    NAME,
    text("PriorityLevel", "The priority level of its requests."),
    text("MatchingPrecedence", "Which of several is tried first: the lower number."),
    text("DistinguisherMethod", "How requests are divided into flows."),
    AGE,
    text("MissingPL", "Whether its priority level does not exist."),
];
pub(super) const PRIORITY_LEVELS: &[Column] = &[
    NAME,
    text("Type", "Limited or Exempt."),
    text("NominalConcurrencyShares", "Its share of the requests that run at a time."),
    text("Queues", "How many queues it has."),
    text("HandSize", "How many queues a flow is given."),
    text("QueueLengthLimit", "How many requests a queue holds."),
    AGE,
];
pub(super) const STORAGE_VERSIONS: &[Column] = &[
    NAME,
    text("CommonEncodingVersion", "The version in which all servers store its objects."),
    text("StorageVersions", "The version in which each server stores them."),
    AGE,
];
pub(super) const RESOURCE_CLAIMS: &[Column] =
    &[NAME, text("State", "Pending, allocated, reserved, deleted."), AGE];
pub(super) const RESOURCE_SLICES: &[Column] = &[
    NAME,
    text("Node", "The node that has its devices."),
    text("Driver", "The driver of its devices."),
    text("Pool", "The pool that it is a part of."),
    AGE,
];
pub(super) const DEVICE_TAINT_RULES: &[Column] = &[
    NAME,
    text("Key", "The key of the taint."),
    text("Value", "The value of the taint."),
    text("Effect", "What happens to claims that do not tolerate it."),
    text("TimeAdded", "Since when."),
    AGE,
];
pub(super) const RESOURCE_POOL_STATUS_REQUESTS: &[Column] = &[
    NAME,
    text("Driver", "The driver whose pools are counted."),
    text("Total", "All devices."),
    text("Available", "Devices that can be allocated."),
    text("Allocated", "Devices that are allocated."),
    text("Unavailable", "Devices that cannot be allocated."),
    text("Errors", "Pools that could not be counted."),
    number("Pools", "How many pools there are."),
    text("Status", "Pending, Complete or Failed."),
    text("Completed", "When it was answered."),
];
