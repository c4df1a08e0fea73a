//! GET of one object.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use revcast_engine::Object;
use revcast_engine::codec::Value;
use revcast_engine::index::Snapshot;
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;
use revcast_engine::shown::shown;

use super::Call;
use crate::frontend::{Host, Reply};
use crate::http::options::{GetOptions, GetVersion, OptionsError};
use crate::http::status::Status;
use crate::source::SourceError;

/// How long a read waits for a revision that is not reached yet (apiserver `cacher/watch_cache.go`).
const FRESH_WAIT: Duration = Duration::from_secs(3);
/// `Retry-After` of the 504 after that (recording 07).
const FRESH_RETRY_SECONDS: u32 = 1;

impl<H: Host> Call<'_, H> {
    /// A state that includes every write answered before this request, by any server: the source is asked for its newest
    /// revision, and the request waits until that is visible here.
    ///
    /// # Errors
    /// 504 if either takes too long, 429 if the source begins another epoch meanwhile.
    pub(super) async fn consistent(&self) -> Result<Arc<Snapshot>, Status> {
        let began = Instant::now();
        let newest = self.host.newest(FRESH_WAIT).await.map_err(|error| unanswered(&error))?;
        if newest.epoch != self.epoch.number {
            return Err(Status::initializing(FRESH_RETRY_SECONDS));
        }
        self.reached(newest.revision, FRESH_WAIT.saturating_sub(began.elapsed())).await
    }

    /// The newest state of an object in the source itself: for a write, which must not wait until that is visible here.
    ///
    /// # Errors
    /// 404 if it does not exist; 504 if the source does not answer.
    pub(super) async fn current(&self, key: &Key) -> Result<Arc<Object>, Status> {
        let found = self.host.get(key).await.map_err(|error| unanswered(&error))?;
        let object = found.ok_or_else(|| self.not_found(key.name()))?;
        match refused(&object) {
            None => Ok(object),
            Some(status) => Err(status),
        }
    }

    /// A state that is not older than `revision`.
    ///
    /// # Errors
    /// 504 when it is not reached in time (recording 07).
    pub(super) async fn not_older_than(&self, revision: Revision) -> Result<Arc<Snapshot>, Status> {
        self.reached(revision, FRESH_WAIT).await
    }

    async fn reached(&self, revision: Revision, within: Duration) -> Result<Arc<Snapshot>, Status> {
        let feed = &self.epoch.feed;
        let snapshot = feed.snapshot();
        if snapshot.revision() >= revision {
            return Ok(snapshot);
        }
        self.host.wait_for(revision, within).await;
        if self.app.epochs().number() != self.epoch.number {
            return Err(Status::initializing(FRESH_RETRY_SECONDS));
        }
        let snapshot = feed.snapshot();
        let current = snapshot.revision();
        if current >= revision {
            return Ok(snapshot);
        }
        Err(Status::version_too_large(revision, current, Some(FRESH_RETRY_SECONDS)))
    }
}

/// An object as JSON.
///
/// # Errors
/// 500: the stored value cannot be decoded, with the reason; or it has no JSON form.
pub(super) fn json(object: &Object) -> Result<Cow<'_, [u8]>, Status> {
    object.value().json().ok_or_else(|| refused(object).unwrap_or_else(|| without_json(object)))
}

/// Why an object cannot be read or changed; `None`: it can.
fn refused(object: &Object) -> Option<Status> {
    if let Some(why) = object.unreadable() {
        // A watch gets the same Status.
        return Some(Status::unreadable(why.text().to_owned()));
    }
    match object.value() {
        Value::Json(_) | Value::Protobuf(_) => None,
        Value::Opaque(_) | Value::Unreadable(..) => Some(without_json(object)),
    }
}

fn without_json(object: &Object) -> Status {
    let path = shown(object.key().path());
    Status::unreadable(format!("\"{path}\" cannot be served: its value is not JSON"))
}

/// 504: the source did not answer in time, or at all.
fn unanswered(error: &SourceError) -> Status {
    Status::source_timeout(&error.detail, FRESH_RETRY_SECONDS)
}

/// Answers a GET of one object or of its status.
pub(super) async fn handle<H: Host>(call: &Call<'_, H>, name: &str) -> Result<Reply, Status> {
    let options = GetOptions::parse(call.query).map_err(OptionsError::status)?;
    let snapshot = match options.version {
        GetVersion::Unset => call.consistent().await?,
        GetVersion::Any => call.epoch.feed.snapshot(),
        GetVersion::NotOlderThan(revision) => call.not_older_than(revision).await?,
    };
    let object = snapshot.get(&call.key(name)).ok_or_else(|| call.not_found(name))?;
    call.show_stored(200, object)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bytes::Bytes;
    use revcast_engine::codec::Decoder;
    use revcast_engine::key::ResourceId;
    use revcast_engine::resource::{Codec, Resource};

    use super::*;

    #[test]
    fn what_is_not_json_is_refused_and_says_why() {
        let read = |codec, value: &'static str| {
            let resource = Resource::new("v1", "ConfigMap", true, vec![]).with_codec(codec);
            let (key, value) =
                (Key::new(ResourceId::new(0), Some("a"), "x"), Bytes::from_static(value.as_bytes()));
            Object::read(&mut Decoder::new(), &resource, key, &value, Revision::new(7))
        };
        let told = |object: &Object| {
            let status = json(object).unwrap_err();
            (status.code(), status.to_json())
        };
        let good = read(Codec::Kubernetes, r#"{"metadata":{}}"#);
        assert!(json(&good).unwrap().ends_with(br#""metadata":{"resourceVersion":"7"}}"#));
        let (code, text) = told(&read(Codec::Kubernetes, "[]"));
        assert!(
            code == 500 && text.contains("configmaps \\\"a/x\\\" cannot be served: the stored value is not"),
            "{text}"
        );
        let (code, text) = told(&read(Codec::Opaque, r#"{"metadata":{}}"#));
        assert!(
            code == 500 && text.contains("\\\"a/x\\\" cannot be served: its value is not JSON"),
            "{text}"
        );
        assert!(text.contains("\"reason\":\"StorageReadError\""), "{text}");
    }
}
