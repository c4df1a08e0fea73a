//! Reads a WebSocket client's frames, however they are split (RFC 6455, section 5).
//!
//! A watch's client sends only pings and Close. Data is checked as the RFC requires, up to a bound, and discarded. A
//! reader holds one control frame at most and allocates nothing.

/// Bytes of one message that a client may send. Longer: 1009.
pub const MESSAGE_BYTES_MAX: u64 = 64 << 10;
/// Bytes of a control frame's payload (RFC 6455, section 5.5).
pub const PAYLOAD_OF_CONTROL_MAX: usize = 125;
/// Two bytes, a length of eight, a mask.
const HEAD_BYTES_MAX: usize = 14;

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Everything was read.
    All,
    /// Up to a Close, with its code if it has one. The rest is not read.
    Close(Option<u16>),
}

/// Why the connection to a client is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// A code of RFC 6455, section 7.4.1.
    pub code: u16,
    pub why: &'static str,
}

const fn protocol(why: &'static str) -> Fault {
    Fault { code: 1002, why }
}

const BAD_TEXT: Fault = Fault { code: 1007, why: "text must be UTF-8" };
const TOO_LONG: Fault = Fault { code: 1009, why: "a message has at most 64 KiB; a watch needs none" };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    const fn parse(first: u8) -> Option<Self> {
        match first & 15 {
            0 => Some(Self::Continuation),
            1 => Some(Self::Text),
            2 => Some(Self::Binary),
            8 => Some(Self::Close),
            9 => Some(Self::Ping),
            10 => Some(Self::Pong),
            _ => None,
        }
    }

    const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// A frame whose head was read.
#[derive(Debug)]
struct Under {
    opcode: Opcode,
    last: bool,
    left: u64,
    mask: [u8; 4],
    /// The next byte of the mask.
    at: usize,
}

/// A data message whose last fragment has not come.
#[derive(Debug)]
struct Message {
    len: u64,
    text: Option<Utf8>,
}

/// The state of the reader.
#[derive(Debug)]
pub struct Reader {
    head: [u8; HEAD_BYTES_MAX],
    head_len: usize,
    under: Option<Under>,
    message: Option<Message>,
    control: [u8; PAYLOAD_OF_CONTROL_MAX],
    control_len: usize,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            head: [0; HEAD_BYTES_MAX],
            head_len: 0,
            under: None,
            message: None,
            control: [0; PAYLOAD_OF_CONTROL_MAX],
            control_len: 0,
        }
    }
}

impl Reader {
    /// Reads `bytes`, which follow those of the last call; `on_ping` gets the payload of each ping.
    ///
    /// # Errors
    /// The client broke the protocol: nothing more is read from it.
    pub fn read(&mut self, mut bytes: &[u8], mut on_ping: impl FnMut(&[u8])) -> Result<Heard, Fault> {
        loop {
            let Some(under) = &mut self.under else {
                let need = self.head_bytes()?;
                if self.head_len < need {
                    let Some((&first, rest)) = bytes.split_first() else { return Ok(Heard::All) };
                    self.head[self.head_len] = first;
                    self.head_len += 1;
                    bytes = rest;
                } else {
                    self.begin()?;
                }
                continue;
            };
            if under.left == 0 {
                if let Some(close) = self.end(&mut on_ping)? {
                    return Ok(close);
                }
                continue;
            }
            if bytes.is_empty() {
                return Ok(Heard::All);
            }
            let now = usize::try_from(under.left).unwrap_or(usize::MAX).min(bytes.len());
            let (part, rest) = bytes.split_at(now);
            bytes = rest;
            self.take(part)?;
        }
    }

    /// The length of the head, as far as it is known; checks its first two bytes.
    fn head_bytes(&self) -> Result<usize, Fault> {
        if self.head_len < 2 {
            return Ok(2);
        }
        let [first, second, ..] = self.head;
        if first & 0x70 != 0 {
            return Err(protocol("reserved bits are set, and no extension was agreed on"));
        }
        let Some(opcode) = Opcode::parse(first) else { return Err(protocol("unknown opcode")) };
        if second & 0x80 == 0 {
            return Err(protocol("a client's frames must be masked"));
        }
        let len = second & 0x7f;
        if opcode.is_control() && (first & 0x80 == 0 || usize::from(len) > PAYLOAD_OF_CONTROL_MAX) {
            return Err(protocol("a control frame is whole, of at most 125 bytes"));
        }
        match (opcode, &self.message) {
            (Opcode::Continuation, None) => return Err(protocol("a continuation without a message")),
            (Opcode::Text | Opcode::Binary, Some(_)) => {
                return Err(protocol("a message within another"));
            }
            _ => {}
        }
        Ok(match len {
            126 => 8,
            127 => 14,
            _ => 6,
        })
    }

    /// The head is complete.
    fn begin(&mut self) -> Result<(), Fault> {
        let [first, second, ..] = self.head;
        let long = &self.head[2..];
        let (left, least, mask_at) = match second & 0x7f {
            126 => (u64::from(u16::from_be_bytes([long[0], long[1]])), 126, 4),
            127 => {
                let mut len = [0; 8];
                len.copy_from_slice(&long[..8]);
                (u64::from_be_bytes(len), 1 << 16, 10)
            }
            short => (u64::from(short), 0, 2),
        };
        if left < least || left > u64::MAX >> 1 {
            return Err(protocol("a length is written in as few bytes as it takes, and below 2^63"));
        }
        let mut mask = [0; 4];
        mask.copy_from_slice(&self.head[mask_at..mask_at + 4]);
        let Some(opcode) = Opcode::parse(first) else { return Err(protocol("unknown opcode")) };
        match opcode {
            Opcode::Text => self.message = Some(Message { len: 0, text: Some(Utf8::default()) }),
            Opcode::Binary => self.message = Some(Message { len: 0, text: None }),
            Opcode::Continuation | Opcode::Close | Opcode::Ping | Opcode::Pong => {}
        }
        if !opcode.is_control()
            && let Some(message) = &mut self.message
        {
            message.len = message.len.saturating_add(left);
            if message.len > MESSAGE_BYTES_MAX {
                return Err(TOO_LONG);
            }
        }
        self.under = Some(Under { opcode, last: first & 0x80 != 0, left, mask, at: 0 });
        self.head_len = 0;
        self.control_len = 0;
        Ok(())
    }

    /// A part of the payload of the current frame, not longer than its rest.
    fn take(&mut self, part: &[u8]) -> Result<(), Fault> {
        let Some(under) = &mut self.under else { return Ok(()) };
        under.left -= part.len() as u64;
        for byte in part {
            let byte = byte ^ under.mask[under.at];
            under.at = (under.at + 1) % 4;
            if under.opcode.is_control() {
                self.control[self.control_len] = byte;
                self.control_len += 1;
            } else if let Some(Message { text: Some(text), .. }) = &mut self.message
                && !text.push(byte)
            {
                return Err(BAD_TEXT);
            }
        }
        Ok(())
    }

    /// The current frame is complete.
    fn end(&mut self, on_ping: &mut impl FnMut(&[u8])) -> Result<Option<Heard>, Fault> {
        let Some(under) = self.under.take() else { return Ok(None) };
        let control = &self.control[..self.control_len];
        match under.opcode {
            Opcode::Pong => {}
            Opcode::Ping => on_ping(control),
            Opcode::Close => return closing(control).map(Some),
            Opcode::Continuation | Opcode::Text | Opcode::Binary => {
                if under.last {
                    let text = self.message.take().and_then(|message| message.text);
                    if text.is_some_and(|text| !text.is_whole()) {
                        return Err(BAD_TEXT);
                    }
                }
            }
        }
        Ok(None)
    }
}

/// The content of a Close: a code that may be sent, and a reason in UTF-8 (RFC 6455, sections 5.5.1 and 7.4).
fn closing(payload: &[u8]) -> Result<Heard, Fault> {
    let [high, low, reason @ ..] = payload else {
        return if payload.is_empty() {
            Ok(Heard::Close(None))
        } else {
            Err(protocol("half a code in a close frame"))
        };
    };
    let code = u16::from_be_bytes([*high, *low]);
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(protocol("invalid code in a close frame"));
    }
    if std::str::from_utf8(reason).is_err() {
        return Err(BAD_TEXT);
    }
    Ok(Heard::Close(Some(code)))
}

/// Checks that bytes that arrive one by one are UTF-8 (RFC 3629, section 4).
#[derive(Clone, Copy, Debug, Default)]
struct Utf8 {
    /// Bytes that the current character still needs.
    need: u8,
    /// Allowed values of the next of them; 0..0: any continuation.
    low: u8,
    high: u8,
}

impl Utf8 {
    /// Whether `byte` is allowed here.
    fn push(&mut self, byte: u8) -> bool {
        if self.need > 0 {
            let (low, high) = if self.high == 0 { (0x80, 0xbf) } else { (self.low, self.high) };
            self.need -= 1;
            self.high = 0;
            return (low..=high).contains(&byte);
        }
        (self.need, self.low, self.high) = match byte {
            0..=0x7f => return true,
            0xc2..=0xdf => (1, 0, 0),
            0xe0 => (2, 0xa0, 0xbf),
            0xed => (2, 0x80, 0x9f),
            0xe1..=0xef => (2, 0, 0),
            0xf0 => (3, 0x90, 0xbf),
            0xf1..=0xf3 => (3, 0, 0),
            0xf4 => (3, 0x80, 0x8f),
            _ => return false,
        };
        true
    }

    const fn is_whole(self) -> bool {
        self.need == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::noise::Noise;

    const MASK: [u8; 4] = [0x1f, 0x80, 3, 0xff];

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![first];
        match payload.len() {
            short @ 0..126 => out.push(0x80 | u8::try_from(short).expect("short")),
            medium @ 126..65_536 => {
                out.push(0x80 | 126);
                out.extend_from_slice(&u16::try_from(medium).expect("medium").to_be_bytes());
            }
            long => {
                out.push(0x80 | 127);
                out.extend_from_slice(&(long as u64).to_be_bytes());
            }
        }
        out.extend_from_slice(&MASK);
        out.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ MASK[at % 4]));
        out
    }

    type Verdict = (Result<Heard, Fault>, Vec<Vec<u8>>);

    fn in_pieces(bytes: &[u8], mut size: impl FnMut() -> usize) -> Verdict {
        let mut reader = Reader::default();
        let mut pings = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(size().clamp(1, rest.len()));
            rest = more;
            match reader.read(piece, |ping| pings.push(ping.to_vec())) {
                Ok(Heard::All) => {}
                ended => return (ended, pings),
            }
        }
        (Ok(Heard::All), pings)
    }

    /// The result for `bytes`, the same whole and byte by byte.
    fn verdict(bytes: &[u8]) -> Verdict {
        let whole = in_pieces(bytes, || usize::MAX);
        assert_eq!(whole, in_pieces(bytes, || 1), "cut into bytes");
        whole
    }

    fn code(bytes: &[u8]) -> u16 {
        match verdict(bytes).0 {
            Err(fault) => {
                assert!(fault.why.len() <= PAYLOAD_OF_CONTROL_MAX - 2, "fits into a close frame");
                fault.code
            }
            Ok(heard) => panic!("{bytes:?}: {heard:?}"),
        }
    }

    #[test]
    fn what_may_be_said() {
        let long = vec![b'x'; 65_536];
        let pieces = [
            frame(0x81, "text: \u{20ac}".as_bytes()),
            frame(0x82, &[0xff, 0, 0xc0]),
            frame(0x89, b"one"),
            frame(0x8a, b"not requested"),
            frame(0x01, &"\u{1f980}".as_bytes()[..2]),
            frame(0x89, &[7; PAYLOAD_OF_CONTROL_MAX]),
            frame(0x00, b""),
            frame(0x80, &"\u{1f980}".as_bytes()[2..]),
            frame(0x82, &long),
            frame(0x82, &long[..126]),
            frame(0x89, b""),
        ];
        let (heard, pings) = verdict(&pieces.concat());
        assert_eq!(heard, Ok(Heard::All));
        assert_eq!(pings, [b"one".to_vec(), vec![7; PAYLOAD_OF_CONTROL_MAX], Vec::new()]);
        let mut bye = frame(0x88, b"\x03\xe8done");
        bye.extend_from_slice(b"what follows is not read");
        assert_eq!(verdict(&bye).0, Ok(Heard::Close(Some(1000))));
        assert_eq!(verdict(&frame(0x88, b"")).0, Ok(Heard::Close(None)));
    }

    #[test]
    fn rows_54_to_60_what_may_not() {
        let unmasked = [0x81, 2, b'h', b'i'];
        let negative = [&[0x82, 0xff, 0x80][..], &[0; 7], &MASK].concat();
        let padded_16 = [&[0x82, 0xfe, 0, 125][..], &MASK].concat();
        let padded_64 = [&[0x82, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff][..], &MASK].concat();
        let giant = [&[0x82, 0xff, 0x7f][..], &[0xff; 7], &MASK].concat();
        let many = [frame(0x02, &[0; 60_000]), frame(0x80, &[0; 10_000])].concat();
        let table: Vec<(&str, Vec<u8>, u16)> = vec![
            ("unmasked", unmasked.to_vec(), 1002),
            ("unmasked ping", vec![0x89, 0], 1002),
            ("RSV1, as permessage-deflate sets it", frame(0xc1, b"x"), 1002),
            ("RSV2", frame(0xa1, b"x"), 1002),
            ("RSV3 on a ping", frame(0x99, b"x"), 1002),
            ("opcode 3", frame(0x83, b""), 1002),
            ("opcode 11", frame(0x8b, b""), 1002),
            ("a ping in fragments", frame(0x09, b"x"), 1002),
            ("a close in fragments", frame(0x08, b""), 1002),
            ("a ping of 126 bytes", frame(0x89, &[0; 126]), 1002),
            ("a continuation without a message", frame(0x80, b"x"), 1002),
            ("a text within a text", [frame(0x01, b"a"), frame(0x81, b"b")].concat(), 1002),
            ("a length of 2^63", negative, 1002),
            ("16 bits for 125", padded_16, 1002),
            ("64 bits for 65535", padded_64, 1002),
            ("half a code", frame(0x88, &[3]), 1002),
            ("code 999", frame(0x88, &999_u16.to_be_bytes()), 1002),
            ("code 1005", frame(0x88, &1005_u16.to_be_bytes()), 1002),
            ("code 1006", frame(0x88, &1006_u16.to_be_bytes()), 1002),
            ("code 1015", frame(0x88, &1015_u16.to_be_bytes()), 1002),
            ("code 5000", frame(0x88, &5000_u16.to_be_bytes()), 1002),
            ("a reason that is no text", frame(0x88, b"\x03\xe8\xff"), 1007),
            ("text that is none", frame(0x81, b"abc\xff"), 1007),
            ("half a character", frame(0x81, b"\xe2\x82"), 1007),
            ("a surrogate", frame(0x81, b"\xed\xa0\x80"), 1007),
            ("an overlong slash", frame(0x81, b"\xc0\xaf"), 1007),
            ("beyond U+10FFFF", frame(0x81, b"\xf4\x90\x80\x80"), 1007),
            ("bad text over two frames", [frame(0x01, b"\xe2"), frame(0x80, b"\x41")].concat(), 1007),
            ("65,537 bytes", frame(0x82, &[0; 65_537]), 1009),
            ("2^62 bytes, by their head alone", giant, 1009),
            ("70,000 in two fragments", many, 1009),
        ];
        for (what, bytes, expected) in table {
            assert_eq!(code(&bytes), expected, "{what}");
        }
    }

    #[test]
    fn text_is_judged_as_std_judges_it() {
        let pieces: &[&[u8]] = &[
            b"a",
            b"\x80",
            b"\xbf",
            b"\xc2",
            b"\xdf",
            b"\xe0",
            b"\xa0",
            b"\xed",
            b"\x9f",
            b"\xef",
            b"\xf0",
            b"\x90",
            b"\xf4",
            b"\x8f",
            b"\xf5",
            "\u{20ac}".as_bytes(),
            "\u{1f980}".as_bytes(),
            "\u{fffd}".as_bytes(),
        ];
        let mut good = 0;
        for seed in 0..50_000 {
            let mut noise = Noise(seed);
            let parts = noise.below(5);
            let text = noise.text(pieces, parts);
            let mut judge = Utf8::default();
            let ours = text.iter().all(|byte| judge.push(*byte)) && judge.is_whole();
            assert_eq!(ours, std::str::from_utf8(&text).is_ok(), "{text:x?}");
            good += u32::from(ours);
        }
        assert!(good > 1000, "some of it is text: {good}");
    }

    /// Random bytes, and frames with random faults, in random pieces: no panic, and always the same result.
    #[test]
    fn noise_never_panics_and_never_changes_its_verdict() {
        let ping = frame(0x89, b"x");
        let text = frame(0x81, b"abc");
        let part = frame(0x01, b"abc");
        let rest = frame(0x80, b"abc");
        let bytes: [&[u8]; 4] = [b"\x81", b"\xff", b"\0", b"\x7f"];
        let pieces: Vec<&[u8]> = [&ping[..], &text, &part, &rest].into_iter().chain(bytes).collect();
        let (mut faults, mut pinged) = (0, 0);
        for seed in 0..20_000 {
            let mut noise = Noise(seed);
            let mut said = Vec::new();
            if seed % 3 == 0 {
                said.extend((0..noise.below(200)).map(|_| noise.below(256).to_le_bytes()[0]));
            } else {
                let parts = noise.below(12);
                said.extend(noise.text(&pieces, parts));
            }
            let whole = in_pieces(&said, || usize::MAX);
            assert_eq!(whole, in_pieces(&said, || 1 + noise.below(9)), "seed {seed}");
            faults += u32::from(whole.0.is_err());
            pinged += whole.1.len();
        }
        assert!(faults > 1000 && pinged > 1000, "the noise reaches both: {faults}, {pinged}");
        assert!(size_of::<Reader>() <= 256, "all that a client can make us keep");
    }
}
