//! Messages of `meta.k8s.io/v1`.
//!
//! Field numbers and names: `generated.proto` and the Go types of `k8s.io/api` v0.35. Only tables.

use super::Shape::{Bool, Int, Msg, RawJson, Str, Time};
use super::{Message, many, map, one, zero};

pub(super) static DELETE_OPTIONS: Message = Message(&[
    one(1, "gracePeriodSeconds", Int), one(2, "preconditions", Msg(&PRECONDITIONS)),
    one(3, "orphanDependents", Bool), one(4, "propagationPolicy", Str), many(5, "dryRun", Str),
    one(6, "ignoreStoreReadErrorWithClusterBreakingPotential", Bool),
]);
pub(super) static OBJECT_META: Message = Message(&[
    zero(1, "name", Str), zero(2, "generateName", Str), zero(3, "namespace", Str),
    zero(4, "selfLink", Str), zero(5, "uid", Str), zero(6, "resourceVersion", Str),
    zero(7, "generation", Int), one(8, "creationTimestamp", Time), one(9, "deletionTimestamp", Time),
    one(10, "deletionGracePeriodSeconds", Int), map(11, "labels", Str), map(12, "annotations", Str),
    zero(15, "clusterName", Str), many(13, "ownerReferences", Msg(&OWNER_REFERENCE)), many(14, "finalizers", Str),
    many(17, "managedFields", Msg(&MANAGED_FIELDS_ENTRY)),
]);
pub(super) static PRECONDITIONS: Message = Message(&[one(1, "uid", Str), one(2, "resourceVersion", Str)]);
pub(super) static OWNER_REFERENCE: Message = Message(&[
    one(5, "apiVersion", Str), one(1, "kind", Str), one(3, "name", Str), one(4, "uid", Str),
    one(6, "controller", Bool), one(7, "blockOwnerDeletion", Bool),
]);
pub(super) static MANAGED_FIELDS_ENTRY: Message = Message(&[
    zero(1, "manager", Str), zero(2, "operation", Str), zero(3, "apiVersion", Str), one(4, "time", Time),
    zero(6, "fieldsType", Str), one(7, "fieldsV1", RawJson), zero(8, "subresource", Str),
]);
pub(super) static CONDITION: Message = Message(&[
    one(1, "type", Str), one(2, "status", Str), zero(3, "observedGeneration", Int),
    one(4, "lastTransitionTime", Time), one(5, "reason", Str), one(6, "message", Str),
]);
pub(super) static LABEL_SELECTOR: Message = Message(&[
    map(1, "matchLabels", Str), many(2, "matchExpressions", Msg(&LABEL_SELECTOR_REQUIREMENT)),
]);
pub(super) static LABEL_SELECTOR_REQUIREMENT: Message = Message(&[
    one(1, "key", Str), one(2, "operator", Str), many(3, "values", Str),
]);
