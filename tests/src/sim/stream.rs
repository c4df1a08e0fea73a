//! The client's end of a stream: a strict reader of chunks (RFC 9112 section 7.1) that knows nothing of frames.

use super::fault::{Checked, Fault, Promise, broken};

/// A chunk that means nothing: white space between two JSON values.
pub(crate) const HEARTBEAT: &[u8] = b" ";

/// Bytes that arrived and are no whole chunk yet.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pending: Vec<u8>,
    finished: bool,
}

/// A chunk at the front of some bytes.
enum Front {
    /// More bytes are needed.
    Partial,
    /// Data from `start` to `end`, the next chunk at `next`.
    Chunk { start: usize, end: usize, next: usize },
    /// The last chunk.
    Last { next: usize },
}

impl Stream {
    /// Whether the last chunk arrived.
    pub(crate) const fn finished(&self) -> bool {
        self.finished
    }

    /// Whether the last byte that arrived ended a chunk.
    pub(crate) fn at_boundary(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes bytes and hands every whole line to `line`, without its newline, and every heartbeat.
    pub(crate) fn receive(&mut self, bytes: &[u8], mut line: impl FnMut(&[u8]) -> Checked) -> Checked {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.finished {
            return broken(Promise::Stream, "bytes behind the last chunk");
        }
        self.pending.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            match front(&self.pending[at..])? {
                Front::Partial => break,
                Front::Chunk { start, end, next } => {
                    let data = &self.pending[at + start..at + end];
                    if data == HEARTBEAT {
                        line(data)?;
                        at += next;
                        continue;
                    }
                    let Some((b'\n', text)) = data.split_last() else {
                        return broken(Promise::Stream, "a chunk that is not one line");
                    };
                    if text.contains(&b'\n') || text.contains(&b'\r') {
                        return broken(Promise::Stream, "a chunk with more than one line");
                    }
                    line(text)?;
                    at += next;
                }
                Front::Last { next } => {
                    self.finished = true;
                    at += next;
                    if at < self.pending.len() {
                        return broken(Promise::Stream, "bytes behind the last chunk");
                    }
                    break;
                }
            }
        }
        self.pending.drain(..at);
        Ok(())
    }

    /// After how many of `offered` bytes a chunk would be complete, for each chunk that would be.
    pub(crate) fn boundaries(&self, offered: &[u8]) -> Vec<usize> {
        let all = [&self.pending[..], offered].concat();
        let mut found = Vec::new();
        let mut at = 0;
        while let Ok(Front::Chunk { next, .. } | Front::Last { next }) = front(&all[at..]) {
            at += next;
            found.push(at - self.pending.len());
        }
        found
    }
}

fn front(bytes: &[u8]) -> Result<Front, Fault> {
    let digits = bytes.iter().take_while(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')).count();
    if digits == bytes.len() && digits < 9 {
        return Ok(Front::Partial);
    }
    let head = std::str::from_utf8(&bytes[..digits]).ok();
    let size = head.filter(|head| !head.starts_with('0') || *head == "0");
    let Some(size) = size.and_then(|head| usize::from_str_radix(head, 16).ok()) else {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(24)]);
        return broken(Promise::Stream, format!("no chunk head: {shown:?}"));
    };
    let crlf_at = |at: usize| match bytes.get(at..) {
        Some([b'\r', b'\n', ..]) => Ok(true),
        None | Some([] | [b'\r']) => Ok(false),
        Some(_) => broken(Promise::Stream, format!("no CRLF {at} bytes into a chunk of {size}")),
    };
    let start = digits + 2;
    if !crlf_at(digits)? {
        return Ok(Front::Partial);
    }
    if !crlf_at(start + size)? {
        return Ok(Front::Partial);
    }
    let next = start + size + 2;
    Ok(if size == 0 { Front::Last { next } } else { Front::Chunk { start, end: start + size, next } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(stream: &mut Stream, bytes: &[u8]) -> Result<Vec<String>, Fault> {
        let mut lines = Vec::new();
        stream.receive(bytes, |line| {
            lines.push(String::from_utf8_lossy(line).into_owned());
            Ok(())
        })?;
        Ok(lines)
    }

    #[test]
    fn chunks_come_in_any_pieces() {
        let bytes = b"3\r\nab\n\r\n1\r\n \r\na\r\n123456789\n\r\n0\r\n\r\n";
        for cut in 0..bytes.len() {
            let mut stream = Stream::default();
            let mut got = lines(&mut stream, &bytes[..cut]).expect("good");
            got.extend(lines(&mut stream, &bytes[cut..]).expect("good"));
            assert_eq!(got, ["ab", " ", "123456789"]);
            assert!(stream.finished() && stream.at_boundary());
        }
        assert_eq!(Stream::default().boundaries(bytes), [8, 14, 29, 34]);
    }

    #[test]
    fn faults_are_found() {
        for bytes in [
            &b"x"[..],
            b"\r\n",
            b"03\r\nab\n\r\n",
            b"3 \r\nab\n\r\n",
            b"3\nab\n\r\n",
            b"3\r\nab\nX\r\n",
            b"2\r\nab\r\n",
            b"3\r\na\n\n\r\n",
            b"2\r\n  \r\n",
            b"0\r\n\r\n0",
        ] {
            assert!(lines(&mut Stream::default(), bytes).is_err(), "{bytes:?}");
        }
    }
}
