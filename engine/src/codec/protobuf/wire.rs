//! Fields of protobuf messages on the wire.

/// A field's value. Kubernetes' messages use no other types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireValue<'a> {
    /// A number, or a truth.
    Varint(u64),
    /// The bits of a number with a fraction: only schemas of custom resources have such.
    Fixed64(u64),
    /// Text, bytes or a message.
    Bytes(&'a [u8]),
}

/// Reads the fields of one message.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of a whole message.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What was not read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next field; `None` at the end.
    ///
    /// # Errors
    /// The bytes are no message.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would hide that reading stops at an error"
    )]
    #[inline]
    pub fn next(&mut self) -> Result<Option<(u32, WireValue<'a>)>, &'static str> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        // Go reads it as an int32, and refuses a negative one.
        let number = u32::try_from(tag >> 3).ok().filter(|number| number.cast_signed() >= 0);
        let number = number.ok_or("a field number is too large")?;
        if number == 0 {
            return Err("a field has the number zero");
        }
        let wire = match tag & 7 {
            0 => WireValue::Varint(self.varint()?),
            1 => {
                let (bits, rest) = self.rest.split_first_chunk().ok_or("a number goes past the end")?;
                self.rest = rest;
                WireValue::Fixed64(u64::from_le_bytes(*bits))
            }
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_| "a length is too large")?;
                let (bytes, rest) = self.rest.split_at_checked(len).ok_or("a length goes past the end")?;
                self.rest = rest;
                WireValue::Bytes(bytes)
            }
            _ => return Err("a field has a wire type that Kubernetes does not use"),
        };
        Ok(Some((number, wire)))
    }

    /// The next number without a field.
    ///
    /// # Errors
    /// It is cut off, or too long.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, &'static str> {
        // Nearly all are short.
        if let Some((&byte @ 0..0x80, rest)) = self.rest.split_first() {
            self.rest = rest;
            return Ok(u64::from(byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, &'static str> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or("a number goes past the end")?;
            self.rest = rest;
            if shift == 63 && *byte > 1 {
                return Err("a number is longer than 64 bits");
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number is longer than 64 bits")
    }
}

/// Bytes of a number.
#[must_use]
pub const fn varint_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Appends a number.
pub fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Bytes of a field of so many bytes, with its tag and its length.
#[must_use]
pub const fn field_len(number: u32, len: usize) -> usize {
    varint_len((number as u64) << 3) + varint_len(len as u64) + len
}

/// Appends the tag and the length of a field of so many bytes: they are appended next.
pub fn open_field(out: &mut Vec<u8>, number: u32, len: usize) {
    push_varint(out, u64::from(number) << 3 | 2);
    push_varint(out, len as u64);
}

/// Appends a field of bytes.
pub fn push_field(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    open_field(out, number, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends a field of a number.
pub fn push_number(out: &mut Vec<u8>, number: u32, value: u64) {
    push_varint(out, u64::from(number) << 3);
    push_varint(out, value);
}

/// Appends a field of a number with a fraction.
pub fn push_double(out: &mut Vec<u8>, number: u32, value: f64) {
    push_varint(out, u64::from(number) << 3 | 1);
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_long_as_they_are_said_to_be() {
        for value in (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]).chain([u64::MAX])
        {
            let mut out = Vec::new();
            push_varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value), "{value}");
            let mut reader = Reader::new(&out);
            assert_eq!((reader.varint(), reader.rest()), (Ok(value), &b""[..]));
        }
    }

    #[test]
    fn a_number_with_a_fraction_is_eight_bytes() {
        let mut out = Vec::new();
        push_double(&mut out, 11, -1.5);
        assert_eq!(Reader::new(&out).next(), Ok(Some((11, WireValue::Fixed64((-1.5_f64).to_bits())))));
        for cut in 1..=8 {
            assert!(Reader::new(&out[..out.len() - cut]).next().is_err());
        }
    }

    #[test]
    fn a_field_is_read_as_it_was_written() {
        for len in [0, 1, 127, 128, 20_000] {
            let (mut out, bytes) = (Vec::new(), vec![7; len]);
            push_field(&mut out, 300, &bytes);
            assert_eq!(out.len(), field_len(300, len));
            let mut reader = Reader::new(&out);
            assert_eq!(reader.next(), Ok(Some((300, WireValue::Bytes(&bytes)))));
            assert_eq!(reader.next(), Ok(None));
            for cut in 1..out.len().min(6) {
                assert!(Reader::new(&out[..out.len() - cut]).next().is_err() || len == 0);
            }
        }
        for wrong in [&b"\x0d\0\0\0\0"[..], b"\x02\x00", b"\x0b", b"\x0a\x05ab", b"\x08\xff"] {
            assert!(Reader::new(wrong).next().is_err(), "{wrong:?}");
        }
    }
}
