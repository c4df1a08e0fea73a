//! The conditions of open watches: answers that are asked for again while a watch needs them.
//!
//! Owns when, and what follows: a watch ends when an answer turns, or when none came for the grace. All watches that need the same
//! answer share one. It asks nothing and uses no clock. Nothing of it is on the path of a delivery.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::access_review::AccessQuestion;
use super::cache::Key;
use crate::identity::Identity;

/// The longest time until a question that was not answered is asked again.
const AGAIN: Duration = Duration::from_secs(30);
/// From this many on, those that no watch needs any more are searched for.
const SWEEP_AT: usize = 1024;

/// A token, kept as long as a watch was opened with it. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(super) Arc<str>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A token that was reviewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReviewedToken {
    pub(super) key: Key,
    pub(super) secret: Secret,
    /// Whether it is made for the upstream, and not for audiences of this server's own.
    pub(crate) is_for_upstream: bool,
}

/// What is asked again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Whether the token is still this user's.
    Token(ReviewedToken, Arc<Identity>),
    /// Whether the access is still allowed.
    Access(AccessQuestion),
}

impl Subject {
    const fn id(&self) -> (bool, Key) {
        match self {
            Self::Token(token, _) => (true, token.key),
            Self::Access(question) => (false, question.key),
        }
    }
}

/// The outcome of asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    Turned,
    /// There was no answer.
    Unanswered,
}

/// An answer that watches need.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(super) subject: Subject,
    over: AtomicBool,
    /// When it was last known to hold.
    good: Mutex<Instant>,
}

impl Condition {
    /// Whether it does not hold any more. It never holds again.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

#[derive(Debug, Default)]
struct Inner {
    known: HashMap<(bool, Key), Weak<Condition>>,
    due: BTreeMap<(Instant, u64), Weak<Condition>>,
    number: u64,
    sweep_at: usize,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Conditions {
    inner: Mutex<Inner>,
    recheck: Duration,
    grace: Duration,
}

impl Conditions {
    pub(super) fn new(recheck: Duration, grace: Duration) -> Self {
        let inner = Inner { sweep_at: SWEEP_AT, ..Inner::default() };
        Self { inner: Mutex::new(inner), recheck, grace }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A watch begins that needs this, which holds now.
    pub(super) fn join(&self, subject: Subject, now: Instant) -> Arc<Condition> {
        let mut inner = self.lock();
        let id = subject.id();
        let known = inner.known.get(&id).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| !known.is_over() && known.subject == subject) {
            return known;
        }
        if inner.known.len() >= inner.sweep_at {
            let is_held = |condition: &Weak<Condition>| condition.strong_count() > 0;
            inner.known.retain(|_, condition| is_held(condition));
            inner.due.retain(|_, condition| is_held(condition));
            inner.sweep_at = SWEEP_AT.max(2 * inner.known.len());
        }
        let at = now + spread(self.recheck, &id.1);
        let condition = Arc::new(Condition { subject, over: AtomicBool::new(false), good: Mutex::new(now) });
        inner.known.insert(id, Arc::downgrade(&condition));
        inner.schedule(at, &condition);
        condition
    }

    /// Those that are to be asked about now, `most` of them. Each is to be settled.
    pub(super) fn take_due(&self, now: Instant, most: usize) -> Vec<Arc<Condition>> {
        let mut inner = self.lock();
        let mut due = Vec::new();
        while due.len() < most
            && let Some(first) = inner.due.first_entry()
            && first.key().0 <= now
        {
            due.extend(first.remove().upgrade());
        }
        due
    }

    /// Notes the outcome for one that was due. True: watches that need it are to be ended.
    pub(super) fn settle(&self, condition: &Arc<Condition>, verdict: Verdict, now: Instant) -> bool {
        let id = condition.subject.id();
        let mut good = condition.good.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = match verdict {
            Verdict::Holds => {
                *good = now;
                false
            }
            Verdict::Turned => true,
            Verdict::Unanswered => now.saturating_duration_since(*good) >= self.grace,
        };
        let mut inner = self.lock();
        if is_over {
            condition.over.store(true, Ordering::Release);
            // Another one may have taken its place.
            if inner.known.get(&id).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(condition)))
            {
                inner.known.remove(&id);
            }
            return true;
        }
        let at = match verdict {
            Verdict::Unanswered => (now + self.recheck.min(AGAIN)).min((*good + self.grace).max(now)),
            Verdict::Holds | Verdict::Turned => now + spread(self.recheck, &id.1),
        };
        inner.schedule(at, condition);
        false
    }

    /// When the next one is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.lock().due.first_key_value().map(|((at, _), _)| *at)
    }

    /// How many watches need at least.
    pub(super) fn len(&self) -> usize {
        self.lock().known.values().filter(|condition| condition.strong_count() > 0).count()
    }
}

impl Inner {
    fn schedule(&mut self, at: Instant, condition: &Arc<Condition>) {
        self.number += 1;
        self.due.insert((at, self.number), Arc::downgrade(condition));
    }
}

/// Between three quarters of the interval and all of it, by the digest: what began together is not asked together.
fn spread(interval: Duration, key: &Key) -> Duration {
    interval * (768 + u32::from(key[0])) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::access::Access;
    use crate::http::request::Method;

    const RECHECK: Duration = Duration::from_secs(300);
    const GRACE: Duration = Duration::from_secs(900);

    fn subject(user: &str) -> Subject {
        let who = Identity::proven(user.into(), String::new(), Vec::new(), None);
        Subject::Access(AccessQuestion::new(&who, &Access::path(Method::Get, &[])))
    }

    #[test]
    fn watches_that_need_the_same_answer_share_it() {
        let (conditions, start) = (Conditions::new(RECHECK, GRACE), Instant::now());
        let mut held: Vec<_> =
            (0..10_000).map(|at| conditions.join(subject(&format!("u{}", at % 500)), start)).collect();
        assert_eq!(conditions.len(), 500);
        assert!(conditions.take_due(start + RECHECK / 2, usize::MAX).is_empty());
        let mut asked = 0;
        // Spread over a quarter of the interval.
        for second in 225..=300 {
            let now = start + Duration::from_secs(second);
            let due = conditions.take_due(now, usize::MAX);
            assert!(due.len() < 60, "{} in one second", due.len());
            asked += due.len();
            assert!(due.iter().all(|condition| !conditions.settle(condition, Verdict::Holds, now)));
        }
        assert_eq!(asked, 500);
        held.clear();
        assert_eq!((conditions.len(), conditions.take_due(start + 3 * RECHECK, usize::MAX).len()), (0, 0));
    }

    #[test]
    fn an_answer_that_turned_ends_its_watches_and_no_others() {
        let (conditions, start) = (Conditions::new(RECHECK, GRACE), Instant::now());
        let [a, a2, b] = ["a", "a", "b"].map(|user| conditions.join(subject(user), start));
        let now = start + RECHECK;
        for due in conditions.take_due(now, usize::MAX) {
            let verdict = if due.subject == subject("a") { Verdict::Turned } else { Verdict::Holds };
            assert_eq!(conditions.settle(&due, verdict, now), verdict == Verdict::Turned);
        }
        assert_eq!([a.is_over(), a2.is_over(), b.is_over()], [true, true, false]);
        // A watch that is allowed later stands on its own.
        assert!(!conditions.join(subject("a"), now).is_over());
    }

    #[test]
    fn without_answers_a_watch_goes_on_for_the_grace() {
        for (grace, ends) in [(GRACE, 900), (Duration::ZERO, 300), (Duration::from_secs(310), 310)] {
            let (conditions, start) = (Conditions::new(RECHECK, grace), Instant::now());
            let watch = conditions.join(subject("a"), start);
            let over = (0..2000).find(|second| {
                let now = start + Duration::from_secs(*second);
                let due = conditions.take_due(now, usize::MAX);
                due.iter().any(|due| conditions.settle(due, Verdict::Unanswered, now))
            });
            let over = over.expect("it ends");
            assert!(watch.is_over() && over <= ends && over >= ends.min(225), "{grace:?}: after {over} s");
        }
    }

    #[test]
    fn an_answer_in_time_begins_the_grace_again() {
        let (conditions, start) = (Conditions::new(RECHECK, GRACE), Instant::now());
        let watch = conditions.join(subject("a"), start);
        let mut asked = 0;
        for second in 0..3000 {
            let now = start + Duration::from_secs(second);
            for due in conditions.take_due(now, usize::MAX) {
                asked += 1;
                let verdict = if second > 800 && second < 850 { Verdict::Holds } else { Verdict::Unanswered };
                conditions.settle(&due, verdict, now);
            }
            if watch.is_over() {
                assert!((1700..1760).contains(&second) && asked < 120, "at {second}, after {asked}");
                return;
            }
        }
        panic!("it goes on");
    }

    #[test]
    fn what_nobody_needs_is_forgotten() {
        let (conditions, start) = (Conditions::new(Duration::from_secs(86_400), GRACE), Instant::now());
        for at in 0..100_000 {
            drop(conditions.join(subject(&format!("u{at}")), start));
        }
        let inner = conditions.lock();
        assert!(inner.known.len() <= SWEEP_AT && inner.due.len() <= SWEEP_AT);
    }

    #[test]
    fn a_token_is_not_printed() {
        let token = ReviewedToken { key: [0; 32], secret: Secret("s3cret".into()), is_for_upstream: true };
        let who = Arc::new(Identity::anonymous());
        assert!(!format!("{:?}", Subject::Token(token, who)).contains("s3cret"));
    }
}
