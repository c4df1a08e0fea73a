//! `GET /status?watch=1`: the status, a line of JSON now and one a second.
//!
//! Owns how many such streams there are, and until when one is allowed. It ends with what allowed it: a token that is taken away or
//! expires, a rule that goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use super::shared::Shared;
use super::telemetry;
use crate::auth::Authorization;
use crate::frontend::PeriodicBody;
use crate::http::response::JSON;

/// Streams at once. Each costs the core that it is on some 100 µs a second.
pub(super) const STREAMS_MAX: usize = 8;

/// Between two lines.
const EVERY: Duration = Duration::from_secs(1);

/// One stream; not counted any more when dropped.
#[derive(Debug)]
pub(super) struct StatusStream {
    shared: Arc<Shared>,
    /// `None`: it cannot change.
    authorization: Option<Box<Authorization>>,
    expires: Option<SystemTime>,
}

impl StatusStream {
    /// Begins one; `None`: there are too many.
    pub(super) fn begin(
        shared: &Arc<Shared>,
        authorization: Option<Box<Authorization>>,
        expires: Option<SystemTime>,
    ) -> Option<Self> {
        let one_more = |open| Some(open + 1).filter(|open| *open <= STREAMS_MAX);
        let streams: &AtomicUsize = &shared.status_streams;
        streams.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Self { shared: Arc::clone(shared), authorization, expires })
    }

    fn is_allowed(&self) -> bool {
        self.expires.is_none_or(|end| SystemTime::now() < end)
            && self.authorization.as_ref().is_none_or(|it| self.shared.app.guard().still_allows(it))
    }
}

impl Drop for StatusStream {
    fn drop(&mut self) {
        self.shared.status_streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PeriodicBody for StatusStream {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        let goes_on = self.is_allowed();
        if goes_on {
            out.extend_from_slice(telemetry::status_line(&self.shared).as_bytes());
            // For the next line.
            self.shared.ask_for_census();
        }
        goes_on
    }

    fn interval(&self) -> Duration {
        EVERY
    }

    fn content_type(&self) -> &'static str {
        JSON
    }
}
