//! The result of a run that found something: which promise was broken, how, and how to replay it.

use std::fmt;

use super::Profile;

/// The promises that the simulator holds the engine to. The numbered ones are those of the architecture page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promise {
    /// 1: every matching event once, in revision order, or 410; and the whole initial state.
    ExactlyOnce,
    /// 2: nothing comes between two events of one revision.
    RevisionWhole,
    /// 3: a bookmark covers only what was sent.
    Bookmark,
    /// 4: DELETED carries the last matching state at the right version.
    Deleted,
    /// 5: a message is made once.
    MessageOnce,
    /// 7: the ring keeps within its limits, and forgets no more than it must.
    Window,
    /// 9: a watch that keeps up is never expired.
    KeptUp,
    /// The bytes of the stream: framing, lines, the end.
    Stream,
    /// A watch ends for a reason, and the reason is reported correctly.
    End,
    /// Possible work is done: nothing waits for ever, no turn spins.
    Progress,
    /// An unreadable value is reported to all watches whose scope covers it, and to no other.
    Unreadable,
    /// Lists show the state of their revision, and expire only when they must.
    List,
    /// A watch that is idle gets a heartbeat in time, and only then.
    Heartbeat,
    /// Counts and gauges add up.
    Counts,
}

/// A broken promise, without the seed.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) promise: Promise,
    pub(crate) what: String,
}

pub(crate) type Checked = Result<(), Fault>;

/// A fault of `promise`.
pub(crate) fn broken<T>(promise: Promise, what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { promise, what: what.into() })
}

/// A run that found something: everything that is needed to replay it.
#[derive(Clone, Debug)]
pub struct Violation {
    /// What the world was about.
    pub profile: Profile,
    /// The number the whole run follows from.
    pub seed: u64,
    /// The broken promise.
    pub promise: Promise,
    /// How it was broken.
    pub what: String,
    /// The last steps before it, oldest first.
    pub trace: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (profile, seed) = (self.profile, self.seed);
        writeln!(f, "seed {seed} of {profile:?} broke {:?}: {}", self.promise, self.what)?;
        for step in &self.trace {
            writeln!(f, "    {step}")?;
        }
        write!(
            f,
            "replay: REVCAST_SIM_PROFILE={profile:?} REVCAST_SIM_SEED={seed} cargo test -p revcast-sim --test simulation \
             -- one_seed --nocapture"
        )
    }
}

impl std::error::Error for Violation {}
