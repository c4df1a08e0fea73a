//! Takes the JSON of a list, which may have hundreds of MiB, apart while it arrives: what is held is one item.

use memchr::memchr2;

const ITEM_BYTES_MAX: usize = 16 * 1024 * 1024;
const REST_BYTES_MAX: usize = 64 * 1024;
/// Items stand in an array of the outermost object.
const ITEM_DEPTH: usize = 2;

#[derive(Debug, Default)]
pub(super) struct Items {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// In an array of the outermost object.
    in_array: bool,
    /// Everything but the items and the commas between them; after it, from `item_at` on, the item that is not complete.
    text: Vec<u8>,
    item_at: Option<usize>,
}

impl Items {
    /// Takes the next bytes and gives each item that is complete to `on_item`. False: it is no list, or too much of one.
    pub(super) fn take(&mut self, mut data: &[u8], mut on_item: impl FnMut(&[u8])) -> bool {
        while let Some((&byte, after)) = data.split_first() {
            if self.in_string {
                let end = if self.escaped { Some(0) } else { memchr2(b'"', b'\\', data) };
                let (text, rest) = data.split_at(end.map_or(data.len(), |at| at + 1));
                self.in_string = self.escaped || !text.ends_with(b"\"");
                self.escaped = !self.escaped && text.ends_with(b"\\");
                self.text.extend_from_slice(text);
                data = rest;
                continue;
            }
            data = after;
            match byte {
                b',' if self.in_array && self.item_at.is_none() => continue,
                b'"' => self.in_string = true,
                b'{' | b'[' => {
                    if self.in_array && self.depth == ITEM_DEPTH {
                        self.item_at = Some(self.text.len());
                    }
                    self.depth += 1;
                    self.in_array |= self.depth == ITEM_DEPTH && byte == b'[';
                }
                b'}' | b']' => {
                    let Some(depth) = self.depth.checked_sub(1) else { return false };
                    self.depth = depth;
                    self.in_array &= depth >= ITEM_DEPTH;
                }
                _ => {}
            }
            self.text.push(byte);
            if let Some(at) = self.item_at.take_if(|_| self.depth == ITEM_DEPTH) {
                on_item(&self.text[at..]);
                self.text.truncate(at);
            }
        }
        let rest = self.item_at.unwrap_or(self.text.len());
        rest <= REST_BYTES_MAX && self.text.len() - rest <= ITEM_BYTES_MAX
    }

    pub(super) fn rest(&self) -> &[u8] {
        &self.text
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
