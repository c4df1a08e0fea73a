//! What a check needs of one watch event: its type, `object.metadata.resourceVersion` and the stamp, in `object.data` or among
//! `object.metadata.annotations`. An equal-looking member elsewhere (a label, a string that contains JSON) is none of them.

use crate::stamp::{Stamp, decimal};
use memchr::memchr2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    /// An ERROR's Status has none.
    pub(crate) revision: Option<u64>,
    pub(crate) stamp: Option<Stamp>,
}

impl Event {
    /// Reads one line of a watch stream, without its newline. `None`: not a watch event. It walks the bytes and builds
    /// nothing: every new event is read while the server is measured, and serde_json takes 2.5 times as long.
    pub(crate) fn read(line: &[u8]) -> Option<Self> {
        let mut at = Scanner { rest: line };
        let (mut kind, mut revision, mut stamp) = (None, None, None);
        at.members(|at, key| {
            match key {
                b"type" => kind = Some(kind_of(at.string()?)?),
                b"object" => at.members(|at, key| {
                    match key {
                        b"metadata" => at.members(|at, key| {
                            match key {
                                b"resourceVersion" => revision = Some(decimal(at.string()?)?),
                                b"annotations" => at.stamp(&mut stamp)?,
                                _ => at.skip_value()?,
                            }
                            Some(())
                        })?,
                        b"data" => at.stamp(&mut stamp)?,
                        _ => at.skip_value()?,
                    }
                    Some(())
                })?,
                _ => at.skip_value()?,
            }
            Some(())
        })?;
        at.skip_space();
        at.rest.is_empty().then_some(())?;
        Some(Self { kind: kind?, revision, stamp })
    }
}

pub(crate) fn kind_of(text: &[u8]) -> Option<Kind> {
    match text {
        b"ADDED" => Some(Kind::Added),
        b"MODIFIED" => Some(Kind::Modified),
        b"DELETED" => Some(Kind::Deleted),
        b"BOOKMARK" => Some(Kind::Bookmark),
        b"ERROR" => Some(Kind::Error),
        _ => None,
    }
}

struct Scanner<'a> {
    rest: &'a [u8],
}

impl<'a> Scanner<'a> {
    fn skip_space(&mut self) {
        while let Some((b' ' | b'\t' | b'\r' | b'\n', rest)) = self.rest.split_first() {
            self.rest = rest;
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.rest.first().copied()
    }

    /// Takes `byte`, after white space, or fails.
    fn take(&mut self, byte: u8) -> Option<()> {
        self.skip_space();
        self.rest = self.rest.strip_prefix(&[byte])?;
        Some(())
    }

    /// The raw text between two quotes; escapes stay as they are.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let text = self.rest;
        let mut end = 0;
        loop {
            end += memchr2(b'"', b'\\', text.get(end..)?)?;
            if text[end] == b'"' {
                self.rest = &text[end + 1..];
                return Some(&text[..end]);
            }
            end += 2;
        }
    }

    /// Calls `member` with each key of the object that starts here. It must consume the value.
    fn members(&mut self, mut member: impl FnMut(&mut Self, &[u8]) -> Option<()>) -> Option<()> {
        self.take(b'{')?;
        if self.peek()? == b'}' {
            return self.take(b'}');
        }
        loop {
            let key = self.string()?;
            self.take(b':')?;
            member(self, key)?;
            if self.peek()? == b'}' {
                return self.take(b'}');
            }
            self.take(b',')?;
        }
    }

    /// Takes the stamp from the strings here, if there is one, or skips what else is here.
    fn stamp(&mut self, stamp: &mut Option<Stamp>) -> Option<()> {
        if self.peek() != Some(b'{') {
            return self.skip_value();
        }
        self.members(|at, key| {
            match key {
                b"stamp" if at.peek() == Some(b'"') => *stamp = Stamp::parse(at.string()?).or(*stamp),
                _ => at.skip_value()?,
            }
            Some(())
        })
    }

    /// Skips any value. Brackets are only counted: well-formedness is the parser's matter.
    fn skip_value(&mut self) -> Option<()> {
        let mut depth: usize = 0;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.rest = &self.rest[1..];
                    continue;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.rest = &self.rest[1..];
                }
                b',' | b':' if depth > 0 => {
                    self.rest = &self.rest[1..];
                    continue;
                }
                b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
                    let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n');
                    self.rest = &self.rest[self.rest.iter().position(ends)?..];
                }
                _ => return None,
            }
            if depth == 0 {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::stamp::STAMP_BYTES;

    /// Recorded from kube-apiserver 1.36.2 (watch from a resourceVersion: added, modified, deleted).
    pub(crate) const RECORDED: [&str; 3] = [
        r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"w1","namespace":"t1","uid":"ad5b7d6b-93b8-4f00-9c46-2b041c6b2af7","resourceVersion":"77","creationTimestamp":"2026-11-21T05:37:14Z","labels":{"app":"a"},"managedFields":[{"manager":"anchor","operation":"Update","apiVersion":"v1","time":"2026-11-21T05:37:14Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:k":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}}}}]},"data":{"k":"one"}}}"#,
        r#"{"type":"MODIFIED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"w1","namespace":"t1","uid":"ad5b7d6b-93b8-4f00-9c46-2b041c6b2af7","resourceVersion":"78","creationTimestamp":"2026-11-21T05:37:14Z","labels":{"app":"a"},"managedFields":[{"manager":"anchor","operation":"Update","apiVersion":"v1","time":"2026-11-21T05:37:14Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:k":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}}}}]},"data":{"k":"two"}}}"#,
        r#"{"type":"DELETED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"w1","namespace":"t1","uid":"ad5b7d6b-93b8-4f00-9c46-2b041c6b2af7","resourceVersion":"79","creationTimestamp":"2026-11-21T05:37:14Z","labels":{"app":"a"},"managedFields":[{"manager":"anchor","operation":"Update","apiVersion":"v1","time":"2026-11-21T05:37:14Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:k":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}}}}]},"data":{"k":"two"}}}"#,
    ];

    /// The line of an event of object `x`, which has `stamp`.
    pub(crate) fn line(kind: &str, revision: u64, stamp: Stamp) -> String {
        let mut text = [0; STAMP_BYTES];
        stamp.write(&mut text);
        let text = String::from_utf8_lossy(&text);
        format!(
            r#"{{"type":"{kind}","object":{{"metadata":{{"name":"x","resourceVersion":"{revision}"}},"data":{{"pad":"[{{","stamp":"{text}"}}}}}}"#
        )
    }

    #[test]
    fn recorded_events() {
        let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"108"}}}"#;
        let error = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (132)","reason":"Expired","code":410}}"#;
        let [added, modified, deleted] = RECORDED;
        for (line, kind, revision) in [
            (added, Kind::Added, Some(77)),
            (modified, Kind::Modified, Some(78)),
            (deleted, Kind::Deleted, Some(79)),
            (bookmark, Kind::Bookmark, Some(108)),
            (error, Kind::Error, None),
        ] {
            assert_eq!(Event::read(line.as_bytes()), Some(Event { kind, revision, stamp: None }));
            for end in 0..line.len() {
                assert_eq!(Event::read(&line.as_bytes()[..end]), None, "cut at {end}");
            }
            assert_eq!(Event::read([line, line].concat().as_bytes()), None);
        }
        for bad in ["{}", "[]", "null", r#"{"type":"OTHER"}"#, r#"{"type":"ADDED"}}"#] {
            assert_eq!(Event::read(bad.as_bytes()), None);
        }
        for foreign in [r#""text""#, "null", "[1]", r#"{"stamp":5}"#, r#"{"stamp":"\\"}"#] {
            let line = added.replace(r#"{"k":"one"}"#, foreign);
            assert_eq!(Event::read(line.as_bytes()), Event::read(added.as_bytes()), "{foreign}");
        }
    }

    #[test]
    fn lookalikes_do_not_fool_it() {
        let stamp = Stamp { run: 1, object: 2, seq: 3, intended_ns: 4 };
        let mut text = [0; STAMP_BYTES];
        stamp.write(&mut text);
        let line = r#"{ "object" : {"a\"b":"{\"resourceVersion\":\"1\"}","stamp":"no","data":{"x":{"stamp":"no"},"stamp":"STAMP","resourceVersion":"2"},
            "metadata":{"labels":{"resourceVersion":"3","stamp":"no"},"ownerReferences":[{"resourceVersion":"4"},[]],"resourceVersion":"5","generation":1,"deletionGracePeriodSeconds":null},
            "resourceVersion":"6","spec":[-1.5e3,true,false,null,"]"]},"resourceVersion":"7","type":"MODIFIED","metadata":{"resourceVersion":"8"}}"#
            .replace("STAMP", &String::from_utf8_lossy(&text));
        let expected = Event { kind: Kind::Modified, revision: Some(5), stamp: Some(stamp) };
        assert_eq!(Event::read(line.as_bytes()), Some(expected));
    }
}
