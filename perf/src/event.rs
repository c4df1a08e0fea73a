//! What a check needs of one watch event: its type, `object.metadata.resourceVersion` and the stamp in `object.data`. An
//! equal-looking member elsewhere (a label, an annotation, a string that contains JSON) is not taken for them.

use crate::stamp::{Stamp, decimal};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The `type` of a watch event.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
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

#[derive(Deserialize)]
struct Line<'a> {
    r#type: Kind,
    #[serde(borrow, default)]
    object: Object<'a>,
}

#[derive(Default, Deserialize)]
struct Object<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
    /// Objects of others may have any JSON here.
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    resource_version: Option<&'a str>,
}

#[derive(Deserialize)]
struct Data<'a> {
    stamp: &'a str,
}

impl Event {
    /// Reads one line of a watch stream, without its newline. `None`: not a watch event.
    pub(crate) fn read(line: &[u8]) -> Option<Self> {
        let Line { r#type: kind, object } = serde_json::from_slice(line).ok()?;
        let revision = match object.metadata.resource_version {
            Some(text) => Some(decimal(text.as_bytes())?),
            None => None,
        };
        let data = object.data.and_then(|data| serde_json::from_str::<Data<'_>>(data.get()).ok());
        Some(Self { kind, revision, stamp: data.and_then(|data| Stamp::parse(data.stamp.as_bytes())) })
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
