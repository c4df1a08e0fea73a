//! Much history, read by several watches of one stream at once.
//!
//! etcd sends a watch a thousand revisions of history at a time, waits 100 ms, and reads all that remains of it for each such step,
//! while its writers wait. But one step serves all watches. So each watch begins a segment later than the one before it, and
//! ends where that one begins: the same history takes a fraction of the steps.
//!
//! Owns which watches are open, and the order in which what they send is passed on: as one watch would have sent it. It is a plain
//! value without I/O, and it proves nothing: that is `assembler`'s part, after it.

use std::collections::VecDeque;

use bytes::Bytes;
use revcast_engine::revision::Revision;

use super::assembler::{Response, STREAM};

/// Revisions of a segment: as many as etcd sends a watch in one step.
const LENGTH: u64 = 1_000;
/// How many segments are read at once: at first, and at most.
const OPEN_FIRST: usize = 4;
const OPEN_MAX: usize = 16;
/// The intended bytes of all that are read at once: what comes before its turn waits.
const OPEN_BYTES: usize = 32 << 20;

/// The id of the first watch. A server that counts its own, as proxies do, comes to none of these by chance.
const FIRST_ID: i64 = 1 << 40;

/// What is asked of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// A watch from this revision on, with this id; without one etcd chooses it.
    Watch { id: Option<i64>, from: Revision },
    /// The end of a watch.
    Cancel { id: i64 },
    /// How far all watches are.
    Progress,
}

/// A part of history, which a watch brings.
#[derive(Debug)]
struct Segment {
    id: i64,
    from: Revision,
    /// What came before its turn.
    waiting: Vec<Response>,
    bytes: usize,
    /// etcd has confirmed its watch.
    is_created: bool,
    /// Everything of it came.
    is_whole: bool,
}

/// The segments of one stream.
#[derive(Debug)]
pub(super) struct Segments {
    /// Those that were not passed on, in order. The last one has no end.
    left: VecDeque<Segment>,
    /// How many of them, the first ones, have a watch.
    open: usize,
    open_max: usize,
    /// Whether an event came since progress was wanted last.
    has_news: bool,
    /// Whether there is one alone since the beginning: then everything on the stream is its own.
    is_alone: bool,
    /// Whether etcd has confirmed the first watch, with the id that was asked for.
    is_confirmed: bool,
}

impl Segments {
    /// A watch from a revision on, with no history to speak of.
    pub(super) fn one(from: Revision) -> Self {
        Self::of(from, from, LENGTH)
    }

    /// A watch from a revision on, when the newest one is `to`.
    pub(super) fn many(from: Revision, to: Revision) -> Self {
        Self::of(from, to, LENGTH)
    }

    fn of(from: Revision, to: Revision, length: u64) -> Self {
        let segment = |(id, from)| Segment {
            id,
            from: Revision::new(from),
            waiting: Vec::new(),
            bytes: 0,
            is_created: false,
            is_whole: false,
        };
        let begins = (from.get()..=to.get()).step_by(usize::try_from(length).unwrap_or(usize::MAX));
        let mut left: VecDeque<Segment> = (FIRST_ID..).zip(begins).map(segment).collect();
        if left.is_empty() {
            left.push_back(segment((FIRST_ID, from.get())));
        }
        let is_alone = left.len() == 1;
        Self { left, open: 0, open_max: 1, has_news: true, is_alone, is_confirmed: false }
    }

    /// The first watch.
    pub(super) fn begin(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        self.open_more(&mut requests);
        requests
    }

    /// What is asked of etcd when progress is wanted. A report is about the watches that the stream has when it is asked for, and may
    /// overtake the events of one that is not confirmed yet: so it is asked for when all are. While nothing comes more are opened: it
    /// may be that no key of theirs has changed, which only a report tells.
    pub(super) fn want_progress(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        if self.open == self.left.len() {
            let are_created = self.left.iter().all(|segment| segment.is_created);
            requests.extend(Some(Request::Progress).filter(|_| are_created));
        } else if self.is_confirmed && !std::mem::take(&mut self.has_news) {
            self.open_max += OPEN_FIRST;
            self.open_more(&mut requests);
        }
        requests
    }

    /// Takes note of a message if there is one watch alone: then it is passed on as it is, as all of the stream are. `false`: it is
    /// for [`Segments::take`].
    pub(super) fn note_of_one(&mut self, response: &Response) -> bool {
        if self.is_alone {
            self.left[0].is_created |= response.created;
        }
        self.is_alone
    }

    /// Takes a message of a stream that has several watches, or will have: returns what one watch would have sent by now, and what is
    /// asked of etcd after it.
    pub(super) fn take(&mut self, response: Response) -> (Vec<Response>, Vec<Request>) {
        debug_assert!(!self.is_alone, "it is passed on as it is");
        let (mut passed, mut requests) = (Vec::new(), Vec::new());
        if !self.is_confirmed {
            // It is about the first watch, whatever its id: there is no other yet.
            if response.created && !response.canceled {
                self.confirm(response.watch);
            }
            passed.push(response);
        } else if response.watch == STREAM {
            if response.canceled || response.created {
                passed.push(response);
            } else if self.open == self.left.len() {
                // All of them have everything up to here.
                self.end_all(&mut requests);
                self.keep(self.left.len() - 1, response);
            }
        } else if let Some(at) = self.left.iter().position(|segment| segment.id == response.watch) {
            if response.canceled {
                // Of one that is whole, its end was asked for.
                passed.extend(Some(response).filter(|_| !self.left[at].is_whole));
            } else if response.created {
                self.left[at].is_created = true;
            } else if !self.left[at].is_whole {
                self.take_part(at, response, &mut requests);
            }
        }
        self.pass_on(&mut passed, &mut requests);
        (passed, requests)
    }

    /// etcd has confirmed the first watch. The others are opened if it has the id that was asked for. A proxy in between may choose
    /// ids of its own: then the first watch brings everything.
    fn confirm(&mut self, id: i64) {
        self.left[0].is_created = true;
        if self.left[0].id == id {
            (self.is_confirmed, self.open_max) = (true, OPEN_FIRST);
        } else {
            self.is_alone = true;
            self.left.truncate(1);
        }
    }

    /// A part of a segment that is not whole.
    fn take_part(&mut self, at: usize, response: Response, requests: &mut Vec<Request>) {
        let mut response = response;
        let end = self.left.get(at + 1).map(|next| next.from);
        let Some(last) = response.events.last().map(|event| event.revision) else {
            // Progress of this watch.
            match end {
                Some(end) if response.revision.next() >= end => {
                    response.revision = Revision::new(end.get() - 1);
                    self.keep(at, response);
                    self.end(at, requests);
                }
                Some(_) | None => self.keep(at, response),
            }
            return;
        };
        self.has_news = true;
        let Some(end) = end else { return self.keep(at, response) };
        let is_past = last >= end;
        let is_whole = is_past || (last.next() == end && !response.fragment);
        if is_past {
            // The next one brings it.
            response.events.retain(|event| event.revision < end);
            response.fragment = false;
        }
        if !response.events.is_empty() {
            self.keep(at, response);
        }
        if is_whole {
            self.end(at, requests);
        }
    }

    fn keep(&mut self, at: usize, response: Response) {
        let segment = &mut self.left[at];
        let bytes = |value: &Option<Bytes>| value.as_ref().map_or(0, Bytes::len);
        segment.bytes += response.events.iter().map(|it| it.key.len() + bytes(&it.value)).sum::<usize>();
        segment.waiting.push(response);
    }

    /// Everything of a segment came.
    fn end(&mut self, at: usize, requests: &mut Vec<Request>) {
        let segment = &mut self.left[at];
        segment.is_whole = true;
        requests.push(Request::Cancel { id: segment.id });
        let fits = OPEN_BYTES / segment.bytes.max(1);
        self.open_max = fits.clamp(1, OPEN_MAX).min(self.open_max * 2);
    }

    /// Everything of all but the last one came.
    fn end_all(&mut self, requests: &mut Vec<Request>) {
        for at in 0..self.left.len() - 1 {
            if !self.left[at].is_whole {
                self.end(at, requests);
            }
        }
    }

    fn pass_on(&mut self, passed: &mut Vec<Response>, requests: &mut Vec<Request>) {
        loop {
            let Some(first) = self.left.front_mut() else { return };
            passed.append(&mut first.waiting);
            if !first.is_whole {
                break;
            }
            self.left.pop_front();
            self.open -= 1;
        }
        self.open_more(requests);
    }

    fn open_more(&mut self, requests: &mut Vec<Request>) {
        let most = self.open_max.min(self.left.len());
        for segment in self.left.range(self.open.min(most)..most) {
            let id = Some(segment.id).filter(|_| !self.is_alone);
            requests.push(Request::Watch { id, from: segment.from });
        }
        self.open = self.open.max(most);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::{BTreeMap, BTreeSet};

    use super::super::assembler::{Coverage, Proof, RawBatch, RawEvent, RevisionAssembler};
    use super::*;

    const ALL: Coverage = Coverage::All;
    const PREFIX: Coverage = Coverage::Prefix { progress_on_request: true };

    fn random(state: &mut u64, below: u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    fn event(revision: u64, key: u64) -> RawEvent {
        RawEvent {
            key: key.to_string().into_bytes(),
            value: Some(Bytes::from(format!("{key}@{revision}"))),
            revision: Revision::new(revision),
            version: 1,
            before: None,
        }
    }

    /// One etcd, with the watches of one stream: what it sends, and in which order it may.
    struct Server {
        state: u64,
        /// What each revision from 2 on changed of the watched keys.
        log: Vec<Vec<RawEvent>>,
        /// Revisions that a watch is sent in one step.
        step: usize,
        /// Where each watch is, and whether it has caught up.
        watches: BTreeMap<i64, (u64, bool)>,
        sent: VecDeque<Response>,
        control: VecDeque<Response>,
        /// Watches whose confirmation was sent, and what waits for that.
        confirmed: BTreeSet<i64>,
        held: BTreeMap<i64, Vec<Response>>,
        /// Whether it chooses the ids of watches.
        is_proxy: bool,
        chosen: i64,
    }

    impl Server {
        fn newest(&self) -> u64 {
            self.log.len() as u64 + 1
        }

        fn asked(&mut self, request: &Request) {
            let control =
                Response { watch: 0, revision: Revision::new(self.newest()), ..Response::default() };
            match request {
                Request::Watch { id, from } => {
                    let id = id.filter(|_| !self.is_proxy).unwrap_or(self.chosen);
                    self.chosen += i64::from(self.is_proxy);
                    self.watches.insert(id, (from.get(), from.get() > self.newest()));
                    self.control.push_back(Response { watch: id, created: true, ..control });
                }
                Request::Cancel { id } => {
                    assert!(self.watches.remove(id).is_some(), "{id} is ended once");
                    self.control.push_back(Response { watch: *id, canceled: true, ..control });
                }
                Request::Progress => {
                    if self.watches.values().all(|(_, synced)| *synced) {
                        self.sent.push_back(Response { watch: STREAM, ..control });
                    }
                }
            }
        }

        /// One step for all watches that have not caught up, in any order.
        fn sync(&mut self) {
            let newest = self.newest();
            let mut behind: Vec<i64> =
                self.watches.iter().filter(|(_, (_, synced))| !synced).map(|(id, _)| *id).collect();
            while !behind.is_empty() {
                let at = random(&mut self.state, behind.len() as u64);
                let id = behind.swap_remove(usize::try_from(at).unwrap());
                let (mut next, _) = self.watches[&id];
                let (mut events, mut revisions) = (Vec::new(), 0);
                while next <= newest {
                    let changes = &self.log[usize::try_from(next - 2).unwrap()];
                    if !changes.is_empty() && revisions == self.step {
                        break;
                    }
                    revisions += usize::from(!changes.is_empty());
                    events.extend(changes.iter().cloned());
                    next += 1;
                }
                self.watches.insert(id, (next, next > newest));
                if !events.is_empty() {
                    self.sent.push_back(Response {
                        watch: id,
                        revision: Revision::new(newest),
                        events,
                        ..Response::default()
                    });
                }
            }
        }

        fn write(&mut self, changes: Vec<RawEvent>) {
            self.log.push(changes.clone());
            let newest = self.newest();
            for (id, (next, synced)) in &mut self.watches {
                if *synced && *next <= newest {
                    *next = newest + 1;
                    if !changes.is_empty() {
                        self.sent.push_back(Response {
                            watch: *id,
                            revision: Revision::new(newest),
                            events: changes.clone(),
                            ..Response::default()
                        });
                    }
                }
            }
        }

        /// A report that nobody asked for, of a watch that has caught up.
        fn report(&mut self) {
            let synced: Vec<i64> =
                self.watches.iter().filter(|(_, (_, synced))| *synced).map(|(id, _)| *id).collect();
            if !synced.is_empty() {
                let at = random(&mut self.state, synced.len() as u64);
                let watch = synced[usize::try_from(at).unwrap()];
                let revision = Revision::new(self.newest());
                self.sent.push_back(Response { watch, revision, ..Response::default() });
            }
        }

        /// What arrives next: of the two queues either one, and events in pieces.
        fn send(&mut self) -> Vec<Response> {
            if random(&mut self.state, 2) == 0
                && let Some(control) = self.control.pop_front()
            {
                if control.created {
                    self.confirmed.insert(control.watch);
                    let held = self.held.remove(&control.watch).unwrap_or_default();
                    return std::iter::once(control).chain(held).collect();
                }
                self.confirmed.remove(&control.watch);
                return vec![control];
            }
            let Some(response) = self.sent.pop_front() else { return Vec::new() };
            if response.watch != STREAM && !self.confirmed.contains(&response.watch) {
                self.held.entry(response.watch).or_default().push(response);
                return Vec::new();
            }
            let mut pieces = vec![Response { events: Vec::new(), ..response.clone() }];
            for event in response.events {
                if random(&mut self.state, 6) == 0 && pieces.last().is_some_and(|it| !it.events.is_empty()) {
                    pieces.last_mut().unwrap().fragment = true;
                    pieces.push(Response { events: Vec::new(), fragment: false, ..pieces[0].clone() });
                }
                pieces.last_mut().unwrap().events.push(event);
            }
            pieces
        }
    }

    fn changes(state: &mut u64, revision: u64, coverage: Coverage, quiet: bool) -> Vec<RawEvent> {
        if coverage != ALL && (quiet || random(state, 3) == 0) {
            return Vec::new();
        }
        let keys = if random(state, 12) == 0 { 9 } else { 1 + random(state, 3) };
        (0..keys).map(|key| event(revision, key)).collect()
    }

    /// What is told when this message comes, and what is asked.
    fn told(segments: &mut Segments, response: Response) -> (Vec<Response>, Vec<Request>) {
        if segments.note_of_one(&response) { (vec![response], Vec::new()) } else { segments.take(response) }
    }

    /// Reads a history of random length in segments while it grows.
    fn read(seed: u64, coverage: Coverage) {
        let state = &mut (seed * 2 + 1);
        let (length, revisions, step) =
            (1 + random(state, 8), 1 + random(state, 120), 1 + usize::try_from(random(state, 8)).unwrap());
        // No key of the end, or of the beginning, is watched.
        let (from_quiet, to_quiet) = (random(state, 150), random(state, 150));
        let is_quiet = |revision: u64| (from_quiet..to_quiet).contains(&revision);
        let log = (2..2 + revisions).map(|it| changes(state, it, coverage, is_quiet(it))).collect();
        let mut server = Server {
            state: seed,
            log,
            step,
            watches: BTreeMap::new(),
            sent: VecDeque::new(),
            control: VecDeque::new(),
            confirmed: BTreeSet::new(),
            held: BTreeMap::new(),
            is_proxy: random(state, 10) == 0,
            chosen: 0,
        };
        let from = 2 + random(state, revisions);
        let mut segments = Segments::of(Revision::new(from), Revision::new(server.newest()), length);
        let mut assembler = RevisionAssembler::new(0, coverage, Revision::new(from - 1));
        let mut requests: VecDeque<Request> = segments.begin().into();
        let mut passed: Vec<RawBatch> = Vec::new();
        let (mut reached, mut writes) = (Revision::new(from - 1), random(state, 40));
        for turn in 0.. {
            assert!(turn < 200_000, "{coverage:?} {seed}: it goes on: {reached} {segments:?} {requests:?}");
            if writes == 0 && reached.get() == server.newest() {
                break;
            }
            match random(state, 24) {
                0 => server.sync(),
                1 if writes > 0 => {
                    writes -= 1;
                    let revision = server.newest() + 1;
                    let changes = changes(state, revision, coverage, is_quiet(revision));
                    server.write(changes);
                }
                2 => server.report(),
                3 if coverage != ALL => requests.extend(segments.want_progress()),
                4..10 => {
                    if let Some(request) = requests.pop_front() {
                        server.asked(&request);
                    }
                }
                _ => {
                    for response in server.send() {
                        let (told, asked) = told(&mut segments, response);
                        requests.extend(asked);
                        for response in told {
                            let mut proof = Proof::default();
                            assembler
                                .handle(response, &mut proof)
                                .unwrap_or_else(|broke| panic!("{seed}: {broke}"));
                            passed.extend(proof.batches);
                            reached = proof.progress.unwrap_or(reached);
                        }
                    }
                }
            }
        }
        let expected: Vec<RawBatch> = server.log[usize::try_from(from - 2).unwrap()..]
            .iter()
            .filter(|events| !events.is_empty())
            .map(|events| RawBatch { revision: events[0].revision, events: events.clone() })
            .collect();
        assert_eq!(passed, expected, "{coverage:?} {seed}");
        assert!(assembler.is_created() && segments.left.len() == 1, "{coverage:?} {seed}");
    }

    #[test]
    fn many_watches_tell_what_one_would() {
        for seed in 0..1_000 {
            read(seed, ALL);
            read(seed, PREFIX);
        }
    }

    /// Of the segment with this number, from 1 on.
    fn batch(number: i64, revisions: std::ops::Range<u64>) -> Response {
        let events = revisions.map(|revision| event(revision, 1)).collect();
        Response { watch: FIRST_ID - 1 + number, events, ..Response::default() }
    }

    fn created(number: i64) -> Response {
        Response { created: true, ..batch(number, 0..0) }
    }

    /// The numbers of the segments that are opened, and ended.
    fn numbers(requests: &[Request]) -> (Vec<i64>, Vec<i64>) {
        let opened = requests.iter().filter_map(|it| match it {
            Request::Watch { id, .. } => id.map(|id| id - FIRST_ID + 1),
            Request::Cancel { .. } | Request::Progress => None,
        });
        let ended = requests.iter().filter_map(|it| match it {
            Request::Cancel { id } => Some(id - FIRST_ID + 1),
            Request::Watch { .. } | Request::Progress => None,
        });
        (opened.collect(), ended.collect())
    }

    #[test]
    fn few_are_read_at_once_and_more_where_they_are_small() {
        let mut segments = Segments::of(Revision::new(1), Revision::new(400), 10);
        assert_eq!(numbers(&segments.begin()), (vec![1], vec![]));
        assert_eq!((segments.want_progress(), segments.want_progress()), (vec![], vec![]), "not confirmed");
        let (passed, requests) = segments.take(created(1));
        assert_eq!((passed, numbers(&requests)), (vec![created(1)], (vec![2, 3, 4], vec![])));
        assert_eq!(segments.take(created(2)), (vec![], vec![]));
        // Not in its turn: it waits, and is not read on.
        let (passed, requests) = segments.take(batch(3, 21..31));
        assert_eq!((passed.len(), numbers(&requests)), (0, (vec![5, 6, 7, 8], vec![3])));
        assert_eq!(segments.take(batch(3, 31..41)), (vec![], vec![]), "sent before its end");
        let (passed, requests) = segments.take(batch(1, 1..12));
        assert_eq!(passed[0].events.len(), 10, "the next one brings the rest");
        assert_eq!(numbers(&requests), ((9..=17).collect(), vec![1]));
        let report = Response { watch: STREAM, revision: Revision::new(400), ..Response::default() };
        assert_eq!(segments.take(report), (vec![], vec![]), "not of those that have no watch yet");
        // Large ones are read one after the other.
        let mut large = batch(2, 11..21);
        large.events[0].value = Some(vec![0; OPEN_BYTES].into());
        let (passed, requests) = segments.take(large);
        assert_eq!((passed.len(), numbers(&requests)), (2, (vec![], vec![2])));
        for (id, from) in (4..17).zip((31..).step_by(10)) {
            let (passed, requests) = segments.take(batch(id, from..from + 10));
            let few = if id < 7 { 0..=0 } else { 0..=OPEN_MAX };
            assert!(passed.len() == 1 && few.contains(&numbers(&requests).0.len()), "{id}: {requests:?}");
        }
    }

    #[test]
    fn what_ends_the_stream_is_told_at_once() {
        let ended = |response: Response| {
            let mut segments = Segments::of(Revision::new(1), Revision::new(40), 10);
            segments.begin();
            segments.take(created(1));
            segments.take(batch(2, 11..21));
            segments.take(Response { canceled: true, ..response }).0.len()
        };
        let of = |number| Response { compacted: Revision::new(30), ..batch(number, 0..0) };
        let stream = Response { watch: STREAM, ..of(1) };
        assert_eq!([ended(of(1)), ended(of(3)), ended(stream)], [1; 3]);
        assert_eq!(ended(of(2)), 0, "its end was asked for");
        let mut segments = Segments::of(Revision::new(1), Revision::new(40), 10);
        segments.begin();
        let refused = Response { created: true, canceled: true, ..Response::default() };
        assert_eq!(segments.take(refused.clone()), (vec![refused], vec![]), "whatever its id");
    }

    #[test]
    fn one_watch_is_passed_on_as_it_is() {
        let mut segments = Segments::one(Revision::new(7));
        assert_eq!(segments.begin(), [Request::Watch { id: None, from: Revision::new(7) }]);
        assert_eq!(segments.want_progress(), [], "its events may wait for its confirmation");
        assert_eq!(told(&mut segments, created(0)), (vec![created(0)], vec![]));
        assert_eq!(segments.want_progress(), [Request::Progress]);
        assert_eq!(told(&mut segments, batch(0, 3..9)), (vec![batch(0, 3..9)], vec![]));
    }
}
