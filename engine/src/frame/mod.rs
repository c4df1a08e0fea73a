//! Bytes ready to send: chunk head, envelope, object, newline, CRLF.
//!
//! It owns the exact bytes of a watch stream (HTTP/1.1 chunks, RFC 9112 section 7.1, around the lines that
//! Kubernetes calls watch events). A frame says nothing about who gets it, so the same bytes go to every socket.

use std::ops::Range;

use crate::decode::decimal;
use crate::escape;
use crate::resource::Resource;
use crate::revision::Revision;
use crate::shown::shown;

/// The types of a watch event that carry an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameKind {
    /// It began to match, or is part of the initial state.
    Added,
    /// It matched and still does.
    Modified,
    /// It no longer matches, or is gone.
    Deleted,
}

impl FrameKind {
    /// All of them, in the order in which frames are kept.
    pub const ALL: [Self; 3] = [Self::Added, Self::Modified, Self::Deleted];

    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Added => 0,
            Self::Modified => 1,
            Self::Deleted => 2,
        }
    }

    const fn opening(self) -> &'static [u8] {
        match self {
            Self::Added => b"{\"type\":\"ADDED\",\"object\":",
            Self::Modified => b"{\"type\":\"MODIFIED\",\"object\":",
            Self::Deleted => b"{\"type\":\"DELETED\",\"object\":",
        }
    }
}

const BOOKMARK_OPENING: &[u8] = b"{\"type\":\"BOOKMARK\",\"object\":";
const ERROR_OPENING: &[u8] = b"{\"type\":\"ERROR\",\"object\":";
const CLOSING: &[u8] = b"}\n";
const CRLF: &[u8] = b"\r\n";

/// The chunk that ends a stream; the connection stays usable.
pub const END: &[u8] = b"0\r\n\r\n";

/// One space: a chunk that means nothing, since white space may stand between two JSON values (RFC 8259 section 2). It
/// keeps a quiet stream alive, and finds out whether anybody is still there.
pub const HEARTBEAT: &[u8] = b"1\r\n \r\n";

/// The longest chunk head: 16 hex digits and CRLF.
const HEAD_MAX: usize = 18;

/// The frame of one event: `write_object` appends what stands as `object`. Returns the object's place.
pub(crate) fn event(
    out: &mut Vec<u8>,
    kind: FrameKind,
    write_object: impl FnOnce(&mut Vec<u8>),
) -> Range<usize> {
    framed(out, kind.opening(), write_object)
}

/// "Nothing of interest up to `revision`", as an empty object of the kind (KEP-956); with the mark that ends
/// the initial events when `initial_end` (KEP-3157).
pub(crate) fn bookmark_object(out: &mut Vec<u8>, resource: &Resource, revision: Revision, initial_end: bool) {
    out.extend_from_slice(b"{\"kind\":\"");
    out.extend_from_slice(resource.kind.as_bytes());
    out.extend_from_slice(b"\",\"apiVersion\":\"");
    out.extend_from_slice(resource.api_version.as_bytes());
    out.extend_from_slice(b"\",\"metadata\":{\"resourceVersion\":\"");
    out.extend_from_slice(decimal(revision.get(), &mut [0; 20]));
    out.extend_from_slice(b"\"");
    if initial_end {
        out.extend_from_slice(b",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}");
    }
    out.extend_from_slice(b"}}");
}

/// A BOOKMARK event around the object that `write_object` appends.
pub(crate) fn bookmark(out: &mut Vec<u8>, write_object: impl FnOnce(&mut Vec<u8>)) {
    framed(out, BOOKMARK_OPENING, write_object);
}

/// An ERROR event around a Status object. Never converted to another encoding. Returns the Status' place.
pub fn error(out: &mut Vec<u8>, status: &[u8]) -> Range<usize> {
    framed(out, ERROR_OPENING, |out| out.extend_from_slice(status))
}

/// The Status of a start that the window no longer reaches (recorded from kube-apiserver: transcript 06).
/// `oldest` is the newest revision whose events are forgotten.
#[must_use]
pub fn expired_status(asked: Revision, oldest: Revision) -> Vec<u8> {
    format!(
        "{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\"Failure\",\"message\":\"too old \
         resource version: {asked} ({oldest})\",\"reason\":\"Expired\",\"code\":410}}"
    )
    .into_bytes()
}

/// The Status of a value that is stored and cannot be served: of a resource, at a path of it, for a reason that says
/// what to do. The reason and code are Kubernetes' `StatusReasonStoreReadError`.
#[must_use]
pub fn unreadable_status(resource: &str, path: &str, why: &str) -> Vec<u8> {
    let path = shown(path);
    let mut out =
        b"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\""
            .to_vec();
    escape::push_text(&mut out, &format!("{resource} \"{path}\" cannot be served: {why}"));
    out.extend_from_slice(b"\",\"reason\":\"StorageReadError\",\"code\":500}");
    out
}

fn framed(out: &mut Vec<u8>, opening: &[u8], write_object: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
    // The object's length is known only afterwards: leave room for the longest head, then close the gap.
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_MAX]);
    out.extend_from_slice(opening);
    let object_start = out.len();
    write_object(out);
    let object_end = out.len();
    out.extend_from_slice(CLOSING);
    let line = out.len() - start - HEAD_MAX;
    out.extend_from_slice(CRLF);
    let mut space = [0; HEAD_MAX];
    let head = chunk_head(line, &mut space);
    let gap = HEAD_MAX - head.len();
    out.copy_within(start + HEAD_MAX.., start + head.len());
    out.truncate(out.len() - gap);
    out[start..start + head.len()].copy_from_slice(head);
    object_start - gap..object_end - gap
}

fn chunk_head(len: usize, space: &mut [u8; HEAD_MAX]) -> &[u8] {
    let mut at = HEAD_MAX - 2;
    space[at..].copy_from_slice(CRLF);
    let mut rest = len;
    loop {
        at -= 1;
        space[at] = b"0123456789abcdef"[rest & 15];
        rest >>= 4;
        if rest == 0 {
            return &space[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_chunk_of_its_exact_size() {
        let mut out = b"before".to_vec();
        let place = event(&mut out, FrameKind::Added, |out| out.extend_from_slice(b"{\"a\":1}"));
        assert_eq!(&out[6..], b"22\r\n{\"type\":\"ADDED\",\"object\":{\"a\":1}}\n\r\n");
        assert_eq!(&out[place], b"{\"a\":1}");
    }

    #[test]
    fn bookmarks_as_recorded() {
        let resource = Resource::new("v1", "ConfigMap", true, vec![]);
        let mut out = Vec::new();
        bookmark(&mut out, |out| bookmark_object(out, &resource, Revision::new(108), false));
        let line = br#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"108"}}}"#;
        assert_eq!(out, [b"69\r\n", &line[..], b"\n\r\n"].concat());
        let mut out = Vec::new();
        bookmark_object(&mut out, &resource, Revision::new(80), true);
        assert!(out.ends_with(
            br#""metadata":{"resourceVersion":"80","annotations":{"k8s.io/initial-events-end":"true"}}}"#
        ));
    }

    #[test]
    fn the_expired_status_is_as_recorded() {
        let mut out = Vec::new();
        error(&mut out, &expired_status(Revision::new(1), Revision::new(132)));
        let line = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (132)","reason":"Expired","code":410}}"#;
        assert_eq!(out, [b"ab\r\n", &line[..], b"\n\r\n"].concat());
    }

    #[test]
    fn an_unreadable_value_has_a_status_on_one_line() {
        let status = unreadable_status("configmaps", "a/b\"\\\n\u{e9}", "it is \u{1}<");
        assert_eq!(
            String::from_utf8(status).expect("text"),
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\
             \"configmaps \\\"a/b\\\"\\\\\\n\u{e9}\\\" cannot be served: it is \\u0001\\u003c\",\
             \"reason\":\"StorageReadError\",\"code\":500}"
        );
    }

    #[test]
    fn a_long_path_is_cut() {
        let status = unreadable_status("configmaps", &"\u{e9}".repeat(257), "why");
        let text = String::from_utf8(status).expect("text");
        assert!(text.contains(&format!("\\\"{}...\\\" cannot be served", "\u{e9}".repeat(256))), "{text}");
    }

    #[test]
    fn chunk_heads() {
        for (len, head) in [(0, "0\r\n"), (15, "f\r\n"), (16, "10\r\n"), (0x30ed8, "30ed8\r\n")] {
            assert_eq!(chunk_head(len, &mut [0; HEAD_MAX]), head.as_bytes());
        }
    }
}
