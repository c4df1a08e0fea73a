//! The form and format of a reply, and when it is compressed.

use revcast_engine::encoding::Encoding;
use serde_json::{Value, json};

use super::{Ask, CONFIG_MAPS, Got, World};
use crate::frontend::{Reply, StreamFormat};
use crate::http::response::{JSON, PROTOBUF};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const ONE: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const YAML: &str = "application/yaml";

fn kind(got: &Got) -> String {
    got.json()["kind"].as_str().unwrap_or_default().to_owned()
}

fn content_type(got: &Got) -> &'static str {
    match &got.reply {
        Reply::FullBody(whole) => whole.content_type,
        Reply::StreamingBody(pieces) => pieces.content_type(),
        Reply::PeriodicBody(body) => body.content_type(),
        Reply::Refused(..) | Reply::Watch(_) => "application/json",
    }
}

#[test]
fn what_accept_gives() {
    let world = World::new();
    world.config_map("a", "1");
    let object = format!("{CONFIG_MAPS}/a");
    for (accept, of_list, of_object) in [
        ("*/*", "ConfigMapList", "ConfigMap"),
        ("application/*", "ConfigMapList", "ConfigMap"),
        ("application/json", "ConfigMapList", "ConfigMap"),
        ("application/vnd.kubernetes.protobuf,application/json", "ConfigMapList", "ConfigMap"),
        (TABLE, "Table", "Table"),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", "Table", "Table"),
        ("application/json;as=Table;v=v2;g=meta.k8s.io,application/json", "ConfigMapList", "ConfigMap"),
        (ONE, "Status", "PartialObjectMetadata"),
        (LIST, "PartialObjectMetadataList", "Status"),
        ("application/vnd.kubernetes.protobuf", "ConfigMapList", "ConfigMap"),
        ("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", "Status", "Status"),
        ("application/cbor", "Status", "Status"),
        ("application/json;as=Nothing;v=v1;g=meta.k8s.io", "Status", "Status"),
    ] {
        for (target, wanted) in [(CONFIG_MAPS, of_list), (object.as_str(), of_object)] {
            let got = world.get_as(target, accept);
            assert_eq!(kind(&got), wanted, "{accept} {target}: {}", got.body);
            assert_eq!(got.code, if wanted == "Status" { 406 } else { 200 }, "{accept} {target}");
            let protobuf = accept.starts_with("application/vnd.kubernetes.protobuf") && got.code == 200;
            assert_eq!(content_type(&got), if protobuf { PROTOBUF } else { "application/json" }, "{accept}");
        }
    }
    assert_eq!(kind(&world.get(CONFIG_MAPS)), "ConfigMapList", "nothing asked");
    let beta = world.get_as(&object, "application/json;as=Table;v=v1beta1;g=meta.k8s.io").json();
    assert_eq!(beta["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!(beta["rows"][0]["object"]["apiVersion"], "meta.k8s.io/v1beta1");
}

/// What is asked in protobuf is what is asked in JSON.
#[test]
fn protobuf_says_what_json_says() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.config_map(name, "<1>&\u{2028}");
    }
    let widgets = "/apis/example.com/v1/namespaces/t1/widgets";
    let made = json!({"metadata": {"name": "w", "labels": {"x": "y"}}, "spec": {"size": 1.5}});
    assert_eq!(world.send("POST", widgets, &made).code, 201);
    let metadata = |accept: &str| accept.replace("application/json", PROTOBUF);
    let (one, list) = (metadata(ONE), metadata(LIST));
    for (target, protobuf, text) in [
        (CONFIG_MAPS.to_owned(), PROTOBUF, JSON),
        (format!("{CONFIG_MAPS}?limit=2"), PROTOBUF, JSON),
        (format!("{CONFIG_MAPS}?labelSelector=none"), PROTOBUF, JSON),
        (format!("{CONFIG_MAPS}/a"), PROTOBUF, JSON),
        (format!("{CONFIG_MAPS}/a"), one.as_str(), ONE),
        (CONFIG_MAPS.to_owned(), list.as_str(), LIST),
        (widgets.to_owned(), list.as_str(), LIST),
        (format!("{widgets}/w"), one.as_str(), ONE),
        (format!("{CONFIG_MAPS}/none"), PROTOBUF, JSON),
        (format!("{CONFIG_MAPS}?continue=abc"), PROTOBUF, JSON),
        (format!("{CONFIG_MAPS}?resourceVersion=99999999"), PROTOBUF, JSON),
        ("/api/v1/namespaces/t1/nones".to_owned(), PROTOBUF, JSON),
    ] {
        let (got, expected) = (world.get_as(&target, protobuf), world.get_as(&target, text));
        assert_eq!((got.code, content_type(&got)), (expected.code, PROTOBUF), "{target}");
        // Items of lists in protobuf have no type of their own.
        let mut json = expected.json();
        for item in json.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
            let item = item.as_object_mut().unwrap();
            item.shift_remove("kind");
            item.shift_remove("apiVersion");
        }
        let mut got = got.json();
        // Nor can an empty list be told from none.
        if got.get("items").is_some_and(Value::is_null) {
            got["items"] = json!([]);
        }
        assert_eq!(got, json, "{target}");
    }
    // Custom resources have no such form, and their errors have.
    let got = world.get_as(widgets, PROTOBUF);
    assert_eq!((got.code, content_type(&got)), (406, PROTOBUF));
    let got = world.get_as(widgets, "application/vnd.kubernetes.protobuf,application/json");
    assert_eq!((got.code, content_type(&got)), (200, JSON));
    let watch_request = |target: &str, accept: &str| {
        let got = world.get_as(&format!("{target}?watch=1"), accept);
        let request = got.watch_request();
        (request.subscription.encoding, request.format)
    };
    assert_eq!(watch_request(CONFIG_MAPS, PROTOBUF), (Encoding::Protobuf, StreamFormat::Protobuf));
    assert_eq!(
        watch_request(CONFIG_MAPS, "application/vnd.kubernetes.protobuf;stream=watch").0,
        Encoding::Protobuf
    );
    assert_eq!(
        watch_request(widgets, "application/vnd.kubernetes.protobuf,application/json").0,
        Encoding::Json
    );
    let metadata = watch_request(widgets, &one);
    assert!(metadata.0 != watch_request(widgets, ONE).0 && metadata.1 == StreamFormat::Protobuf);
    assert_eq!(world.get_as(&format!("{widgets}?watch=1"), PROTOBUF).code, 406);
}

#[test]
fn a_406_says_what_there_is() {
    let world = World::new();
    world.config_map("a", "1");
    let message = |target: &str, accept: &str| {
        let got = world.get_as(target, accept);
        assert_eq!(got.code, 406, "{}", got.body);
        assert!(got.body.starts_with("{\n  \"kind\": \"Status\""), "for people: {}", got.body);
        got.message()
    };
    let all = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
    assert_eq!(message(CONFIG_MAPS, "application/cbor"), all);
    assert_eq!(message(&format!("{CONFIG_MAPS}?watch=1"), "application/cbor"), all);
    let few = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";
    assert_eq!(message(CONFIG_MAPS, "application/json;as=Foo;v=v1;g=meta.k8s.io"), few);
    assert_eq!(
        message(CONFIG_MAPS, ONE),
        "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"
    );
    assert_eq!(
        message(&format!("{CONFIG_MAPS}/a"), LIST),
        "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)"
    );
    assert_eq!(
        message("/apis/apps/v1/deployments", ONE),
        "you requested PartialObjectMetadata, but the requested object is a list (*apps.DeploymentList)"
    );
    assert_eq!(
        message("/apis/example.com/v1/widgets", ONE),
        "you requested PartialObjectMetadata, but the requested object is a list (*unstructured.UnstructuredList)"
    );
    // What cannot be shown is not written.
    let before = world.revision();
    let body = json!({"metadata": {"name": "b"}}).to_string();
    for (method, target) in [("POST", CONFIG_MAPS.to_owned()), ("PUT", format!("{CONFIG_MAPS}/a"))] {
        let ask = Ask::new(method, &target).with("Accept", LIST).with("Content-Type", "application/json");
        assert_eq!(world.ask(&Ask { body: body.clone().into(), ..ask }).code, 406);
    }
    assert_eq!(world.ask(&Ask::new("DELETE", CONFIG_MAPS).with("Accept", ONE)).code, 406);
    assert_eq!(world.revision(), before);
}

#[test]
fn errors_have_no_other_form() {
    let world = World::new();
    let none = format!("{CONFIG_MAPS}/none");
    for accept in [format!("{TABLE},application/json"), format!("{ONE},application/json")] {
        let got = world.get_as(&none, &accept);
        assert_eq!((got.code, kind(&got)), (404, "Status".to_owned()));
        assert!(got.body.starts_with("{\"kind\":") && got.body.ends_with("}\n"), "{}", got.body);
    }
    // A client that accepts nothing available gets it nevertheless, indented.
    let got = world.get_as(&none, TABLE);
    assert_eq!((got.code, kind(&got)), (404, "Status".to_owned()));
    assert!(got.body.starts_with("{\n  \"kind\""), "{}", got.body);
    let yaml = world.get_as(&none, YAML);
    assert_eq!((yaml.code, content_type(&yaml)), (404, YAML));
    let wanted = "apiVersion: v1\ncode: 404\ndetails:\n  kind: configmaps\n  name: none\nkind: Status\nmessage: configmaps \"none\" not found\nmetadata: {}\nreason: NotFound\nstatus: Failure\n";
    assert_eq!(yaml.body, wanted);
    for target in ["/api/v1/nothing", "/api/v1/configmaps?limit=x"] {
        let got = world.get_as(target, YAML);
        assert!(got.code >= 400 && got.body.starts_with("apiVersion: v1\ncode: 4"), "{}", got.body);
    }
    let method = world.ask(&Ask::new("PUT", CONFIG_MAPS).with("Accept", YAML));
    assert_eq!((method.code, content_type(&method)), (405, YAML));
}

#[test]
fn tables_of_single_objects_and_writes() {
    let world = World::new();
    let shown = |got: &Got, code: u16, cell: &str| {
        assert_eq!((got.code, kind(got)), (code, "Table".to_owned()), "{}", got.body);
        let table = got.json();
        assert_eq!(table["rows"][0]["cells"][0], cell);
        assert!(table["columnDefinitions"].is_array());
        table
    };
    let ask = |method: &'static str, target: &str, media: &'static str, body: &Value| {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let ask = Ask::new(method, target).with("Accept", TABLE).with("Content-Type", media);
        world.ask(&Ask { body: body.into(), ..ask })
    };
    let object = format!("{CONFIG_MAPS}/a");
    let finalized = json!({"metadata": {"name": "a", "finalizers": ["x.io/y"]}, "data": {"k": "v"}});
    shown(&ask("POST", CONFIG_MAPS, "application/json", &finalized), 201, "a");
    shown(&ask("GET", &object, "application/json", &Value::Null), 200, "a");
    shown(&ask("PUT", &object, "application/json", &finalized), 200, "a");
    let patch = json!({"data": {"l": "w"}});
    let patched = shown(&ask("PATCH", &object, "application/merge-patch+json", &patch), 200, "a");
    assert_eq!(patched["rows"][0]["cells"][1], 2);
    // It waits for its finalizer.
    shown(&ask("DELETE", &object, "application/json", &Value::Null), 200, "a");
    // A deleted object is answered with a Status, also for a Table.
    world.config_map("b", "1");
    let gone = ask("DELETE", &format!("{CONFIG_MAPS}/b"), "application/json", &Value::Null);
    assert_eq!((gone.code, kind(&gone)), (200, "Status".to_owned()));
    world.config_map("c", "1");
    let one = world.ask(&Ask::new("DELETE", &format!("{CONFIG_MAPS}/c")).with("Accept", YAML));
    assert!(
        one.body.starts_with("apiVersion: v1\ndetails:\n  kind: configmaps\n  name: c\n"),
        "{}",
        one.body
    );
    assert!(one.body.ends_with("\nstatus: Success\n"), "{}", one.body);
}

#[test]
fn what_a_row_includes() {
    let world = World::new();
    world.config_map("a", "1");
    world.config_map("b", "1");
    let rows = |include: &str| world.get_as(&format!("{CONFIG_MAPS}?limit=1&includeObject={include}"), TABLE);
    for (include, wanted) in [
        ("None", Value::Null),
        ("Metadata", "PartialObjectMetadata".into()),
        ("", "PartialObjectMetadata".into()),
        ("Object", "ConfigMap".into()),
    ] {
        let table = rows(include).json();
        assert_eq!(table["rows"][0]["object"]["kind"], wanted, "{include}");
        assert!(table["metadata"]["continue"].is_string());
        assert_eq!(table["metadata"]["remainingItemCount"], 1);
    }
    let wrong = rows("All");
    assert_eq!(wrong.code, 400);
    assert_eq!(
        wrong.message(),
        "Unable to convert to Table as requested: includeObject: Invalid value: \"All\": must be 'Metadata', 'Object', 'None', or empty"
    );
    assert_eq!(world.get_as(&format!("{CONFIG_MAPS}?includeObject=All"), "application/json").code, 200);
    assert_eq!(world.get_as(&format!("{CONFIG_MAPS}?watch=1&includeObject=All"), TABLE).code, 400);
}

#[test]
fn pretty_is_for_people() {
    let world = World::new();
    world.config_map("a", "1");
    let lines = |query: &str, agent: &str, accept: &str| {
        let target = format!("{CONFIG_MAPS}{query}");
        let ask = Ask::new("GET", &target).with("User-Agent", agent).with("Accept", accept);
        let got = world.ask(&ask);
        let pretty = got.body.starts_with("{\n  \"kind\": \"ConfigMapList\"");
        assert_eq!(got.body.ends_with("}\n"), !pretty, "a line feed ends the compact one only");
        pretty
    };
    let json = "application/json";
    for (query, agent, accept, pretty) in [
        ("", "kubectl/v1.34.0", json, false),
        ("", "curl/8.5.0", json, true),
        ("", "Wget/1.21", json, true),
        ("", "Mozilla/5.0 (X11; Linux)", json, true),
        ("", "mozilla/5.0", json, false),
        ("?pretty=true", "x", json, true),
        ("?pretty=1", "x", json, true),
        ("?pretty=false", "curl/8", json, false),
        ("?pretty=0", "curl/8", json, false),
        ("?pretty=x", "curl/8", json, false),
        ("?pretty=", "curl/8", json, true),
        ("?pretty", "x", json, false),
        ("", "x", "application/json;pretty=1", true),
        ("", "x", "application/json;pretty=0", false),
        ("", "curl/8", "application/json;pretty=0", true),
        ("?pretty=false", "x", "application/json;pretty=1", true),
    ] {
        assert_eq!(lines(query, agent, accept), pretty, "{query} {agent} {accept}");
    }
}

#[test]
fn yaml_of_objects_lists_and_tables() {
    let world = World::new();
    let empty = world.get_as(CONFIG_MAPS, YAML);
    let revision = world.revision();
    assert_eq!(
        empty.body,
        format!(
            "apiVersion: v1\nitems: []\nkind: ConfigMapList\nmetadata:\n  resourceVersion: \"{revision}\"\n"
        )
    );
    let body = json!({"metadata": {"name": "a"}, "data": {"b.sh": "x\ny\n", "no": "yes"}});
    let ask = Ask::new("POST", CONFIG_MAPS).with("Accept", YAML).with("Content-Type", "application/json");
    let made = world.ask(&ask.json(&body));
    assert_eq!((made.code, content_type(&made)), (201, YAML));
    assert!(made.body.starts_with("apiVersion: v1\ndata:\n  b.sh: |\n    x\n    y\n  \"no\": \"yes\"\nkind: ConfigMap\nmetadata:\n  creationTimestamp: \""), "{}", made.body);
    assert_eq!(world.get_as(&format!("{CONFIG_MAPS}/a"), YAML).body, made.body);
    world.config_map("b", "1");
    let list = world.get_as(CONFIG_MAPS, YAML).body;
    assert!(list.starts_with("apiVersion: v1\nitems:\n- data:\n    b.sh: |\n      x\n      y\n    \"no\": \"yes\"\n  metadata:\n"), "{list}");
    assert!(list.contains("\n- data:\n    k: \"1\"\n  metadata:\n"), "{list}");
    let table =
        world.get_as(&format!("{CONFIG_MAPS}?includeObject=None&limit=1"), &TABLE.replace("json", "yaml"));
    assert_eq!(content_type(&table), YAML);
    assert!(
        table
            .body
            .starts_with("apiVersion: meta.k8s.io/v1\ncolumnDefinitions:\n- description: 'Name must be"),
        "{}",
        table.body
    );
    assert!(
        table.body.ends_with("\nrows:\n- cells:\n  - a\n  - 2\n  - 0s\n  object: null\n"),
        "{}",
        table.body
    );
    assert!(table.body.contains("\nkind: Table\nmetadata:\n  continue: "), "{}", table.body);
    let bare = world.get_as(CONFIG_MAPS, &LIST.replace("json", "yaml")).body;
    assert!(bare.starts_with("apiVersion: meta.k8s.io/v1\nitems:\n- apiVersion: meta.k8s.io/v1\n  kind: PartialObjectMetadata\n  metadata:\n"), "{bare}");
    // In the query, `pretty` applies to JSON only.
    assert_eq!(world.get_as(&format!("{CONFIG_MAPS}?pretty=true"), YAML).body, list);
}

#[test]
fn watches_have_no_yaml() {
    let world = World::new();
    let watch = format!("{CONFIG_MAPS}?watch=1");
    for target in [watch.as_str(), "/api/v1/watch/configmaps"] {
        let got = world.get_as(target, YAML);
        assert_eq!((got.code, content_type(&got)), (406, YAML));
        assert_eq!(
            got.body,
            "apiVersion: v1\ncode: 406\nkind: Status\nmessage: 'only the following media types are accepted: application/json;stream=watch,\n  application/vnd.kubernetes.protobuf;stream=watch'\nmetadata: {}\nreason: NotAcceptable\nstatus: Failure\n"
        );
    }
    let plain = world.get_as(&watch, "application/json").watch_request().subscription.encoding;
    assert_eq!(
        world.get_as(&watch, "application/yaml, application/json").watch_request().subscription.encoding,
        plain
    );
    let table = world.get_as(&watch, TABLE).watch_request().subscription.encoding;
    assert_ne!(table, plain);
    assert_eq!(
        world.get_as(&watch, &format!("application/yaml, {TABLE}")).watch_request().subscription.encoding,
        table
    );
    // Each object of a stream has kind and apiVersion, whichever of the two was requested.
    let bare = world.get_as(&watch, ONE).watch_request().subscription.encoding;
    assert_eq!(world.get_as(&watch, LIST).watch_request().subscription.encoding, bare);
}

#[test]
fn long_replies_are_compressed_for_who_takes_it() {
    let world = World::new();
    let big = "x".repeat(130 << 10);
    world.config_map("a", "1");
    let ask = |target: &str, headers: &[(&'static str, &'static str)]| {
        let mut ask = Ask::new("GET", target);
        ask.headers.extend_from_slice(headers);
        world.ask(&ask)
    };
    let gzip = ("Accept-Encoding", "gzip");
    let coding = |got: &Got| match &got.reply {
        Reply::FullBody(whole) => (whole.content_encoding, whole.vary),
        Reply::StreamingBody(pieces) => (pieces.is_gzip().then_some("gzip"), None),
        Reply::PeriodicBody(_) | Reply::Refused(..) | Reply::Watch(_) => (None, None),
    };
    // Recording 18: short ones do not even have `Vary`.
    assert_eq!(coding(&ask(CONFIG_MAPS, &[gzip])), (None, None));
    let body = json!({"metadata": {"name": "big"}, "data": {"k": big}});
    assert_eq!(world.send("POST", CONFIG_MAPS, &body).code, 201);
    let object = format!("{CONFIG_MAPS}/big");
    let pretty = format!("{CONFIG_MAPS}?pretty=true");
    for (target, accept) in [
        (CONFIG_MAPS, "application/json"),
        (CONFIG_MAPS, YAML),
        (pretty.as_str(), "application/json"),
        (object.as_str(), "application/json"),
        (object.as_str(), YAML),
    ] {
        let zipped = ask(target, &[gzip, ("Accept", accept)]);
        assert_eq!(coding(&zipped), (Some("gzip"), Some("Accept-Encoding")), "{target} {accept}");
        assert!(zipped.whole().body.len() < 2048, "as in the recording, short enough for a length");
        let plain = ask(target, &[("Accept", accept)]);
        assert_eq!(coding(&plain), (None, None));
        assert_eq!(zipped.body, plain.body, "{target} {accept}");
        assert_eq!(content_type(&zipped), accept);
        for refused in ["identity", "gzip;q=0", "br"] {
            let got = ask(target, &[("Accept-Encoding", refused), ("Accept", accept)]);
            assert_eq!(coding(&got), (None, None), "{refused}");
        }
    }
    // What does not shrink is sent in pieces.
    let noise = |seed: u64| {
        let mut state = seed | 1;
        let letter = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(b'0' + u8::try_from(state % 64).unwrap_or(0))
        };
        (0..20_000).map(letter).collect::<String>().replace(['\\', '<', '>'], "_")
    };
    for number in 0..20 {
        let body = json!({"metadata": {"name": format!("n{number}")}, "data": {"k": noise(number + 7)}});
        assert_eq!(world.send("POST", CONFIG_MAPS, &body).code, 201);
    }
    for accept in ["application/json", YAML] {
        let zipped = ask(CONFIG_MAPS, &[gzip, ("Accept", accept)]);
        assert!(matches!(&zipped.reply, Reply::StreamingBody(pieces) if pieces.is_gzip()));
        assert_eq!(zipped.body, ask(CONFIG_MAPS, &[("Accept", accept)]).body);
    }
    // A list between the limits is sent in pieces, uncompressed.
    let middle = ask(&format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dn3"), &[gzip]);
    assert!(matches!(&middle.reply, Reply::StreamingBody(pieces) if !pieces.is_gzip()));
}
