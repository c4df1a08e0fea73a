//! Field blocks (RFC 7541): an encoder that keeps no state, pieces of blocks by hand, and a strict decoder. The Huffman code
//! is a crate's, so that a mistake of the server is not repeated here.

use std::collections::VecDeque;

use httlib_huffman::DecoderSpeed;

/// Name and value.
pub type Field = (String, String);

/// The size of the dynamic table before anything else was agreed on.
const TABLE_BYTES: usize = 4_096;
/// What an entry costs besides its bytes (section 4.1).
const ENTRY_BYTES: usize = 32;

/// An integer whose first byte has `prefix` bits for it, after the bits of `first` (section 5.1).
#[must_use]
pub fn integer(first: u8, prefix: u32, value: usize) -> Vec<u8> {
    let most = (1_usize << prefix) - 1;
    let byte = |value: usize| u8::try_from(value).unwrap_or(u8::MAX);
    if value < most {
        return vec![first | byte(value)];
    }
    let mut out = vec![first | byte(most)];
    let mut rest = value - most;
    while rest >= 128 {
        out.push(byte(rest % 128) | 128);
        rest /= 128;
    }
    out.push(byte(rest));
    out
}

/// A string as it is (section 5.2).
#[must_use]
pub fn string(bytes: &[u8]) -> Vec<u8> {
    [integer(0, 7, bytes.len()), bytes.to_vec()].concat()
}

/// A string in the Huffman code.
///
/// # Panics
/// Never: every byte has a code.
#[must_use]
pub fn huffman(bytes: &[u8]) -> Vec<u8> {
    let mut coded = Vec::new();
    httlib_huffman::encode(bytes, &mut coded).expect("a code for every byte");
    [integer(0x80, 7, coded.len()), coded].concat()
}

/// The field at an index (section 6.1).
#[must_use]
pub fn indexed(index: usize) -> Vec<u8> {
    integer(0x80, 7, index)
}

/// A field that goes into the dynamic table (section 6.2.1).
#[must_use]
pub fn indexing(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Vec<u8> {
    [vec![0x40], string(name.as_ref()), string(value.as_ref())].concat()
}

/// A field that does not (section 6.2.2).
#[must_use]
pub fn literal(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Vec<u8> {
    [vec![0], string(name.as_ref()), string(value.as_ref())].concat()
}

/// A field that must never (section 6.2.3).
#[must_use]
pub fn never_indexed(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Vec<u8> {
    [vec![0x10], string(name.as_ref()), string(value.as_ref())].concat()
}

/// A change of the dynamic table's size (section 6.3).
#[must_use]
pub fn resize(bytes: usize) -> Vec<u8> {
    integer(0x20, 5, bytes)
}

/// Fields that need no state.
#[must_use]
pub fn block<N: AsRef<[u8]>, V: AsRef<[u8]>>(fields: &[(N, V)]) -> Vec<u8> {
    fields.iter().flat_map(|(name, value)| literal(name, value)).collect()
}

/// The pseudo-header fields of a request in plain HTTP.
#[must_use]
pub fn pseudo<'a>(method: &'a str, path: &'a str) -> [(&'static str, &'a str); 4] {
    [(":method", method), (":scheme", "http"), (":authority", "test"), (":path", path)]
}

/// The block of a request, with more fields.
#[must_use]
pub fn request(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    [block(&pseudo(method, path)), block(more)].concat()
}

/// A decoder that accepts what a correct encoder sends, and nothing else.
#[derive(Debug)]
pub struct Decoder {
    entries: VecDeque<Field>,
    /// Bytes that the entries may have.
    limit: usize,
    /// The largest limit that the encoder may choose.
    limit_max: usize,
    /// The next block must begin with a limit of at most this.
    reduction: Option<usize>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { entries: VecDeque::new(), limit: TABLE_BYTES, limit_max: TABLE_BYTES, reduction: None }
    }
}

impl Decoder {
    /// The encoder acknowledged a SETTINGS_HEADER_TABLE_SIZE.
    pub fn set_limit_max(&mut self, bytes: usize) {
        if bytes < self.limit {
            self.reduction = Some(self.reduction.unwrap_or(bytes).min(bytes));
        }
        self.limit_max = bytes;
    }

    /// The fields of a block.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(&mut self, block: &[u8]) -> Result<Vec<Field>, String> {
        let mut input = Input(block);
        let mut fields = Vec::new();
        while let Some(first) = input.0.first().copied() {
            if first & 0xe0 == 0x20 {
                let bytes = input.integer(5)?;
                if !fields.is_empty() {
                    return Err("a size update after a field".to_owned());
                }
                if bytes > self.limit_max {
                    return Err(format!("a table of {bytes} bytes, where {} were announced", self.limit_max));
                }
                self.reduction = self.reduction.filter(|most| bytes > *most);
                self.limit = bytes;
                self.evict(0);
                continue;
            }
            if let Some(most) = self.reduction {
                return Err(format!("no size update, after the table was reduced to {most} bytes"));
            }
            if first & 0x80 != 0 {
                let index = input.integer(7)?;
                fields.push(self.get(index)?);
                continue;
            }
            let kept = first & 0x40 != 0;
            let index = input.integer(if kept { 6 } else { 4 })?;
            let name = if index == 0 { input.string()? } else { self.get(index)?.0 };
            let field = (name, input.string()?);
            if kept {
                self.insert(field.clone());
            }
            fields.push(field);
        }
        Ok(fields)
    }

    fn get(&self, index: usize) -> Result<Field, String> {
        let at = index.checked_sub(1).ok_or("index 0")?;
        if let Some((name, value)) = STATIC.get(at) {
            return Ok(((*name).to_owned(), (*value).to_owned()));
        }
        self.entries.get(at - STATIC.len()).cloned().ok_or_else(|| format!("index {index} is nowhere"))
    }

    fn insert(&mut self, field: Field) {
        let bytes = size(&field);
        self.evict(bytes);
        if bytes <= self.limit {
            self.entries.push_front(field);
        }
    }

    /// Makes room.
    fn evict(&mut self, wanted: usize) {
        while self.entries.iter().map(size).sum::<usize>() + wanted > self.limit
            && self.entries.pop_back().is_some()
        {}
    }
}

fn size((name, value): &Field) -> usize {
    name.len() + value.len() + ENTRY_BYTES
}

/// What is left of a block.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Result<u8, String> {
        let (first, rest) = self.0.split_first().ok_or("the block ends inside a field")?;
        self.0 = rest;
        Ok(*first)
    }

    fn integer(&mut self, prefix: u32) -> Result<usize, String> {
        let most = (1 << prefix) - 1;
        let mut value = usize::from(self.byte()?) & most;
        if value < most {
            return Ok(value);
        }
        for shift in [0, 7, 14, 21] {
            let byte = usize::from(self.byte()?);
            value += (byte & 127) << shift;
            if byte < 128 {
                return Ok(value);
            }
        }
        Err("an integer without end".to_owned())
    }

    fn string(&mut self) -> Result<String, String> {
        let coded = self.0.first().is_some_and(|first| *first >= 128);
        let length = self.integer(7)?;
        let bytes = self.0.get(..length).ok_or("the block ends inside a string")?;
        self.0 = &self.0[length..];
        let mut plain = bytes.to_vec();
        if coded {
            plain.clear();
            let decoded = httlib_huffman::decode(bytes, &mut plain, DecoderSpeed::OneBit);
            decoded.map_err(|error| format!("Huffman: {error:?} in {bytes:x?}"))?;
        }
        String::from_utf8(plain).map_err(|error| error.to_string())
    }
}

/// Appendix A.
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::{Decoder, block, huffman, indexed, indexing, integer, literal, never_indexed, resize};

    fn field(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn examples_of_the_rfc() {
        assert_eq!(integer(0, 5, 10), [10]);
        assert_eq!(integer(0, 5, 1337), [31, 154, 10]);
        assert_eq!(integer(0, 8, 42), [42]);
        assert_eq!(
            huffman(b"www.example.com"),
            [0x8c, 0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff]
        );
        let mut decoder = Decoder::default();
        let first = b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
        let wanted = [
            field(":method", "GET"),
            field(":scheme", "http"),
            field(":path", "/"),
            field(":authority", "www.example.com"),
        ];
        assert_eq!(decoder.decode(first).as_deref(), Ok(&wanted[..]));
        let again = decoder.decode(b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf");
        assert_eq!(again, Ok([&wanted[..], &[field("cache-control", "no-cache")]].concat()));
    }

    #[test]
    fn blocks_by_hand_are_decoded() {
        let mut decoder = Decoder::default();
        let bytes =
            [resize(100), indexing("a", "1"), literal("b", "2"), never_indexed("c", "3"), indexed(62)]
                .concat();
        let wanted = [field("a", "1"), field("b", "2"), field("c", "3"), field("a", "1")];
        assert_eq!(decoder.decode(&bytes).as_deref(), Ok(&wanted[..]));
        assert_eq!(decoder.decode(&[resize(0), indexed(62)].concat()), Err("index 62 is nowhere".to_owned()));
        assert_eq!(decoder.decode(&indexed(0)), Err("index 0".to_owned()));
    }

    #[test]
    fn a_reduced_table_is_announced_first() {
        let mut decoder = Decoder::default();
        decoder.set_limit_max(10);
        assert!(decoder.decode(&block(&[("a", "1")])).is_err());
        assert!(decoder.decode(&[resize(11), literal("a", "1")].concat()).is_err());
        assert!(decoder.decode(&[resize(10), literal("a", "1")].concat()).is_ok());
        assert!(decoder.decode(&literal("a", "1")).is_ok());
    }
}
