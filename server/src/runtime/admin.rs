//! The operators' frontend: metrics, status, compaction, health.

use std::sync::atomic::Ordering;
use std::time::SystemTime;

use bytes::Bytes;
use revcast_engine::revision::Revision;

use super::shard::local::Local;
use super::telemetry::{self, Form};
use crate::auth::PeerCertificate;
use crate::frontend::{Admission, Budget, Frontend};
use crate::frontend::{FullBody, Host, Reply};
use crate::http::options::Query;
use crate::http::request::{Method, RequestHead};
use crate::http::request_info::RequestTarget;
use crate::http::response::{Caching, JSON, TEXT};
use crate::serve::{Life, admit_operator};
use crate::source::TxnError;
use crate::source::command_queue::{Answer, Command};

const HELP: &str =
    "revcast admin: GET /metrics, GET /status, POST /compact?revision=N, GET /healthz, /livez, /readyz\n";

/// The operators' frontend of one core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operators<'a>(pub(super) &'a Local);

impl Frontend for Operators<'_> {
    /// Whether it asks for the server's health.
    type Admitted = bool;

    async fn admit<H: Host>(
        &self,
        host: &H,
        head: &RequestHead,
        _: RequestTarget,
        certificate: Option<PeerCertificate<'_>>,
        now: SystemTime,
    ) -> Admission<bool> {
        admit_operator(&self.0.shared.app, host, head, certificate, now).await
    }

    fn takes_body(&self, _: &bool) -> bool {
        false
    }

    fn is_health(&self, is_health: &bool) -> bool {
        *is_health
    }

    async fn handle<H: Host>(&self, _: &H, head: &RequestHead, _: &bool, _: Bytes, _: &dyn Budget) -> Reply {
        let Self(local) = *self;
        let path: Vec<&str> = head.path.iter().map(String::as_str).collect();
        match (head.method, path.as_slice()) {
            (Method::Get | Method::Head, ["metrics"]) => {
                let form = Form::of(head.accept.as_deref());
                whole(200, form.content_type(), telemetry::metrics(&local.shared, form))
            }
            (Method::Get | Method::Head, ["status"]) => whole(200, JSON, telemetry::status(&local.shared)),
            (Method::Get | Method::Head, ["livez"]) => text(200, "ok"),
            (Method::Get | Method::Head, ["healthz" | "readyz"]) => health(local),
            (Method::Post, ["compact"]) => compact(local, head).await,
            (_, ["compact"]) => {
                text(405, "compaction changes what can be read: use POST /compact?revision=N\n")
            }
            (Method::Get | Method::Head, []) => text(200, HELP),
            _ => text(404, HELP),
        }
    }
}

fn health(local: &Local) -> Reply {
    if local.leaving() {
        text(503, "the server is closing\n")
    } else if let Some(stalled) = local.shared.app.stalls().describe() {
        text(503, &format!("{stalled}: see the log\n"))
    } else if local.shared.commands.stats.failed.load(Ordering::Acquire) {
        text(503, "the store has failed: see the log, fix the disk and restart\n")
    } else if local.shared.app.life() < Life::Serving {
        text(503, "the state of the source is not loaded\n")
    } else if local.shared.app.is_fresh() == Some(false) {
        text(
            503,
            "the state may be older than --etcd-stale-limit: see revcast_source_stale_seconds and the log\n",
        )
    } else {
        text(200, "ok")
    }
}

async fn compact(local: &Local, head: &RequestHead) -> Reply {
    const USAGE: &str = "revision must be a number above 0: POST /compact?revision=N\n";
    let revision = Query::parse(&head.query).ok().and_then(|query| query.get("revision")?.parse().ok());
    let Some(revision) = revision.filter(|revision| *revision > 0).map(Revision::new) else {
        return text(400, USAGE);
    };
    let (code, said) = compaction(local.ask(|asker| Command::Compact(revision, asker)).await);
    text(code, &said)
}

/// The outcome of a compaction.
fn compaction(answer: Option<Answer>) -> (u16, String) {
    match answer {
        Some(Answer::Compacted(revision)) => (200, format!("compacted revision {revision}\n")),
        Some(Answer::NotCompacted(error)) => (409, format!("{error}\n")),
        // The progress so far is kept, and nothing that can be read was compacted.
        Some(Answer::Refused(TxnError::Storage(error))) if error.is_full() => {
            (507, format!("not compacted: {error}\n"))
        }
        // etcd may have made it.
        Some(Answer::Refused(TxnError::Source(error)) | Answer::Unanswered(error)) => {
            (503, format!("{error}\n"))
        }
        Some(Answer::Refused(error)) => (500, format!("not compacted: {error}\n")),
        Some(_) | None => (429, "too many writes wait: try again\n".to_owned()),
    }
}

fn text(code: u16, body: &str) -> Reply {
    whole(code, TEXT, body.to_owned())
}

fn whole(code: u16, content_type: &'static str, body: String) -> Reply {
    Reply::FullBody(FullBody {
        code,
        content_type,
        body: body.into(),
        end: b"",
        retry_after_seconds: (code == 429).then_some(1),
        allow: (code == 405).then_some("POST"),
        vary: None,
        etag: None,
        content_encoding: None,
        caching: Caching::Private,
        nosniff: true,
        websocket_version: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Fault, SourceError};

    #[test]
    fn a_compaction_that_may_have_been_made_is_not_denied() {
        let unknown = || SourceError::new(Fault::Unknown, "etcd did not answer");
        for answer in [Answer::Refused(TxnError::Source(unknown())), Answer::Unanswered(unknown())] {
            assert_eq!(compaction(Some(answer)), (503, "etcd did not answer\n".to_owned()));
        }
        assert_eq!(compaction(Some(Answer::Compacted(Revision::new(7)))).0, 200);
        assert_eq!(compaction(None).0, 429);
    }
}
