//! The operators' frontend: a page, metrics, status, compaction, health.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use glommio::timer::sleep;
use revcast_engine::revision::Revision;

use super::shard::local::Local;
use super::status_stream::{STREAMS_MAX, StatusStream};
use super::telemetry::{self, Form};
use crate::auth::PeerCertificate;
use crate::frontend::{Admission, Budget, Frontend};
use crate::frontend::{FullBody, Host, Reply};
use crate::http::request::{Method, RequestHead};
use crate::http::response::{Caching, JSON, TEXT};
use crate::http::route::Routed;
use crate::page::{HTML, Page};
use crate::serve::{Life, Operator, admit_operator, holds};
use crate::source::TxnError;
use crate::source::command_queue::{Answer, Command};

const HELP: &str = "revcast admin: GET / (a page), GET /metrics, GET /status, GET /status?watch=1, POST /compact?revision=N, \
                    GET /healthz, /livez, /readyz\n";

/// How long a status waits for shards that count their watches: a busy one has older counts then.
const CENSUS_WITHIN: Duration = Duration::from_millis(200);
/// Between two checks whether they are done.
const CENSUS_POLL: Duration = Duration::from_millis(2);

/// The operators' frontend of one core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operators<'a>(pub(super) &'a Local);

impl Frontend for Operators<'_> {
    type Admitted = Operator;

    async fn admit<H: Host>(
        &self,
        host: &H,
        head: &RequestHead,
        _: Routed,
        certificate: Option<PeerCertificate<'_>>,
        now: SystemTime,
    ) -> Admission<Operator> {
        // The page says nothing of this server: what it shows it asks for, with its reader's token.
        let is_page = head.path.is_empty() && reads(head);
        admit_operator(&self.0.shared.app, host, head, certificate, now, is_page).await
    }

    fn takes_body(&self, _: &Operator) -> bool {
        false
    }

    fn is_health(&self, admitted: &Operator) -> bool {
        matches!(admitted, Operator::Health)
    }

    async fn handle<H: Host>(
        &self,
        _: &H,
        head: &RequestHead,
        admitted: &Operator,
        _: Bytes,
        _: &dyn Budget,
    ) -> Reply {
        let Self(local) = *self;
        let path: Vec<&str> = head.path.iter().map(String::as_str).collect();
        match (head.method, path.as_slice()) {
            (Method::Get | Method::Head, ["metrics"]) => {
                let form = Form::of(head.accept.as_deref());
                whole(200, form.content_type(), telemetry::metrics(&local.shared, form))
            }
            (Method::Get | Method::Head, ["status"]) => status(local, head, admitted).await,
            (Method::Get | Method::Head, ["livez"]) => text(200, "ok"),
            (Method::Get | Method::Head, ["healthz" | "readyz"]) => health(local),
            (Method::Post, ["compact"]) => compact(local, head).await,
            (_, ["compact"]) => {
                not_allowed("POST", "compaction changes what can be read: use POST /compact?revision=N\n")
            }
            (Method::Get | Method::Head, []) => page(head),
            (_, []) => not_allowed("GET, HEAD", HELP),
            _ => text(404, HELP),
        }
    }
}

const fn reads(head: &RequestHead) -> bool {
    matches!(head.method, Method::Get | Method::Head)
}

/// The page, or 304 for a browser that has it.
fn page(head: &RequestHead) -> Reply {
    let page = Page::get();
    let has_it = holds(head.if_none_match.as_deref().unwrap_or_default(), &page.etag);
    Reply::FullBody(FullBody {
        etag: Some(page.etag.clone()),
        page_policy: Some(&page.policy),
        ..body(if has_it { 304 } else { 200 }, HTML, if has_it { Bytes::new() } else { page.body.clone() })
    })
}

/// The status: one document, or one a second.
async fn status(local: &Local, head: &RequestHead, admitted: &Operator) -> Reply {
    let shared = &local.shared;
    shared.ask_for_census();
    let deadline = Instant::now() + CENSUS_WITHIN;
    while !shared.has_census() && Instant::now() < deadline {
        sleep(CENSUS_POLL).await;
    }
    if !head.query.watches() || head.wants_head_only() {
        return whole(200, JSON, telemetry::status(shared));
    }
    let (authorization, expires) = match admitted {
        Operator::Allowed(allowed) => {
            let (visitor, access, grant) = &**allowed;
            let pass = shared.app.guard().pass(visitor, access, grant, Instant::now());
            (pass, visitor.identity.expires)
        }
        Operator::Health | Operator::Open => (None, None),
    };
    StatusStream::begin(shared, authorization, expires).map_or_else(
        || {
            text(
                429,
                &format!("{STREAMS_MAX} streams of the status are open: close one, or ask without watch\n"),
            )
        },
        |stream| Reply::PeriodicBody(Box::new(stream)),
    )
}

fn health(local: &Local) -> Reply {
    let progress = local.shared.app.progress();
    if local.shared.app.is_shutting_down() {
        text(503, &with_progress("the server is closing", progress.text_of_end()))
    } else if let Some(stalled) = local.shared.app.stalls().describe() {
        text(503, &format!("{stalled}: see the log\n"))
    } else if local.shared.commands.stats.failed.load(Ordering::Acquire) {
        text(503, "the store has failed: see the log, fix the disk and restart\n")
    } else if local.shared.app.life() < Life::Serving {
        text(503, &with_progress("the state of the source is not loaded", progress.text_of_start()))
    } else if local.shared.app.is_fresh() == Some(false) {
        text(
            503,
            "the state may be older than --etcd-stale-limit: see revcast_source_stale_seconds and the log\n",
        )
    } else {
        text(200, "ok")
    }
}

/// Why a server is not ready, and how far it is.
fn with_progress(why: &str, progress: Option<String>) -> String {
    progress.map_or_else(|| format!("{why}\n"), |progress| format!("{why}: {progress}\n"))
}

async fn compact(local: &Local, head: &RequestHead) -> Reply {
    const USAGE: &str = "revision must be a number above 0: POST /compact?revision=N\n";
    let revision = head.query.get("revision").and_then(|revision| revision.parse().ok());
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
    Reply::FullBody(self::body(code, content_type, body.into()))
}

fn not_allowed(allow: &'static str, said: &'static str) -> Reply {
    Reply::FullBody(FullBody { allow: Some(allow), ..body(405, TEXT, said.into()) })
}

fn body(code: u16, content_type: &'static str, body: Bytes) -> FullBody {
    FullBody {
        code,
        content_type,
        body,
        end: b"",
        retry_after_seconds: (code == 429).then_some(1),
        allow: None,
        page_policy: None,
        vary: None,
        etag: None,
        content_encoding: None,
        caching: Caching::Private,
        nosniff: true,
        websocket_version: None,
    }
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
