//! Messages of core/v1 that make up a pod and its template.
//!
//! Field numbers and names: `generated.proto` and the Go types of `k8s.io/api` v0.35. Only tables.

use super::meta::{LABEL_SELECTOR, OBJECT_META};
use super::Shape::{Bool, Int, IntOrString, Msg, Quantity, Str, Time};
use super::{Message, inline, many, map, one, zero};

pub(super) static POD: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), one(2, "spec", Msg(&POD_SPEC)),
    one(3, "status", Msg(&POD_STATUS)),
]);
pub(super) static LOCAL_OBJECT_REFERENCE: Message = Message(&[one(1, "name", Str)]);
pub(super) static POD_SPEC: Message = Message(&[
    many(1, "volumes", Msg(&VOLUME)), many(20, "initContainers", Msg(&CONTAINER)),
    many(2, "containers", Msg(&CONTAINER)), many(34, "ephemeralContainers", Msg(&EPHEMERAL_CONTAINER)),
    zero(3, "restartPolicy", Str), one(4, "terminationGracePeriodSeconds", Int),
    one(5, "activeDeadlineSeconds", Int), zero(6, "dnsPolicy", Str), map(7, "nodeSelector", Str),
    zero(8, "serviceAccountName", Str), zero(9, "serviceAccount", Str),
    one(21, "automountServiceAccountToken", Bool), zero(10, "nodeName", Str),
    zero(11, "hostNetwork", Bool), zero(12, "hostPID", Bool), zero(13, "hostIPC", Bool),
    one(27, "shareProcessNamespace", Bool), one(14, "securityContext", Msg(&POD_SECURITY_CONTEXT)),
    many(15, "imagePullSecrets", Msg(&LOCAL_OBJECT_REFERENCE)), zero(16, "hostname", Str),
    zero(17, "subdomain", Str), one(18, "affinity", Msg(&AFFINITY)), zero(19, "schedulerName", Str),
    many(22, "tolerations", Msg(&TOLERATION)), many(23, "hostAliases", Msg(&HOST_ALIAS)),
    zero(24, "priorityClassName", Str), one(25, "priority", Int),
    one(26, "dnsConfig", Msg(&POD_DNS_CONFIG)), many(28, "readinessGates", Msg(&POD_READINESS_GATE)),
    one(29, "runtimeClassName", Str), one(30, "enableServiceLinks", Bool),
    one(31, "preemptionPolicy", Str), map(32, "overhead", Quantity),
    many(33, "topologySpreadConstraints", Msg(&TOPOLOGY_SPREAD_CONSTRAINT)),
    one(35, "setHostnameAsFQDN", Bool), one(36, "os", Msg(&POD_OS)), one(37, "hostUsers", Bool),
    many(38, "schedulingGates", Msg(&POD_SCHEDULING_GATE)),
    many(39, "resourceClaims", Msg(&POD_RESOURCE_CLAIM)),
    one(40, "resources", Msg(&RESOURCE_REQUIREMENTS)), one(41, "hostnameOverride", Str),
    one(42, "workloadRef", Msg(&WORKLOAD_REFERENCE)),
]);
pub(super) static POD_STATUS: Message = Message(&[
    zero(17, "observedGeneration", Int), zero(1, "phase", Str), many(2, "conditions", Msg(&POD_CONDITION)),
    zero(3, "message", Str), zero(4, "reason", Str), zero(11, "nominatedNodeName", Str),
    zero(5, "hostIP", Str), many(16, "hostIPs", Msg(&HOST_IP)), zero(6, "podIP", Str),
    many(12, "podIPs", Msg(&POD_IP)), one(7, "startTime", Time),
    many(10, "initContainerStatuses", Msg(&CONTAINER_STATUS)),
    many(8, "containerStatuses", Msg(&CONTAINER_STATUS)), zero(9, "qosClass", Str),
    many(13, "ephemeralContainerStatuses", Msg(&CONTAINER_STATUS)), zero(14, "resize", Str),
    many(15, "resourceClaimStatuses", Msg(&POD_RESOURCE_CLAIM_STATUS)),
    one(18, "extendedResourceClaimStatus", Msg(&POD_EXTENDED_RESOURCE_CLAIM_STATUS)),
    map(19, "allocatedResources", Quantity), one(20, "resources", Msg(&RESOURCE_REQUIREMENTS)),
]);
pub(super) static VOLUME: Message = Message(&[one(1, "name", Str), inline(2, Msg(&VOLUME_SOURCE))]);
pub(super) static CONTAINER: Message = Message(&[
    one(1, "name", Str), zero(2, "image", Str), many(3, "command", Str), many(4, "args", Str),
    zero(5, "workingDir", Str), many(6, "ports", Msg(&CONTAINER_PORT)),
    many(19, "envFrom", Msg(&ENV_FROM_SOURCE)), many(7, "env", Msg(&ENV_VAR)),
    one(8, "resources", Msg(&RESOURCE_REQUIREMENTS)),
    many(23, "resizePolicy", Msg(&CONTAINER_RESIZE_POLICY)), one(24, "restartPolicy", Str),
    many(25, "restartPolicyRules", Msg(&CONTAINER_RESTART_RULE)),
    many(9, "volumeMounts", Msg(&VOLUME_MOUNT)), many(21, "volumeDevices", Msg(&VOLUME_DEVICE)),
    one(10, "livenessProbe", Msg(&PROBE)), one(11, "readinessProbe", Msg(&PROBE)),
    one(22, "startupProbe", Msg(&PROBE)), one(12, "lifecycle", Msg(&LIFECYCLE)),
    zero(13, "terminationMessagePath", Str), zero(20, "terminationMessagePolicy", Str),
    zero(14, "imagePullPolicy", Str), one(15, "securityContext", Msg(&SECURITY_CONTEXT)),
    zero(16, "stdin", Bool), zero(17, "stdinOnce", Bool), zero(18, "tty", Bool),
]);
pub(super) static EPHEMERAL_CONTAINER: Message = Message(&[
    inline(1, Msg(&CONTAINER)), zero(2, "targetContainerName", Str),
]);
pub(super) static POD_SECURITY_CONTEXT: Message = Message(&[
    one(1, "seLinuxOptions", Msg(&SE_LINUX_OPTIONS)),
    one(8, "windowsOptions", Msg(&WINDOWS_SECURITY_CONTEXT_OPTIONS)), one(2, "runAsUser", Int),
    one(6, "runAsGroup", Int), one(3, "runAsNonRoot", Bool), many(4, "supplementalGroups", Int),
    one(12, "supplementalGroupsPolicy", Str), one(5, "fsGroup", Int), many(7, "sysctls", Msg(&SYSCTL)),
    one(9, "fsGroupChangePolicy", Str), one(10, "seccompProfile", Msg(&SECCOMP_PROFILE)),
    one(11, "appArmorProfile", Msg(&APP_ARMOR_PROFILE)), one(13, "seLinuxChangePolicy", Str),
]);
pub(super) static AFFINITY: Message = Message(&[
    one(1, "nodeAffinity", Msg(&NODE_AFFINITY)), one(2, "podAffinity", Msg(&POD_AFFINITY)),
    one(3, "podAntiAffinity", Msg(&POD_ANTI_AFFINITY)),
]);
pub(super) static TOLERATION: Message = Message(&[
    zero(1, "key", Str), zero(2, "operator", Str), zero(3, "value", Str), zero(4, "effect", Str),
    one(5, "tolerationSeconds", Int),
]);
pub(super) static HOST_ALIAS: Message = Message(&[one(1, "ip", Str), many(2, "hostnames", Str)]);
pub(super) static POD_DNS_CONFIG: Message = Message(&[
    many(1, "nameservers", Str), many(2, "searches", Str), many(3, "options", Msg(&POD_DNS_CONFIG_OPTION)),
]);
pub(super) static POD_READINESS_GATE: Message = Message(&[one(1, "conditionType", Str)]);
pub(super) static TOPOLOGY_SPREAD_CONSTRAINT: Message = Message(&[
    one(1, "maxSkew", Int), one(2, "topologyKey", Str), one(3, "whenUnsatisfiable", Str),
    one(4, "labelSelector", Msg(&LABEL_SELECTOR)), one(5, "minDomains", Int),
    one(6, "nodeAffinityPolicy", Str), one(7, "nodeTaintsPolicy", Str), many(8, "matchLabelKeys", Str),
]);
pub(super) static POD_OS: Message = Message(&[one(1, "name", Str)]);
pub(super) static POD_SCHEDULING_GATE: Message = Message(&[one(1, "name", Str)]);
pub(super) static POD_RESOURCE_CLAIM: Message = Message(&[
    one(1, "name", Str), one(3, "resourceClaimName", Str), one(4, "resourceClaimTemplateName", Str),
]);
pub(super) static RESOURCE_REQUIREMENTS: Message = Message(&[
    map(1, "limits", Quantity), map(2, "requests", Quantity), many(3, "claims", Msg(&RESOURCE_CLAIM)),
]);
pub(super) static WORKLOAD_REFERENCE: Message = Message(&[
    one(1, "name", Str), one(2, "podGroup", Str), zero(3, "podGroupReplicaKey", Str),
]);
pub(super) static POD_CONDITION: Message = Message(&[
    one(1, "type", Str), zero(7, "observedGeneration", Int), one(2, "status", Str),
    one(3, "lastProbeTime", Time), one(4, "lastTransitionTime", Time), zero(5, "reason", Str),
    zero(6, "message", Str),
]);
pub(super) static HOST_IP: Message = Message(&[one(1, "ip", Str)]);
pub(super) static POD_IP: Message = Message(&[one(1, "ip", Str)]);
pub(super) static CONTAINER_STATUS: Message = Message(&[
    one(1, "name", Str), one(2, "state", Msg(&CONTAINER_STATE)),
    one(3, "lastState", Msg(&CONTAINER_STATE)), one(4, "ready", Bool), one(5, "restartCount", Int),
    one(6, "image", Str), one(7, "imageID", Str), zero(8, "containerID", Str), one(9, "started", Bool),
    map(10, "allocatedResources", Quantity), one(11, "resources", Msg(&RESOURCE_REQUIREMENTS)),
    many(12, "volumeMounts", Msg(&VOLUME_MOUNT_STATUS)), one(13, "user", Msg(&CONTAINER_USER)),
    many(14, "allocatedResourcesStatus", Msg(&RESOURCE_STATUS)), one(15, "stopSignal", Str),
]);
pub(super) static POD_RESOURCE_CLAIM_STATUS: Message = Message(&[
    one(1, "name", Str), one(2, "resourceClaimName", Str),
]);
pub(super) static POD_EXTENDED_RESOURCE_CLAIM_STATUS: Message = Message(&[
    many(1, "requestMappings", Msg(&CONTAINER_EXTENDED_RESOURCE_REQUEST)),
    one(2, "resourceClaimName", Str),
]);
pub(super) static VOLUME_SOURCE: Message = Message(&[
    one(1, "hostPath", Msg(&HOST_PATH_VOLUME_SOURCE)), one(2, "emptyDir", Msg(&EMPTY_DIR_VOLUME_SOURCE)),
    one(6, "secret", Msg(&SECRET_VOLUME_SOURCE)), one(7, "nfs", Msg(&NFS_VOLUME_SOURCE)),
    one(8, "iscsi", Msg(&ISCSI_VOLUME_SOURCE)),
    one(10, "persistentVolumeClaim", Msg(&PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE)),
    one(16, "downwardAPI", Msg(&DOWNWARD_API_VOLUME_SOURCE)),
    one(19, "configMap", Msg(&CONFIG_MAP_VOLUME_SOURCE)),
    one(26, "projected", Msg(&PROJECTED_VOLUME_SOURCE)), one(28, "csi", Msg(&CSI_VOLUME_SOURCE)),
    one(29, "ephemeral", Msg(&EPHEMERAL_VOLUME_SOURCE)), one(30, "image", Msg(&IMAGE_VOLUME_SOURCE)),
]);
pub(super) static CONTAINER_PORT: Message = Message(&[
    zero(1, "name", Str), zero(2, "hostPort", Int), one(3, "containerPort", Int), zero(4, "protocol", Str),
    zero(5, "hostIP", Str),
]);
pub(super) static ENV_FROM_SOURCE: Message = Message(&[
    zero(1, "prefix", Str), one(2, "configMapRef", Msg(&CONFIG_MAP_ENV_SOURCE)),
    one(3, "secretRef", Msg(&SECRET_ENV_SOURCE)),
]);
pub(super) static ENV_VAR: Message = Message(&[
    one(1, "name", Str), zero(2, "value", Str), one(3, "valueFrom", Msg(&ENV_VAR_SOURCE)),
]);
pub(super) static CONTAINER_RESIZE_POLICY: Message = Message(&[
    one(1, "resourceName", Str), one(2, "restartPolicy", Str),
]);
pub(super) static CONTAINER_RESTART_RULE: Message = Message(&[
    one(1, "action", Str), one(2, "exitCodes", Msg(&CONTAINER_RESTART_RULE_ON_EXIT_CODES)),
]);
pub(super) static VOLUME_MOUNT: Message = Message(&[
    one(1, "name", Str), zero(2, "readOnly", Bool), one(7, "recursiveReadOnly", Str),
    one(3, "mountPath", Str), zero(4, "subPath", Str), one(5, "mountPropagation", Str),
    zero(6, "subPathExpr", Str),
]);
pub(super) static VOLUME_DEVICE: Message = Message(&[one(1, "name", Str), one(2, "devicePath", Str)]);
pub(super) static PROBE: Message = Message(&[
    inline(1, Msg(&PROBE_HANDLER)), zero(2, "initialDelaySeconds", Int), zero(3, "timeoutSeconds", Int),
    zero(4, "periodSeconds", Int), zero(5, "successThreshold", Int), zero(6, "failureThreshold", Int),
    one(7, "terminationGracePeriodSeconds", Int),
]);
pub(super) static LIFECYCLE: Message = Message(&[
    one(1, "postStart", Msg(&LIFECYCLE_HANDLER)), one(2, "preStop", Msg(&LIFECYCLE_HANDLER)),
    one(3, "stopSignal", Str),
]);
pub(super) static SECURITY_CONTEXT: Message = Message(&[
    one(1, "capabilities", Msg(&CAPABILITIES)), one(2, "privileged", Bool),
    one(3, "seLinuxOptions", Msg(&SE_LINUX_OPTIONS)),
    one(10, "windowsOptions", Msg(&WINDOWS_SECURITY_CONTEXT_OPTIONS)), one(4, "runAsUser", Int),
    one(8, "runAsGroup", Int), one(5, "runAsNonRoot", Bool), one(6, "readOnlyRootFilesystem", Bool),
    one(7, "allowPrivilegeEscalation", Bool), one(9, "procMount", Str),
    one(11, "seccompProfile", Msg(&SECCOMP_PROFILE)), one(12, "appArmorProfile", Msg(&APP_ARMOR_PROFILE)),
]);
pub(super) static SE_LINUX_OPTIONS: Message = Message(&[
    zero(1, "user", Str), zero(2, "role", Str), zero(3, "type", Str), zero(4, "level", Str),
]);
pub(super) static WINDOWS_SECURITY_CONTEXT_OPTIONS: Message = Message(&[
    one(1, "gmsaCredentialSpecName", Str), one(2, "gmsaCredentialSpec", Str), one(3, "runAsUserName", Str),
    one(4, "hostProcess", Bool),
]);
pub(super) static SYSCTL: Message = Message(&[one(1, "name", Str), one(2, "value", Str)]);
pub(super) static SECCOMP_PROFILE: Message = Message(&[
    one(1, "type", Str), one(2, "localhostProfile", Str),
]);
pub(super) static APP_ARMOR_PROFILE: Message = Message(&[
    one(1, "type", Str), one(2, "localhostProfile", Str),
]);
pub(super) static NODE_AFFINITY: Message = Message(&[
    one(1, "requiredDuringSchedulingIgnoredDuringExecution", Msg(&NODE_SELECTOR)),
    many(2, "preferredDuringSchedulingIgnoredDuringExecution", Msg(&PREFERRED_SCHEDULING_TERM)),
]);
pub(super) static POD_AFFINITY: Message = Message(&[
    many(1, "requiredDuringSchedulingIgnoredDuringExecution", Msg(&POD_AFFINITY_TERM)),
    many(2, "preferredDuringSchedulingIgnoredDuringExecution", Msg(&WEIGHTED_POD_AFFINITY_TERM)),
]);
pub(super) static POD_ANTI_AFFINITY: Message = Message(&[
    many(1, "requiredDuringSchedulingIgnoredDuringExecution", Msg(&POD_AFFINITY_TERM)),
    many(2, "preferredDuringSchedulingIgnoredDuringExecution", Msg(&WEIGHTED_POD_AFFINITY_TERM)),
]);
pub(super) static POD_DNS_CONFIG_OPTION: Message = Message(&[zero(1, "name", Str), one(2, "value", Str)]);
pub(super) static RESOURCE_CLAIM: Message = Message(&[one(1, "name", Str), zero(2, "request", Str)]);
pub(super) static CONTAINER_STATE: Message = Message(&[
    one(1, "waiting", Msg(&CONTAINER_STATE_WAITING)), one(2, "running", Msg(&CONTAINER_STATE_RUNNING)),
    one(3, "terminated", Msg(&CONTAINER_STATE_TERMINATED)),
]);
pub(super) static VOLUME_MOUNT_STATUS: Message = Message(&[
    one(1, "name", Str), one(2, "mountPath", Str), zero(3, "readOnly", Bool),
    one(4, "recursiveReadOnly", Str),
]);
pub(super) static CONTAINER_USER: Message = Message(&[one(1, "linux", Msg(&LINUX_CONTAINER_USER))]);
pub(super) static RESOURCE_STATUS: Message = Message(&[
    one(1, "name", Str), many(2, "resources", Msg(&RESOURCE_HEALTH)),
]);
pub(super) static CONTAINER_EXTENDED_RESOURCE_REQUEST: Message = Message(&[
    one(1, "containerName", Str), one(2, "resourceName", Str), one(3, "requestName", Str),
]);
pub(super) static TYPED_LOCAL_OBJECT_REFERENCE: Message = Message(&[
    one(1, "apiGroup", Str), one(2, "kind", Str), one(3, "name", Str),
]);
pub(super) static HOST_PATH_VOLUME_SOURCE: Message = Message(&[one(1, "path", Str), one(2, "type", Str)]);
pub(super) static EMPTY_DIR_VOLUME_SOURCE: Message = Message(&[
    zero(1, "medium", Str), one(2, "sizeLimit", Quantity),
]);
pub(super) static SECRET_VOLUME_SOURCE: Message = Message(&[
    zero(1, "secretName", Str), many(2, "items", Msg(&KEY_TO_PATH)), one(3, "defaultMode", Int),
    one(4, "optional", Bool),
]);
pub(super) static NFS_VOLUME_SOURCE: Message = Message(&[
    one(1, "server", Str), one(2, "path", Str), zero(3, "readOnly", Bool),
]);
pub(super) static ISCSI_VOLUME_SOURCE: Message = Message(&[
    one(1, "targetPortal", Str), one(2, "iqn", Str), one(3, "lun", Int), zero(4, "iscsiInterface", Str),
    zero(5, "fsType", Str), zero(6, "readOnly", Bool), many(7, "portals", Str),
    zero(8, "chapAuthDiscovery", Bool), zero(11, "chapAuthSession", Bool),
    one(10, "secretRef", Msg(&LOCAL_OBJECT_REFERENCE)), one(12, "initiatorName", Str),
]);
pub(super) static PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE: Message = Message(&[
    one(1, "claimName", Str), zero(2, "readOnly", Bool),
]);
pub(super) static DOWNWARD_API_VOLUME_SOURCE: Message = Message(&[
    many(1, "items", Msg(&DOWNWARD_API_VOLUME_FILE)), one(2, "defaultMode", Int),
]);
pub(super) static CONFIG_MAP_VOLUME_SOURCE: Message = Message(&[
    inline(1, Msg(&LOCAL_OBJECT_REFERENCE)), many(2, "items", Msg(&KEY_TO_PATH)),
    one(3, "defaultMode", Int), one(4, "optional", Bool),
]);
pub(super) static PROJECTED_VOLUME_SOURCE: Message = Message(&[
    many(1, "sources", Msg(&VOLUME_PROJECTION)), one(2, "defaultMode", Int),
]);
pub(super) static CSI_VOLUME_SOURCE: Message = Message(&[
    one(1, "driver", Str), one(2, "readOnly", Bool), one(3, "fsType", Str),
    map(4, "volumeAttributes", Str), one(5, "nodePublishSecretRef", Msg(&LOCAL_OBJECT_REFERENCE)),
]);
pub(super) static EPHEMERAL_VOLUME_SOURCE: Message = Message(&[
    one(1, "volumeClaimTemplate", Msg(&PERSISTENT_VOLUME_CLAIM_TEMPLATE)),
]);
pub(super) static IMAGE_VOLUME_SOURCE: Message = Message(&[
    zero(1, "reference", Str), zero(2, "pullPolicy", Str),
]);
pub(super) static CONFIG_MAP_ENV_SOURCE: Message = Message(&[
    inline(1, Msg(&LOCAL_OBJECT_REFERENCE)), one(2, "optional", Bool),
]);
pub(super) static SECRET_ENV_SOURCE: Message = Message(&[
    inline(1, Msg(&LOCAL_OBJECT_REFERENCE)), one(2, "optional", Bool),
]);
pub(super) static ENV_VAR_SOURCE: Message = Message(&[
    one(1, "fieldRef", Msg(&OBJECT_FIELD_SELECTOR)),
    one(2, "resourceFieldRef", Msg(&RESOURCE_FIELD_SELECTOR)),
    one(3, "configMapKeyRef", Msg(&CONFIG_MAP_KEY_SELECTOR)),
    one(4, "secretKeyRef", Msg(&SECRET_KEY_SELECTOR)), one(5, "fileKeyRef", Msg(&FILE_KEY_SELECTOR)),
]);
pub(super) static CONTAINER_RESTART_RULE_ON_EXIT_CODES: Message = Message(&[
    one(1, "operator", Str), many(2, "values", Int),
]);
pub(super) static PROBE_HANDLER: Message = Message(&[
    one(1, "exec", Msg(&EXEC_ACTION)), one(2, "httpGet", Msg(&HTTP_GET_ACTION)),
    one(3, "tcpSocket", Msg(&TCP_SOCKET_ACTION)), one(4, "grpc", Msg(&GRPC_ACTION)),
]);
pub(super) static LIFECYCLE_HANDLER: Message = Message(&[
    one(1, "exec", Msg(&EXEC_ACTION)), one(2, "httpGet", Msg(&HTTP_GET_ACTION)),
    one(3, "tcpSocket", Msg(&TCP_SOCKET_ACTION)), one(4, "sleep", Msg(&SLEEP_ACTION)),
]);
pub(super) static CAPABILITIES: Message = Message(&[many(1, "add", Str), many(2, "drop", Str)]);
pub(super) static NODE_SELECTOR: Message = Message(&[
    many(1, "nodeSelectorTerms", Msg(&NODE_SELECTOR_TERM)),
]);
pub(super) static PREFERRED_SCHEDULING_TERM: Message = Message(&[
    one(1, "weight", Int), one(2, "preference", Msg(&NODE_SELECTOR_TERM)),
]);
pub(super) static POD_AFFINITY_TERM: Message = Message(&[
    one(1, "labelSelector", Msg(&LABEL_SELECTOR)), many(2, "namespaces", Str), one(3, "topologyKey", Str),
    one(4, "namespaceSelector", Msg(&LABEL_SELECTOR)), many(5, "matchLabelKeys", Str),
    many(6, "mismatchLabelKeys", Str),
]);
pub(super) static WEIGHTED_POD_AFFINITY_TERM: Message = Message(&[
    one(1, "weight", Int), one(2, "podAffinityTerm", Msg(&POD_AFFINITY_TERM)),
]);
pub(super) static CONTAINER_STATE_WAITING: Message = Message(&[
    zero(1, "reason", Str), zero(2, "message", Str),
]);
pub(super) static CONTAINER_STATE_RUNNING: Message = Message(&[one(1, "startedAt", Time)]);
pub(super) static CONTAINER_STATE_TERMINATED: Message = Message(&[
    one(1, "exitCode", Int), zero(2, "signal", Int), zero(3, "reason", Str), zero(4, "message", Str),
    one(5, "startedAt", Time), one(6, "finishedAt", Time), zero(7, "containerID", Str),
]);
pub(super) static LINUX_CONTAINER_USER: Message = Message(&[
    one(1, "uid", Int), one(2, "gid", Int), many(3, "supplementalGroups", Int),
]);
pub(super) static RESOURCE_HEALTH: Message = Message(&[
    one(1, "resourceID", Str), zero(2, "health", Str),
]);
pub(super) static KEY_TO_PATH: Message = Message(&[
    one(1, "key", Str), one(2, "path", Str), one(3, "mode", Int),
]);
pub(super) static DOWNWARD_API_VOLUME_FILE: Message = Message(&[
    one(1, "path", Str), one(2, "fieldRef", Msg(&OBJECT_FIELD_SELECTOR)),
    one(3, "resourceFieldRef", Msg(&RESOURCE_FIELD_SELECTOR)), one(4, "mode", Int),
]);
pub(super) static VOLUME_PROJECTION: Message = Message(&[
    one(1, "secret", Msg(&SECRET_PROJECTION)), one(2, "downwardAPI", Msg(&DOWNWARD_API_PROJECTION)),
    one(3, "configMap", Msg(&CONFIG_MAP_PROJECTION)),
    one(4, "serviceAccountToken", Msg(&SERVICE_ACCOUNT_TOKEN_PROJECTION)),
    one(5, "clusterTrustBundle", Msg(&CLUSTER_TRUST_BUNDLE_PROJECTION)),
    one(6, "podCertificate", Msg(&POD_CERTIFICATE_PROJECTION)),
]);
pub(super) static PERSISTENT_VOLUME_CLAIM_TEMPLATE: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), one(2, "spec", Msg(&PERSISTENT_VOLUME_CLAIM_SPEC)),
]);
pub(super) static OBJECT_FIELD_SELECTOR: Message = Message(&[
    zero(1, "apiVersion", Str), one(2, "fieldPath", Str),
]);
pub(super) static RESOURCE_FIELD_SELECTOR: Message = Message(&[
    zero(1, "containerName", Str), one(2, "resource", Str), one(3, "divisor", Quantity),
]);
pub(super) static CONFIG_MAP_KEY_SELECTOR: Message = Message(&[
    inline(1, Msg(&LOCAL_OBJECT_REFERENCE)), one(2, "key", Str), one(3, "optional", Bool),
]);
pub(super) static SECRET_KEY_SELECTOR: Message = Message(&[
    inline(1, Msg(&LOCAL_OBJECT_REFERENCE)), one(2, "key", Str), one(3, "optional", Bool),
]);
pub(super) static FILE_KEY_SELECTOR: Message = Message(&[
    one(1, "volumeName", Str), one(2, "path", Str), one(3, "key", Str), one(4, "optional", Bool),
]);
pub(super) static EXEC_ACTION: Message = Message(&[many(1, "command", Str)]);
pub(super) static HTTP_GET_ACTION: Message = Message(&[
    zero(1, "path", Str), one(2, "port", IntOrString), zero(3, "host", Str), zero(4, "scheme", Str),
    many(5, "httpHeaders", Msg(&HTTP_HEADER)),
]);
pub(super) static TCP_SOCKET_ACTION: Message = Message(&[
    one(1, "port", IntOrString), zero(2, "host", Str),
]);
pub(super) static GRPC_ACTION: Message = Message(&[one(1, "port", Int), zero(2, "service", Str)]);
pub(super) static SLEEP_ACTION: Message = Message(&[one(1, "seconds", Int)]);
pub(super) static NODE_SELECTOR_TERM: Message = Message(&[
    many(1, "matchExpressions", Msg(&NODE_SELECTOR_REQUIREMENT)),
    many(2, "matchFields", Msg(&NODE_SELECTOR_REQUIREMENT)),
]);
pub(super) static SECRET_PROJECTION: Message = Message(&[
    inline(1, Msg(&LOCAL_OBJECT_REFERENCE)), many(2, "items", Msg(&KEY_TO_PATH)), one(4, "optional", Bool),
]);
pub(super) static DOWNWARD_API_PROJECTION: Message = Message(&[
    many(1, "items", Msg(&DOWNWARD_API_VOLUME_FILE)),
]);
pub(super) static CONFIG_MAP_PROJECTION: Message = Message(&[
    inline(1, Msg(&LOCAL_OBJECT_REFERENCE)), many(2, "items", Msg(&KEY_TO_PATH)), one(4, "optional", Bool),
]);
pub(super) static SERVICE_ACCOUNT_TOKEN_PROJECTION: Message = Message(&[
    zero(1, "audience", Str), one(2, "expirationSeconds", Int), one(3, "path", Str),
]);
pub(super) static CLUSTER_TRUST_BUNDLE_PROJECTION: Message = Message(&[
    one(1, "name", Str), one(2, "signerName", Str), one(3, "labelSelector", Msg(&LABEL_SELECTOR)),
    one(5, "optional", Bool), one(4, "path", Str),
]);
pub(super) static POD_CERTIFICATE_PROJECTION: Message = Message(&[
    one(1, "signerName", Str), one(2, "keyType", Str), one(3, "maxExpirationSeconds", Int),
    zero(4, "credentialBundlePath", Str), zero(5, "keyPath", Str), zero(6, "certificateChainPath", Str),
    map(7, "userAnnotations", Str),
]);
pub(super) static PERSISTENT_VOLUME_CLAIM_SPEC: Message = Message(&[
    many(1, "accessModes", Str), one(4, "selector", Msg(&LABEL_SELECTOR)),
    one(2, "resources", Msg(&VOLUME_RESOURCE_REQUIREMENTS)), zero(3, "volumeName", Str),
    one(5, "storageClassName", Str), one(6, "volumeMode", Str),
    one(7, "dataSource", Msg(&TYPED_LOCAL_OBJECT_REFERENCE)),
    one(8, "dataSourceRef", Msg(&TYPED_OBJECT_REFERENCE)), one(9, "volumeAttributesClassName", Str),
]);
pub(super) static HTTP_HEADER: Message = Message(&[one(1, "name", Str), one(2, "value", Str)]);
pub(super) static NODE_SELECTOR_REQUIREMENT: Message = Message(&[
    one(1, "key", Str), one(2, "operator", Str), many(3, "values", Str),
]);
pub(super) static VOLUME_RESOURCE_REQUIREMENTS: Message = Message(&[
    map(1, "limits", Quantity), map(2, "requests", Quantity),
]);
pub(super) static TYPED_OBJECT_REFERENCE: Message = Message(&[
    one(1, "apiGroup", Str), one(2, "kind", Str), one(3, "name", Str), one(4, "namespace", Str),
]);
