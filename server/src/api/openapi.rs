//! OpenAPI v3: the index and one document a group and version.
//!
//! True and small: the paths that are served with the parameters that a write takes, and schemas that promise
//! nothing beyond `apiVersion`, `kind` and `metadata`, because revcast stores objects as they come. kubectl reads
//! from it that the server takes `fieldValidation`, finding the PATCH operation by its
//! `x-kubernetes-group-version-kind` (`cli-runtime/pkg/resource/query_param_verifier_v3.go`), and then leaves
//! validation to the server. Every PATCH operation has the parameter: kubectl looks at any one of them.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::discovery::{Document, fingerprint};
use super::resources::{ApiResource, Registry};

/// All documents, by path.
#[derive(Debug)]
pub struct OpenApi {
    documents: HashMap<String, Document>,
}

impl OpenApi {
    /// Makes all documents.
    #[must_use]
    pub fn new(registry: &Registry) -> Self {
        let mut documents = HashMap::new();
        let mut index = Map::new();
        let mut seen: Vec<&str> = Vec::new();
        for resource in registry.iter() {
            if seen.contains(&resource.api_version()) {
                continue;
            }
            seen.push(resource.api_version());
            let members: Vec<_> =
                registry.iter().filter(|r| r.api_version() == resource.api_version()).collect();
            let document = Document::json(&document(&members));
            let name = root(resource);
            let url = format!("/openapi/v3{name}");
            // Clients keep a document for ever under its hash.
            let hash = fingerprint(&document.body);
            index.insert(name[1..].to_owned(), json!({ "serverRelativeURL": format!("{url}?hash={hash}") }));
            documents.insert(url, Document { etag: Some(format!("\"{hash}\"")), ..document });
        }
        documents.insert("/openapi/v3".to_owned(), Document::json(&json!({ "paths": index })));
        Self { documents }
    }

    /// The reply to `GET path`, without the query.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Document> {
        self.documents.get(path)
    }
}

/// `/api/v1`, `/apis/apps/v1`.
fn root(resource: &ApiResource) -> String {
    let prefix = if resource.group.is_empty() { "/api" } else { "/apis" };
    format!("{prefix}/{}", resource.api_version())
}

fn document(resources: &[&ApiResource]) -> Value {
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
        of_item["delete"] = operation(resource, "delete", "", &[]);
        paths.insert(item, of_item);
        schemas.insert(schema_name(resource), schema(resource));
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
    ("limit", "integer", "At most so many objects in one reply."),
    ("continue", "string", "The token of the reply before."),
    ("resourceVersion", "string", "How fresh the reply must be."),
    ("watch", "boolean", "Stream changes instead of one reply."),
];

const WRITE_PARAMETERS: [Parameter; 2] = [
    ("fieldManager", "string", "Who writes; taken and not kept."),
    ("fieldValidation", "string", "Ignore, Warn or Strict; objects have no schema, so no field is unknown."),
];

fn operation(resource: &ApiResource, action: &str, suffix: &str, parameters: &[Parameter]) -> Value {
    let parameters: Vec<Value> = parameters
        .iter()
        .map(|(name, kind, description)| {
            json!({ "name": name, "in": "query", "description": description, "schema": { "type": kind } })
        })
        .collect();
    let reference = json!({ "$ref": format!("#/components/schemas/{}", schema_name(resource)) });
    let media: &[&str] = match action {
        "post" | "put" => &["application/json", "application/yaml"],
        // kubectl makes strategic merge patches itself, of the types that it was built with, unless they are named
        // here: then it looks for the merge keys in the schemas, which say nothing of them.
        "patch" => &["application/json-patch+json", "application/merge-patch+json"],
        _ => &[],
    };
    let mut operation = json!({
        "operationId": format!("{action}{}{}", resource.kind, suffix),
        "responses": { "200": { "description": "OK" } },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": group_version_kind(resource),
    });
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    if !media.is_empty() {
        let patch = json!({ "description": "The patch, as RFC 6902 or RFC 7386 say." });
        let schema = if action == "patch" { patch } else { reference };
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

fn group_version_kind(resource: &ApiResource) -> Value {
    json!({ "group": resource.group, "kind": resource.kind, "version": resource.version })
}

/// `com.example.v1.Widget`: the group backwards, as Kubernetes names schemas.
fn schema_name(resource: &ApiResource) -> String {
    let mut parts: Vec<&str> = resource.group.split('.').rev().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        parts.push("core");
    }
    parts.extend([resource.version.as_str(), resource.kind.as_str()]);
    parts.join(".")
}

fn schema(resource: &ApiResource) -> Value {
    json!({
        "description": format!("{} objects are stored as they come.", resource.kind),
        "type": "object",
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        },
        "x-kubernetes-group-version-kind": [group_version_kind(resource)],
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(document: &Document) -> Value {
        serde_json::from_slice(&document.body).expect("documents are JSON")
    }

    /// What kubectl's verifier does: the first PATCH of the kind that it meets must have the parameter.
    fn takes_field_validation(document: &Value, kind: &Value) -> (usize, bool) {
        let mut patches = 0;
        let mut all = true;
        for path in document["paths"].as_object().expect("paths").values() {
            let patch = &path["patch"];
            if patch["x-kubernetes-group-version-kind"] == *kind {
                patches += 1;
                let parameters = patch["parameters"].as_array().expect("parameters");
                all &= parameters.iter().any(|parameter| parameter["name"] == "fieldValidation");
            }
        }
        (patches, all)
    }

    #[test]
    fn every_kind_can_be_patched_with_field_validation() {
        let mut registry = Registry::builtin();
        registry.declare("example.com/v1/widgets/Widget/namespaced").expect("a good value");
        let openapi = OpenApi::new(&registry);
        for resource in registry.iter() {
            let path = format!("/openapi/v3{}", root(resource));
            let document = parse(openapi.get(&path).expect("a document for each version"));
            let (patches, all) = takes_field_validation(&document, &group_version_kind(resource));
            assert_eq!((patches, all), (1 + usize::from(resource.has_status()), true), "{}", resource.kind);
        }
    }

    #[test]
    fn the_index_names_every_document_and_its_hash() {
        let openapi = OpenApi::new(&Registry::builtin());
        let index = parse(openapi.get("/openapi/v3").expect("the index"));
        let paths = index["paths"].as_object().expect("paths");
        assert!(paths.contains_key("api/v1") && paths.contains_key("apis/apps/v1"));
        assert_eq!(paths.len() + 1, openapi.documents.len());
        for entry in paths.values() {
            let url = entry["serverRelativeURL"].as_str().expect("a URL");
            let (path, hash) = url.split_once("?hash=").expect("a hash");
            let document = openapi.get(path).expect("the document that the index names");
            assert_eq!(document.etag.as_deref(), Some(format!("\"{hash}\"").as_str()));
        }
        assert!(openapi.get("/openapi/v3/apis/none/v1").is_none());
    }

    #[test]
    fn references_lead_somewhere() {
        let openapi = OpenApi::new(&Registry::builtin());
        let document = parse(openapi.get("/openapi/v3/apis/apps/v1").expect("apps"));
        let post = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments"]["post"];
        let reference =
            post["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str().expect("a $ref");
        assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
    }
}
