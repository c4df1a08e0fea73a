//! The input of requests: heads and bodies, within their limits and timeouts.

use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::connection::{Connection, FIRST_READ_BYTES, Over};
use super::request_scope::RequestScope;
use super::transport::STALL;
use crate::http::body::{BODY_BYTES_MAX, BodyDecoder, DRAINED_BODY_BYTES_MAX, Fed};
use crate::http::request::{BodyFraming, HEAD_BYTES_MAX, HeadScanner, Method, Parsed, RequestHead};
use crate::http::response::CONTINUE;
use crate::http::status::Status;

const READ_BYTES: usize = 16 << 10;

impl Connection {
    pub(super) async fn read_head(&mut self) -> Result<Option<RequestHead>, Over> {
        let mut scanner = HeadScanner::new();
        self.read_bytes = FIRST_READ_BYTES;
        if self.buffer.is_empty() && self.buffer.capacity() > 2 * FIRST_READ_BYTES {
            // A body has enlarged it.
            self.buffer = Vec::new();
        }
        let local = Rc::clone(&self.local);
        let head_timeout = self.head_timeout();
        let options = &local.shared.options;
        // A new connection must send a head within the timeout; between requests the idle timeout applies.
        let mut deadline = std::mem::take(&mut self.is_new).then(|| Instant::now() + head_timeout);
        loop {
            match scanner.parse(&self.buffer) {
                Ok(Parsed::Complete { head, head_len }) => {
                    if local.upstream.is_some() {
                        self.raw_head.clear();
                        self.raw_head.extend_from_slice(&self.buffer[..head_len]);
                    }
                    self.buffer.drain(..head_len);
                    return Ok(Some(*head));
                }
                Ok(Parsed::Incomplete) => {}
                Err(error) => {
                    self.scope = Some(RequestScope::unread(&self.local.shared, self.local.number));
                    self.send_status(&error.status(), None).await;
                    self.scope = None;
                    return Err(Over::Linger);
                }
            }
            debug_assert!(
                self.buffer.len() <= HEAD_BYTES_MAX + READ_BYTES,
                "the scanner refuses longer heads"
            );
            let patience = if self.buffer.is_empty() && deadline.is_none() {
                options.idle_timeout
            } else {
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + head_timeout);
                deadline.saturating_duration_since(Instant::now())
            };
            let late = match self.read_some(patience).await {
                Ok(0) => return Ok(None),
                Ok(_) => false,
                Err(error) if error.kind() == std::io::ErrorKind::TimedOut && !self.buffer.is_empty() => true,
                Err(_) => return Ok(None),
            };
            if late {
                let message = format!(
                    "no complete head arrived within {} s: send it without pauses",
                    head_timeout.as_secs()
                );
                self.send_status(&Status::other(408, message), None).await;
                return Err(Over::Linger);
            }
        }
    }

    pub(super) async fn read_body(&mut self, head: &RequestHead, takes_body: bool) -> Result<Bytes, Over> {
        if head.body == BodyFraming::None {
            return Ok(Bytes::new());
        }
        // The body of a GET is read and discarded, and so is one that the request does not take: within a smaller limit.
        let is_drained = !takes_body || matches!(head.method, Method::Get | Method::Head);
        let limit = if is_drained { DRAINED_BODY_BYTES_MAX } else { BODY_BYTES_MAX };
        let mut decoder = match BodyDecoder::new(head.body, limit) {
            Ok(decoder) => decoder,
            Err(error) => {
                self.send_last(&error.status(), head).await;
                return Err(Over::Linger);
            }
        };
        if head.expect_continue && self.buffer.is_empty() && self.send(CONTINUE).await.is_err() {
            return Err(Over::Quiet);
        }
        let deadline = Instant::now() + self.local.shared.options.request_timeout;
        loop {
            if let Err(status) = self.charge.get_mut().add(self.buffer.len()) {
                self.send_last(&status, head).await;
                return Err(Over::Linger);
            }
            match decoder.feed(&self.buffer) {
                Ok(Fed::Done { body, consumed }) => {
                    self.buffer.drain(..consumed);
                    return Ok(body);
                }
                Ok(Fed::NeedMore) => self.buffer.clear(),
                Err(error) => {
                    self.send_last(&error.status(), head).await;
                    return Err(Over::Linger);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.read_some(left.min(STALL)).await {
                Ok(0) => return Err(Over::Quiet),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                    let message = format!(
                        "the body is not complete after {} s, or no byte of it arrived for {} s: send it faster",
                        self.local.shared.options.request_timeout.as_secs(),
                        STALL.as_secs()
                    );
                    self.send_last(&Status::other(408, message), head).await;
                    return Err(Over::Linger);
                }
                Err(_) => return Err(Over::Quiet),
            }
        }
    }

    async fn read_some(&mut self, patience: Duration) -> std::io::Result<usize> {
        let Some(transport) = &mut self.transport else { return Ok(0) };
        if patience.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        let read = transport.read(&mut self.buffer, self.read_bytes, patience).await?;
        if read >= self.read_bytes {
            self.read_bytes = READ_BYTES;
        }
        Ok(read)
    }
}
