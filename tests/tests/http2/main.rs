//! HTTP/2 of a real server: every rule of RFC 9113 and RFC 7541 that binds a server, RFC 8441, attacks, and the
//! Kubernetes API over it. A case is named by document, section and words.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm)]

mod attacks;
mod case;
mod connect;
mod fields;
mod floods;
mod flow;
mod frames;
mod hpack;
mod kubernetes;
mod messages;
mod preface;
mod pseudo;
mod settings;
mod slow;
mod streams;
mod tls;

use revcast_tests::client::Client;
use revcast_tests::http2::{Connection, Frame, flag, hpack as packed};
use revcast_tests::server::Server;
use serde_json::json;

/// Where tests write.
const PATH: &str = "/api/v1/namespaces/h/configmaps";
/// A watch on which nothing happens.
const QUIET: &str = "/api/v1/namespaces/quiet/configmaps?watch=1";

/// A GET in one frame.
fn get(stream: u32, path: &str) -> Frame {
    Frame::headers(stream, flag::WHOLE, packed::request("GET", path, &[]))
}

/// A watch that says nothing: the stream is half-closed by the client, and stays so.
fn watch(stream: u32) -> Frame {
    get(stream, QUIET)
}

/// The head of a request with a body: the stream stays open.
fn post(stream: u32) -> Frame {
    Frame::headers(stream, flag::END_HEADERS, post_block(&[]))
}

/// The same with more fields.
fn post_with(stream: u32, more: &[(&str, &str)]) -> Frame {
    Frame::headers(stream, flag::END_HEADERS, post_block(more))
}

fn post_block(more: &[(&str, &str)]) -> Vec<u8> {
    let json = packed::literal("content-type", "application/json");
    [packed::request("POST", PATH, &[]), json, packed::block(more)].concat()
}

/// An object as JSON.
fn object(name: &str, data: &str) -> Vec<u8> {
    json!({"metadata": {"name": name}, "data": {"k": data}}).to_string().into_bytes()
}

/// Creates an object over HTTP/1.1.
fn create(client: &Client, name: &str, data: &str) {
    let reply = client.request("POST", PATH, &[("content-type", "application/json")], &object(name, data));
    assert_eq!(reply.status, 201, "{}", reply.text());
}

/// Another connection works.
fn is_well(server: &Server) {
    Connection::open(&server.address).expect_alive();
}
