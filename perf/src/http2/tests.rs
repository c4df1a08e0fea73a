//! A session against frames that are made up.

use super::*;
use crate::http::{Caller, JSON};
use fastrand::Rng;

/// A session with `count` streams.
fn asked(count: u32) -> Session {
    let caller = Caller { host: "h:1".to_owned(), token: None, trust: None };
    let request = Request { caller: &caller, path: "/", accept: JSON, gzip: true };
    let mut session = Session::new(WINDOW_MAX);
    (0..count).for_each(|owner| session.ask(owner, &request, true));
    session.out.clear();
    session
}

type Frame = (u8, u8, u32, Vec<u8>);

/// Kind, flags, stream and payload of each frame.
fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk() {
        let head = Head::read(*head);
        let (payload, rest) = rest.split_at(head.length);
        found.push((head.kind, head.flags, head.stream, payload.to_vec()));
        bytes = rest;
    }
    found
}

/// What a session makes of pieces: what each owner hears, and what is answered.
fn take(session: &mut Session, pieces: &[&[u8]]) -> (Vec<String>, Vec<Frame>, io::Result<()>) {
    let mut heard = vec![String::new(); 4];
    let outcome = pieces.iter().try_for_each(|piece| {
        session.take(piece, &mut |owner, brought| {
            heard[owner as usize] += &match brought {
                Brought::Head { gzip } => format!("head {gzip} "),
                Brought::Data(data) => String::from_utf8_lossy(data).into_owned(),
                Brought::End(end) => format!(" {end:?}"),
            };
        })
    });
    (heard, frames(&std::mem::take(&mut session.out)), outcome)
}

fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_frame(&mut out, kind, flags, id, payload);
    out
}

#[test]
fn frames_may_be_split_anywhere() {
    let stream = [
        frame(kind::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]),
        frame(kind::HEADERS, flag::END_HEADERS, 1, &fields::of_200("application/json")),
        frame(kind::HEADERS, flag::END_HEADERS, 3, &[0x20, 0x88, 0x0f, 11, 0x83, 0x9b, 0xd9, 0xab]),
        frame(kind::PING, 0, 0, b"12345678"),
        frame(kind::DATA, 0, 1, b"one "),
        frame(kind::DATA, 0, 3, b"three"),
        frame(kind::DATA, 0, 1, b""),
        frame(kind::HEADERS, flag::END_HEADERS, 5, &[0x48, 0x82, 0x68, 0x20]),
        frame(kind::DATA, flag::END_STREAM, 5, b"too old"),
        frame(kind::DATA, flag::END_STREAM, 1, b"more"),
        frame(kind::RST_STREAM, 0, 3, &[0, 0, 0, 2]),
        frame(kind::DATA, 0, 3, b"of nobody"),
        frame(0x77, 0, 0, b"unknown"),
        frame(kind::GOAWAY, 0, 0, &[0, 0, 0, 5, 0, 0, 0, 0]),
    ]
    .concat();
    let seed = Rng::new().u64(..);
    let mut random = Rng::with_seed(seed);
    for _ in 0..500 {
        let mut session = asked(4);
        let (mut rest, mut pieces) = (&stream[..], Vec::new());
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(random.usize(1..=30).min(rest.len()));
            pieces.push(piece);
            rest = more;
        }
        let (heard, answers, outcome) = take(&mut session, &pieces);
        outcome.expect("valid frames");
        let expected = [
            "head false one more Whole",
            r#"head true three Cut("the server reset the stream of a watch: INTERNAL_ERROR")"#,
            r#" Refused(410, "too old")"#,
            r#" Cut("the server sent GOAWAY: NO_ERROR")"#,
        ];
        assert_eq!(heard, expected, "seed {seed}");
        assert_eq!(answers, [(4, 1, 0, vec![]), (6, 1, 0, b"12345678".to_vec())], "seed {seed}");
        assert!(session.leaving.is_some() && session.open_streams() == 0 && session.held.is_empty());
    }
}

#[test]
fn windows_are_replenished_when_half_is_used() {
    let mut session = asked(1);
    take(&mut session, &[&frame(kind::HEADERS, flag::END_HEADERS, 1, &[0x88])]).2.expect("a head");
    let half = CONNECTION_WINDOW / 2;
    (session.owed, session.streams[0].owed) = (half - 16_385, STREAM_OWED_MAX - 32_768);
    let data = frame(kind::DATA, 0, 1, &[b' '; PAYLOAD_BYTES_MAX]);
    let given = |stream, bytes: u32| (8, 0, stream, bytes.to_be_bytes().to_vec());
    for wanted in [vec![], vec![given(0, half + 16_383), given(1, STREAM_OWED_MAX)], vec![]] {
        assert_eq!(take(&mut session, &[&data]).1, wanted);
    }
}

#[test]
fn a_server_that_breaks_the_protocol_is_told() {
    for (bytes, why) in [
        (frame(kind::DATA, 0, 1, b"x"), "before its head"),
        (frame(kind::DATA, 0, 2, b"x"), "stream 2, which nobody opened"),
        (frame(kind::HEADERS, 4, 9, &[0x88]), "stream 9"),
        (frame(kind::HEADERS, 4, 1, &[0xff, 0]), "begin with a status"),
        (frame(kind::DATA, flag::PADDED, 1, &[5, 0]), "padded"),
        (frame(kind::RST_STREAM, 0, 1, &[5, 0]), "too short"),
        (frame(kind::DATA, 0, 1, &[0; PAYLOAD_BYTES_MAX + 1]), "16385 bytes"),
    ] {
        let (.., outcome) = take(&mut asked(2), &[&bytes]);
        assert!(outcome.as_ref().is_err_and(|fault| fault.to_string().contains(why)), "{why}: {outcome:?}");
    }
}
