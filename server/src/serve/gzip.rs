//! gzip for long replies, as in kube-apiserver: above 128 KiB, at level 1, if the client accepts it (recording 18).
//!
//! A reply in pieces is compressed piece by piece with one compressor, which with its buffers uses less than 1 MiB during the
//! reply; a complete one in slices, so that the shard can work in between. Watches are not compressed here.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::reply;
use crate::frontend::{FullBody, Host, Reply, StreamingBody};

/// Replies up to this size are not compressed (apiserver `responsewriters`: `defaultGzipThresholdBytes`).
pub(super) const WHOLE_BYTES_MIN: usize = 128 << 10;
/// Bytes that are compressed before yielding to other work.
const SLICE_BYTES: usize = 64 << 10;
/// The fastest level, as upstream.
const LEVEL: u32 = 1;

fn encoder() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::new(), Compression::new(LEVEL))
}

/// Whether a complete reply is long enough, and not compressed yet.
pub(super) fn is_worth_it(whole: &FullBody) -> bool {
    whole.body.len() > WHOLE_BYTES_MIN && whole.content_encoding.is_none()
}

/// Compresses a complete reply.
pub(super) async fn shrink<H: Host>(host: &H, whole: FullBody) -> FullBody {
    let mut encoder = encoder();
    for slice in whole.body.chunks(SLICE_BYTES) {
        if encoder.write_all(slice).is_err() {
            return whole;
        }
        host.yield_now().await;
    }
    if encoder.write_all(whole.end).is_err() {
        return whole;
    }
    let Ok(body) = encoder.finish() else { return whole };
    let vary = if whole.vary.is_some() { "Accept, Accept-Encoding" } else { "Accept-Encoding" };
    let (body, end) = (body.into(), &b""[..]);
    FullBody { body, end, content_encoding: Some("gzip"), vary: Some(vary), ..whole }
}

/// A long list, compressed: complete if at most `whole_max` bytes remain, else in pieces.
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

/// The pieces of a reply, with the compressor.
struct Gzip {
    inner: Box<dyn StreamingBody>,
    /// `None` after its end was written.
    encoder: Option<GzEncoder<Vec<u8>>>,
    /// An uncompressed piece; kept for its allocation.
    raw: Vec<u8>,
    /// Output that was compressed before the reply was known to be long.
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
            // Writing to memory cannot fail.
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
