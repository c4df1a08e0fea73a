//! How watches begin: where an earlier one of the client ended, or anywhere at all.

use std::time::Duration;

use revcast_engine::encoding::Encoding;
use revcast_engine::revision::Revision;
use revcast_engine::{Start, Subscription};

use super::client::Resume;
use super::fault::Checked;
use super::pipe::Pipe;
use super::stream::Stream;
use super::watch::{Copy, GivenUp, Watch};
use super::world::World;

impl World {
    pub(crate) fn subscribe_some(&mut self) -> Checked {
        let many = if self.clients.len() > 60 { 6 } else { 1 };
        for _ in 0..many {
            let client = self.rng.below(self.clients.len());
            if self.clients[client].current.is_none() && self.clients[client].watches < 40 {
                self.subscribe(client)?;
            }
        }
        Ok(())
    }

    /// A client begins a watch, where its last one ended if it can.
    fn subscribe(&mut self, client: usize) -> Checked {
        let visible = self.net.oracle.visible;
        let resume = std::mem::replace(&mut self.clients[client].resume, Resume::Anew);
        let informer = self.clients[client].informer;
        self.net.coverage.resumes += u64::from(matches!(resume, Resume::Behind(..)));
        let (start, copy) = match resume {
            Resume::Behind(revision, copy) => (Start::After(Revision::new(revision)), Some(copy)),
            Resume::Anew if informer => {
                self.net.coverage.relists += u64::from(self.clients[client].watches > 0);
                if self.rng.percent(40) {
                    self.check_newest(self.clients[client].wish.kind)?;
                    let wish = &self.clients[client].wish;
                    let oracle = &self.net.oracle;
                    let listed = oracle.covered(wish, visible).filter(|it| wish.matches(&oracle.names, it));
                    let copy = listed.map(|state| (state.name, state.revision)).collect();
                    (Start::After(Revision::new(visible)), Some(copy))
                } else {
                    (Start::State { end_mark: self.rng.percent(60) }, Some(Copy::new()))
                }
            }
            Resume::Anew => (self.somewhere(), None),
        };
        self.begin(client, start, copy);
        Ok(())
    }

    /// Any start, sensible or not.
    fn somewhere(&mut self) -> Start {
        let oracle = &self.net.oracle;
        // At a revision where something was unreadable, which may be readable since.
        let window = &oracle.events[oracle.oldest.min(oracle.published)..oracle.published];
        let bad: Vec<u64> = window.iter().filter(|it| it.unreadable()).map(|it| it.revision).collect();
        if !bad.is_empty() && self.rng.percent(40) {
            return Start::After(Revision::new(*self.rng.pick(&bad)));
        }
        match self.rng.below(8) {
            0 => Start::State { end_mark: true },
            1 => Start::State { end_mark: false },
            2 => Start::Latest,
            3 => Start::After(Revision::new(oracle.visible + self.rng.range_u64(1, 12))),
            4 => Start::After(Revision::new(self.rng.range_u64(0, oracle.visible))),
            5 => Start::After(Revision::new(oracle.forgotten.saturating_sub(self.rng.range_u64(0, 2)))),
            6 => Start::After(Revision::new(oracle.visible)),
            _ => {
                let low = oracle.forgotten.min(oracle.visible);
                Start::After(Revision::new(self.rng.range_u64(low, oracle.visible)))
            }
        }
    }

    fn begin(&mut self, client: usize, start: Start, copy: Option<Copy>) {
        let now = self.net.now;
        let at = self.seconds();
        let shard = self.rng.below(self.shards.len());
        let wish = self.clients[client].wish.clone();
        let bookmarks = self.rng.percent(60);
        let life = match self.rng.below(12) {
            0 => self.rng.range_u64(0, 5),
            1..=3 => self.rng.range_u64(1, 3_000),
            _ => self.rng.range_u64(2_000, 100_000),
        };
        let timeout = Duration::from_millis(life);
        let (mut wire, whole) = self.plan.wire();
        if wish.encoding == Encoding::Protobuf {
            wire = wire.of_protobuf();
        }
        let subscription = Subscription {
            scope: wish.scope(),
            selector: wish.selector(self.feed.schema()),
            encoding: wish.encoding,
            framing: wire.framing(),
            start,
            bookmarks,
            timeout,
            jitter: u8::try_from(self.rng.below(256)).unwrap_or(u8::MAX),
            as_of_seconds: at,
        };
        self.net.coverage.paused_starts += u64::from(self.shards[shard].paused);
        let id = self.shards[shard].shard.subscribe(subscription, now);
        let nature = self.plan.nature(&mut self.rng, now);
        let number = self.net.watches.len();
        self.net.note(|_| {
            let copy = copy.is_some();
            format!(
                "shard {shard} watch {number}: client {client}, {start:?}, copy {copy}, {wire:?}, whole {whole}, {wish:?}"
            )
        });
        let oracle = &self.net.oracle;
        let watch = Watch {
            bookmarks,
            deadline: now.plus(timeout),
            at,
            copy,
            quiet: self.plan.heartbeat_interval,
            heard: now,
            began_at: now,
            given_up: self.shards[shard].abandoned.then_some(GivenUp::BetweenMessages),
            stream: Stream::new(wire, wish.encoding == Encoding::Protobuf),
            ..Watch::new(oracle, (shard, id, client), wish, start, Pipe::new(nature, whole, now))
        };
        watch.count_start(oracle, &mut self.net.coverage);
        self.net.coverage.abandoned_starts += u64::from(watch.given_up.is_some());
        self.clients[client].current = Some(number);
        self.clients[client].watches += 1;
        self.drained.push(None);
        self.net.add(watch);
    }
}
