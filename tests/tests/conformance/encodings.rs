//! YAML and gzip over the wire, and escapes in texts.

use std::io::Read;

use revcast_tests::client::Response;
use revcast_tests::server::Server;
use revcast_tests::websocket::{UPGRADE, WebSocket};
use serde_json::json;

use crate::{names, told};

const LIST: &str = "/api/v1/namespaces/e/configmaps";

fn unzip(body: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(body).read_to_end(&mut text).expect("whole gzip");
    text
}

/// The long lists of a store, in the requested framing and coding.
#[test]
fn long_lists_are_compressed_piece_by_piece() {
    let server = Server::start(&[]);
    let client = server.client();
    let mut connection = client.connect().unwrap();
    for number in 0_u64..600 {
        let noise: String = (0..80)
            .map(|turn| format!("{:016x}", (number * 80 + turn + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect();
        let object = json!({"metadata": {"name": format!("n{number:03}")}, "data": {"k": noise}});
        let reply = connection.request("POST", LIST, &[], object.to_string().as_bytes()).unwrap();
        assert_eq!(reply.status, 201);
    }
    let mut get = |target: &str, headers: &[(&str, &str)]| -> Response {
        connection.request("GET", target, headers, &[]).unwrap()
    };
    let plain = get(LIST, &[]);
    assert_eq!((plain.header("content-encoding"), plain.header("vary")), (None, None));
    let zipped = get(LIST, &[("Accept-Encoding", "deflate, gzip, br")]);
    assert_eq!(zipped.header("content-encoding"), Some("gzip"));
    assert_eq!(zipped.header("vary"), Some("Accept-Encoding"));
    assert_eq!(zipped.header("transfer-encoding"), Some("chunked"));
    assert_eq!(zipped.header("content-type"), Some("application/json"));
    assert!(zipped.body.len() < plain.body.len(), "{} of {}", zipped.body.len(), plain.body.len());
    assert_eq!(unzip(&zipped.body), plain.body);
    let yaml = get(LIST, &[("Accept", "application/yaml")]);
    assert_eq!(yaml.header("content-type"), Some("application/yaml"));
    assert_eq!(yaml.header("transfer-encoding"), Some("chunked"));
    assert!(yaml.text().starts_with("apiVersion: v1\nitems:\n- data:\n    k: "));
    assert_eq!(yaml.text().matches("\n- data:\n").count(), names(&plain.json()).len());
    let both = get(LIST, &[("Accept", "application/yaml"), ("Accept-Encoding", "gzip")]);
    assert_eq!(both.header("content-type"), Some("application/yaml"));
    assert_eq!(unzip(&both.body), yaml.body);
    // One of them is short.
    let one = get(&format!("{LIST}?limit=1"), &[("Accept-Encoding", "gzip")]);
    assert_eq!((one.header("content-encoding"), one.header("vary")), (None, None));
    assert_eq!(one.header("content-length"), Some(one.body.len().to_string().as_str()));
    // And a long object.
    let big = json!({"metadata": {"name": "z"}, "data": {"k": "x".repeat(200 << 10)}});
    assert_eq!(client.send("POST", LIST, &big).status, 201);
    let object = format!("{LIST}/z");
    let got = get(&object, &[("Accept-Encoding", "gzip")]);
    assert_eq!(got.header("content-encoding"), Some("gzip"));
    assert!(got.body.len() < 8 << 10 && unzip(&got.body).len() > 200 << 10, "{}", got.body.len());
    // HEAD is not supported for objects (recording 12).
    assert_eq!(client.request("HEAD", &object, &[("Accept-Encoding", "gzip")], &[]).status, 405);
}

/// A text, and its recorded JSON from kube-apiserver (recording 30, the data of a ConfigMap).
const TEXT: &str = "<a href=\"x\">&amp;</a>\u{2028}\u{2029}\u{1} ünï 漢字 🎉\n\t\"\\";
const SPELLED: &str =
    r#""\u003ca href=\"x\"\u003e\u0026amp;\u003c/a\u003e\u2028\u2029\u0001 ünï 漢字 🎉\n\t\"\\""#;

#[test]
fn texts_are_spelled_as_go_spells_them_in_every_form() {
    let server = Server::start(&[]);
    let client = server.client();
    let one = format!("{LIST}/one");
    let from = client.newest();
    let mut watch = client.watch(&format!("{LIST}?watch=1&resourceVersion={from}")).unwrap();
    let mut socket =
        WebSocket::open(&server.address, &format!("{LIST}?watch=1&resourceVersion={from}"), UPGRADE).unwrap();
    let object = json!({"metadata": {"name": "one", "labels": {"a": "b"}, "annotations": {"n": TEXT}}, "data": {"k": TEXT, "n<": "1"}});
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let ask = |method: &str, target: &str, accept: &str, body: &[u8]| {
        let headers = [("accept", accept), ("content-type", "application/json")];
        let reply = client.request(method, target, &headers, body);
        assert!(reply.status < 300, "{method} {target}: {}", reply.text());
        reply.text()
    };
    let body = object.to_string();
    let (json, dry) = ("application/json", format!("{LIST}?dryRun=All"));
    let mut forms = vec![
        ("dry run", ask("POST", &dry, json, body.as_bytes())),
        ("dry run as a Table", ask("POST", &format!("{dry}&includeObject=Object"), table, body.as_bytes())),
        ("dry run as metadata", ask("POST", &dry, metadata, body.as_bytes())),
        ("post", ask("POST", LIST, json, body.as_bytes())),
        ("get", ask("GET", &one, json, b"")),
        ("pretty", ask("GET", &format!("{one}?pretty=1"), json, b"")),
        ("put that changes nothing", ask("PUT", &one, json, body.as_bytes())),
        ("list", ask("GET", LIST, json, b"")),
        ("Table", ask("GET", &format!("{one}?includeObject=Object"), table, b"")),
        ("Table of metadata", ask("GET", LIST, table, b"")),
        ("metadata", ask("GET", &one, metadata, b"")),
        ("watch", watch.next_line().unwrap().unwrap()),
        ("WebSocket", String::from_utf8(socket.next_frame().unwrap().unwrap().1).unwrap()),
        ("initial events", client.watch(&format!("{LIST}?watch=1")).unwrap().next_line().unwrap().unwrap()),
        ("delete", ask("DELETE", &one, json, br#"{"dryRun":["All"]}"#)),
    ];
    let yaml = ask("GET", &one, "application/yaml", b"");
    assert!(yaml.contains("<a href=") && yaml.contains("n<: ") && !yaml.contains("u003c"), "{yaml}");
    let secret = json!({"metadata": {"name": "s"}, "type": TEXT, "data": {}}).to_string();
    forms.push(("a cell", ask("POST", "/api/v1/namespaces/e/secrets", table, secret.as_bytes())));
    let wrong = client.request("GET", &format!("{LIST}?fieldSelector=%3C%26%3E"), &[], &[]);
    assert!(wrong.text().contains(r"\u003c\u0026\u003e"), "{}", wrong.text());
    for (form, text) in forms {
        assert!(!text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{form}: {text}");
        let told_of = text.contains(SPELLED) || form == "delete";
        assert!(told_of, "{form}: {text}");
        let key = text.contains(r#""n\u003c":"#) || text.contains(r#""n\u003c": "#);
        let is_whole =
            !matches!(form, "delete" | "a cell" | "Table of metadata" | "metadata" | "dry run as metadata");
        assert_eq!(key, is_whole, "{form}: {text}");
    }
    // Selectors and the next writer see the text.
    let found = client.get(&format!("{LIST}?labelSelector=a%3Db")).json();
    assert_eq!(found["items"][0]["data"]["k"], TEXT);
    let changed = client.patch(&one, "merge-patch", &json!({"data": {"l": "1"}}));
    assert_eq!(changed.json()["data"], json!({"k": TEXT, "n<": "1", "l": "1"}));
    assert_eq!(told(&watch.next_event()), "MODIFIED one");
}
