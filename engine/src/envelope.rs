//! The JSON envelope of a watch event, as Kubernetes writes it: its type and its object, on one line.

use crate::message::MessageKind;

const ERROR_OPENING: &[u8] = b"{\"type\":\"ERROR\",\"object\":";
/// What follows the object of an event.
pub(crate) const CLOSING: &[u8] = b"}\n";

const fn opening(kind: MessageKind) -> &'static [u8] {
    match kind {
        MessageKind::Added => b"{\"type\":\"ADDED\",\"object\":",
        MessageKind::Modified => b"{\"type\":\"MODIFIED\",\"object\":",
        MessageKind::Deleted => b"{\"type\":\"DELETED\",\"object\":",
        MessageKind::Bookmark => b"{\"type\":\"BOOKMARK\",\"object\":",
    }
}

/// Appends an event around the object that `write_object` appends. Returns what that returns.
pub fn event<T>(out: &mut Vec<u8>, kind: MessageKind, write_object: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    out.extend_from_slice(opening(kind));
    let written = write_object(out);
    out.extend_from_slice(CLOSING);
    written
}

/// Appends an ERROR event around a Status object.
pub fn error(out: &mut Vec<u8>, status: &[u8]) {
    out.extend_from_slice(ERROR_OPENING);
    out.extend_from_slice(status);
    out.extend_from_slice(CLOSING);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let mut out = b"before".to_vec();
        event(&mut out, MessageKind::Added, |out| out.extend_from_slice(b"{\"a\":1}"));
        assert_eq!(&out[6..], b"{\"type\":\"ADDED\",\"object\":{\"a\":1}}\n");
    }
}
