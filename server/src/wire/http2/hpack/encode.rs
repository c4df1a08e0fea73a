//! Encodes fields without a state: no reference to a dynamic table, no insertion into the client's, no Huffman code.
//! Thus a client's table size is of no concern, and no block begins with a size update.

use super::table::Static;

/// Bits before the prefix of an integer, and how many bits the prefix has (RFC 7541, section 6).
#[derive(Clone, Copy, Debug)]
struct Form {
    pattern: u8,
    prefix_bits: u32,
}

const INDEXED: Form = Form { pattern: 0x80, prefix_bits: 7 };
const LITERAL: Form = Form { pattern: 0, prefix_bits: 4 };
const LITERAL_NEVER_INDEXED: Form = Form { pattern: 0x10, prefix_bits: 4 };
const PLAIN_STRING: Form = Form { pattern: 0, prefix_bits: 7 };

/// The index of `:status: 200`, the first of its name.
const STATUS: u8 = 8;

/// Appends `:status`. One byte for the seven codes of the static table, five for others.
pub fn push_status(out: &mut Vec<u8>, status: u16) {
    debug_assert!((100..1000).contains(&status), "a status has three digits");
    let index = match status {
        200 => STATUS,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => {
            let digit = |place: u16| b'0' + (status / place % 10).to_le_bytes()[0];
            out.extend_from_slice(&[LITERAL.pattern | STATUS, 3, digit(100), digit(10), digit(1)]);
            return;
        }
    };
    out.push(INDEXED.pattern | index);
}

/// Appends a field. `name` is in lower case (RFC 9113, section 8.2.1).
///
/// A field that holds a credential asks every proxy never to index it (RFC 7541, section 7.1.3).
pub fn push_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    debug_assert!(!name.iter().any(u8::is_ascii_uppercase), "names are in lower case");
    let literal = if is_credential(name) { LITERAL_NEVER_INDEXED } else { LITERAL };
    match Static::find(name, value) {
        Static::Field(index) if literal.pattern == LITERAL.pattern => {
            return push_integer(out, INDEXED, index);
        }
        Static::Field(index) | Static::Name(index) => push_integer(out, literal, index),
        Static::Nothing => {
            push_integer(out, literal, 0);
            push_text(out, name);
        }
    }
    push_text(out, value);
}

const fn is_credential(name: &[u8]) -> bool {
    matches!(name, b"authorization" | b"cookie" | b"proxy-authorization" | b"set-cookie")
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    push_integer(out, PLAIN_STRING, text.len());
    out.extend_from_slice(text);
}

/// Section 5.1.
fn push_integer(out: &mut Vec<u8>, form: Form, value: usize) {
    let prefix_max = u8::MAX >> (8 - form.prefix_bits);
    let Some(mut left) = value.checked_sub(usize::from(prefix_max)) else {
        out.push(form.pattern | value.to_le_bytes()[0]);
        return;
    };
    out.push(form.pattern | prefix_max);
    while left >= 0x80 {
        out.push(0x80 | left.to_le_bytes()[0]);
        left >>= 7;
    }
    out.push(left.to_le_bytes()[0]);
}
