//! OpenAPI: descriptions of kinds and paths for clients, v3 and, for older clients, v2.
//!
//! The documents describe, and do not validate: objects are stored as sent, also with members that are in no schema.
//! kubectl learns from them that the server accepts `fieldValidation`, by the PATCH operation with the kind's
//! `x-kubernetes-group-version-kind` (`cli-runtime/pkg/resource/query_param_verifier_v3.go`), and then leaves
//! validation to the server. Every PATCH operation has the parameter: kubectl looks at any one of them.
//!
//! Strategic merge patches are never listed among the media types, whether they are served or not: if they are listed,
//! kubectl makes its patches from these schemas (`kubectl/pkg/cmd/apply/patcher.go`), which have no merge keys, instead
//! of its own.

mod schemas;
#[cfg(test)]
mod tests;
mod v2;
mod words;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::discovery::{Document, fingerprint};
use super::protobuf::Release;
use super::protobuf::describe::reference;
use super::resources::{ApiResource, Registry};
use schemas::{group_version_kind, schema_name};

/// All documents. They are made when they are first asked for, or [prepared](Self::prepare): it takes some 10 ms for v3 and 30 for v2.
#[derive(Debug)]
pub struct OpenApi {
    registry: Arc<Registry>,
    /// By path.
    v3: OnceLock<HashMap<String, Document>>,
    v2: OnceLock<V2>,
}

/// The two forms of the v2 document.
#[derive(Debug)]
struct V2 {
    json: Document,
    protobuf: Document,
}

impl OpenApi {
    /// The documents of these resources.
    #[must_use]
    pub const fn new(registry: Arc<Registry>) -> Self {
        Self { registry, v3: OnceLock::new(), v2: OnceLock::new() }
    }

    /// The v3 documents by path, and the list of them.
    fn v3(&self) -> &HashMap<String, Document> {
        self.v3.get_or_init(|| documents(&self.registry))
    }

    /// The reply to `GET path`, without the query.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Document> {
        self.v3().get(path)
    }

    /// The reply to `GET /openapi/v2`: the protobuf form if `accept` names it, otherwise JSON.
    #[must_use]
    pub fn v2(&self, accept: Option<&str>) -> &Document {
        let v2 = self.v2.get_or_init(|| self.make_v2());
        if accept.is_some_and(wants_protobuf) { &v2.protobuf } else { &v2.json }
    }

    /// Makes the documents that do not exist yet, so that no request has to wait for them.
    pub fn prepare(&self) {
        self.prepare_v3();
        self.v2.get_or_init(|| self.make_v2());
    }

    /// The same for v3, which current clients ask for.
    pub fn prepare_v3(&self) {
        self.v3();
    }

    /// Whether all of them are made.
    #[cfg(test)]
    pub(crate) fn is_prepared(&self) -> bool {
        self.v3.get().is_some() && self.v2.get().is_some()
    }

    fn make_v2(&self) -> V2 {
        let mut v3: Vec<_> = self.v3().iter().filter(|(path, _)| *path != INDEX).collect();
        v3.sort_by_key(|(path, _)| *path);
        // Each was made here from a tree.
        let documents: Vec<Value> = v3
            .iter()
            .map(|(_, document)| serde_json::from_slice(&document.body).unwrap_or_default())
            .collect();
        let v2 = v2::document(documents.iter());
        let json = Document::json(&v2);
        let body = Bytes::from(v2::protobuf(&v2));
        let tag = |body: &[u8]| Some(format!("\"{}\"", fingerprint(body)));
        V2 {
            json: Document { etag: tag(&json.body), ..json },
            protobuf: Document { etag: tag(&body), body, content_type: v2::PROTOBUF, protobuf: None },
        }
    }
}

/// The path of the list of documents.
const INDEX: &str = "/openapi/v3";

/// Whether a client asks for the protobuf form of v2, under its old or its newer name (the old one has an `@`, which is
/// not allowed in a media type).
pub(crate) fn wants_protobuf(accept: &str) -> bool {
    let clauses = accept.split(',').filter_map(|clause| clause.split(';').next());
    clauses.map(|media| media.trim().replace('@', ".")).any(|media| media.eq_ignore_ascii_case(v2::PROTOBUF))
}

/// The v3 documents, one for each group and version, and the list of them.
fn documents(registry: &Registry) -> HashMap<String, Document> {
    let mut documents = HashMap::new();
    let mut index = Map::new();
    let mut seen: Vec<&str> = Vec::new();
    let listed = || registry.iter().filter(|resource| resource.listed);
    for resource in listed() {
        if seen.contains(&resource.api_version()) {
            continue;
        }
        seen.push(resource.api_version());
        let members: Vec<_> = listed().filter(|r| r.api_version() == resource.api_version()).collect();
        let document = Document::json(&document(registry.release(), &members));
        let name = root(resource);
        let url = format!("/openapi/v3{name}");
        // Clients cache a document under its hash without expiry.
        let hash = fingerprint(&document.body);
        index.insert(name[1..].to_owned(), json!({ "serverRelativeURL": format!("{url}?hash={hash}") }));
        documents.insert(url, Document { etag: Some(format!("\"{hash}\"")), ..document });
    }
    documents.insert(INDEX.to_owned(), Document::json(&json!({ "paths": index })));
    documents
}

/// `/api/v1`, `/apis/apps/v1`.
fn root(resource: &ApiResource) -> String {
    let prefix = if resource.group.is_empty() { "/api" } else { "/apis" };
    format!("{prefix}/{}", resource.api_version())
}

fn document(release: Release, resources: &[&ApiResource]) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for resource in resources {
        let root = root(resource);
        let collection = if resource.namespaced {
            paths.insert(
                format!("{root}/{}", resource.plural),
                json!({ "get": operation(resource, "list", "ForAllNamespaces", &LIST_PARAMETERS) }),
            );
            format!("{root}/namespaces/{{namespace}}/{}", resource.plural)
        } else {
            format!("{root}/{}", resource.plural)
        };
        let item = format!("{collection}/{{name}}");
        paths.insert(
            collection,
            json!({
                "parameters": in_path(resource.namespaced, false),
                "get": operation(resource, "list", "", &LIST_PARAMETERS),
                "post": operation(resource, "post", "", &WRITE_PARAMETERS),
                "delete": operation(resource, "deletecollection", "", &LIST_PARAMETERS[..2]),
            }),
        );
        let of_one = |suffix| {
            json!({
                "parameters": in_path(resource.namespaced, true),
                "get": operation(resource, "get", suffix, &[]),
                "put": operation(resource, "put", suffix, &WRITE_PARAMETERS),
                "patch": operation(resource, "patch", suffix, &WRITE_PARAMETERS),
            })
        };
        if resource.has_status() {
            paths.insert(format!("{item}/status"), of_one("Status"));
        }
        let mut of_item = of_one("");
        of_item["delete"] = operation(resource, "delete", "", &WRITE_PARAMETERS[..1]);
        paths.insert(item, of_item);
        schemas::add(release, resource, &mut schemas);
    }
    json!({
        "openapi": "3.0.0",
        "info": { "title": "revcast", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

/// A query parameter: name, type and what it does.
type Parameter = (&'static str, &'static str, &'static str);

const LIST_PARAMETERS: [Parameter; 6] = [
    ("labelSelector", "string", "Only objects whose labels match."),
    ("fieldSelector", "string", "Only objects whose selectable fields match."),
    ("limit", "integer", "The most objects in one reply."),
    ("continue", "string", "The continue token of the previous reply."),
    ("resourceVersion", "string", "How fresh the reply must be."),
    ("watch", "boolean", "Stream changes instead of one reply."),
];

const WRITE_PARAMETERS: [Parameter; 3] = [
    // kubectl up to 1.25 uses its own option if a PATCH operation of the kind has this one.
    ("dryRun", "string", "All: answer as if the change were made, but store nothing."),
    ("fieldManager", "string", "The name of the writer; recorded for server-side apply."),
    (
        "fieldValidation",
        "string",
        "Ignore, Warn or Strict: refuse fields that would be dropped. Objects stored in JSON keep all.",
    ),
];

fn operation(resource: &ApiResource, action: &str, suffix: &str, parameters: &[Parameter]) -> Value {
    let parameters: Vec<Value> = parameters
        .iter()
        .map(|(name, kind, description)| {
            json!({ "name": name, "in": "query", "description": description, "schema": { "type": kind } })
        })
        .collect();
    let name = schema_name(resource);
    let mut done = json!({ "description": "OK" });
    // The reply to a delete is the object or a Status.
    if !action.starts_with("delete") {
        let answer = reference(&if action == "list" { format!("{name}List") } else { name.clone() });
        done["content"] = json!({ "application/json": { "schema": answer } });
    }
    let media: &[&str] = match action {
        "post" | "put" => &["application/json", "application/yaml"],
        // kubectl makes strategic merge patches from its built-in types, unless they are named here: then it looks for
        // the merge keys in the schemas, which have none.
        "patch" => {
            &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"]
        }
        _ => &[],
    };
    let mut operation = json!({
        "operationId": format!("{action}{}{}", resource.kind, suffix),
        "responses": { "200": done },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": group_version_kind(resource, &resource.kind),
    });
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    if !media.is_empty() {
        let patch = json!({ "description": "The patch, as RFC 6902 or RFC 7386 say." });
        let schema = if action == "patch" { patch } else { reference(&name) };
        let content: Map<String, Value> =
            media.iter().map(|media| ((*media).to_owned(), json!({ "schema": schema }))).collect();
        operation["requestBody"] = json!({ "content": content, "required": true });
    }
    operation
}

fn in_path(namespaced: bool, named: bool) -> Value {
    let names = [("namespace", namespaced), ("name", named)].into_iter().filter(|(_, present)| *present);
    let parameters = names.map(
        |(name, _)| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }),
    );
    Value::Array(parameters.collect())
}
