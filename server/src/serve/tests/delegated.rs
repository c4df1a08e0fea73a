//! Authentication and authorization by an upstream that answers from a script.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Ask, Got, NOW, World, run};
use crate::auth::delegated::DelegatedOptions;
use crate::auth::{Guard, Options, PeerCertificate};
use crate::frontend::{ByHost, Frontend as _, Reply};
use crate::http::base64url;
use crate::http::request::{Parsed, parse_head};
use crate::http::route::target_of;
use crate::upstream::{Question, UpstreamError, UpstreamReply};

const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESSES: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// What the upstream says to a question's path and `spec`.
type Script = Box<dyn Fn(&str, &Value) -> Result<UpstreamReply, UpstreamError>>;

/// An API server that answers from a script.
#[derive(Default)]
pub(super) struct FakeUpstream {
    script: RefCell<Option<Script>>,
    /// The path and the `spec` of each question.
    asked: RefCell<Vec<(String, Value)>>,
    /// Replies are held back.
    held: Cell<bool>,
}

impl FakeUpstream {
    pub(super) async fn ask(&self, question: Question) -> Result<UpstreamReply, UpstreamError> {
        let body: Value = serde_json::from_slice(&question.body).unwrap_or_default();
        let spec = body["spec"].clone();
        self.asked.borrow_mut().push((question.path.clone(), spec.clone()));
        std::future::poll_fn(|_| if self.held.get() { Poll::Pending } else { Poll::Ready(()) }).await;
        match &*self.script.borrow() {
            Some(script) => script(&question.path, &spec),
            None => Err(UpstreamError::Absent),
        }
    }

    fn play(&self, script: impl Fn(&str, &Value) -> Result<UpstreamReply, UpstreamError> + 'static) {
        *self.script.borrow_mut() = Some(Box::new(script));
    }

    /// How many questions of each kind there were since the last call.
    fn count(&self) -> (usize, usize) {
        let asked = std::mem::take(&mut *self.asked.borrow_mut());
        let of = |path: &str| asked.iter().filter(|(asked, _)| asked == path).count();
        (of(TOKENS), of(ACCESSES))
    }
}

fn reply(code: u16, body: &Value) -> Result<UpstreamReply, UpstreamError> {
    Ok(UpstreamReply { code, body: body.to_string().into() })
}

fn down() -> Result<UpstreamReply, UpstreamError> {
    Err(UpstreamError::Unreachable("connection refused".into()))
}

/// A cluster: every token is its user's name, except `bad`; `may` says what is allowed, of the `spec` of a review.
fn cluster(
    may: impl Fn(&Value) -> bool + 'static,
) -> impl Fn(&str, &Value) -> Result<UpstreamReply, UpstreamError> {
    move |path, spec| match path {
        TOKENS => {
            let token = spec["token"].as_str().unwrap_or_default();
            let wanted = spec["audiences"].as_array().cloned().unwrap_or_default();
            let status = if token == "bad" || token.is_empty() {
                json!({"user": {}, "error": "invalid bearer token"})
            } else {
                let name = token.split('.').next().unwrap_or_default();
                let id = json!({"authentication.kubernetes.io/credential-id": [format!("JTI={name}")]});
                let user = json!({"username": name, "uid": "u1", "groups": ["dev", "system:authenticated"], "extra": id});
                let audiences: Vec<Value> = wanted.into_iter().filter(|one| one == "revcast").collect();
                json!({"authenticated": true, "user": user, "audiences": audiences})
            };
            reply(201, &json!({"kind": "TokenReview", "status": status}))
        }
        ACCESSES => reply(201, &json!({"kind": "SubjectAccessReview", "status": {"allowed": may(spec)}})),
        _ => reply(
            200,
            &json!({"kind": "ConfigMap", "data": {
                "client-ca-file": "", "requestheader-client-ca-file": "PROXIES",
                "requestheader-allowed-names": "[\"front-proxy-client\"]",
                "requestheader-username-headers": "[\"X-Remote-User\"]",
                "requestheader-group-headers": "[\"X-Remote-Group\"]",
                "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]"}}),
        ),
    }
}

fn delegated() -> DelegatedOptions {
    DelegatedOptions {
        authentication: true,
        authorization: true,
        audiences: Vec::new(),
        token_ttl: Duration::from_secs(10),
        access_ttl: Duration::from_secs(10),
        recheck: Duration::from_secs(300),
        grace: Duration::from_secs(900),
    }
}

fn world(options: Options) -> World {
    let World { app, host, budget } = World::new();
    World { app: app.with_guard(Arc::new(Guard::new(options).unwrap())), host, budget }
}

fn delegating(anonymous: bool, may: impl Fn(&Value) -> bool + 'static) -> World {
    let world =
        world(Options { anonymous, certificates: true, delegated: Some(delegated()), ..Options::default() });
    world.host.upstream.play(cluster(may));
    world
}

const LIST: &str = "/api/v1/namespaces/ns/configmaps";

impl World {
    fn get_with(&self, token: &str, target: &str, headers: &[(&str, &str)]) -> Got {
        let token = format!("Bearer {token}");
        let ask = Ask::new("GET", target).with("Authorization", &token);
        self.ask(&headers.iter().fold(ask, |ask, (name, value)| ask.with(name, value)))
    }
}

fn is_user(spec: &Value, name: &str) -> bool {
    spec["user"] == name
}

#[test]
fn the_upstream_decides_who_may_what() {
    let world = delegating(false, |spec| is_user(spec, "jane"));
    let target = "/apis/apps/v1/namespaces/ns/deployments?watch=1&labelSelector=app%20in%20(a,b),!old&fieldSelector=metadata.name%3Dx";
    assert!(matches!(world.get_with("jane", target, &[]).reply, Reply::Watch(_)));
    let asked = std::mem::take(&mut *world.host.upstream.asked.borrow_mut());
    assert_eq!(asked[0], (TOKENS.to_owned(), json!({"token": "jane"})));
    assert_eq!(
        asked[1],
        (
            ACCESSES.to_owned(),
            json!({"user": "jane", "uid": "u1", "groups": ["dev", "system:authenticated"],
                "extra": {"authentication.kubernetes.io/credential-id": ["JTI=jane"]},
                "resourceAttributes": {"namespace": "ns", "verb": "watch", "group": "apps", "version": "v1",
                    "resource": "deployments", "name": "x",
                    "fieldSelector": {"requirements": [{"key": "metadata.name", "operator": "In", "values": ["x"]}]},
                    "labelSelector": {"requirements": [{"key": "app", "operator": "In", "values": ["a", "b"]},
                        {"key": "old", "operator": "DoesNotExist"}]}}})
        )
    );
    let got = world.get_with("bob", LIST, &[]);
    assert_eq!(
        (got.code, got.message().as_str()),
        (
            403,
            "configmaps is forbidden: User \"bob\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"ns\""
        )
    );
    assert_eq!(world.get_with("jane", "/version", &[]).code, 200);
    let last = world.host.upstream.asked.borrow().last().cloned().unwrap();
    assert_eq!(last.1["nonResourceAttributes"], json!({"path": "/version", "verb": "get"}));
}

#[test]
fn wrong_credentials_are_401_and_none_are_nobody() {
    for anonymous in [false, true] {
        let world = delegating(anonymous, |_| false);
        assert_eq!(world.get_with("bad", LIST, &[]).code, 401);
        assert_eq!(world.get_with("jane", LIST, &[]).code, 403);
        let got = world.get(LIST);
        assert_eq!(got.code, if anonymous { 403 } else { 401 });
        if anonymous {
            assert!(got.message().contains("User \"system:anonymous\" cannot list"), "{}", got.message());
        }
        assert_eq!(world.get("/livez").code, 200);
    }
}

#[test]
fn a_token_of_another_audience_is_wrong() {
    for (audience, code) in [("revcast", 200), ("other", 401)] {
        let options = DelegatedOptions { audiences: vec![audience.into(), "x".into()], ..delegated() };
        let world = world(Options { delegated: Some(options), ..Options::default() });
        world.host.upstream.play(cluster(|_| true));
        assert_eq!(world.get_with("jane", LIST, &[]).code, code, "{audience}");
        assert_eq!(world.host.upstream.asked.borrow()[0].1["audiences"], json!([audience, "x"]));
    }
}

#[test]
fn answers_are_used_for_their_time_also_while_nothing_can_be_asked() {
    let world = delegating(true, |spec| is_user(spec, "jane"));
    let get = |token| world.get_with(token, LIST, &[]).code;
    assert_eq!((get("jane"), get("bob"), get("bad")), (200, 403, 401));
    assert_eq!(world.host.upstream.count(), (3, 2));
    assert_eq!((get("jane"), get("bob"), get("bad")), (200, 403, 401));
    assert_eq!(world.host.upstream.count(), (0, 0));
    world.host.upstream.play(|_, _| down());
    world.host.later.set(9);
    assert_eq!((get("jane"), get("bob"), get("bad")), (200, 403, 401));
    world.host.later.set(10);
    for token in ["jane", "bob", "bad", "new"] {
        let got = world.get_with(token, LIST, &[]);
        assert_eq!((got.code, got.whole().retry_after_seconds), (503, Some(1)), "never 401, and never yes");
        assert!(got.message().contains("try again"), "{}", got.message());
    }
    // Requests without credentials are authorized by it too.
    assert_eq!(world.get(LIST).code, 503);
    world.host.upstream.play(cluster(|_| true));
    assert_eq!((get("jane"), get("bad")), (200, 401), "a failure is not kept");
}

#[test]
fn what_is_no_answer_is_503() {
    let garbage: [fn() -> Result<UpstreamReply, UpstreamError>; 9] = [
        || reply(201, &json!({"kind": "Status", "status": "Failure"})),
        || reply(201, &json!({})),
        || reply(200, &json!({"kind": "SubjectAccessReview", "status": {"allowed": "true"}})),
        || reply(403, &json!({"kind": "SubjectAccessReview", "status": {"allowed": true}})),
        || {
            reply(
                500,
                &json!({"kind": "TokenReview", "status": {"authenticated": true, "user": {"username": "a"}}}),
            )
        },
        || Ok(UpstreamReply { code: 201, body: "<html>".into() }),
        || Err(UpstreamError::Slow),
        || Err(UpstreamError::Busy),
        || Err(UpstreamError::Broken("cut".into())),
    ];
    for broken in garbage {
        let world = delegating(true, |_| true);
        world.host.upstream.play(move |_, _| broken());
        assert_eq!(world.get_with("jane", LIST, &[]).code, 503);
        assert_eq!(world.get(LIST).code, 503);
        // Also if only the access cannot be asked.
        world.host.upstream.play(
            move |path, spec| {
                if path == TOKENS { cluster(|_| true)(path, spec) } else { broken() }
            },
        );
        assert_eq!(world.get_with("jane", LIST, &[]).code, 503);
    }
}

#[test]
fn a_token_is_known_no_longer_than_it_lives() {
    let world = delegating(false, |_| true);
    let claims = json!({"exp": NOW + 4}).to_string();
    let token = format!("jane.{}.c2ln", base64url::encode(claims.as_bytes()));
    let watch = format!("{LIST}?watch=1");
    assert_eq!(
        world.get_with(&token, &watch, &[]).watch_request().subscription.timeout,
        Duration::from_secs(4)
    );
    world.host.later.set(3);
    assert_eq!(world.get_with(&token, LIST, &[]).code, 200);
    assert_eq!(world.host.upstream.count().0, 1);
    world.host.upstream.play(|_, _| reply(201, &json!({"kind": "TokenReview", "status": {"user": {}}})));
    world.host.later.set(4);
    assert_eq!(world.get_with(&token, LIST, &[]).code, 401);
}

/// A request as far as its admission, to be polled beside others.
fn admission<'a>(world: &'a World, token: &str, target: &str) -> Pin<Box<dyn Future<Output = bool> + 'a>> {
    let text = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
    let Ok(Parsed::Complete { head, .. }) = parse_head(text.as_bytes()) else { panic!("{text}") };
    Box::pin(async move {
        let routed = target_of(&head.path);
        let (app, host) = (&world.app, &world.host);
        app.admit(host, &head, routed, None, super::Host::wall(host)).await.1.is_ok()
    })
}

#[test]
fn ten_thousand_watchers_of_five_hundred_users_cost_a_question_each() {
    let world = delegating(false, |_| true);
    let upstream = &world.host.upstream;
    let target = format!("{LIST}?watch=1");
    upstream.held.set(true);
    let mut requests: Vec<_> =
        (0..10_000).map(|at| admission(&world, &format!("u{}", at % 500), &target)).collect();
    let mut admitted = 0;
    let mut poll = |requests: &mut Vec<Pin<Box<dyn Future<Output = bool> + '_>>>| {
        let mut context = Context::from_waker(Waker::noop());
        requests.retain_mut(|request| match request.as_mut().poll(&mut context) {
            Poll::Ready(is) => {
                admitted += usize::from(is);
                false
            }
            Poll::Pending => true,
        });
    };
    poll(&mut requests);
    assert_eq!((requests.len(), upstream.count()), (10_000, (500, 0)), "all wait, and one of each asks");
    upstream.held.set(false);
    while !requests.is_empty() {
        poll(&mut requests);
    }
    assert_eq!((admitted, upstream.count()), (10_000, (0, 500)));
    // Again within the time of the answers, and once more after it.
    for (later, cost) in [(9, (0, 0)), (11, (500, 500))] {
        world.host.later.set(later);
        for at in 0..1000 {
            assert!(run(admission(&world, &format!("u{}", at % 500), &target)));
        }
        assert_eq!(upstream.count(), cost, "after {later} s");
    }
    // Open watches of the same users share what they need: a token and an access each.
    let open: Vec<_> =
        (0..1000).map(|at| world.get_with(&format!("u{}", at % 500), &target, &[]).watch_request()).collect();
    assert_eq!(world.app.guard().delegated().unwrap().needed(), 1000);
    drop(open);
    assert_eq!(world.app.guard().delegated().unwrap().needed(), 0);
}

#[test]
fn impersonation_needs_a_right_for_each_part() {
    // `agent` may act as jane, as service accounts in `agg`, in group dev, with any uid and one extra value.
    let may = |spec: &Value| {
        let of = &spec["resourceAttributes"];
        let is = |member: &str, text: &str| of[member] == text;
        if spec["user"] != "agent" {
            // Those that it acts as may list, if they are named whole.
            return is("verb", "list") && spec["groups"] != json!(["system:authenticated"]);
        }
        is("verb", "impersonate")
            && ((is("resource", "users") && is("name", "jane"))
                || (is("resource", "groups") && is("name", "dev"))
                || (is("resource", "serviceaccounts") && is("namespace", "agg"))
                || (is("resource", "uids") && is("group", "authentication.k8s.io"))
                || (is("resource", "userextras") && is("subresource", "scopes") && is("name", "a")))
    };
    let world = delegating(true, may);
    let (user, group) = (("Impersonate-User", "jane"), ("Impersonate-Group", "dev"));
    let scope = |value| ("Impersonate-Extra-Scopes", value);
    let agent = |headers: &[(&str, &str)]| world.get_with("agent", LIST, headers);
    assert_eq!(agent(&[]).code, 403, "it may do nothing as itself");
    assert_eq!(agent(&[user, group]).code, 200);
    let got = agent(&[user]);
    assert_eq!((got.code, got.message().contains("User \"jane\" cannot list")), (403, true));
    assert_eq!(agent(&[user, group, ("Impersonate-Uid", "u7"), scope("a")]).code, 200);
    let last = world.host.upstream.asked.borrow().last().cloned().unwrap().1;
    assert_eq!(
        (&last["user"], &last["uid"], &last["extra"]),
        (&json!("jane"), &json!("u7"), &json!({"scopes": ["a"]}))
    );
    assert_eq!(last["groups"], json!(["dev", "system:authenticated"]));
    let account = ("Impersonate-User", "system:serviceaccount:agg:reader");
    assert_eq!(agent(&[account]).code, 200);
    for (headers, says) in [
        (
            vec![("Impersonate-User", "bob")],
            "users \"bob\" is forbidden: User \"agent\" cannot impersonate resource \"users\"",
        ),
        (vec![user, ("Impersonate-Group", "ops")], "groups \"ops\" is forbidden"),
        (
            vec![user, group, ("Impersonate-Group", "system:masters")],
            "groups \"system:masters\" is forbidden",
        ),
        (vec![user, group, scope("b")], "userextras.authentication.k8s.io \"b\" is forbidden"),
        (
            vec![("Impersonate-User", "system:serviceaccount:kube-system:x")],
            "serviceaccounts \"x\" is forbidden",
        ),
    ] {
        let got = agent(&headers);
        assert_eq!((got.code, got.message().starts_with(says)), (403, true), "{}", got.message());
    }
    for headers in [vec![group], vec![user, ("Impersonate-User", "bob")], vec![user, ("Impersonate-X", "y")]]
    {
        assert_eq!(agent(&headers).code, 400, "{headers:?}");
    }
    // Those who may not impersonate are not served as themselves, nor is nobody.
    assert_eq!(world.get_with("jane", LIST, &[("Impersonate-User", "jane")]).code, 403);
    assert_eq!(world.ask(&Ask::new("GET", LIST).with("Impersonate-User", "jane")).code, 403);
    world.host.upstream.play(|_, _| down());
    world.host.later.set(10);
    assert_eq!(agent(&[user, group]).code, 503);
}

#[test]
fn without_a_reviewer_nobody_impersonates() {
    let options = DelegatedOptions { authorization: false, ..delegated() };
    let world = world(Options { delegated: Some(options), ..Options::default() });
    world.host.upstream.play(cluster(|_| true));
    assert_eq!(world.get_with("jane", LIST, &[]).code, 200);
    assert_eq!(world.get_with("jane", LIST, &[("Impersonate-User", "bob")]).code, 403);
}

fn der(name: &str) -> Vec<u8> {
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec()
}

#[test]
fn headers_of_a_front_proxy_count_only_with_its_certificate() {
    let world =
        delegating(true, |spec| is_user(spec, "jane") || is_user(spec, "carol") || is_user(spec, "tim"));
    let delegated = world.app.guard().delegated().unwrap();
    let (proxy, other, carol) = (der("front-proxy-client"), der("other"), der("carol"));
    let of_proxy = |der| Some(PeerCertificate { der, is_client: false, is_proxy: true });
    let remote = [("X-Remote-User", "jane"), ("X-Remote-Group", "dev"), ("X-Remote-Extra-Scopes", "a")];
    let ask = |headers: &[(&str, &str)], certificate: Option<PeerCertificate<'_>>| {
        let ask = headers.iter().fold(Ask::new("GET", LIST), |ask, (name, value)| ask.with(name, value));
        // No answer is kept so long.
        world.host.later.set(world.host.later.get() + 20);
        let got = world.ask_with(&ask, certificate);
        let last = world.host.upstream.asked.borrow_mut().pop().map(|(_, spec)| spec["user"].to_string());
        world.host.upstream.asked.borrow_mut().clear();
        (got.code, last.unwrap_or_default())
    };
    let user = |code, name: &str| (code, format!("\"{name}\""));
    // Before the cluster's names are known, the certificate is nobody's.
    assert_eq!(ask(&remote, of_proxy(&proxy)).0, 401);
    assert_eq!(run(delegated.read_cluster(&ByHost(&world.host))), Ok(true));
    assert_eq!(ask(&remote, of_proxy(&proxy)), user(200, "jane"));
    // Without a certificate: nobody; with a user's: that user.
    assert_eq!(ask(&remote, None), user(403, "system:anonymous"));
    assert_eq!(ask(&remote, Some(PeerCertificate::client(&carol))), user(200, "carol"));
    assert_eq!(ask(&remote, Some(PeerCertificate::client(&proxy))), user(403, "front-proxy-client"));
    // The authority's certificate of another name, or without a user: 401, and never a user of that name.
    assert_eq!(ask(&remote, of_proxy(&other)).0, 401);
    assert_eq!(ask(&[], of_proxy(&proxy)).0, 401);
    assert_eq!(ask(&remote[1..], of_proxy(&proxy)).0, 401);
    // A token counts then.
    assert_eq!(ask(&[("Authorization", "Bearer tim")], of_proxy(&proxy)), user(200, "tim"));
    assert_eq!(ask(&[("Authorization", "Bearer bad")], of_proxy(&proxy)).0, 401);
    // One that both authorities signed.
    let both = |der| Some(PeerCertificate { der, is_client: true, is_proxy: true });
    assert_eq!(ask(&remote, both(&proxy)), user(200, "jane"));
    assert_eq!(ask(&[], both(&carol)), user(200, "carol"));
}

#[test]
fn an_open_watch_ends_when_the_answer_turns() {
    let world = delegating(false, |_| true);
    let (guard, upstream) = (world.app.guard(), ByHost(&world.host));
    let delegated = guard.delegated().unwrap();
    let start = Instant::now();
    let open = |token: &str| {
        world.get_with(token, &format!("{LIST}?watch=1"), &[]).watch_request().authorization.unwrap()
    };
    let [jane, jane2, bob] = ["jane", "jane", "bob"].map(open);
    let holds = || [&jane, &jane2, &bob].map(|pass| guard.still_allows(pass));
    let after = |seconds: u64| {
        world.host.later.set(seconds);
        run(delegated.recheck(&upstream, start + Duration::from_secs(seconds)))
    };
    world.host.upstream.count();
    assert!(!after(310));
    assert_eq!((world.host.upstream.count(), holds()), ((2, 2), [true; 3]), "once for each that is distinct");
    // While nothing can be asked they go on for the grace.
    world.host.upstream.play(|_, _| down());
    assert!((610..1200).step_by(10).all(|seconds| !after(seconds)));
    assert_eq!(holds(), [true; 3]);
    world.host.upstream.play(cluster(|spec| !is_user(spec, "jane")));
    assert!(after(1211), "jane may not any more");
    assert_eq!(holds(), [false, false, true]);
    // A token that was revoked.
    world.host.upstream.play(|path, spec| {
        let spec = if path == TOKENS { json!({"token": "bad"}) } else { spec.clone() };
        cluster(|_| true)(path, &spec)
    });
    assert!(after(1600));
    assert_eq!(holds(), [false; 3]);
    // An answer that never comes.
    world.host.upstream.play(cluster(|_| true));
    let eve = open("eve");
    world.host.upstream.play(|_, _| down());
    let base = Instant::now();
    let ended = (0..2000).find(|seconds| {
        world.host.later.set(2000 + seconds);
        run(delegated.recheck(&upstream, base + Duration::from_secs(*seconds)))
    });
    assert!(
        ended.is_some_and(|seconds| (899..=905).contains(&seconds)) && !guard.still_allows(&eve),
        "{ended:?}"
    );
}

#[test]
fn a_watch_by_impersonation_needs_the_right_to_it() {
    let world = delegating(false, |_| true);
    let (guard, upstream) = (world.app.guard(), ByHost(&world.host));
    let got = world.get_with("agent", &format!("{LIST}?watch=1"), &[("Impersonate-User", "jane")]);
    let watch = got.watch_request();
    assert_eq!(watch.user.as_ref().map(|user| user.name.as_str()), Some("jane"));
    let pass = watch.authorization.unwrap();
    assert_eq!(guard.delegated().unwrap().needed(), 3, "the token, the right, and the access");
    world.host.upstream.play(cluster(|spec| spec["resourceAttributes"]["verb"] != "impersonate"));
    world.host.later.set(400);
    assert!(run(guard.delegated().unwrap().recheck(&upstream, Instant::now() + Duration::from_secs(400))));
    assert!(!guard.still_allows(&pass));
}

#[test]
fn masters_are_not_asked_about() {
    let world = delegating(false, |_| false);
    world.host.upstream.play(|path, _| {
        assert_eq!(path, TOKENS);
        let user = json!({"username": "root", "groups": ["system:masters"]});
        reply(201, &json!({"kind": "TokenReview", "status": {"authenticated": true, "user": user}}))
    });
    assert_eq!(world.get_with("root", LIST, &[]).code, 200);
    assert_eq!(
        world
            .get_with("root", LIST, &[("Impersonate-User", "root"), ("Impersonate-Group", "system:masters")])
            .code,
        200
    );
}

#[test]
fn an_apply_that_creates_is_asked_about_twice() {
    let world =
        delegating(false, |spec| spec["resourceAttributes"]["verb"] != "create" || is_user(spec, "maker"));
    let apply = |token: &str| {
        let token = format!("Bearer {token}");
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let target = format!("{LIST}/a?fieldManager=t");
        let ask = Ask::new("PATCH", &target).with("Authorization", &token);
        world.ask(&ask.with("Content-Type", "application/apply-patch+yaml").json(&body)).code
    };
    assert_eq!((apply("patcher"), apply("maker"), apply("patcher")), (403, 201, 200));
    let verbs: BTreeSet<String> = world
        .host
        .upstream
        .asked
        .borrow()
        .iter()
        .filter_map(|(_, spec)| Some(spec["resourceAttributes"]["verb"].as_str()?.to_owned()))
        .collect();
    assert_eq!(verbs, ["create", "patch"].map(str::to_owned).into());
}

#[test]
fn what_is_configured_here_comes_first() {
    let folder = std::env::temp_dir().join(format!("revcast-delegated-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name)
    };
    let options = Options {
        token_file: Some(write("tokens", "local,alice,1\n")),
        rules: Some(write(
            "rules",
            "[[rule]]\nusers = [\"alice\", \"jane\"]\nverbs = [\"list\", \"watch\"]\nresources = [\"configmaps\"]\nnamespaces = [\"ns\"]\n",
        )),
        delegated: Some(delegated()),
        ..Options::default()
    };
    let world = world(options);
    world.host.upstream.play(cluster(|spec| spec["resourceAttributes"]["resource"] == "pods"));
    let get = |token: &str, target: &str| world.get_with(token, target, &[]).code;
    let pods = "/api/v1/namespaces/ns/pods";
    assert_eq!((get("local", LIST), world.host.upstream.count()), (200, (0, 0)), "nothing is asked");
    assert_eq!((get("local", pods), world.host.upstream.count()), (200, (0, 1)));
    assert_eq!((get("jane", LIST), world.host.upstream.count()), (200, (1, 0)));
    assert_eq!((get("jane", pods), get("jane", "/api/v1/namespaces/ns/secrets")), (200, 403));
    // A watch that a rule allowed ends with the rule, and one that was reviewed does not.
    let open = |target: &str| {
        world.get_with("jane", &format!("{target}?watch=1"), &[]).watch_request().authorization.unwrap()
    };
    let [by_rule, by_review] = [LIST, pods].map(open);
    write(
        "rules",
        "[[rule]]\nusers = [\"nobody\"]\nverbs = [\"list\"]\nresources = [\"configmaps\"]\nnamespaces = [\"ns\"]\n",
    );
    assert!(world.app.guard().read_again().unwrap());
    let guard = world.app.guard();
    assert_eq!((guard.still_allows(&by_rule), guard.still_allows(&by_review)), (false, true));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_token_of_own_audiences_is_passed_on_only_where_nothing_else_can_be() {
    for (audiences, passes) in [(Vec::new(), true), (vec!["revcast".to_owned()], false)] {
        let options = DelegatedOptions { audiences, ..delegated() };
        let world = world(Options { delegated: Some(options), ..Options::default() });
        world.host.upstream.play(cluster(|_| true));
        let text = "GET /api HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer jane\r\n\r\n";
        let Ok(Parsed::Complete { head, .. }) = parse_head(text.as_bytes()) else { panic!("{text}") };
        let now = super::Host::wall(&world.host);
        let visitor = run(world.app.guard().identify(&ByHost(&world.host), &head, None, now)).unwrap();
        assert_eq!((visitor.passes_credentials(true), visitor.passes_credentials(false)), (passes, true));
    }
}
