//! What a watch asks for: the media type, how its events stand in the response's body, and how one of them is read.

use crate::event::Event;
use crate::http::Refusal;
use crate::packed;
use clap::ValueEnum;
use memchr::{memchr, memmem};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Media {
    #[default]
    Json,
    Protobuf,
    /// Another form of JSON, by its media type (Tables, metadata alone). Its events carry no stamp: they are counted, and their
    /// revisions must grow.
    Unstamped(String),
}

const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;
const LENGTH_BYTES: usize = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Encoding {
    #[default]
    Json,
    Protobuf,
}

impl From<Encoding> for Media {
    fn from(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Json => Self::Json,
            Encoding::Protobuf => Self::Protobuf,
        }
    }
}

impl Media {
    /// What the request accepts, unless it is plain JSON.
    pub(crate) fn accept(&self) -> Option<&str> {
        match self {
            Self::Json => None,
            Self::Protobuf => Some("application/vnd.kubernetes.protobuf;stream=watch"),
            Self::Unstamped(accept) => Some(accept),
        }
    }

    pub(crate) const fn has_stamps(&self) -> bool {
        !matches!(self, Self::Unstamped(_))
    }

    /// Whether what follows the last whole event is white space, which says that the server is there.
    pub(crate) fn is_filler(&self, rest: &[u8]) -> bool {
        rest.is_empty() || *self != Self::Protobuf && rest.trim_ascii_start().is_empty()
    }

    /// Gives each event that ends in `data` to `on_event`; `held` has the beginning of the first one, and is empty after it.
    /// Returns what follows the last whole event. An event that lies whole in the data is not copied.
    pub(crate) fn cut<'a>(
        &self,
        held: &mut Vec<u8>,
        data: &'a [u8],
        on_event: impl FnMut(&[u8]),
    ) -> &'a [u8] {
        if *self == Self::Protobuf {
            cut_frames(held, data, on_event)
        } else {
            cut_lines(held, data, on_event)
        }
    }

    pub(crate) fn read(&self, event: &[u8]) -> Option<Event> {
        if *self == Self::Protobuf { packed::read(event) } else { Event::read(event) }
    }

    /// Whether an ERROR event says that what the watch asked for is gone.
    pub(crate) fn is_gone(&self, event: &[u8]) -> bool {
        let mark: &[u8] = if *self == Self::Protobuf { b"Expired" } else { br#""code":410"# };
        memmem::find(event, mark).is_some()
    }
}

pub(crate) fn hold(held: &mut Vec<u8>, more: &[u8]) -> Result<(), Refusal> {
    if held.len() + more.len() > EVENT_BYTES_MAX {
        return Err(Refusal::Broken("the server sent an event over 16 MiB".to_owned()));
    }
    held.extend_from_slice(more);
    Ok(())
}

fn cut_lines<'a>(held: &mut Vec<u8>, mut data: &'a [u8], mut on_line: impl FnMut(&[u8])) -> &'a [u8] {
    while let Some(end) = memchr(b'\n', data) {
        let line = &data[..end];
        data = &data[end + 1..];
        if held.is_empty() {
            on_line(line);
        } else {
            held.extend_from_slice(line);
            on_line(held);
            held.clear();
        }
    }
    data
}

/// Bytes of the frame that begins here; `None`: not even its length is here.
fn frame_bytes(bytes: &[u8]) -> Option<usize> {
    let length = bytes.first_chunk::<LENGTH_BYTES>()?;
    Some(LENGTH_BYTES + u32::from_be_bytes(*length) as usize)
}

/// The events of a watch stream in protobuf: each after its length.
fn cut_frames<'a>(held: &mut Vec<u8>, mut data: &'a [u8], mut on_frame: impl FnMut(&[u8])) -> &'a [u8] {
    if !held.is_empty() {
        let (length, after) = data.split_at(data.len().min(LENGTH_BYTES.saturating_sub(held.len())));
        held.extend_from_slice(length);
        let missing = frame_bytes(held).map(|wanted| wanted - held.len());
        let Some((frame, after)) = missing.and_then(|missing| after.split_at_checked(missing)) else {
            return after;
        };
        held.extend_from_slice(frame);
        on_frame(&held[LENGTH_BYTES..]);
        held.clear();
        data = after;
    }
    while let Some((frame, after)) = frame_bytes(data).and_then(|wanted| data.split_at_checked(wanted)) {
        on_frame(&frame[LENGTH_BYTES..]);
        data = after;
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events that are found when `stream` comes in two pieces, and what is left.
    fn cut(media: &Media, stream: &[u8], split: usize) -> (Vec<Vec<u8>>, Vec<u8>) {
        let (mut held, mut found) = (Vec::new(), Vec::new());
        for piece in [&stream[..split], &stream[split..]] {
            let rest = media.cut(&mut held, piece, |event| found.push(event.to_vec()));
            assert!(hold(&mut held, rest).is_ok());
        }
        (found, held)
    }

    #[test]
    fn events_at_every_split() {
        let frames = b"\0\0\0\x03abc\0\0\0\0\0\0\0\x01\n\0\0\0\x02x";
        let lines = b"abc\n\n\\n\nx";
        for split in 0..=frames.len() {
            let (found, rest) = cut(&Media::Protobuf, frames, split);
            assert_eq!(found, [&b"abc"[..], b"", b"\n"], "split at {split}");
            assert_eq!(rest, b"\0\0\0\x02x");
        }
        for split in 0..=lines.len() {
            let (found, rest) = cut(&Media::Json, lines, split);
            assert_eq!(found, [&b"abc"[..], b"", b"\\n"], "split at {split}");
            assert_eq!(rest, b"x");
        }
        let mut held = Vec::new();
        assert!(hold(&mut held, &[0; 17 << 20]).is_err(), "a frame that never ends is refused");
    }

    #[test]
    fn fillers() {
        assert!([&b""[..], b" ", b"\r\n "].iter().all(|rest| Media::Json.is_filler(rest)));
        assert!(!Media::Json.is_filler(b" {"));
        assert!(Media::Protobuf.is_filler(b"") && !Media::Protobuf.is_filler(b" "));
    }
}
