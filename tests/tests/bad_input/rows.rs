//! The language of `rows.txt`: what is sent, piece by piece, and what must come back.

use revcast_tests::websocket::{UPGRADE, frame};

const POST: &str = "POST /api/v1/namespaces/h/configmaps HTTP/1.1\r\nHost: h\r\n";
const LIST: &str = "GET /api/v1/configmaps HTTP/1.1\r\n";
/// A revision that no store has reached: it waits, for a second.
const WATCH: &str = "GET /api/v1/namespaces/h/configmaps?watch=1&resourceVersion=9007199254740991&timeoutSeconds=1 \
                     HTTP/1.1\r\nHost: h\r\n";
const SOCKET: &str = "GET /api/v1/namespaces/h/configmaps?watch=1 HTTP/1.1\r\nHost: h\r\n";

/// One row.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) number: u32,
    /// With its number.
    pub(crate) name: String,
    /// Alternatives: `400`, `ws1002`.
    pub(crate) answer: Vec<Vec<String>>,
    /// Sent one after another; something must have come from the server in between.
    pub(crate) pieces: Vec<Vec<u8>>,
}

/// All rows of the file.
pub(crate) fn rows() -> Vec<Row> {
    let lines = include_str!("rows.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| row(line).unwrap_or_else(|| panic!("no row: {line}"))).collect()
}

fn row(line: &str) -> Option<Row> {
    let mut parts = line.splitn(3, " | ");
    let (name, answer, bytes) = (parts.next()?, parts.next()?, parts.next()?);
    let mut reader = Reader { rest: bytes, pieces: vec![Vec::new()] };
    reader.text(false)?;
    Some(Row {
        number: name.split(' ').next()?.parse().ok()?,
        name: name.to_owned(),
        answer: answer.split(' ').map(|word| word.split('/').map(str::to_owned).collect()).collect(),
        pieces: reader.pieces,
    })
}

struct Reader<'a> {
    rest: &'a str,
    pieces: Vec<Vec<u8>>,
}

impl Reader<'_> {
    fn push(&mut self, bytes: &[u8]) {
        self.pieces.last_mut().expect("never empty").extend_from_slice(bytes);
    }

    /// Up to the end, or to the `>` that closes what is inside.
    fn text(&mut self, inside: bool) -> Option<()> {
        loop {
            let Some(first) = self.rest.chars().next() else { return (!inside).then_some(()) };
            self.rest = &self.rest[first.len_utf8()..];
            match first {
                '>' => return inside.then_some(()),
                '<' => self.directive()?,
                '\\' => {
                    let byte = self.escape()?;
                    self.push(&[byte]);
                }
                other => self.push(other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }

    fn escape(&mut self) -> Option<u8> {
        let kind = self.rest.chars().next()?;
        self.rest = &self.rest[1..];
        Some(match kind {
            'r' => b'\r',
            'n' => b'\n',
            't' => b'\t',
            '0' => 0,
            '\\' => b'\\',
            'x' => {
                let (digits, rest) = self.rest.split_at_checked(2)?;
                self.rest = rest;
                u8::from_str_radix(digits, 16).ok()?
            }
            _ => return None,
        })
    }

    fn directive(&mut self) -> Option<()> {
        let end = self.rest.find(['>', ' ', '*'])?;
        let (word, rest) = self.rest.split_at(end);
        let (sign, rest) = rest.split_at(1);
        self.rest = rest;
        match (word, sign) {
            ("post", ">") => self.push(POST.as_bytes()),
            ("list", ">") => self.push(LIST.as_bytes()),
            ("watch", ">") => self.push(WATCH.as_bytes()),
            ("upgrade", ">") => self.push(format!("{SOCKET}{UPGRADE}\r\n").as_bytes()),
            ("wait", ">") => self.pieces.push(Vec::new()),
            ("to" | "last", " ") => {
                let target = self.inner()?;
                let close = if word == "last" { "Connection: close\r\n" } else { "" };
                self.push(b"GET ");
                self.push(&target);
                self.push(format!(" HTTP/1.1\r\nHost: h\r\n{close}\r\n").as_bytes());
            }
            ("body", " ") => {
                let body = self.inner()?;
                self.push(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
                self.push(&body);
            }
            ("mask", " ") => {
                let (first, rest) = self.rest.split_once(' ')?;
                self.rest = rest;
                let payload = self.inner()?;
                self.push(&frame(u8::from_str_radix(first, 16).ok()?, &payload));
            }
            (count, "*") => {
                let count = count.parse().ok()?;
                let text = self.inner()?;
                self.push(&text.repeat(count));
            }
            _ => return None,
        }
        Some(())
    }

    /// The text before the `>` that closes this.
    fn inner(&mut self) -> Option<Vec<u8>> {
        let mut inner = Reader { rest: self.rest, pieces: vec![Vec::new()] };
        inner.text(true)?;
        self.rest = inner.rest;
        let [bytes] = <[Vec<u8>; 1]>::try_from(inner.pieces).ok()?;
        Some(bytes)
    }
}
