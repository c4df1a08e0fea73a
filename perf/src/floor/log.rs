//! The events of a floor-sender as bytes, a batch of frames at a time.

use crate::http2::{HEAD_BYTES, PAYLOAD_BYTES_MAX, kind, push_frame};
use crate::object::Recipe;
use crate::stamp::{STAMP_BYTES, Stamp};
use fastrand::Rng;
use memchr::memmem;
use std::io::Write;
use std::ops::Range;

/// Revisions begin here: all that a run can reach have ten digits.
pub(crate) const FIRST_REVISION: u64 = 1_000_000_000;
const ENVELOPE: &str = r#"{"type":"MODIFIED","object":"#;
const METADATA: &str = r#""metadata":{"#;
const STAMP: &str = r#""stamp":""#;

/// One object's event as bytes on the wire, but for the places that change with each write.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) object: u32,
    /// Chunk size, event, newline, end of the chunk; over HTTP/2 a DATA frame or several.
    pub(crate) frame: Vec<u8>,
    /// Of HTTP/2, by turns: a frame's head, its payload.
    pub(crate) pieces: Vec<Range<usize>>,
    pub(crate) revision_at: usize,
    pub(crate) stamp_at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Object(usize),
    Frame(usize),
}

/// Sets the recipe's padding for `size`, as near as it goes. Gives the bytes of the first object.
pub(crate) fn pad_for(recipe: &mut Recipe, size: Size, http2: bool) -> usize {
    recipe.pad_bytes = 0;
    let (wanted, bare) = match size {
        Size::Object(wanted) => (wanted, object_of(recipe, 0).len()),
        Size::Frame(wanted) => (wanted, prepare(recipe, 0, http2).frame.len()),
    };
    recipe.pad_bytes = wanted.saturating_sub(bare);
    if let Size::Frame(wanted) = size {
        // A longer chunk has a longer size in front of it.
        let over = prepare(recipe, 0, http2).frame.len().saturating_sub(wanted);
        recipe.pad_bytes = recipe.pad_bytes.saturating_sub(over);
    }
    object_of(recipe, 0).len()
}

pub(crate) fn prepare(recipe: &Recipe, object: u32, http2: bool) -> Prepared {
    let text = format!("{ENVELOPE}{}}}\n", object_of(recipe, object));
    let (mut frame, mut pieces) = (Vec::new(), Vec::new());
    if http2 {
        let stamp_at = text.rfind(STAMP).unwrap_or(0);
        let (mut at, within) = (0, stamp_at + 1..stamp_at + STAMP.len() + STAMP_BYTES);
        while at < text.len() {
            let end = text.len().min(at + PAYLOAD_BYTES_MAX);
            // The stamp is in one frame.
            let end = if within.contains(&end) { stamp_at } else { end };
            let from = frame.len();
            push_frame(&mut frame, kind::DATA, 0, 1, &text.as_bytes()[at..end]);
            pieces.extend([from..from + HEAD_BYTES, from + HEAD_BYTES..frame.len()]);
            at = end;
        }
    } else {
        frame = format!("{:x}\r\n{text}\r\n", text.len()).into_bytes();
        pieces.push(0..frame.len());
    }
    let revision = format!("\"{FIRST_REVISION}\"");
    let revision_at = memmem::find(&frame, revision.as_bytes()).unwrap_or(0) + 1;
    let stamp_at = memmem::rfind(&frame, STAMP.as_bytes()).unwrap_or(0) + STAMP.len();
    Prepared { object, frame, pieces, revision_at, stamp_at }
}

/// The object as a server keeps it: with uid, revision and time.
fn object_of(recipe: &Recipe, object: u32) -> String {
    let sent = String::from_utf8_lossy(recipe.body_of(object).bytes()).into_owned();
    let added = format!(
        r#"{METADATA}"uid":"{object:08x}-0000-4000-8000-{:012x}","resourceVersion":"{FIRST_REVISION}","creationTimestamp":"2026-01-01T00:00:00Z","#,
        recipe.run & 0xffff_ffff_ffff
    );
    sent.replacen(METADATA, &added, 1)
}

/// The digits of a revision in a prepared frame.
const REVISION_BYTES: usize = 10;

/// Events for one connection.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    /// What to gather for the same bytes. All streams of HTTP/2 share one payload.
    pub(crate) pieces: Vec<Range<usize>>,
    /// How many streams it is for, one after the other; 1 of HTTP/1.1.
    pub(crate) streams: usize,
}

impl Batch {
    /// The same for a connection that has only so many streams.
    pub(crate) fn of(&self, streams: usize) -> &[u8] {
        &self.bytes[..self.bytes.len() / self.streams * streams]
    }

    /// Repeats what there is of the first stream for all others.
    fn spread(&mut self) {
        let (bytes, pieces) = (self.bytes.len(), self.pieces.len());
        for stream in 1..self.streams {
            let id = u32::try_from(stream * 2 + 1).unwrap_or(u32::MAX).to_be_bytes();
            self.bytes.extend_from_within(..bytes);
            for at in (0..pieces).step_by(2) {
                let head = self.pieces[at].start + stream * bytes..self.pieces[at].end + stream * bytes;
                self.bytes[head.end - id.len()..head.end].copy_from_slice(&id);
                self.pieces.extend([head, self.pieces[at + 1].clone()]);
            }
        }
    }
}

pub(crate) struct Log {
    pub(crate) batch: Batch,
    /// Each with the number of its last event.
    frames: Vec<(Prepared, u32)>,
    run: u64,
    revision: u64,
    random: Rng,
}

impl Log {
    /// `streams`: of a connection of HTTP/2; `None`: HTTP/1.1.
    pub(crate) fn new(recipe: &Recipe, streams: Option<usize>) -> Self {
        let prepare = |object| (prepare(recipe, object, streams.is_some()), 0);
        Self {
            batch: Batch { streams: streams.unwrap_or(1), ..Batch::default() },
            frames: (0..recipe.objects()).map(prepare).collect(),
            run: recipe.run,
            revision: FIRST_REVISION,
            random: Rng::with_seed(recipe.seed),
        }
    }

    /// Makes a batch: one event, of a random object, for each of the moments at which they were meant to be sent.
    pub(crate) fn make(&mut self, moments_ns: impl Iterator<Item = u64>) {
        let Batch { bytes, pieces, .. } = &mut self.batch;
        bytes.clear();
        pieces.clear();
        for intended_ns in moments_ns {
            let spot = self.random.usize(..self.frames.len());
            let (prepared, seq) = &mut self.frames[spot];
            *seq += 1;
            self.revision += 1;
            let at = bytes.len();
            bytes.extend_from_slice(&prepared.frame);
            pieces.extend(prepared.pieces.iter().map(|piece| at + piece.start..at + piece.end));
            let frame = &mut bytes[at..];
            let mut digits = &mut frame[prepared.revision_at..prepared.revision_at + REVISION_BYTES];
            // Ten digits last for nine thousand million events.
            let _fits = write!(digits, "{}", self.revision);
            let stamp = Stamp { run: self.run, object: prepared.object, seq: *seq, intended_ns };
            stamp.write(&mut frame[prepared.stamp_at..prepared.stamp_at + STAMP_BYTES]);
        }
        self.batch.spread();
    }

    pub(crate) fn finals(&self) -> Vec<(u32, u32)> {
        self.frames.iter().map(|(prepared, seq)| (prepared.object, *seq)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, Kind};
    use crate::http2::Head;
    use revcast_http1::{ChunkDecoder, Step};

    #[test]
    fn each_event_is_one_that_watchers_accept_and_is_counted_once() {
        let mut log = Log::new(&Recipe::of_test("configmaps", 12), None);
        log.make([10, 20, 30].into_iter());
        let mut bytes = log.batch.bytes.clone();
        assert_eq!((log.batch.pieces.len(), log.batch.pieces[2].end), (3, bytes.len()));
        log.make([40].into_iter());
        bytes.extend_from_slice(&log.batch.bytes);
        let (mut input, mut decoder) = (bytes.as_slice(), ChunkDecoder::new());
        for (revision, moment) in (FIRST_REVISION + 1..).zip([10, 20, 30, 40]) {
            let Ok(Step::Data(data)) = decoder.next(&mut input) else { panic!("one chunk an event") };
            let line = data.strip_suffix(b"\n").expect("a line");
            let event = Event::read(line).expect("an event");
            assert_eq!((event.kind, event.revision), (Kind::Modified, Some(revision)));
            let stamp = event.stamp.expect("a stamp");
            assert_eq!((stamp.run, stamp.intended_ns), (7, moment));
        }
        assert!(matches!(decoder.next(&mut input), Ok(Step::More)), "and no more");
        assert_eq!(log.finals().iter().map(|&(_, seq)| seq).sum::<u32>(), 4);
        assert!(log.finals().iter().map(|&(object, _)| object).eq(0..12));
    }

    #[test]
    fn frames_have_the_bytes_that_were_asked_for() {
        let mut recipe = Recipe::of_test("configmaps", 12);
        assert_eq!(pad_for(&mut recipe, Size::Object(1024), false), 1024);
        for (wanted, http2) in
            [(700, true), (1024, false), (1083, true), (4136, false), (70_000, false), (70_000, true)]
        {
            pad_for(&mut recipe, Size::Frame(wanted), http2);
            let found = prepare(&recipe, 0, http2).frame.len();
            assert!(found.abs_diff(wanted) <= 1, "{found} for {wanted}");
        }
        pad_for(&mut recipe, Size::Frame(10), false);
        assert_eq!(recipe.pad_bytes, 0, "no smaller than it is without padding");
    }

    #[test]
    fn each_stream_gets_the_same_event_whole_and_in_pieces() {
        let mut recipe = Recipe::of_test("configmaps", 1);
        let stamp_at = prepare(&recipe, 0, true).stamp_at;
        // The first frame would end before, in and after the stamp.
        for more in [0, 10, STAMP_BYTES + 20] {
            recipe.pad_bytes = PAYLOAD_BYTES_MAX + HEAD_BYTES - stamp_at - more;
            let mut log = Log::new(&recipe, Some(3));
            log.make([1, 2].into_iter());
            let Batch { bytes, pieces, .. } = &log.batch;
            let gathered: Vec<u8> = pieces.iter().flat_map(|piece| &bytes[piece.clone()]).copied().collect();
            assert!(gathered == *bytes && log.batch.of(2).len() * 3 == bytes.len() * 2);
            let (mut lines, mut rest) = (vec![Vec::new(); 3], &bytes[..]);
            while let Some((head, more)) = rest.split_first_chunk() {
                let head = Head::read(*head);
                lines[head.stream as usize / 2].extend_from_slice(&more[..head.length]);
                rest = &more[head.length..];
            }
            assert!(lines[0] == lines[1] && lines[1] == lines[2]);
            let each = lines[0].split_inclusive(|&byte| byte == b'\n');
            let moments = each.map(|line| Event::read(line)?.stamp.map(|stamp| stamp.intended_ns));
            assert!(moments.eq([Some(1), Some(2)]), "{more}");
        }
    }
}
