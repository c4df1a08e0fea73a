//! Requests with the most work that one request can cause, of each kind, beside a live watch on the same shard: it
//! receives others' writes within a second of the server's time, and refusals are short.
//!
//! The second is one of CPU time, and two without optimisation: other load on the machine does not count.
#![allow(clippy::unwrap_used)]

#[path = "heavy/bodies.rs"]
mod bodies;

use std::time::Duration;

use revcast_tests::client::{Connection, Watch};
use revcast_tests::server::Server;
use serde_json::{Value, json};

/// CPU time of the server, over all its threads, between a write and its arrival at the watch.
const BESIDE_MAX: Duration = Duration::from_secs(if cfg!(debug_assertions) { 2 } else { 1 });
/// The longest `Status`, and the longest head.
const STATUS_BYTES_MAX: usize = 64 << 10;
const HEAD_BYTES_MAX: usize = 1 << 10;
const BESIDE: &str = "/api/v1/namespaces/beside/configmaps";
const TABLE: (&str, &str) = ("accept", "application/json;as=Table;g=meta.k8s.io;v=v1");
const JSON: (&str, &str) = ("content-type", "application/json");

/// One request.
pub(crate) struct Heavy {
    name: String,
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Heavy {
    fn new(name: &str, method: &'static str, path: &str, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), kind.to_owned())];
        Self { name: name.to_owned(), method, path: path.to_owned(), headers, body: body.into() }
    }

    fn of_table(mut self) -> Self {
        self.headers.push((TABLE.0.to_owned(), TABLE.1.to_owned()));
        self.name.push_str(" as a table");
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: h\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", self.body.len()));
        [head.as_bytes(), &self.body].concat()
    }
}

/// A server of one shard with a watch on it, and a writer whose writes the watch receives.
struct Beside {
    server: Server,
    watch: Watch,
    writer: Connection,
    written: u64,
    /// The longest CPU time before the watch received a write, and during which request.
    worst: (Duration, String),
}

impl Beside {
    fn new() -> Self {
        let server = Server::start(&["--shards", "1"]);
        let client = server.client();
        let watch = client.watch(&format!("{BESIDE}?watch=1&resourceVersion={}", client.newest())).unwrap();
        let writer = client.connect().unwrap();
        Self { server, watch, writer, written: 0, worst: (Duration::ZERO, String::new()) }
    }

    /// Sends the request, and a write directly after it; returns the reply's code and body.
    fn send(&mut self, heavy: &Heavy) -> (u16, Vec<u8>) {
        let mut connection = self.server.client().connect().unwrap();
        let bytes = heavy.bytes();
        let (last, most) = bytes.split_last().unwrap();
        connection
            .write_raw(most)
            .unwrap_or_else(|error| panic!("{}, {} bytes: {error}", heavy.name, most.len()));
        // The server has read, and maybe refused, the bytes so far; the last byte starts the work.
        let is_refused = !connection.is_quiet_for(Duration::from_millis(20)).unwrap_or(false);
        let name = format!("w{}", self.written);
        self.written += 1;
        let object = json!({"metadata": {"name": name}}).to_string();
        let head = format!(
            "POST {BESIDE} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            object.len()
        );
        let before = self.server.cpu_time();
        if !is_refused {
            connection.write_raw(&[*last]).unwrap();
        }
        self.writer.write_raw((head + &object).as_bytes()).unwrap();
        assert_eq!(self.watch.next_event().1["metadata"]["name"], name, "beside {}", heavy.name);
        let spent = self.server.cpu_time() - before;
        assert_eq!(self.writer.read_response(true).unwrap().status, 201, "beside {}", heavy.name);
        if spent > self.worst.0 {
            self.worst = (spent, heavy.name.clone());
        }
        assert!(spent < BESIDE_MAX, "the watch waited for {spent:?} of work beside {}", heavy.name);
        let reply = connection.read_response(true).unwrap();
        let head: usize = reply.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        assert!(head < HEAD_BYTES_MAX, "{head} bytes of head after {}: {:?}", heavy.name, reply.headers);
        if reply.status >= 400 {
            let length = reply.body.len();
            assert!(length <= STATUS_BYTES_MAX, "{length} bytes of error after {}", heavy.name);
            let is_told = reply.body.windows(6).any(|window| window == b"Status") || reply.status == 404;
            assert!(is_told, "{}: {}", heavy.name, reply.text());
        }
        (reply.status, reply.body)
    }

    fn all(&mut self, requests: &[Heavy], codes: std::ops::Range<u16>) {
        for heavy in requests {
            let (code, body) = self.send(heavy);
            let shown: String = String::from_utf8_lossy(&body).chars().take(400).collect();
            assert!(codes.contains(&code), "{}: {code}: {shown}", heavy.name);
        }
    }

    fn end(self) {
        eprintln!("at most {:?} of work, beside {}", self.worst.0, self.worst.1);
        assert!(self.written > 0);
    }
}

#[test]
fn rows_of_tables() {
    let mut beside = Beside::new();
    let dry = |plural: &str| format!("/api/v1/namespaces/h/{plural}?dryRun=All");
    let post = |name: &str, plural: &str, body: Vec<u8>| {
        Heavy::new(name, "POST", &dry(plural), JSON.1, body).of_table()
    };
    beside.all(
        &[
            post("addresses x ports", "endpoints", bodies::endpoints(115_000)),
            post("ports", "services", bodies::service_ports(110_000)),
            post("labels", "services", bodies::selector(60_000)),
        ],
        201..202,
    );
    // The status of a pod is written separately.
    let pods = "/api/v1/namespaces/h/pods";
    let client = beside.server.client();
    for (name, parts) in [("gates", bodies::pod_gates(50_000)), ("sidecars", bodies::pod_sidecars(40_000))] {
        let [spec, status] = parts.map(|part| part(name));
        assert_eq!(client.request("POST", pods, &[JSON], &spec).status, 201, "{name}");
        let path = format!("{pods}/{name}/status?dryRun=All");
        beside.all(&[Heavy::new(name, "PUT", &path, JSON.1, status).of_table()], 200..201);
    }
    beside.end();
}

/// Every resource, with much content in each member that a row uses.
#[test]
fn rows_of_everything() {
    let mut beside = Beside::new();
    let client = beside.server.client();
    let mut lists = vec!["/api/v1".to_owned()];
    for group in client.get("/apis").json()["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            lists.push(format!("/apis/{}", version["groupVersion"].as_str().unwrap()));
        }
    }
    let mut shown = 0;
    for list in lists {
        for resource in client.get(&list).json()["resources"].as_array().unwrap() {
            let plural = resource["name"].as_str().unwrap();
            // Objects of this version are shown only: they are written in v2.
            if plural.contains('/') || list == "/apis/autoscaling/v1" {
                continue;
            }
            let space = if resource["namespaced"] == true { "/namespaces/h" } else { "" };
            let path = format!("{list}{space}/{plural}");
            let everything = bodies::everything(1_500);
            beside.all(&[Heavy::new(plural, "POST", &path, JSON.1, everything.clone()).of_table()], 201..202);
            let status = format!("{path}/everything/status?dryRun=All");
            let (code, body) =
                beside.send(&Heavy::new(plural, "PUT", &status, JSON.1, everything).of_table());
            assert!(matches!(code, 200 | 404), "{plural}: {code}");
            assert!(code == 404 || body.len() < 4 << 20, "{plural}: {} bytes", body.len());
            // The versions of a resource have the same objects.
            assert_eq!(client.request("DELETE", &format!("{path}/everything"), &[], b"").status, 200);
            shown += 1;
        }
    }
    assert!(shown > 30, "{shown} resources");
    beside.end();
}

#[test]
fn changes_of_much() {
    let mut beside = Beside::new();
    let client = beside.server.client();
    let maps = "/api/v1/namespaces/h/configmaps";
    let services = "/api/v1/namespaces/h/services";
    let mut large: Value = serde_json::from_slice(&bodies::members(100_000)).unwrap();
    large["metadata"]["name"] = "large".into();
    assert_eq!(client.send("POST", maps, &large).status, 201);
    let ports: Value = serde_json::from_slice(&bodies::service_ports(45_000)).unwrap();
    assert_eq!(client.send("POST", services, &ports).status, 201);
    let one = |name: &str, plural: &str, kind: &str, body: Vec<u8>| {
        let path = format!("/api/v1/namespaces/h/{plural}?dryRun=All&fieldManager=a&force=true");
        let path = if kind == bodies::APPLY { path } else { path.replace("&force=true", "") };
        Heavy::new(name, "PATCH", &path, kind, body)
    };
    beside.all(
        &[
            Heavy::new("put", "PUT", &format!("{maps}/large"), JSON.1, large.to_string()),
            one("merge patch", "configmaps/large", bodies::MERGE, bodies::nulls(100_000)),
            one(
                "a list merged by its key",
                "services/ports",
                bodies::STRATEGIC,
                bodies::service_ports(45_000),
            ),
            one("an order", "services/ports", bodies::STRATEGIC, bodies::order(45_000)),
            one("texts that go", "configmaps/large", bodies::STRATEGIC, bodies::primitive(100_000)),
            one("copies", "configmaps/large", bodies::OPERATIONS, bodies::copies(9_000)),
            one("applied", "configmaps/large", bodies::APPLY, bodies::applied(&large)),
            one("ports applied", "services/ports", bodies::APPLY, bodies::applied(&ports)),
        ],
        200..201,
    );
    beside.all(
        &[
            one(
                "an item named again and again",
                "services/ports",
                bodies::STRATEGIC,
                bodies::same_port(90_000),
            ),
            one("tests", "configmaps/large", bodies::OPERATIONS, bodies::tests(9_000)),
            one("doublings", "configmaps/large", bodies::OPERATIONS, bodies::doublings(9_000)),
            one("insertions", "services/ports", bodies::OPERATIONS, bodies::insertions(9_000)),
            one("a directive of much", "configmaps/large", bodies::STRATEGIC, bodies::directive(100_000)),
        ],
        400..423,
    );
    beside.end();
}

#[test]
fn texts_of_every_form() {
    let mut beside = Beside::new();
    let maps = "/api/v1/namespaces/h/configmaps?dryRun=All";
    for (name, yaml) in bodies::yamls() {
        let (code, body) = beside.send(&Heavy::new(name, "POST", maps, "application/yaml", yaml));
        let shown: String = String::from_utf8_lossy(&body).chars().take(300).collect();
        assert!(matches!(code, 201 | 400 | 413 | 422), "{name}: {code}: {shown}");
    }
    beside.all(
        &[Heavy::new("protobuf", "POST", maps, bodies::PROTOBUF, bodies::protobuf_map(100_000))],
        201..202,
    );
    let deep = [b"[".repeat(3 << 20), b"{\"a\":".repeat(600_000), b"[0,".repeat(160_000)];
    for body in deep {
        beside.all(&[Heavy::new("deep", "POST", maps, JSON.1, body)], 400..414);
    }
    beside.all(
        &[
            Heavy::new("unknown", "POST", maps, bodies::PROTOBUF, bodies::protobuf_of(&"<".repeat(1 << 20))),
            Heavy::new("no message", "POST", maps, bodies::PROTOBUF, b"k8s\0".repeat(700_000)),
            Heavy::new(
                "a number",
                "POST",
                maps,
                JSON.1,
                format!("{{\"data\":{}}}", "9".repeat((3 << 20) - 100)),
            ),
        ],
        400..416,
    );
    // As many terms as fit into a request line.
    for query in bodies::selectors() {
        let path = format!("/api/v1/configmaps?{query}");
        let (code, _) = beside.send(&Heavy::new("selector", "GET", &path, JSON.1, "{}"));
        assert!(matches!(code, 200 | 400 | 414), "{code}: {query}");
    }
    beside.end();
}

/// Whatever is wrong with a request, and however long it is: the reply is short, and takes little time.
#[test]
fn what_is_wrong_is_told_in_few_bytes() {
    let mut beside = Beside::new();
    let client = beside.server.client();
    let maps = "/api/v1/namespaces/h/configmaps";
    let one = json!({"metadata": {"name": "one", "ownerReferences": [{"uid": "u"}]}});
    assert_eq!(client.send("POST", maps, &one).status, 201);
    let mut asked = 0;
    for filler in ["<", "\"", "\u{1}", "é", "a", "- \n"] {
        // Some characters take six bytes in JSON, and are in a body three times.
        let length = if matches!(filler, "<" | "a") { 1_000_000 } else { 150_000 };
        for heavy in bodies::wrong(&filler.repeat(length / filler.len())) {
            beside.all(&[heavy], 400..423);
            asked += 1;
        }
        let long = bodies::escaped(&filler.repeat(7_000 / 3 / filler.len()));
        for heavy in bodies::wrong_lines(&long) {
            beside.all(&[heavy], 400..432);
            asked += 1;
        }
    }
    assert!(asked > 150, "{asked} requests");
    beside.end();
}
