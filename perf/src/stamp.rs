//! The stamp that every written object carries: which write of which object of which run, and when it was meant to be sent. Its
//! text has a fixed width, so the writer patches it in place and every object of a run has the same size.

/// `RRRRRRRRRRRRRRRR.OOOOOOOO.SSSSSSSSSS.TTTTTTTTTTTTTTTTTTTT`: run in hex, the rest in decimal.
pub(crate) const STAMP_BYTES: usize = 16 + 1 + 8 + 1 + 10 + 1 + 20;
pub(crate) const OBJECTS_MAX: u32 = 100_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) run: u64,
    /// Number of the object among all objects of the run, from 0, below [`OBJECTS_MAX`].
    pub(crate) object: u32,
    /// Number of the write of this object; 0 is its creation.
    pub(crate) seq: u32,
    /// CLOCK_MONOTONIC when the write was meant to be sent, ns.
    pub(crate) intended_ns: u64,
}

impl Stamp {
    /// The text, which fills `place` exactly ([`STAMP_BYTES`]).
    pub(crate) fn write(&self, place: &mut [u8]) {
        let text =
            format_args!("{:016x}.{:08}.{:010}.{:020}", self.run, self.object, self.seq, self.intended_ns)
                .to_string();
        place.copy_from_slice(text.as_bytes());
    }

    /// Reads the text back. `None`: not a stamp of ours.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() != STAMP_BYTES || text[16] != b'.' || text[25] != b'.' || text[36] != b'.' {
            return None;
        }
        let hex = |run, &byte: &u8| Some(run << 4 | u64::from(char::from(byte).to_digit(16)?));
        Some(Self {
            run: text[..16].iter().try_fold(0, hex)?,
            object: u32::try_from(decimal(&text[17..25])?).ok()?,
            seq: u32::try_from(decimal(&text[26..36])?).ok()?,
            intended_ns: decimal(&text[37..])?,
        })
    }
}

/// A number of decimal digits only. `None`: empty, another character, or over 64 bits.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    let add = |number: u64, &byte: &u8| number.checked_mul(10)?.checked_add(digit(byte)?);
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for stamp in [
            Stamp { run: 0, object: 0, seq: 0, intended_ns: 0 },
            Stamp { run: u64::MAX, object: OBJECTS_MAX - 1, seq: u32::MAX, intended_ns: u64::MAX },
            Stamp { run: 0xabc, object: 17, seq: 123, intended_ns: 9_876_543_210 },
        ] {
            let mut place = [0; STAMP_BYTES];
            stamp.write(&mut place);
            assert_eq!(Stamp::parse(&place), Some(stamp));
            assert_eq!(Stamp::parse(&place[1..]), None);
            for (spot, wrong) in (0..STAMP_BYTES).flat_map(|spot| [(spot, b'?'), (spot, b'+')]) {
                let mut broken = place;
                broken[spot] = wrong;
                assert_eq!(Stamp::parse(&broken), None, "byte {spot}");
            }
        }
    }
}
