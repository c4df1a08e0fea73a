//! Messages of the groups other than core.
//!
//! Field numbers and names: `generated.proto` and the Go types of `k8s.io/api` v0.35. Only tables.

use super::core::{OBJECT_REFERENCE, POD_TEMPLATE_SPEC};
use super::meta::{CONDITION, LABEL_SELECTOR, OBJECT_META};
use super::pod::TYPED_LOCAL_OBJECT_REFERENCE;
use super::Shape::{Bool, Int, IntOrString, MicroTime, Msg, Str, Time};
use super::{Message, inline, many, map, one, zero};

// apps/v1
pub(super) static DEPLOYMENT: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), one(2, "spec", Msg(&DEPLOYMENT_SPEC)),
    one(3, "status", Msg(&DEPLOYMENT_STATUS)),
]);
pub(super) static DEPLOYMENT_SPEC: Message = Message(&[
    one(1, "replicas", Int), one(2, "selector", Msg(&LABEL_SELECTOR)),
    one(3, "template", Msg(&POD_TEMPLATE_SPEC)), one(4, "strategy", Msg(&DEPLOYMENT_STRATEGY)),
    zero(5, "minReadySeconds", Int), one(6, "revisionHistoryLimit", Int), zero(7, "paused", Bool),
    one(9, "progressDeadlineSeconds", Int),
]);
pub(super) static DEPLOYMENT_STATUS: Message = Message(&[
    zero(1, "observedGeneration", Int), zero(2, "replicas", Int), zero(3, "updatedReplicas", Int),
    zero(7, "readyReplicas", Int), zero(4, "availableReplicas", Int), zero(5, "unavailableReplicas", Int),
    one(9, "terminatingReplicas", Int), many(6, "conditions", Msg(&DEPLOYMENT_CONDITION)),
    one(8, "collisionCount", Int),
]);
pub(super) static DEPLOYMENT_STRATEGY: Message = Message(&[
    zero(1, "type", Str), one(2, "rollingUpdate", Msg(&ROLLING_UPDATE_DEPLOYMENT)),
]);
pub(super) static DEPLOYMENT_CONDITION: Message = Message(&[
    one(1, "type", Str), one(2, "status", Str), one(6, "lastUpdateTime", Time),
    one(7, "lastTransitionTime", Time), zero(4, "reason", Str), zero(5, "message", Str),
]);
pub(super) static ROLLING_UPDATE_DEPLOYMENT: Message = Message(&[
    one(1, "maxUnavailable", IntOrString), one(2, "maxSurge", IntOrString),
]);

// batch/v1
pub(super) static JOB: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), one(2, "spec", Msg(&JOB_SPEC)),
    one(3, "status", Msg(&JOB_STATUS)),
]);
pub(super) static CRON_JOB: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), one(2, "spec", Msg(&CRON_JOB_SPEC)),
    one(3, "status", Msg(&CRON_JOB_STATUS)),
]);
pub(super) static JOB_SPEC: Message = Message(&[
    one(1, "parallelism", Int), one(2, "completions", Int), one(3, "activeDeadlineSeconds", Int),
    one(11, "podFailurePolicy", Msg(&POD_FAILURE_POLICY)), one(16, "successPolicy", Msg(&SUCCESS_POLICY)),
    one(7, "backoffLimit", Int), one(12, "backoffLimitPerIndex", Int), one(13, "maxFailedIndexes", Int),
    one(4, "selector", Msg(&LABEL_SELECTOR)), one(5, "manualSelector", Bool),
    one(6, "template", Msg(&POD_TEMPLATE_SPEC)), one(8, "ttlSecondsAfterFinished", Int),
    one(9, "completionMode", Str), one(10, "suspend", Bool), one(14, "podReplacementPolicy", Str),
    one(15, "managedBy", Str),
]);
pub(super) static JOB_STATUS: Message = Message(&[
    many(1, "conditions", Msg(&JOB_CONDITION)), one(2, "startTime", Time), one(3, "completionTime", Time),
    zero(4, "active", Int), zero(5, "succeeded", Int), zero(6, "failed", Int), one(11, "terminating", Int),
    zero(7, "completedIndexes", Str), one(10, "failedIndexes", Str),
    one(8, "uncountedTerminatedPods", Msg(&UNCOUNTED_TERMINATED_PODS)), one(9, "ready", Int),
]);
pub(super) static CRON_JOB_SPEC: Message = Message(&[
    one(1, "schedule", Str), one(8, "timeZone", Str), one(2, "startingDeadlineSeconds", Int),
    zero(3, "concurrencyPolicy", Str), one(4, "suspend", Bool),
    one(5, "jobTemplate", Msg(&JOB_TEMPLATE_SPEC)), one(6, "successfulJobsHistoryLimit", Int),
    one(7, "failedJobsHistoryLimit", Int),
]);
pub(super) static CRON_JOB_STATUS: Message = Message(&[
    many(1, "active", Msg(&OBJECT_REFERENCE)), one(4, "lastScheduleTime", Time),
    one(5, "lastSuccessfulTime", Time),
]);
pub(super) static POD_FAILURE_POLICY: Message = Message(&[
    many(1, "rules", Msg(&POD_FAILURE_POLICY_RULE)),
]);
pub(super) static SUCCESS_POLICY: Message = Message(&[many(1, "rules", Msg(&SUCCESS_POLICY_RULE))]);
pub(super) static JOB_CONDITION: Message = Message(&[
    one(1, "type", Str), one(2, "status", Str), one(3, "lastProbeTime", Time),
    one(4, "lastTransitionTime", Time), zero(5, "reason", Str), zero(6, "message", Str),
]);
pub(super) static UNCOUNTED_TERMINATED_PODS: Message = Message(&[
    many(1, "succeeded", Str), many(2, "failed", Str),
]);
pub(super) static JOB_TEMPLATE_SPEC: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), one(2, "spec", Msg(&JOB_SPEC)),
]);
pub(super) static POD_FAILURE_POLICY_RULE: Message = Message(&[
    one(1, "action", Str), one(2, "onExitCodes", Msg(&POD_FAILURE_POLICY_ON_EXIT_CODES_REQUIREMENT)),
    many(3, "onPodConditions", Msg(&POD_FAILURE_POLICY_ON_POD_CONDITIONS_PATTERN)),
]);
pub(super) static SUCCESS_POLICY_RULE: Message = Message(&[
    one(1, "succeededIndexes", Str), one(2, "succeededCount", Int),
]);
pub(super) static POD_FAILURE_POLICY_ON_EXIT_CODES_REQUIREMENT: Message = Message(&[
    one(1, "containerName", Str), one(2, "operator", Str), many(3, "values", Int),
]);
pub(super) static POD_FAILURE_POLICY_ON_POD_CONDITIONS_PATTERN: Message = Message(&[
    one(1, "type", Str), zero(2, "status", Str),
]);

// coordination/v1
pub(super) static LEASE: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), one(2, "spec", Msg(&LEASE_SPEC)),
]);
pub(super) static LEASE_SPEC: Message = Message(&[
    one(1, "holderIdentity", Str), one(2, "leaseDurationSeconds", Int), one(3, "acquireTime", MicroTime),
    one(4, "renewTime", MicroTime), one(5, "leaseTransitions", Int), one(6, "strategy", Str),
    one(7, "preferredHolder", Str),
]);

// networking/v1
pub(super) static INGRESS: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), one(2, "spec", Msg(&INGRESS_SPEC)),
    one(3, "status", Msg(&INGRESS_STATUS)),
]);
pub(super) static INGRESS_SPEC: Message = Message(&[
    one(4, "ingressClassName", Str), one(1, "defaultBackend", Msg(&INGRESS_BACKEND)),
    many(2, "tls", Msg(&INGRESS_TLS)), many(3, "rules", Msg(&INGRESS_RULE)),
]);
pub(super) static INGRESS_STATUS: Message = Message(&[
    one(1, "loadBalancer", Msg(&INGRESS_LOAD_BALANCER_STATUS)),
]);
pub(super) static INGRESS_BACKEND: Message = Message(&[
    one(4, "service", Msg(&INGRESS_SERVICE_BACKEND)),
    one(3, "resource", Msg(&TYPED_LOCAL_OBJECT_REFERENCE)),
]);
pub(super) static INGRESS_TLS: Message = Message(&[many(1, "hosts", Str), zero(2, "secretName", Str)]);
pub(super) static INGRESS_RULE: Message = Message(&[
    zero(1, "host", Str), inline(2, Msg(&INGRESS_RULE_VALUE)),
]);
pub(super) static INGRESS_LOAD_BALANCER_STATUS: Message = Message(&[
    many(1, "ingress", Msg(&INGRESS_LOAD_BALANCER_INGRESS)),
]);
pub(super) static INGRESS_SERVICE_BACKEND: Message = Message(&[
    one(1, "name", Str), one(2, "port", Msg(&SERVICE_BACKEND_PORT)),
]);
pub(super) static INGRESS_RULE_VALUE: Message = Message(&[one(1, "http", Msg(&HTTP_INGRESS_RULE_VALUE))]);
pub(super) static INGRESS_LOAD_BALANCER_INGRESS: Message = Message(&[
    zero(1, "ip", Str), zero(2, "hostname", Str), many(4, "ports", Msg(&INGRESS_PORT_STATUS)),
]);
pub(super) static SERVICE_BACKEND_PORT: Message = Message(&[
    zero(1, "name", Str), zero(2, "number", Int),
]);
pub(super) static HTTP_INGRESS_RULE_VALUE: Message = Message(&[
    many(1, "paths", Msg(&HTTP_INGRESS_PATH)),
]);
pub(super) static INGRESS_PORT_STATUS: Message = Message(&[
    one(1, "port", Int), one(2, "protocol", Str), one(3, "error", Str),
]);
pub(super) static HTTP_INGRESS_PATH: Message = Message(&[
    zero(1, "path", Str), one(3, "pathType", Str), one(2, "backend", Msg(&INGRESS_BACKEND)),
]);

// policy/v1
pub(super) static POD_DISRUPTION_BUDGET: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), one(2, "spec", Msg(&POD_DISRUPTION_BUDGET_SPEC)),
    one(3, "status", Msg(&POD_DISRUPTION_BUDGET_STATUS)),
]);
pub(super) static POD_DISRUPTION_BUDGET_SPEC: Message = Message(&[
    one(1, "minAvailable", IntOrString), one(2, "selector", Msg(&LABEL_SELECTOR)),
    one(3, "maxUnavailable", IntOrString), one(4, "unhealthyPodEvictionPolicy", Str),
]);
pub(super) static POD_DISRUPTION_BUDGET_STATUS: Message = Message(&[
    zero(1, "observedGeneration", Int), map(2, "disruptedPods", Time), one(3, "disruptionsAllowed", Int),
    one(4, "currentHealthy", Int), one(5, "desiredHealthy", Int), one(6, "expectedPods", Int),
    many(7, "conditions", Msg(&CONDITION)),
]);

// rbac/v1
pub(super) static ROLE: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), many(2, "rules", Msg(&POLICY_RULE)),
]);
pub(super) static ROLE_BINDING: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), many(2, "subjects", Msg(&SUBJECT)),
    one(3, "roleRef", Msg(&ROLE_REF)),
]);
pub(super) static CLUSTER_ROLE: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), many(2, "rules", Msg(&POLICY_RULE)),
    one(3, "aggregationRule", Msg(&AGGREGATION_RULE)),
]);
pub(super) static CLUSTER_ROLE_BINDING: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), many(2, "subjects", Msg(&SUBJECT)),
    one(3, "roleRef", Msg(&ROLE_REF)),
]);
pub(super) static POLICY_RULE: Message = Message(&[
    many(1, "verbs", Str), many(2, "apiGroups", Str), many(3, "resources", Str),
    many(4, "resourceNames", Str), many(5, "nonResourceURLs", Str),
]);
pub(super) static SUBJECT: Message = Message(&[
    one(1, "kind", Str), zero(2, "apiGroup", Str), one(3, "name", Str), zero(4, "namespace", Str),
]);
pub(super) static ROLE_REF: Message = Message(&[
    one(1, "apiGroup", Str), one(2, "kind", Str), one(3, "name", Str),
]);
pub(super) static AGGREGATION_RULE: Message = Message(&[
    many(1, "clusterRoleSelectors", Msg(&LABEL_SELECTOR)),
]);

// scheduling/v1
pub(super) static PRIORITY_CLASS: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), one(2, "value", Int), zero(3, "globalDefault", Bool),
    zero(4, "description", Str), one(5, "preemptionPolicy", Str),
]);
