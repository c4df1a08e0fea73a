//! Chunked bodies whole and byte by byte; rows 10 to 18 of the bad-input catalogue.

use super::*;
use crate::http::text::noise::Noise;

/// Feeds `input` whole and in pieces of every small size; all results must be equal.
fn decode(framing: BodyFraming, limit: usize, input: &[u8]) -> Result<Option<(Bytes, usize)>, BodyError> {
    let run = |piece: usize| {
        let mut decoder = BodyDecoder::new(framing, limit)?;
        let mut fed = 0;
        let mut last = decoder.feed(b"")?;
        for part in input.chunks(piece) {
            if let Fed::Done { .. } = last {
                break;
            }
            last = decoder.feed(part)?;
            fed += match &last {
                Fed::NeedMore => part.len(),
                Fed::Done { consumed, .. } => *consumed,
            };
        }
        Ok(match last {
            Fed::NeedMore => None,
            Fed::Done { body, .. } => Some((body, fed)),
        })
    };
    let whole = run(input.len().max(1));
    for piece in [1, 2, 3, 7] {
        assert_eq!(run(piece), whole, "in pieces of {piece}: {:?}", String::from_utf8_lossy(input));
    }
    whole
}

fn chunked(input: &str) -> Result<Option<(Bytes, usize)>, BodyError> {
    decode(BodyFraming::Chunked, 100, input.as_bytes())
}

#[test]
fn bodies_that_are_right() {
    let good: &[(&str, &str, &str)] = &[
        ("0\r\n\r\n", "", ""),
        ("3\r\nabc\r\n0\r\n\r\n", "abc", "GET /"),
        ("A\r\n0123456789\r\na\r\n0123456789\r\n000\r\n\r\n", "01234567890123456789", "\r\n"),
        ("3;name=value\r\na\r\n\r\n0;x\r\n\r\n", "a\r\n", ""),
        ("1\r\na\r\n0\r\nDigest: x y\r\nEmpty:\r\n\r\n", "a", "X"),
        ("0000000000000001\r\na\r\n0\r\n\r\n", "a", ""),
    ];
    for (input, body, behind) in good {
        let fed = format!("{input}{behind}");
        assert_eq!(
            chunked(&fed),
            Ok(Some((Bytes::copy_from_slice(body.as_bytes()), input.len()))),
            "{input:?}"
        );
        for end in 0..input.len() {
            assert_eq!(chunked(&input[..end]), Ok(None), "cut at {end}: {input:?}");
        }
    }
    assert_eq!(decode(BodyFraming::Length(3), 100, b"abcGET"), Ok(Some((Bytes::from_static(b"abc"), 3))));
    assert_eq!(decode(BodyFraming::Length(3), 100, b"ab"), Ok(None));
    assert_eq!(decode(BodyFraming::None, 100, b"GET"), Ok(Some((Bytes::new(), 0))));
}

#[test]
fn rows_10_to_18() {
    use BodyError as E;
    let bad: &[(&str, BodyError)] = &[
        ("0x5\r\nabcde\r\n", E::ChunkSize),
        ("5_0\r\n", E::ChunkSize),
        ("FFFFFFFFFFFFFFFF1\r\n", E::ChunkSize),
        ("00000000000000001\r\n", E::ChunkSize),
        ("-1\r\n", E::ChunkSize),
        ("+1\r\n", E::ChunkSize),
        (" 1\r\n", E::ChunkSize),
        ("1 \r\na\r\n", E::ChunkSize),
        ("\r\n", E::ChunkSize),
        (";x\r\n", E::ChunkSize),
        ("g\r\n", E::ChunkSize),
        ("1;a\0b\r\n", E::ChunkExtension),
        ("1\na\r\n", E::LineEnd),
        ("1;x\na\r\n", E::LineEnd),
        ("1\rXa\r\n", E::LineEnd),
        ("1\r\nab\r\n", E::LineEnd),
        ("1\r\na\n", E::LineEnd),
        ("1\r\na\rX", E::LineEnd),
        ("0\r\n\n", E::LineEnd),
        ("0\r\n\rX", E::LineEnd),
        ("0\r\nA: b\n", E::LineEnd),
        ("0\r\nA: b\rC", E::LineEnd),
        ("0\r\nno colon\r\n", E::Trailer),
        ("0\r\n: b\r\n", E::Trailer),
        ("0\r\n folded\r\n", E::Trailer),
        ("0\r\nA: \0\r\n", E::Trailer),
    ];
    for (input, expected) in bad {
        assert_eq!(chunked(input), Err(*expected), "{input:?}");
        assert_eq!(expected.status().code(), 400);
    }
    let flood = format!("1;{}\r\na\r\n", "x".repeat(64 * 1024));
    assert_eq!(chunked(&flood), Err(E::ChunkExtension));
}

#[test]
fn extensions_and_trailers_are_limited_in_all() {
    let chunk = |extension: usize| format!("1;{}\r\na\r\n", "x".repeat(extension - 1));
    let fits =
        format!("{}{}0\r\n\r\n", chunk(CHUNK_EXTENSION_BYTES_MAX / 2), chunk(CHUNK_EXTENSION_BYTES_MAX / 2));
    assert!(matches!(chunked(&fits), Ok(Some(_))));
    let over = format!(
        "{}{}0\r\n\r\n",
        chunk(CHUNK_EXTENSION_BYTES_MAX / 2),
        chunk(CHUNK_EXTENSION_BYTES_MAX / 2 + 1)
    );
    assert_eq!(chunked(&over), Err(BodyError::ChunkExtension));
    // "A:" CRLF, and CRLF at the end.
    let trailers = |len: usize| format!("0\r\nA:{}\r\n\r\n", "x".repeat(len - 6));
    assert!(matches!(chunked(&trailers(TRAILER_BYTES_MAX)), Ok(Some(_))));
    assert_eq!(chunked(&trailers(TRAILER_BYTES_MAX + 1)), Err(BodyError::Trailer));
}

#[test]
fn the_limit_is_413() {
    let too_large = BodyError::TooLarge { limit: 100 };
    assert_eq!(too_large.status().code(), 413);
    assert_eq!(
        BodyError::TooLarge { limit: BODY_BYTES_MAX }.status().message(),
        "Request entity too large: limit is 3145728"
    );
    for length in [101, u64::MAX] {
        assert_eq!(BodyDecoder::new(BodyFraming::Length(length), 100).err(), Some(too_large));
    }
    let hundred = "x".repeat(100);
    assert!(matches!(decode(BodyFraming::Length(100), 100, hundred.as_bytes()), Ok(Some(_))));
    assert!(matches!(chunked(&format!("64\r\n{hundred}\r\n0\r\n\r\n")), Ok(Some(_))));
    assert_eq!(chunked("65\r\n"), Err(too_large), "refused before the data");
    assert_eq!(chunked(&format!("64\r\n{hundred}\r\n1\r\n")), Err(too_large));
    assert_eq!(chunked("FFFFFFFFFFFFFFFF\r\n"), Err(too_large));
}

#[test]
fn noise_never_panics() {
    let pieces: &[&[u8]] =
        &[b"1\r\n", b"a\r\n", b"0\r\n", b"\r\n", b"5;x=y\r\n", b"abcde", b"A: b\r\n", b"\n", b"ff"];
    let mut done = 0;
    for seed in 0..20_000 {
        let mut noise = Noise(seed);
        let parts = noise.below(10);
        let input = noise.text(pieces, parts);
        if let Ok(Some((body, consumed))) = decode(BodyFraming::Chunked, 64, &input) {
            assert!(body.len() <= 64 && consumed <= input.len(), "seed {seed}");
            done += 1;
        }
    }
    assert!(done > 100, "the noise reaches whole bodies: {done}");
}
