//! Authentication and authorization by the API server beside this one.
//!
//! Owns questions and answers: TokenReviews, SubjectAccessReviews, what the cluster says of certificates and front proxies; which
//! answers are kept, and which are asked for again. It never decides by itself, and a failure is never a yes. It uses no socket
//! and no clock: both are an [`Upstream`]. The guard combines it with what is configured here.

mod access_review;
mod cache;
mod cluster;
mod conditions;
mod counts;
mod front_proxy;
mod headers;
mod impersonation;
mod options;
mod review_error;
mod token_review;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;

pub(super) use access_review::{AccessAnswer, AccessQuestion};
use cache::{Cache, From, Limits};
pub use cluster::{Cluster, Proxy};
pub(super) use conditions::{Condition, ReviewedToken, Subject};
use conditions::{Conditions, Secret, Verdict};
use counts::Counts;
pub use counts::ReviewKind;
pub(super) use front_proxy::identity as front_proxy_identity;
pub(super) use impersonation::Impersonation;
pub use options::DelegatedOptions;
pub use review_error::ReviewError;
pub(super) use token_review::TokenAnswer;

use super::tokens::digest_of;
use crate::upstream::{Question, UpstreamError, UpstreamReply};

/// How many answers are kept, of each kind and of each of yes and no. Bytes are counted too: names have any length.
const LIMITS: Limits = Limits { entries: 1 << 16, bytes: 16 << 20 };
/// How many questions for open watches are under way at once.
const RECHECKS_AT_ONCE: usize = 16;
/// The longest rest between two checks of what is due.
const REST_MAX: Duration = Duration::from_secs(5);
/// A failure is written to the log once in this time: each request may cause one.
const SAY_EVERY_SECONDS: u64 = 10;

/// What reviews need of the shard that they run on.
#[allow(async_fn_in_trait)] // one core: futures need not be Send
pub trait Upstream {
    /// Asks the upstream, with the server's own identity.
    ///
    /// # Errors
    /// It gave no reply.
    async fn ask(&self, question: Question) -> Result<UpstreamReply, UpstreamError>;

    /// Wall time.
    fn wall(&self) -> SystemTime;
}

/// Authentication and authorization by the upstream. All shards share one.
#[derive(Debug)]
pub struct Delegated {
    options: DelegatedOptions,
    tokens: Cache<TokenAnswer, ReviewError>,
    accesses: Cache<AccessAnswer, ReviewError>,
    cluster: ArcSwap<Cluster>,
    conditions: Conditions,
    counts: Counts,
    /// When a failure was last written to the log, in seconds since the Unix epoch.
    said: AtomicU64,
}

impl Delegated {
    /// Without answers.
    #[must_use]
    pub fn new(options: DelegatedOptions) -> Self {
        Self {
            conditions: Conditions::new(options.recheck, options.grace),
            options,
            tokens: Cache::new(LIMITS),
            accesses: Cache::new(LIMITS),
            cluster: ArcSwap::default(),
            counts: Counts::default(),
            said: AtomicU64::new(0),
        }
    }

    /// What is delegated.
    #[must_use]
    pub const fn options(&self) -> &DelegatedOptions {
        &self.options
    }

    /// What the cluster says about authentication, as it was last read.
    #[must_use]
    pub fn cluster(&self) -> Arc<Cluster> {
        self.cluster.load_full()
    }

    /// A token to be reviewed.
    pub(super) fn token(&self, token: &str) -> ReviewedToken {
        let is_for_upstream = self.options.audiences.is_empty();
        ReviewedToken { key: digest_of(token.as_bytes()), secret: Secret(token.into()), is_for_upstream }
    }

    /// Who has the token.
    ///
    /// # Errors
    /// There is no answer.
    pub(super) async fn review_token(
        &self,
        upstream: &impl Upstream,
        token: &ReviewedToken,
    ) -> Result<TokenAnswer, ReviewError> {
        let Self { options, .. } = self;
        let expires = token_review::expiry(&token.secret.0);
        let ask = async || {
            let now = upstream.wall();
            let reply = upstream.ask(token_review::question(&token.secret.0, &options.audiences)).await?;
            let answer = token_review::read(&reply, &options.audiences, expires)?;
            let until = now + options.token_ttl;
            Ok((answer, expires.map_or(until, |ends| ends.min(until))))
        };
        let (answer, from) = self.tokens.get(token.key, || upstream.wall(), ask).await;
        self.note(ReviewKind::Token, from, answer, cache::Answer::is_yes, upstream.wall())
    }

    /// Whether the access is allowed.
    ///
    /// # Errors
    /// There is no answer.
    pub(super) async fn review_access(
        &self,
        upstream: &impl Upstream,
        question: &AccessQuestion,
    ) -> Result<AccessAnswer, ReviewError> {
        let ask = async || {
            let now = upstream.wall();
            let reply = upstream.ask(question.question()).await?;
            Ok((access_review::read(&reply)?, now + self.options.access_ttl))
        };
        let (answer, from) = self.accesses.get(question.key, || upstream.wall(), ask).await;
        self.note(ReviewKind::Access, from, answer, |answer| answer.allowed, upstream.wall())
    }

    /// Counts an answer, and writes a failure to the log, once in a while.
    fn note<V>(
        &self,
        kind: ReviewKind,
        from: From,
        answer: Result<V, ReviewError>,
        is_yes: impl Fn(&V) -> bool,
        now: SystemTime,
    ) -> Result<V, ReviewError> {
        let told = answer.as_ref().map(is_yes).map_err(Clone::clone);
        self.counts.note(kind, from, &told);
        if let (From::Asked, Err(error)) = (from, &told) {
            let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let said = self.said.load(Ordering::Relaxed);
            let is_due = now.abs_diff(said) >= SAY_EVERY_SECONDS;
            if is_due && self.said.compare_exchange(said, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                crate::log::error(&format!("delegated access: {error}"));
            }
        }
        answer
    }

    /// A watch begins that needs this, which holds now.
    pub(super) fn require(&self, subject: Subject, now: Instant) -> Arc<Condition> {
        self.conditions.join(subject, now)
    }

    /// Reads what the cluster says about authentication. True: it has changed.
    ///
    /// # Errors
    /// There is no answer; the last one stays in effect.
    pub async fn read_cluster(&self, upstream: &impl Upstream) -> Result<bool, ReviewError> {
        let read = match upstream.ask(cluster::question()).await {
            Ok(reply) => cluster::read(&reply),
            Err(error) => Err(error.into()),
        };
        let read = self.note(ReviewKind::Cluster, From::Asked, read, |_| true, upstream.wall())?;
        if **self.cluster.load() == read {
            return Ok(false);
        }
        self.cluster.store(Arc::new(read));
        Ok(true)
    }

    /// Asks again for what open watches need, as far as it is due at `now`. True: some do not hold any more.
    pub async fn recheck(&self, upstream: &impl Upstream, now: Instant) -> bool {
        let mut turned = false;
        let mut is_silent = false;
        loop {
            let due = self.conditions.take_due(now, RECHECKS_AT_ONCE);
            if due.is_empty() {
                return turned;
            }
            let asked = due.into_iter().map(|condition| async move {
                // One that does not answer is not asked for all the others too: each would take its timeout.
                let verdict = if is_silent {
                    Verdict::Unanswered
                } else {
                    self.verdict(upstream, &condition.subject).await
                };
                (self.conditions.settle(&condition, verdict, now), verdict)
            });
            let settled = join(asked).await;
            is_silent |= settled.iter().all(|(_, verdict)| *verdict == Verdict::Unanswered);
            turned |= settled.iter().any(|(is_over, _)| *is_over);
        }
    }

    async fn verdict(&self, upstream: &impl Upstream, subject: &Subject) -> Verdict {
        let holds = match subject {
            Subject::Token(token, who) => self
                .review_token(upstream, token)
                .await
                .map(|answer| matches!(answer, TokenAnswer::Known(now) if now == *who)),
            Subject::Access(question) => {
                self.review_access(upstream, question).await.map(|answer| answer.allowed)
            }
        };
        match holds {
            Ok(true) => Verdict::Holds,
            Ok(false) => Verdict::Turned,
            Err(_) => Verdict::Unanswered,
        }
    }

    /// How long nothing is due.
    #[must_use]
    pub fn rest(&self, now: Instant) -> Duration {
        // What begins meanwhile is due after three quarters of the interval at the earliest.
        let longest = REST_MAX.min(self.options.recheck / 2);
        self.conditions.due().map_or(longest, |due| due.saturating_duration_since(now).min(longest))
    }

    /// How often the upstream was asked, by kind and result.
    pub fn asked(&self) -> impl Iterator<Item = (ReviewKind, &'static str, u64)> {
        self.counts.asked()
    }

    /// How often an answer was kept, or another request asked for it; and how many are kept.
    #[must_use]
    pub fn kept(&self, kind: ReviewKind) -> (u64, usize) {
        let entries = match kind {
            ReviewKind::Token => self.tokens.len(),
            ReviewKind::Access => self.accesses.len(),
            ReviewKind::Cluster => 0,
        };
        (self.counts.hits(kind), entries)
    }

    /// How many answers open watches need.
    #[must_use]
    pub fn needed(&self) -> usize {
        self.conditions.len()
    }
}

/// Runs futures beside each other until all are ready; their results, in no order.
async fn join<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut pending: Vec<_> = futures.map(Box::pin).collect();
    let mut done = Vec::with_capacity(pending.len());
    std::future::poll_fn(|context| {
        pending.retain_mut(|future| match future.as_mut().poll(context) {
            std::task::Poll::Ready(result) => {
                done.push(result);
                false
            }
            std::task::Poll::Pending => true,
        });
        if pending.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done
}
