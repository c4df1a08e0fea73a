//! A watcher against recorded and made-up streams, cut at every byte.

use super::*;
use crate::brought::{Brought, End};
use crate::event::tests::{RECORDED, line};
use crate::http::tests::chunks;
use crate::media::Media;
use crate::packed::tests::frame;
use crate::tally::Seen;
use crate::wire::tests::plain;

/// Feeds pieces of an HTTP/1.1 response; gives what was counted and how it ended.
fn feed(pieces: &[&[u8]]) -> (LaneState, Watcher, Option<End>) {
    feed_as(Media::Json, pieces)
}

fn feed_as(media: Media, pieces: &[&[u8]]) -> (LaneState, Watcher, Option<End>) {
    let scope = Scope { path: "/watched".to_owned(), revision: 76, objects: vec![0, 1], media };
    let mut lane = LaneState { rows: vec![0; 2], measure_from_ns: 2_000, ..LaneState::new(7, 5_000) };
    let (mut watcher, mut wire, mut ended) = (Watcher::new(0, scope.revision, 0, false), plain(None), None);
    for piece in pieces {
        let taken = wire.take(piece, |_, brought| match brought {
            Brought::Head { .. } => watcher.phase = Phase::Answered,
            Brought::Data(data) => watcher.take(data, &scope, &mut lane).expect("short events"),
            Brought::End(end) => ended = Some(end),
        });
        taken.expect("valid HTTP");
    }
    (lane, watcher, ended)
}

/// Recorded from kube-apiserver 1.36.2.
const HEAD: &str = "HTTP/1.1 200 OK\r\nAudit-Id: b71657de-469f-4940-9c08-64bdf29200d8\r\nCache-Control: no-cache, private\r\n\
    Content-Type: application/json\r\nX-Kubernetes-Pf-Flowschema-Uid: 7ecd33de-d8b8-4bc6-81b6-239e59d97164\r\n\
    X-Kubernetes-Pf-Prioritylevel-Uid: 7c23408b-faed-4b71-8a14-8614630e3a2a\r\nDate: Sat, 21 Nov 2026 05:37:13 GMT\r\n\
    Transfer-Encoding: chunked\r\n\r\n";

/// The head of a response and events in chunks of `chunk_bytes`, as a server sends a burst.
fn stream(lines: &[String], chunk_bytes: usize) -> Vec<u8> {
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    response(body.as_bytes(), chunk_bytes)
}

fn response(body: &[u8], chunk_bytes: usize) -> Vec<u8> {
    [HEAD.as_bytes(), &chunks(body, chunk_bytes)].concat()
}

fn bookmark(revision: u64) -> String {
    format!(r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{revision}"}}}}}}"#)
}

fn write(object: u32, seq: u32) -> Stamp {
    Stamp { run: 7, object, seq, intended_ns: 1_000 + u64::from(seq) * 1_000 }
}

fn event(revision: u64, object: u32, seq: u32) -> String {
    line("MODIFIED", revision, write(object, seq))
}

#[test]
fn a_recorded_stream_at_every_split() {
    let mut bytes = stream(&RECORDED.map(str::to_owned), 477);
    bytes.extend_from_slice(b"0\r\n\r\n");
    for split in 0..=bytes.len() {
        let (lane, watcher, ended) = feed(&[&bytes[..split], &bytes[split..]]);
        assert_eq!(ended, Some(End::Whole), "split at {split}");
        assert_eq!(lane.tally.seen, Seen { foreign: 3, ..Seen::default() }, "split at {split}");
        assert_eq!(watcher.account.revision(), 79);
    }
    let (lane, _, ended) = feed(&bytes.chunks(1).collect::<Vec<_>>());
    assert_eq!((lane.tally.seen.foreign, ended), (3, Some(End::Whole)), "byte by byte");
}

#[test]
fn a_burst_in_protobuf_counts_exactly_at_every_split() {
    let mut body = Vec::new();
    for (revision, object, seq) in [(77, 0, 1), (78, 1, 1), (79, 0, 2), (79, 0, 2), (81, 0, 4)] {
        let frame = frame("MODIFIED", revision, write(object, seq));
        body.extend_from_slice(&u32::try_from(frame.len()).expect("a short one").to_be_bytes());
        body.extend_from_slice(&frame);
    }
    let bytes = response(&body, 37);
    for split in 0..=bytes.len() {
        let (lane, watcher, ended) = feed_as(Media::Protobuf, &[&bytes[..split], &bytes[split..]]);
        assert_eq!((ended, watcher.account.revision()), (None, 81), "split at {split}");
        let seen = &lane.tally.seen;
        assert_eq!((seen.delivered, seen.duplicated, seen.malformed), (4, 1, 0), "split at {split}");
        assert_eq!(lane.rows, [4, 1]);
    }
}

#[test]
fn a_burst_in_small_chunks_counts_exactly_at_every_split() {
    let lines =
        [event(77, 0, 1), event(78, 1, 1), event(79, 0, 2), bookmark(80), bookmark(80), event(81, 0, 3)];
    let bytes = stream(&lines, 37);
    for split in 0..=bytes.len() {
        let (lane, watcher, ended) = feed(&[&bytes[..split], &bytes[split..]]);
        assert_eq!(ended, None);
        // Writes 1 were meant for 2,000 ns, where the measured window begins.
        let expected = Seen { delivered: 4, measured: 4, bookmarks: 2, ..Seen::default() };
        assert_eq!(lane.tally.seen, expected, "split at {split}");
        assert_eq!((lane.tally.window.deliveries, &lane.rows[..]), (4, &[3, 1][..]));
        assert_eq!(watcher.held.capacity(), 0, "an idle watcher holds no buffer");
    }
}

#[test]
fn each_wrong_is_counted_as_what_it_is() {
    let (one, two) = (event(77, 0, 1), event(78, 0, 2));
    let none = Seen::default();
    for (lines, expected) in [
        (
            vec![one.clone(), two.clone(), two.clone()],
            Seen { delivered: 2, measured: 2, duplicated: 1, ..none.clone() },
        ),
        (vec![two, one.clone()], Seen { delivered: 2, measured: 2, out_of_order: 1, ..none.clone() }),
        // A wrong type, and an object out of the scope.
        (vec![line("ADDED", 77, write(0, 1)), event(78, 2, 1)], Seen { unexpected: 2, ..none.clone() }),
        (vec![line("MODIFIED", 77, Stamp { run: 8, ..write(0, 1) })], Seen { foreign: 1, ..none.clone() }),
        (
            vec!["{}".to_owned(), one, r#"{"type":"ERROR","object":{"code":410}}"#.to_owned()],
            Seen { delivered: 1, measured: 1, malformed: 1, errors: 1, gone: 1, ..none.clone() },
        ),
        // An event that a bookmark had closed, and a bookmark that goes back.
        (
            vec![bookmark(90), event(90, 0, 1), bookmark(89)],
            Seen { delivered: 1, measured: 1, bookmarks: 2, out_of_order: 2, ..none.clone() },
        ),
        // Of the warm-up: checked, and not measured.
        (
            vec![line("MODIFIED", 77, Stamp { intended_ns: 1_999, ..write(0, 1) })],
            Seen { delivered: 1, ..none },
        ),
    ] {
        let (lane, ..) = feed(&[&stream(&lines, 4096)]);
        assert_eq!(Seen { first_fault: None, ..lane.tally.seen }, expected, "{lines:?}");
        assert_eq!(lane.tally.window.deliveries, expected.delivered);
        assert_eq!((lane.tally.latency.len(), lane.recent.len()), (expected.measured, expected.delivered));
    }
}

#[test]
fn a_refusal_carries_the_servers_words_at_every_split() {
    let bytes = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 45\r\n\r\n{\"kind\":\"Status\",\"message\":\"storage is busy\"}";
    for split in 0..=bytes.len() {
        let (.., ended) = feed(&[&bytes[..split], &bytes[split..]]);
        assert_eq!(ended, Some(End::Refused(429, "storage is busy".to_owned())), "split at {split}");
    }
}

#[test]
fn an_idle_watcher_is_small() {
    assert!(size_of::<Watcher>() <= 112, "{} bytes", size_of::<Watcher>());
}
