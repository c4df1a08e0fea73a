//! What messages show, as JSON: objects, bookmarks, and the Status of a failure.

use super::{Failure, Shown, Subject};
use crate::codec::Value;
use crate::decimal::decimal;
use crate::message::MessageKind;
use crate::resource::Resource;
use crate::revision::Revision;
use crate::shown::shown;
use crate::{envelope, escape};

/// Appends the payload of one message.
pub(crate) fn push(out: &mut Vec<u8>, shown: &Shown<'_>) {
    envelope::event(out, shown.kind, |out| {
        if !push_object(out, shown) {
            // No watch in JSON covers what has no such form: it is refused as it starts.
            out.extend_from_slice(b"null");
        }
    });
}

/// Appends what a message shows; false, and nothing, where that has no form in JSON.
pub(crate) fn push_object(out: &mut Vec<u8>, shown: &Shown<'_>) -> bool {
    match shown.subject {
        Subject::Bookmark { resource, initial_end } => {
            let resource = resource.map(|(_, resource)| resource);
            bookmark_object(out, resource, shown.revision, initial_end);
        }
        Subject::Object { value, .. } => {
            let last = shown.kind == MessageKind::Deleted;
            match value {
                Value::Json(json) if last => json.push_at(out, shown.revision),
                Value::Json(json) => out.extend_from_slice(json.text()),
                Value::Protobuf(protobuf) if last => protobuf.push_json_at(out, shown.revision),
                Value::Protobuf(protobuf) => protobuf.push_json(out),
                Value::Opaque(_) | Value::Unreadable(..) => return false,
            }
        }
    }
    true
}

/// Appends "nothing of interest up to `revision`", as an empty object of the kind (KEP-956); with the mark that ends
/// the initial events when `initial_end` (KEP-3157). Where there is no resource, it has no kind.
fn bookmark_object(out: &mut Vec<u8>, resource: Option<&Resource>, revision: Revision, initial_end: bool) {
    const END: &[u8] = b"\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}";
    let sorted = resource.is_some_and(|resource| resource.sorts_members);
    out.push(b'{');
    if let Some(Resource { kind, api_version, .. }) = resource {
        let (kind, api_version) = (["\"kind\":\"", kind], ["\"apiVersion\":\"", api_version]);
        for [name, value] in if sorted { [api_version, kind] } else { [kind, api_version] } {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(b"\",");
        }
    }
    out.extend_from_slice(b"\"metadata\":{");
    if initial_end && sorted {
        out.extend_from_slice(END);
        out.push(b',');
    }
    out.extend_from_slice(b"\"resourceVersion\":\"");
    out.extend_from_slice(decimal(revision.get(), &mut [0; 20]));
    out.push(b'"');
    if initial_end && !sorted {
        out.push(b',');
        out.extend_from_slice(END);
    }
    out.extend_from_slice(b"}}");
}

/// The Status of a failure.
#[must_use]
pub fn status(failure: &Failure<'_>) -> Vec<u8> {
    match failure {
        // Recorded from kube-apiserver: transcript 06.
        Failure::Expired { asked, oldest } => format!(
            "{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\"Failure\",\"message\":\"too \
             old resource version: {asked} ({oldest})\",\"reason\":\"Expired\",\"code\":410}}"
        )
        .into_bytes(),
        Failure::Unreadable { why } | Failure::NotShown { why } => storage_read_error(why),
        Failure::NoForm { resource } => storage_read_error(&format!(
            "{resource} cannot be served: the values have no form in the encoding of this watch: ask for another"
        )),
    }
}

/// Why a value cannot be served, and which.
pub(crate) fn unreadable(resource: &str, path: &str, why: &str) -> String {
    let path = shown(path);
    format!("{resource} \"{path}\" cannot be served: {why}")
}

fn storage_read_error(message: &str) -> Vec<u8> {
    let mut out =
        b"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\""
            .to_vec();
    escape::push_text(&mut out, message);
    out.extend_from_slice(b"\",\"reason\":\"StorageReadError\",\"code\":500}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{error, event};

    fn unreadable_status(path: &str, why: &str) -> String {
        let status = status(&Failure::Unreadable { why: &unreadable("configmaps", path, why) });
        String::from_utf8(status).expect("text")
    }

    #[test]
    fn bookmarks_as_recorded() {
        let resource = Resource::new("v1", "ConfigMap", true, vec![]);
        let mut out = Vec::new();
        event(&mut out, MessageKind::Bookmark, |out| {
            bookmark_object(out, Some(&resource), Revision::new(108), false)
        });
        let line = br#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"108"}}}"#;
        assert_eq!(out, [&line[..], b"\n"].concat());
        let mut out = Vec::new();
        bookmark_object(&mut out, Some(&resource), Revision::new(80), true);
        assert!(out.ends_with(
            br#""metadata":{"resourceVersion":"80","annotations":{"k8s.io/initial-events-end":"true"}}}"#
        ));
        out.clear();
        let sorted = Resource::new("example.com/v1", "Widget", true, vec![]).sorting_members();
        bookmark_object(&mut out, Some(&sorted), Revision::new(80), true);
        assert_eq!(
            String::from_utf8_lossy(&out),
            r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"80"}}"#
        );
        out.clear();
        bookmark_object(&mut out, None, Revision::new(80), false);
        assert_eq!(out, br#"{"metadata":{"resourceVersion":"80"}}"#);
    }

    #[test]
    fn the_expired_status_is_as_recorded() {
        let mut out = Vec::new();
        let failure = Failure::Expired { asked: Revision::new(1), oldest: Revision::new(132) };
        error(&mut out, &status(&failure));
        let line = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (132)","reason":"Expired","code":410}}"#;
        assert_eq!(out, [&line[..], b"\n"].concat());
    }

    #[test]
    fn an_unreadable_value_has_a_status_on_one_line() {
        assert_eq!(
            unreadable_status("a/b\"\\\n\u{e9}", "it is \u{1}<"),
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\
             \"configmaps \\\"a/b\\\"\\\\\\n\u{e9}\\\" cannot be served: it is \\u0001\\u003c\",\
             \"reason\":\"StorageReadError\",\"code\":500}"
        );
    }

    #[test]
    fn a_long_path_is_cut() {
        let text = unreadable_status(&"\u{e9}".repeat(257), "why");
        assert!(text.contains(&format!("\\\"{}...\\\" cannot be served", "\u{e9}".repeat(256))), "{text}");
    }
}
