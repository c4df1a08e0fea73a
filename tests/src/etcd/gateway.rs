//! etcd's HTTP and JSON gateway: for hundreds of writes and for its log, where a process per command is too slow.
//!
//! One connection, kept while it works. An error is one line, and the next call uses the next endpoint; it never sends
//! anything twice by itself.

use std::time::Duration;

use serde_json::{Value, json};

use super::control::Op;
use super::record::{Change, Record, bytes, text};
use crate::client::{Client, Connection, Watch};

/// Writes to some endpoints over plain HTTP, and watches them.
#[derive(Debug)]
pub struct Gateway {
    /// `127.0.0.1:PORT`
    addresses: Vec<String>,
    next: usize,
    user: Option<(String, String)>,
    token: Option<String>,
    connection: Option<Connection>,
    patience: Duration,
}

impl Gateway {
    /// Of endpoints as [`super::Cluster::endpoints`] writes them. Not connected yet.
    #[must_use]
    pub fn new(endpoints: &str) -> Self {
        let address = |endpoint: &str| endpoint.trim_start_matches("http://").to_owned();
        Self {
            addresses: endpoints.split(',').map(address).collect(),
            next: 0,
            user: None,
            token: None,
            connection: None,
            patience: Duration::from_secs(1),
        }
    }

    /// Another of the same endpoints and user, not connected yet.
    #[must_use]
    pub fn another(&self) -> Self {
        Self {
            addresses: self.addresses.clone(),
            next: self.next,
            user: self.user.clone(),
            token: self.token.clone(),
            connection: None,
            patience: self.patience,
        }
    }

    /// The same, which waits so long for an answer; a second otherwise.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The same as another user.
    #[must_use]
    pub fn as_user(self, name: &str, password: &str) -> Self {
        Self { user: Some((name.to_owned(), password.to_owned())), ..self }
    }

    /// One revision with all operations; returns it. After an error it is unknown whether it was written.
    ///
    /// # Errors
    /// etcd's error, or that it does not answer in time.
    pub fn txn(&mut self, ops: &[Op<'_>]) -> Result<u64, String> {
        let request = |op: &Op<'_>| match op {
            Op::Put(key, value) => json!({"requestPut": {"key": base64(key), "value": base64(value)}}),
            Op::Delete(key) => json!({"requestDeleteRange": {"key": base64(key)}}),
        };
        let all: Vec<Value> = ops.iter().map(request).collect();
        revision(&self.call("/v3/kv/txn", &json!({"success": all}))?)
    }

    /// The newest revision, read linearizably.
    ///
    /// # Errors
    /// As [`Gateway::txn`].
    pub fn revision(&mut self) -> Result<u64, String> {
        revision(&self.call("/v3/kv/range", &json!({"key": base64("a"), "keys_only": true}))?)
    }

    /// Compacts the history before a revision.
    ///
    /// # Errors
    /// As [`Gateway::txn`].
    pub fn compact(&mut self, revision: u64) -> Result<(), String> {
        self.call("/v3/kv/compaction", &json!({"revision": revision.to_string()})).map(drop)
    }

    /// All changes from a revision on, over a separate connection. It ends when nothing arrives for a second.
    ///
    /// # Errors
    /// As [`Gateway::txn`].
    pub fn changes(&mut self, from: u64) -> Result<Changes, String> {
        let every = base64("\0");
        let wish =
            json!({"create_request": {"key": every, "range_end": every, "start_revision": from.to_string()}});
        self.connection = None;
        let begun = self.send("/v3/watch", &wish).and_then(|connection| {
            connection.into_watch().map_err(|error| format!("etcd begins no watch: {error}"))
        });
        if begun.is_err() {
            self.fail();
        }
        begun.map(|watch| Changes { watch })
    }

    fn call(&mut self, path: &str, body: &Value) -> Result<Value, String> {
        let said = self.send(path, body).and_then(|mut connection| {
            let reply =
                connection.read_response(true).map_err(|error| format!("etcd does not answer: {error}"))?;
            Ok((connection, reply))
        });
        let (connection, reply) = said.inspect_err(|_| self.fail())?;
        if reply.status != 200 {
            // A member that refuses may be out of step with the others, or may have lost our login.
            self.fail();
            return Err(format!("etcd: {} {}", reply.status, reply.text().trim()));
        }
        self.connection = Some(connection);
        Ok(reply.json())
    }

    /// Sends a request over the connection, which then belongs to the caller.
    fn send(&mut self, path: &str, body: &Value) -> Result<Connection, String> {
        if self.token.is_none()
            && let Some((name, password)) = &self.user
        {
            let body = json!({"name": name, "password": password});
            let mut connection = self.connected()?;
            write(&mut connection, "/v3/auth/authenticate", None, &body)?;
            let reply = connection.read_response(true).map_err(|error| format!("no login: {error}"))?;
            let token = reply.json()["token"].as_str().map(str::to_owned);
            self.token = Some(token.ok_or_else(|| format!("no login: {}", reply.text().trim()))?);
            self.connection = Some(connection);
        }
        let mut connection = self.connected()?;
        write(&mut connection, path, self.token.as_deref(), body)?;
        Ok(connection)
    }

    fn connected(&mut self) -> Result<Connection, String> {
        if let Some(connection) = self.connection.take() {
            return Ok(connection);
        }
        let address = &self.addresses[self.next % self.addresses.len()];
        let connection =
            Client::new(address).connect().map_err(|error| format!("no answer at {address}: {error}"))?;
        let limited = connection.socket().set_read_timeout(Some(self.patience));
        limited.map_err(|error| error.to_string())?;
        Ok(connection)
    }

    fn fail(&mut self) {
        self.connection = None;
        self.token = None;
        self.next += 1;
    }
}

/// A watch of every key.
#[derive(Debug)]
pub struct Changes {
    watch: Watch,
}

impl Changes {
    /// The records of the next message that has some; a revision is never split over two.
    ///
    /// # Errors
    /// etcd ended the watch, the connection broke, or nothing arrived for a second.
    pub fn next_records(&mut self) -> Result<Vec<Record>, String> {
        loop {
            // Its last line, an error, has no end.
            let line = self.watch.next_line_or_part().map_err(|error| format!("the watch broke: {error}"))?;
            let line = line.ok_or("etcd closed the watch")?;
            let said: Value = serde_json::from_str(&line).map_err(|_| format!("etcd said: {line}"))?;
            let result = &said["result"];
            if result.is_null() || result["canceled"] == true {
                return Err(format!("etcd cancelled the watch: {}", line.trim()));
            }
            if let Some(events) = result["events"].as_array() {
                return events.iter().map(record).collect();
            }
        }
    }
}

fn write(connection: &mut Connection, path: &str, token: Option<&str>, body: &Value) -> Result<(), String> {
    let body = body.to_string();
    let login = token.map_or_else(String::new, |token| format!("Authorization: {token}\r\n"));
    let head = format!("POST {path} HTTP/1.1\r\nHost: etcd\r\n{login}Content-Length: {}\r\n\r\n", body.len());
    connection.write_raw(&[head.as_bytes(), body.as_bytes()].concat()).map_err(|error| error.to_string())
}

/// Numbers are strings here.
fn number(value: &Value) -> Option<u64> {
    value.as_str().and_then(|digits| digits.parse().ok())
}

fn revision(said: &Value) -> Result<u64, String> {
    number(&said["header"]["revision"]).ok_or_else(|| format!("no revision: {said}"))
}

fn record(event: &Value) -> Result<Record, String> {
    let kv = &event["kv"];
    let change = match event["type"].as_str() {
        None | Some("PUT") => Change::Put(bytes(&kv["value"])?),
        Some("DELETE") => Change::Delete,
        Some(_) => return Err(format!("an event of no known type: {event}")),
    };
    let mod_revision = number(&kv["mod_revision"]).ok_or_else(|| format!("no revision: {event}"))?;
    Ok(Record { mod_revision, key: text(&kv["key"])?, change })
}

fn base64(plain: impl AsRef<[u8]>) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let plain = plain.as_ref();
    let mut out = String::with_capacity(plain.len().div_ceil(3) * 4);
    for group in plain.chunks(3) {
        let bits = group.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte))
            << (8 * (3 - group.len()));
        for place in 0..4 {
            let letter = LETTERS[bits >> (18 - 6 * place) & 63];
            out.push(if place <= group.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::record::bytes;
    use super::base64;

    #[test]
    fn base64_is_written() {
        assert_eq!((base64(""), base64("f"), base64("fo")), ("".into(), "Zg==".into(), "Zm8=".into()));
        for text in ["foo", "foob", "\0", "ÿ+/="] {
            assert_eq!(bytes(&json!(base64(text))).as_deref(), Ok(text.as_bytes()), "{text}");
        }
    }
}
