//! etcd as the bridge and `lag` use it: keys below a prefix, and watches.

use etcd_client::{Client, GetOptions, ResponseHeader, WatchOptions, WatchStream};
use std::cell::{Cell, RefCell};

pub(crate) struct Store {
    endpoint: String,
    prefix: String,
    client: Client,
    /// Of the watches; each has its own, up to so many.
    watching: RefCell<Vec<Client>>,
    connections_max: usize,
    next: Cell<usize>,
}

impl Store {
    pub(crate) async fn connect(
        endpoint: &str,
        prefix: &str,
        connections_max: usize,
    ) -> Result<Self, String> {
        let (client, prefix, endpoint) = (connect(endpoint).await?, prefix.to_owned(), endpoint.to_owned());
        let watching = RefCell::default();
        let store = Self { endpoint, prefix, client, watching, connections_max, next: Cell::new(0) };
        store.newest().await.map(|_| store)
    }

    pub(crate) async fn newest(&self) -> Result<u64, String> {
        let answer = self.client.kv_client().get(self.prefix.as_str(), None).await;
        answer.map(|answer| revision_of(answer.header())).map_err(|fault| self.wrong(&fault))
    }

    pub(crate) async fn put(&self, path: &str, value: impl Into<Vec<u8>>) -> Result<u64, String> {
        let answer = self.client.kv_client().put(self.key(path), value, None).await;
        answer.map(|answer| revision_of(answer.header())).map_err(|fault| self.wrong(&fault))
    }

    /// Lists what is below a path: the list's revision, and each value with the revision of its last write.
    pub(crate) async fn list(&self, path: &str) -> Result<(u64, Vec<(Vec<u8>, u64)>), String> {
        let options = GetOptions::new().with_prefix();
        let answer = self.client.kv_client().get(self.key(path), Some(options)).await;
        let answer = answer.map_err(|fault| self.wrong(&fault))?;
        let objects = answer.kvs().iter().map(|kv| (kv.value().to_vec(), kv.mod_revision().unsigned_abs()));
        Ok((revision_of(answer.header()), objects.collect()))
    }

    pub(crate) async fn watch(&self, path: &str, after: u64) -> Result<WatchStream, String> {
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
        let start = i64::try_from(after + 1).unwrap_or(i64::MAX);
        let options = WatchOptions::new().with_prefix().with_start_revision(start);
        let stream = client.watch_client().watch(self.key(path), Some(options)).await;
        stream.map_err(|fault| self.wrong(&fault))
    }

    fn key(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    fn wrong(&self, fault: &etcd_client::Error) -> String {
        format!("etcd at {}: {fault}", self.endpoint)
    }
}

async fn connect(endpoint: &str) -> Result<Client, String> {
    Client::connect([endpoint], None).await.map_err(|fault| format!("etcd at {endpoint}: {fault}"))
}

fn revision_of(header: Option<&ResponseHeader>) -> u64 {
    header.map_or(0, |header| header.revision().unsigned_abs())
}
