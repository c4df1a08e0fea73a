//! The parts of the documents that clients use.

use super::*;

fn parse(document: &Document) -> Value {
    serde_json::from_slice(&document.body).expect("documents are JSON")
}

/// As kubectl's verifier does: the first PATCH of the kind that it finds must have the parameter.
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
    let openapi = OpenApi::new(Arc::new(registry.clone()));
    for resource in registry.iter().filter(|resource| resource.listed) {
        let path = format!("/openapi/v3{}", root(resource));
        let document = parse(openapi.get(&path).expect("a document for each version"));
        let (patches, all) = takes_field_validation(&document, &group_version_kind(resource, &resource.kind));
        assert_eq!((patches, all), (1 + usize::from(resource.has_status()), true), "{}", resource.kind);
    }
}

#[test]
fn the_index_names_every_document_and_its_hash() {
    let openapi = OpenApi::new(Registry::builtin().into());
    let index = parse(openapi.get("/openapi/v3").expect("the index"));
    let paths = index["paths"].as_object().expect("paths");
    assert!(paths.contains_key("api/v1") && paths.contains_key("apis/apps/v1"));
    assert_eq!(paths.len() + 1, openapi.v3().len());
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
    let openapi = OpenApi::new(Registry::builtin().into());
    let document = parse(openapi.get("/openapi/v3/apis/apps/v1").expect("apps"));
    let post = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments"]["post"];
    let reference =
        post["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str().expect("a $ref");
    assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
}

/// Every `$ref` of a tree.
fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match value.as_str() {
                    Some(reference) if name == "$ref" => found.push(reference),
                    Some(_) | None => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn registry() -> Registry {
    let mut registry = Registry::builtin();
    let declaration = r#"
        group = "example.com"
        version = "v1"
        plural = "widgets"
        kind = "Widget"
        scope = "namespaced"
        status = true
        selectableFields = ["spec.color", "spec.oneOf"]
    "#;
    registry.add(&toml::from_str(declaration).expect("the form of the config file")).expect("valid");
    registry
}

#[test]
fn every_reference_leads_somewhere() {
    let openapi = OpenApi::new(registry().into());
    let v2 = parse(openapi.v2(None));
    for document in openapi.v3().values().map(parse).chain([v2]) {
        let mut found = Vec::new();
        references(&document, &mut found);
        for reference in found {
            assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
        }
    }
}

#[test]
fn kinds_are_found_by_their_names_and_say_what_they_are() {
    let registry = registry();
    let openapi = OpenApi::new(Arc::new(registry.clone()));
    for resource in registry.iter().filter(|resource| resource.listed) {
        let document = parse(openapi.get(&format!("/openapi/v3{}", root(resource))).expect("a document"));
        let schemas = &document["components"]["schemas"];
        for (name, kind) in [("", &resource.kind), ("List", &resource.list_kind)] {
            let schema = &schemas[format!("{}{name}", schema_name(resource))];
            assert_eq!(
                schema["x-kubernetes-group-version-kind"],
                json!([group_version_kind(resource, kind)])
            );
            for member in ["apiVersion", "kind", "metadata"] {
                assert!(schema["properties"][member]["description"].is_string(), "{kind} {member}");
            }
            let words = schema["description"].as_str().expect("a description");
            assert!(words.ends_with('.'), "{words}");
            assert!(
                resource.printer == crate::api::printer::Printer::Custom
                    || !words.contains("stored as received")
            );
        }
        let properties = schemas[schema_name(resource)]["properties"].as_object().expect("members");
        assert!(properties.len() > 3, "{} has more than its metadata", resource.kind);
        assert_eq!(resource.has_status(), properties.contains_key("status"), "{}", resource.kind);
    }
    let core = parse(openapi.get("/openapi/v3/api/v1").expect("core"));
    let schemas = &core["components"]["schemas"];
    assert_eq!(
        schemas["io.k8s.api.core.v1.ConfigMap"]["properties"]["data"],
        json!({ "type": "object", "additionalProperties": { "type": "string" }, "description": "Text under keys." })
    );
    let port = &schemas["io.k8s.api.core.v1.ServicePort"]["properties"]["targetPort"]["allOf"][0]["$ref"];
    assert_eq!(port, "#/components/schemas/io.k8s.apimachinery.pkg.util.intstr.IntOrString");
    let widgets = parse(openapi.get("/openapi/v3/apis/example.com/v1").expect("declared"));
    let widget = &widgets["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(widget["properties"]["spec"]["properties"]["oneOf"]["description"], "A selectable field.");
    let names: Vec<String> = registry.iter().map(schema_name).collect();
    for name in [
        "io.k8s.api.apps.v1.Deployment",
        "io.k8s.api.rbac.v1.Role",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    ] {
        assert!(names.iter().any(|known| known == name), "{name}");
    }
}

#[test]
fn old_clients_are_not_told_that_declared_kinds_are_complete() {
    let openapi = OpenApi::new(registry().into());
    let definitions = &parse(openapi.v2(None))["definitions"];
    let widget = &definitions["com.example.v1.Widget"];
    assert_eq!((&widget["type"], widget.get("properties")), (&json!("object"), None));
    assert!(definitions["io.k8s.api.core.v1.Pod"]["properties"]["spec"].is_object());
    assert_eq!(definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["type"], "string");
}

#[test]
fn words_are_for_something_that_is_there() {
    let registry = Registry::builtin();
    let openapi = OpenApi::new(Arc::new(registry.clone()));
    let v2 = parse(openapi.v2(None));
    let definitions = v2["definitions"].as_object().expect("definitions");
    for (kind, _) in words::KINDS {
        assert!(registry.iter().any(|resource| resource.kind == *kind), "{kind}");
    }
    for (message, member, _) in words::MEMBERS.iter().filter(|(message, ..)| !["", "List"].contains(message))
    {
        let suffix = format!(".{message}");
        let (_, schema) = definitions.iter().find(|(name, _)| name.ends_with(&suffix)).expect(message);
        assert!(member.is_empty() || schema["properties"].get(member).is_some(), "{message} {member}");
    }
}

#[test]
fn strategic_merge_patches_are_not_listed() {
    // kubectl would make its patches from schemas without merge keys.
    for document in OpenApi::new(registry().into()).v3().values() {
        assert!(!String::from_utf8_lossy(&document.body).contains("strategic"));
    }
}

/// The fields of a protobuf message that are messages or strings; numbers are skipped.
fn fields(mut bytes: &[u8]) -> Vec<(usize, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> usize {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (first, rest) = bytes.split_first().expect("another byte");
            *bytes = rest;
            value |= usize::from(first & 0x7f) << shift;
            shift += 7;
            if first & 0x80 == 0 {
                return value;
            }
        }
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        match tag & 7 {
            0 => _ = varint(&mut bytes),
            2 => {
                let length = varint(&mut bytes);
                let (value, rest) = bytes.split_at(length);
                found.push((tag >> 3, value));
                bytes = rest;
            }
            other => panic!("wire type {other}"),
        }
    }
    found
}

/// All values at a path of field numbers.
fn at<'a>(bytes: &'a [u8], path: &[usize]) -> Vec<&'a [u8]> {
    path.iter().fold(vec![bytes], |messages, number| {
        let inner = messages.iter().flat_map(|message| fields(message));
        inner.filter(|(field, _)| field == number).map(|(_, value)| value).collect()
    })
}

#[test]
fn protobuf_has_what_kubectl_1_28_looks_for() {
    let registry = registry();
    let openapi = OpenApi::new(Arc::new(registry.clone()));
    for accept in [
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
        "application/json;q=0.5, application/com.github.proto-openapi.spec.v2.v1.0+protobuf;q=1",
    ] {
        assert_eq!(openapi.v2(Some(accept)).content_type, v2::PROTOBUF);
    }
    assert_eq!(openapi.v2(Some("application/json")).content_type, "application/json");
    let document = openapi.v2(Some(v2::PROTOBUF));
    assert_eq!(at(&document.body, &[1]), [b"2.0"]);
    // Document.paths.path.value.patch
    let patches = at(&document.body, &[8, 2, 2, 8]);
    for resource in registry.iter().filter(|resource| resource.listed) {
        let wanted = group_version_kind(resource, &resource.kind).to_string();
        let of_kind: Vec<&&[u8]> =
            patches.iter().filter(|patch| at(patch, &[13, 2, 2]).contains(&wanted.as_bytes())).collect();
        assert_eq!(of_kind.len(), 1 + usize::from(resource.has_status()), "{wanted}");
        for patch in of_kind {
            // parameters.parameter.non_body_parameter.query_parameter_sub_schema.name
            let names = at(patch, &[8, 1, 2, 3, 4]);
            for name in ["fieldValidation", "dryRun"] {
                assert!(names.contains(&name.as_bytes()), "{wanted} {name}");
            }
        }
    }
    // Document.definitions.additional_properties: names, and the descriptions of their values.
    let names = at(&document.body, &[9, 1, 1]);
    assert!(names.contains(&b"io.k8s.api.core.v1.PodSpec".as_slice()));
    assert!(at(&document.body, &[9, 1, 2, 4]).contains(&b"One address for a set of pods.".as_slice()));
}
