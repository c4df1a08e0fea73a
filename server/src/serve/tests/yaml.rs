//! Bodies in YAML.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Ask, CONFIG_MAPS, Got, World};

const YAML: &str = "application/yaml";

fn send(world: &World, method: &str, target: &str, body: &str) -> Got {
    let mut ask = Ask::new(method, target).with("Content-Type", YAML);
    ask.body = Bytes::from(body.to_owned());
    world.ask(&ask)
}

#[test]
fn objects_are_made_and_changed() {
    let world = World::new();
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm1 # mine\n  labels: {app: \"1\"}\ndata:\n  k: |\n    a\n    b\n";
    let got = send(&world, "POST", CONFIG_MAPS, body);
    assert_eq!((got.code, &got.json()["data"]), (201, &json!({"k": "a\nb\n"})), "{}", got.body);
    let one = format!("{CONFIG_MAPS}/cm1");
    let got = send(&world, "PUT", &one, "---\nmetadata: {name: cm1}\ndata: {k: 'yes', \"1\": x}\n");
    assert_eq!((got.code, &got.json()["data"]), (200, &json!({"k": "yes", "1": "x"})), "{}", got.body);
    let pods = "/api/v1/namespaces/t1/pods";
    let pod = "metadata: {name: p}\nspec: {volumes: [{name: v, secret: {secretName: s, defaultMode: 0644}}], hostNetwork: on}\n";
    let got = send(&world, "POST", pods, pod).json();
    assert_eq!(got["spec"]["volumes"][0]["secret"]["defaultMode"], 420);
    assert_eq!(got["spec"]["hostNetwork"], true);
    // The rules for JSON apply to YAML.
    assert_eq!(send(&world, "POST", CONFIG_MAPS, "kind: Pod\nmetadata: {name: a}\n").code, 400);
    let labels = send(&world, "POST", CONFIG_MAPS, "metadata: {name: a, labels: {k: 1}}\n");
    assert_eq!(labels.code, 400, "a number is no text: {}", labels.body);
}

#[test]
fn options_of_a_delete() {
    let world = World::new();
    world.config_map("cm1", "x");
    let one = format!("{CONFIG_MAPS}/cm1");
    assert_eq!(send(&world, "DELETE", &one, "preconditions: {uid: other}\n").code, 409);
    assert_eq!(send(&world, "DELETE", &one, "dryRun: [All]\n").code, 200);
    assert_eq!(world.get(&one).code, 200);
    assert_eq!(send(&world, "DELETE", &one, "# nothing asked\n").code, 200);
    assert_eq!(world.get(&one).code, 404);
}

#[test]
fn what_is_no_object_is_refused() {
    let world = World::new();
    for (body, part) in [
        ("", "has no body"),
        ("# a comment\n", "has no body"),
        ("- a\n", "it is not a JSON object"),
        ("text", "it is not a JSON object"),
        ("metadata: {name: a}\n---\nmetadata: {name: b}\n", "more than one document"),
        ("metadata: {name: a", "line 1"),
        ("metadata: {name: *a}\n", "anchor"),
        ("metadata: {name: a}\ndata: {k: .inf}\n", "JSON has no number"),
    ] {
        let got = send(&world, "POST", CONFIG_MAPS, body);
        assert_eq!(got.code, 400, "{body:?} {}", got.body);
        assert!(got.message().contains(part), "{body:?} {}", got.message());
    }
    let mut laughs =
        "metadata: {name: a}\na0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..12 {
        laughs.push_str(&format!(
            "a{level}: &a{level} [{}]\n",
            vec![format!("*a{}", level - 1); 10].join(", ")
        ));
    }
    let got = send(&world, "POST", CONFIG_MAPS, &laughs);
    assert_eq!(got.code, 400);
    assert!(got.message().contains("excessive aliasing"), "{}", got.message());
    assert_eq!(
        send(&world, "PATCH", &format!("{CONFIG_MAPS}/a"), "data: {}\n").code,
        415,
        "no patch is YAML by that name"
    );
    for media in ["application/x-yaml", "text/yaml"] {
        let ask = Ask::new("POST", CONFIG_MAPS).with("Content-Type", media).json(&Value::Null);
        let got = world.ask(&ask);
        assert_eq!(got.code, 415);
        let taken = ": application/json, application/yaml, application/vnd.kubernetes.protobuf";
        assert!(got.message().ends_with(taken), "{}", got.message());
    }
    assert_eq!(world.host.writes.get(), 0);
}
