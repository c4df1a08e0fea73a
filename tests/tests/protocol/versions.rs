//! `resourceVersion` × `resourceVersionMatch` × `limit` × `continue`: which state a LIST shows, where a WATCH begins,
//! what a GET waits for. Every combination is requested; the expected results follow from the rules of section 3,
//! implemented again in [`expected_list`] and [`expected_watch`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use revcast_tests::client::{Client, Response};
use revcast_tests::server::Server;
use serde_json::{Value, json};

use crate::{MAPS, assert_failure, map, names, newest, post, revision, told};

/// A server with a history: `a` and `b` at `old`; `c` since; `gone` is compacted.
struct World {
    server: Server,
    client: Client,
    gone: u64,
    old: u64,
    current: u64,
}

impl World {
    fn new() -> Self {
        let server = Server::start(&[]);
        let client = server.client();
        let gone = revision(&post(&client, MAPS, &map("a", &json!({}))));
        post(&client, MAPS, &map("aa", &json!({})));
        let path = format!("{MAPS}/aa");
        assert_eq!(client.request("DELETE", &path, &[], &[]).status, 200);
        let old = revision(&post(&client, MAPS, &map("b", &json!({}))));
        // With etcd a write is answered before its event has come back; a list without a version waits for it.
        assert_eq!(newest(&client), old);
        assert_eq!(
            server.admin_client().request("POST", &format!("/compact?revision={}", old - 1), &[], &[]).status,
            200
        );
        let current = revision(&post(&client, MAPS, &map("c", &json!({}))));
        assert_eq!(newest(&client), current);
        Self { server, client, gone, old, current }
    }

    /// Text of a `resourceVersion`, and its meaning.
    fn versions(&self) -> Vec<(String, Version)> {
        let number = |n: u64| n.to_string();
        let bad = |text: &str, why: &str| (text.to_owned(), Version::Bad(why.to_owned()));
        let syntax = "invalid syntax";
        vec![
            (String::new(), Version::Unset),
            ("0".to_owned(), Version::Zero),
            (number(self.old), Version::Past),
            (format!("0{}", self.old), Version::Past),
            (number(self.current), Version::Current),
            (number(self.current + 1_000_000), Version::Future),
            (number(self.gone), Version::Gone),
            bad("abc", syntax),
            bad("-1", syntax),
            bad("1.5", syntax),
            bad("%205", syntax),
            bad("5%20", syntax),
            bad("0x5", syntax),
            bad("18446744073709551616", "value out of range"),
        ]
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Version {
    Unset,
    Zero,
    Past,
    Current,
    Future,
    Gone,
    /// The message of `strconv`.
    Bad(String),
}

/// The result of a LIST.
#[derive(Debug, PartialEq)]
enum Listed {
    /// These names, at the old revision or the newest.
    Names(&'static str, At),
    /// A failure: status, reason, and the beginning of its message.
    Failure(u16, &'static str, String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Old,
    Newest,
}

fn decoded(text: &str) -> String {
    text.replace("%20", " ")
}

fn refusal(text: &str, why: &str) -> String {
    let text = decoded(text);
    format!("resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": {why}")
}

/// The rules of section 3. `token`: "" for none, `old` for one of the old revision, `latest` for an inconsistent one.
fn expected_list(text: &str, version: &Version, matching: &str, limit: bool, token: &str) -> Listed {
    let failure = |code, reason, message: &str| Listed::Failure(code, reason, message.to_owned());
    let unset = *version == Version::Unset;
    if !matching.is_empty() {
        let wrong = unset
            || !token.is_empty()
            || !["Exact", "NotOlderThan"].contains(&matching)
            || (matching == "Exact" && *version == Version::Zero);
        if wrong {
            return failure(422, "Invalid", "ListOptions.meta.k8s.io \"\" is invalid: ");
        }
    }
    if !token.is_empty() {
        if !matches!(version, Version::Unset | Version::Zero) {
            return failure(
                400,
                "BadRequest",
                "specifying resource version is not allowed when using continue",
            );
        }
        // Both tokens are after `a`.
        return match (token, limit) {
            ("old", _) => Listed::Names("b", At::Old),
            (_, true) => Listed::Names("b", At::Newest),
            (_, false) => Listed::Names("b c", At::Newest),
        };
    }
    let exact = matching == "Exact" || (matching.is_empty() && limit);
    let newest = Listed::Names(if limit { "a" } else { "a b c" }, At::Newest);
    match version {
        Version::Bad(why) => {
            Listed::Failure(400, "BadRequest", format!("invalid resource version: {}", refusal(text, why)))
        }
        Version::Future => failure(504, "Timeout", "Timeout: Too large resource version: "),
        Version::Unset | Version::Current => newest,
        Version::Zero => Listed::Names("a b c", At::Newest),
        Version::Past if exact => Listed::Names(if limit { "a" } else { "a b" }, At::Old),
        Version::Gone if exact => {
            failure(410, "Expired", "The resourceVersion for the provided list is too old.")
        }
        Version::Past | Version::Gone => newest,
    }
}

fn listed(world: &World, reply: &Response) -> Listed {
    let body = reply.json();
    if reply.status != 200 {
        let reason = match body["reason"].as_str() {
            Some("Invalid") => "Invalid",
            Some("BadRequest") => "BadRequest",
            Some("Timeout") => "Timeout",
            Some("Expired") => "Expired",
            other => panic!("{other:?}: {body}"),
        };
        assert_eq!(body["code"], reply.status);
        return Listed::Failure(reply.status, reason, body["message"].as_str().unwrap().to_owned());
    }
    let at = if revision(&body) == world.old { At::Old } else { At::Newest };
    assert!(at == At::Old || revision(&body) == world.current, "{body}");
    let all = ["a", "a b", "a b c", "b", "b c", ""];
    let found = names(&body);
    Listed::Names(all.into_iter().find(|names| *names == found).unwrap(), at)
}

#[test]
fn lists() {
    let world = World::new();
    let page = world.client.get(&format!("{MAPS}?limit=1&resourceVersion={}", world.old)).json();
    let old = page["metadata"]["continue"].as_str().unwrap().to_owned();
    // {"v":"meta.k8s.io/v1","rv":-1,"start":"a\u0000"}
    let latest = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9".to_owned();
    let mut asked = Vec::new();
    for (text, version) in world.versions() {
        for matching in ["", "Exact", "NotOlderThan", "Foo"] {
            for limit in [false, true] {
                for (kind, token) in [("", ""), ("old", &*old), ("latest", &*latest)] {
                    let mut query = format!("resourceVersion={text}&resourceVersionMatch={matching}");
                    query += if limit { "&limit=1" } else { "" };
                    query += &if token.is_empty() { String::new() } else { format!("&continue={token}") };
                    asked.push((query, expected_list(&text, &version, matching, limit, kind)));
                }
            }
        }
    }
    assert_eq!(asked.len(), 14 * 4 * 2 * 3);
    // Those that took as long as if they waited, and need not wait.
    let slow = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for (query, expected) in &asked {
            let (world, slow) = (&world, &slow);
            let ask = move || {
                let begun = Instant::now();
                let reply = world.client.get(&format!("{MAPS}?{query}"));
                let got = match (listed(world, &reply), expected) {
                    (Listed::Failure(code, reason, message), Listed::Failure(_, _, begin)) => {
                        let begins = message.starts_with(begin);
                        Listed::Failure(code, reason, if begins { begin.clone() } else { message })
                    }
                    (got, _) => got,
                };
                assert_eq!(got, *expected, "{query}");
                let waited = begun.elapsed().as_secs_f32() > 2.9;
                let waits = matches!(expected, Listed::Failure(504, ..));
                assert!(waited || !waits, "{query}");
                slow.fetch_add(usize::from(waited && !waits), Ordering::Relaxed);
                assert_eq!(reply.header("retry-after"), waits.then_some("1"), "{query}");
            };
            // Those that wait, in parallel.
            if matches!(expected, Listed::Failure(504, ..)) {
                scope.spawn(ask);
            } else {
                ask();
            }
        }
    });
    // The machine may stall now and then.
    assert!(slow.into_inner() < 4, "lists wait for nothing");
    assert_eq!(newest(&world.client), world.current);
    assert_eq!(world.server.metric("revcast_window_compacted_revision"), world.old - 1);
}

/// The result of a WATCH.
#[derive(Debug, PartialEq)]
enum Watched {
    /// A stream of these events.
    Events(Vec<String>),
    /// No stream: status and reason.
    Refused(u16, &'static str),
}

fn expected_watch(world: &World, version: &Version, initial: &str, bookmarks: bool) -> Watched {
    let events = |list: &[String]| Watched::Events(list.to_vec());
    let added = |names: &[&str]| names.iter().map(|name| format!("ADDED {name}")).collect::<Vec<_>>();
    let state = || {
        let mut list = added(&["a", "b", "c"]);
        if bookmarks {
            list.push(format!("END {}", world.current));
        }
        Watched::Events(list)
    };
    match (version, initial) {
        (Version::Bad(_), _) => Watched::Refused(400, "BadRequest"),
        (Version::Unset | Version::Zero, "" | "true") => state(),
        (Version::Unset | Version::Zero, _) => events(&[]),
        (Version::Future, "true") => events(&["ERROR 504 Timeout".to_owned()]),
        (_, "true") => state(),
        (Version::Current | Version::Future, _) => events(&[]),
        (Version::Past, _) => events(&added(&["c"])),
        (Version::Gone, _) => events(&["ERROR 410 Expired".to_owned()]),
    }
}

fn said((kind, object): &(String, Value)) -> String {
    match kind.as_str() {
        "ERROR" => format!("ERROR {} {}", object["code"], object["reason"].as_str().unwrap()),
        "BOOKMARK" => {
            assert_eq!(object["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
            format!("END {}", revision(object))
        }
        _ => told(&(kind.clone(), object.clone())),
    }
}

#[test]
fn watches() {
    let world = World::new();
    std::thread::scope(|scope| {
        for (text, version) in world.versions() {
            for initial in ["", "true", "false"] {
                for bookmarks in [false, true] {
                    for legacy in [false, true] {
                        let (world, version, text) = (&world, version.clone(), text.clone());
                        scope.spawn(move || {
                            let path =
                                if legacy { MAPS.replace("/v1/", "/v1/watch/") } else { MAPS.to_owned() };
                            let mut query = format!("{path}?watch=1&resourceVersion={text}&timeoutSeconds=1");
                            if !initial.is_empty() {
                                query += &format!(
                                    "&sendInitialEvents={initial}&resourceVersionMatch=NotOlderThan"
                                );
                            }
                            query += if bookmarks { "&allowWatchBookmarks=true" } else { "" };
                            let expected = expected_watch(world, &version, initial, bookmarks);
                            let got = match world.client.watch(&query) {
                                Ok(mut watch) => Watched::Events(watch.rest().iter().map(said).collect()),
                                Err(_) => {
                                    let reply = world.client.get(&query);
                                    let Version::Bad(why) = &version else { panic!("{query}: {reply:?}") };
                                    let message = refusal(&text, why);
                                    assert_failure(&reply, (400, "BadRequest", &message), "", &query);
                                    Watched::Refused(reply.status, "BadRequest")
                                }
                            };
                            assert_eq!(got, expected, "{query}");
                        });
                    }
                }
            }
        }
    });
}

#[test]
fn objects_by_name() {
    let world = World::new();
    std::thread::scope(|scope| {
        for (text, version) in world.versions() {
            let world = &world;
            scope.spawn(move || {
                for name in ["a", "none"] {
                    let begun = Instant::now();
                    // A GET has no match parameter: it is ignored like any unknown parameter.
                    let path = format!("{MAPS}/{name}?resourceVersion={text}&resourceVersionMatch=Exact");
                    let reply = world.client.get(&path);
                    let waited = begun.elapsed().as_secs_f32() > 2.9;
                    match (&version, name) {
                        (Version::Bad(why), _) => {
                            let message = refusal(&text, why);
                            assert_failure(&reply, (400, "BadRequest", &message), "", &path);
                        }
                        (Version::Future, _) => {
                            let asked = world.current + 1_000_000;
                            let message = format!(
                                "Timeout: Too large resource version: {asked}, current: {}",
                                world.current
                            );
                            let details = r#"{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1}"#;
                            assert_failure(&reply, (504, "Timeout", &message), details, &path);
                            assert!(waited && reply.header("retry-after") == Some("1"), "{path}");
                        }
                        (_, "none") => {
                            let details = r#"{"name":"none","kind":"configmaps"}"#;
                            let message = "configmaps \"none\" not found";
                            assert_failure(&reply, (404, "NotFound", message), details, &path);
                        }
                        _ => assert_eq!((reply.status, revision(&reply.json())), (200, world.gone), "{path}"),
                    }
                }
            });
        }
    });
}

/// Invalid continue tokens, as JSON, and their errors.
const TOKENS: &[(&str, &str)] = &[
    (
        r#"{"v":"meta.k8s.io/v2","rv":5,"start":"/a"}"#,
        "server does not recognize this encoded version meta.k8s.io/v2",
    ),
    (r#"{"rv":5,"start":"/a"}"#, "server does not recognize this encoded version "),
    (
        r#"{"v":"meta.k8s.io/v1","rv":0,"start":"/a"}"#,
        "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
    ),
    (
        r#"{"v":"meta.k8s.io/v1","start":"/a"}"#,
        "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
    ),
    (r#"{"v":"meta.k8s.io/v1","rv":5,"start":""}"#, "encoded start key empty (version meta.k8s.io/v1)"),
    (r#"{"v":"meta.k8s.io/v1","rv":5}"#, "encoded start key empty (version meta.k8s.io/v1)"),
    (r#"{"v":"meta.k8s.io/v1","rv":5,"start":"/../secrets/x"}"#, "/../secrets/x"),
    (r#"{"v":"meta.k8s.io/v1","rv":5,"start":"/a/"}"#, "/a/"),
    (r#"{"v":"meta.k8s.io/v1","rv":5,"start":"a//b"}"#, "a//b"),
];

#[test]
fn tokens_that_are_none() {
    let server = Server::start(&[]);
    let client = server.client();
    post(&client, MAPS, &map("a", &json!({})));
    for (token, why) in TOKENS {
        for limit in ["", "&limit=1"] {
            let reply = client.get(&format!("{MAPS}?continue={}{limit}", base64url(token.as_bytes())));
            let message = format!("invalid continue token: continue key is not valid: {why}");
            assert_failure(&reply, (400, "BadRequest", &message), "", token);
        }
    }
    for token in ["%20", "a", "====", "eyJ2", "%FFabc", "null"] {
        let reply = client.get(&format!("{MAPS}?continue={token}"));
        assert_eq!(
            (reply.status, &reply.json()["reason"]),
            (400, &json!("BadRequest")),
            "{token}: {}",
            reply.text()
        );
    }
}

/// Base64 for URLs, without padding.
fn base64url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..=group.len() {
            text.push(char::from(ALPHABET[(bits >> (18 - 6 * place) & 63) as usize]));
        }
    }
    text
}
