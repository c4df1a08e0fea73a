//! Authentication and authorization on a real server: tokens of both kinds, refusals, and the end of watches that are
//! no longer allowed.
#![allow(clippy::unwrap_used)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use revcast_tests::certs::Authority;
use revcast_tests::client::{Client, Response};
use revcast_tests::server::{Scratch, Server, binary};
use revcast_tests::tls::Trust;
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
    // The body of a refused request is not read: the connection ends after the reply.
    let mut connection = world.server.client().connect().unwrap();
    let headers = [("content-type", "application/json"), ("authorization", "Bearer bobs")];
    let reply = connection.request("POST", PATH, &headers, br#"{"metadata":{"name":"y"}}"#).unwrap();
    assert_eq!((reply.status, reply.header("connection")), (403, Some("close")));
    assert_eq!(connection.read_to_end().unwrap(), b"");
    // Operators must authenticate too.
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

    // Invalid rules change nothing.
    world.write("rules", "[[rule]]\nusers = [\"alice\"]\n");
    world.hang_up();
    assert!(bob.is_quiet_for(Duration::from_millis(300)));
    world.create("two");
    assert_eq!(bob.next_event().1["metadata"]["name"], "two");
    assert!(String::from_utf8_lossy(&socket.next_frame().unwrap().unwrap().1).contains("two"));

    // Readers are no longer allowed.
    let began = Instant::now();
    world.write("rules", &RULES.replace("readers", "writers"));
    world.hang_up();
    assert_eq!(bob.rest(), [], "the stream ends with its last chunk and nothing else");
    assert_eq!(socket.closing(), 1000);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    world.create("three");
    assert_eq!(alice.events(2).pop().unwrap().1["metadata"]["name"], "three");
    // The connection stays open, and its next request is authenticated again.
    let mut connection = bob.into_connection();
    let reply = connection.request("GET", PATH, &[("authorization", "Bearer bobs")], b"").unwrap();
    assert_eq!(reply.status, 403);

    // A token that is removed ends what it began; without a signal too, a few seconds later.
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

    // A stream ends with the token that it was opened with: here within the leeway after its expiry.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let short = format!("Bearer {}", token("carol", now - 25));
    let target = format!("{PATH}?watch=1");
    let mut watch = world.server.client().watch_as(&target, &[("authorization", &short)]).unwrap();
    assert_eq!(watch.rest().len(), 1, "the one that is there, then the end");
    assert_eq!(world.server.client().request("GET", PATH, &[("authorization", &short)], b"").status, 401);
}

/// The output of a server that does not start, and its exit code.
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
        (vec!["--listen", "0.0.0.0:0", "--insecure", "true"], "no client can authenticate"),
        (vec!["--listen", "127.0.0.1:0", "--anonymous-auth", "false"], "no client can authenticate"),
        (vec!["--listen", "127.0.0.1:0", "--admin-listen", "0.0.0.0:0"], "admin-listen 0.0.0.0:0"),
        (
            vec!["--listen", "127.0.0.1:0", "--token-auth-file", &wrong],
            "wrong:2: fewer than three columns; write",
        ),
        (vec!["--listen", "127.0.0.1:0", "--token-auth-file", "/nowhere"], "/nowhere: cannot be read"),
        (
            vec!["--listen", "127.0.0.1:0", "--authorization-rules", &rules],
            "rules:1: a rule without resources and paths",
        ),
        (
            vec!["--listen", "127.0.0.1:0", "--oidc-issuer-url", "https://i"],
            "has no effect without --oidc-client-id",
        ),
    ] {
        let (code, line) = refusal(&options);
        assert_eq!(code, Some(2), "{options:?}: {line}");
        let last = line.lines().last().unwrap_or_default();
        assert!(last.starts_with("revcast: ") && last.contains(says), "{options:?}: {line}");
        assert!(!line.contains("bobs") && !line.contains("alices"), "no token is told: {line}");
    }
    // With --insecure it is served.
    let server = Server::start(&["--insecure", "true", "--anonymous-auth", "true", "--shards", "1"]);
    assert_eq!(server.client().get(PATH).status, 200);
}

/// Sends bytes unchanged; returns the code and the body of the one reply, after which the connection ends.
fn raw(address: &str, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    let reply = String::from_utf8(reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{request}: {reply:?}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// A page whose name points at this machine now: to its browser the server has the page's origin.
#[test]
fn names_of_others_are_refused_where_nobody_needs_credentials() {
    let server = Server::start(&["--allowed-hosts", "revcast.svc,*.example.org"]);
    let (api, admin) = (&server.address, &server.admin);
    let body = r#"{"metadata":{"name":"x"}}"#;
    let ask = |address: &str, method: &str, target: &str, host: &str| {
        let host_line = if host.is_empty() {
            String::new()
        } else {
            format!("Host: {host}\r\nOrigin: http://{host}\r\n")
        };
        let (content, body) = match method {
            "POST" | "PUT" | "PATCH" => (format!("Content-Length: {}\r\n", body.len()), body),
            _ => (String::new(), ""),
        };
        let version = if host.is_empty() { "1.0" } else { "1.1" };
        raw(
            address,
            &format!(
                "{method} {target} HTTP/{version}\r\n{host_line}Connection: close\r\n{content}\r\n{body}"
            ),
        )
    };
    let object = format!("{PATH}/x");
    for host in [
        "evil.example:8080",
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:80",
        "example.org",
    ] {
        for (method, target) in [
            ("GET", PATH),
            ("GET", &object),
            ("GET", "/api"),
            ("GET", "/version"),
            ("GET", "/nothing"),
            ("GET", &format!("{PATH}?watch=1&timeoutSeconds=1")),
            ("POST", PATH),
            ("PUT", &object),
            ("PATCH", &object),
            ("DELETE", &object),
            ("OPTIONS", PATH),
            ("BREW", PATH),
        ] {
            let (code, said) = ask(api, method, target, host);
            assert_eq!(code, 403, "{method} {target} of {host}: {said}");
            let status: Value = serde_json::from_str(&said).unwrap();
            let name = host.split(':').next().unwrap();
            let message = status["message"].as_str().unwrap();
            assert!(message.ends_with(&format!("--allowed-hosts {name}")), "{message}");
        }
        assert_eq!(ask(api, "HEAD", "/version", host), (403, String::new()), "{host}");
        for (method, target) in
            [("GET", "/metrics"), ("GET", "/status"), ("POST", "/"), ("POST", "/compact?revision=1")]
        {
            assert_eq!(ask(admin, method, target, host).0, 403, "{method} {target} of {host}");
        }
        // The page is the same everywhere: what it shows it asks for.
        assert_eq!(ask(admin, "GET", "/", host).0, 200, "the page of {host}");
        let upgrade = format!("Host: {host}\r\nOrigin: http://{host}\r\nConnection: close\r\n{UPGRADE}");
        let (code, _) = raw(api, &format!("GET {PATH}?watch=1 HTTP/1.1\r\n{upgrade}\r\n"));
        assert_eq!(code, 403, "a WebSocket of {host}");
        // Health checks contain nothing secret, and are open.
        assert_eq!((ask(api, "GET", "/readyz", host).0, ask(admin, "GET", "/readyz", host).0), (200, 200));
    }
    // Names that the option would refuse, or that would match more than one name, are not suggested.
    for host in ["a,b", "*.com", "a..b", "-x/y", "[::1", "a b"] {
        let (code, said) = ask(api, "GET", PATH, host);
        assert!(matches!(code, 400 | 403) && !said.contains("--allowed-hosts"), "{host}: {code} {said}");
    }
    let nothing = server.client().get(PATH).json()["items"].as_array().map(Vec::len);
    assert_eq!(nothing, None, "the client of the tests calls it by a name that is not given here");
    let port = api.rsplit(':').next().unwrap();
    for host in [
        api.as_str(),
        "127.0.0.1",
        "192.0.2.1:1",
        "[::1]:8080",
        "localhost",
        &format!("LocalHost.:{port}"),
        "a.localhost:1",
        "Revcast.SVC:8080",
        "a.b.example.org",
        "",
    ] {
        let (code, said) = ask(api, "GET", PATH, host);
        assert!(code == 200 && said.contains(r#""items":[]"#), "{host}: {said}");
        assert_eq!(ask(admin, "GET", "/metrics", host).0, 200, "{host}");
    }
    // The authority of an absolute target is what counts (RFC 9112, section 3.2.2).
    let absolute = |target: &str, host: &str| {
        raw(api, &format!("GET http://{target}{PATH} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
            .0
    };
    assert_eq!((absolute("localhost:1", "evil.example"), absolute("evil.example", "localhost")), (200, 403));
    assert_eq!(ask(api, "POST", PATH, "revcast.svc").0, 201);
}

#[test]
fn who_has_credentials_may_call_the_server_anything() {
    let rules = "[[rule]]\nusers = [\"alice\"]\nverbs = [\"get\", \"list\"]\nresources = [\"*\"]\nnamespaces = [\"*\"]\n\
        [[rule]]\ngroups = [\"system:unauthenticated\"]\nverbs = [\"get\"]\npaths = [\"/version\"]\n";
    let folder = Scratch::new("auth-hosts");
    let at = |name: &str| format!("{}/{name}", folder.path());
    std::fs::write(at("tokens"), TOKENS).unwrap();
    std::fs::write(at("rules"), rules).unwrap();
    let (tokens, rules) = (at("tokens"), at("rules"));
    let options = ["--token-auth-file", &tokens, "--authorization-rules", &rules, "--anonymous-auth", "true"];
    let server = Server::start(&options);
    let ask = |target: &str, host: &str, more: &str| {
        raw(
            &server.address,
            &format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n"),
        )
        .0
    };
    let alice = "Authorization: Bearer alices\r\n";
    assert_eq!(ask(PATH, "any.example", alice), 200, "no page of others has her token");
    assert_eq!(ask(PATH, "any.example", "Authorization: Bearer wrong\r\n"), 401);
    assert_eq!((ask("/version", "localhost", ""), ask("/version", "any.example", "")), (200, 403));
    // The names of the certificate are the server's own.
    let authority = Authority::new(Path::new(folder.path()), "ca");
    let identity = authority.server_named(&["localhost", "revcast.test", "*.pods.test"]);
    let [cert, key] = [&identity.cert, &identity.key].map(|path| path.to_str().unwrap());
    let trust = Trust::of(&authority.certificate());
    let server = Server::start_with_tls(&trust, &["--tls-cert", cert, "--tls-key", key]);
    let client = Client::over_tls(&server.address, &trust);
    for (host, code) in
        [("revcast.test:443", 200), ("a.pods.test", 200), ("a.b.pods.test", 403), ("evil.example", 403)]
    {
        let mut connection = client.connect().unwrap();
        let request = format!("GET {PATH} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        connection.write_raw(request.as_bytes()).unwrap();
        assert_eq!(connection.read_response(true).unwrap().status, code, "{host}");
    }
}

#[test]
fn operators_need_a_right_too() {
    let rules = "[[rule]]\nusers = [\"prometheus\"]\nverbs = [\"get\"]\npaths = [\"/metrics\"]\n\
        [[rule]]\nusers = [\"reader\"]\nverbs = [\"get\"]\npaths = [\"*\"]\n\
        [[rule]]\nusers = [\"alice\"]\nverbs = [\"*\"]\nresources = [\"*\"]\nnamespaces = [\"*\"]\n\
        [[rule]]\nusers = [\"operator\"]\nverbs = [\"post\"]\npaths = [\"/compact\"]\n";
    let world = World::start("auth-operators", &[]);
    world.write("rules", rules);
    world.write("tokens", "p,prometheus,1\nr,reader,2\nalices,alice,3\no,operator,4\n");
    world.hang_up();
    let admin = world.server.admin_client();
    let ask = |token: &str, method: &str, target: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str())];
        admin.request(method, target, if token.is_empty() { &[] } else { &headers }, b"")
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while ask("p", "GET", "/metrics").status != 200 {
        assert!(Instant::now() < deadline, "the new files are not read");
        std::thread::sleep(Duration::from_millis(10));
    }
    let version =
        || world.get("alices", PATH).json()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let before = version();
    for number in 0..5 {
        world.create(&format!("n{number}"));
    }
    let compact = format!("/compact?revision={}", version());
    for (token, code) in [("", 401), ("wrong", 401), ("p", 403), ("r", 403), ("alices", 403)] {
        for target in [compact.as_str(), "/compact", "/compact/?revision=1", "/%63ompact?revision=1"] {
            let reply = ask(token, "POST", target);
            assert_eq!(reply.status, code, "{token:?} {target}: {}", reply.text());
        }
        assert_eq!(ask(token, "GET", "/readyz").status, 200);
    }
    let refused = ask("p", "POST", &compact).json();
    assert_eq!(refused["message"], "forbidden: User \"prometheus\" cannot post path \"/compact\"");
    for (token, target, code) in [
        ("p", "/status", 403),
        ("p", "/", 200),
        ("p", "/metrics/x", 403),
        ("r", "/status", 200),
        ("o", "/metrics", 403),
        ("o", "/compact", 403),
        ("alices", "/metrics", 403),
    ] {
        assert_eq!(ask(token, "GET", target).status, code, "{token} {target}");
    }
    assert_eq!(world.get("p", PATH).status, 403, "and reads no object");
    // Nothing was compacted by clients without permission: the oldest revision can still be read.
    let first = format!("{PATH}?watch=1&resourceVersion={before}&timeoutSeconds=1");
    let mut watch = world.server.client().watch_as(&first, &[("authorization", "Bearer alices")]).unwrap();
    assert_eq!(watch.next_event().0, "ADDED", "no 410");
    assert_eq!(ask("o", "POST", &compact).status, 200);
}

/// The stderr of a server from its start to its end.
fn said_at_start(folder: &Scratch, options: &[&str]) -> String {
    let path = format!("{}/stderr", folder.path());
    let mut command = Command::new(binary());
    command.stderr(std::fs::File::create(&path).unwrap());
    let server = Server::start_by(command, &[&["--shards", "1"], options].concat());
    assert_eq!(server.terminate(), Some(0));
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn an_admin_listener_on_a_network_is_warned_of_where_there_are_no_rules() {
    let folder = Scratch::new("auth-warned");
    let at = |name: &str| format!("{}/{name}", folder.path());
    std::fs::write(at("tokens"), TOKENS).unwrap();
    std::fs::write(at("rules"), RULES).unwrap();
    let (tokens, rules) = (at("tokens"), at("rules"));
    let open = ["--token-auth-file", &tokens, "--insecure", "true", "--admin-listen", "0.0.0.0:0"];
    let warned = |options: &[&str]| {
        let said = said_at_start(&folder, options);
        said.lines()
            .any(|line| line.contains("warn") && line.contains("/compact") && line.contains("0.0.0.0:0"))
    };
    assert!(warned(&open));
    assert!(!warned(&[open.as_slice(), &["--authorization-rules", &rules]].concat()));
    assert!(!warned(&open[..4]), "on the loopback");
}

/// A client that may read one namespace gets nothing of another, by any path.
#[test]
fn the_edges_of_a_namespace() {
    let world = World::start("auth-edges", &[]);
    let rules = RULES.replace("resources = [\"configmaps\"]", "resources = [\"*\"]");
    world.write(
        "rules",
        &format!(
            "{rules}\n[[rule]]\nusers = [\"bob\"]\nverbs = [\"*\"]\nresources = [\"secrets\"]\n\
        namespaces = [\"c\"]\nnames = [\"x\"]\n"
        ),
    );
    world.hang_up();
    let make = |path: &str, name: &str| {
        let reply = world.ask("alices", "POST", path, &json!({"metadata": {"name": name}}));
        assert_eq!(reply.status, 201, "{}", reply.text());
    };
    for namespace in ["a", "b"] {
        for name in ["one", "two", "three", "zone"] {
            make(&format!("/api/v1/namespaces/{namespace}/configmaps"), &format!("{namespace}-{name}"));
        }
    }
    ["x", "y"].iter().for_each(|name| make("/api/v1/namespaces/c/secrets", name));
    make("/api/v1/nodes", "node");
    let deadline = Instant::now() + Duration::from_secs(20);
    while world.get("bobs", "/api/v1/namespaces/a/pods").status != 200 {
        assert!(Instant::now() < deadline, "the new rules are not read");
        std::thread::sleep(Duration::from_millis(10));
    }
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let secrets = "/api/v1/namespaces/c/secrets";
    let watch = "watch=1&timeoutSeconds=1";
    for (target, code) in [
        // Objects without a namespace are in none.
        ("/api/v1/namespaces/a/nodes".to_owned(), 404),
        ("/api/v1/namespaces/a/nodes/node".to_owned(), 404),
        (format!("/api/v1/namespaces/a/nodes?{watch}"), 404),
        ("/api/v1/watch/namespaces/a/nodes".to_owned(), 404),
        ("/api/v1/nodes".to_owned(), 403),
        ("/api/v1/nodes/node".to_owned(), 403),
        // All namespaces are more than one, even if a selector leaves only that one.
        ("/api/v1/configmaps".to_owned(), 403),
        ("/api/v1/configmaps?fieldSelector=metadata.namespace%3Da".to_owned(), 403),
        ("/api/v1/watch/configmaps".to_owned(), 403),
        ("/api/v1/watch/configmaps?fieldSelector=metadata.namespace%3Da".to_owned(), 403),
        ("/api/v1/namespaces/b/configmaps".to_owned(), 403),
        (format!("/api/v1/namespaces/b/configmaps?{watch}"), 403),
        ("/api/v1/watch/namespaces/b/configmaps?timeoutSeconds=1".to_owned(), 403),
        ("/api/v1/watch/namespaces/b/configmaps/b-one?timeoutSeconds=1".to_owned(), 403),
        ("/api/v1/watch/namespaces/a/configmaps?timeoutSeconds=1".to_owned(), 200),
        ("/api/v1/watch/namespaces/a/configmaps/a-one?timeoutSeconds=1".to_owned(), 200),
        // One name, and no other.
        (secrets.to_owned(), 403),
        (format!("{secrets}?fieldSelector=metadata.name%3Dx"), 200),
        (format!("{secrets}?fieldSelector=metadata.name%3Dy"), 403),
        (format!("{secrets}?fieldSelector=metadata.name%3Dx,metadata.name%3Dx"), 200),
        (format!("{secrets}?fieldSelector=metadata.name%3Dx,metadata.name%3Dy"), 403),
        (format!("{secrets}?fieldSelector=metadata.name%3Dy,metadata.name%3Dx"), 403),
        (format!("{secrets}?fieldSelector=metadata.name%3Dx&fieldSelector=metadata.name%3Dy"), 200),
        (format!("{secrets}?fieldSelector=metadata.name!%3Dy"), 403),
        ("/api/v1/watch/namespaces/c/secrets/x?timeoutSeconds=1".to_owned(), 200),
        ("/api/v1/watch/namespaces/c/secrets/y?timeoutSeconds=1".to_owned(), 403),
        (
            "/api/v1/watch/namespaces/c/secrets/x?timeoutSeconds=1&fieldSelector=metadata.name%3Dy"
                .to_owned(),
            400,
        ),
    ] {
        for accept in ["application/json", table, partial] {
            let headers = [("authorization", "Bearer bobs"), ("accept", accept)];
            let reply = world.server.client().request("GET", &target, &headers, b"");
            assert_eq!(reply.status, code, "{target} {accept}: {}", reply.text());
            let text = reply.text();
            let of_others =
                ["b-one", "b-two", "b-three", "b-zone", "\"y\"", "\"node\""].map(|name| text.contains(name));
            // What is refused is named in the refusal.
            assert!(code >= 400 || of_others == [false; 6], "{target} {accept}: {text}");
        }
    }
    // A continue token says where, never what.
    let own = world.get("alices", &format!("{PATH}?limit=1")).json();
    let page = world.get("alices", "/api/v1/namespaces/b/configmaps?limit=1").json();
    let all = world.get("alices", "/api/v1/configmaps?limit=1").json();
    let shown = |reply: &str, names: &[&str]| names.iter().filter(|name| reply.contains(**name)).count();
    for (page, is_own) in [(own, true), (page, false), (all, false)] {
        let token = page["metadata"]["continue"].as_str().unwrap();
        for accept in ["application/json", table] {
            let headers = [("authorization", "Bearer bobs"), ("accept", accept)];
            let ask = |path: &str| world.server.client().request("GET", path, &headers, b"");
            let reply = ask(&format!("{PATH}?continue={token}"));
            let text = reply.text();
            let others = shown(&text, &["b-one", "b-two", "b-three", "b-zone"]);
            assert_eq!((reply.status, others), (200, 0), "{text}");
            // The client's own token shows the rest: all but the first.
            let rest = (shown(&text, &["a-three", "a-two", "a-zone"]), shown(&text, &["a-one"]));
            assert!(!is_own || rest == (3, 0), "{text}");
            assert_eq!(ask(&format!("/api/v1/namespaces/b/configmaps?continue={token}")).status, 403);
            assert_eq!(ask(&format!("/api/v1/configmaps?continue={token}")).status, 403);
        }
    }
    // A name that is given twice is one name, the last: the checked name is the written one.
    for (body, name) in [
        (r#"{"metadata":{"name":"first","name":"last"}}"#, "last"),
        (r#"{"metadata":{"name":"hidden"},"metadata":{"name":"shown"}}"#, "shown"),
    ] {
        let headers = [("authorization", "Bearer alices"), ("content-type", "application/json")];
        let reply = world.server.client().request("POST", PATH, &headers, body.as_bytes());
        assert_eq!(
            (reply.status, &reply.json()["metadata"]["name"]),
            (201, &json!(name)),
            "{}",
            reply.text()
        );
        let read = world.get("alices", &format!("{PATH}/{name}"));
        assert_eq!((read.status, read.text().matches("\"name\"").count()), (200, 1), "{}", read.text());
        for other in ["first", "hidden"] {
            assert_eq!(world.get("alices", &format!("{PATH}/{other}")).status, 404);
        }
        let renamed = world.server.client().request(
            "PUT",
            &format!("{PATH}/{name}"),
            &headers,
            body.replace(name, "else").as_bytes(),
        );
        assert_eq!(renamed.status, 400, "the last is not that of the path: {}", renamed.text());
    }
}
