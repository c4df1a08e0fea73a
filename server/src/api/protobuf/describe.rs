//! The tables as JSON schemas, for OpenAPI.
//!
//! Owns the way from the table to a schema, and the names of Kubernetes' messages in OpenAPI. It decodes nothing.

use serde_json::{Map, Value, json};

use super::types::{Count, Field, Message, MessageId, Release, Shape, Types};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The description of a member of a message: the message's name, then the member's.
pub(in crate::api) type Words = fn(&str, &str) -> Option<&'static str>;

/// Makes schemas from the tables, and keeps those that have a name.
#[derive(Debug)]
pub(in crate::api) struct Describer<'a> {
    /// By full name.
    pub(in crate::api) schemas: &'a mut Map<String, Value>,
    /// The descriptions.
    pub(in crate::api) words: Words,
    /// Whose types they are.
    pub(in crate::api) release: Release,
}

impl Describer<'_> {
    fn types(&self) -> &'static Types {
        self.release.types()
    }

    /// The members of a kind; `None`: it is in no table.
    pub(in crate::api) fn members(&mut self, api_version: &str, kind: &str) -> Option<Map<String, Value>> {
        let types = self.types();
        let id = types.kind(api_version, kind)?;
        Some(self.properties(types.message(id), kind))
    }

    /// A reference to the schema of every object's `metadata`.
    pub(in crate::api) fn metadata(&mut self) -> Value {
        self.types().named("meta/v1.ObjectMeta").map_or_else(|| json!({}), |id| self.message(id))
    }

    fn properties(&mut self, message: &'static Message, name: &str) -> Map<String, Value> {
        let mut properties = Map::new();
        for field in &message.fields {
            match field {
                Field { name: "", shape: Shape::Message(inner), .. } => {
                    properties.extend(self.properties(self.types().message(*inner), name));
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
            Count::Value | Count::Pointer => schema,
            Count::List => json!({ "type": "array", "items": schema }),
            Count::Map => json!({ "type": "object", "additionalProperties": schema }),
        }
    }

    fn shape(&mut self, shape: Shape) -> Value {
        let time = |format: &str| json!({ "type": "string", "format": format });
        match shape {
            Shape::Text => json!({ "type": "string" }),
            Shape::Bool => json!({ "type": "boolean" }),
            Shape::Int => json!({ "type": "integer" }),
            Shape::Double => json!({ "type": "number", "format": "double" }),
            Shape::Bytes => json!({ "type": "string", "format": "byte" }),
            Shape::Message(id) => self.message(id),
            // Kubernetes says nothing of their type.
            Shape::Either(id) => self.named(&full_name(self.types().message(id)), || json!({})),
            Shape::Time => self.named(&format!("{META}.Time"), || time("date-time")),
            Shape::MicroTime => self.named(&format!("{META}.MicroTime"), || time("date-time")),
            Shape::Quantity => self.named("io.k8s.apimachinery.pkg.api.resource.Quantity", || {
                json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] })
            }),
            Shape::IntOrString => self.named("io.k8s.apimachinery.pkg.util.intstr.IntOrString", || {
                json!({ "format": "int-or-string", "oneOf": [{ "type": "integer" }, { "type": "string" }] })
            }),
            Shape::TextList => json!({ "type": "array", "items": { "type": "string" } }),
            Shape::RawJson => self.named(&format!("{META}.FieldsV1"), || json!({ "type": "object" })),
        }
    }

    fn message(&mut self, id: MessageId) -> Value {
        let message = self.types().message(id);
        let name = message.name.split_once('.').map_or(message.name, |(_, name)| name);
        let full = full_name(message);
        if !self.schemas.contains_key(&full) {
            // Before its members: a message may contain itself.
            self.schemas.insert(full.clone(), Value::Null);
            let mut schema = json!({ "type": "object", "properties": self.properties(message, name) });
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

/// The name of a message in OpenAPI.
fn full_name(message: &Message) -> String {
    let (package, name) = message.name.split_once('.').unwrap_or(("", message.name));
    let (group, version) = package.split_once('/').unwrap_or((package, ""));
    let project = match group {
        "meta" => "apimachinery.pkg.apis",
        "apiextensions" => "apiextensions-apiserver.pkg.apis",
        "apiregistration" => "kube-aggregator.pkg.apis",
        "" => return name.to_owned(),
        _ => "api",
    };
    format!("io.k8s.{project}.{group}.{version}.{name}")
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
