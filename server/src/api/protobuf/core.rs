//! Messages of core/v1, without the pod.
//!
//! Field numbers and names: `generated.proto` and the Go types of `k8s.io/api` v0.35. Only tables.

use super::meta::{CONDITION, OBJECT_META};
use super::pod::{LOCAL_OBJECT_REFERENCE, POD_SPEC};
use super::Shape::{Bool, Bytes, Int, IntOrString, MicroTime, Msg, Quantity, Str, Time};
use super::{Message, many, map, one, zero};

pub(super) static CONFIG_MAP: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), one(4, "immutable", Bool), map(2, "data", Str),
    map(3, "binaryData", Bytes),
]);
pub(super) static SECRET: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), one(5, "immutable", Bool), map(2, "data", Bytes),
    map(4, "stringData", Str), zero(3, "type", Str),
]);
pub(super) static NAMESPACE: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), one(2, "spec", Msg(&NAMESPACE_SPEC)),
    one(3, "status", Msg(&NAMESPACE_STATUS)),
]);
pub(super) static SERVICE_ACCOUNT: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), many(2, "secrets", Msg(&OBJECT_REFERENCE)),
    many(3, "imagePullSecrets", Msg(&LOCAL_OBJECT_REFERENCE)),
    one(4, "automountServiceAccountToken", Bool),
]);
pub(super) static SERVICE: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), one(2, "spec", Msg(&SERVICE_SPEC)),
    one(3, "status", Msg(&SERVICE_STATUS)),
]);
pub(super) static RESOURCE_QUOTA: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), one(2, "spec", Msg(&RESOURCE_QUOTA_SPEC)),
    one(3, "status", Msg(&RESOURCE_QUOTA_STATUS)),
]);
pub(super) static EVENT: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), one(2, "involvedObject", Msg(&OBJECT_REFERENCE)),
    zero(3, "reason", Str), zero(4, "message", Str), one(5, "source", Msg(&EVENT_SOURCE)),
    one(6, "firstTimestamp", Time), one(7, "lastTimestamp", Time), zero(8, "count", Int),
    zero(9, "type", Str), one(10, "eventTime", MicroTime), one(11, "series", Msg(&EVENT_SERIES)),
    zero(12, "action", Str), one(13, "related", Msg(&OBJECT_REFERENCE)),
    zero(14, "reportingComponent", Str), zero(15, "reportingInstance", Str),
]);
pub(super) static NAMESPACE_SPEC: Message = Message(&[many(1, "finalizers", Str)]);
pub(super) static NAMESPACE_STATUS: Message = Message(&[
    zero(1, "phase", Str), many(2, "conditions", Msg(&NAMESPACE_CONDITION)),
]);
pub(super) static OBJECT_REFERENCE: Message = Message(&[
    zero(1, "kind", Str), zero(2, "namespace", Str), zero(3, "name", Str), zero(4, "uid", Str),
    zero(5, "apiVersion", Str), zero(6, "resourceVersion", Str), zero(7, "fieldPath", Str),
]);
pub(super) static SERVICE_SPEC: Message = Message(&[
    many(1, "ports", Msg(&SERVICE_PORT)), map(2, "selector", Str), zero(3, "clusterIP", Str),
    many(18, "clusterIPs", Str), zero(4, "type", Str), many(5, "externalIPs", Str),
    zero(7, "sessionAffinity", Str), zero(8, "loadBalancerIP", Str),
    many(9, "loadBalancerSourceRanges", Str), zero(10, "externalName", Str),
    zero(11, "externalTrafficPolicy", Str), zero(12, "healthCheckNodePort", Int),
    zero(13, "publishNotReadyAddresses", Bool),
    one(14, "sessionAffinityConfig", Msg(&SESSION_AFFINITY_CONFIG)), many(19, "ipFamilies", Str),
    one(17, "ipFamilyPolicy", Str), one(20, "allocateLoadBalancerNodePorts", Bool),
    one(21, "loadBalancerClass", Str), one(22, "internalTrafficPolicy", Str),
    one(23, "trafficDistribution", Str),
]);
pub(super) static SERVICE_STATUS: Message = Message(&[
    one(1, "loadBalancer", Msg(&LOAD_BALANCER_STATUS)), many(2, "conditions", Msg(&CONDITION)),
]);
pub(super) static RESOURCE_QUOTA_SPEC: Message = Message(&[
    map(1, "hard", Quantity), many(2, "scopes", Str), one(3, "scopeSelector", Msg(&SCOPE_SELECTOR)),
]);
pub(super) static RESOURCE_QUOTA_STATUS: Message = Message(&[
    map(1, "hard", Quantity), map(2, "used", Quantity),
]);
pub(super) static EVENT_SOURCE: Message = Message(&[zero(1, "component", Str), zero(2, "host", Str)]);
pub(super) static EVENT_SERIES: Message = Message(&[
    zero(1, "count", Int), one(2, "lastObservedTime", MicroTime),
]);
pub(super) static NAMESPACE_CONDITION: Message = Message(&[
    one(1, "type", Str), one(2, "status", Str), one(4, "lastTransitionTime", Time), zero(5, "reason", Str),
    zero(6, "message", Str),
]);
pub(super) static SERVICE_PORT: Message = Message(&[
    zero(1, "name", Str), zero(2, "protocol", Str), one(6, "appProtocol", Str), one(3, "port", Int),
    one(4, "targetPort", IntOrString), zero(5, "nodePort", Int),
]);
pub(super) static SESSION_AFFINITY_CONFIG: Message = Message(&[
    one(1, "clientIP", Msg(&CLIENT_IP_CONFIG)),
]);
pub(super) static LOAD_BALANCER_STATUS: Message = Message(&[
    many(1, "ingress", Msg(&LOAD_BALANCER_INGRESS)),
]);
pub(super) static SCOPE_SELECTOR: Message = Message(&[
    many(1, "matchExpressions", Msg(&SCOPED_RESOURCE_SELECTOR_REQUIREMENT)),
]);
pub(super) static POD_TEMPLATE_SPEC: Message = Message(&[
    one(1, "metadata", Msg(&OBJECT_META)), one(2, "spec", Msg(&POD_SPEC)),
]);
pub(super) static CLIENT_IP_CONFIG: Message = Message(&[one(1, "timeoutSeconds", Int)]);
pub(super) static LOAD_BALANCER_INGRESS: Message = Message(&[
    zero(1, "ip", Str), zero(2, "hostname", Str), one(3, "ipMode", Str),
    many(4, "ports", Msg(&PORT_STATUS)),
]);
pub(super) static SCOPED_RESOURCE_SELECTOR_REQUIREMENT: Message = Message(&[
    one(1, "scopeName", Str), one(2, "operator", Str), many(3, "values", Str),
]);
pub(super) static PORT_STATUS: Message = Message(&[
    one(1, "port", Int), one(2, "protocol", Str), one(3, "error", Str),
]);
