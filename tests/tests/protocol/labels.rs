//! The grammar of `labelSelector` (apimachinery `pkg/labels`): what a list shows, a watch begins with and delivers, and
//! a deletecollection would delete; and the errors of invalid selectors.

use revcast_tests::client::Client;
use revcast_tests::server::Server;
use serde_json::json;

use crate::{MAPS, assert_failure, escaped, initial_names, map, names, newest, post};

/// The objects to select from.
fn fill(client: &Client) {
    for (name, labels) in [
        ("a5", json!({"a": "5", "n": "5"})),
        ("ab", json!({"a": "b", "n": "10"})),
        ("ac", json!({"a": "c", "n": "007"})),
        ("big", json!({"A": "b", "n": "9223372036854775807"})),
        ("empty", json!({"a": "", "n": "x5"})),
        ("in", json!({"in": "notin", "notin": "in"})),
        ("none", json!({})),
        ("pre", json!({"example.com/a": "b", "a-b_c.d": "X.y_z-1"})),
    ] {
        post(client, MAPS, &map(name, &labels));
    }
}

/// Selector, and the names that it selects.
const SELECTED: &[(&str, &str)] = &[
    ("", "a5 ab ac big empty in none pre"),
    (" ", "a5 ab ac big empty in none pre"),
    ("a=b", "ab"),
    ("a==b", "ab"),
    (" a = b ", "ab"),
    ("a\t==\nb", "ab"),
    ("a=", "empty"),
    ("a==", "empty"),
    ("a!=b", "a5 ac big empty in none pre"),
    ("a!=", "a5 ab ac big in none pre"),
    ("a!=b,a", "a5 ac empty"),
    ("a", "a5 ab ac empty"),
    ("!a", "big in none pre"),
    ("! a", "big in none pre"),
    ("!a,!in", "big none pre"),
    ("a,!a", ""),
    ("A", "big"),
    ("A=B", ""),
    ("a in (b)", "ab"),
    ("a in (b,c)", "ab ac"),
    ("a in ( b , c )", "ab ac"),
    ("a in(c,b,b)", "ab ac"),
    ("a in ()", "empty"),
    ("a in (,b)", "ab empty"),
    ("a in (b,)", "ab empty"),
    ("a notin (b)", "a5 ac big empty in none pre"),
    ("a notin (b,c)", "a5 big empty in none pre"),
    ("a notin ()", "a5 ab ac big in none pre"),
    ("a notin (b),a", "a5 ac empty"),
    ("a in (b,c),n in (10)", "ab"),
    ("a=b,a=c", ""),
    ("a=b,a=b", "ab"),
    ("a=b,a in (b,c)", "ab"),
    ("n>5", "ab ac big"),
    ("n>4", "a5 ab ac big"),
    ("n<10", "a5 ac"),
    ("n > 5 , n < 10", "ac"),
    ("n>007", "ab big"),
    ("n<0", ""),
    ("n>9223372036854775806", "big"),
    ("in", "in"),
    ("in in (notin)", "in"),
    ("notin notin (x)", "a5 ab ac big empty in none pre"),
    ("in=notin", "in"),
    ("example.com/a", "pre"),
    ("example.com/a=b,!a", "pre"),
    ("a-b_c.d=X.y_z-1", "pre"),
    ("nothing", ""),
];

const KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
     must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
     validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Selector, and its error.
fn refused() -> Vec<(String, String)> {
    let parse = |why: &str| format!("unable to parse requirement: {why}");
    let fixed = [
        ("==", "found '==', expected: !, identifier, or 'end of string'".to_owned()),
        ("=b", "found '=', expected: !, identifier, or 'end of string'".to_owned()),
        (",", "found ',', expected: !, identifier, or 'end of string'".to_owned()),
        ("(a)", "found '(', expected: !, identifier, or 'end of string'".to_owned()),
        ("a,", "found '', expected: identifier after ','".to_owned()),
        ("a,,b", "found ',', expected: identifier after ','".to_owned()),
        ("a=b,=", "found '=', expected: identifier after ','".to_owned()),
        ("a=b c", "found 'c', expected: ',' or 'end of string'".to_owned()),
        ("a=b=c", "found '=', expected: ',' or 'end of string'".to_owned()),
        ("!a=b", "found '=', expected: ',' or 'end of string'".to_owned()),
        ("!", parse("found '', expected: identifier")),
        ("!!a", parse("found '!', expected: identifier")),
        ("a b", parse("found 'b', expected: in, notin, =, ==, !=, gt, lt")),
        ("a IN (b)", parse("found 'IN', expected: in, notin, =, ==, !=, gt, lt")),
        ("a in", parse("found '' expected: '('")),
        ("a in b", parse("found 'b' expected: '('")),
        ("a in (", parse("found '', expected: ',', ')' or identifier")),
        ("a in (b", parse("found '', expected: ',' or ')'")),
        ("a in (b c)", parse("found 'c', expected: ',' or ')'")),
        ("a in (=)", parse("found '=', expected: ',', ')' or identifier")),
        ("a===b", parse("found '=', expected: identifier")),
        ("a=(b)", parse("found '(', expected: identifier")),
        (
            "a>b",
            parse("values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer"),
        ),
        (
            "a>",
            parse("values[0]: Invalid value: \"\": for 'Gt', 'Lt' operators, the value must be an integer"),
        ),
    ];
    let mut rows: Vec<(String, String)> =
        fixed.into_iter().map(|(selector, message)| (selector.to_owned(), message)).collect();
    for key in ["-a", "a.", "_", "a\"b", "é"] {
        rows.push((key.to_owned(), parse(&format!("<nil>: Invalid value: {key:?}: {KEY}"))));
    }
    for value in ["-b", "b.", "\"b\"", "b/c", "ü"] {
        rows.push((format!("a={value}"), parse(&format!("values[0][a]: Invalid value: {value:?}: {VALUE}"))));
    }
    let long = "x".repeat(64);
    rows.push((
        long.clone(),
        parse(&format!("<nil>: Invalid value: {long:?}: name part must be no more than 63 bytes")),
    ));
    rows.push((
        format!("a={long}"),
        parse(&format!("values[0][a]: Invalid value: {long:?}: must be no more than 63 bytes")),
    ));
    rows.push(("/a".to_owned(), parse("<nil>: Invalid value: \"/a\": prefix part must be non-empty")));
    rows.push((
        "a/".to_owned(),
        parse(&format!("<nil>: Invalid value: \"a/\": name part must be non-empty; {KEY}")),
    ));
    rows
}

#[test]
fn what_is_selected() {
    let server = Server::start(&[]);
    let client = server.client();
    let start = newest(&client);
    fill(&client);
    // From the ring: all at once, for a second.
    let replayed: Vec<_> = SELECTED
        .iter()
        .map(|(selector, _)| {
            let query = format!("watch=1&resourceVersion={start}&timeoutSeconds=1");
            client.watch(&format!("{MAPS}?{query}&labelSelector={}", escaped(selector))).unwrap()
        })
        .collect();
    for (selector, expected) in SELECTED {
        let path = format!("{MAPS}?labelSelector={}", escaped(selector));
        let list = client.get(&path);
        assert_eq!((list.status, names(&list.json()).as_str()), (200, *expected), "LIST {selector:?}");
        assert_eq!(initial_names(&client, &path), *expected, "WATCH {selector:?}");
        let gone = client.request("DELETE", &format!("{path}&dryRun=All"), &[], &[]);
        assert_eq!((gone.status, names(&gone.json()).as_str()), (200, *expected), "DELETE {selector:?}");
    }
    for ((selector, expected), mut watch) in SELECTED.iter().zip(replayed) {
        let events = watch.rest();
        assert!(events.iter().all(|(kind, _)| kind == "ADDED"), "{selector:?}");
        let seen: Vec<&str> =
            events.iter().map(|(_, object)| object["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!(seen.join(" "), *expected, "replayed {selector:?}");
    }
    // A space may be written as a plus; the first value counts; and names are read unchanged.
    for (query, expected) in [
        ("labelSelector=a+in+(b,c)", "ab ac"),
        ("labelSelector=a=b", "ab"),
        ("labelSelector=a%3db", "ab"),
        ("labelSelector=a%3Db&labelSelector=a%3Dc", "ab"),
        ("labelSelector=", "a5 ab ac big empty in none pre"),
        ("labelSelector", "a5 ab ac big empty in none pre"),
        ("labelselector=a%3Db", "a5 ab ac big empty in none pre"),
        ("&&labelSelector=a%3Db&", "ab"),
    ] {
        assert_eq!(names(&client.get(&format!("{MAPS}?{query}")).json()), expected, "{query}");
    }
}

#[test]
fn what_is_no_selector() {
    let server = Server::start(&[]);
    let client = server.client();
    fill(&client);
    let before = newest(&client);
    for (selector, message) in refused() {
        let path = format!("{MAPS}?labelSelector={}", escaped(&selector));
        let failure = (400, "BadRequest", message.as_str());
        assert_failure(&client.get(&path), failure, "", &selector);
        assert_failure(&client.get(&format!("{path}&watch=true")), failure, "", &selector);
        assert_failure(&client.request("DELETE", &path, &[], &[]), failure, "", &selector);
        let legacy = path.replace("/api/v1/", "/api/v1/watch/");
        assert_failure(&client.get(&legacy), failure, "", &selector);
        // A GET of one object ignores it.
        let one = format!("{MAPS}/ab?labelSelector={}", escaped(&selector));
        assert_eq!(client.get(&one).status, 200, "{selector}");
    }
    assert_eq!(newest(&client), before, "nothing was deleted");
    // Very long ones: they are accepted up to the length of a head, and refused above the engine's limit, with the
    // remedy.
    let many = (0..900).map(|n| format!("v{n}")).collect::<Vec<_>>().join(",");
    let list = client.get(&format!("{MAPS}?labelSelector={}", escaped(&format!("a in (b,{many})"))));
    assert_eq!((list.status, names(&list.json()).as_str()), (200, "ab"));
    let terms = (0..129).map(|n| format!("!k{n}")).collect::<Vec<_>>().join(",");
    let refused = client.get(&format!("{MAPS}?labelSelector={terms}"));
    assert_eq!((refused.status, refused.json()["reason"].as_str()), (400, Some("BadRequest")));
    let endless = client.get(&format!("{MAPS}?labelSelector={}", "a".repeat(2 << 20)));
    assert!(matches!(endless.status, 0 | 400 | 414 | 431), "{}", endless.status);
    assert_eq!(client.get("/livez").status, 200);
}
