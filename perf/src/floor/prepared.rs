//! The frames that a floor-sender sends: events of a recipe's objects, with what a real server adds to them. The sender only
//! patches revision and stamp.

use crate::object::Recipe;

/// Revisions begin here: all that a run can reach have ten digits.
pub(crate) const FIRST_REVISION: u64 = 1_000_000_000;
const ENVELOPE: &str = r#"{"type":"MODIFIED","object":"#;
const METADATA: &str = r#""metadata":{"#;
const STAMP: &str = r#""stamp":""#;

/// One object's event as bytes on the wire, but for the places that change with each write.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) object: u32,
    /// Chunk size, event, newline, end of the chunk.
    pub(crate) frame: String,
    pub(crate) revision_at: usize,
    pub(crate) stamp_at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Object(usize),
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

pub(crate) fn prepare(recipe: &Recipe, object: u32) -> Prepared {
    let json = object_of(recipe, object);
    let chunk = ENVELOPE.len() + json.len() + 2;
    let frame = format!("{chunk:x}\r\n{ENVELOPE}{json}}}\n\r\n");
    let revision = format!("\"{FIRST_REVISION}\"");
    let revision_at = frame.find(&revision).unwrap_or(0) + 1;
    let stamp_at = frame.rfind(STAMP).unwrap_or(0) + STAMP.len();
    Prepared { object, frame, revision_at, stamp_at }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_bytes_that_were_asked_for() {
        let mut recipe = Recipe::of_test("configmaps", 12);
        assert_eq!(pad_for(&mut recipe, Size::Object(1024)), 1024);
        for wanted in [700, 1024, 1083, 4096 + 40, 70_000] {
            pad_for(&mut recipe, Size::Frame(wanted));
            let found = prepare(&recipe, 0).frame.len();
            assert!(found.abs_diff(wanted) <= 1, "{found} for {wanted}");
        }
        pad_for(&mut recipe, Size::Frame(10));
        assert_eq!(recipe.pad_bytes, 0, "no smaller than it is without padding");
    }
}
