//! A session against frames that are made up.

use super::*;
use crate::http::{Caller, JSON};
use fastrand::Rng;

/// A session with `count` streams, and what it sends at first.
fn asked(count: u32, window: u32) -> (Session, Vec<u8>) {
    let caller = Caller { host: "h:1".to_owned(), token: Some("t".repeat(200)), trust: None };
    let request = Request { caller: &caller, path: "/api?watch=1", accept: JSON, gzip: true };
    let mut out = Vec::new();
    let mut session = Session::new(window, &mut out);
    (0..count).for_each(|owner| session.ask(owner, &request, owner != 1, &mut out).expect("allowed"));
    (session, out)
}

/// Frames, each as kind, flags, stream and payload.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk() {
        let head = Head::read(*head);
        let (payload, rest) = rest.split_at(head.length);
        found.push((head.kind, head.flags, head.stream, payload.to_vec()));
        bytes = rest;
    }
    found
}

/// What a session makes of `input` in pieces: of each owner its bytes and its end, and what is answered.
fn take(session: &mut Session, pieces: &[&[u8]]) -> (Vec<String>, Vec<u8>, io::Result<()>) {
    let (mut found, mut out, mut outcome) = (vec![String::new(); 8], Vec::new(), Ok(()));
    for piece in pieces {
        outcome = session.take(piece, &mut out, &mut |owner, brought| {
            let text = match brought {
                Brought::Head { gzip } => format!("head {gzip} "),
                Brought::Data(data) => String::from_utf8_lossy(data).into_owned(),
                Brought::End(end) => format!(" {end:?}"),
            };
            found[owner as usize].push_str(&text);
        });
    }
    (found, out, outcome)
}

#[test]
fn requests_are_literals_and_windows_are_opened_for_those_that_read() {
    let (_, out) = asked(2, 65_535);
    let sent = frames(out.strip_prefix(PREFACE).expect("the preface"));
    let kinds: Vec<_> = sent.iter().map(|(kind, flags, stream, _)| (*kind, *flags, *stream)).collect();
    assert_eq!(kinds, [(4, 0, 0), (8, 0, 0), (1, 5, 1), (8, 0, 1), (1, 5, 3)]);
    assert_eq!(sent[0].3, [0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 4, 0, 0, 0xff, 0xff]);
    assert_eq!(sent[3].3, (WINDOW_MAX - 65_535).to_be_bytes());
    let block = &sent[2].3;
    assert_eq!(&block[..7], b"\x82\x86\x01\x03h:1", "{block:?}");
    // 207 bytes of a value: 127 and 80.
    assert!(
        block.ends_with(&["t".repeat(200).as_bytes()].concat())
            && block.windows(4).any(|it| it == [0x0f, 8, 127, 80])
    );
}

#[test]
fn frames_may_be_split_anywhere() {
    let mut stream = Vec::new();
    let mut push = |kind, flags, id, payload: &[u8]| push_frame(&mut stream, kind, flags, id, payload);
    push(kind::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]);
    push(kind::HEADERS, flag::END_HEADERS, 1, &fields::of_200("application/json"));
    // Padding and priority, in two parts, with the size of the dynamic table and an encoding in Huffman's code.
    push(kind::HEADERS, flag::PADDED | flag::PRIORITY, 3, &[2, 0, 0, 0, 1, 7, 0x20, 0x88, 0, 0]);
    push(kind::CONTINUATION, flag::END_HEADERS, 3, &[0x0f, 11, 0x83, 0x9b, 0xd9, 0xab]);
    push(kind::PING, 0, 0, b"12345678");
    push(kind::DATA, 0, 1, b"one ");
    push(kind::DATA, flag::PADDED, 3, b"\x03three   ");
    push(kind::DATA, 0, 1, b"");
    // 410, as a literal in Huffman's code, and its words.
    push(kind::HEADERS, flag::END_HEADERS, 5, &[0x48, 0x82, 0x68, 0x20]);
    push(kind::DATA, flag::END_STREAM, 5, b"too old");
    push(kind::DATA, flag::END_STREAM, 1, b"more");
    push(kind::RST_STREAM, 0, 3, &[0, 0, 0, 2]);
    push(kind::DATA, 0, 3, b"of nobody");
    push(0x77, 0, 0, b"unknown");
    push(kind::GOAWAY, 0, 0, &[0, 0, 0, 5, 0, 0, 0, 0]);
    let seed = Rng::new().u64(..);
    let mut random = Rng::with_seed(seed);
    for _ in 0..500 {
        let (mut session, _) = asked(4, WINDOW_MAX);
        let (mut rest, mut pieces) = (&stream[..], Vec::new());
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(random.usize(1..=30).min(rest.len()));
            pieces.push(piece);
            rest = more;
        }
        let (found, out, outcome) = take(&mut session, &pieces);
        outcome.expect("valid frames");
        let expected = [
            "head false one more Whole",
            r#"head true three Cut("the server reset the stream of a watch: INTERNAL_ERROR")"#,
            r#" Refused(410, "too old")"#,
            r#" Cut("the server sent GOAWAY: NO_ERROR")"#,
        ];
        assert_eq!(found[..4], expected, "seed {seed}");
        let acknowledged = [(4, 1, 0, vec![]), (6, 1, 0, b"12345678".to_vec())];
        assert_eq!(frames(&out), acknowledged, "seed {seed}");
        assert!(session.leaving.is_some() && session.open_streams() == 0 && session.held.is_empty());
    }
}

#[test]
fn windows_are_replenished_when_half_is_used() {
    let (mut session, _) = asked(2, WINDOW_MAX);
    let mut frame = Vec::new();
    push_frame(&mut frame, kind::HEADERS, flag::END_HEADERS, 1, &[0x88]);
    take(&mut session, &[&frame]).2.expect("a head");
    frame.clear();
    push_frame(&mut frame, kind::DATA, 0, 1, &[b' '; PAYLOAD_BYTES_MAX]);
    let half = CONNECTION_WINDOW / 2;
    (session.owed, session.streams[0].owed) = (half - 16_385, STREAM_OWED_MAX - 32_768);
    let mut sent = || frames(&take(&mut session, &[&frame]).1);
    assert_eq!(sent(), []);
    let given = |stream, bytes: u32| (8, 0, stream, bytes.to_be_bytes().to_vec());
    assert_eq!(sent(), [given(0, half + 16_383), given(1, STREAM_OWED_MAX)]);
    assert_eq!(sent(), []);
}

#[test]
fn a_server_that_breaks_the_protocol_is_told() {
    let frame = |kind, flags, id, payload: &[u8]| {
        let mut out = Vec::new();
        push_frame(&mut out, kind, flags, id, payload);
        out
    };
    for (bytes, why) in [
        (frame(kind::DATA, 0, 1, b"x"), "before its head"),
        (frame(kind::DATA, 0, 2, b"x"), "stream 2, which nobody opened"),
        (frame(kind::HEADERS, 4, 9, &[0x88]), "stream 9"),
        (frame(kind::HEADERS, 4, 1, &[0xff, 0]), "dynamic table"),
        (frame(kind::DATA, flag::PADDED, 1, &[5, 0]), "too short"),
        (frame(kind::DATA, 0, 1, &[0; PAYLOAD_BYTES_MAX + 1]), "16385 bytes"),
        ([frame(kind::HEADERS, 0, 1, &[0x88]), frame(kind::PING, 0, 0, &[0; 8])].concat(), "interrupted"),
        (frame(kind::PUSH_PROMISE, 4, 1, &[0; 8]), "push"),
        (frame(kind::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1]), "give --streams-per-connection 1"),
    ] {
        let (.., outcome) = take(&mut asked(2, WINDOW_MAX).0, &[&bytes]);
        assert!(outcome.as_ref().is_err_and(|fault| fault.to_string().contains(why)), "{why}: {outcome:?}");
    }
}
