//! YAML and gzip over the wire.

use std::io::Read;

use revcast_tests::client::Response;
use revcast_tests::server::Server;
use serde_json::json;

use crate::names;

const LIST: &str = "/api/v1/namespaces/e/configmaps";

fn unzip(body: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(body).read_to_end(&mut text).expect("whole gzip");
    text
}

/// What each of the long lists of a store is, in the framing and coding that was asked for.
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
    // So is a long object.
    let big = json!({"metadata": {"name": "z"}, "data": {"k": "x".repeat(200 << 10)}});
    assert_eq!(client.send("POST", LIST, &big).status, 201);
    let object = format!("{LIST}/z");
    let got = get(&object, &[("Accept-Encoding", "gzip")]);
    assert_eq!(got.header("content-encoding"), Some("gzip"));
    assert!(got.body.len() < 8 << 10 && unzip(&got.body).len() > 200 << 10, "{}", got.body.len());
    // HEAD is no method of objects (recording 12).
    assert_eq!(client.request("HEAD", &object, &[("Accept-Encoding", "gzip")], &[]).status, 405);
}
