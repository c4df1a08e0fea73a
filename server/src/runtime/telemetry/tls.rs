//! TLS: handshakes, and the certificate that is served.

use super::page::{Kind, Page};
use crate::runtime::shared::Shared;

pub(super) fn render(page: &mut Page, shared: &Shared) {
    let mut results = [("", 0); 4];
    for handle in shared.handles.0.iter() {
        for (sum, (result, count)) in results.iter_mut().zip(handle.tally.tls.by_result()) {
            *sum = (result, sum.1 + count);
        }
    }
    page.each(
        Kind::Counter,
        "revcast_tls_handshakes_total",
        "TLS handshakes of clients, by how they ended.",
        "result",
        results,
    );
    let expiry = shared.tls.as_ref().and_then(|tls| tls.terms().expiry_unix_seconds());
    page.gauge(
        "revcast_tls_certificate_expiry_timestamp_seconds",
        "When the server's certificate expires, in Unix time; NaN: there is none.",
        expiry.map_or(f64::NAN, |seconds| seconds as f64),
    );
}
