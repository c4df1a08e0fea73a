//! A store without room: writes are refused with 507 and have no effect, reads and watches continue, and with room
//! again the store continues without a restart. No acknowledged write is lost, even in a crash.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use revcast_tests::client::Client;
use revcast_tests::server::{Scratch, Server, embedded_only};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/f/configmaps";
/// The file of a store grows by doubling, and is some MiB when it is new.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Sets the maximum size of files of a process (`prlimit`, util-linux).
fn limit_files(server: &Server, bytes: Option<u64>) {
    let limit = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
    let mut command = Command::new("prlimit");
    command.args(["--pid", &server.pid().to_string(), &format!("--fsize={limit}:unlimited")]);
    let done = command.status().expect("prlimit is there");
    assert!(done.success());
}

fn put(client: &Client, number: u64) -> (u16, Value) {
    let object = json!({"metadata": {"name": format!("n{number}")}, "data": {"k": "x".repeat(100_000)}});
    let reply = client.send("POST", MAPS, &object);
    (reply.status, reply.json())
}

/// Names and versions of all objects.
fn listed(client: &Client) -> BTreeMap<String, String> {
    let list = client.get(MAPS).json();
    let items = list["items"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    items.map(|item| (text(&item["metadata"]["name"]), text(&item["metadata"]["resourceVersion"]))).collect()
}

#[test]
fn writes_are_refused_until_there_is_room() {
    if !embedded_only("it is about the embedded store's file") {
        return;
    }
    let scratch = Scratch::new("disk-full");
    let data = format!("{}/data", scratch.path());
    let options = ["--data-dir", &data, "--compact-interval", "1s"];
    let server = Server::start(&options);
    let client = server.client();
    let mut watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={}", client.newest())).unwrap();
    let mut promised = BTreeMap::new();
    let mut refused = Vec::new();
    let mut number = 0;
    for round in 0..3 {
        let size = std::fs::metadata(format!("{data}/revcast.redb")).unwrap().len();
        limit_files(&server, Some(size.max(FILE_BYTES_MAX)));
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut in_a_row = 0;
        while in_a_row < 3 {
            assert!(Instant::now() < deadline, "round {round}: the disk does not fill");
            number += 1;
            let (status, reply) = put(&client, number);
            match status {
                201 => {
                    let version = reply["metadata"]["resourceVersion"].as_str().unwrap();
                    promised.insert(format!("n{number}"), version.to_owned());
                    assert_eq!(watch.next_event().1["metadata"]["name"], format!("n{number}"));
                    in_a_row = 0;
                }
                507 => {
                    assert_eq!(
                        (&reply["kind"], &reply["reason"]),
                        (&json!("Status"), &json!("InsufficientStorage"))
                    );
                    let message = reply["message"].as_str().unwrap();
                    assert!(message.contains("was not made") && message.contains("free space"), "{message}");
                    refused.push(format!("n{number}"));
                    in_a_row += 1;
                }
                other => panic!("{other}: {reply}"),
            }
        }
        assert_eq!(server.metric("revcast_store_full"), 1);
        // Existing objects can be read and watched, and there are no others.
        assert_eq!(client.get("/readyz").status, 200);
        assert_eq!(listed(&client), promised);
        assert!(watch.is_quiet_for(Duration::from_millis(300)), "a refused write was seen");
        assert_eq!(client.get(&format!("{MAPS}/{}", refused[0])).status, 404);
        limit_files(&server, None);
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            number += 1;
            let (status, reply) = put(&client, number);
            if status == 201 {
                let version = reply["metadata"]["resourceVersion"].as_str().unwrap();
                promised.insert(format!("n{number}"), version.to_owned());
                break;
            }
            assert_eq!(status, 507, "{reply}");
            assert!(Instant::now() < deadline, "there is room, and it is not used");
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(watch.next_event().1["metadata"]["name"], format!("n{number}"));
        assert_eq!(server.metric("revcast_store_full"), 0);
    }
    assert!(refused.len() >= 9);
    drop(watch);
    server.kill();
    let server = Server::start(&options);
    assert_eq!(listed(&server.client()), promised, "what was acknowledged is there, and nothing else");
}

/// Writes until there is no room three times in a row.
fn fill(server: &Server, data: &str) {
    let size = std::fs::metadata(format!("{data}/revcast.redb")).unwrap().len();
    limit_files(server, Some(size.max(FILE_BYTES_MAX)));
    let (client, mut refused) = (server.client(), 0);
    for number in 0..2000 {
        match put(&client, number).0 {
            201 => refused = 0,
            507 => refused += 1,
            other => panic!("{other}"),
        }
        if refused == 3 {
            return;
        }
    }
    panic!("the disk does not fill");
}

#[test]
fn a_compaction_without_room_says_so_and_is_made_when_there_is_some() {
    if !embedded_only("it is about the embedded store's file") {
        return;
    }
    let scratch = Scratch::new("disk-full-compact");
    let data = format!("{}/data", scratch.path());
    let options = ["--data-dir", &data, "--compact-interval", "0"];
    let server = Server::start(&options);
    let old = server.client().newest();
    let compacted = server.metric("revcast_store_compacted_revision");
    assert!((1..=old).contains(&compacted), "a store begins with what it has forgotten: {compacted}");
    fill(&server, &data);
    let newest = server.client().newest();
    let compact = || server.admin_client().request("POST", &format!("/compact?revision={newest}"), &[], &[]);
    // At once, when the disk is not tried, and later, when it is.
    for pause in [0, 1200, 1200] {
        std::thread::sleep(Duration::from_millis(pause));
        let reply = compact();
        assert_eq!(reply.status, 507, "{}", reply.text());
        assert!(
            reply.text().contains("not compacted") && reply.text().contains("has no room"),
            "{}",
            reply.text()
        );
        assert_eq!(server.metric("revcast_store_compacted_revision"), compacted);
    }
    // Nothing readable was compacted by that.
    let mut watch = server.client().watch(&format!("{MAPS}?watch=1&resourceVersion={old}")).unwrap();
    assert_eq!(watch.next_event().0, "ADDED");
    drop(watch);

    limit_files(&server, None);
    std::thread::sleep(Duration::from_millis(1200));
    let reply = compact();
    assert_eq!((reply.status, reply.text()), (200, format!("compacted revision {newest}\n")));
    assert_eq!(server.metric("revcast_store_compacted_revision"), newest);
    assert_eq!(server.metric("revcast_store_full"), 0, "a compaction shows it as well as a write");
    let all = listed(&server.client());
    server.kill();
    let server = Server::start(&options);
    assert_eq!(listed(&server.client()), all);
    assert_eq!(server.metric("revcast_window_compacted_revision"), newest, "the file has forgotten it too");
    assert_eq!(server.metric("revcast_store_compacted_revision"), newest, "and says so from the start");
}

/// Without writes and requests: a compaction that is due is done nevertheless.
#[test]
fn a_due_compaction_that_found_no_room_is_made_when_there_is_some() {
    if !embedded_only("it is about the embedded store's file") {
        return;
    }
    let scratch = Scratch::new("disk-full-due");
    let data = format!("{}/data", scratch.path());
    let server = Server::start(&["--data-dir", &data, "--compact-interval", "1s", "--ring-bytes", "1MiB"]);
    assert!(server.metric("revcast_store_compacted_revision") > 0);
    fill(&server, &data);
    // It is due at least twice meanwhile.
    std::thread::sleep(Duration::from_millis(3500));
    let forgotten = server.metric("revcast_window_compacted_revision");
    assert!(server.metric("revcast_store_compacted_revision") < forgotten, "there is no room to compact");
    limit_files(&server, None);
    server.wait_for_metric("revcast_store_compacted_revision", forgotten);
}
