//! The tables as JSON schemas, for OpenAPI.
//!
//! Owns the way from a table to a schema, and the names of Kubernetes' messages. It decodes nothing.

use std::ptr;

use serde_json::{Map, Value, json};

use super::core::{
    NAMESPACE_SPEC, NAMESPACE_STATUS, OBJECT_REFERENCE, POD_TEMPLATE_SPEC, RESOURCE_QUOTA_SPEC,
    RESOURCE_QUOTA_STATUS, SERVICE_PORT, SERVICE_SPEC, SERVICE_STATUS,
};
use super::groups::{
    CRON_JOB_SPEC, CRON_JOB_STATUS, DEPLOYMENT_SPEC, DEPLOYMENT_STATUS, DEPLOYMENT_STRATEGY, INGRESS_BACKEND,
    INGRESS_RULE, INGRESS_SPEC, INGRESS_STATUS, JOB_SPEC, JOB_STATUS, JOB_TEMPLATE_SPEC, LEASE_SPEC,
    POD_DISRUPTION_BUDGET_SPEC, POD_DISRUPTION_BUDGET_STATUS, POLICY_RULE, ROLE_REF, SUBJECT,
};
use super::meta::{CONDITION, LABEL_SELECTOR, MANAGED_FIELDS_ENTRY, OBJECT_META, OWNER_REFERENCE};
use super::pod::{
    AFFINITY, CONTAINER, CONTAINER_STATUS, ENV_VAR, EPHEMERAL_CONTAINER, LOCAL_OBJECT_REFERENCE,
    POD_SECURITY_CONTEXT, POD_SPEC, POD_STATUS, PROBE, RESOURCE_REQUIREMENTS, SECURITY_CONTEXT, TOLERATION,
    VOLUME,
};
use super::{Count, Field, Message, Shape, message};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const CORE: &str = "io.k8s.api.core.v1";
const APPS: &str = "io.k8s.api.apps.v1";
const BATCH: &str = "io.k8s.api.batch.v1";
const NETWORKING: &str = "io.k8s.api.networking.v1";
const RBAC: &str = "io.k8s.api.rbac.v1";

/// Messages that get a schema of their own; the others are written where they are used.
static NAMES: &[(&Message, &str, &str)] = &[
    (&OBJECT_META, META, "ObjectMeta"),
    (&OWNER_REFERENCE, META, "OwnerReference"),
    (&MANAGED_FIELDS_ENTRY, META, "ManagedFieldsEntry"),
    (&CONDITION, META, "Condition"),
    (&LABEL_SELECTOR, META, "LabelSelector"),
    (&POD_SPEC, CORE, "PodSpec"),
    (&POD_STATUS, CORE, "PodStatus"),
    (&POD_TEMPLATE_SPEC, CORE, "PodTemplateSpec"),
    (&CONTAINER, CORE, "Container"),
    (&EPHEMERAL_CONTAINER, CORE, "EphemeralContainer"),
    (&CONTAINER_STATUS, CORE, "ContainerStatus"),
    (&ENV_VAR, CORE, "EnvVar"),
    (&PROBE, CORE, "Probe"),
    (&VOLUME, CORE, "Volume"),
    (&AFFINITY, CORE, "Affinity"),
    (&TOLERATION, CORE, "Toleration"),
    (&RESOURCE_REQUIREMENTS, CORE, "ResourceRequirements"),
    (&SECURITY_CONTEXT, CORE, "SecurityContext"),
    (&POD_SECURITY_CONTEXT, CORE, "PodSecurityContext"),
    (&LOCAL_OBJECT_REFERENCE, CORE, "LocalObjectReference"),
    (&OBJECT_REFERENCE, CORE, "ObjectReference"),
    (&NAMESPACE_SPEC, CORE, "NamespaceSpec"),
    (&NAMESPACE_STATUS, CORE, "NamespaceStatus"),
    (&SERVICE_SPEC, CORE, "ServiceSpec"),
    (&SERVICE_STATUS, CORE, "ServiceStatus"),
    (&SERVICE_PORT, CORE, "ServicePort"),
    (&RESOURCE_QUOTA_SPEC, CORE, "ResourceQuotaSpec"),
    (&RESOURCE_QUOTA_STATUS, CORE, "ResourceQuotaStatus"),
    (&DEPLOYMENT_SPEC, APPS, "DeploymentSpec"),
    (&DEPLOYMENT_STATUS, APPS, "DeploymentStatus"),
    (&DEPLOYMENT_STRATEGY, APPS, "DeploymentStrategy"),
    (&JOB_SPEC, BATCH, "JobSpec"),
    (&JOB_STATUS, BATCH, "JobStatus"),
    (&JOB_TEMPLATE_SPEC, BATCH, "JobTemplateSpec"),
    (&CRON_JOB_SPEC, BATCH, "CronJobSpec"),
    (&CRON_JOB_STATUS, BATCH, "CronJobStatus"),
    (&LEASE_SPEC, "io.k8s.api.coordination.v1", "LeaseSpec"),
    (&INGRESS_SPEC, NETWORKING, "IngressSpec"),
    (&INGRESS_STATUS, NETWORKING, "IngressStatus"),
    (&INGRESS_BACKEND, NETWORKING, "IngressBackend"),
    (&INGRESS_RULE, NETWORKING, "IngressRule"),
    (&POD_DISRUPTION_BUDGET_SPEC, "io.k8s.api.policy.v1", "PodDisruptionBudgetSpec"),
    (&POD_DISRUPTION_BUDGET_STATUS, "io.k8s.api.policy.v1", "PodDisruptionBudgetStatus"),
    (&POLICY_RULE, RBAC, "PolicyRule"),
    (&ROLE_REF, RBAC, "RoleRef"),
    (&SUBJECT, RBAC, "Subject"),
];

/// The description of a member of a message: the message's name, then the member's.
pub(in crate::api) type Words = fn(&str, &str) -> Option<&'static str>;

/// Makes schemas from the tables, and keeps those that have a name.
#[derive(Debug)]
pub(in crate::api) struct Describer<'a> {
    /// By full name.
    pub(in crate::api) schemas: &'a mut Map<String, Value>,
    /// The descriptions.
    pub(in crate::api) words: Words,
}

impl Describer<'_> {
    /// The members of a kind; `None`: it is in no table.
    pub(in crate::api) fn members(&mut self, api_version: &str, kind: &str) -> Option<Map<String, Value>> {
        message(api_version, kind).map(|message| self.properties(message, kind))
    }

    /// A reference to the schema of every object's `metadata`.
    pub(in crate::api) fn metadata(&mut self) -> Value {
        self.message(&OBJECT_META)
    }

    fn properties(&mut self, message: &Message, name: &str) -> Map<String, Value> {
        let mut properties = Map::new();
        for field in message.0 {
            match field {
                Field { name: "", shape: Shape::Msg(inner), .. } => {
                    properties.extend(self.properties(inner, name));
                }
                field => {
                    let mut schema = self.field(field);
                    if let Some(words) = (self.words)(name, field.name) {
                        schema = described(schema, words);
                    }
                    properties.insert(field.name.to_owned(), schema);
                }
            }
        }
        properties
    }

    fn field(&mut self, field: &Field) -> Value {
        let schema = self.shape(field.shape);
        match field.count {
            Count::One | Count::NotZero => schema,
            Count::Many => json!({ "type": "array", "items": schema }),
            Count::Map => json!({ "type": "object", "additionalProperties": schema }),
        }
    }

    fn shape(&mut self, shape: Shape) -> Value {
        let time = |format: &str| json!({ "type": "string", "format": format });
        match shape {
            Shape::Str => json!({ "type": "string" }),
            Shape::Bool => json!({ "type": "boolean" }),
            Shape::Int => json!({ "type": "integer" }),
            Shape::Bytes => json!({ "type": "string", "format": "byte" }),
            Shape::Msg(message) => self.message(message),
            Shape::Time => self.named(&format!("{META}.Time"), || time("date-time")),
            Shape::MicroTime => self.named(&format!("{META}.MicroTime"), || time("date-time")),
            Shape::Quantity => self.named("io.k8s.apimachinery.pkg.api.resource.Quantity", || {
                json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] })
            }),
            Shape::IntOrString => self.named("io.k8s.apimachinery.pkg.util.intstr.IntOrString", || {
                json!({ "format": "int-or-string", "oneOf": [{ "type": "integer" }, { "type": "string" }] })
            }),
            Shape::RawJson => self.named(&format!("{META}.FieldsV1"), || json!({ "type": "object" })),
        }
    }

    fn message(&mut self, message: &'static Message) -> Value {
        let object = |properties| json!({ "type": "object", "properties": properties });
        let Some((_, package, name)) = NAMES.iter().find(|(named, ..)| ptr::eq(*named, message)) else {
            return object(self.properties(message, ""));
        };
        let full = format!("{package}.{name}");
        if !self.schemas.contains_key(&full) {
            let mut schema = object(self.properties(message, name));
            if let Some(words) = (self.words)(name, "") {
                schema = described(schema, words);
            }
            self.schemas.insert(full.clone(), schema);
        }
        reference(&full)
    }

    fn named(&mut self, full: &str, schema: impl FnOnce() -> Value) -> Value {
        self.schemas.entry(full).or_insert_with(schema);
        reference(full)
    }
}

/// A `$ref` to a schema of the same document.
pub(in crate::api) fn reference(full: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{full}") })
}

/// The schema with a description. In OpenAPI 3.0 members beside a `$ref` are ignored, so it is wrapped.
pub(in crate::api) fn described(mut schema: Value, words: &str) -> Value {
    if schema.get("$ref").is_some() {
        schema = json!({ "allOf": [schema] });
    }
    schema["description"] = words.into();
    schema
}
