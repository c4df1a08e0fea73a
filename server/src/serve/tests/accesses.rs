//! Authorization: every kind of access against every kind of rule, as a table; and what a refused client learns.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{Ask, Got, World};
use crate::auth::{Guard, OidcOptions, Options};
use crate::serve::Reply;
use revcast_engine::Scope;

/// One user per rule; a user's token is its name. In the order of the table's columns.
const USERS: [(&str, &str); 12] = [
    ("all", r#"verbs = ["*"], resources = ["*"], namespaces = ["*"]"#),
    ("inside", r#"verbs = ["*"], resources = ["*"], namespaces = ["ns"]"#),
    ("reader", r#"verbs = ["get", "list", "watch"], resources = ["configmaps"], namespaces = ["ns"]"#),
    ("named", r#"verbs = ["*"], resources = ["configmaps"], namespaces = ["ns"], names = ["x"]"#),
    ("anywhere", r#"verbs = ["*"], resources = ["configmaps"], namespaces = ["*"], names = ["x"]"#),
    ("status", r#"verbs = ["get", "patch", "update"], resources = ["pods/status"], namespaces = ["ns"]"#),
    ("pods", r#"verbs = ["*"], resources = ["pods"], namespaces = ["ns"]"#),
    ("apps", r#"verbs = ["*"], resources = ["apps/deployments"], namespaces = ["*"]"#),
    ("core", r#"verbs = ["*"], resources = ["deployments", "apps"], namespaces = ["*"]"#),
    ("paths", r#"verbs = ["get"], paths = ["/api", "/apis/*", "/openapi/*", "/version"]"#),
    ("every", r#"verbs = ["*"], paths = ["*"]"#),
    ("none", r#"verbs = ["get"], paths = ["/nowhere"]"#),
];

/// A request, and which users may make it: `x`, or may not: `.`, in the order of [`USERS`].
const TABLE: &[(&str, &str)] = &[
    // all inside reader named anywhere status pods apps core paths every none
    ("GET /api/v1/namespaces/ns/configmaps/x", "xxxxx......."),
    ("GET /api/v1/namespaces/ns/configmaps/y", "xxx........."),
    ("GET /api/v1/namespaces/ns/configmaps/x2", "xxx........."),
    ("GET /api/v1/namespaces/ns/configmaps/X", "xxx........."),
    ("GET /api/v1/namespaces/ns-other/configmaps/x", "x...x......."),
    ("GET /api/v1/namespaces/n/configmaps/x", "x...x......."),
    ("GET /api/v1/namespaces/NS/configmaps/x", "x...x......."),
    ("GET /api/v1/namespaces/ns/configmaps2/x", "xx.........."),
    ("GET /api/v1/namespaces/ns/config/x", "xx.........."),
    ("GET /apis/example.com/v1/namespaces/ns/configmaps/x", "xx.........."),
    ("PUT /api/v1/namespaces/ns/configmaps/x", "xx.xx......."),
    ("PATCH /api/v1/namespaces/ns/configmaps/x", "xx.xx......."),
    ("PATCH /api/v1/namespaces/ns/configmaps/y", "xx.........."),
    ("DELETE /api/v1/namespaces/ns/configmaps/x", "xx.xx......."),
    ("DELETE /api/v1/namespaces/ns/configmaps/y", "xx.........."),
    // A collection is more than one of its names.
    ("GET /api/v1/namespaces/ns/configmaps", "xxx........."),
    ("GET /api/v1/namespaces/ns/configmaps?watch=1", "xxx........."),
    ("GET /api/v1/namespaces/ns/configmaps?watch", "xxx........."),
    ("GET /api/v1/namespaces/ns/configmaps?watch=false", "xxx........."),
    ("GET /api/v1/namespaces/ns-other/configmaps?watch=1", "x..........."),
    ("GET /api/v1/watch/namespaces/ns/configmaps", "xxx........."),
    ("GET /api/v1/namespaces/ns/configmaps?labelSelector=metadata.name%3Dx", "xxx........."),
    // Unless a field selector leaves one.
    ("GET /api/v1/namespaces/ns/configmaps?fieldSelector=metadata.name%3Dx", "xxxxx......."),
    ("GET /api/v1/namespaces/ns/configmaps?watch=1&fieldSelector=metadata.name%3Dx", "xxxxx......."),
    ("GET /api/v1/namespaces/ns/configmaps?watch=1&fieldSelector=metadata.name%3D%3Dx", "xxxxx......."),
    ("GET /api/v1/namespaces/ns/configmaps?watch=1&fieldSelector=metadata.name%3Dy", "xxx........."),
    ("GET /api/v1/namespaces/ns/configmaps?watch=1&fieldSelector=metadata.name!%3Dx", "xxx........."),
    ("GET /api/v1/namespaces/ns/configmaps?watch=1&fieldSelector=metadata.name%3D", "xxx........."),
    (
        "GET /api/v1/namespaces/ns/configmaps?watch=1&fieldSelector=metadata.name%3Dx,metadata.namespace%3Dns",
        "xxxxx.......",
    ),
    (
        "GET /api/v1/namespaces/ns/configmaps?watch=1&fieldSelector=metadata.name%3Dx,metadata.name%3Dy",
        "xxx.........",
    ),
    (
        "GET /api/v1/namespaces/ns/configmaps?watch=1&fieldSelector=metadata.name%3Dy&fieldSelector=metadata.name%3Dx",
        "xxx.........",
    ),
    ("GET /api/v1/namespaces/ns/configmaps?fieldSelector=spec.nothing%3D1,metadata.name%3Dx", "xxx........."),
    ("GET /api/v1/namespaces/ns/configmaps?watch=1&fieldselector=metadata.name%3Dx", "xxx........."),
    ("GET /api/v1/watch/namespaces/ns/configmaps?fieldSelector=metadata.name%3Dx", "xxxxx......."),
    ("GET /api/v1/watch/namespaces/ns/configmaps/x", "xxxxx......."),
    ("GET /api/v1/watch/namespaces/ns/configmaps/y", "xxx........."),
    ("GET /api/v1/watch/namespaces/ns/configmaps/y?fieldSelector=metadata.name%3Dx", "xxx........."),
    // All namespaces are more than one of them, whatever a selector selects.
    ("GET /api/v1/configmaps", "x..........."),
    ("GET /api/v1/configmaps?watch=1", "x..........."),
    ("GET /api/v1/watch/configmaps", "x..........."),
    ("GET /api/v1/configmaps?watch=1&fieldSelector=metadata.namespace%3Dns", "x..........."),
    ("GET /api/v1/configmaps?watch=1&fieldSelector=metadata.name%3Dx", "x...x......."),
    (
        "GET /api/v1/configmaps?watch=1&fieldSelector=metadata.name%3Dx,metadata.namespace%3Dns",
        "x...x.......",
    ),
    // An object that is created may have no name yet, and a collection is deleted as a whole.
    ("POST /api/v1/namespaces/ns/configmaps", "xx.........."),
    ("POST /api/v1/namespaces/ns/configmaps?fieldSelector=metadata.name%3Dx", "xx.........."),
    ("POST /api/v1/namespaces/ns-other/configmaps", "x..........."),
    ("DELETE /api/v1/namespaces/ns/configmaps?fieldSelector=metadata.name%3Dx", "xx.........."),
    ("DELETE /api/v1/namespaces/ns-other/configmaps", "x..........."),
    // A subresource is not its object, and vice versa.
    ("GET /api/v1/namespaces/ns/pods/p/status", "xx...x......"),
    ("PATCH /api/v1/namespaces/ns/pods/p/status", "xx...x......"),
    ("GET /api/v1/namespaces/ns/pods/p", "xx....x....."),
    ("PATCH /api/v1/namespaces/ns-other/pods/p/status", "x..........."),
    ("GET /apis/apps/v1/namespaces/ns/deployments/d", "xx.....x...."),
    ("GET /apis/apps/v1/deployments?watch=1", "x......x...."),
    ("GET /apis/apps/v1/namespaces/ns/deployments/d/status", "xx.........."),
    ("GET /api/v1/namespaces/ns/deployments/d", "xx......x..."),
    // Resources without a namespace, and namespaces, each of which is in itself.
    ("GET /api/v1/nodes", "x..........."),
    ("DELETE /api/v1/nodes/ns", "x..........."),
    ("GET /api/v1/namespaces", "x..........."),
    ("GET /api/v1/namespaces?watch=1&fieldSelector=metadata.name%3Dns", "x..........."),
    ("GET /api/v1/namespaces/ns", "xx.........."),
    ("GET /api/v1/namespaces/ns-other", "x..........."),
    // Paths that name no object.
    ("GET /api", ".........xx."),
    ("GET /api/v1", "..........x."),
    ("GET /apis/apps/v1", ".........xx."),
    ("GET /openapi", "..........x."),
    ("GET /openapi/v2", ".........xx."),
    ("GET /version/", ".........xx."),
    ("POST /version", "..........x."),
];

/// Files of its own, removed at the end.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("revcast-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl World {
    fn guarded(files: &Files, tokens: &str, rules: &str, anonymous: bool) -> Self {
        let options = Options {
            token_file: Some(files.write("tokens", tokens)),
            rules: Some(files.write("rules", rules)),
            anonymous,
            ..Options::default()
        };
        let Self { app, host, budget } = Self::new();
        let guard = Arc::new(Guard::new(options).unwrap_or_else(|error| panic!("{error}\n{rules}")));
        Self { app: app.with_guard(guard), host, budget }
    }

    fn ask_as(&self, user: &str, line: &str) -> Got {
        let (method, target) = line.split_once(' ').unwrap();
        let token = format!("Bearer {user}");
        let mut ask = Ask::new(method, target).with("Authorization", &token);
        if method == "POST" || method == "PUT" || method == "PATCH" {
            let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
            ask = ask.with("Content-Type", media).json(&serde_json::json!({}));
        }
        self.ask(&ask)
    }
}

fn rules() -> String {
    let rule = |(user, grant): &(&str, &str)| {
        let lines: Vec<String> =
            grant.split("], ").map(|line| format!("{}]\n", line.trim_end_matches(']'))).collect();
        format!("[[rule]]\nusers = [\"{user}\"]\n{}", lines.concat())
    };
    USERS.iter().map(rule).collect()
}

fn tokens() -> String {
    USERS.iter().map(|(user, _)| format!("{user},{user},{user}\n")).collect()
}

#[test]
fn every_access_against_every_rule() {
    let files = Files::new("matrix");
    let world = World::guarded(&files, &tokens(), &rules(), false);
    let mut wrong = Vec::new();
    for (line, expected) in TABLE {
        let found: String = USERS
            .iter()
            .map(|(user, _)| match world.ask_as(user, line) {
                got if got.code == 403 => '.',
                got if got.code == 401 => panic!("{user} {line}: {got:?}"),
                _ => 'x',
            })
            .collect();
        if found != *expected {
            wrong.push(format!("{line}\n  expected {expected}\n  found    {found}"));
        }
        let nobody = world.ask(&Ask::new(line.split_once(' ').unwrap().0, line.split_once(' ').unwrap().1));
        assert_eq!(nobody.code, 401, "{line} without credentials");
        assert_eq!(world.ask_as("wrong", line).code, 401, "{line} with wrong ones");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_narrowed_read_is_of_that_name_alone() {
    let files = Files::new("narrowed");
    let world = World::guarded(&files, &tokens(), &rules(), false);
    for name in ["x", "y"] {
        let body = serde_json::json!({"metadata": {"name": name}});
        let ask = Ask::new("POST", "/api/v1/namespaces/ns/configmaps").with("Authorization", "Bearer all");
        assert_eq!(world.ask(&ask.with("Content-Type", "application/json").json(&body)).code, 201);
    }
    let line = "GET /api/v1/namespaces/ns/configmaps?fieldSelector=metadata.name%3Dx";
    let got = world.ask_as("named", line);
    assert_eq!(got.json()["items"].as_array().unwrap().len(), 1);
    assert_eq!(got.json()["items"][0]["metadata"]["name"], "x");
    let watch_request = world.ask_as("named", &format!("{line}&watch=1")).watch_request();
    let Scope::Objects(scope) = watch_request.subscription.scope else { panic!("a resource") };
    assert_eq!(scope.name.as_deref(), Some("x"));
    assert_eq!(watch_request.authorization.unwrap().identity().name, "named");
}

#[test]
fn refusals_are_those_of_kube_apiserver() {
    let files = Files::new("refusals");
    let world = World::guarded(&files, &tokens(), &rules(), false);
    let got = world.ask_as("none", "GET /api/v1/namespaces/ns/configmaps/x");
    assert_eq!(
        got.body,
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"configmaps \\\"x\\\" is \
         forbidden: User \\\"none\\\" cannot get resource \\\"configmaps\\\" in API group \\\"\\\" in the namespace \
         \\\"ns\\\"\",\"reason\":\"Forbidden\",\"details\":{\"name\":\"x\",\"kind\":\"configmaps\"},\"code\":403}\n"
    );
    assert!(got.whole().nosniff);
    let got = world.ask_as("none", "GET /version");
    assert_eq!(got.message(), "forbidden: User \"none\" cannot get path \"/version\"");
    let got = world.ask_as("wrong", "GET /version");
    assert_eq!((got.code, got.whole().content_type, got.whole().nosniff), (401, "application/json", false));
    assert_eq!(
        got.body,
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"Unauthorized\",\
         \"reason\":\"Unauthorized\",\"code\":401}\n"
    );
    // A refusal reveals nothing: no resources, names or methods.
    for line in
        ["GET /apis/nope.example/v1/widgets", "OPTIONS /api/v1/pods", "GET /nowhere/x", "PUT /api/v1/pods"]
    {
        assert_eq!(world.ask_as("none", line).code, 403, "{line}");
    }
    let pretty = world.get_as("/version?pretty=1", "application/yaml");
    assert!(pretty.code == 401 && pretty.body.contains("reason: Unauthorized"), "{}", pretty.body);
    // Health checks are open to all, whatever credentials a request has.
    for path in ["/livez", "/readyz", "/healthz", "/readyz/ping"] {
        assert_eq!(world.get(path).code, 200, "{path}");
        assert_eq!(world.ask_as("wrong", &format!("GET {path}")).code, 200, "{path}");
    }
}

#[test]
fn nobody_speaks_for_somebody_else() {
    let files = Files::new("impersonation");
    let world = World::guarded(&files, &tokens(), &rules(), false);
    let ask = |name, value| {
        Ask::new("GET", "/api/v1/configmaps").with("Authorization", "Bearer all").with(name, value)
    };
    let got = world.ask(&ask("Impersonate-User", "none"));
    assert_eq!(got.code, 403);
    assert_eq!(
        got.message(),
        "users \"none\" is forbidden: User \"all\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
    );
    for name in ["impersonate-group", "Impersonate-Uid", "Impersonate-Extra-scopes"] {
        assert_eq!(world.ask(&ask(name, "x")).code, 403, "{name}");
    }
    assert_eq!(
        World::new().ask(&ask("Impersonate-User", "none")).code,
        200,
        "where all may do everything it is nothing"
    );
}

#[test]
fn to_apply_what_is_not_there_is_to_create_it() {
    let files = Files::new("applies");
    let grant = |user: &str, verbs: &str, more: &str| {
        format!(
            "[[rule]]\nusers = [\"{user}\"]\nverbs = [{verbs}]\nresources = [\"configmaps\"]\nnamespaces = [\"ns\"]\n{more}\n"
        )
    };
    let rules = [
        grant("patcher", "\"patch\"", ""),
        grant("maker", "\"patch\", \"create\"", ""),
        grant("named", "\"patch\", \"create\"", "names = [\"a\"]"),
    ];
    let world = World::guarded(&files, "p,patcher,1\nm,maker,2\nn,named,3\n", &rules.concat(), false);
    let apply = |token: &str, name: &str| {
        let target = format!("/api/v1/namespaces/ns/configmaps/{name}?fieldManager=t");
        let token = format!("Bearer {token}");
        let body = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let ask = Ask::new("PATCH", &target).with("Authorization", &token);
        world.ask(&ask.with("Content-Type", "application/apply-patch+yaml").json(&body))
    };
    let got = apply("p", "a");
    assert_eq!(got.code, 403);
    assert_eq!(
        got.message(),
        "configmaps \"a\" is forbidden: User \"patcher\" cannot create resource \"configmaps\" in API group \"\" in the \
         namespace \"ns\""
    );
    assert_eq!(apply("n", "b").code, 403, "another name");
    assert_eq!(apply("n", "a").code, 201, "the name is known, other than of a POST");
    assert_eq!(apply("p", "a").code, 200, "it is there now");
    assert_eq!(apply("m", "b").code, 201);
}

#[test]
fn without_credentials_rules_speak_of_everybody() {
    let files = Files::new("everybody");
    let rules = "[[rule]]\ngroups = [\"system:unauthenticated\"]\nverbs = [\"get\"]\npaths = [\"/version\"]\n\
        [[rule]]\ngroups = [\"system:authenticated\"]\nverbs = [\"get\"]\npaths = [\"/api\"]\n\
        [[rule]]\ngroups = [\"dev\"]\nverbs = [\"list\"]\nresources = [\"pods\"]\nnamespaces = [\"*\"]\n";
    let world = World::guarded(&files, "t,alice,1,\"ops,dev\"\nu,bob,1,develop\n", rules, true);
    assert_eq!(world.get("/version").code, 200);
    let got = world.get("/api");
    assert_eq!(
        (got.code, got.message()),
        (403, "forbidden: User \"system:anonymous\" cannot get path \"/api\"".into())
    );
    assert_eq!(world.ask_as("t", "GET /api").code, 200);
    assert_eq!(world.ask_as("t", "GET /version").code, 403, "who is known is not everybody");
    assert_eq!(world.ask_as("x", "GET /version").code, 401, "wrong credentials are not none");
    assert_eq!(world.ask_as("t", "GET /api/v1/pods").code, 200, "a group among several");
    assert_eq!(world.ask_as("u", "GET /api/v1/pods").code, 403, "a group is named whole");
}

#[test]
fn no_stream_outlives_the_proof_of_who_asks() {
    use ring::signature::KeyPair as _;
    let files = Files::new("expiry");
    let random = ring::rand::SystemRandom::new();
    let document = ring::signature::Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let pair = ring::signature::Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    let text = crate::http::base64url::encode;
    let jwks = serde_json::json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": text(pair.public_key().as_ref())}]});
    let oidc = OidcOptions {
        issuer: "https://i".into(),
        client: "c".into(),
        username_claim: "sub".into(),
        username_prefix: String::new(),
        groups_claim: None,
        groups_prefix: String::new(),
    };
    let options =
        Options { oidc: Some((oidc, files.write("jwks", &jwks.to_string()))), ..Options::default() };
    let World { app, host, budget } = World::new();
    let world = World { app: app.with_guard(Arc::new(Guard::new(options).unwrap())), host, budget };
    let claims = serde_json::json!({"iss": "https://i", "aud": "c", "sub": "s", "exp": super::NOW + 100});
    let part = |value: &serde_json::Value| text(value.to_string().as_bytes());
    let message = format!("{}.{}", part(&serde_json::json!({"alg": "EdDSA", "kid": "k"})), part(&claims));
    let token = format!("{message}.{}", text(pair.sign(message.as_bytes()).as_ref()));
    let watch = |query: &str| world.ask_as(&token, &format!("GET /api/v1/pods?watch=1{query}"));
    assert_eq!(
        watch("").watch_request().subscription.timeout,
        Duration::from_secs(130),
        "until it ends, with the leeway"
    );
    assert_eq!(watch("&timeoutSeconds=5").watch_request().subscription.timeout, Duration::from_secs(5));
    assert_eq!(watch("&timeoutSeconds=5000").watch_request().subscription.timeout, Duration::from_secs(130));
    world.host.later.set(129);
    assert_eq!(watch("").watch_request().subscription.timeout, Duration::from_secs(1));
    world.host.later.set(130);
    assert!(matches!(watch("").reply, Reply::FullBody(whole) if whole.code == 401));
}
