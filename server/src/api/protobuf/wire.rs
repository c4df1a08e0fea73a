//! Fields of messages on the wire.

/// A field's value. Kubernetes' messages use no other types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
}

/// Reads the fields of one message.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What was not read yet.
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next field; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Wire<'a>)>, &'static str> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| "a field number is too large")?;
        if number == 0 {
            return Err("a field has the number zero");
        }
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_| "a length is too large")?;
                let (bytes, rest) = self.rest.split_at_checked(len).ok_or("a length goes past the end")?;
                self.rest = rest;
                Wire::Bytes(bytes)
            }
            _ => return Err("a field has a wire type that Kubernetes does not use"),
        };
        Ok(Some((number, wire)))
    }

    /// The next number without a field.
    pub(super) fn varint(&mut self) -> Result<u64, &'static str> {
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
