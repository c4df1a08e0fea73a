//! What the release of Kubernetes changes: the JSON of a message, and the message of JSON.

use revcast_engine::codec::protobuf::Envelope;
use revcast_engine::message_type::MessageType;

use super::{Release, StoredType, decode, encode};

fn json(release: Release, api_version: &str, kind: &str, message: &[u8]) -> String {
    let of = StoredType::new(release, api_version, kind, &[]).expect("its type is known");
    let mut out = b"{".to_vec();
    of.push_members(&mut out, message);
    String::from_utf8(out).expect("JSON is UTF-8") + "}"
}

#[test]
fn a_time_that_is_not_set_was_null_before_1_34() {
    for release in Release::ALL {
        let metadata = if release.minor() < 34 { r#"{"creationTimestamp":null}"# } else { "{}" };
        // An object's and its template's.
        let expected = format!(
            r#"{{"metadata":{metadata},"template":{{"metadata":{metadata},"spec":{{"containers":null}}}}}}"#
        );
        assert_eq!(json(release, "v1", "PodTemplate", b""), expected, "{release}");
    }
}

#[test]
fn a_struct_that_is_new_is_always_written() {
    for release in Release::ALL {
        let text = json(release, "storage.k8s.io/v1", "CSINode", b"");
        assert_eq!(text.ends_with(r#","status":{}}"#), release.minor() >= 37, "{release}: {text}");
    }
}

#[test]
fn a_field_is_known_from_its_release_on() {
    let pod = br#"{"kind":"Pod","apiVersion":"v1","metadata":{},"spec":{"volumes":[{"name":"v","emptyDir":{"mode":448}}],
        "containers":null},"status":{}}"#;
    for release in Release::ALL {
        let packed = encode(release, pod).expect("it fits");
        let newest = decode(Release::ALL[4], &packed).expect("it is known");
        let kept =
            String::from_utf8(newest.json).expect("JSON is UTF-8").contains(r#""emptyDir":{"mode":448}"#);
        assert_eq!(kept, release.minor() >= 37, "{release}");
    }
    // What a later release wrote is left out by an earlier one, and refused from a client.
    let packed = encode(Release::ALL[4], pod).expect("it fits");
    let message = Envelope::read(&packed).expect("an envelope").message;
    assert!(json(Release::DEFAULT, "v1", "Pod", message).contains(r#""emptyDir":{}"#));
    let refused = decode(Release::DEFAULT, &packed).expect_err("it would be lost");
    assert_eq!(refused.code(), 415);
}
