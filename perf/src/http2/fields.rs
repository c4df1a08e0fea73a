//! Field blocks (RFC 7541): those of requests are written as literals that no table keeps, and those of responses are read as far
//! as they matter, without a dynamic table.

use crate::http::{Request, USER_AGENT};

/// Places in the static table (RFC 7541, appendix A).
mod table {
    pub(super) const AUTHORITY: u8 = 1;
    pub(super) const METHOD_GET: u8 = 2;
    pub(super) const PATH: u8 = 4;
    pub(super) const SCHEME_HTTP: u8 = 6;
    pub(super) const SCHEME_HTTPS: u8 = 7;
    pub(super) const STATUS: usize = 8;
    /// With the status of each.
    pub(super) const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    pub(super) const ACCEPT_ENCODING: u8 = 16;
    pub(super) const ACCEPT: u8 = 19;
    pub(super) const AUTHORIZATION: u8 = 23;
    pub(super) const CONTENT_ENCODING: usize = 26;
    pub(super) const CONTENT_TYPE: u8 = 31;
    pub(super) const USER_AGENT: u8 = 58;
    pub(super) const LAST: usize = 61;
}

const INDEXED: u8 = 0x80;
const HUFFMAN: u8 = 0x80;
/// `gzip` in the code of RFC 7541, appendix B.
const GZIP_PACKED: [u8; 3] = [0x9b, 0xd9, 0xab];

fn push_number(out: &mut Vec<u8>, first: u8, prefix_bits: u32, number: usize) {
    let most = (1 << prefix_bits) - 1;
    let (small, mut left) = if number < most { (number, None) } else { (most, Some(number - most)) };
    out.push(first | u8::try_from(small).unwrap_or(0));
    while let Some(number) = left {
        let low = u8::try_from(number & 0x7f).unwrap_or(0);
        left = (number >= 0x80).then_some(number >> 7);
        out.push(if left.is_some() { low | 0x80 } else { low });
    }
}

/// A field whose name is in the static table, as a literal that no table keeps.
fn push_field(out: &mut Vec<u8>, name: u8, value: &str) {
    push_number(out, 0, 4, usize::from(name));
    push_number(out, 0, 7, value.len());
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

/// The field block of an answer with status 200.
pub(crate) fn of_200(content_type: &str) -> Vec<u8> {
    let mut block = vec![INDEXED | 8];
    push_field(&mut block, table::CONTENT_TYPE, content_type);
    block
}

/// What matters of a response's fields.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) status: u16,
    pub(super) gzip: bool,
}

impl Fields {
    /// `None`: it breaks RFC 7541, or needs a dynamic table.
    pub(super) fn read(mut block: &[u8]) -> Option<Self> {
        let mut found = Self::default();
        while let Some(&first) = block.first() {
            let (prefix_bits, indexed) = match first {
                0x80.. => (7, true),
                // A literal for the dynamic table, which has no room.
                0x40.. => (6, false),
                // The size of the dynamic table.
                0x20.. => {
                    number(&mut block, 5)?;
                    continue;
                }
                _ => (4, false),
            };
            let name = number(&mut block, prefix_bits).filter(|&name| name <= table::LAST)?;
            if indexed {
                let status = name.checked_sub(table::STATUS).and_then(|at| table::STATUSES.get(at));
                found.status = status.copied().unwrap_or(found.status);
                (name > 0).then_some(())?;
                continue;
            }
            if name == 0 {
                text(&mut block)?;
            }
            let (value, packed) = text(&mut block)?;
            if (table::STATUS..table::STATUS + table::STATUSES.len()).contains(&name) {
                let is =
                    |status: &u16| value == if packed { pack(*status) } else { status.to_string().into() };
                found.status = (100..600).find(is)?;
            } else if name == table::CONTENT_ENCODING {
                found.gzip = if packed { value == GZIP_PACKED } else { value == b"gzip" };
            }
        }
        Some(found)
    }
}

fn number(block: &mut &[u8], prefix_bits: u32) -> Option<usize> {
    let mut next = || {
        let (&byte, rest) = block.split_first()?;
        *block = rest;
        Some(usize::from(byte))
    };
    let most = (1 << prefix_bits) - 1;
    let mut number = next()? & most;
    if number < most {
        return Some(number);
    }
    for shift in (0..28).step_by(7) {
        let byte = next()?;
        number += (byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// The bytes of a string, and whether they are in Huffman's code.
fn text<'a>(block: &mut &'a [u8]) -> Option<(&'a [u8], bool)> {
    let packed = block.first()? & HUFFMAN != 0;
    let length = number(block, 7)?;
    let (text, rest) = block.split_at_checked(length)?;
    *block = rest;
    Some((text, packed))
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
    fn numbers_and_statuses() {
        for number in [0, 30, 31, 127, 128, 200, 16_384, 1 << 20] {
            for bits in [4, 5, 6, 7] {
                let mut bytes = Vec::new();
                push_number(&mut bytes, 0, bits, number);
                let mut rest = &bytes[..];
                assert_eq!((super::number(&mut rest, bits), rest.len()), (Some(number), 0));
            }
        }
        // Huffman's code of 302 and 307, as RFC 7541, appendix C.6, has them, and of 429.
        let packed: [(&[u8], _); 4] = [
            (&[0x64, 0x02], 302),
            (&[0x64, 0x0e, 0xff], 307),
            (&[0x68, 0x4f, 0xff], 429),
            (&[0x6c, 0x0c, 0xff], 503),
        ];
        for (bytes, status) in packed {
            assert_eq!(pack(status), bytes);
        }
    }
}
