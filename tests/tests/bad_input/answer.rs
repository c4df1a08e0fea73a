//! Reads a server's output on one connection strictly: whole replies, one after another, and nothing else.

use serde_json::Value;

/// Bytes of the longest error.
const STATUS_BYTES_MAX: usize = 64 << 10;
/// Close frames of a WebSocket.
const CLOSE: u8 = 0x88;

/// One reply.
#[derive(Debug)]
pub(crate) struct Reply {
    code: u16,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// After a 101: the code of the close frame that ends it.
    goodbye: Option<u16>,
}

/// All replies in `bytes`.
pub(crate) fn replies(mut bytes: &[u8]) -> Result<Vec<Reply>, String> {
    let mut replies = Vec::new();
    while !bytes.is_empty() {
        let (reply, rest) = reply(bytes)?;
        bytes = rest;
        replies.push(reply);
    }
    Ok(replies)
}

fn reply(bytes: &[u8]) -> Result<(Reply, &[u8]), String> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").ok_or("half a head")?;
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| "a head that is no UTF-8")?;
    let mut rest = &bytes[end + 4..];
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).ok_or("no status line")?;
    let code: u16 = status.get(..3).and_then(|code| code.parse().ok()).ok_or("no code")?;
    let headers: Option<Vec<(String, String)>> = lines
        .map(|line| line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())))
        .collect();
    let mut reply = Reply { code, headers: headers.ok_or("no header")?, body: Vec::new(), goodbye: None };
    match (code, reply.header("transfer-encoding"), reply.header("content-length")) {
        (101, ..) => {
            reply.goodbye = Some(goodbye(rest)?);
            rest = &[];
        }
        (100, ..) => {}
        (_, Some("chunked"), None) => loop {
            let (size, behind) = split_line(rest)?;
            let size = usize::from_str_radix(size, 16).map_err(|_| "a chunk without a size")?;
            let data = behind.get(..size).ok_or("half a chunk")?;
            let (end, behind) = split_line(&behind[size..])?;
            if !end.is_empty() {
                return Err("bytes after a chunk".into());
            }
            reply.body.extend_from_slice(data);
            rest = behind;
            if size == 0 {
                break;
            }
        },
        (_, None, Some(length)) => {
            let length: usize = length.parse().map_err(|_| "a length that is none")?;
            reply.body = rest.get(..length).ok_or("half a body")?.to_vec();
            rest = &rest[length..];
        }
        _ => return Err("a body without an end".into()),
    }
    Ok((reply, rest))
}

fn split_line(bytes: &[u8]) -> Result<(&str, &[u8]), String> {
    let end = bytes.windows(2).position(|window| window == b"\r\n").ok_or("half a line")?;
    let line = std::str::from_utf8(&bytes[..end]).map_err(|_| "a line that is no UTF-8")?;
    Ok((line, &bytes[end + 2..]))
}

/// The code of the close frame that must end the frames of a server. Without a code it is 1005 (RFC 6455, section
/// 7.1.5).
fn goodbye(mut bytes: &[u8]) -> Result<u16, String> {
    loop {
        let [first, length, rest @ ..] = bytes else { return Err("no close frame at the end".into()) };
        let (size, rest) = match (length, rest) {
            (126, [high, low, rest @ ..]) => (usize::from(u16::from_be_bytes([*high, *low])), rest),
            (short @ 0..126, rest) => (usize::from(*short), rest),
            _ => return Err("a frame that is masked or too long".into()),
        };
        let payload = rest.get(..size).ok_or("half a frame")?;
        bytes = &rest[size..];
        if *first == CLOSE {
            return match (payload, bytes) {
                ([], []) => Ok(1005),
                ([high, low, ..], []) => Ok(u16::from_be_bytes([*high, *low])),
                _ => Err("a close frame that is not the end".into()),
            };
        }
    }
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// As in the rows.
    pub(crate) fn words(&self) -> Vec<String> {
        let goodbye = self.goodbye.map(|code| format!("ws{code}"));
        std::iter::once(self.code.to_string()).chain(goodbye).collect()
    }

    /// What holds for every reply: an error has Kubernetes' form and announces the close; no header comes from a
    /// client; no extension of a WebSocket is agreed to.
    pub(crate) fn check(&self) -> Result<(), String> {
        let length = self.body.len();
        if self.code >= 400 && length > STATUS_BYTES_MAX {
            return Err(format!("an error of {length} bytes"));
        }
        if self.header("x-split").is_some() {
            return Err(format!("a client wrote a header: {:?}", self.headers));
        }
        if self.header("sec-websocket-extensions").is_some() {
            return Err(format!("an extension is agreed to: {:?}", self.headers));
        }
        if self.code < 400 {
            return Ok(());
        }
        if self.header("connection") != Some("close") {
            return Err(format!("a {} that does not announce the end: {:?}", self.code, self.headers));
        }
        // For a path without a resource kube-apiserver's reply has no more either.
        if self.code == 404 && self.body == b"404 page not found\n" {
            return Ok(());
        }
        let status: Value =
            serde_json::from_slice(&self.body).map_err(|error| format!("no JSON: {error}"))?;
        if status["kind"] != "Status" || status["code"] != self.code {
            return Err(format!("no Status of {}: {status}", self.code));
        }
        if status["message"].as_str().is_none_or(str::is_empty) {
            return Err(format!("it says nothing: {status}"));
        }
        Ok(())
    }
}
