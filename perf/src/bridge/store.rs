//! Objects as keys of etcd: the path of an object is its key, its JSON is the value. The revision is no part of it: it is put
//! into the metadata of what is read.

use etcd_client::{Client, EventType, GetOptions, WatchOptions, WatchStream};
use std::cell::{Cell, RefCell};

/// Of the bridge's own keys.
const PREFIX: &str = "/revcast-perf";
const METADATA: &[u8] = br#""metadata":{"#;

pub(super) struct Store {
    endpoint: String,
    client: Client,
    /// Of the watches; each has its own, up to so many.
    watching: RefCell<Vec<Client>>,
    connections_max: usize,
    next: Cell<usize>,
}

/// The keys of a collection and what they hold.
pub(super) struct Listed {
    pub(super) revision: i64,
    pub(super) objects: Vec<Vec<u8>>,
}

impl Store {
    pub(super) async fn connect(endpoint: &str, connections_max: usize) -> Result<Self, String> {
        let client = connect(endpoint).await?;
        client.kv_client().get(PREFIX, None).await.map_err(|fault| fault.to_string())?;
        let endpoint = endpoint.to_owned();
        let watching = RefCell::default();
        Ok(Self { endpoint, client, watching, connections_max, next: Cell::new(0) })
    }

    /// Writes an object. Its JSON with its revision.
    pub(super) async fn put(&self, path: &str, json: &[u8]) -> Result<Vec<u8>, String> {
        let answer = self.client.kv_client().put(format!("{PREFIX}{path}"), json, None).await;
        let answer = answer.map_err(|fault| fault.to_string())?;
        Ok(with_revision(json, answer.header().map_or(0, etcd_client::ResponseHeader::revision)))
    }

    pub(super) async fn list(&self, path: &str) -> Result<Listed, String> {
        let options = GetOptions::new().with_prefix();
        let answer = self.client.kv_client().get(format!("{PREFIX}{path}/"), Some(options)).await;
        let answer = answer.map_err(|fault| fault.to_string())?;
        let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
        let objects = answer.kvs().iter().map(|kv| with_revision(kv.value(), kv.mod_revision())).collect();
        Ok(Listed { revision, objects })
    }

    /// Watches what is below a path, after a revision.
    pub(super) async fn watch(&self, path: &str, after: i64) -> Result<WatchStream, String> {
        let number = self.next.get();
        self.next.set(number + 1);
        let shared = self.watching.borrow().get(number % self.connections_max).cloned();
        let client = match shared {
            Some(client) => client,
            None => {
                let client = connect(&self.endpoint).await?;
                self.watching.borrow_mut().push(client.clone());
                client
            }
        };
        let options = WatchOptions::new().with_prefix().with_start_revision(after + 1);
        let stream = client.watch_client().watch(format!("{PREFIX}{path}/"), Some(options)).await;
        stream.map_err(|fault| fault.to_string())
    }
}

async fn connect(endpoint: &str) -> Result<Client, String> {
    Client::connect([endpoint], None).await.map_err(|fault| fault.to_string())
}

/// The events of a message as a watch of Kubernetes has them: a line each.
pub(super) fn lines(events: &[etcd_client::Event]) -> Vec<u8> {
    let mut out = Vec::new();
    for event in events {
        let Some(kv) = event.kv() else { continue };
        let kind = match event.event_type() {
            EventType::Delete => "DELETED",
            EventType::Put if kv.version() == 1 => "ADDED",
            EventType::Put => "MODIFIED",
        };
        out.extend_from_slice(format!(r#"{{"type":"{kind}","object":"#).as_bytes());
        out.extend_from_slice(&with_revision(kv.value(), kv.mod_revision()));
        out.extend_from_slice(b"}\n");
    }
    out
}

/// An object's JSON as a server of Kubernetes' API would give it.
fn with_revision(json: &[u8], revision: i64) -> Vec<u8> {
    let at = memchr::memmem::find(json, METADATA).map(|at| at + METADATA.len());
    let Some(at) = at else { return json.to_vec() };
    let (head, rest) = json.split_at(at);
    let comma = if rest.first() == Some(&b'}') { "" } else { "," };
    [head, format!(r#""resourceVersion":"{revision}"{comma}"#).as_bytes(), rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_stands_in_the_metadata() {
        let with = |json: &str| String::from_utf8(with_revision(json.as_bytes(), 7)).expect("text");
        assert_eq!(
            with(r#"{"metadata":{"name":"a"},"data":{}}"#),
            r#"{"metadata":{"resourceVersion":"7","name":"a"},"data":{}}"#
        );
        assert_eq!(with(r#"{"metadata":{}}"#), r#"{"metadata":{"resourceVersion":"7"}}"#);
        assert_eq!(with("{}"), "{}");
    }
}
