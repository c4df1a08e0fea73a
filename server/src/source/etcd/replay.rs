//! Whether etcd's history is still the one that was served.
//!
//! Owns the record of the last events below the prefix (`Recent`), and the comparison with what a new stream sends for the same
//! revisions (`Replay`). A watch begins before the last revision, so that each stream proves by itself that it continues what
//! was served: a restored etcd has the same cluster id, and may have passed the last revision long ago. Plain values without
//! I/O; `follow` handles the case that nothing can be replayed.

use std::collections::VecDeque;

use bytes::Bytes;
use revcast_engine::revision::Revision;

/// The limits on recorded events and their bytes: a new stream sends them again.
const EVENTS_MAX: usize = 64;
const BYTES_MAX: usize = 4 << 20;
/// How far before the last revision a watch begins at most. etcd sends up to this many revisions in one message; others may
/// have written much in between that is sent again too.
const REVISIONS_MAX: u64 = 1_000;

/// A key, and its value or that it was deleted.
type Told = (Vec<u8>, Option<Bytes>);

/// The changes of one revision to the keys below the prefix, in the order of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    revision: Revision,
    told: Vec<Told>,
}

impl Group {
    fn bytes(&self) -> usize {
        self.told.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Bytes::len)).sum()
    }
}

/// The last events below the prefix: all of them since the oldest one in the record.
#[derive(Debug, Default)]
pub(super) struct Recent {
    groups: VecDeque<Group>,
    events: usize,
    bytes: usize,
}

impl Recent {
    /// Records the changes of one revision. Revisions come in order, and none that changed the prefix is left out.
    pub(super) fn push(&mut self, revision: Revision, mut told: Vec<Told>) {
        if told.is_empty() {
            return;
        }
        told.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let group = Group { revision, told };
        self.events += group.told.len();
        self.bytes += group.bytes();
        self.groups.push_back(group);
        while self.events > EVENTS_MAX || self.bytes > BYTES_MAX {
            self.drop_oldest();
        }
    }

    /// Removes what etcd has compacted, or will not send again.
    pub(super) fn forget(&mut self, upto: Revision) {
        while self.groups.front().is_some_and(|group| group.revision <= upto) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(group) = self.groups.pop_front() {
            self.events -= group.told.len();
            self.bytes -= group.bytes();
        }
    }

    /// What a watch must repeat before it sends what came after `last`; `None`: too little is recorded for that.
    pub(super) fn replay(&self, prefix: &str, last: Revision) -> Option<Replay> {
        let near = |group: &&Group| last.get() - group.revision.get().min(last.get()) <= REVISIONS_MAX;
        let mut groups = self.groups.iter().filter(near);
        // At the oldest revision that etcd has, old versions leave out deletes (#19179). So the comparison begins after it.
        let from = groups.next()?.revision;
        let wanted: VecDeque<Group> = groups.cloned().collect();
        (!wanted.is_empty()).then(|| Replay {
            prefix: prefix.as_bytes().to_vec(),
            from,
            last,
            passed: from,
            wanted,
            coming: None,
        })
    }
}

/// What one stream still has to repeat.
#[derive(Debug)]
pub(super) struct Replay {
    prefix: Vec<u8>,
    /// The watch begins here; what comes after it is compared.
    from: Revision,
    /// The last revision that was served.
    last: Revision,
    /// Everything up to here was compared.
    passed: Revision,
    wanted: VecDeque<Group>,
    /// The revision that is incomplete.
    coming: Option<Group>,
}

/// etcd reports a revision differently than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Differs(pub(super) Revision);

impl Replay {
    /// Where the watch begins.
    pub(super) const fn from(&self) -> Revision {
        self.from
    }

    /// Whether everything was repeated, and nothing else came.
    pub(super) fn is_done(&self) -> bool {
        self.wanted.is_empty() && self.coming.is_none()
    }

    /// Takes an event of the stream, in its order.
    ///
    /// # Errors
    /// The history differs.
    pub(super) fn take(
        &mut self,
        key: &[u8],
        value: Option<&Bytes>,
        revision: Revision,
    ) -> Result<(), Differs> {
        if self.coming.as_ref().is_some_and(|coming| coming.revision < revision) {
            self.close()?;
        }
        // What is missing of an earlier revision will not come any more.
        if let Some(wanted) = self.wanted.front()
            && wanted.revision < revision
        {
            return Err(Differs(wanted.revision));
        }
        // What was compared already is sent twice (PR 15274).
        if revision <= self.passed || revision > self.last || !key.starts_with(&self.prefix) {
            return Ok(());
        }
        // A revision can delete very many keys: no more are accepted than it is known to have changed.
        let wanted = self.wanted.front().filter(|wanted| wanted.revision == revision);
        let most = wanted.map_or(0, |wanted| wanted.told.len());
        let coming = self.coming.get_or_insert_with(|| Group { revision, told: Vec::new() });
        if coming.revision == revision && !coming.told.iter().any(|(known, _)| known == key) {
            if coming.told.len() >= most {
                return Err(Differs(revision));
            }
            coming.told.push((key.to_vec(), value.cloned()));
        }
        Ok(())
    }

    /// The revision is complete.
    ///
    /// # Errors
    /// It differs.
    pub(super) fn close(&mut self) -> Result<(), Differs> {
        let Some(mut coming) = self.coming.take() else { return Ok(()) };
        coming.told.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        self.passed = coming.revision;
        match self.wanted.pop_front() {
            Some(wanted) if wanted == coming => Ok(()),
            Some(_) | None => Err(Differs(coming.revision)),
        }
    }

    /// Everything up to a revision was sent.
    ///
    /// # Errors
    /// Not everything of it that was sent before.
    pub(super) fn reach(&mut self, revision: Revision) -> Result<(), Differs> {
        match self.wanted.front() {
            Some(wanted) if wanted.revision <= revision => Err(Differs(wanted.revision)),
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn told(key: &str, value: &str) -> Told {
        let value = (!value.is_empty()).then(|| Bytes::copy_from_slice(value.as_bytes()));
        (format!("/r/{key}").into_bytes(), value)
    }

    /// Revisions with their changes: `(5, "a", "1")`; without a value the key is deleted.
    fn recent(events: &[(u64, &str, &str)]) -> Recent {
        let mut recent = Recent::default();
        for (revision, key, value) in events {
            recent.push(Revision::new(*revision), vec![told(key, value)]);
        }
        recent
    }

    /// What a stream that sends these, each in its own message, proves against the record up to `last`.
    fn replay(recent: &Recent, last: u64, events: &[(u64, &str, &str)]) -> Result<bool, Differs> {
        let mut replay = recent.replay("/r/", Revision::new(last)).unwrap();
        for (revision, key, value) in events {
            let (key, value) = told(key, value);
            replay.take(&key, value.as_ref(), Revision::new(*revision))?;
            replay.close()?;
        }
        Ok(replay.is_done())
    }

    const SERVED: &[(u64, &str, &str)] = &[(5, "a", "1"), (6, "b", "1"), (8, "a", ""), (9, "b", "2")];

    fn differs(revision: u64) -> Result<bool, Differs> {
        Err(Differs(Revision::new(revision)))
    }

    #[test]
    fn the_same_history_is_gone_on_with() {
        let recent = recent(SERVED);
        assert_eq!(recent.replay("/r/", Revision::new(12)).unwrap().from(), Revision::new(5));
        assert_eq!(replay(&recent, 12, SERVED), Ok(true));
        assert_eq!(replay(&recent, 12, &SERVED[..3]), Ok(false), "not all of it");
        // What follows is the assembler's part.
        assert_eq!(replay(&recent, 12, &[SERVED, &[(13, "c", "1")]].concat()), Ok(true));
        // A delete at the first revision may be left out, and anything may come twice.
        assert_eq!(replay(&recent, 12, &SERVED[1..]), Ok(true));
        assert_eq!(replay(&recent, 12, &[SERVED, SERVED].concat()), Ok(true));
    }

    #[test]
    fn another_history_is_noticed() {
        let recent = recent(SERVED);
        let with = |events: &[(u64, &str, &str)]| replay(&recent, 12, &[&SERVED[..1], events].concat());
        assert_eq!(with(&[(6, "b", "other")]), differs(6), "another value");
        assert_eq!(with(&[(6, "c", "1")]), differs(6), "another key");
        assert_eq!(with(&[(6, "b", "")]), differs(6), "a delete");
        assert_eq!(with(&[(7, "b", "1")]), differs(6), "another revision");
        assert_eq!(with(&[SERVED[1], (8, "a", "3")]), differs(8), "no delete");
        assert_eq!(with(&[SERVED[1], (7, "c", "1")]), differs(7), "one more in between");
        assert_eq!(
            replay(&recent, 12, &[SERVED, &[(11, "c", "1")]].concat()),
            differs(11),
            "one more at the end"
        );
        assert_eq!(with(&[SERVED[1], SERVED[2], (13, "c", "1")]), differs(9), "one less at the end");
    }

    #[test]
    fn what_others_write_tells_only_how_far_it_is() {
        let recent = recent(SERVED);
        let mut replay = recent.replay("/r/", Revision::new(12)).unwrap();
        for (revision, key, value) in SERVED {
            let (key, value) = told(key, value);
            replay.take(b"/elsewhere/x", value.as_ref(), Revision::new(revision - 1)).unwrap();
            replay.take(&key, value.as_ref(), Revision::new(*revision)).unwrap();
        }
        replay.close().unwrap();
        replay.take(b"/elsewhere/x", None, Revision::new(12)).unwrap();
        assert!(replay.is_done());
        // A revision of others where a change of ours was.
        let mut replay = recent.replay("/r/", Revision::new(12)).unwrap();
        replay.take(b"/elsewhere/x", None, Revision::new(6)).unwrap();
        assert_eq!(replay.take(b"/elsewhere/x", None, Revision::new(7)), Err(Differs(Revision::new(6))));
        // Nothing comes, and etcd reports more progress.
        let mut replay = recent.replay("/r/", Revision::new(12)).unwrap();
        assert_eq!(replay.reach(Revision::new(5)), Ok(()));
        assert_eq!(replay.reach(Revision::new(12)), Err(Differs(Revision::new(6))));
    }

    #[test]
    fn a_revision_is_compared_whole_in_any_order() {
        let mut recent = recent(&SERVED[..1]);
        recent.push(Revision::new(6), vec![told("b", "1"), told("a", ""), told("c", "2")]);
        let tell = |keys: &[(&str, &str)]| {
            let mut replay = recent.replay("/r/", Revision::new(6)).unwrap();
            for (key, value) in keys {
                let (key, value) = told(key, value);
                replay.take(&key, value.as_ref(), Revision::new(6))?;
            }
            replay.close().map(|()| replay.is_done())
        };
        assert_eq!(tell(&[("a", ""), ("b", "1"), ("c", "2")]), Ok(true));
        assert_eq!(tell(&[("c", "2"), ("c", "2"), ("b", "1"), ("a", "")]), Ok(true));
        assert_eq!(tell(&[("c", "2"), ("b", "1")]), differs(6));
        // One more than there were shows a different revision at once, however many follow.
        let mut replay = recent.replay("/r/", Revision::new(6)).unwrap();
        for key in ["/r/x", "/r/y", "/r/z"] {
            assert_eq!(replay.take(key.as_bytes(), None, Revision::new(6)), Ok(()));
        }
        assert_eq!(replay.take(b"/r/x", None, Revision::new(6)), Ok(()), "the same again");
        assert_eq!(replay.take(b"/r/!", None, Revision::new(6)), Err(Differs(Revision::new(6))));
        assert_eq!(tell(&[("a", ""), ("b", "1"), ("c", "2"), ("d", "1")]), differs(6));
    }

    #[test]
    fn memory_is_bounded_and_says_when_it_proves_nothing() {
        let mut recent = Recent::default();
        let proves = |recent: &Recent, last| recent.replay("/r/", Revision::new(last)).is_some();
        assert!(!proves(&recent, 10));
        recent.push(Revision::new(2), vec![told("a", "1")]);
        assert!(!proves(&recent, 10), "one revision is where it begins");
        for revision in 3..1_000 {
            recent.push(Revision::new(revision), vec![told("a", "1")]);
        }
        assert_eq!(recent.replay("/r/", Revision::new(999)).unwrap().from(), Revision::new(1_000 - 64));
        // Others wrote much since: what is too long to be sent again is left out.
        assert!(proves(&recent, 1_900) && !proves(&recent, 5_000));
        // etcd has compacted some, or all of it.
        recent.forget(Revision::new(990));
        assert_eq!(recent.replay("/r/", Revision::new(999)).unwrap().from(), Revision::new(991));
        recent.forget(Revision::new(998));
        assert!(!proves(&recent, 999));
        // Large values, and many keys in one revision.
        for revision in 1_000..1_010 {
            recent.push(Revision::new(revision), vec![told("a", &"x".repeat(1 << 20))]);
        }
        assert!(recent.bytes <= BYTES_MAX && proves(&recent, 1_010));
        recent.push(Revision::new(1_010), (0..100).map(|key| told(&key.to_string(), "")).collect());
        assert!(!proves(&recent, 1_010));
        assert_eq!((recent.events, recent.bytes, recent.groups.len()), (0, 0, 0));
    }
}
