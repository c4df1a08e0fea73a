//! Takes the JSON of a list apart while it arrives: one item after the other, and what is left without them. A list may
//! have hundreds of MiB; what is held is one item.

use memchr::memchr2;

const ITEM_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What a list may have besides its items.
const REST_BYTES_MAX: usize = 64 * 1024;
/// Items stand in an array of the outermost object.
const ITEM_DEPTH: usize = 2;

#[derive(Debug, Default)]
pub(super) struct Items {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// At depth 2: inside of an array.
    in_array: bool,
    item: Vec<u8>,
    /// Everything but the items, and the commas between them.
    rest: Vec<u8>,
}

impl Items {
    /// Takes the next bytes and gives each item that is complete to `on_item`. False: it is no list, or too much of one.
    pub(super) fn take(&mut self, mut data: &[u8], mut on_item: impl FnMut(&[u8])) -> bool {
        while let Some(&byte) = data.first() {
            let inside = self.depth > ITEM_DEPTH;
            if self.in_string && !self.escaped {
                let plain = memchr2(b'"', b'\\', data).unwrap_or(data.len());
                if plain > 0 {
                    self.put(&data[..plain]);
                    data = &data[plain..];
                    continue;
                }
            }
            data = &data[1..];
            let opens = !self.in_string && matches!(byte, b'{' | b'[');
            let closes = !self.in_string && matches!(byte, b'}' | b']');
            if self.in_string {
                self.in_string = self.escaped || byte != b'"';
                self.escaped = byte == b'\\' && !self.escaped;
            } else if byte == b'"' {
                self.in_string = true;
            } else if opens {
                self.depth += 1;
                self.in_array |= self.depth == ITEM_DEPTH && byte == b'[';
            } else if closes {
                let Some(depth) = self.depth.checked_sub(1) else { return false };
                self.depth = depth;
                self.in_array &= depth >= ITEM_DEPTH;
            }
            let between = self.in_array && self.depth == ITEM_DEPTH && !inside && byte == b',';
            if (inside && self.in_array) || (opens && self.is_item()) {
                self.item.push(byte);
            } else if !between {
                self.rest.push(byte);
            }
            if closes && self.in_array && self.depth == ITEM_DEPTH {
                on_item(&self.item);
                self.item.clear();
            }
            if self.item.len() > ITEM_BYTES_MAX || self.rest.len() > REST_BYTES_MAX {
                return false;
            }
        }
        true
    }

    /// What there is besides the items, once the list is complete.
    pub(super) fn rest(&self) -> &[u8] {
        &self.rest
    }

    const fn is_item(&self) -> bool {
        self.in_array && self.depth > ITEM_DEPTH
    }

    fn put(&mut self, text: &[u8]) {
        if self.is_item() { self.item.extend_from_slice(text) } else { self.rest.extend_from_slice(text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&[u8]]) -> (Vec<String>, String, bool) {
        let mut items = Items::default();
        let mut found = Vec::new();
        let right = pieces
            .iter()
            .all(|piece| items.take(piece, |item| found.push(String::from_utf8_lossy(item).into_owned())));
        (found, String::from_utf8_lossy(items.rest()).into_owned(), right)
    }

    #[test]
    fn items_at_every_split() {
        let list = br#"{"kind":"L","metadata":{"resourceVersion":"7","x":{"y":[1,{"z":2}]}}, "items":[{"a":"}],{\"","b":[1,{"c":[]}]},{},{"d":{"e":"\\"}}]}"#;
        for first in 0..=list.len() {
            for second in [first, list.len() / 2, list.len()] {
                let second = second.max(first);
                let (items, rest, right) = split(&[&list[..first], &list[first..second], &list[second..]]);
                assert_eq!(
                    items,
                    [r#"{"a":"}],{\"","b":[1,{"c":[]}]}"#, "{}", r#"{"d":{"e":"\\"}}"#],
                    "{first}"
                );
                let bare =
                    r#"{"kind":"L","metadata":{"resourceVersion":"7","x":{"y":[1,{"z":2}]}}, "items":[]}"#;
                assert_eq!((rest.as_str(), right), (bare, true));
            }
        }
        let (items, rest, right) = split(&[br#"{"items":[],"metadata":{}}"#]);
        assert!(items.is_empty() && right && rest == r#"{"items":[],"metadata":{}}"#);
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(!split(&[b"}"]).2);
        assert!(!split(&[&vec![b' '; REST_BYTES_MAX + 1]]).2);
    }
}
