//! Who is it, and may they: a server that asks its upstream, which answers with the shapes of recording 34.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use revcast_tests::client::{Client, Response};
use revcast_tests::server::Server;
use revcast_tests::upstream::{Exchange, Next, Outcome, Upstream};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::CACHED;

const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESSES: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const CLUSTER: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
const AUDIENCE: &str = "https://kubernetes.default.svc";

/// What the upstream does with questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Answers,
    /// Answers after this time.
    Slow(Duration),
    /// Closes connections.
    Down,
    /// Sends what is no review.
    Wrong(&'static str),
}

#[derive(Debug)]
struct State {
    mood: Mood,
    /// Users that may do nothing.
    denied: Vec<String>,
    /// The `spec` of each question, by path.
    asked: HashMap<&'static str, Vec<Value>>,
}

/// An upstream that reviews. A token is `of-USER`.
struct Reviewer {
    upstream: Upstream,
    state: Arc<Mutex<State>>,
}

impl Reviewer {
    fn start() -> Self {
        let upstream = Upstream::start();
        let state = State { mood: Mood::Answers, denied: Vec::new(), asked: HashMap::new() };
        let state = Arc::new(Mutex::new(state));
        for (path, answer) in [(TOKENS, token as fn(&State, &Value) -> Value), (ACCESSES, access)] {
            let state = Arc::clone(&state);
            upstream.on(path, move |exchange| review(&state, path, answer, exchange));
        }
        upstream.on(CLUSTER, |exchange| {
            let map =
                json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "it"}, "data": {}});
            exchange.reply("200 OK\nContent-Type: application/json", map.to_string())
        });
        Self { upstream, state }
    }

    fn before(&self, more: &[&str]) -> Server {
        let url = self.upstream.url();
        let options = [
            "--upstream",
            url.as_str(),
            "--authentication",
            "delegated",
            "--authorization",
            "delegated",
            "--anonymous-auth",
            "false",
            "--shards",
            "2",
        ];
        Server::start(&[&options, more].concat())
    }

    fn set(&self, mood: Mood) {
        self.state.lock().unwrap().mood = mood;
    }

    fn deny(&self, user: &str) {
        self.state.lock().unwrap().denied.push(user.to_owned());
    }

    fn asked(&self, path: &str) -> Vec<Value> {
        self.state.lock().unwrap().asked.get(path).cloned().unwrap_or_default()
    }
}

fn review(
    state: &Mutex<State>,
    path: &'static str,
    answer: fn(&State, &Value) -> Value,
    exchange: &mut Exchange<'_>,
) -> Outcome {
    let body = exchange.body()?;
    let question: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (mood, reply) = {
        let mut state = state.lock().unwrap();
        state.asked.entry(path).or_default().push(question["spec"].clone());
        let mut reply = question.clone();
        reply["status"] = answer(&state, &question["spec"]);
        (state.mood, reply.to_string())
    };
    let head = "201 Created\nContent-Type: application/json";
    match mood {
        Mood::Answers => exchange.reply_to_read(head, reply),
        Mood::Slow(time) => {
            std::thread::sleep(time);
            exchange.reply_to_read(head, reply)
        }
        Mood::Down => Ok(Next::Close),
        Mood::Wrong(body) => exchange.reply_to_read(head, body),
    }
}

fn token(_: &State, spec: &Value) -> Value {
    let Some(user) = spec["token"].as_str().and_then(|token| token.strip_prefix("of-")) else {
        return json!({"user": {}, "error": "invalid bearer token"});
    };
    // One that was made for another audience.
    if let Some(user) = user.strip_prefix("elsewhere-") {
        let is_asked = spec["audiences"].as_array().is_some_and(|all| all.contains(&json!("elsewhere")));
        return if is_asked {
            json!({"authenticated": true, "user": {"username": user}, "audiences": ["elsewhere"]})
        } else {
            json!({"user": {}, "error": "token audiences [\"elsewhere\"] is invalid for the target audiences"})
        };
    }
    json!({
        "authenticated": true,
        "user": {
            "username": user,
            "uid": format!("uid-{user}"),
            "groups": ["dev", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/credential-id": [format!("JTI={user}")]},
        },
        "audiences": [AUDIENCE],
    })
}

fn access(state: &State, spec: &Value) -> Value {
    let user = spec["user"].as_str().unwrap_or_default();
    if state.denied.iter().any(|denied| denied == user) {
        return json!({"allowed": false});
    }
    json!({"allowed": true, "reason": "RBAC: allowed by ClusterRoleBinding \"b\" of ClusterRole \"r\" to Group \"dev\""})
}

fn get(client: &Client, path: &str, token: &str, more: &[(&str, &str)]) -> Response {
    let authorization = format!("Bearer {token}");
    let headers = [&[("Authorization", authorization.as_str())], more].concat();
    client.request("GET", path, &headers, b"")
}

#[test]
fn questions_have_the_scope_of_the_request() {
    let reviewer = Reviewer::start();
    reviewer.deny("mallory");
    let server = reviewer.before(&[]);
    let client = server.client();
    assert_eq!(get(&client, CACHED, "of-jane", &[]).status, 200);
    assert_eq!(reviewer.asked(TOKENS), [json!({"token": "of-jane"})]);
    let question = json!({
        "user": "jane",
        "uid": "uid-jane",
        "groups": ["dev", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": ["JTI=jane"]},
        "resourceAttributes": {"namespace": "t", "verb": "list", "version": "v1", "resource": "configmaps"},
    });
    let asked = reviewer.asked(ACCESSES);
    assert_eq!(asked.len(), 1);
    for (key, value) in question.as_object().unwrap() {
        if key == "resourceAttributes" {
            for (name, value) in value.as_object().unwrap() {
                assert_eq!(asked[0][key][name], *value, "{name}: {}", asked[0]);
            }
        } else {
            assert_eq!(asked[0][key], *value, "{key}: {}", asked[0]);
        }
    }
    // A narrower request is another question; all namespaces are no namespace.
    assert_eq!(get(&client, "/api/v1/configmaps?labelSelector=a%3Db", "of-jane", &[]).status, 200);
    let last = reviewer.asked(ACCESSES).pop().unwrap();
    assert!(last["resourceAttributes"]["namespace"].as_str().unwrap_or_default().is_empty(), "{last}");
    let requirement = json!({"key": "a", "operator": "In", "values": ["b"]});
    assert_eq!(last["resourceAttributes"]["labelSelector"]["requirements"], json!([requirement]));
    let denied = get(&client, CACHED, "of-mallory", &[]);
    assert_eq!(denied.status, 403);
    let says = "configmaps is forbidden: User \"mallory\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"t\"";
    assert!(denied.text().contains(&says.replace('"', "\\\"")), "{}", denied.text());
    // Nobody, and somebody unknown.
    assert_eq!(client.get(CACHED).status, 401);
    assert_eq!(get(&client, CACHED, "unknown", &[]).status, 401);
    // What is forwarded is the upstream's to decide: it gets the token, and is not asked before.
    let before = reviewer.asked(ACCESSES).len();
    assert_eq!(get(&client, "/apis/metrics.k8s.io/v1beta1/nodes", "of-jane", &[]).status, 200);
    assert_eq!(reviewer.upstream.last().header("authorization").as_deref(), Some("Bearer of-jane"));
    assert_eq!(reviewer.asked(ACCESSES).len(), before);
}

#[test]
fn an_answer_is_asked_for_once() {
    const USERS: usize = 25;
    const EACH: usize = 20;
    let reviewer = Reviewer::start();
    let server = reviewer.before(&["--authentication-cache-ttl", "10m", "--authorization-cache-ttl", "10m"]);
    reviewer.set(Mood::Slow(Duration::from_millis(50)));
    let watches: Vec<_> = (0..USERS * EACH)
        .map(|number| {
            let client = server.client();
            std::thread::spawn(move || {
                let authorization = format!("Bearer of-user{}", number % USERS);
                client.watch_as(&format!("{CACHED}?watch=1"), &[("Authorization", &authorization)]).unwrap()
            })
        })
        .collect();
    let watches: Vec<_> = watches.into_iter().map(|watch| watch.join().unwrap()).collect();
    assert_eq!(watches.len(), USERS * EACH);
    assert_eq!(reviewer.asked(TOKENS).len(), USERS);
    assert_eq!(reviewer.asked(ACCESSES).len(), USERS);
    let since = Instant::now();
    loop {
        let page = get(&server.admin_client(), "/metrics", "of-operator", &[]);
        if page.text().contains(&format!("\nrevcast_review_watched {}\n", USERS * 2)) {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "{}", page.text());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn tokens_of_another_audience() {
    let reviewer = Reviewer::start();
    let server = reviewer.before(&[]);
    assert_eq!(get(&server.client(), CACHED, "of-elsewhere-jane", &[]).status, 401);
    drop(server);
    let server = reviewer.before(&["--token-audiences", "elsewhere,other"]);
    assert_eq!(get(&server.client(), CACHED, "of-elsewhere-jane", &[]).status, 200);
    let asked = reviewer.asked(TOKENS).pop().unwrap();
    assert_eq!(asked["audiences"], json!(["elsewhere", "other"]));
    // Good for the upstream only: its answer names none of the audiences.
    assert_eq!(get(&server.client(), CACHED, "of-jane", &[]).status, 401);
}

#[test]
fn nobody_is_let_in_when_nobody_can_be_asked() {
    let reviewer = Reviewer::start();
    let ttl = ["--authentication-cache-ttl", "2s", "--authorization-cache-ttl", "2s"];
    let server = reviewer.before(&ttl);
    let client = server.client();
    let mut watch =
        client.watch_as(&format!("{CACHED}?watch=1"), &[("Authorization", "Bearer of-jane")]).unwrap();
    assert_eq!(get(&client, CACHED, "of-jane", &[]).status, 200);
    reviewer.set(Mood::Down);
    // What was answered is used a while longer, and nothing else is.
    assert_eq!(get(&client, CACHED, "of-jane", &[]).status, 200);
    let refused = get(&client, CACHED, "of-john", &[]);
    assert_eq!((refused.status, refused.header("retry-after").is_some()), (503, true), "{}", refused.text());
    assert_eq!(refused.json()["kind"], "Status");
    let since = Instant::now();
    while get(&client, CACHED, "of-jane", &[]).status == 200 {
        assert!(since.elapsed() < Duration::from_secs(20), "old answers are used for ever");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(get(&client, CACHED, "of-jane", &[]).status, 503);
    for wrong in ["", "{}", "[]", "no JSON", r#"{"status":{"authenticated":"true","allowed":1}}"#] {
        reviewer.set(Mood::Wrong(wrong));
        let answer = get(&client, CACHED, "of-jane", &[]).status;
        assert!(answer == 503 || answer == 401, "{wrong}: {answer}");
    }
    assert!(watch.is_quiet_for(Duration::from_millis(200)), "an open watch goes on");
    reviewer.set(Mood::Answers);
    let since = Instant::now();
    while get(&client, CACHED, "of-jane", &[]).status != 200 {
        assert!(since.elapsed() < Duration::from_secs(30), "it does not come back");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_watch_ends_when_the_answer_turns() {
    let reviewer = Reviewer::start();
    let server = reviewer.before(&["--authorization-recheck", "1s", "--authorization-cache-ttl", "1s"]);
    let client = server.client();
    let watch = |user: &str| {
        let authorization = format!("Bearer of-{user}");
        client.watch_as(&format!("{CACHED}?watch=1"), &[("Authorization", &authorization)]).unwrap()
    };
    let (mut jane, mut john) = (watch("jane"), watch("john"));
    reviewer.deny("jane");
    let since = Instant::now();
    let end = jane.rest();
    assert!(since.elapsed() < Duration::from_secs(20), "{end:?}");
    assert_eq!(get(&client, CACHED, "of-jane", &[]).status, 403);
    assert!(john.is_quiet_for(Duration::from_secs(2)), "another user's goes on");
}

#[test]
fn who_acts_for_another_must_be_allowed_to() {
    let reviewer = Reviewer::start();
    reviewer.deny("mallory");
    let server = reviewer.before(&[]);
    let client = server.client();
    let acting =
        [("Impersonate-User", "jane"), ("Impersonate-Group", "ops"), ("Impersonate-Extra-scopes", "a")];
    assert_eq!(get(&client, CACHED, "of-admin", &acting).status, 200);
    let asked = reviewer.asked(ACCESSES);
    let rights: Vec<_> = asked
        .iter()
        .filter(|spec| spec["resourceAttributes"]["verb"] == "impersonate")
        .map(|spec| {
            assert_eq!(spec["user"], "admin");
            let of = &spec["resourceAttributes"];
            let text = |key: &str| of[key].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", text("resource"), text("subresource"), text("name"))
        })
        .collect();
    assert_eq!(rights, ["users  jane", "groups  ops", "userextras scopes a"]);
    let last = asked.last().unwrap();
    assert_eq!((&last["user"], &last["extra"]), (&json!("jane"), &json!({"scopes": ["a"]})), "{last}");
    let denied = get(&client, CACHED, "of-mallory", &[("Impersonate-User", "jane")]);
    assert_eq!(denied.status, 403);
    assert!(denied.text().contains("cannot impersonate resource"), "{}", denied.text());
    // Without a user there is nobody to be; headers of a proxy count only with its certificate.
    assert_eq!(get(&client, CACHED, "of-admin", &[("Impersonate-Group", "ops")]).status, 400);
    let spoofed = [("X-Remote-User", "root"), ("X-Remote-Group", "system:masters")];
    assert_eq!(client.request("GET", CACHED, &spoofed, b"").status, 401);
    assert_eq!(get(&client, CACHED, "of-mallory", &spoofed).status, 403);
    // Names of any length are one question each, and no other's answer.
    for length in [1, 100, 7_000] {
        let name = "n".repeat(length);
        let reply = get(&client, CACHED, "of-mallory", &[("Impersonate-User", &name)]);
        assert_eq!(reply.status, 403, "{length}");
    }
    assert_eq!(get(&client, CACHED, "of-admin", &acting).status, 200);
}

/// Questions are limited, and each of these clients needs two: nobody is refused, and nothing is asked twice.
#[test]
fn hundreds_of_new_users_at_once_are_answered() {
    const USERS: usize = 500;
    let reviewer = Reviewer::start();
    let server = reviewer.before(&[]);
    let client = server.client();
    let mut all: Vec<_> = (0..USERS).map(|_| client.connect().unwrap()).collect();
    server.signal(Signal::STOP);
    for (number, connection) in all.iter_mut().enumerate() {
        let head = format!("GET {CACHED} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer of-u{number}\r\n\r\n");
        connection.write_raw(head.as_bytes()).unwrap();
    }
    server.signal(Signal::CONT);
    for connection in &mut all {
        let reply = connection.read_response(true).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    for path in [TOKENS, ACCESSES] {
        assert_eq!(reviewer.asked(path).len(), USERS, "{path}");
    }
}
