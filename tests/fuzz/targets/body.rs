//! Bodies: read at once and in pieces, and compared with a slow reader of chunks.

use revcast::http::body::{BodyDecoder, BodyError, CHUNK_EXTENSION_BYTES_MAX, Fed, TRAILER_BYTES_MAX};
use revcast::http::request::BodyFraming;

/// Small, so that the limit is reached.
const LIMIT: usize = 300;

/// The first byte tells how the rest is sent: its framing, and the size of pieces.
pub(crate) fn run(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    let framing = if first & 0x80 == 0 {
        BodyFraming::Chunked
    } else {
        BodyFraming::Length(u64::from(first & 0x3f) + 1)
    };
    let expected = match framing {
        BodyFraming::Length(length) => slow_length(usize::try_from(length).expect("small"), data),
        _ => slow_chunks(data),
    };
    for size in [usize::from(first & 0x1f) + 1, 1, data.len().max(1)] {
        assert_eq!(read(framing, data, size), expected, "in pieces of {size}");
    }
}

/// The result of a body: complete, with how many bytes it took; incomplete; or wrong.
type Verdict = Result<Option<(Vec<u8>, usize)>, ()>;

fn read(framing: BodyFraming, data: &[u8], size: usize) -> Verdict {
    let mut decoder = BodyDecoder::new(framing, LIMIT).expect("below the limit");
    let mut before = 0;
    for piece in data.chunks(size) {
        match decoder.feed(piece) {
            Ok(Fed::NeedMore) => before += piece.len(),
            Ok(Fed::Done { body, consumed }) => return Ok(Some((body.to_vec(), before + consumed))),
            Err(BodyError::TooLarge { limit }) => {
                assert_eq!(limit, LIMIT);
                return Err(());
            }
            Err(error) => {
                assert_eq!(error.status().code(), 400, "{error}");
                return Err(());
            }
        }
    }
    Ok(None)
}

fn slow_length(length: usize, data: &[u8]) -> Verdict {
    Ok(data.get(..length).map(|body| (body.to_vec(), length)))
}

/// RFC 9112, section 7.1, read byte by byte. `None` at any point: the bytes end here.
fn slow_chunks(data: &[u8]) -> Verdict {
    let mut at = 0;
    let mut body = Vec::new();
    let (mut extensions, mut trailers) = (0, 0);
    macro_rules! next {
        () => {
            match data.get(at) {
                None => return Ok(None),
                Some(&byte) => {
                    at += 1;
                    byte
                }
            }
        };
    }
    loop {
        let mut digits = String::new();
        let mut byte = next!();
        while byte.is_ascii_hexdigit() {
            digits.push(char::from(byte));
            if digits.len() > 16 {
                return Err(());
            }
            byte = next!();
        }
        if digits.is_empty() {
            return Err(());
        }
        if byte == b';' {
            while byte != b'\r' {
                extensions += 1;
                if extensions > CHUNK_EXTENSION_BYTES_MAX || (byte < b' ' && byte != b'\t') || byte == 0x7f {
                    return Err(());
                }
                byte = next!();
            }
        }
        if byte != b'\r' || next!() != b'\n' {
            return Err(());
        }
        let size = u64::from_str_radix(&digits, 16).expect("sixteen digits at most");
        if size == 0 {
            break;
        }
        if size > (LIMIT - body.len()) as u64 {
            return Err(());
        }
        for _ in 0..size {
            body.push(next!());
        }
        if next!() != b'\r' || next!() != b'\n' {
            return Err(());
        }
    }
    let mut line: Vec<u8> = Vec::new();
    loop {
        let byte = next!();
        trailers += 1;
        if trailers > TRAILER_BYTES_MAX {
            return Err(());
        }
        if byte != b'\r' {
            line.push(byte);
            let colon = line.iter().position(|byte| *byte == b':');
            let name = &line[..colon.unwrap_or(line.len())];
            let value = &line[colon.unwrap_or(line.len())..];
            let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
            let is_right = !name.is_empty()
                && name.iter().all(token)
                && value.iter().all(|byte| (*byte >= b' ' && *byte != 0x7f) || *byte == b'\t');
            if !is_right {
                return Err(());
            }
            continue;
        }
        if !line.is_empty() && !line.contains(&b':') {
            return Err(());
        }
        let end = next!();
        trailers += 1;
        if end != b'\n' || trailers > TRAILER_BYTES_MAX {
            return Err(());
        }
        if line.is_empty() {
            return Ok(Some((body, at)));
        }
        line.clear();
    }
}
