//! Field blocks (RFC 7541): those of requests are literals that no table keeps; of a response the status is read, which is first
//! (RFC 9113, section 8.3).

use crate::http::{Request, USER_AGENT};
use memchr::memmem;

/// Places in the static table (RFC 7541, appendix A).
mod table {
    pub(super) const AUTHORITY: u8 = 1;
    pub(super) const METHOD_GET: u8 = 2;
    pub(super) const PATH: u8 = 4;
    pub(super) const SCHEME_HTTP: u8 = 6;
    pub(super) const SCHEME_HTTPS: u8 = 7;
    pub(super) const STATUS_200: u8 = 8;
    pub(super) const ACCEPT_ENCODING: u8 = 16;
    pub(super) const ACCEPT: u8 = 19;
    pub(super) const AUTHORIZATION: u8 = 23;
    pub(super) const CONTENT_TYPE: u8 = 31;
    pub(super) const USER_AGENT: u8 = 58;
}

/// The statuses of the static table, in its order.
const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
const INDEXED: u8 = 0x80;
const HUFFMAN: u8 = INDEXED;
/// `gzip` in Huffman's code (RFC 7541, appendix B).
const GZIP_PACKED: [u8; 3] = [0x9b, 0xd9, 0xab];
/// The dynamic table shall have no room.
const NO_TABLE: u8 = 0x20;

fn push_number(out: &mut Vec<u8>, prefix_bits: u32, number: usize) {
    let most = (1 << prefix_bits) - 1;
    out.push(u8::try_from(number.min(most)).unwrap_or(0));
    let mut left = number.checked_sub(most);
    while let Some(number) = left {
        left = (number >= 0x80).then_some(number >> 7);
        let low = u8::try_from(number & 0x7f).unwrap_or(0);
        out.push(if left.is_some() { low | 0x80 } else { low });
    }
}

fn push_field(out: &mut Vec<u8>, name: u8, value: &str) {
    push_number(out, 4, usize::from(name));
    push_number(out, 7, value.len());
    out.extend_from_slice(value.as_bytes());
}

pub(super) fn of_request(request: &Request<'_>) -> Vec<u8> {
    let caller = request.caller;
    let scheme = if caller.trust.is_some() { table::SCHEME_HTTPS } else { table::SCHEME_HTTP };
    let mut block = vec![INDEXED | table::METHOD_GET, INDEXED | scheme];
    push_field(&mut block, table::AUTHORITY, &caller.host);
    push_field(&mut block, table::PATH, request.path);
    push_field(&mut block, table::ACCEPT, request.accept);
    push_field(&mut block, table::USER_AGENT, USER_AGENT);
    if request.gzip {
        push_field(&mut block, table::ACCEPT_ENCODING, "gzip");
    }
    if let Some(token) = &caller.token {
        push_field(&mut block, table::AUTHORIZATION, &format!("Bearer {token}"));
    }
    block
}

pub(crate) fn of_200(content_type: &str) -> Vec<u8> {
    let mut block = vec![INDEXED | table::STATUS_200];
    push_field(&mut block, table::CONTENT_TYPE, content_type);
    block
}

/// `None`: the block does not begin with a status.
pub(super) fn status(mut block: &[u8]) -> Option<u16> {
    while let Some(rest) = block.strip_prefix(&[NO_TABLE]) {
        block = rest;
    }
    let (&first, rest) = block.split_first()?;
    // Whatever a table is to do with it: the name's place has bits enough.
    let name = first & if first & INDEXED != 0 { 0x7f } else { 0x0f };
    let known = STATUSES.get(usize::from(name.checked_sub(table::STATUS_200)?)).copied()?;
    if first & INDEXED != 0 {
        return Some(known);
    }
    let (&length, rest) = rest.split_first()?;
    let value = rest.get(..usize::from(length & !HUFFMAN))?;
    (100..600)
        .find(|&status| value == if length & HUFFMAN != 0 { pack(status) } else { status.to_string().into() })
}

/// Whether the body is compressed: nothing else in a block is called so.
pub(super) fn have_gzip(block: &[u8]) -> bool {
    [&b"gzip"[..], &GZIP_PACKED].iter().any(|text| memmem::find(block, text).is_some())
}

/// A status in Huffman's code, where 0, 1 and 2 have five bits and the other digits six; ones fill the last byte.
fn pack(status: u16) -> Vec<u8> {
    let (mut bits, mut count) = (0_u32, 0_u32);
    for digit in status.to_string().bytes().map(|byte| u32::from(byte - b'0')) {
        let (code, size) = if digit < 3 { (digit, 5) } else { (digit + 0x16, 6) };
        (bits, count) = (bits << size | code, count + size);
    }
    let bytes = (bits << (32 - count) | u32::MAX >> count).to_be_bytes();
    bytes[..count.div_ceil(8) as usize].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses() {
        let cases: [(&[u8], _); 8] = [
            (&[0x88, 0xff], Some(200)),
            (&[0x20, 0x8d, 0x0f], Some(404)),
            (&[0x48, 3, b'4', b'1', b'0'], Some(410)),
            // In Huffman's code as in RFC 7541, appendix C.6.
            (&[0x48, 0x82, 0x64, 0x02], Some(302)),
            (&[0x08, 0x83, 0x68, 0x4f, 0xff, 0x0f], Some(429)),
            (&[0x1e, 0x83, 0x6c, 0x0c, 0xff], Some(503)),
            (&[0x08, 3, b'2'], None),
            (&[0xbe], None),
        ];
        for (block, wanted) in cases {
            assert_eq!(status(block), wanted, "{block:x?}");
        }
    }
}
