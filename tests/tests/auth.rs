//! Who may come in and do what, over a real server: tokens of both kinds, what is refused and how, and the ends of watches
//! whose right is gone.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use revcast_tests::client::Response;
use revcast_tests::server::{Scratch, Server, binary};
use revcast_tests::websocket::{UPGRADE, WebSocket};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

const PATH: &str = "/api/v1/namespaces/a/configmaps";

const RULES: &str = r#"
[[rule]]
users = ["alice", "https://issuer.example#carol"]
verbs = ["*"]
resources = ["*"]
namespaces = ["*"]

[[rule]]
groups = ["readers"]
verbs = ["get", "list", "watch"]
resources = ["configmaps"]
namespaces = ["a"]
"#;

const TOKENS: &str = "alices,alice,1\nbobs,bob,2,\"readers,others\"\n";

struct World {
    folder: Scratch,
    server: Server,
}

impl World {
    fn start(name: &str, more: &[&str]) -> Self {
        let folder = Scratch::new(name);
        let world = |file: &str| format!("{}/{file}", folder.path());
        std::fs::write(world("tokens"), TOKENS).unwrap();
        std::fs::write(world("rules"), RULES).unwrap();
        let (tokens, rules) = (world("tokens"), world("rules"));
        let options = ["--token-auth-file", &tokens, "--authorization-rules", &rules, "--shards", "1"];
        let server = Server::start(&[&options, more].concat());
        Self { folder, server }
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(format!("{}/{file}", self.folder.path()), text).unwrap();
    }

    fn hang_up(&self) {
        let pid = self.server.pid().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    }

    fn ask(&self, token: &str, method: &str, path: &str, body: &Value) -> Response {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("content-type", "application/json")];
        if !token.is_empty() {
            headers.push(("authorization", bearer.as_str()));
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.server.client().request(method, path, &headers, body.as_bytes())
    }

    fn get(&self, token: &str, path: &str) -> Response {
        self.ask(token, "GET", path, &Value::Null)
    }

    fn create(&self, name: &str) {
        let reply = self.ask("alices", "POST", PATH, &json!({"metadata": {"name": name}}));
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
}

#[test]
fn tokens_and_what_is_told_to_who_may_not() {
    let world = World::start("auth-tokens", &[]);
    world.create("x");
    assert_eq!(world.get("bobs", &format!("{PATH}/x")).status, 200);
    let reply = world.ask("bobs", "DELETE", &format!("{PATH}/x"), &Value::Null);
    assert_eq!(reply.status, 403);
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "configmaps \"x\" is forbidden: User \"bob\" cannot delete resource \"configmaps\" in API group \"\" in the \
                    namespace \"a\"",
        "reason": "Forbidden", "details": {"name": "x", "kind": "configmaps"}, "code": 403
    });
    assert_eq!(reply.json(), expected);
    assert_eq!(world.get("bobs", "/api/v1/configmaps").status, 403, "all namespaces are more than one");
    assert_eq!(world.get("bobs", "/api/v1/namespaces/a2/configmaps").status, 403);
    for token in ["", "bob", "bobss"] {
        let reply = world.get(token, &format!("{PATH}/x"));
        assert_eq!(
            (reply.status, reply.json()["message"].as_str()),
            (401, Some("Unauthorized")),
            "{token:?}"
        );
        assert_eq!(
            reply.header("www-authenticate"),
            None,
            "as kube-apiserver, which has no other scheme to offer"
        );
    }
    assert_eq!(world.get("", "/readyz").status, 200, "health is everybody's");
    // A body of who may not is not read: the connection ends behind the answer.
    let mut connection = world.server.client().connect().unwrap();
    let headers = [("content-type", "application/json"), ("authorization", "Bearer bobs")];
    let reply = connection.request("POST", PATH, &headers, br#"{"metadata":{"name":"y"}}"#).unwrap();
    assert_eq!((reply.status, reply.header("connection")), (403, Some("close")));
    assert_eq!(connection.read_to_end().unwrap(), b"");
    // Operators are asked too.
    let admin = world.server.admin_client();
    let ask = |token: &str| admin.request("GET", "/metrics", &[("authorization", token)], b"").status;
    assert_eq!((ask("Bearer nobodys"), ask("Bearer bobs")), (401, 403));
    assert_eq!(admin.get("/readyz").status, 200);
}

#[test]
fn watches_end_when_their_right_is_gone_and_others_go_on() {
    let world = World::start("auth-watches", &[]);
    let watch = |token: &str| {
        let bearer = format!("Bearer {token}");
        let target = format!("{PATH}?watch=1");
        world.server.client().watch_as(&target, &[("authorization", &bearer)])
    };
    let (mut alice, mut bob) = (watch("alices").unwrap(), watch("bobs").unwrap());
    let upgrade = format!("{UPGRADE}Authorization: Bearer bobs\r\n");
    let mut socket = WebSocket::open(&world.server.address, &format!("{PATH}?watch=1"), &upgrade).unwrap();
    world.create("one");
    assert_eq!(alice.next_event().1["metadata"]["name"], "one");
    assert_eq!(bob.next_event().1["metadata"]["name"], "one");
    assert!(String::from_utf8_lossy(&socket.next_frame().unwrap().unwrap().1).contains("one"));

    // Rules that are wrong change nothing.
    world.write("rules", "[[rule]]\nusers = [\"alice\"]\n");
    world.hang_up();
    assert!(bob.is_quiet_for(Duration::from_millis(300)));
    world.create("two");
    assert_eq!(bob.next_event().1["metadata"]["name"], "two");
    assert!(String::from_utf8_lossy(&socket.next_frame().unwrap().unwrap().1).contains("two"));

    // Readers may not any more.
    let began = Instant::now();
    world.write("rules", &RULES.replace("readers", "writers"));
    world.hang_up();
    assert_eq!(bob.rest(), [], "the stream ends with its last chunk and nothing else");
    assert_eq!(socket.closing(), 1000);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    world.create("three");
    assert_eq!(alice.events(2).pop().unwrap().1["metadata"]["name"], "three");
    // The connection lives, and its next request is asked who it is.
    let mut connection = bob.into_connection();
    let reply = connection.request("GET", PATH, &[("authorization", "Bearer bobs")], b"").unwrap();
    assert_eq!(reply.status, 403);

    // A token that goes ends what it began; without a signal too, a few seconds later.
    world.write("tokens", "newer,alice,1\nbobs,bob,2,\"readers,others\"\n");
    assert_eq!(alice.rest(), []);
    assert_eq!(world.get("alices", PATH).status, 401);
    assert_eq!(world.get("newer", PATH).status, 200);
    assert_eq!(world.server.terminate(), Some(0));
}

#[test]
fn signed_tokens_and_websockets() {
    let random = ring::rand::SystemRandom::new();
    let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let jwks = json!({"keys": [
        {"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": text(pair.public_key().as_ref())}
    ]});
    let keys = Scratch::new("auth-keys");
    let file = format!("{}/jwks", keys.path());
    std::fs::write(&file, jwks.to_string()).unwrap();
    let world = World::start(
        "auth-signed",
        &[
            "--oidc-issuer-url",
            "https://issuer.example",
            "--oidc-client-id",
            "revcast",
            "--oidc-jwks-file",
            &file,
        ],
    );
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let token = |user: &str, ends: u64| {
        let head = json!({"alg": "EdDSA", "kid": "k"}).to_string();
        let claims = json!({"iss": "https://issuer.example", "aud": ["revcast"], "sub": user, "exp": ends})
            .to_string();
        let message = format!("{}.{}", text(head.as_bytes()), text(claims.as_bytes()));
        format!("{message}.{}", text(pair.sign(message.as_bytes()).as_ref()))
    };
    let carol = token("carol", now + 600);
    assert_eq!(world.get(&carol, PATH).status, 200);
    let reply = world.get(&token("dave", now + 600), PATH);
    assert_eq!(reply.status, 403);
    assert!(
        reply.text().contains("User \\\"https://issuer.example#dave\\\" cannot list"),
        "{}",
        reply.text()
    );
    assert_eq!(world.get(&token("carol", now - 600), PATH).status, 401, "over");
    assert_eq!(world.get(&carol[..carol.len() - 2], PATH).status, 401, "cut");

    // Browsers put the token among the subprotocols; it is never echoed.
    let open = |token: &str, more: &str| {
        let protocol = format!("base64url.bearer.authorization.k8s.io.{}", text(token.as_bytes()));
        let headers = format!("{UPGRADE}Sec-WebSocket-Protocol: {protocol}{more}\r\n");
        WebSocket::open(&world.server.address, &format!("{PATH}?watch=1"), &headers).unwrap()
    };
    let mut socket = open(&carol, ", base64.binary.k8s.io");
    assert!(socket.head.starts_with("HTTP/1.1 101"), "{}", socket.head);
    assert!(socket.head.contains("Sec-WebSocket-Protocol: base64.binary.k8s.io\r\n"), "{}", socket.head);
    assert!(!socket.head.contains("bearer"));
    world.create("one");
    assert!(String::from_utf8_lossy(&socket.next_frame().unwrap().unwrap().1).contains("one"));
    assert!(open("wrong", ", base64.binary.k8s.io").head.starts_with("HTTP/1.1 401"));
    assert!(open(&carol, "").head.starts_with("HTTP/1.1 401"), "no other subprotocol to agree on");

    // A stream ends with the token that it was opened with: in the leeway behind its end here.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let short = format!("Bearer {}", token("carol", now - 25));
    let target = format!("{PATH}?watch=1");
    let mut watch = world.server.client().watch_as(&target, &[("authorization", &short)]).unwrap();
    assert_eq!(watch.rest().len(), 1, "the one that is there, then the end");
    assert_eq!(world.server.client().request("GET", PATH, &[("authorization", &short)], b"").status, 401);
}

/// What a server that does not start says, and its exit code.
fn refusal(options: &[&str]) -> (Option<i32>, String) {
    let child = Command::new(binary())
        .args(["serve", "--admin-listen", "127.0.0.1:0"])
        .args(options)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_server_that_would_be_open_to_a_network_does_not_start() {
    let folder = Scratch::new("auth-refusals");
    let file = |name: &str, text: &str| {
        let path = format!("{}/{name}", folder.path());
        std::fs::write(&path, text).unwrap();
        path
    };
    let tokens = file("tokens", TOKENS);
    let wrong = file("wrong", "alices,alice,1\nbobs,bob\n");
    let rules = file("rules", "[[rule]]\nusers = [\"u\"]\nverbs = [\"read\"]\n");
    for (options, says) in [
        (vec!["--listen", "0.0.0.0:0"], "there is no authentication; give --token-auth-file"),
        (vec!["--listen", "[::]:0"], "there is no authentication"),
        (vec!["--listen", "0.0.0.0:0", "--anonymous-auth", "true"], "there is no authentication"),
        (vec!["--listen", "0.0.0.0:0", "--token-auth-file", &tokens], "there is no TLS; give --tls-cert"),
        (vec!["--listen", "0.0.0.0:0", "--insecure", "true"], "nobody could prove who they are"),
        (vec!["--listen", "127.0.0.1:0", "--anonymous-auth", "false"], "nobody could prove who they are"),
        (vec!["--listen", "127.0.0.1:0", "--admin-listen", "0.0.0.0:0"], "admin-listen 0.0.0.0:0"),
        (
            vec!["--listen", "127.0.0.1:0", "--token-auth-file", &wrong],
            "wrong:2: fewer than three columns; write",
        ),
        (vec!["--listen", "127.0.0.1:0", "--token-auth-file", "/nowhere"], "/nowhere: cannot be read"),
        (vec!["--listen", "127.0.0.1:0", "--authorization-rules", &rules], "rules:1: a rule for nothing"),
        (
            vec!["--listen", "127.0.0.1:0", "--oidc-issuer-url", "https://i"],
            "says nothing without --oidc-client-id",
        ),
    ] {
        let (code, line) = refusal(&options);
        assert_eq!(code, Some(2), "{options:?}: {line}");
        let last = line.lines().last().unwrap_or_default();
        assert!(last.starts_with("revcast: ") && last.contains(says), "{options:?}: {line}");
        assert!(!line.contains("bobs") && !line.contains("alices"), "no token is told: {line}");
    }
    // Who insists is served.
    let server = Server::start(&["--insecure", "true", "--anonymous-auth", "true", "--shards", "1"]);
    assert_eq!(server.client().get(PATH).status, 200);
}
