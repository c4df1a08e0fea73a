//! The table: by kind and path, because `ports` of a container and of a service are different lists.
//!
//! Members without a row merge in the common way. A list inside a list that is replaced needs no row.

use super::{Apply, Field, Key, Patch, Type};
use crate::api::printer::Printer;
use crate::api::resources::ApiResource;

/// The type of every object: its metadata.
pub static ANY: Type = Type { fields: &[METADATA] };

/// How objects of a resource merge.
#[must_use]
pub fn of(resource: &ApiResource) -> &'static Type {
    if resource.printer == Printer::Custom {
        return &ANY;
    }
    KINDS
        .iter()
        .find(|(group, kind, _)| *group == resource.group && *kind == resource.kind)
        .map_or(&ANY, |(_, _, of)| of)
}

static NOTHING: Type = Type::COMMON;

const NONE: &Type = &NOTHING;

const fn key(name: &'static str) -> Key {
    Key { name, default: None }
}

/// An object with special members.
const fn object(name: &'static str, of: &'static Type) -> Field {
    Field { name, patch: Patch::Common, apply: Apply::Common, of }
}

/// A list of objects, the same for both kinds of merge.
const fn keyed(name: &'static str, by: &'static str, keys: &'static [Key], of: &'static Type) -> Field {
    Field { name, patch: Patch::Keyed(by), apply: Apply::Keyed(keys), of }
}

/// A list that only server-side apply merges.
const fn applied(name: &'static str, keys: &'static [Key], of: &'static Type) -> Field {
    Field { name, patch: Patch::Common, apply: Apply::Keyed(keys), of }
}

/// A list of scalars that both kinds of merge treat as a set.
const fn set(name: &'static str) -> Field {
    Field { name, patch: Patch::Set, apply: Apply::Set, of: NONE }
}

/// A list of scalars that only server-side apply merges.
const fn applied_set(name: &'static str) -> Field {
    Field { name, patch: Patch::Common, apply: Apply::Set, of: NONE }
}

/// An object that is one value in server-side apply.
const fn atomic(name: &'static str) -> Field {
    Field { name, patch: Patch::Common, apply: Apply::Atomic, of: NONE }
}

const NAME: &[Key] = &[key("name")];
const TYPE: &[Key] = &[key("type")];
const IP: &[Key] = &[key("ip")];
const UID: &[Key] = &[key("uid")];
const TCP: Key = Key { name: "protocol", default: Some("TCP") };

const METADATA: Field = object("metadata", &OBJECT_META);

static OBJECT_META: Type = Type {
    fields: &[keyed("ownerReferences", "uid", UID, NONE), set("finalizers"), atomic("managedFields")],
};

/// `conditions` by type.
const CONDITIONS: Field = keyed("conditions", "type", TYPE, NONE);

static CONDITIONS_STATUS: Type = Type { fields: &[CONDITIONS] };

/// `conditions` of types without `patchStrategy`.
static APPLIED_CONDITIONS_STATUS: Type = Type { fields: &[applied("conditions", TYPE, NONE)] };

// Pods.

static ENV_SOURCE: Type = Type {
    fields: &[
        atomic("configMapKeyRef"),
        atomic("fieldRef"),
        atomic("fileKeyRef"),
        atomic("resourceFieldRef"),
        atomic("secretKeyRef"),
    ],
};

static ENV: Type = Type { fields: &[object("valueFrom", &ENV_SOURCE)] };

static RESOURCES: Type = Type { fields: &[applied("claims", NAME, NONE)] };

static CONTAINER: Type = Type {
    fields: &[
        keyed("env", "name", NAME, &ENV),
        keyed("ports", "containerPort", &[key("containerPort"), TCP], NONE),
        object("resources", &RESOURCES),
        keyed("volumeDevices", "devicePath", &[key("devicePath")], NONE),
        keyed("volumeMounts", "mountPath", &[key("mountPath")], NONE),
    ],
};

static SPREAD: Type = Type { fields: &[atomic("labelSelector")] };

static NODE_AFFINITY: Type = Type { fields: &[atomic("requiredDuringSchedulingIgnoredDuringExecution")] };

static AFFINITY: Type = Type { fields: &[object("nodeAffinity", &NODE_AFFINITY)] };

static CLAIM_SPEC: Type = Type { fields: &[atomic("dataSource"), atomic("selector")] };

static CLAIM_TEMPLATE: Type = Type { fields: &[METADATA, object("spec", &CLAIM_SPEC)] };

static EPHEMERAL: Type = Type { fields: &[object("volumeClaimTemplate", &CLAIM_TEMPLATE)] };

static WITH_SECRET: Type = Type { fields: &[atomic("secretRef")] };

static CSI_SOURCE: Type = Type { fields: &[atomic("nodePublishSecretRef")] };

static VOLUME: Type = Type {
    fields: &[
        object("cephfs", &WITH_SECRET),
        object("cinder", &WITH_SECRET),
        object("csi", &CSI_SOURCE),
        object("ephemeral", &EPHEMERAL),
        object("flexVolume", &WITH_SECRET),
        object("iscsi", &WITH_SECRET),
        object("rbd", &WITH_SECRET),
        object("scaleIO", &WITH_SECRET),
        object("storageos", &WITH_SECRET),
    ],
};

static POD_SPEC: Type = Type {
    fields: &[
        object("affinity", &AFFINITY),
        keyed("containers", "name", NAME, &CONTAINER),
        keyed("ephemeralContainers", "name", NAME, &CONTAINER),
        keyed("hostAliases", "ip", IP, NONE),
        keyed("imagePullSecrets", "name", NAME, NONE),
        keyed("initContainers", "name", NAME, &CONTAINER),
        atomic("nodeSelector"),
        keyed("resourceClaims", "name", NAME, NONE),
        object("resources", &RESOURCES),
        keyed("schedulingGates", "name", NAME, NONE),
        keyed(
            "topologySpreadConstraints",
            "topologyKey",
            &[key("topologyKey"), key("whenUnsatisfiable")],
            &SPREAD,
        ),
        keyed("volumes", "name", NAME, &VOLUME),
    ],
};

static POD_TEMPLATE: Type = Type { fields: &[METADATA, object("spec", &POD_SPEC)] };

static POD_STATUS: Type = Type {
    fields: &[
        CONDITIONS,
        keyed("hostIPs", "ip", IP, NONE),
        keyed("podIPs", "ip", IP, NONE),
        keyed("resourceClaimStatuses", "name", NAME, NONE),
    ],
};

static POD: Type = Type { fields: &[METADATA, object("spec", &POD_SPEC), object("status", &POD_STATUS)] };

static TEMPLATE_HOLDER: Type = Type { fields: &[METADATA, object("template", &POD_TEMPLATE)] };

// Workloads: a template, a selector that is one value, conditions.

static WORKLOAD_SPEC: Type = Type { fields: &[atomic("selector"), object("template", &POD_TEMPLATE)] };

static WORKLOAD: Type =
    Type { fields: &[METADATA, object("spec", &WORKLOAD_SPEC), object("status", &CONDITIONS_STATUS)] };

static UNCOUNTED: Type = Type { fields: &[applied_set("failed"), applied_set("succeeded")] };

static JOB_STATUS: Type = Type { fields: &[CONDITIONS, object("uncountedTerminatedPods", &UNCOUNTED)] };

static JOB: Type =
    Type { fields: &[METADATA, object("spec", &WORKLOAD_SPEC), object("status", &JOB_STATUS)] };

static JOB_TEMPLATE: Type = Type { fields: &[METADATA, object("spec", &WORKLOAD_SPEC)] };

static CRON_JOB_SPEC: Type = Type { fields: &[object("jobTemplate", &JOB_TEMPLATE)] };

static CRON_JOB: Type = Type { fields: &[METADATA, object("spec", &CRON_JOB_SPEC)] };

// The rest of the core group.

static SERVICE_SPEC: Type =
    Type { fields: &[keyed("ports", "port", &[key("port"), TCP], NONE), atomic("selector")] };

static SERVICE: Type =
    Type { fields: &[METADATA, object("spec", &SERVICE_SPEC), object("status", &CONDITIONS_STATUS)] };

static SERVICE_ACCOUNT: Type = Type { fields: &[METADATA, keyed("secrets", "name", NAME, NONE)] };

static NODE_SPEC: Type = Type { fields: &[set("podCIDRs")] };

static NODE_STATUS: Type = Type { fields: &[keyed("addresses", "type", TYPE, NONE), CONDITIONS] };

static NODE: Type = Type { fields: &[METADATA, object("spec", &NODE_SPEC), object("status", &NODE_STATUS)] };

static STATUS_ONLY: Type = Type { fields: &[METADATA, object("status", &CONDITIONS_STATUS)] };

static CLAIM: Type =
    Type { fields: &[METADATA, object("spec", &CLAIM_SPEC), object("status", &CONDITIONS_STATUS)] };

static VOLUME_NODE_AFFINITY: Type = Type { fields: &[atomic("required")] };

static PERSISTENT_VOLUME_SPEC: Type = Type { fields: &[object("nodeAffinity", &VOLUME_NODE_AFFINITY)] };

static PERSISTENT_VOLUME: Type = Type { fields: &[METADATA, object("spec", &PERSISTENT_VOLUME_SPEC)] };

static QUOTA_SPEC: Type = Type { fields: &[atomic("scopeSelector")] };

static QUOTA: Type = Type { fields: &[METADATA, object("spec", &QUOTA_SPEC)] };

static EVENT: Type = Type { fields: &[METADATA, atomic("involvedObject"), atomic("related")] };

// Other groups.

static DISRUPTION_SPEC: Type =
    Type { fields: &[Field { name: "selector", patch: Patch::Replace, apply: Apply::Atomic, of: NONE }] };

static DISRUPTION: Type =
    Type { fields: &[METADATA, object("spec", &DISRUPTION_SPEC), object("status", &CONDITIONS_STATUS)] };

static AUTOSCALER_SPEC: Type = Type { fields: &[atomic("scaleTargetRef")] };

static AUTOSCALER: Type =
    Type { fields: &[METADATA, object("spec", &AUTOSCALER_SPEC), object("status", &CONDITIONS_STATUS)] };

static POLICY_SPEC: Type = Type { fields: &[atomic("podSelector")] };

static NETWORK_POLICY: Type = Type { fields: &[METADATA, object("spec", &POLICY_SPEC)] };

static INGRESS_BACKEND_SERVICE: Type = Type { fields: &[atomic("port")] };

static INGRESS_BACKEND: Type =
    Type { fields: &[atomic("resource"), object("service", &INGRESS_BACKEND_SERVICE)] };

static INGRESS_SPEC: Type = Type { fields: &[object("defaultBackend", &INGRESS_BACKEND)] };

static INGRESS: Type = Type { fields: &[METADATA, object("spec", &INGRESS_SPEC)] };

static BINDING: Type = Type { fields: &[METADATA, atomic("roleRef")] };

static WEBHOOK: Type = Type {
    fields: &[
        keyed("matchConditions", "name", NAME, NONE),
        atomic("namespaceSelector"),
        atomic("objectSelector"),
    ],
};

static WEBHOOKS: Type = Type { fields: &[METADATA, keyed("webhooks", "name", NAME, &WEBHOOK)] };

static VALIDATING_POLICY_SPEC: Type = Type {
    fields: &[
        keyed("matchConditions", "name", NAME, NONE),
        atomic("matchConstraints"),
        atomic("paramKind"),
        keyed("variables", "name", NAME, NONE),
    ],
};

static VALIDATING_POLICY: Type = Type {
    fields: &[
        METADATA,
        object("spec", &VALIDATING_POLICY_SPEC),
        object("status", &APPLIED_CONDITIONS_STATUS),
    ],
};

static MUTATING_POLICY_SPEC: Type = Type {
    fields: &[keyed("matchConditions", "name", NAME, NONE), atomic("matchConstraints"), atomic("paramKind")],
};

static MUTATING_POLICY: Type = Type { fields: &[METADATA, object("spec", &MUTATING_POLICY_SPEC)] };

static POLICY_BINDING_SPEC: Type =
    Type { fields: &[atomic("matchResources"), atomic("paramRef"), applied_set("validationActions")] };

static POLICY_BINDING: Type = Type { fields: &[METADATA, object("spec", &POLICY_BINDING_SPEC)] };

static APPLIED_STATUS_ONLY: Type = Type { fields: &[METADATA, object("status", &APPLIED_CONDITIONS_STATUS)] };

static CSI_NODE_SPEC: Type = Type { fields: &[keyed("drivers", "name", NAME, NONE)] };

static CSI_NODE: Type = Type { fields: &[METADATA, object("spec", &CSI_NODE_SPEC)] };

static CSI_DRIVER_SPEC: Type = Type { fields: &[applied_set("volumeLifecycleModes")] };

static CSI_DRIVER: Type = Type { fields: &[METADATA, object("spec", &CSI_DRIVER_SPEC)] };

static CLAIMED_DEVICE: Type = Type { fields: &[applied("conditions", TYPE, NONE)] };

static RESOURCE_CLAIM_STATUS: Type = Type {
    fields: &[
        applied("devices", &[key("device"), key("driver"), key("pool"), SHARE], &CLAIMED_DEVICE),
        keyed("reservedFor", "uid", UID, NONE),
    ],
};

/// A device that is not shared has no `shareID`.
const SHARE: Key = Key { name: "shareID", default: Some("") };

static RESOURCE_CLAIM: Type = Type { fields: &[METADATA, object("status", &RESOURCE_CLAIM_STATUS)] };

const ADMISSION: &str = "admissionregistration.k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Group, kind, type. Kinds without a row are like [`ANY`].
static KINDS: &[(&str, &str, &Type)] = &[
    ("", "Event", &EVENT),
    ("", "Namespace", &STATUS_ONLY),
    ("", "Node", &NODE),
    ("", "PersistentVolume", &PERSISTENT_VOLUME),
    ("", "PersistentVolumeClaim", &CLAIM),
    ("", "Pod", &POD),
    ("", "PodTemplate", &TEMPLATE_HOLDER),
    ("", "ReplicationController", &WORKLOAD),
    ("", "ResourceQuota", &QUOTA),
    ("", "Service", &SERVICE),
    ("", "ServiceAccount", &SERVICE_ACCOUNT),
    ("apiregistration.k8s.io", "APIService", &STATUS_ONLY),
    ("apps", "DaemonSet", &WORKLOAD),
    ("apps", "Deployment", &WORKLOAD),
    ("apps", "ReplicaSet", &WORKLOAD),
    ("apps", "StatefulSet", &WORKLOAD),
    ("autoscaling", "HorizontalPodAutoscaler", &AUTOSCALER),
    ("batch", "CronJob", &CRON_JOB),
    ("batch", "Job", &JOB),
    ("certificates.k8s.io", "CertificateSigningRequest", &APPLIED_STATUS_ONLY),
    (NETWORKING, "Ingress", &INGRESS),
    (NETWORKING, "NetworkPolicy", &NETWORK_POLICY),
    (NETWORKING, "ServiceCIDR", &STATUS_ONLY),
    ("policy", "PodDisruptionBudget", &DISRUPTION),
    (RBAC, "ClusterRoleBinding", &BINDING),
    (RBAC, "RoleBinding", &BINDING),
    ("storage.k8s.io", "CSIDriver", &CSI_DRIVER),
    ("storage.k8s.io", "CSINode", &CSI_NODE),
    (ADMISSION, "MutatingAdmissionPolicy", &MUTATING_POLICY),
    (ADMISSION, "MutatingAdmissionPolicyBinding", &POLICY_BINDING),
    (ADMISSION, "MutatingWebhookConfiguration", &WEBHOOKS),
    (ADMISSION, "ValidatingAdmissionPolicy", &VALIDATING_POLICY),
    (ADMISSION, "ValidatingAdmissionPolicyBinding", &POLICY_BINDING),
    (ADMISSION, "ValidatingWebhookConfiguration", &WEBHOOKS),
    ("apiextensions.k8s.io", "CustomResourceDefinition", &APPLIED_STATUS_ONLY),
    ("resource.k8s.io", "ResourceClaim", &RESOURCE_CLAIM),
    (FLOW, "FlowSchema", &STATUS_ONLY),
    (FLOW, "PriorityLevelConfiguration", &STATUS_ONLY),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::resources::Registry;

    /// Every list that a strategic merge patch merges, as `Kind: path by key`, `*` for "each item". Written from the
    /// API types, not from the table above.
    const PATCHED: &str = "\
        Pod: spec.containers by name; Pod: spec.containers.*.ports by containerPort; \
        Pod: spec.containers.*.env by name; Pod: spec.containers.*.volumeMounts by mountPath; \
        Pod: spec.initContainers.*.volumeDevices by devicePath; Pod: spec.ephemeralContainers.*.env by name; \
        Pod: spec.volumes by name; Pod: spec.hostAliases by ip; Pod: spec.imagePullSecrets by name; \
        Pod: spec.topologySpreadConstraints by topologyKey; Pod: spec.schedulingGates by name; \
        Pod: spec.resourceClaims by name; Pod: status.conditions by type; Pod: status.podIPs by ip; \
        Pod: status.hostIPs by ip; Pod: status.resourceClaimStatuses by name; \
        Deployment: spec.template.spec.containers.*.ports by containerPort; \
        CronJob: spec.jobTemplate.spec.template.spec.containers.*.env by name; \
        ReplicationController: spec.template.spec.volumes by name; PodTemplate: template.spec.containers by name; \
        Service: spec.ports by port; Service: status.conditions by type; ServiceAccount: secrets by name; \
        Node: status.addresses by type; Node: status.conditions by type; Node: metadata.ownerReferences by uid; \
        ConfigMap: metadata.ownerReferences by uid; Widget: metadata.ownerReferences by uid; \
        MutatingWebhookConfiguration: webhooks by name; CSINode: spec.drivers by name; \
        ValidatingWebhookConfiguration: webhooks.*.matchConditions by name; \
        ValidatingAdmissionPolicy: spec.variables by name; ResourceClaim: status.reservedFor by uid; \
        HorizontalPodAutoscaler: status.conditions by type; Deployment: spec.template.metadata.finalizers by -; \
        Node: spec.podCIDRs by -; Pod: metadata.finalizers by -";

    /// Lists that are replaced as one.
    const REPLACED: &str = "\
        Pod: spec.tolerations; Pod: spec.containers.*.args; Pod: spec.containers.*.command; \
        Pod: spec.containers.*.envFrom; Node: spec.taints; ServiceAccount: imagePullSecrets; \
        Service: spec.loadBalancerSourceRanges; Deployment: spec.ports; Pod: spec.ports; Service: ports; \
        StatefulSet: spec.volumeClaimTemplates; CertificateSigningRequest: status.conditions; \
        CustomResourceDefinition: status.conditions; Pod: spec.containers.*.resources.claims; \
        Ingress: spec.rules; Role: rules; RoleBinding: subjects; Widget: spec.containers; Endpoints: subsets";

    fn find(kind: &str, path: &str) -> Option<&'static Field> {
        let mut registry = Registry::builtin();
        let widgets = r#"{"group":"example.com","version":"v1","plural":"widgets","kind":"Widget","scope":"namespaced"}"#;
        registry.add(&serde_json::from_str(widgets).expect("JSON")).expect("a name of its own");
        let resource = registry.iter().find(|resource| resource.kind == kind).expect(kind);
        let mut at = of(resource);
        let mut found = None;
        for name in path.split('.').filter(|name| *name != "*") {
            found = Some(at.field(name)?);
            at = found?.of;
        }
        found
    }

    #[test]
    fn lists_merge_where_the_types_say_so() {
        for row in PATCHED.split("; ") {
            let (kind, rest) = row.split_once(": ").expect(row);
            let (path, by) = rest.split_once(" by ").expect(row);
            let expected = if by == "-" { Patch::Set } else { Patch::Keyed(by) };
            let field = find(kind, path).unwrap_or_else(|| panic!("{row}: not in the table"));
            assert_eq!(field.patch, expected, "{row}");
            match (field.apply, by) {
                (Apply::Set, "-") => {}
                (Apply::Keyed(keys), by) => assert!(keys.iter().any(|key| key.name == by), "{row}"),
                (other, _) => panic!("{row}: {other:?}"),
            }
        }
        for row in REPLACED.split("; ") {
            let (kind, path) = row.split_once(": ").expect(row);
            assert!(find(kind, path).is_none_or(|field| field.patch == Patch::Common), "{row}");
        }
        assert_eq!(
            find("PodDisruptionBudget", "spec.selector").map(|field| field.patch),
            Some(Patch::Replace)
        );
    }

    #[test]
    fn every_row_is_a_kind_that_is_served() {
        let registry = Registry::builtin();
        for (group, kind, _) in KINDS {
            let served = |resource: &ApiResource| resource.group == *group && resource.kind == *kind;
            assert!(registry.iter().any(served), "{group} {kind}");
        }
    }

    #[test]
    fn keys_stand_in_the_order_of_their_names() {
        fn walk(of: &Type, depth: usize) {
            for field in of.fields {
                if let Apply::Keyed(keys) = field.apply {
                    assert!(keys.is_sorted_by_key(|key| key.name), "{}", field.name());
                }
                if depth > 0 {
                    walk(field.of, depth - 1);
                }
            }
        }
        for (_, _, of) in KINDS {
            walk(of, 12);
        }
    }
}
