//! The table of scalars, and texts that must be refused.

use serde_json::json;

use super::*;

fn read(text: &str) -> Value {
    to_json(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn scalars_are_those_of_kubernetes() {
    for (text, value) in [
        ("a", json!("a")),
        ("", Value::Null),
        ("~", Value::Null),
        ("null", Value::Null),
        ("nULL", json!("nULL")),
        ("yes", json!(true)),
        ("y", json!(true)),
        ("On", json!(true)),
        ("TRUE", json!(true)),
        ("tRUE", json!("tRUE")),
        ("no", json!(false)),
        ("off", json!(false)),
        ("'yes'", json!("yes")),
        ("\"1\"", json!("1")),
        ("1", json!(1)),
        ("-1", json!(-1)),
        ("+1", json!(1)),
        ("--1", json!("--1")),
        ("0x-1", json!("0x-1")),
        ("0", json!(0)),
        ("0644", json!(420)),
        ("0o644", json!(420)),
        ("0x1F", json!(31)),
        ("-0x1F", json!(-31)),
        ("0b101", json!(5)),
        ("1_000", json!(1000)),
        ("08", json!(8)),
        ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("1.5", json!(1.5)),
        ("1.0", json!(1)),
        ("1.", json!(1)),
        (".5", json!(0.5)),
        ("-.5", json!(-0.5)),
        ("1e3", json!(1000)),
        ("1e-2", json!(0.01)),
        ("1.5e", json!("1.5e")),
        (".", json!(".")),
        ("1.2.3", json!("1.2.3")),
        ("100m", json!("100m")),
        ("1Gi", json!("1Gi")),
        ("2001-12-14", json!("2001-12-14")),
        ("2026-11-21T05:38:13Z", json!("2026-11-21T05:38:13Z")),
        ("12:30:45", json!("12:30:45")),
        ("!!str 1", json!("1")),
        ("!!int \"1\"", json!(1)),
        ("!!float 1", json!(1)),
        ("!!bool yes", json!(true)),
        ("!!timestamp 2001-12-14", json!("2001-12-14")),
        ("!mine x", json!("x")),
        ("|\n  a\n  b\n", json!("a\nb\n")),
        (">-\n  a\n  b\n", json!("a b")),
    ] {
        assert_eq!(read(text), value, "{text:?}");
        assert_eq!(read(&format!("k: {text}\n")), json!({"k": value}), "{text:?} as a value");
    }
}

#[test]
fn keys_become_text() {
    let text = "1: a\n0x10: b\ny: c\nno: d\n1.5: e\n'': f\n? x\n: g\n";
    let value = json!({"1": "a", "16": "b", "true": "c", "false": "d", "1.5": "e", "": "f", "x": "g"});
    assert_eq!(read(text), value);
    assert_eq!(read("a: 1\na: 2\n"), json!({"a": 2}), "the last one counts");
}

#[test]
fn aliases_and_merges() {
    let text =
        "base: &b {x: 1, v: [2]}\nsame: *b\nmore: {<<: *b, x: 3}\nboth: {<<: [{x: 5}, *b], z: 4}\n'<<': q\n";
    let value = json!({"base": {"x": 1, "v": [2]}, "same": {"x": 1, "v": [2]}, "more": {"x": 3, "v": [2]},
        "both": {"x": 5, "v": [2], "z": 4}, "<<": "q"});
    assert_eq!(read(text), value);
    assert_eq!(read("a: &s text\nb: *s\n*s : c\n"), json!({"a": "text", "b": "text", "text": "c"}));
}

#[test]
fn documents_are_counted() {
    for text in ["", "# nothing\n", "---\n", "---\n...\n---\n"] {
        assert_eq!(read(text), Value::Null, "{text:?}");
    }
    for text in
        ["---\na: 1\n", "a: 1\n---\n", "a: 1\n...\n", "---\n---\na: 1\n", "# x\n---\na: 1\n--- # end\n"]
    {
        assert_eq!(read(text), json!({"a": 1}), "{text:?}");
    }
    assert_eq!(to_json(b"a: 1\n---\na: 2\n"), Err(YamlError::Documents));
    assert_eq!(read("{\"a\":\t[1, \"x\\n\", null]}"), json!({"a": [1, "x\n", null]}), "JSON is YAML");
}

#[test]
fn what_is_wrong_is_told() {
    for (text, part) in [
        ("a: [1", "line 1"),
        ("a: b: c", "yaml: "),
        ("a: *none", "anchor"),
        ("&a [*a]", "contains itself"),
        ("[a]: b", "a key must be"),
        ("{a: 1}: b", "a key must be"),
        ("~: b", "a key must be"),
        ("<<: 1", "map merge requires"),
        ("<<: [1]", "map merge requires"),
        ("a: .nan", "JSON has no number"),
        ("a: -.inf", "JSON has no number"),
        ("a: !!int x", "cannot decode `x` as a !!int"),
        ("a: !!int 1.5", "cannot decode"),
        ("a: !!null x", "cannot decode"),
        ("a: !!bool 1", "cannot decode"),
        ("a: !!binary aGk=", "base64"),
    ] {
        let error = to_json(text.as_bytes()).expect_err(text).to_string();
        assert!(error.contains(part), "{text:?}: {error}");
    }
    assert_eq!(to_json(b"a: \xff"), Err(YamlError::Encoding));
}

#[test]
fn bombs_do_not_go_off() {
    let mut laughs = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..20 {
        let alias = format!("*a{}", level - 1);
        let items = vec![alias; 9].join(", ");
        laughs.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    assert_eq!(to_json(laughs.as_bytes()), Err(YamlError::Aliases));
    // Anchors around anchors are copied as well.
    let chain: String = (0..80_000).map(|n| format!("a{n}: &a{n} {{x: {}}}\n", "y".repeat(40))).collect();
    assert_eq!(to_json(chain.as_bytes()), Err(YamlError::Aliases));
    // Deep by nesting, and deep by aliases of aliases.
    for open in ["[", "{a: ", "- "] {
        assert!(to_json(open.repeat(5000).as_bytes()).is_err(), "{open}");
    }
    let fits = format!("{}{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
    assert!(to_json(fits.as_bytes()).is_ok());
    assert_eq!(to_json(format!("[{fits}]").as_bytes()), Err(YamlError::Depth));
    let mut ladder = "a0: &a0 [x]\n".to_owned();
    for level in 1..1000 {
        ladder.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
    }
    assert_eq!(to_json(ladder.as_bytes()), Err(YamlError::Depth));
}

#[test]
fn a_large_body_takes_no_time() {
    let begun = std::time::Instant::now();
    let data: String =
        (0..40_000).map(|n| format!("  key-{n}: \"value {n} {}\"\n", "x".repeat(40))).collect();
    let value = read(&format!("kind: ConfigMap\ndata:\n{data}"));
    assert_eq!(value["data"].as_object().map(Map::len), Some(40_000));
    let flow = |count| format!("[{}]", vec!["[]"; count].join(","));
    assert_eq!(read(&flow(NODES_MAX - 1)).as_array().map(Vec::len), Some(NODES_MAX - 1));
    assert_eq!(to_json(flow(NODES_MAX).as_bytes()), Err(YamlError::Nodes));
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}
