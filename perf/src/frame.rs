//! Reads what matters of one watch event by scanning its bytes: the type, `object.metadata.resourceVersion` and
//! `object.data.stamp`. It walks the JSON structure, so an equal-looking member elsewhere (a label, an annotation, a
//! string that contains JSON) cannot fool it. It builds no tree and allocates nothing.

use crate::stamp::decimal;
use memchr::memchr2;

/// The `type` of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

/// One watch event, as far as a check needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: Kind,
    /// `object.metadata.resourceVersion`; an ERROR's Status has none.
    pub(crate) revision: Option<u64>,
    /// The raw text of `object.data.stamp`, if it is there.
    pub(crate) stamp: Option<&'a [u8]>,
}

impl<'a> Frame<'a> {
    /// Reads one line of a watch stream, without its newline. `None`: not a watch event.
    pub(crate) fn scan(line: &'a [u8]) -> Option<Self> {
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
                                _ => at.skip_value()?,
                            }
                            Some(())
                        })?,
                        b"data" if at.peek() == Some(b'{') => at.members(|at, key| {
                            match key {
                                b"stamp" if at.peek() == Some(b'"') => stamp = Some(at.string()?),
                                _ => at.skip_value()?,
                            }
                            Some(())
                        })?,
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

    /// Reads the same with a full JSON parser, and says whether it agrees with the scan.
    pub(crate) fn agrees_with_parser(&self, line: &[u8]) -> bool {
        let Ok(event) = serde_json::from_slice::<serde_json::Value>(line) else { return false };
        let object = &event["object"];
        let revision =
            object["metadata"]["resourceVersion"].as_str().and_then(|text| decimal(text.as_bytes()));
        event["type"].as_str().and_then(|text| kind_of(text.as_bytes())) == Some(self.kind)
            && revision == self.revision
            && object["data"]["stamp"].as_str().map(str::as_bytes) == self.stamp
    }
}

fn kind_of(text: &[u8]) -> Option<Kind> {
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
mod tests {
    use super::*;

    /// Recorded from kube-apiserver 1.36.2 (watch from a resourceVersion: added, modified, deleted).
    pub(crate) const RECORDED: [&str; 3] = [
        r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"w1","namespace":"t1","uid":"ad5b7d6b-93b8-4f00-9c46-2b041c6b2af7","resourceVersion":"77","creationTimestamp":"2026-11-21T05:37:14Z","labels":{"app":"a"},"managedFields":[{"manager":"anchor","operation":"Update","apiVersion":"v1","time":"2026-11-21T05:37:14Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:k":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}}}}]},"data":{"k":"one"}}}"#,
        r#"{"type":"MODIFIED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"w1","namespace":"t1","uid":"ad5b7d6b-93b8-4f00-9c46-2b041c6b2af7","resourceVersion":"78","creationTimestamp":"2026-11-21T05:37:14Z","labels":{"app":"a"},"managedFields":[{"manager":"anchor","operation":"Update","apiVersion":"v1","time":"2026-11-21T05:37:14Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:k":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}}}}]},"data":{"k":"two"}}}"#,
        r#"{"type":"DELETED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"w1","namespace":"t1","uid":"ad5b7d6b-93b8-4f00-9c46-2b041c6b2af7","resourceVersion":"79","creationTimestamp":"2026-11-21T05:37:14Z","labels":{"app":"a"},"managedFields":[{"manager":"anchor","operation":"Update","apiVersion":"v1","time":"2026-11-21T05:37:14Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:k":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}}}}]},"data":{"k":"two"}}}"#,
    ];

    #[test]
    fn recorded_events() {
        for (line, (kind, revision)) in
            RECORDED.iter().zip([(Kind::Added, 77), (Kind::Modified, 78), (Kind::Deleted, 79)])
        {
            let frame = Frame::scan(line.as_bytes()).expect("a recorded event");
            assert_eq!(frame, Frame { kind, revision: Some(revision), stamp: None });
            assert!(frame.agrees_with_parser(line.as_bytes()));
        }
        let bookmark = br#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"108"}}}"#;
        assert_eq!(
            Frame::scan(bookmark).map(|frame| (frame.kind, frame.revision)),
            Some((Kind::Bookmark, Some(108)))
        );
        let error = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (132)","reason":"Expired","code":410}}"#;
        assert_eq!(Frame::scan(error).map(|frame| (frame.kind, frame.revision)), Some((Kind::Error, None)));
    }

    #[test]
    fn lookalikes_do_not_fool_it() {
        let line = br#"{ "object" : {"a\"b":"{\"resourceVersion\":\"1\"}","stamp":"no","data":{"x":{"stamp":"no"},"stamp":"yes\\","resourceVersion":"2"},
            "metadata":{"labels":{"resourceVersion":"3","stamp":"no"},"ownerReferences":[{"resourceVersion":"4"},[]],"resourceVersion":"5","generation":1,"deletionGracePeriodSeconds":null},
            "resourceVersion":"6","spec":[-1.5e3,true,false,null,"]"]},"resourceVersion":"7","type":"MODIFIED","metadata":{"resourceVersion":"8"}}"#;
        let frame = Frame::scan(line).expect("valid JSON");
        assert_eq!(frame.kind, Kind::Modified);
        assert_eq!(frame.revision, Some(5));
        assert_eq!(frame.stamp, Some(&br"yes\\"[..]));
    }

    #[test]
    fn a_cut_line_is_never_an_event() {
        for line in RECORDED {
            for end in 0..line.len() {
                assert_eq!(Frame::scan(&line.as_bytes()[..end]), None, "cut at {end}");
            }
            let doubled = [line, line].concat();
            assert_eq!(Frame::scan(doubled.as_bytes()), None);
        }
        for bad in [&b"{}"[..], b"[]", b"null", br#"{"type":"OTHER"}"#, br#"{"type":"ADDED"}}"#] {
            assert_eq!(Frame::scan(bad), None);
        }
    }

    #[test]
    fn the_parser_catches_a_scan_that_is_wrong() {
        let line = RECORDED[0].as_bytes();
        let frame = Frame::scan(line).expect("a recorded event");
        assert!(!Frame { revision: Some(78), ..frame }.agrees_with_parser(line));
        assert!(!Frame { kind: Kind::Deleted, ..frame }.agrees_with_parser(line));
        assert!(!frame.agrees_with_parser(&line[1..]));
    }
}
