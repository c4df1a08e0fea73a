//! The frames that a floor-sender sends, made from the same recipe as the objects of a real server and with what such a
//! server adds to them. The coordinator makes them; the sender only patches revision and stamp.

use super::message::Prepared;
use crate::object::Recipe;

/// Revisions begin here: all that a run can reach have ten digits.
pub(crate) const FIRST_REVISION: u64 = 1_000_000_000;
const ENVELOPE: &str = r#"{"type":"MODIFIED","object":"#;
const METADATA: &str = r#""metadata":{"#;
const STAMP: &str = r#""stamp":""#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Object(usize),
    /// All bytes of its event in the stream.
    Frame(usize),
}

/// Sets the recipe's padding for `size`, as near as it goes. Gives the bytes of the first object.
pub(crate) fn pad_for(recipe: &mut Recipe, size: Size) -> usize {
    recipe.pad_bytes = 0;
    let (wanted, bare) = match size {
        Size::Object(wanted) => (wanted, object_of(recipe, 0).len()),
        Size::Frame(wanted) => (wanted, prepare(recipe, 0).frame.len()),
    };
    recipe.pad_bytes = wanted.saturating_sub(bare);
    if let Size::Frame(wanted) = size {
        // A longer chunk has a longer size in front of it.
        let over = prepare(recipe, 0).frame.len().saturating_sub(wanted);
        recipe.pad_bytes = recipe.pad_bytes.saturating_sub(over);
    }
    object_of(recipe, 0).len()
}

pub(crate) fn prepare_all(recipe: &Recipe) -> Vec<Prepared> {
    (0..recipe.objects()).map(|object| prepare(recipe, object)).collect()
}

fn prepare(recipe: &Recipe, object: u32) -> Prepared {
    let json = object_of(recipe, object);
    let chunk = ENVELOPE.len() + json.len() + 2;
    let frame = format!("{chunk:x}\r\n{ENVELOPE}{json}}}\n\r\n");
    let revision = format!("\"{FIRST_REVISION}\"");
    let place = |text: &str, found: Option<usize>| found.unwrap_or(0) + text.len();
    let revision_at = place("\"", frame.find(&revision));
    let stamp_at = place(STAMP, frame.rfind(STAMP));
    Prepared { object, frame, revision_at, stamp_at }
}

/// The object as a server keeps it: with uid, revision and time.
fn object_of(recipe: &Recipe, object: u32) -> String {
    let sent = String::from_utf8_lossy(recipe.body_of(object).bytes()).into_owned();
    let added = format!(
        r#""uid":"{object:08x}-0000-4000-8000-{:012x}","resourceVersion":"{FIRST_REVISION}","creationTimestamp":"2026-01-01T00:00:00Z","#,
        recipe.run & 0xffff_ffff_ffff
    );
    sent.replacen(METADATA, &format!("{METADATA}{added}"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunked::{ChunkDecoder, Step};
    use crate::endpoint::Resource;
    use crate::event::{Event, Kind};

    fn recipe() -> Recipe {
        Recipe {
            resource: Resource::parse("configmaps").expect("built in"),
            namespaces: vec!["floor".to_owned()],
            per_namespace: 12,
            run: 0xabc,
            seed: 5,
            pad_bytes: 0,
        }
    }

    #[test]
    fn a_frame_is_an_event_that_the_watchers_accept() {
        let mut recipe = recipe();
        assert_eq!(pad_for(&mut recipe, Size::Object(1024)), 1024);
        for prepared in prepare_all(&recipe) {
            let mut input = prepared.frame.as_bytes();
            let mut decoder = ChunkDecoder::new();
            let Ok(Step::Data(data)) = decoder.next(&mut input) else { panic!("a chunk") };
            assert!(matches!(decoder.next(&mut input), Ok(Step::More)), "one chunk and its end");
            let line = data.strip_suffix(b"\n").expect("a line");
            let event = Event::read(line).expect("an event");
            assert_eq!((event.kind, event.revision), (Kind::Modified, Some(FIRST_REVISION)));
            let stamp = event.stamp.expect("a stamp");
            assert_eq!((stamp.run, stamp.object), (0xabc, prepared.object));
            assert!(prepared.frame[prepared.revision_at..].starts_with("1000000000\""));
            assert!(prepared.frame[prepared.stamp_at..].starts_with("0000000000000abc."));
        }
    }

    #[test]
    fn frames_have_the_bytes_that_were_asked_for() {
        let mut recipe = recipe();
        for wanted in [700, 1024, 1083, 4096 + 40, 70_000] {
            pad_for(&mut recipe, Size::Frame(wanted));
            let found = prepare(&recipe, 0).frame.len();
            assert!(found.abs_diff(wanted) <= 1, "{found} for {wanted}");
        }
        pad_for(&mut recipe, Size::Frame(10));
        assert_eq!(recipe.pad_bytes, 0, "no smaller than it is without padding");
    }
}
