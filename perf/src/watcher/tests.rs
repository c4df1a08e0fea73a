//! A watcher against recorded and made-up streams, cut at every byte.

use super::*;
use crate::stamp::STAMP_BYTES;
use crate::stamp::Stamp;
use std::fs::File;

/// Recorded from kube-apiserver 1.36.2: watch from resourceVersion 76, one HTTP chunk per event, ends by timeoutSeconds.
const RECORDED: &str = concat!(
    "HTTP/1.1 200 OK\r\n",
    "Audit-Id: b71657de-469f-4940-9c08-64bdf29200d8\r\n",
    "Cache-Control: no-cache, private\r\n",
    "Content-Type: application/json\r\n",
    "X-Kubernetes-Pf-Flowschema-Uid: 7ecd33de-d8b8-4bc6-81b6-239e59d97164\r\n",
    "X-Kubernetes-Pf-Prioritylevel-Uid: 7c23408b-faed-4b71-8a14-8614630e3a2a\r\n",
    "Date: Sat, 21 Nov 2026 05:37:13 GMT\r\n",
    "Transfer-Encoding: chunked\r\n",
    "\r\n",
    "1dc\r\n",
    r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"w1","namespace":"t1","uid":"ad5b7d6b-93b8-4f00-9c46-2b041c6b2af7","resourceVersion":"77","creationTimestamp":"2026-11-21T05:37:14Z","labels":{"app":"a"},"managedFields":[{"manager":"anchor","operation":"Update","apiVersion":"v1","time":"2026-11-21T05:37:14Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:k":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}}}}]},"data":{"k":"one"}}}"#,
    "\n\r\n",
    "1df\r\n",
    r#"{"type":"MODIFIED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"w1","namespace":"t1","uid":"ad5b7d6b-93b8-4f00-9c46-2b041c6b2af7","resourceVersion":"78","creationTimestamp":"2026-11-21T05:37:14Z","labels":{"app":"a"},"managedFields":[{"manager":"anchor","operation":"Update","apiVersion":"v1","time":"2026-11-21T05:37:14Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:k":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}}}}]},"data":{"k":"two"}}}"#,
    "\n\r\n",
    "1de\r\n",
    r#"{"type":"DELETED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"w1","namespace":"t1","uid":"ad5b7d6b-93b8-4f00-9c46-2b041c6b2af7","resourceVersion":"79","creationTimestamp":"2026-11-21T05:37:14Z","labels":{"app":"a"},"managedFields":[{"manager":"anchor","operation":"Update","apiVersion":"v1","time":"2026-11-21T05:37:14Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:k":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}}}}]},"data":{"k":"two"}}}"#,
    "\n\r\n",
    "0\r\n",
    "\r\n",
);

fn scope() -> Scope {
    Scope { path: "/watched".to_owned(), revision: 76, objects: vec![0, 1], accept: None }
}

fn lane() -> LaneState {
    LaneState {
        run: 7,
        tally: Tally::default(),
        latency: Latency::new(),
        recent: Latency::new(),
        rows: vec![0; 2],
        now_ns: 5_000,
        windows: Vec::new(),
        newest_intended_ns: 0,
        measure_from_ns: 2_000,
        known: Known::new(),
        spare: Vec::new(),
    }
}

fn watcher() -> Watcher {
    let socket = OwnedFd::from(File::open("/dev/null").expect("every Linux has it"));
    let mut watcher = Watcher::new(socket, 0, 76, 0);
    watcher.phase = Phase::Heading;
    watcher
}

/// Feeds pieces; gives what was counted and whether the response ended.
fn feed(pieces: &[&[u8]]) -> (LaneState, Watcher, Result<bool, Refusal>) {
    let (mut lane, mut watcher, scope) = (lane(), watcher(), scope());
    let mut ended = Ok(false);
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        ended = watcher.take(piece, &scope, &mut lane);
        if ended.is_err() {
            break;
        }
    }
    (lane, watcher, ended)
}

/// A stream of events in chunks of `chunk_bytes`, as a server sends a burst.
fn stream(lines: &[String], chunk_bytes: usize) -> Vec<u8> {
    let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    for chunk in body.as_bytes().chunks(chunk_bytes) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

fn event(kind: &str, revision: u64, stamp: Stamp) -> String {
    let mut text = [0; STAMP_BYTES];
    stamp.write(&mut text);
    let text = String::from_utf8_lossy(&text);
    format!(
        r#"{{"type":"{kind}","object":{{"metadata":{{"name":"x","resourceVersion":"{revision}"}},"data":{{"stamp":"{text}"}}}}}}"#
    )
}

fn write(object: u32, seq: u32) -> Stamp {
    Stamp { run: 7, object, seq, intended_ns: 1_000 + u64::from(seq) * 1_000 }
}

#[test]
fn the_recorded_stream_at_every_split() {
    let bytes = RECORDED.as_bytes();
    for split in 0..=bytes.len() {
        let (lane, watcher, ended) = feed(&[&bytes[..split], &bytes[split..]]);
        assert!(matches!(ended, Ok(true)), "split at {split}: {ended:?}");
        assert_eq!(lane.tally.seen.foreign, 3, "split at {split}: three events of another writer");
        assert_eq!(lane.tally.seen.malformed + lane.tally.seen.out_of_order, 0, "split at {split}");
        assert_eq!(watcher.account().revision(), 79);
    }
    let (lane, _, ended) = feed(&bytes.chunks(1).collect::<Vec<_>>());
    assert!(matches!(ended, Ok(true)));
    assert_eq!(lane.tally.seen.foreign, 3, "byte by byte");
}

#[test]
fn a_burst_in_small_chunks_counts_exactly_at_every_split() {
    let lines = [
        event("MODIFIED", 77, write(0, 1)),
        event("MODIFIED", 78, write(1, 1)),
        event("MODIFIED", 79, write(0, 2)),
        r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"80"}}}"#.to_owned(),
        event("MODIFIED", 81, write(0, 3)),
    ];
    let bytes = stream(&lines, 37);
    for split in 0..=bytes.len() {
        let (lane, watcher, ended) = feed(&[&bytes[..split], &bytes[split..]]);
        assert!(matches!(ended, Ok(false)));
        let tally = &lane.tally;
        assert_eq!(
            (tally.seen.delivered, tally.seen.bookmarks, tally.window.deliveries),
            (4, 1, 4),
            "split at {split}"
        );
        assert_eq!(
            (tally.seen.out_of_order, tally.seen.duplicated, tally.seen.malformed, tally.seen.unexpected),
            (0, 0, 0, 0)
        );
        assert_eq!(lane.rows, [3, 1]);
        // Writes 1 were meant for 2,000 ns, where the measured window begins.
        assert_eq!(tally.seen.measured, 4);
        assert_eq!(watcher.part.capacity(), 0, "an idle watcher holds no buffer");
    }
}

#[test]
fn each_wrong_is_counted_as_what_it_is() {
    let count = |lines: &[String]| feed(&[&stream(lines, 4096)]).0.tally;
    let one = event("MODIFIED", 77, write(0, 1));
    let two = event("MODIFIED", 78, write(0, 2));
    let tally = count(&[one.clone(), two.clone(), two.clone()]);
    assert_eq!((tally.seen.delivered, tally.seen.duplicated, tally.seen.out_of_order), (2, 1, 0));
    let tally = count(&[two, one.clone()]);
    assert_eq!((tally.seen.delivered, tally.seen.duplicated, tally.seen.out_of_order), (2, 0, 1));
    let tally = count(&[event("ADDED", 77, write(0, 1)), event("MODIFIED", 78, write(2, 1))]);
    assert_eq!(
        (tally.seen.delivered, tally.seen.unexpected),
        (0, 2),
        "a wrong type, and an object out of the scope"
    );
    let tally = count(&[event("MODIFIED", 77, Stamp { run: 8, ..write(0, 1) })]);
    assert_eq!((tally.seen.delivered, tally.seen.foreign), (0, 1), "another run's write");
    let tally = count(&["{}".to_owned(), one, r#"{"type":"ERROR","object":{"code":410}}"#.to_owned()]);
    assert_eq!((tally.seen.malformed, tally.seen.delivered, tally.seen.errors), (1, 1, 1));
    let bookmark = |revision: u64| {
        format!(r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{revision}"}}}}}}"#)
    };
    let tally = count(&[bookmark(90), event("MODIFIED", 90, write(0, 1)), bookmark(89)]);
    assert_eq!(
        tally.seen.out_of_order, 2,
        "an event that a bookmark had closed, and a bookmark that goes back"
    );
}

#[test]
fn warm_up_is_checked_but_not_measured() {
    let early = Stamp { intended_ns: 1_999, ..write(0, 1) };
    let (lane, ..) = feed(&[&stream(&[event("MODIFIED", 77, early)], 4096)]);
    assert_eq!(
        (lane.tally.seen.delivered, lane.tally.seen.measured, lane.tally.window.deliveries),
        (1, 0, 1)
    );
    assert!(lane.latency.is_empty());
    assert!(!lane.recent.is_empty());
}

#[test]
fn a_refusal_carries_the_servers_words_at_every_split() {
    let bytes = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 45\r\n\r\n{\"kind\":\"Status\",\"message\":\"storage is busy\"}";
    for split in 0..=bytes.len() {
        let (.., ended) = feed(&[&bytes[..split], &bytes[split..]]);
        match ended {
            Err(Refusal::Status(429, words)) => assert_eq!(words, "storage is busy"),
            other => panic!("split at {split}: {other:?}"),
        }
    }
}

#[test]
fn an_idle_watcher_is_small() {
    assert!(size_of::<Watcher>() <= 160, "{} bytes", size_of::<Watcher>());
}
