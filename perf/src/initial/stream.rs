//! One client that asked for everything: whether it got every object once and then the mark. It knows no socket and no clock.

use crate::brought::{Brought, End};
use crate::event::{Event, Kind};
use crate::http::{Refusal, excerpt};
use crate::known::Known;
use crate::media::{Media, hold};
use crate::stamp::decimal;
use crate::tally::sums;
use flate2::write::GzDecoder;
use memchr::{memchr2, memmem};
use serde_json::Value;
use std::io::Write;

const ITEM_BYTES_MAX: usize = 16 * 1024 * 1024;
const REST_BYTES_MAX: usize = 64 * 1024;
/// Items stand in an array of the outermost object.
const ITEM_DEPTH: usize = 2;

/// Takes the JSON of a list, which may have hundreds of MiB, apart while it arrives: what is held is one item.
#[derive(Default)]
struct Items {
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

/// What the mark carries (KEP-3157).
const END_MARK: &[u8] = br#""k8s.io/initial-events-end":"true""#;

pub(super) struct Wanted {
    pub(super) run: u64,
    pub(super) objects: u32,
    pub(super) list: bool,
}

sums! {
    /// Of one client or of all.
    Found {
        /// Objects.
        #[serde(rename = "objects_received")]
        received,
        /// As they came over the sockets, heads and framing too.
        bytes,
        /// Objects that were not there when the mark came, or the list ended.
        missing,
        duplicated,
        /// What belongs to no object of this run, or has no place in initial events.
        unexpected,
        malformed,
        /// Marks, and lists, that are older than an object before them.
        stale_marks,
        unfinished,
    }
}

impl Found {
    /// Counts so many more; the first fault of all is kept in words.
    fn count(&mut self, field: fn(&mut Self) -> &mut u64, more: u64, describe: impl FnOnce() -> String) {
        *field(self) += more;
        self.note(|| (more > 0).then(describe));
    }
}

#[derive(Default)]
pub(super) struct Stream {
    /// The beginning of a line.
    held: Vec<u8>,
    gzip: Option<GzDecoder<Vec<u8>>>,
    items: Items,
    seen: Vec<u64>,
    newest: u64,
    pub(super) is_synced: bool,
    given_up: bool,
    pub(super) found: Found,
}

impl Stream {
    pub(super) fn new(wanted: &Wanted) -> Self {
        Self { seen: vec![0; (wanted.objects as usize).div_ceil(64)], ..Self::default() }
    }

    /// Takes what came of its response. True: now it has everything.
    pub(super) fn take(
        &mut self,
        brought: Brought<'_>,
        wanted: &Wanted,
        known: &mut Known,
    ) -> Result<bool, Refusal> {
        if self.is_synced {
            return Ok(false);
        }
        match brought {
            Brought::Head { gzip } => self.gzip = gzip.then(|| GzDecoder::new(Vec::new())),
            Brought::Data(data) => self.take_data(data, wanted, known)?,
            Brought::End(End::Whole) if wanted.list => self.end_of_list(wanted),
            Brought::End(End::Whole) => {
                return Err(Refusal::Broken("the server ended a watch before its mark".to_owned()));
            }
            Brought::End(End::Refused(status, words)) => return Err(Refusal::Status(status, words)),
            Brought::End(End::Cut(why) | End::Broken(why)) => return Err(Refusal::Broken(why)),
        }
        Ok(self.is_synced)
    }

    /// The connection ended, or nobody waits any longer. False: it was over before.
    pub(super) fn give_up(&mut self, why: &str) -> bool {
        let gives_up = !self.is_synced && !std::mem::replace(&mut self.given_up, true);
        let received = self.found.received;
        let describe = || format!("{why}, after {received} objects");
        self.found.count(|found| &mut found.unfinished, u64::from(gives_up), describe);
        gives_up
    }

    fn take_data(&mut self, data: &[u8], wanted: &Wanted, known: &mut Known) -> Result<(), Refusal> {
        let Some(mut gzip) = self.gzip.take() else { return self.take_text(data, wanted, known) };
        let plain = gzip.write_all(data).and_then(|()| gzip.flush());
        plain.map_err(|fault| Refusal::Broken(format!("the server's gzip is broken: {fault}")))?;
        let text = std::mem::take(gzip.get_mut());
        self.gzip = Some(gzip);
        self.take_text(&text, wanted, known)
    }

    fn take_text(&mut self, data: &[u8], wanted: &Wanted, known: &mut Known) -> Result<(), Refusal> {
        if wanted.list {
            let (mut items, mut line) = (std::mem::take(&mut self.items), Vec::new());
            let is_list = items.take(data, |item| {
                // As an event, so that both are read alike.
                line.clear();
                line.extend_from_slice(br#"{"type":"ADDED","object":"#);
                line.extend_from_slice(item);
                line.push(b'}');
                self.on_line(&line, wanted, known);
            });
            self.items = items;
            let broken = || Refusal::Broken("what the server sent is no list".to_owned());
            return if is_list { Ok(()) } else { Err(broken()) };
        }
        let mut held = std::mem::take(&mut self.held);
        let rest = Media::Json.cut(&mut held, data, |line| {
            if !self.is_synced {
                self.on_line(line, wanted, known);
            }
        });
        self.held = held;
        hold(&mut self.held, rest)
    }

    fn on_line(&mut self, line: &[u8], wanted: &Wanted, known: &mut Known) {
        let Some(event) = known.read(&Media::Json, line) else {
            let describe = || format!("neither a watch event nor an object: {}", excerpt(line));
            return self.found.count(|found| &mut found.malformed, 1, describe);
        };
        match event.kind {
            Kind::Added => self.on_object(event, line, wanted),
            Kind::Bookmark if memmem::find(line, END_MARK).is_some() => {
                self.on_mark(event.revision.unwrap_or(0), wanted);
            }
            Kind::Bookmark => {}
            Kind::Modified | Kind::Deleted | Kind::Error => {
                let describe = || format!("an event before the mark: {}", excerpt(line));
                self.found.count(|found| &mut found.unexpected, 1, describe);
            }
        }
    }

    fn end_of_list(&mut self, wanted: &Wanted) {
        let rest: Value = serde_json::from_slice(self.items.rest()).unwrap_or_default();
        let revision = rest["metadata"]["resourceVersion"].as_str().and_then(|text| decimal(text.as_bytes()));
        let describe = || "a list without a numeric resourceVersion".to_owned();
        self.found.count(|found| &mut found.malformed, u64::from(revision.is_none()), describe);
        self.on_mark(revision.unwrap_or(u64::MAX), wanted);
    }

    fn on_object(&mut self, event: Event, line: &[u8], wanted: &Wanted) {
        let stamp = event.stamp.filter(|stamp| stamp.run == wanted.run && stamp.object < wanted.objects);
        let (Some(stamp), Some(revision)) = (stamp, event.revision) else {
            let describe = || format!("an object that is none of this run's: {}", excerpt(line));
            return self.found.count(|found| &mut found.unexpected, 1, describe);
        };
        let (word, bit) = ((stamp.object / 64) as usize, 1 << (stamp.object % 64));
        if self.seen[word] & bit != 0 {
            let describe = || format!("object {} came again", stamp.object);
            return self.found.count(|found| &mut found.duplicated, 1, describe);
        }
        self.seen[word] |= bit;
        self.found.received += 1;
        self.newest = self.newest.max(revision);
    }

    /// All objects must have come, and none may be newer.
    fn on_mark(&mut self, revision: u64, wanted: &Wanted) {
        self.is_synced = true;
        let (missing, newest) = (u64::from(wanted.objects) - self.found.received, self.newest);
        let describe = || format!("{missing} objects were missing at the end");
        self.found.count(|found| &mut found.missing, missing, describe);
        let describe = || format!("the end says revision {revision}, an object has {newest}");
        self.found.count(|found| &mut found.stale_marks, u64::from(revision < newest), describe);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::tests::line;
    use crate::http::tests::chunks;
    use crate::stamp::Stamp;
    use crate::wire::tests::plain;

    const RUN: u64 = 7;

    fn added(object: u32, revision: u64) -> String {
        line("ADDED", revision, Stamp { run: RUN, object, seq: 0, intended_ns: 0 }) + "\n"
    }

    fn mark(revision: u64) -> String {
        format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{revision}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n"
        )
    }

    fn list(objects: &[(u32, u64)], revision: &str) -> Vec<u8> {
        let item = |&(object, revision)| {
            let line = added(object, revision);
            line["{\"type\":\"ADDED\",\"object\":".len()..].trim_end().strip_suffix('}').map(str::to_owned)
        };
        let items: Vec<String> = objects.iter().filter_map(item).collect();
        let items = items.join(",");
        format!(r#"{{"kind":"L","metadata":{{"resourceVersion":"{revision}"}},"items":[{items}]}}"#)
            .into_bytes()
    }

    /// Feeds a chunked response in pieces of every size up to 40; gives what was found, without the words, and the last outcome.
    fn feed(body: &[u8], coding: &str, list: bool, objects: u32) -> (Found, Result<bool, Refusal>) {
        let head = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{coding}\r\n");
        let response = [head.as_bytes(), &chunks(body, 50), b"0\r\n\r\n"].concat();
        let wanted = Wanted { run: RUN, objects, list };
        let feed = |size| {
            let (mut stream, mut known, mut wire) = (Stream::new(&wanted), Known::default(), plain(None));
            let mut outcome = Ok(false);
            for piece in response.chunks(size) {
                let taken = wire.take(piece, |_, brought| {
                    if outcome == Ok(false) {
                        outcome = stream.take(brought, &wanted, &mut known);
                    }
                });
                taken.expect("valid HTTP");
            }
            stream.give_up("the test is over");
            (Found { first_fault: None, received: 0, ..stream.found }, outcome)
        };
        let found = feed(40);
        (1..40).for_each(|size| assert_eq!(feed(size), found, "pieces of {size} bytes"));
        found
    }

    #[test]
    fn what_is_wrong_is_counted() {
        let (a, b, right) = (added(0, 5), added(1, 6), mark(9));
        let deleted = b.replace("ADDED", "DELETED");
        let none = |_: &mut Found| {};
        type Change = fn(&mut Found);
        for (body, change) in [
            ([&b, &a, &right].map(String::as_str).concat(), none as Change),
            ([&*a, &right].concat(), |w| w.missing = 1),
            ([&*a, &a, &b, &right].concat(), |w| w.duplicated = 1),
            ([&*a, &added(7, 1), &b, &right].concat(), |w| w.unexpected = 1),
            ([&*a, &deleted, &right].concat(), |w| (w.unexpected, w.missing) = (1, 1)),
            (["nonsense\n", &a, &b, &right].concat(), |w| w.malformed = 1),
            ([&*a, &b, &mark(5)].concat(), |w| w.stale_marks = 1),
            // The stream ends without the mark.
            ([&*a, &b].concat(), |w| w.unfinished = 1),
        ] {
            let mut expected = Found::default();
            change(&mut expected);
            let (found, outcome) = feed(body.as_bytes(), "", false, 2);
            assert_eq!(found, expected, "{body}");
            assert_eq!(outcome.is_ok_and(|synced| synced), expected.unfinished == 0, "{body}");
        }
    }

    #[test]
    fn lists_are_checked_alike() {
        let feed = |body: &[u8]| feed(body, "", true, 2);
        assert_eq!(feed(&list(&[(0, 4), (1, 5)], "5")), (Found::default(), Ok(true)));
        for (body, expected) in [
            (list(&[(1, 5)], "5"), Found { missing: 1, ..Found::default() }),
            (list(&[(0, 4), (1, 6)], "5"), Found { stale_marks: 1, ..Found::default() }),
            (list(&[(0, 4), (1, 6)], ""), Found { malformed: 1, ..Found::default() }),
        ] {
            assert_eq!(feed(&body), (expected, Ok(true)));
        }
        assert!(matches!(feed(b"}").1, Err(Refusal::Broken(_))));
    }

    #[test]
    fn gzip_is_taken_apart() {
        let body = [added(1, 5), added(0, 9), mark(9)].concat();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(body.as_bytes()).expect("memory");
        let zipped = encoder.finish().expect("memory");
        let feed = |body: &[u8]| feed(body, "Content-Encoding: gzip\r\n", false, 2);
        assert_eq!(feed(&zipped), (Found::default(), Ok(true)));
        assert!(matches!(feed(b"no gzip at all, by no means").1, Err(Refusal::Broken(_))));
    }

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
