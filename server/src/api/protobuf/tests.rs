//! Bodies that kubectl posted, and malformed ones.

use std::collections::HashSet;

use super::types::{Count, MessageId, Shape, Types};
use super::*;

/// What kubectl 1.32 posted for `kubectl create ...`, and what the same command prints with `--dry-run -o json`.
macro_rules! posted {
    ($($name:literal),* $(,)?) => {
        &[$(($name,
            include_bytes!(concat!("../../../tests/fixtures/kubectl/", $name, ".pb")).as_slice(),
            include_str!(concat!("../../../tests/fixtures/kubectl/", $name, ".json")),
        )),*]
    };
}

const POSTED: &[(&str, &[u8], &str)] = posted![
    "clusterrolebindings",
    "clusterroles",
    "configmaps",
    "cronjobs",
    "deployments",
    "ingresses",
    "jobs",
    "namespaces",
    "poddisruptionbudgets",
    "priorityclasses",
    "resourcequotas",
    "rolebindings",
    "roles",
    "secrets",
    "serviceaccounts",
    "services",
];

const RECORDED: &[u8] = include_bytes!("../../../tests/fixtures/recorded-configmap.pb");

fn json(body: &[u8]) -> String {
    String::from_utf8(decode(Release::DEFAULT, body).expect("a good body").json).expect("JSON is UTF-8")
}

/// A field of bytes.
fn bytes(number: u8, value: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, u8::try_from(value.len()).expect("a short value")];
    out.extend_from_slice(value);
    out
}

/// A field of a small number.
fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), bytes(1, &meta), bytes(2, raw)].concat()
}

#[test]
fn what_kubectl_posts_is_what_kubectl_prints() {
    for (name, body, printed) in POSTED {
        // Go of that release writes an unset time as null.
        let expected =
            printed.replace(",\"creationTimestamp\":null", "").replace("\"creationTimestamp\":null,", "");
        let expected = expected.replace("\"creationTimestamp\":null", "");
        assert_eq!(json(body), expected, "{name}");
    }
}

#[test]
fn a_recorded_object_of_the_server_is_read_with_all_its_metadata() {
    let expected = concat!(
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"del1","namespace":"t1","#,
        r#""uid":"65e17b7b-2535-4a93-942c-7157e8d1c4a6","resourceVersion":"103","#,
        r#""creationTimestamp":"2026-11-21T05:38:06Z","labels":{"app":"a"},"managedFields":[{"manager":"anchor","#,
        r#""operation":"Update","apiVersion":"v1","time":"2026-11-21T05:38:06Z","fieldsType":"FieldsV1","#,
        r#""fieldsV1":{"f:data":{".":{},"f:k":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}}}}]},"#,
        r#""data":{"k":"last-state"}}"#
    );
    assert_eq!(json(RECORDED), expected);
    let decoded = decode(Release::DEFAULT, RECORDED).expect("a good body");
    assert_eq!((decoded.api_version.as_str(), decoded.kind.as_str()), ("v1", "ConfigMap"));
}

#[test]
fn delete_options_come_under_any_group() {
    let raw = [number(1, 0), bytes(2, &bytes(1, b"u")), bytes(4, b"Foreground"), bytes(5, b"All")].concat();
    let expected = |api_version: &str| {
        format!(
            r#"{{"kind":"DeleteOptions","apiVersion":"{api_version}","gracePeriodSeconds":0,"preconditions":{{"uid":"u"}},"propagationPolicy":"Foreground","dryRun":["All"]}}"#
        )
    };
    for api_version in ["v1", "meta.k8s.io/v1", "apps/v1"] {
        assert_eq!(json(&envelope(api_version, "DeleteOptions", &raw)), expected(api_version));
    }
}

#[test]
fn values_of_all_shapes() {
    let object = |fields: &[Vec<u8>]| json(&envelope("v1", "ConfigMap", &fields.concat()));
    let head = r#"{"kind":"ConfigMap","apiVersion":"v1""#;
    // A struct is never left out.
    let bare = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{}"#;
    assert_eq!(object(&[]), format!("{bare}}}"));
    assert_eq!(object(&[number(4, 0)]), format!(r#"{bare},"immutable":false}}"#));
    // Maps are sorted by key; a missing value is empty; binary data is base64 of each length.
    let entry = |key: &[u8], value: &[u8]| bytes(3, &[bytes(1, key), bytes(2, value)].concat());
    let maps =
        [entry(b"d", b"\xff\xfe\xfd\xfc"), entry(b"c", b"\0\0\0"), entry(b"b", b"ab"), entry(b"a", b"a")];
    let expected = r#","binaryData":{"a":"YQ==","b":"YWI=","c":"AAAA","d":"//79/A=="}}"#;
    assert_eq!(object(&maps), format!("{bare}{expected}"));
    assert_eq!(object(&[bytes(2, &bytes(1, b"k"))]), format!(r#"{bare},"data":{{"k":""}}}}"#));
    // Text is escaped, and a deletion time has its own form.
    let meta = [bytes(1, b"a\"\n"), bytes(9, &[number(1, 60), number(2, 5)].concat())].concat();
    let expected = r#","metadata":{"name":"a\"\n","deletionTimestamp":"1970-01-01T00:01:00Z"}}"#;
    assert_eq!(object(&[bytes(1, &meta)]), format!("{head}{expected}"));
    // Micro time; negative numbers.
    let time = [number(1, 60), vec![0x10, 0xe8, 0x07]].concat();
    let lease = envelope("coordination.k8s.io/v1", "Lease", &bytes(2, &bytes(3, &time)));
    let expected = r#""spec":{"acquireTime":"1970-01-01T00:01:00.000001Z"}}"#;
    assert!(json(&lease).ends_with(expected), "{}", json(&lease));
    let minus_one = [&[0x08][..], &[0xff; 9], &[0x01]].concat();
    let expected = r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":-1}"#;
    assert_eq!(json(&envelope("v1", "DeleteOptions", &minus_one)), expected);
}

#[test]
fn packed_numbers_are_read_as_separate_ones_and_none_of_them_as_no_list() {
    let some = r#"{"supplementalGroups":[1,300]}"#;
    for (groups, expected) in [
        (bytes(4, &[1, 0xac, 0x02]), some),
        ([number(4, 1), vec![0x20, 0xac, 0x02]].concat(), some),
        ([bytes(4, &[]), number(4, 1), bytes(4, &[0xac, 0x02])].concat(), some),
        (bytes(4, &[]), "{}"),
        ([bytes(4, &[]), bytes(4, &[])].concat(), "{}"),
    ] {
        let pod = envelope("v1", "Pod", &bytes(2, &bytes(14, &groups)));
        let expected =
            format!(r#""spec":{{"containers":null,"securityContext":{expected}}},"status":{{}}}}"#);
        assert!(json(&pod).ends_with(&expected), "{}", json(&pod));
    }
}

#[test]
fn what_is_not_known_is_refused_and_says_the_mend() {
    let cases = [
        (envelope("v1", "Widget", b""), 415, "\"v1\" \"Widget\""),
        (envelope("v2", "ConfigMap", b""), 415, "\"v2\" \"ConfigMap\""),
        (envelope("v1", "ConfigMap", &bytes(9, b"x")), 415, "field 9 of the object"),
        (envelope("v1", "ConfigMap", &bytes(1, &[0x80, 0x01, 0x01])), 415, "field 16 of metadata"),
        (
            envelope("v1", "ConfigMap", &bytes(1, &bytes(13, &number(9, 1)))),
            415,
            "field 9 of metadata.ownerReferences",
        ),
    ];
    for (body, code, says) in cases {
        let error = decode(Release::DEFAULT, &body).expect_err("refused");
        let message = error.to_string();
        assert_eq!(error.code(), code, "{message}");
        assert!(message.contains(says) && message.contains("kubectl create -f"), "{message}");
    }
}

#[test]
fn malformed_bodies_are_the_clients_fault() {
    let config_map = |fields: &[Vec<u8>]| envelope("v1", "ConfigMap", &fields.concat());
    let entry = bytes(2, &[bytes(1, b"k"), bytes(2, b"v")].concat());
    let managed =
        |field: Vec<u8>| config_map(&[bytes(1, &[&[0x8a, 0x01][..], &bytes(0, &field)[1..]].concat())]);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"{}".to_vec(), "does not begin"),
        (b"k8s".to_vec(), "does not begin"),
        ([b"k8s\0".to_vec(), number(1, 1)].concat(), "wrong type"),
        ([b"k8s\0".to_vec(), bytes(3, b"gzip")].concat(), "plain protobuf"),
        ([b"k8s\0".to_vec(), bytes(7, b"")].concat(), "not known"),
        (config_map(&[vec![0x12, 0x7f]]), "past the end"),
        (config_map(&[vec![0x00, 0x00]]), "number zero"),
        (config_map(&[vec![0x0d, 0, 0, 0, 0]]), "wire type"),
        (config_map(&[vec![0xff; 11]]), "longer than 64 bits"),
        (config_map(&[vec![0x12, 0x80]]), "past the end"),
        (config_map(&[number(1, 1)]), "metadata: a number where text"),
        (config_map(&[bytes(4, b"x")]), "immutable: text or a message"),
        (config_map(&[number(4, 2)]), "neither 0 nor 1"),
        (config_map(&[bytes(1, b""), bytes(1, b"")]), "sent twice"),
        (config_map(&[bytes(1, &bytes(1, b"\xff"))]), "metadata.name: text is not UTF-8"),
        (config_map(&[entry.clone(), entry]), "key twice"),
        (config_map(&[bytes(2, &number(3, 1))]), "more than key and value"),
        (config_map(&[bytes(1, &bytes(8, &[&[0x08][..], &[0xff; 8], &[0x7f]].concat()))]), "out of range"),
        (managed(bytes(7, &bytes(1, b"{"))), "fieldsV1: a part that should be JSON is not"),
    ];
    for (body, says) in cases {
        let error = decode(Release::DEFAULT, &body).expect_err(says);
        let message = error.to_string();
        assert!(error.code() == 400 && message.contains(says), "{says}: {message}");
    }
}

/// Every message that a kind can reach: names are unique, and nothing exceeds the depth limit.
#[test]
fn the_table_is_sound() {
    fn walk(types: &'static Types, id: MessageId, above: &mut Vec<MessageId>, deepest: &mut usize) {
        assert!(above.len() < DEPTH_MAX, "{} nests as deep as the limit", types.message(id).name);
        *deepest = above.len().max(*deepest);
        above.push(id);
        let mut names = HashSet::new();
        for field in &types.message(id).fields {
            assert!(field.number > 0 && (field.name.is_empty() || names.insert(field.name)), "{field:?}");
            let inline_ok = matches!(field.shape, Shape::Message(_)) && field.count != Count::List;
            assert!(!field.name.is_empty() || inline_ok, "only messages are inlined: {field:?}");
            if let Shape::Message(inner) = field.shape {
                walk(types, inner, above, deepest);
            }
        }
        above.pop();
    }
    for release in Release::ALL {
        let types = release.types();
        let mut deepest = 0;
        for (api_version, kind) in
            [("batch/v1", "CronJob"), ("v1", "Pod"), ("resource.k8s.io/v1", "ResourceSlice")]
        {
            let Some(id) = types.kind(api_version, kind) else { continue };
            walk(types, id, &mut Vec::new(), &mut deepest);
        }
        assert!(deepest > 6, "{deepest}");
    }
}

/// Truncated and changed bodies, a million bytes of them: a result or an error, and a result is JSON.
#[test]
fn damaged_bodies_never_panic_and_never_give_broken_json() {
    let bodies: Vec<&[u8]> = POSTED.iter().map(|(_, body, _)| *body).chain([RECORDED]).collect();
    let check = |body: &[u8]| {
        if let Ok(decoded) = decode(Release::DEFAULT, body) {
            let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&decoded.json);
            assert!(parsed.is_ok(), "{}", String::from_utf8_lossy(&decoded.json));
        }
    };
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).expect("31 bits")
    };
    let mut good = 0;
    for body in &bodies {
        for end in 0..body.len() {
            check(&body[..end]);
        }
        for _ in 0..400 {
            let mut damaged = body.to_vec();
            for _ in 0..=random() % 3 {
                let at = random() % damaged.len();
                damaged[at] = u8::try_from(random() % 256).expect("a byte");
            }
            good += usize::from(decode(Release::DEFAULT, &damaged).is_ok());
            check(&damaged);
        }
    }
    assert!(good > 100, "some damage is harmless, as text inside text: {good}");
}
