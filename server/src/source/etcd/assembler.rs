//! What a watch response proves: from the messages of one watch stream to complete revisions.
//!
//! Sits between etcd and the publisher: a revision passes completely or not at all, each once, in order, none missing where
//! that can be known. It is a plain value without I/O. It refuses what it cannot verify with a [`Break`], and `follow` decides
//! how to continue; it never guesses.
//!
//! The table in `engine/DECISIONS.md` lists which fault of real etcds each rule is against.

use std::collections::HashSet;
use std::fmt;

use bytes::Bytes;
use revcast_engine::revision::Revision;

use super::replay::{Differs, Replay};

/// Bytes of one revision that may come in fragments. etcd accepts 128 operations of 1.5 MiB by default.
const PARTIAL_BYTES_MAX: usize = 1 << 30;
/// Up to this many events of one revision are searched linearly for a key.
const PARTIAL_SEARCHED_MAX: usize = 16;
/// The watch id of a response that is for the stream and not for one of its watches.
pub(super) const STREAM: i64 = -1;

/// Which keys the watch covers, and so what it can prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coverage {
    /// Every key of the cluster. Every revision changes some key, so a revision that does not come is missing, and the newest
    /// event is the progress.
    All,
    /// The keys below the prefix. Revisions of other keys do not come: only etcd's progress reports show how far the watch is.
    Prefix {
        /// Whether the answer to a request for progress is ordered with the events (etcd from 3.4.36 and 3.5.18 on).
        progress_on_request: bool,
    },
}

impl Coverage {
    /// Whether it shows how far the watch is soon, whatever is written.
    pub(super) const fn shows_progress(self) -> bool {
        matches!(self, Self::All | Self::Prefix { progress_on_request: true })
    }
}

/// One event of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawEvent {
    pub(super) key: Vec<u8>,
    /// `None`: deleted.
    pub(super) value: Option<Bytes>,
    /// The revision of the event.
    pub(super) revision: Revision,
    /// How often the key was written since it was created; 0 if it was deleted.
    pub(super) version: i64,
    /// The previous state and its revision, if etcd sent it.
    pub(super) before: Option<(Revision, Bytes)>,
}

/// One message of a watch stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) cluster: u64,
    /// The header's revision.
    pub(super) revision: Revision,
    pub(super) watch: i64,
    pub(super) created: bool,
    pub(super) canceled: bool,
    /// With `canceled`: history up to here is compacted.
    pub(super) compacted: Revision,
    pub(super) reason: String,
    /// More of the same revision follows.
    pub(super) fragment: bool,
    pub(super) events: Vec<RawEvent>,
}

/// All changes of one revision to the watched keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawBatch {
    pub(super) revision: Revision,
    pub(super) events: Vec<RawEvent>,
}

/// What a response proves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Proof {
    /// Complete revisions, in order.
    pub(super) batches: Vec<RawBatch>,
    /// Everything up to here has been sent.
    pub(super) progress: Option<Revision>,
    /// Events that were skipped, because they had come before or were not requested.
    pub(super) repeated: u64,
}

/// Why a stream cannot be continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Break {
    /// It is from a different cluster.
    OtherCluster {
        /// The cluster.
        found: u64,
    },
    /// Its events go back.
    WentBack {
        /// The newest revision so far.
        from: Revision,
        /// The revision that came then.
        to: Revision,
    },
    /// A revision did not come.
    Missing {
        /// The last one that came.
        after: Revision,
        /// The next one that came.
        found: Revision,
    },
    /// It differs from what was reported before: this is a different history.
    Rewritten {
        /// The first revision that differs.
        revision: Revision,
    },
    /// The requested history is compacted.
    Compacted {
        /// The compacted revision.
        revision: Revision,
    },
    /// The member has no leader.
    NoLeader,
    /// This server is not authorized to watch, or not known any more.
    Refused(String),
    /// etcd ended it, with this reason.
    Cancelled(String),
    /// It sent an invalid response.
    Nonsense(String),
}

impl From<Differs> for Break {
    fn from(Differs(revision): Differs) -> Self {
        Self::Rewritten { revision }
    }
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherCluster { found } => write!(f, "the watch speaks for another cluster, {found:x}"),
            Self::WentBack { from, to } => write!(f, "the watch went back from revision {from} to {to}"),
            Self::Missing { after, found } => write!(f, "the watch jumped from revision {after} to {found}"),
            Self::Rewritten { revision } => {
                write!(f, "revision {revision} differs from what was reported before")
            }
            Self::Compacted { revision } => write!(f, "history is compacted up to revision {revision}"),
            Self::NoLeader => f.write_str("the member has no leader"),
            Self::Refused(why) => write!(f, "the watch was refused: {why}"),
            Self::Cancelled(why) => write!(f, "etcd ended the watch: {why}"),
            Self::Nonsense(why) => write!(f, "the watch sent what it must not: {why}"),
        }
    }
}

/// Assembles complete revisions from the responses of one watch stream.
#[derive(Debug)]
pub(super) struct RevisionAssembler {
    cluster: u64,
    coverage: Coverage,
    /// Everything up to here has passed.
    last: Revision,
    /// The newest event that was seen on this stream.
    newest: Revision,
    /// What the stream must repeat first, and the requested revision.
    replay: Option<Replay>,
    asked: Revision,
    /// The revision after the last one, when the stream began.
    resumed: Revision,
    /// The revision that is incomplete.
    partial: Vec<RawEvent>,
    partial_bytes: usize,
    /// The keys of `partial`, once there are many.
    partial_keys: HashSet<Vec<u8>>,
    created: bool,
}

impl RevisionAssembler {
    /// For a watch of `cluster` from the revision after `last`.
    pub(super) fn new(cluster: u64, coverage: Coverage, last: Revision) -> Self {
        Self {
            cluster,
            coverage,
            last,
            newest: Revision::ZERO,
            replay: None,
            asked: last.next(),
            resumed: last.next(),
            partial: Vec::new(),
            partial_bytes: 0,
            partial_keys: HashSet::new(),
            created: false,
        }
    }

    /// The stream begins before the revision after the last, and must repeat what came before it.
    pub(super) fn with_replay(self, replay: Replay) -> Self {
        Self { asked: replay.from(), replay: Some(replay), ..self }
    }

    /// Whether the stream has repeated what it must.
    pub(super) fn is_replayed(&self) -> bool {
        self.replay.as_ref().is_none_or(Replay::is_done)
    }

    /// Whether etcd has confirmed the watch.
    pub(super) const fn is_created(&self) -> bool {
        self.created
    }

    /// Everything up to here has passed.
    #[cfg(test)]
    const fn last(&self) -> Revision {
        self.last
    }

    /// Takes one message, and adds what it proves to `proof`.
    ///
    /// # Errors
    /// The stream cannot be continued; everything that was proven before, also by this message, is valid.
    pub(super) fn handle(&mut self, response: Response, proof: &mut Proof) -> Result<(), Break> {
        if response.cluster != self.cluster {
            return Err(Break::OtherCluster { found: response.cluster });
        }
        if response.canceled {
            return Err(cancelled(response.compacted, response.reason));
        }
        if response.created {
            self.created = true;
        }
        if response.events.is_empty() {
            if !response.created && !response.fragment {
                proof.progress = self.progress(&response)?;
            }
            return Ok(());
        }
        for event in response.events {
            self.take(event, proof)?;
        }
        if !response.fragment {
            if let Some(replay) = &mut self.replay {
                replay.close()?;
            }
            self.close(proof)?;
        }
        Ok(())
    }

    fn take(&mut self, event: RawEvent, proof: &mut Proof) -> Result<(), Break> {
        if event.revision == Revision::ZERO {
            return Err(Break::Nonsense("an event has no revision".to_owned()));
        }
        if let Some(replay) = &mut self.replay {
            replay.take(&event.key, event.value.as_ref(), event.revision)?;
        }
        if event.revision <= self.last {
            // Sent twice (PR 15274), or from before the requested revision (#20221).
            proof.repeated += u64::from(event.revision < self.asked || event.revision >= self.resumed);
            return Ok(());
        }
        if event.revision < self.newest {
            return Err(Break::WentBack { from: self.newest, to: event.revision });
        }
        if event.revision > self.newest {
            self.close(proof)?;
            self.newest = event.revision;
        }
        if self.is_known(&event.key) {
            // One revision changes a key once.
            proof.repeated += 1;
            return Ok(());
        }
        self.partial_bytes += event.key.len() + event.value.as_ref().map_or(0, Bytes::len);
        if self.partial_bytes > PARTIAL_BYTES_MAX {
            return Err(Break::Nonsense(format!("revision {} has no end", event.revision)));
        }
        self.partial.push(event);
        Ok(())
    }

    /// Whether the incomplete revision has changed this key. A revision can delete very many keys.
    fn is_known(&mut self, key: &[u8]) -> bool {
        if self.partial.len() < PARTIAL_SEARCHED_MAX {
            return self.partial.iter().any(|known| known.key == key);
        }
        for event in &self.partial[self.partial_keys.len()..] {
            self.partial_keys.insert(event.key.clone());
        }
        self.partial_keys.contains(key)
    }

    /// The revision is complete.
    fn close(&mut self, proof: &mut Proof) -> Result<(), Break> {
        let Some(first) = self.partial.first() else { return Ok(()) };
        let revision = first.revision;
        if self.coverage == Coverage::All && revision != self.last.next() {
            return Err(Break::Missing { after: self.last, found: revision });
        }
        self.partial_bytes = 0;
        self.partial_keys.clear();
        proof.batches.push(RawBatch { revision, events: std::mem::take(&mut self.partial) });
        self.last = revision;
        proof.progress = Some(revision);
        Ok(())
    }

    /// etcd's report that everything up to a revision was sent.
    fn progress(&mut self, response: &Response) -> Result<Option<Revision>, Break> {
        if !self.partial.is_empty() {
            return Err(Break::Nonsense("progress was reported in the middle of a revision".to_owned()));
        }
        let trusted = match self.coverage {
            // The events themselves show it.
            Coverage::All => false,
            // Unsolicited reports are ordered with the events; answers to requests overtook them (#15220).
            Coverage::Prefix { progress_on_request } => progress_on_request || response.watch != STREAM,
        };
        if let (true, Some(replay)) = (trusted, &mut self.replay) {
            replay.reach(response.revision)?;
        }
        if !trusted || response.revision <= self.last {
            return Ok(None);
        }
        self.last = response.revision;
        Ok(Some(self.last))
    }
}

fn cancelled(compacted: Revision, reason: String) -> Break {
    let says = |text: &str| reason.contains(text);
    if compacted > Revision::ZERO {
        Break::Compacted { revision: compacted }
    } else if says("no leader") {
        Break::NoLeader
    } else if says("permission denied") || says("auth") {
        Break::Refused(reason)
    } else {
        Break::Cancelled(reason)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::replay::Recent;
    use super::*;

    const CLUSTER: u64 = 7;

    fn event(revision: u64, key: &str) -> RawEvent {
        RawEvent {
            key: key.as_bytes().to_vec(),
            value: Some(Bytes::from(format!("{key}@{revision}"))),
            revision: Revision::new(revision),
            version: 1,
            before: None,
        }
    }

    fn response(events: Vec<RawEvent>) -> Response {
        let revision = events.last().map_or(Revision::ZERO, |event| event.revision);
        Response { cluster: CLUSTER, revision, events, ..Response::default() }
    }

    fn progress(revision: u64, watch: i64) -> Response {
        Response { cluster: CLUSTER, revision: Revision::new(revision), watch, ..Response::default() }
    }

    fn gate(coverage: Coverage, last: u64) -> RevisionAssembler {
        RevisionAssembler::new(CLUSTER, coverage, Revision::new(last))
    }

    impl RevisionAssembler {
        fn give(&mut self, response: Response) -> Result<Proof, Break> {
            let mut proof = Proof::default();
            self.handle(response, &mut proof).map(|()| proof)
        }
    }

    const PREFIX: Coverage = Coverage::Prefix { progress_on_request: true };

    fn revisions(proof: &Proof) -> Vec<u64> {
        proof.batches.iter().map(|batch| batch.revision.get()).collect()
    }

    #[test]
    fn a_fragmented_revision_passes_when_it_is_whole() {
        let mut gate = gate(Coverage::All, 4);
        let first =
            Response { fragment: true, ..response(vec![event(5, "a"), event(6, "b"), event(6, "c")]) };
        let proof = gate.give(first).unwrap();
        assert_eq!((revisions(&proof), proof.progress), (vec![5], Some(Revision::new(5))));
        let more = Response { fragment: true, ..response(vec![event(6, "d")]) };
        assert_eq!(gate.give(more).unwrap(), Proof::default());
        let proof = gate.give(response(vec![event(6, "e"), event(7, "a")])).unwrap();
        assert_eq!(revisions(&proof), [6, 7]);
        assert_eq!(proof.batches[0].events.len(), 4);
        assert_eq!(gate.last(), Revision::new(7));
    }

    #[test]
    fn what_came_before_is_passed_over() {
        let mut gate = gate(Coverage::All, 4);
        let proof = gate.give(response(vec![event(3, "a"), event(4, "a"), event(5, "a")])).unwrap();
        assert_eq!((revisions(&proof), proof.repeated), (vec![5], 2));
        let proof = gate.give(response(vec![event(5, "a")])).unwrap();
        assert_eq!((revisions(&proof), proof.repeated, proof.progress), (vec![], 1, None));
        let proof = gate.give(response(vec![event(6, "a"), event(6, "a"), event(6, "b")])).unwrap();
        assert_eq!((proof.batches[0].events.len(), proof.repeated), (2, 1));
    }

    #[test]
    fn a_revision_that_does_not_come_is_missed() {
        let missing =
            |after, found| Break::Missing { after: Revision::new(after), found: Revision::new(found) };
        assert_eq!(gate(Coverage::All, 4).give(response(vec![event(6, "a")])), Err(missing(4, 6)));
        let mut all = gate(Coverage::All, 4);
        assert_eq!(all.give(response(vec![event(5, "a"), event(7, "a"), event(8, "a")])), Err(missing(5, 7)));
        let mut proof = Proof::default();
        let mut before = gate(Coverage::All, 4);
        let hole = response(vec![event(5, "a"), event(6, "a"), event(8, "a")]);
        assert_eq!(before.handle(hole, &mut proof), Err(missing(6, 8)));
        assert_eq!(
            (revisions(&proof), proof.progress),
            (vec![5, 6], Some(Revision::new(6))),
            "what came before holds"
        );
        // Not every revision changes keys of a prefix.
        assert_eq!(revisions(&gate(PREFIX, 4).give(response(vec![event(6, "a")])).unwrap()), [6]);
    }

    #[test]
    fn events_that_go_back_break_the_stream() {
        let mut gate = gate(PREFIX, 4);
        let back = gate.give(response(vec![event(9, "a"), event(8, "b")]));
        assert_eq!(back, Err(Break::WentBack { from: Revision::new(9), to: Revision::new(8) }));
    }

    /// For a stream that must repeat revisions 5 to 8, of which 6 changed only keys elsewhere; 9 is the one after the last.
    fn replaying(coverage: Coverage) -> RevisionAssembler {
        let mut recent = Recent::default();
        for revision in [5, 7, 8] {
            let event = event(revision, "/r/a");
            recent.push(event.revision, vec![(event.key, event.value)]);
        }
        let last = Revision::new(9);
        RevisionAssembler::new(CLUSTER, coverage, last).with_replay(recent.replay("/r/", last).unwrap())
    }

    #[test]
    fn a_stream_proves_that_it_goes_on_from_what_was_served() {
        for coverage in [Coverage::All, PREFIX, Coverage::Prefix { progress_on_request: false }] {
            let mut gate = replaying(coverage);
            assert!(!gate.is_replayed());
            let again = response(vec![event(5, "/r/a"), event(7, "/r/a")]);
            assert_eq!(gate.give(again).unwrap(), Proof::default(), "{coverage:?}");
            assert!(!gate.is_replayed(), "{coverage:?}");
            let proof = gate.give(response(vec![event(8, "/r/a"), event(10, "/r/b")])).unwrap();
            assert_eq!((revisions(&proof), proof.repeated), (vec![10], 0), "{coverage:?}");
            assert!(gate.is_replayed(), "{coverage:?}");
        }
        // In fragments, with keys of others, in one message with what follows.
        let mut gate = replaying(Coverage::All);
        let part =
            Response { fragment: true, ..response(vec![event(5, "/r/a"), event(6, "/x"), event(7, "/r/a")]) };
        assert_eq!(gate.give(part).unwrap(), Proof::default());
        let rest = response(vec![event(8, "/r/a"), event(9, "/x"), event(10, "/x")]);
        assert_eq!(revisions(&gate.give(rest).unwrap()), [10]);
        assert!(gate.is_replayed());
    }

    #[test]
    fn another_line_passes_nothing() {
        let rewritten = |revision| Err(Break::Rewritten { revision: Revision::new(revision) });
        for coverage in [Coverage::All, PREFIX, Coverage::Prefix { progress_on_request: false }] {
            let other = |events: Vec<RawEvent>| {
                let mut proof = Proof::default();
                let outcome = replaying(coverage).handle(response(events), &mut proof);
                assert_eq!(proof.batches, [], "{coverage:?}");
                outcome
            };
            let (five, seven, eight) = (event(5, "/r/a"), event(7, "/r/a"), event(8, "/r/a"));
            let new = |revision| event(revision, "/r/new");
            // A new key, where the old history had none; no change where the old one had one; none of it at all.
            assert_eq!(other(vec![five.clone(), new(6), seven.clone()]), rewritten(6), "{coverage:?}");
            assert_eq!(other(vec![five.clone(), seven.clone(), new(10)]), rewritten(8), "{coverage:?}");
            assert_eq!(other(vec![new(10)]), rewritten(7), "{coverage:?}");
            let all = vec![five.clone(), seven.clone(), eight.clone(), new(9), new(10)];
            assert_eq!(
                other(all),
                rewritten(9),
                "{coverage:?}: after the last change, below the last revision"
            );
            let value = RawEvent { value: Some(Bytes::from_static(b"other")), ..eight };
            assert_eq!(other(vec![five, seven, value]), rewritten(8), "{coverage:?}");
        }
        // Only others wrote: shown by progress, if that is reliable, or by their events.
        assert_eq!(replaying(PREFIX).give(progress(9, STREAM)), rewritten(7).map(|()| Proof::default()));
        assert_eq!(
            replaying(Coverage::All).give(response(vec![event(5, "/r/a"), event(9, "/x")])),
            rewritten(7).map(|()| Proof::default())
        );
        let mut old = replaying(Coverage::Prefix { progress_on_request: false });
        assert_eq!(old.give(progress(9, STREAM)).unwrap().progress, None);
        assert!(!old.is_replayed());
    }

    #[test]
    fn progress_is_believed_where_it_is_ordered() {
        let mut trusted = gate(PREFIX, 4);
        assert_eq!(trusted.give(progress(9, STREAM)).unwrap().progress, Some(Revision::new(9)));
        assert_eq!(trusted.give(progress(8, STREAM)).unwrap().progress, None, "it never goes back");
        let mut old = gate(Coverage::Prefix { progress_on_request: false }, 4);
        assert_eq!(old.give(progress(9, STREAM)).unwrap().progress, None);
        assert_eq!(old.give(progress(9, 0)).unwrap().progress, Some(Revision::new(9)));
        let mut all = gate(Coverage::All, 4);
        assert_eq!(all.give(progress(9, 0)).unwrap().progress, None);
        assert_eq!(all.last(), Revision::new(4));
        let created = Response { created: true, ..progress(9, 0) };
        assert_eq!(gate(PREFIX, 4).give(created).unwrap(), Proof::default(), "a header proves nothing");
        let mut inside = gate(PREFIX, 4);
        inside.give(Response { fragment: true, ..response(vec![event(5, "a")]) }).unwrap();
        assert!(matches!(inside.give(progress(9, 0)), Err(Break::Nonsense(_))));
    }

    #[test]
    fn ends_are_told_apart() {
        let cancel = |compacted, reason: &str| {
            gate(PREFIX, 4).give(Response {
                canceled: true,
                compacted: Revision::new(compacted),
                reason: reason.to_owned(),
                ..progress(9, 0)
            })
        };
        assert_eq!(cancel(9, ""), Err(Break::Compacted { revision: Revision::new(9) }));
        assert_eq!(cancel(0, "etcdserver: no leader"), Err(Break::NoLeader));
        assert!(matches!(cancel(0, "etcdserver: permission denied"), Err(Break::Refused(_))));
        assert!(matches!(cancel(0, "etcdserver: invalid auth token"), Err(Break::Refused(_))));
        assert!(matches!(cancel(0, "watcher is slow"), Err(Break::Cancelled(_))));
        let other = Response { cluster: 8, ..progress(9, 0) };
        assert_eq!(gate(PREFIX, 4).give(other), Err(Break::OtherCluster { found: 8 }));
        assert!(matches!(gate(PREFIX, 4).give(response(vec![event(0, "a")])), Err(Break::Nonsense(_))));
    }

    /// A log of revisions, sent in random fragments, with repeats and reconnects: what passes is the log.
    #[test]
    fn what_passes_is_the_log() {
        let mut state = 1_u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..300 {
            let log: Vec<Vec<RawEvent>> = (2..2 + random(30))
                .map(|revision| {
                    let keys = if random(20) == 0 { 40 } else { random(4) };
                    (0..=keys).map(|key| event(revision, &key.to_string())).collect()
                })
                .collect();
            let mut passed: Vec<RawBatch> = Vec::new();
            let mut last = Revision::new(1);
            let mut connects = 0;
            while last.get() < log.len() as u64 + 1 {
                let mut gate = RevisionAssembler::new(CLUSTER, Coverage::All, last);
                connects += 1;
                // A member that lags sends from before the requested revision.
                let from = usize::try_from(last.get() - 1)
                    .unwrap()
                    .saturating_sub(usize::try_from(random(3)).unwrap());
                let mut unsent: Vec<RawEvent> = Vec::new();
                for (at, revision) in log.iter().enumerate().skip(from) {
                    for (number, one) in revision.iter().enumerate() {
                        unsent.push(one.clone());
                        if random(10) == 0 {
                            unsent.push(one.clone());
                        }
                        let ends = number + 1 == revision.len();
                        if random(3) == 0 || (ends && at + 1 == log.len()) {
                            // etcd marks a message as a fragment unless it ends with its revision.
                            let fragment = !ends || random(4) == 0 && at + 1 < log.len();
                            let sent = Response { fragment, ..response(std::mem::take(&mut unsent)) };
                            let proof = gate.give(sent).expect("nothing is missing");
                            passed.extend(proof.batches);
                        }
                    }
                    if connects < 4 && random(12) == 0 {
                        break;
                    }
                }
                last = gate.last();
            }
            let expected: Vec<RawBatch> = log
                .iter()
                .map(|events| RawBatch { revision: events[0].revision, events: events.clone() })
                .collect();
            assert_eq!(passed, expected);
        }
    }
}
