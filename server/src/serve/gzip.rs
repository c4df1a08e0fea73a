//! gzip for long replies, as kube-apiserver does it: behind 128 KiB, at level 1, when the client takes it (recording 18).
//!
//! A reply in pieces is compressed piece by piece with one compressor, which with its buffers holds less than 1 MiB while
//! the reply lasts; a whole one in slices, so that the shard goes on in between. Watches are not its business.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::reply;
use crate::frontend::{FullBody, Host, Reply, StreamingBody};

/// Replies up to here are sent as they are (apiserver `responsewriters`: `defaultGzipThresholdBytes`).
pub(super) const WHOLE_BYTES_MIN: usize = 128 << 10;
/// What is compressed before other work may go first.
const SLICE_BYTES: usize = 64 << 10;
/// Fast rather than small, as upstream.
const LEVEL: u32 = 1;

fn encoder() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::new(), Compression::new(LEVEL))
}

/// Compresses a whole reply that is long enough; any other stays as it is.
pub(super) async fn shrink<H: Host>(host: &H, reply: Reply) -> Reply {
    let Reply::FullBody(whole) = reply else { return reply };
    if whole.body.len() <= WHOLE_BYTES_MIN || whole.content_encoding.is_some() {
        return Reply::FullBody(whole);
    }
    let mut encoder = encoder();
    for slice in whole.body.chunks(SLICE_BYTES) {
        if encoder.write_all(slice).is_err() {
            return Reply::FullBody(whole);
        }
        host.yield_now().await;
    }
    if encoder.write_all(whole.end).is_err() {
        return Reply::FullBody(whole);
    }
    let Ok(body) = encoder.finish() else { return Reply::FullBody(whole) };
    let vary = if whole.vary.is_some() { "Accept, Accept-Encoding" } else { "Accept-Encoding" };
    let (body, end) = (body.into(), &b""[..]);
    Reply::FullBody(FullBody { body, end, content_encoding: Some("gzip"), vary: Some(vary), ..whole })
}

/// A long list, compressed: whole when no more than `whole_max` bytes are left of it, else in pieces.
pub(super) async fn pieces<H: Host>(host: &H, inner: Box<dyn StreamingBody>, whole_max: usize) -> Reply {
    let mut gzip = Gzip { inner, encoder: Some(encoder()), raw: Vec::new(), ready: Vec::new() };
    let mut begun = Vec::new();
    while gzip.next(&mut begun) {
        if begun.len() > whole_max {
            gzip.ready = begun;
            return Reply::StreamingBody(Box::new(gzip));
        }
        host.yield_now().await;
    }
    Reply::FullBody(FullBody {
        content_encoding: Some("gzip"),
        vary: Some("Accept-Encoding"),
        ..reply::whole(200, gzip.content_type(), begun.into())
    })
}

/// Pieces on their way through the compressor.
struct Gzip {
    inner: Box<dyn StreamingBody>,
    /// `None` once its end was written.
    encoder: Option<GzEncoder<Vec<u8>>>,
    /// A piece as it came; kept for its memory.
    raw: Vec<u8>,
    /// What was compressed before the reply was known to be long.
    ready: Vec<u8>,
}

impl StreamingBody for Gzip {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        if !self.ready.is_empty() {
            out.append(&mut std::mem::take(&mut self.ready));
            return true;
        }
        let Some(mut encoder) = self.encoder.take() else { return false };
        self.raw.clear();
        if self.inner.next(&mut self.raw) {
            // Memory takes whatever it gets.
            if encoder.write_all(&self.raw).is_err() {
                return false;
            }
            out.append(encoder.get_mut());
            self.encoder = Some(encoder);
        } else if let Ok(mut rest) = encoder.finish() {
            out.append(&mut rest);
        }
        true
    }

    fn content_type(&self) -> &'static str {
        self.inner.content_type()
    }

    fn is_gzip(&self) -> bool {
        true
    }
}
