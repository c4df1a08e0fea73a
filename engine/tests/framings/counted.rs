//! A framing with a head and a tail, so that a send can stop within either; and an encoder that makes messages in it.
#![allow(dead_code, reason = "each test that includes this file uses a part of it")]

use revcast_engine::encoding::{Encode, Encoding, JsonOnly, View};
use revcast_engine::framing::{Framing, HEAD_MAX, Head};

/// The length in decimal and a colon before, a semicolon after. Does not allocate.
pub(crate) static COUNTED: Framing = Framing { name: "counted", head, tail: b";" };

fn head(len: usize, room: &mut Head) -> usize {
    let mut at = HEAD_MAX - 1;
    room[at] = b':';
    let mut rest = len;
    loop {
        at -= 1;
        room[at] = b"0123456789"[rest % 10];
        rest /= 10;
        if rest == 0 {
            return HEAD_MAX - at;
        }
    }
}

/// JSON only, in messages that are made in [`COUNTED`].
#[derive(Debug)]
pub(crate) struct Counted;

impl Encode for Counted {
    fn framing(&self, _: Encoding) -> &'static Framing {
        &COUNTED
    }

    fn event(&self, out: &mut Vec<u8>, view: View<'_>) -> Result<(), String> {
        JsonOnly.event(out, view)
    }

    fn first_differs(&self, _: u32) -> bool {
        false
    }
}
