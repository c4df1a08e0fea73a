//! Continue tokens: an accepted one is within its list and is encoded again unchanged; compared with a plain reader of
//! base64 and JSON.

use revcast::http::continuation::{Continuation, PageRevision};
use serde_json::value::RawValue;
use std::collections::HashMap;

pub(crate) fn run(data: &[u8]) {
    // Unchanged, and as the JSON inside a token: random bytes are hardly ever base64 of JSON.
    if let Ok(text) = std::str::from_utf8(data) {
        check(text);
    }
    check(&slow_encode(data));
}

fn check(token: &str) {
    let Ok(taken) = Continuation::decode(token) else { return };
    // Members that are not used may have any bytes.
    let bytes = slow_decode(token).expect("base64");
    // Members with other names are ignored, including numbers outside the range of floats.
    let json: HashMap<String, Box<RawValue>> =
        serde_json::from_str(&String::from_utf8_lossy(&bytes)).expect("JSON");
    let start: String = serde_json::from_str(json["start"].get()).expect("a start");
    assert_eq!(taken.start, start.strip_prefix('/').unwrap_or(&start));
    assert!(taken.start.is_empty() || !taken.start.split('/').any(|part| ["", ".", ".."].contains(&part)));
    match (taken.at, serde_json::from_str::<i64>(json["rv"].get()).expect("a revision")) {
        (PageRevision::Exact(revision), number @ 1..) => assert_eq!(revision.get(), number.unsigned_abs()),
        (PageRevision::Latest, ..0) => {}
        other => panic!("{other:?}"),
    }
    for token in [taken.clone(), taken.at_latest()] {
        assert_eq!(
            Continuation::decode(&token.encode()),
            Ok(token.clone()),
            "what is given out is taken back"
        );
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn slow_encode(bytes: &[u8]) -> String {
    let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)).collect();
    bits.chunks(6)
        .map(|six| (0..6).fold(0, |all, at| all << 1 | usize::from(six.get(at).copied().unwrap_or(0))))
        .map(|digit| char::from(DIGITS[digit]))
        .collect()
}

fn slow_decode(token: &str) -> Option<Vec<u8>> {
    let mut bits = Vec::new();
    for byte in token.bytes().filter(|byte| !b"\r\n".contains(byte)) {
        let digit = DIGITS.iter().position(|digit| *digit == byte)?;
        bits.extend((0..6).rev().map(|at| u8::from(digit >> at & 1 == 1)));
    }
    Some(bits.chunks_exact(8).map(|eight| eight.iter().fold(0, |all, bit| all << 1 | bit)).collect())
}
