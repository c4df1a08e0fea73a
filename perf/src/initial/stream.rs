//! One client that asked for everything: what it got, and whether that is every object once with the mark behind them.
//! It knows no socket and no clock.

use super::items::Items;
use crate::chunked::Step;
use crate::frame::{Frame, Kind};
use crate::http::{Body, HEAD_BYTES_MAX, Head, excerpt};
use crate::stamp::{Stamp, decimal};
use crate::sums::sums;
use flate2::write::GzDecoder;
use memchr::{memchr, memmem};
use serde_json::Value;
use std::io::Write;

/// A line of a stream above this ends it.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What the mark carries (KEP-3157).
const END_MARK: &[u8] = br#""k8s.io/initial-events-end":"true""#;

#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) run: u64,
    pub(super) objects: u32,
    pub(super) list: bool,
}

sums! {
    /// What was wrong, of one client or of all.
    Wrongs {
        /// Objects that were not there when the mark came, or the list ended.
        missing,
        duplicated,
        /// What belongs to no object of this run, or has no place in initial events.
        unexpected,
        malformed,
        /// Marks, and lists, that are older than an object before them.
        stale_marks,
        /// Clients that did not get to the end.
        unfinished,
    }
}

impl Wrongs {
    pub(super) const fn any(&self) -> bool {
        self.missing + self.duplicated + self.unexpected + self.malformed + self.stale_marks + self.unfinished
            > 0
    }
}

#[derive(Debug)]
enum Phase {
    Heading,
    Body(Body),
    /// Refused: the rest of the body says why.
    Refused(u16, Body),
    Synced,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    More,
    Synced,
    /// The server answered with another status than 200.
    Refused(u16, String),
    /// What came is no HTTP, or no stream or list.
    Broken(String),
}

#[derive(Debug)]
pub(super) struct Stream {
    phase: Phase,
    /// The beginning of a head, of a line or of a reason.
    part: Vec<u8>,
    gzip: Option<GzDecoder<Vec<u8>>>,
    items: Items,
    seen: Vec<u64>,
    count: u32,
    newest: u64,
    given_up: bool,
    pub(super) wrongs: Wrongs,
}

impl Stream {
    pub(super) fn new(wanted: &Wanted) -> Self {
        Self {
            phase: Phase::Heading,
            part: Vec::new(),
            gzip: None,
            items: Items::default(),
            seen: vec![0; (wanted.objects as usize).div_ceil(64)],
            count: 0,
            newest: 0,
            given_up: false,
            wrongs: Wrongs::default(),
        }
    }

    pub(super) const fn is_synced(&self) -> bool {
        matches!(self.phase, Phase::Synced)
    }

    pub(super) const fn received(&self) -> u32 {
        self.count
    }

    pub(super) fn take(&mut self, mut input: &[u8], wanted: &Wanted) -> Taken {
        loop {
            match &mut self.phase {
                Phase::Synced => return Taken::More,
                Phase::Heading => {
                    self.part.extend_from_slice(input);
                    let (head, taken) = match Head::parse(&self.part) {
                        Ok(Some(found)) => found,
                        Ok(None) => return Taken::More,
                        Err(fault) => return Taken::Broken(fault.to_string()),
                    };
                    input = &input[input.len() - (self.part.len() - taken)..];
                    self.part.clear();
                    if head.gzip {
                        self.gzip = Some(GzDecoder::new(Vec::new()));
                    }
                    self.phase = match head.status {
                        100..200 => Phase::Heading,
                        200 => Phase::Body(head.body),
                        status => Phase::Refused(status, head.body),
                    };
                }
                Phase::Refused(status, body) => {
                    let status = *status;
                    match body.next(&mut input) {
                        Ok(Step::Data(data)) if self.part.len() < HEAD_BYTES_MAX => {
                            self.part.extend_from_slice(data);
                        }
                        Ok(Step::Data(_)) => {}
                        Ok(Step::More) => return Taken::More,
                        Ok(Step::End) => return Taken::Refused(status, excerpt(&self.part)),
                        Err(fault) => return Taken::Broken(fault.to_string()),
                    }
                }
                Phase::Body(body) => match body.next(&mut input) {
                    Ok(Step::Data(data)) => {
                        if let Err(why) = self.decoded(data, wanted) {
                            return Taken::Broken(why);
                        }
                        if self.is_synced() {
                            return Taken::Synced;
                        }
                    }
                    Ok(Step::More) => return Taken::More,
                    Ok(Step::End) if wanted.list => {
                        self.end_of_list(wanted);
                        return Taken::Synced;
                    }
                    Ok(Step::End) => {
                        return Taken::Broken("the server ended a watch before its mark".to_owned());
                    }
                    Err(fault) => return Taken::Broken(fault.to_string()),
                },
            }
        }
    }

    /// The connection ended, or nobody waits any longer.
    pub(super) fn give_up(&mut self, why: &str) {
        if !self.is_synced() && !std::mem::replace(&mut self.given_up, true) {
            self.wrongs.unfinished += 1;
            let count = self.count;
            self.wrongs.note(|| Some(format!("{why}, behind {count} objects")));
        }
    }

    fn decoded(&mut self, data: &[u8], wanted: &Wanted) -> Result<(), String> {
        let Some(mut gzip) = self.gzip.take() else { return self.text(data, wanted) };
        let plain = gzip.write_all(data).and_then(|()| gzip.flush());
        plain.map_err(|fault| format!("the server's gzip is broken: {fault}"))?;
        let text = std::mem::take(gzip.get_mut());
        self.gzip = Some(gzip);
        self.text(&text, wanted)
    }

    fn text(&mut self, data: &[u8], wanted: &Wanted) -> Result<(), String> {
        if wanted.list { self.list(data, wanted) } else { self.lines(data, wanted) }
    }

    fn lines(&mut self, mut data: &[u8], wanted: &Wanted) -> Result<(), String> {
        while let Some(end) = memchr(b'\n', data) {
            let (line, rest) = (&data[..end], &data[end + 1..]);
            if self.part.is_empty() {
                self.event(line, wanted);
            } else {
                let mut part = std::mem::take(&mut self.part);
                part.extend_from_slice(line);
                self.event(&part, wanted);
                part.clear();
                self.part = part;
            }
            if self.is_synced() {
                return Ok(());
            }
            data = rest;
        }
        self.part.extend_from_slice(data);
        if self.part.len() > LINE_BYTES_MAX {
            return Err("the server sent an event over 16 MiB".to_owned());
        }
        Ok(())
    }

    fn event(&mut self, line: &[u8], wanted: &Wanted) {
        let Some(frame) = Frame::scan(line) else {
            self.wrongs.malformed += 1;
            self.wrongs.note(|| Some(format!("a line that is no watch event: {}", excerpt(line))));
            return;
        };
        match frame.kind {
            Kind::Added => self.object(&frame, line, wanted),
            Kind::Bookmark if memmem::find(line, END_MARK).is_some() => {
                self.mark(frame.revision.unwrap_or(0), wanted);
            }
            Kind::Bookmark => {}
            Kind::Modified | Kind::Deleted | Kind::Error => {
                self.wrongs.unexpected += 1;
                self.wrongs.note(|| Some(format!("an event in front of the mark: {}", excerpt(line))));
            }
        }
    }

    fn list(&mut self, data: &[u8], wanted: &Wanted) -> Result<(), String> {
        let mut items = std::mem::take(&mut self.items);
        let mut line = Vec::new();
        let right = items.take(data, |item| {
            // As an event, so that both are read by the same scan.
            line.clear();
            line.extend_from_slice(br#"{"type":"ADDED","object":"#);
            line.extend_from_slice(item);
            line.push(b'}');
            match Frame::scan(&line) {
                Some(frame) => self.object(&frame, item, wanted),
                None => {
                    self.wrongs.malformed += 1;
                    self.wrongs.note(|| Some(format!("an item that is no object: {}", excerpt(item))));
                }
            }
        });
        self.items = items;
        if right { Ok(()) } else { Err("what the server sent is no list".to_owned()) }
    }

    fn end_of_list(&mut self, wanted: &Wanted) {
        let rest: Value = serde_json::from_slice(self.items.rest()).unwrap_or_default();
        let revision = rest["metadata"]["resourceVersion"].as_str().and_then(|text| decimal(text.as_bytes()));
        if revision.is_none() {
            self.wrongs.malformed += 1;
            self.wrongs.note(|| Some("a list without a numeric resourceVersion".to_owned()));
        }
        self.mark(revision.unwrap_or(u64::MAX), wanted);
    }

    fn object(&mut self, frame: &Frame<'_>, text: &[u8], wanted: &Wanted) {
        let stamp = frame.stamp.and_then(Stamp::parse);
        let stamp = stamp.filter(|stamp| stamp.run == wanted.run && stamp.object < wanted.objects);
        let (Some(stamp), Some(revision)) = (stamp, frame.revision) else {
            self.wrongs.unexpected += 1;
            self.wrongs.note(|| Some(format!("an object that is none of this run's: {}", excerpt(text))));
            return;
        };
        let (word, bit) = ((stamp.object / 64) as usize, 1 << (stamp.object % 64));
        if self.seen[word] & bit != 0 {
            self.wrongs.duplicated += 1;
            self.wrongs.note(|| Some(format!("object {} came again", stamp.object)));
            return;
        }
        self.seen[word] |= bit;
        self.count += 1;
        self.newest = self.newest.max(revision);
    }

    /// All objects must have come, and none may be newer.
    fn mark(&mut self, revision: u64, wanted: &Wanted) {
        self.phase = Phase::Synced;
        let missing = u64::from(wanted.objects - self.count);
        if missing > 0 {
            self.wrongs.missing += missing;
            self.wrongs.note(|| Some(format!("{missing} objects were missing at the end")));
        }
        if revision < self.newest {
            self.wrongs.stale_marks += 1;
            let newest = self.newest;
            self.wrongs.note(|| Some(format!("the end says revision {revision}, an object has {newest}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::STAMP_BYTES;

    const RUN: u64 = 7;

    fn object(number: u32, revision: u64) -> String {
        let mut stamp = [0; STAMP_BYTES];
        Stamp { run: RUN, object: number, seq: 0, intended_ns: 0 }.write(&mut stamp);
        let stamp = String::from_utf8_lossy(&stamp).into_owned();
        format!(
            r#"{{"metadata":{{"name":"o","resourceVersion":"{revision}"}},"data":{{"pad":"[{{","stamp":"{stamp}"}}}}"#
        )
    }

    fn added(number: u32, revision: u64) -> String {
        format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", object(number, revision))
    }

    fn mark(revision: u64) -> String {
        format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{revision}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n"
        )
    }

    fn chunked(body: &[u8], coding: &str) -> Vec<u8> {
        let mut bytes = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{coding}\r\n").into_bytes();
        for piece in body.chunks(50) {
            bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            bytes.extend_from_slice(piece);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        bytes
    }

    /// Feeds a response in pieces of every size up to 40.
    fn feed(response: &[u8], list: bool, objects: u32) -> (Wrongs, Taken) {
        let wanted = Wanted { run: RUN, objects, list };
        let mut first = None;
        for size in 1..40 {
            let mut stream = Stream::new(&wanted);
            let mut outcome = Taken::More;
            for piece in response.chunks(size) {
                outcome = stream.take(piece, &wanted);
                if outcome != Taken::More {
                    break;
                }
            }
            stream.give_up("the test is over");
            let found = (stream.wrongs, outcome);
            assert_eq!(first.get_or_insert_with(|| (found.0.clone(), describe(&found.1))).0, found.0);
            if size == 39 {
                return found;
            }
        }
        unreachable!("the last size returns")
    }

    fn describe(taken: &Taken) -> String {
        format!("{taken:?}")
    }

    #[test]
    fn every_object_once_and_the_mark() {
        let body = [added(1, 5), added(0, 9), added(2, 6), mark(9)].concat();
        assert_eq!(feed(&chunked(body.as_bytes(), ""), false, 3), (Wrongs::default(), Taken::Synced));
    }

    #[test]
    fn what_is_wrong_is_counted() {
        let wrongs = |events: &[String]| feed(&chunked(events.concat().as_bytes(), ""), false, 2).0;
        let of = |change: fn(&mut Wrongs)| {
            let mut wrongs = Wrongs::default();
            change(&mut wrongs);
            wrongs
        };
        let bare = |wrongs: Wrongs| Wrongs { first_fault: None, ..wrongs };
        let (a, b) = (added(0, 5), added(1, 6));
        let case = |events: &[String]| bare(wrongs(events));
        assert_eq!(case(&[a.clone(), mark(9)]), of(|w| w.missing = 1));
        assert_eq!(case(&[a.clone(), a.clone(), b.clone(), mark(9)]), of(|w| w.duplicated = 1));
        assert_eq!(case(&[a.clone(), added(7, 1), b.clone(), mark(9)]), of(|w| w.unexpected = 1));
        assert_eq!(
            case(&[a.clone(), b.replace("ADDED", "DELETED"), mark(9)]),
            of(|w| {
                w.unexpected = 1;
                w.missing = 1;
            })
        );
        assert_eq!(case(&["nonsense\n".to_owned(), a.clone(), b.clone(), mark(9)]), of(|w| w.malformed = 1));
        assert_eq!(case(&[a.clone(), b.clone(), mark(5)]), of(|w| w.stale_marks = 1));
        // The stream goes on without the mark, and ends.
        assert_eq!(case(&[a, b]), of(|w| w.unfinished = 1));
    }

    #[test]
    fn lists_are_checked_alike() {
        let list = |items: &[String], revision: &str| {
            format!(
                r#"{{"kind":"L","metadata":{{"resourceVersion":"{revision}"}},"items":[{}]}}"#,
                items.join(",")
            )
        };
        let right = list(&[object(0, 4), object(1, 5)], "5");
        assert_eq!(feed(&chunked(right.as_bytes(), ""), true, 2), (Wrongs::default(), Taken::Synced));
        let short = feed(&chunked(list(&[object(1, 5)], "5").as_bytes(), ""), true, 2).0;
        assert_eq!((short.missing, short.duplicated), (1, 0));
        let old = feed(&chunked(list(&[object(0, 4), object(1, 6)], "5").as_bytes(), ""), true, 2).0;
        assert_eq!((old.stale_marks, old.missing), (1, 0));
        let nameless = feed(&chunked(list(&[object(0, 4), object(1, 6)], "").as_bytes(), ""), true, 2).0;
        assert_eq!(nameless.malformed, 1);
        assert!(matches!(feed(&chunked(b"}", ""), true, 2).1, Taken::Broken(_)));
    }

    #[test]
    fn gzip_is_taken_apart() {
        let body = [added(1, 5), added(0, 9), mark(9)].concat();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(body.as_bytes()).expect("memory");
        let zipped = encoder.finish().expect("memory");
        let response = chunked(&zipped, "Content-Encoding: gzip\r\n");
        assert_eq!(feed(&response, false, 2), (Wrongs::default(), Taken::Synced));
        let broken = chunked(b"no gzip at all, by no means", "Content-Encoding: gzip\r\n");
        assert!(matches!(feed(&broken, false, 2).1, Taken::Broken(_)));
    }

    #[test]
    fn a_refusal_says_why() {
        let refused = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 16\r\n\r\n{\"message\":\"no\"}";
        assert_eq!(feed(refused, false, 1).1, Taken::Refused(429, "no".to_owned()));
    }
}
