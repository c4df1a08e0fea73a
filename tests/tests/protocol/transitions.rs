//! What a change means to a watch: old match × new match, for every kind of scope and selector and every form of the
//! events, live and from the ring (section 4, recording 10).

use revcast_tests::client::{Client, Watch};
use revcast_tests::server::Server;
use serde_json::{Value, json};

use crate::{newest, post, revision};

const PODS: &str = "/api/v1/namespaces/t/pods";
const FORMS: [Option<&str>; 3] = [
    None,
    Some("application/json;as=Table;v=v1;g=meta.k8s.io"),
    Some("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
];

/// One step of the history: a write.
enum Step {
    /// A pod of this label, node and note.
    Create(&'static str, &'static str, &'static str),
    /// The same, for an existing pod.
    Change(&'static str, &'static str, &'static str),
    /// A write that changes nothing.
    Nothing,
    Delete,
}

use Step::{Change, Create, Delete, Nothing};

/// The life of pod `p`. A pod is marked and then deleted: two revisions.
const HISTORY: &[Step] = &[
    Create("b", "", "1"),
    Change("a", "", "2"),
    Change("a", "n1", "3"),
    Nothing,
    Change("a", "n1", "4"),
    Change("b", "n1", "5"),
    Change("b", "n2", "6"),
    Change("b", "n2", "7"),
    Change("a", "n1", "8"),
    Delete,
    Create("a", "n1", "9"),
];

/// Path, query, and the events: type, the note of the object, and the number of the write (0 is the creation; the mark
/// and the deletion of the pod count separately; a write without effect does not count).
struct Row {
    path: &'static str,
    query: &'static str,
    events: &'static [(&'static str, &'static str, usize)],
}

const EVERYTHING: &[(&str, &str, usize)] = &[
    ("ADDED", "1", 0),
    ("MODIFIED", "2", 1),
    ("MODIFIED", "3", 2),
    ("MODIFIED", "4", 3),
    ("MODIFIED", "5", 4),
    ("MODIFIED", "6", 5),
    ("MODIFIED", "7", 6),
    ("MODIFIED", "8", 7),
    ("MODIFIED", "8", 8),
    ("DELETED", "8", 9),
    ("ADDED", "9", 10),
];

const ROWS: &[Row] = &[
    Row { path: PODS, query: "", events: EVERYTHING },
    Row { path: "/api/v1/pods", query: "", events: EVERYTHING },
    Row { path: "/api/v1/watch/pods", query: "", events: EVERYTHING },
    Row { path: "/api/v1/watch/namespaces/t/pods/p", query: "", events: EVERYTHING },
    Row { path: PODS, query: "&fieldSelector=metadata.name%3Dp", events: EVERYTHING },
    Row {
        path: "/api/v1/pods",
        query: "&fieldSelector=metadata.namespace%3Dt,metadata.name%3Dp",
        events: EVERYTHING,
    },
    Row { path: PODS, query: "&labelSelector=app", events: EVERYTHING },
    Row {
        path: PODS,
        query: "&labelSelector=app+in+(a,b)&fieldSelector=metadata.name!%3Dq",
        events: EVERYTHING,
    },
    Row { path: "/api/v1/namespaces/u/pods", query: "", events: &[] },
    Row { path: PODS, query: "&fieldSelector=metadata.name%3Dq", events: &[] },
    Row { path: PODS, query: "&fieldSelector=metadata.namespace%3Du", events: &[] },
    Row { path: PODS, query: "&labelSelector=!app", events: &[] },
    Row { path: "/api/v1/watch/namespaces/t/pods/q", query: "", events: &[] },
    Row {
        path: PODS,
        query: "&labelSelector=app%3Da",
        events: &[
            ("ADDED", "2", 1),
            ("MODIFIED", "3", 2),
            ("MODIFIED", "4", 3),
            // The last matching state, at the revision that ended it.
            ("DELETED", "4", 4),
            ("ADDED", "8", 7),
            ("MODIFIED", "8", 8),
            ("DELETED", "8", 9),
            ("ADDED", "9", 10),
        ],
    },
    Row {
        path: "/api/v1/pods",
        query: "&labelSelector=app!%3Da",
        events: &[
            ("ADDED", "1", 0),
            ("DELETED", "1", 1),
            ("ADDED", "5", 4),
            ("MODIFIED", "6", 5),
            ("MODIFIED", "7", 6),
            ("DELETED", "7", 7),
        ],
    },
    Row {
        path: "/api/v1/pods",
        query: "&fieldSelector=spec.nodeName%3Dn1",
        events: &[
            ("ADDED", "3", 2),
            ("MODIFIED", "4", 3),
            ("MODIFIED", "5", 4),
            ("DELETED", "5", 5),
            ("ADDED", "8", 7),
            ("MODIFIED", "8", 8),
            ("DELETED", "8", 9),
            ("ADDED", "9", 10),
        ],
    },
    Row {
        path: PODS,
        query: "&fieldSelector=spec.nodeName%3D",
        events: &[("ADDED", "1", 0), ("MODIFIED", "2", 1), ("DELETED", "2", 2)],
    },
    Row {
        path: PODS,
        query: "&fieldSelector=spec.host%3Dn1&labelSelector=app%3Db",
        events: &[("ADDED", "5", 4), ("DELETED", "5", 5)],
    },
    Row {
        path: "/api/v1/watch/namespaces/t/pods/p",
        query: "&labelSelector=app%3Db",
        events: &[
            ("ADDED", "1", 0),
            ("DELETED", "1", 1),
            ("ADDED", "5", 4),
            ("MODIFIED", "6", 5),
            ("MODIFIED", "7", 6),
            ("DELETED", "7", 7),
        ],
    },
];

fn pod((app, node, note): (&str, &str, &str)) -> Value {
    json!({"metadata": {"name": "p", "labels": {"app": app}, "annotations": {"note": note}}, "spec": {"nodeName": node}})
}

/// Writes the history; returns the revision of each write.
fn write(client: &Client) -> Vec<u64> {
    let one = format!("{PODS}/p");
    let mut revisions = Vec::new();
    let mut last = json!({});
    for step in HISTORY {
        match step {
            Create(app, node, note) => last = post(client, PODS, &pod((app, node, note))),
            Change(app, node, note) => {
                let reply = client.patch(&one, "merge-patch", &pod((app, node, note)));
                assert_eq!(reply.status, 200, "{}", reply.text());
                last = reply.json();
            }
            Nothing => {
                for kind in ["merge-patch", "json-patch"] {
                    let nothing = if kind == "json-patch" { json!([]) } else { json!({}) };
                    assert_eq!(client.patch(&one, kind, &nothing).json(), last, "{kind}");
                }
                assert_eq!(client.send("PUT", &one, &last).json(), last);
                continue;
            }
            Delete => {
                let gone = client.request("DELETE", &one, &[], &[]);
                assert_eq!(gone.status, 200);
                revisions.push(newest(client) - 1);
                revisions.push(newest(client));
                continue;
            }
        }
        revisions.push(revision(&last));
    }
    revisions
}

/// Compares the events of a watch with its row.
fn check(mut watch: Watch, row: &Row, form: Option<&str>, revisions: &[u64], how: &str) {
    let what = format!("{how} {}?{} {form:?}", row.path, row.query);
    let events = watch.rest();
    let told: Vec<(&str, u64)> =
        events.iter().map(|(kind, object)| (kind.as_str(), revision(object))).collect();
    let expected: Vec<(&str, u64)> = row.events.iter().map(|(kind, _, at)| (*kind, revisions[*at])).collect();
    assert_eq!(told, expected, "{what}");
    let mut uids = Vec::new();
    for ((kind, object), (_, note, at)) in events.iter().zip(row.events) {
        let metadata = if object["kind"] == "Table" {
            let rows = object["rows"].as_array().unwrap();
            assert_eq!(rows.len(), 1, "{what}");
            assert_eq!(rows[0]["cells"][0], "p", "{what}");
            &rows[0]["object"]["metadata"]
        } else {
            &object["metadata"]
        };
        assert_eq!(metadata["annotations"]["note"], *note, "{what}: {kind} {at}");
        assert_eq!(metadata["resourceVersion"], revisions[*at].to_string(), "{what}");
        // Marked in the mark, and in the event of its deletion.
        let marked = metadata.get("deletionTimestamp").is_some();
        assert_eq!(marked, [8, 9].contains(at), "{what}: {kind} {at}");
        uids.push((*at == 10, metadata["uid"].clone()));
    }
    let of = |again: bool| uids.iter().find(|(new, _)| *new == again).map(|(_, uid)| uid);
    if let (Some(first), Some(second)) = (of(false), of(true)) {
        assert_ne!(first, second, "a new object of the old name: {what}");
        assert!(uids.iter().all(|(new, uid)| uid == if *new { second } else { first }), "{what}");
    }
}

#[test]
fn every_change_means_to_each_what_it_should() {
    let server = Server::start(&[]);
    let client = server.client();
    let start = newest(&client);
    let open = |seconds: u32| -> Vec<(&Row, Option<&str>, Watch)> {
        let mut open = Vec::new();
        for row in ROWS {
            for form in FORMS {
                let headers: Vec<(&str, &str)> = form.iter().map(|form| ("Accept", *form)).collect();
                let path = format!(
                    "{}?watch=1&resourceVersion={start}&timeoutSeconds={seconds}{}",
                    row.path, row.query
                );
                open.push((row, form, client.watch_as(&path, &headers).unwrap()));
            }
        }
        open
    };
    let live = open(10);
    let revisions = write(&client);
    assert_eq!(revisions, (start + 1..=start + 11).collect::<Vec<_>>());
    // All of it is in the ring: with etcd a write is answered before that.
    assert_eq!(newest(&client), start + 11);
    for (row, form, watch) in open(1) {
        check(watch, row, form, &revisions, "replayed");
    }
    for (row, form, watch) in live {
        check(watch, row, form, &revisions, "live");
    }
}

#[test]
fn finalizers_hold_an_object() {
    let server = Server::start(&[]);
    let client = server.client();
    let maps = "/api/v1/namespaces/t/configmaps";
    let one = format!("{maps}/held");
    let object = json!({"metadata": {"name": "held", "labels": {"app": "a"}, "finalizers": ["example.com/a", "example.com/b"]}});
    let made = post(&client, maps, &object);
    let path =
        format!("{maps}?watch=1&labelSelector=app%3Da&resourceVersion={}&timeoutSeconds=1", revision(&made));
    let merge = |body: Value| client.patch(&one, "merge-patch", &body);

    let marked = client.request("DELETE", &one, &[], &[]);
    assert_eq!((marked.status, &marked.json()["kind"]), (200, &json!("ConfigMap")));
    assert_eq!(marked.json()["metadata"]["deletionGracePeriodSeconds"], 0);
    let again = client.request("DELETE", &one, &[], &[]);
    assert_eq!((again.status, again.json()), (200, marked.json()), "marked once");
    assert_eq!(client.send("POST", maps, &object).status, 409, "its name is taken while it is there");
    assert_eq!(
        merge(json!({"metadata": {"finalizers": ["example.com/a", "example.com/b", "example.com/c"]}}))
            .status,
        422
    );
    let changed = merge(json!({"data": {"k": "still alive"}}));
    assert_eq!(changed.status, 200);
    let unmarked = merge(json!({"metadata": {"deletionTimestamp": null}}));
    assert_eq!(unmarked.json(), changed.json(), "nothing removes the mark");
    let half = merge(json!({"metadata": {"finalizers": ["example.com/b"]}}));
    assert_eq!(half.json()["metadata"]["deletionTimestamp"], marked.json()["metadata"]["deletionTimestamp"]);
    let freed = merge(json!({"metadata": {"finalizers": null}}));
    assert_eq!(freed.status, 200, "{}", freed.text());
    assert_eq!(client.get(&one).status, 404);

    let events = client.watch(&path).unwrap().rest();
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]);
    let revisions: Vec<u64> = events.iter().map(|(_, object)| revision(object)).collect();
    assert_eq!(revisions, (revision(&made) + 1..=revision(&made) + 4).collect::<Vec<_>>());
    assert_eq!(events[0].1, marked.json());
    assert_eq!(events[3].1["data"]["k"], "still alive");
    let other = post(&client, maps, &json!({"metadata": {"name": "held"}}));
    assert_ne!(other["metadata"]["uid"], made["metadata"]["uid"]);
}
