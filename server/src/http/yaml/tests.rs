//! Golden texts: what go-yaml v2 writes for the same values.

use serde_json::{Value, json};

use super::{from_json, push, push_item};

fn yaml(value: &Value) -> String {
    let mut out = Vec::new();
    push(&mut out, value);
    String::from_utf8(out).expect("text")
}

/// The text of a value below the key `k`, without the key.
fn scalar(text: &str) -> String {
    let whole = yaml(&json!({"k": text}));
    whole.strip_prefix("k: ").and_then(|rest| rest.strip_suffix('\n')).expect("a scalar").to_owned()
}

#[test]
fn a_list_is_written_as_recorded() {
    // Recording 17.
    let list = json!({"kind": "ConfigMapList", "apiVersion": "v1",
        "metadata": {"resourceVersion": "106", "continue": "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTA2LCJzdGFydCI6Ii9jbTFcdTAwMDAifQ", "remainingItemCount": 4},
        "items": [{"metadata": {"name": "cm1", "namespace": "t1", "uid": "eb0f60a8-97ec-4d87-b91d-385c792cb033", "resourceVersion": "99",
            "creationTimestamp": "2026-11-21T05:37:13Z", "labels": {"app": "a"},
            "managedFields": [{"manager": "anchor", "operation": "Update", "apiVersion": "v1", "time": "2026-11-21T05:38:02Z", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:data": {".": {}, "f:k": {}}, "f:metadata": {"f:labels": {".": {}, "f:app": {}}}}}]},
            "data": {"k": "upd-15925"}}]});
    let recorded = "apiVersion: v1
items:
- data:
    k: upd-15925
  metadata:
    creationTimestamp: \"2026-11-21T05:37:13Z\"
    labels:
      app: a
    managedFields:
    - apiVersion: v1
      fieldsType: FieldsV1
      fieldsV1:
        f:data:
          .: {}
          f:k: {}
        f:metadata:
          f:labels:
            .: {}
            f:app: {}
      manager: anchor
      operation: Update
      time: \"2026-11-21T05:38:02Z\"
    name: cm1
    namespace: t1
    resourceVersion: \"99\"
    uid: eb0f60a8-97ec-4d87-b91d-385c792cb033
kind: ConfigMapList
metadata:
  continue: eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTA2LCJzdGFydCI6Ii9jbTFcdTAwMDAifQ
  remainingItemCount: 4
  resourceVersion: \"106\"
";
    assert_eq!(yaml(&list), recorded);
    assert_eq!(recorded.len(), 690, "the recorded Content-Length");
    // In pieces the text is the same.
    let mut pieces = Vec::new();
    push(&mut pieces, &json!({"apiVersion": "v1"}));
    pieces.extend_from_slice(b"items:\n");
    push(&mut pieces, &list["items"]);
    push(&mut pieces, &json!({"kind": list["kind"], "metadata": list["metadata"]}));
    assert_eq!(String::from_utf8_lossy(&pieces), recorded);
}

#[test]
fn an_error_is_written_as_recorded() {
    let status = br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch","reason":"NotAcceptable","code":406}"#;
    let recorded = "apiVersion: v1
code: 406
kind: Status
message: 'only the following media types are accepted: application/json;stream=watch,
  application/vnd.kubernetes.protobuf;stream=watch'
metadata: {}
reason: NotAcceptable
status: Failure
";
    assert_eq!(String::from_utf8(from_json(status)).expect("text"), recorded);
    assert_eq!(recorded.len(), 227, "the recorded Content-Length");
}

#[test]
fn collections_nest() {
    for (value, wanted) in [
        (json!({}), "{}\n"),
        (json!([]), "[]\n"),
        (json!(null), "null\n"),
        (json!("x"), "x\n"),
        (
            json!({"a": [], "b": {}, "c": null, "d": true, "e": false}),
            "a: []\nb: {}\nc: null\nd: true\ne: false\n",
        ),
        (json!({"a": [1, [2, 3], [], {}]}), "a:\n- 1\n- - 2\n  - 3\n- []\n- {}\n"),
        (
            json!({"a": {"b": ["c", {"d": ["e"], "f": {"g": "h"}}]}}),
            "a:\n  b:\n  - c\n  - d:\n    - e\n    f:\n      g: h\n",
        ),
        (json!([{"a": 1, "b": 2}, [[{"c": 3, "d": 4}]]]), "- a: 1\n  b: 2\n- - - c: 3\n      d: 4\n"),
        (json!({"a": ["x\ny\n", "z"], "b": 1}), "a:\n- |\n  x\n  y\n- z\nb: 1\n"),
    ] {
        assert_eq!(yaml(&value), wanted, "{value}");
    }
}

#[test]
fn text_that_would_be_read_as_something_else_is_quoted() {
    for quoted in [
        "",
        "~",
        "null",
        "Null",
        "true",
        "TRUE",
        "y",
        "N",
        "yes",
        "off",
        "On",
        "1",
        "-1",
        "+1",
        "0",
        "0x1F",
        "0777",
        "0o17",
        "0b101",
        "1_000",
        "08",
        "1.5",
        "-.5",
        ".5",
        "1e3",
        "1.",
        "99999999999999999999",
        "0xfffffffffffffffffff",
        ".inf",
        "-.INF",
        "+.inf",
        ".NaN",
        "<<",
        "1:20",
        "190:20:30.15",
        "2026-11-21",
        "2026-1-2",
        "2026-11-21T05:37:13Z",
        "2026-11-21t5:7:3.25+01:00",
        "2026-11-21 05:37:13.5",
    ] {
        assert_eq!(scalar(quoted), format!("\"{quoted}\""));
    }
    for plain in [
        "a",
        "nope",
        "yess",
        "tRUE",
        "1a",
        "1.2.3",
        "10.0.0.7",
        "0x",
        "0xg",
        "09a",
        "1e",
        "1e400",
        "-0xfffffffffffffffffff",
        "1:60",
        "1:2:x",
        "2026-13-01",
        "2026-02-30",
        "2026-11-21T05:37:13",
        "2026-11-21 05:37:13Z",
        "2026-11-21T25:00:00Z",
        "26-11-21",
        "2026-11-21x",
        "=",
        "a:b",
        "a#b",
        "http://x/y?z",
        "-a",
        "--",
        "?a",
        ":a",
        "a b",
        "a, b",
        "a]",
        "(x)",
        "/x",
        "\u{e9}",
        "a'b",
        "a\"b",
        "a\\b",
        "250m",
        "1Gi",
        "v1",
        ".",
        "..",
        "+",
        "._5",
        "é ü",
    ] {
        assert_eq!(scalar(plain), plain);
    }
    assert_eq!(
        yaml(&json!({"true": "a", "1": "b", "x y": "c", "": "d"})),
        "\"\": d\n\"1\": b\n\"true\": a\nx y: c\n"
    );
}

#[test]
fn text_that_cannot_stand_alone_is_quoted() {
    for (text, wanted) in [
        ("a: b", "'a: b'"),
        ("a:", "'a:'"),
        ("a #b", "'a #b'"),
        ("- a", "'- a'"),
        ("-", "'-'"),
        ("---", "'---'"),
        ("...", "'...'"),
        ("? a", "'? a'"),
        ("*a", "'*a'"),
        ("&a", "'&a'"),
        ("!a", "'!a'"),
        ("|", "'|'"),
        (">", "'>'"),
        ("%a", "'%a'"),
        ("@a", "'@a'"),
        ("`a", "'`a'"),
        ("{a}", "'{a}'"),
        ("[a]", "'[a]'"),
        (",", "','"),
        ("#a", "'#a'"),
        ("'a'", "'''a'''"),
        ("\"a\"", "'\"a\"'"),
        ("it's: so", "'it''s: so'"),
        (" a", "' a'"),
        ("a ", "'a '"),
        ("a\tb", "\"a\\tb\""),
        ("a\rb", "\"a\\rb\""),
        ("\u{0}\u{7}\u{8}\u{b}\u{c}\u{1b}\u{1}\u{7f}", "\"\\0\\a\\b\\v\\f\\e\\x01\\x7F\""),
        ("\t\"\\", "\"\\t\\\"\\\\\""),
        ("\u{85}\u{9f}", "\"\\N\\x9F\""),
        ("\u{feff}x", "\"\\uFEFFx\""),
        ("smile \u{1f600}", "\"smile \\U0001F600\""),
        ("a\u{2028}b", "'a\u{2028}  b'"),
    ] {
        assert_eq!(scalar(text), wanted, "{text:?}");
    }
}

#[test]
fn several_lines_are_a_block() {
    for (text, wanted) in [
        ("a\n", "|\n  a"),
        ("a\nb", "|-\n  a\n  b"),
        ("a\n\nb\n", "|\n  a\n\n  b"),
        ("a\n\n", "|+\n  a\n"),
        ("\n", "|2+\n"),
        ("  a\nb\n", "|2\n    a\n  b"),
        ("\na\n", "|2\n\n  a"),
        ("a: b\n# c\n", "|\n  a: b\n  # c"),
        ("a\n b\n", "|\n  a\n   b"),
        ("a\n ", "\"a\\n \""),
        ("a \nb", "\"a \\nb\""),
        ("a\n\tb", "\"a\\n\\tb\""),
    ] {
        assert_eq!(scalar(text), wanted, "{text:?}");
    }
    let data = json!({"data": {"a.sh": "#!/bin/sh\nset -e\n\nexec x\n", "b": "1"}, "kind": "ConfigMap"});
    let wanted = "data:\n  a.sh: |\n    #!/bin/sh\n    set -e\n\n    exec x\n  b: \"1\"\nkind: ConfigMap\n";
    assert_eq!(yaml(&data), wanted);
}

#[test]
fn long_lines_are_folded_at_a_space() {
    let word = "abcdefghi ".repeat(10);
    let plain = word.trim_end();
    // The line is broken at the first space after column 80.
    let cut = plain.find(' ').map(|_| 79).expect("spaces");
    assert_eq!(scalar(plain), format!("{}\n  {}", &plain[..cut], &plain[cut + 1..]));
    let colon = format!("{plain}: x");
    assert_eq!(scalar(&colon), format!("'{}\n  {}'", &colon[..cut], &colon[cut + 1..]));
    let tab = format!("{plain}\tx");
    assert_eq!(scalar(&tab), format!("\"{}\n  {}\\tx\"", &tab[..cut], &plain[cut + 1..]));
    assert_eq!(scalar(&"x".repeat(300)), "x".repeat(300), "no space, no fold");
    let doubled = format!("{}  b", "x".repeat(90));
    assert_eq!(scalar(&doubled), doubled, "two spaces are kept together");
    let escaped = format!("{}  b\t", "x".repeat(90));
    assert_eq!(scalar(&escaped), format!("\"{}\n  \\ b\\t\"", "x".repeat(90)));
    let deep = json!({"a": {"b": [{"c": plain}]}});
    let at = plain[..72].rfind(' ').map_or(0, |_| 79);
    let written = yaml(&deep);
    assert!(written.lines().count() == 4 && written.contains("\n      "), "{at} {written}");
    // A key is never folded.
    let key = format!("{} {}", "k".repeat(90), "k".repeat(20));
    assert_eq!(yaml(&json!({(key.as_str()): 1})), format!("{key}: 1\n"));
}

#[test]
fn long_keys_and_those_of_several_lines_have_a_mark() {
    let long = "k".repeat(129);
    assert_eq!(yaml(&json!({(long.as_str()): "v"})), format!("? {long}\n: v\n"));
    assert_eq!(
        yaml(&json!({(long.as_str()): {"a": 1, "b": [2]}})),
        format!("? {long}\n: a: 1\n  b:\n  - 2\n")
    );
    assert_eq!(yaml(&json!({(long.as_str()): [1, 2]})), format!("? {long}\n: - 1\n  - 2\n"));
    assert_eq!(yaml(&json!({"a\nb": 1})), "? |-\n  a\n  b\n: 1\n");
    let short = "k".repeat(128);
    assert_eq!(yaml(&json!({(short.as_str()): "v"})), format!("{short}: v\n"));
}

#[test]
fn numbers_are_those_of_go() {
    for (json, wanted) in [
        ("0", "0"),
        ("-7", "-7"),
        ("9223372036854775807", "9223372036854775807"),
        ("18446744073709551615", "18446744073709551615"),
        ("1.0", "1"),
        ("1.50", "1.5"),
        ("0.1", "0.1"),
        ("-0.25", "-0.25"),
        ("1e3", "1000"),
        ("123456.5", "123456.5"),
        ("1234567.5", "1.2345675e+06"),
        ("1e21", "1e+21"),
        ("0.0001", "0.0001"),
        ("0.00001", "1e-05"),
        ("1.5304970785407676e-09", "1.5304970785407676e-09"),
        ("1e100", "1e+100"),
    ] {
        assert_eq!(String::from_utf8_lossy(&from_json(json.as_bytes())), format!("{wanted}\n"), "{json}");
    }
}

#[test]
fn what_cannot_be_held_stays_json() {
    let deep = "[".repeat(500) + &"]".repeat(500);
    for odd in [deep.as_str(), "1e999", "{"] {
        assert_eq!(String::from_utf8_lossy(&from_json(odd.as_bytes())), format!("{odd}\n"));
    }
}

#[test]
fn what_would_be_indent_alone_stays_json() {
    let deep = |inside: &str| format!("{}{inside}{}", "[".repeat(100), "]".repeat(100));
    let digits = deep(&["0"; 10_000].join(","));
    let folded = deep(&format!("\"{}a\"", "a ".repeat(10_000)));
    let lines = deep(&format!("\"{}\"", "a\\n".repeat(10_000)));
    for odd in [digits, folded, lines] {
        let whole = from_json(odd.as_bytes());
        assert!(whole == format!("{odd}\n").into_bytes(), "{} bytes of {}", whole.len(), odd.len());
        let mut list = b"items:\n".to_vec();
        push_item(&mut list, odd.as_bytes());
        assert!(list == format!("items:\n- {odd}\n").into_bytes(), "{} bytes of {}", list.len(), odd.len());
    }
    // A short value may be nested deeply.
    let short = from_json(deep("0,0").as_bytes());
    assert_eq!(String::from_utf8_lossy(&short), format!("{}0\n{}- 0\n", "- ".repeat(100), " ".repeat(198)));
}
