//! OpenAPI v2 for clients that do not read v3, such as kubectl 1.28 and older: the same content, in JSON and in
//! protobuf.
//!
//! kubectl up to 1.28 refuses `create -f` and `apply -f` without a document, and accepts protobuf only: the message
//! `openapi.v2.Document` of `google/gnostic` (`openapiv2/OpenAPIv2.proto`), whose field numbers are in the tables
//! below. It knows no resource: everything is made from the v3 documents.

use serde_json::{Map, Value, json};

/// The content type of the protobuf form, as kube-apiserver names it in replies.
pub(crate) const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The JSON form of the v2 document with the content of all v3 `documents`.
pub(super) fn document<'a>(documents: impl Iterator<Item = &'a Value>) -> Value {
    let mut paths = Map::new();
    let mut definitions = Map::new();
    for document in documents {
        for (path, item) in members(&document["paths"]) {
            paths.insert(path.clone(), path_item(item));
        }
        for (name, one) in members(&document["components"]["schemas"]) {
            definitions.insert(name.clone(), schema(one));
        }
    }
    json!({
        "swagger": "2.0",
        "info": { "title": "revcast", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "definitions": definitions,
    })
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn path_item(item: &Value) -> Value {
    let turned = members(item).map(|(name, value)| {
        let value = if name == "parameters" { parameters(value, None) } else { operation(value) };
        (name.clone(), value)
    });
    Value::Object(turned.collect())
}

fn operation(v3: &Value) -> Value {
    let body = v3.get("requestBody");
    let mut operation = Map::new();
    for (name, value) in members(v3) {
        match name.as_str() {
            "requestBody" | "parameters" => {}
            "responses" => {
                operation.insert(name.clone(), responses(value));
            }
            _ => {
                operation.insert(name.clone(), value.clone());
            }
        }
    }
    let consumed: Vec<&String> =
        body.map(|body| members(&body["content"]).map(|(media, _)| media).collect()).unwrap_or_default();
    if !consumed.is_empty() {
        operation.insert("consumes".to_owned(), json!(consumed));
    }
    let parameters = parameters(&v3["parameters"], body);
    if parameters != json!([]) {
        operation.insert("parameters".to_owned(), parameters);
    }
    Value::Object(operation)
}

fn parameters(v3: &Value, body: Option<&Value>) -> Value {
    let mut all: Vec<Value> = items(v3)
        .map(|parameter| {
            let mut turned = Map::new();
            for (name, value) in members(parameter) {
                match name.as_str() {
                    "schema" => turned.insert("type".to_owned(), value["type"].clone()),
                    _ => turned.insert(name.clone(), value.clone()),
                };
            }
            Value::Object(turned)
        })
        .collect();
    if let Some((_, media)) = body.and_then(|body| members(&body["content"]).next()) {
        all.push(
            json!({ "name": "body", "in": "body", "required": true, "schema": schema(&media["schema"]) }),
        );
    }
    Value::Array(all)
}

fn responses(v3: &Value) -> Value {
    let turned = members(v3).map(|(code, response)| {
        let mut turned = json!({ "description": response["description"] });
        if let Some((_, media)) = members(&response["content"]).next() {
            turned["schema"] = schema(&media["schema"]);
        }
        (code.clone(), turned)
    });
    Value::Object(turned.collect())
}

/// References have other targets and need no wrapping, and there is no choice of types.
fn schema(v3: &Value) -> Value {
    match v3 {
        Value::Object(given) => {
            // kubectl up to 1.24 checks objects itself, and refuses members that it does not find.
            let takes_any = given.contains_key("x-kubernetes-preserve-unknown-fields");
            let mut turned = Map::new();
            for (name, value) in given {
                match (name.as_str(), value) {
                    ("properties", _) if takes_any => {}
                    ("$ref", Value::String(reference)) => {
                        let reference = reference.replace("#/components/schemas/", "#/definitions/");
                        turned.insert(name.clone(), reference.into());
                    }
                    // Names, not keywords.
                    ("properties", Value::Object(inner)) => {
                        let inner = inner.iter().map(|(name, one)| (name.clone(), schema(one)));
                        turned.insert(name.clone(), Value::Object(inner.collect()));
                    }
                    // Kubernetes declares every member that may be a string as one.
                    ("oneOf", _) => {
                        turned.insert("type".to_owned(), "string".into());
                    }
                    ("allOf", Value::Array(one)) if one.len() == 1 => {
                        turned.extend(
                            members(&schema(&one[0])).map(|(name, value)| (name.clone(), value.clone())),
                        );
                    }
                    _ => {
                        turned.insert(name.clone(), schema(value));
                    }
                }
            }
            Value::Object(turned)
        }
        Value::Array(given) => Value::Array(given.iter().map(schema).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => v3.clone(),
    }
}

/// The protobuf form of a document that [`document`] made.
pub(super) fn protobuf(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, &document["swagger"]);
    out.message(2, |info| {
        info.text(1, &document["info"]["title"]);
        info.text(2, &document["info"]["version"]);
    });
    out.message(8, |paths| {
        for (path, item) in members(&document["paths"]) {
            paths.named(2, path, |out| encode_path(out, item));
        }
    });
    out.message(9, |definitions| {
        for (name, schema) in members(&document["definitions"]) {
            definitions.named(1, name, |out| encode_schema(out, schema));
        }
    });
    out.0
}

/// A message under construction (protobuf's encoding: a tag, a length, the bytes).
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.0.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
            value >>= 7;
        }
        self.0.push(u8::try_from(value).unwrap_or_default());
    }

    fn bytes(&mut self, field: usize, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// A string, if `value` is one.
    fn text(&mut self, field: usize, value: &Value) {
        if let Some(text) = value.as_str() {
            self.bytes(field, text.as_bytes());
        }
    }

    /// `true`, if `value` is that; `false` is never written.
    fn truth(&mut self, field: usize, value: &Value) {
        if value == &Value::Bool(true) {
            self.varint(field << 3);
            self.varint(1);
        }
    }

    fn message(&mut self, field: usize, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }

    /// An entry of a map: its name and its value.
    fn named(&mut self, field: usize, name: &str, fill: impl FnOnce(&mut Self)) {
        self.message(field, |entry| {
            entry.bytes(1, name.as_bytes());
            entry.message(2, fill);
        });
    }

    /// Members `x-...`, each as YAML; JSON is YAML.
    fn extensions(&mut self, field: usize, of: &Value) {
        for (name, value) in members(of).filter(|(name, _)| name.starts_with("x-")) {
            self.named(field, name, |any| any.bytes(2, value.to_string().as_bytes()));
        }
    }
}

fn encode_path(out: &mut Message, item: &Value) {
    for (method, field) in [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("patch", 8)] {
        if let Some(operation) = item.get(method) {
            out.message(field, |out| encode_operation(out, operation));
        }
    }
    for parameter in items(&item["parameters"]) {
        out.message(9, |out| encode_parameter(out, parameter));
    }
}

fn encode_operation(out: &mut Message, operation: &Value) {
    out.text(5, &operation["operationId"]);
    for media in items(&operation["consumes"]) {
        out.text(7, media);
    }
    for parameter in items(&operation["parameters"]) {
        out.message(8, |out| encode_parameter(out, parameter));
    }
    out.message(9, |responses| {
        for (code, response) in members(&operation["responses"]) {
            responses.named(1, code, |value| {
                value.message(1, |out| {
                    out.text(1, &response["description"]);
                    if let Some(schema) = response.get("schema") {
                        out.message(2, |item| item.message(1, |out| encode_schema(out, schema)));
                    }
                });
            });
        }
    });
    out.extensions(13, operation);
}

/// `ParametersItem { parameter: Parameter { ... } }`.
fn encode_parameter(out: &mut Message, parameter: &Value) {
    out.message(1, |out| {
        if parameter["in"] == "body" {
            out.message(1, |body| {
                body.text(2, &parameter["name"]);
                body.text(3, &parameter["in"]);
                body.truth(4, &parameter["required"]);
                body.message(5, |out| encode_schema(out, &parameter["schema"]));
            });
            return;
        }
        let (which, of_type) = if parameter["in"] == "path" { (4, 5) } else { (3, 6) };
        out.message(2, |out| {
            out.message(which, |out| {
                out.truth(1, &parameter["required"]);
                out.text(2, &parameter["in"]);
                out.text(3, &parameter["description"]);
                out.text(4, &parameter["name"]);
                out.text(of_type, &parameter["type"]);
            });
        });
    });
}

fn encode_schema(out: &mut Message, schema: &Value) {
    out.text(1, &schema["$ref"]);
    out.text(2, &schema["format"]);
    out.text(4, &schema["description"]);
    for name in items(&schema["required"]) {
        out.text(19, name);
    }
    if let Some(inner) = schema.get("additionalProperties") {
        out.message(21, |item| item.message(1, |out| encode_schema(out, inner)));
    }
    if schema["type"].is_string() {
        out.message(22, |of_type| of_type.text(1, &schema["type"]));
    }
    if let Some(inner) = schema.get("items") {
        out.message(23, |items| items.message(1, |out| encode_schema(out, inner)));
    }
    if let Some(properties) = schema.get("properties") {
        out.message(25, |out| {
            for (name, inner) in members(properties) {
                out.named(1, name, |out| encode_schema(out, inner));
            }
        });
    }
    out.extensions(31, schema);
}
