//! WATCH: from the client's request to the engine's subscription.
//!
//! It never sends anything: the shard writes the stream.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use revcast_engine::framing::BARE;
use revcast_engine::{Start, Subscription};

use super::encode::Shape;
use super::reply::ResponseFormat;
use super::select::{self, Choice};
use super::{Call, reply};
use crate::frontend::{Host, Reply, StreamFormat, WatchRequest, Wire};
use crate::http::negotiation::{self, Media};
use crate::http::options::{Freshness, IncludeObject, OptionsError, WatchOptions, WatchStart, WatchTimeout};
use crate::http::status::Status;
use crate::http::websocket::{Handshake, HandshakeError};

/// Answers a watch; `name` when the path has one.
pub(super) async fn handle<H: Host>(
    call: &Call<'_, H>,
    mut options: WatchOptions,
    name: Option<&str>,
) -> Result<Reply, Status> {
    if !call.head.takes_chunked_reply() {
        let why = "a watch is sent in chunks, which HTTP/1.0 does not have: use HTTP/1.1".to_owned();
        return Err(Status::bad_request(why));
    }
    if name.is_some_and(|name| select::contradicts(&options.selectors, name)) {
        let why = "fieldSelector metadata.name doesn't match requested name".to_owned();
        return Err(Status::bad_request(why));
    }
    let (shape, format) = stream_shape(call)?;
    let choice = Choice::new(call, std::mem::take(&mut options.selectors), name);
    let wire = match wire(call, &options) {
        Ok(wire) => wire,
        Err(error) => return Ok(reply::bad_handshake(error, call.format)),
    };
    let start = match options.start {
        WatchStart::State(freshness) => {
            let reached = match freshness {
                Freshness::MostRecent => call.consistent().await,
                Freshness::Any => Ok(call.epoch.feed.snapshot()),
                Freshness::NotOlderThan(revision) => call.not_older_than(revision).await,
            };
            if let Err(status) = reached {
                // From the client's view the stream has begun: the error is an event (recording 07).
                return Ok(Reply::Refused(status, wire, format));
            }
            Start::State { end_mark: options.bookmarks }
        }
        // Decided here, not when the shard takes the watch: writes after the client has the head of the reply must be sent, and
        // the shard may take the watch after that.
        WatchStart::MostRecent => match call.consistent().await {
            Ok(snapshot) => Start::After(snapshot.revision()),
            Err(status) => return Ok(Reply::Refused(status, wire, format)),
        },
        WatchStart::Any => Start::After(call.epoch.feed.revision()),
        WatchStart::After(revision) => {
            let newest = call.epoch.feed.revision();
            if revision > newest && revision <= call.epoch.abandoned {
                // It was reached, but in an earlier history that was given up.
                return Ok(Reply::Refused(Status::watch_expired(revision, newest.next()), wire, format));
            }
            Start::After(revision)
        }
    };
    let wall = call.host.wall();
    let [jitter, ..] = call.host.random().to_le_bytes();
    Ok(Reply::Watch(WatchRequest {
        subscription: Subscription {
            scope: choice.scope.into(),
            selector: choice.selector,
            encoding: shape.encoding(format, call.resource),
            framing: &BARE,
            start,
            bookmarks: options.bookmarks,
            timeout: timeout(call, options.timeout, wall),
            jitter,
            as_of_seconds: wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        },
        epoch: call.epoch.number,
        catalog: call.catalog.number,
        wire,
        format,
        user: call.admitted.visitor.named().cloned(),
        authorization: call.admitted.access.as_ref().and_then(|(access, grant)| {
            call.app.guard().pass(&call.admitted.visitor, access, grant, Instant::now())
        }),
    }))
}

/// The form of the stream: a WebSocket if one is requested; gzip if the client accepts it and explicitly asked for the initial
/// events, as in Kubernetes 1.37, since those are many (KEP-3157).
fn wire<H: Host>(call: &Call<'_, H>, options: &WatchOptions) -> Result<Wire, HandshakeError> {
    if let Some(headers) = &call.head.upgrade {
        return Handshake::new(headers).map(Wire::WebSocket);
    }
    let gzip =
        call.app.options.watch_list_gzip && options.asked_for_initial_events && call.head.accepts_gzip();
    Ok(if gzip { Wire::Gzip } else { Wire::Plain })
}

/// The form of a stream's objects, as requested for a format that streams have (recordings 17 and 31).
fn stream_shape<H: Host>(call: &Call<'_, H>) -> Result<(Shape, StreamFormat), Status> {
    match call.format {
        ResponseFormat::Json(_) => return Ok((call.shape, StreamFormat::Json)),
        ResponseFormat::Protobuf => return Ok((call.shape, StreamFormat::Protobuf)),
        // Agreed on for a reply; the next that the client accepts is the stream's.
        ResponseFormat::Yaml => {}
    }
    let accept = call.head.accept.as_deref();
    let agreed = negotiation::negotiate_stream(accept, call.objects).map_err(|e| e.status())?;
    let format = match agreed.media {
        Media::Json | Media::Yaml => StreamFormat::Json,
        Media::Protobuf => StreamFormat::Protobuf,
    };
    if agreed.form == call.form {
        return Ok((call.shape, format));
    }
    let include = IncludeObject::parse(call.query).map_err(OptionsError::status)?;
    Ok((Shape::new(agreed.form, include), format))
}

/// The end of the stream: as requested, or at random between the minimum and twice that, so that clients which began together
/// do not reconnect together. No stream lasts longer than the client's credentials are valid.
fn timeout<H: Host>(call: &Call<'_, H>, asked: WatchTimeout, wall: SystemTime) -> Duration {
    let expires = call.admitted.visitor.identity.expires;
    let left = expires.map_or(Duration::MAX, |ends| ends.duration_since(wall).unwrap_or_default());
    let wanted = match asked {
        WatchTimeout::After(timeout) => timeout,
        WatchTimeout::ServerChoice => {
            let least = call.app.options.min_watch_timeout;
            let span_ms = u64::try_from(least.as_millis()).unwrap_or(u64::MAX).max(1);
            least.saturating_add(Duration::from_millis(call.host.random() % span_ms))
        }
    };
    wanted.min(left)
}
