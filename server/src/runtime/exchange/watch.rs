//! A request that becomes a watch.

use super::carrier::Carrier;
use super::request_scope::RequestScope;
use super::{Exchange, Over};
use crate::frontend::{WatchRequest, Wire};
use crate::http::request::RequestHead;
use crate::http::response::ResponseFraming;
use crate::http::status::Status;
use crate::runtime::admission::CountGuard;
use crate::runtime::client::Permit;
use crate::runtime::shards::WatchHandoff;
use crate::runtime::watch::WatchRecord;

impl<C: Carrier> Exchange<C> {
    pub(super) async fn become_watch(
        &mut self,
        head: &RequestHead,
        mut request: WatchRequest,
    ) -> Option<Over> {
        let permit = match self.permit_for(&request) {
            Ok(permit) => permit,
            Err(status) if head.keep_alive && head.upgrade.is_none() => {
                self.send_status(&status, Some(head)).await;
                return None;
            }
            Err(status) => {
                self.send_last(&status, head).await;
                return Some(Over::Linger);
            }
        };
        // After the head there is no way to report that something is lacking.
        if let Err(status) = self.carrier.prepare_watch(&self.local.shared.reserve) {
            self.send_last(&status, head).await;
            return Some(Over::Linger);
        }
        let goes_on = head.keep_alive && request.wire == Wire::Plain;
        let code = if head.upgrade.is_some() { 101 } else { 200 };
        let mut opening = self.response(code, request.format.content_type(), ResponseFraming::Chunked);
        opening.close = !goes_on;
        if request.wire == Wire::Gzip {
            opening.content_encoding = Some("gzip");
            opening.vary = Some("Accept-Encoding");
        }
        match &request.wire {
            Wire::WebSocket(handshake) => self.carrier.push_handshake(handshake, &opening),
            Wire::Plain | Wire::Gzip => self.carrier.push_head(&opening),
        }
        self.carrier.push_raw(request.wire.opening(C::DELIMITER));
        if self.carrier.send().await.is_err() {
            return Some(Over::Quiet);
        }
        let carrying = self.carrier.take_for_watch(goes_on)?;
        let audit = self.scope.as_mut().and_then(RequestScope::become_watch);
        request.subscription.framing = request.wire.framing(request.format, C::DELIMITER);
        self.local.hand_over(WatchHandoff {
            carrying,
            wire_stream: request.wire.wire_stream(C::DELIMITER),
            record: WatchRecord { permit, authorization: request.authorization.take(), audit },
            authorities: self.client.authorities.get().unwrap_or_default(),
            request,
        });
        Some(Over::Quiet)
    }

    /// Counts the watch by name, if a limit is set; or fails if a limit is reached.
    fn permit_for(&self, request: &WatchRequest) -> Result<Option<CountGuard>, Box<Status>> {
        let shared = &self.local.shared;
        if shared.handles.watchers() >= shared.watchers_max {
            let message = format!(
                "{} watches are open, which is the limit: raise max-watchers or nofile",
                shared.watchers_max
            );
            return Err(Box::new(Status::too_many_requests(message, 1)));
        }
        if let Some(status) = shared.memory.refuses_reader() {
            return Err(status);
        }
        let user = request.user.as_ref().map(|user| user.name.as_str());
        match &*self.client.permit.borrow() {
            Permit::Client(permit) => permit.watch(user),
            Permit::Operator | Permit::HealthCheck { .. } => Ok(None),
        }
    }
}
