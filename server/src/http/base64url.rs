//! base64url without padding (RFC 4648, section 5), as Go's `base64.RawURLEncoding` writes and reads it.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Encodes, without padding.
pub(crate) fn encode(data: &[u8]) -> String {
    let mut out = String::with_capacity(data.len().div_ceil(3) * 4);
    for group in data.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, b| bits << 8 | u32::from(*b)) << (8 * (3 - group.len()));
        for digit in 0..=group.len() {
            let index = (bits >> (18 - 6 * digit)) & 63;
            out.push(char::from(ALPHABET[index as usize]));
        }
    }
    out
}

/// Decodes; on failure returns the offset of the first invalid byte (Go's `CorruptInputError`).
///
/// Strict: no padding, no line breaks, and the unused bits of the last digit are zero, so each token has one encoding.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let mut bits: u32 = 0;
    let mut held = 0;
    for (at, byte) in text.bytes().enumerate() {
        bits = bits << 6 | u32::from(value(byte).ok_or(at)?);
        held += 6;
        if held >= 8 {
            held -= 8;
            let [.., low] = (bits >> held).to_be_bytes();
            out.push(low);
            bits &= (1 << held) - 1;
        }
    }
    if held == 6 || bits != 0 { Err(text.len()) } else { Ok(out) }
}

const fn value(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::noise::Noise;
    use super::*;

    #[test]
    fn the_vectors_of_rfc_4648_without_padding() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg"),
            ("fooba", "Zm9vYmE"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(plain.as_bytes()), coded);
            assert_eq!(decode(coded).as_deref(), Ok(plain.as_bytes()));
        }
        assert_eq!(encode(&[0xfb, 0xff]), "-_8");
    }

    #[test]
    fn what_does_not_belong_is_named_by_its_offset() {
        assert_eq!(decode("Zg=="), Err(2));
        assert_eq!(decode("ab+c"), Err(2));
        assert_eq!(decode("Zm9v\n"), Err(4));
        assert_eq!(decode("Z"), Err(1));
        assert_eq!(decode("Zh"), Err(2), "a second spelling of \"f\"");
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let mut noise = Noise(1);
        for len in 0..200 {
            let data: Vec<u8> = (0..len).map(|_| noise.next().to_le_bytes()[0]).collect();
            assert_eq!(decode(&encode(&data)).as_deref(), Ok(data.as_slice()));
        }
    }
}
