//! What the demo's writer, its watchers and its report share. All of them run on one thread.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::cluster::{APPS, Change, NAMESPACES, NODES};
use super::ledger::{Arrival, Cursor, Ledger, Write};
use super::tally::{Counts, Latencies};
use super::view::{Resource, Verb, View};

/// Watchers, what they are owed, and counts.
#[derive(Debug)]
pub(super) struct World {
    pub(super) address: SocketAddr,
    views: Vec<View>,
    /// One a view.
    ledgers: Vec<RefCell<Ledger>>,
    /// One a watcher.
    watchers: Vec<Watcher>,
    counts: RefCell<Counts>,
    /// Since the last report.
    latencies: RefCell<Latencies>,
    last_fault: RefCell<Option<String>>,
}

#[derive(Debug)]
struct Watcher {
    view: usize,
    /// `None`: it has not listed yet.
    place: Cell<Option<Cursor>>,
    is_watching: Cell<bool>,
}

impl World {
    /// A world of so many watchers. Of ten, four watch all pods, as controllers and schedulers do; the others pods of a namespace, of
    /// a node or of an app, deployments, ConfigMaps, nodes.
    pub(super) fn new(address: SocketAddr, watchers: usize) -> Self {
        let pods = View::all(Resource::Pods);
        let views_of = |number: usize| {
            let round = number / 10;
            let namespace = Some(NAMESPACES[round % NAMESPACES.len()]);
            match number % 10 {
                0..4 => pods,
                4 => View { namespace, ..pods },
                5 => View { node: Some(round % NODES), ..pods },
                6 => View { app: Some(APPS[round % APPS.len()].1), ..pods },
                7 => View::all(Resource::Deployments),
                8 => View { namespace, ..View::all(Resource::ConfigMaps) },
                _ => View::all(Resource::Nodes),
            }
        };
        let mut views: Vec<View> = Vec::new();
        let watchers = (0..watchers).map(|number| {
            let view = views_of(number);
            let index = views.iter().position(|known| *known == view).unwrap_or_else(|| {
                views.push(view);
                views.len() - 1
            });
            Watcher { view: index, place: Cell::new(None), is_watching: Cell::new(false) }
        });
        let watchers = watchers.collect();
        let ledgers = views.iter().map(|_| RefCell::default()).collect();
        Self {
            address,
            views,
            ledgers,
            watchers,
            counts: RefCell::default(),
            latencies: RefCell::default(),
            last_fault: RefCell::default(),
        }
    }

    pub(super) fn view(&self, number: usize) -> View {
        self.views[self.watchers[number].view]
    }

    /// Where a watcher that has listed is.
    pub(super) fn place(&self, number: usize) -> Cursor {
        self.watchers[number].place.get().unwrap_or(Cursor::after(0))
    }

    pub(super) fn set_place(&self, number: usize, place: Cursor) {
        self.watchers[number].place.set(Some(place));
    }

    pub(super) fn passed(&self, number: usize, revision: u64) {
        let mut place = self.place(number);
        place.passed(revision);
        self.set_place(number, place);
    }

    pub(super) fn arrived(&self, number: usize, verb: Verb, key: &str, revision: u64) -> Arrival {
        let mut place = self.place(number);
        let arrival = self.ledger(number).borrow().arrived(&mut place, verb, key, revision);
        self.set_place(number, place);
        arrival
    }

    pub(super) fn listed_again(&self, number: usize, revision: u64) {
        let mut place = self.place(number);
        self.ledger(number).borrow().skip(&mut place, revision);
        self.set_place(number, place);
        self.count(|counts| counts.relisted += 1);
    }

    fn ledger(&self, number: usize) -> &RefCell<Ledger> {
        &self.ledgers[self.watchers[number].view]
    }

    /// Expects the events of a change in the views that they concern.
    pub(super) fn expect(&self, change: &Change, at: Instant) -> Vec<Rc<Write>> {
        let pairs = change.states.windows(2);
        let expected = pairs.map(|states| {
            let write = Rc::new(Write { key: change.key.clone(), at, revision: Cell::new(0) });
            for (view, ledger) in self.views.iter().zip(&self.ledgers) {
                if let Some(verb) = view.verb(change.resource, states[0], states[1]) {
                    ledger.borrow_mut().expect(verb, &write);
                }
            }
            write
        });
        expected.collect()
    }

    /// The change was refused, or changed nothing.
    pub(super) fn withdraw(&self, writes: &[Rc<Write>]) {
        for ledger in &self.ledgers {
            writes.iter().for_each(|write| ledger.borrow_mut().withdraw(write));
        }
    }

    pub(super) fn is_watching(&self, number: usize, is: bool) {
        self.watchers[number].is_watching.set(is);
    }

    /// Watches that are open.
    pub(super) fn watching(&self) -> usize {
        self.watchers.iter().filter(|watcher| watcher.is_watching.get()).count()
    }

    /// Watchers that there should be.
    pub(super) fn watchers(&self) -> usize {
        self.watchers.len()
    }

    /// Events that were not delivered yet, and forgets what all have.
    pub(super) fn owed(&self) -> u64 {
        for (view, ledger) in self.ledgers.iter().enumerate() {
            let its = self.watchers.iter().filter(|watcher| watcher.view == view);
            ledger.borrow_mut().forget(its.filter_map(|watcher| watcher.place.get()));
        }
        (0..self.watchers.len()).map(|number| self.ledger(number).borrow().owed(self.place(number))).sum()
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.counts.borrow_mut());
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts.borrow().clone()
    }

    pub(super) fn observe(&self, took: Duration) {
        self.latencies.borrow_mut().observe(took);
    }

    /// The latencies since the last call; `all` gets them too.
    pub(super) fn latencies(&self, all: &mut Latencies) -> Latencies {
        let mut since = std::mem::take(&mut *self.latencies.borrow_mut());
        let part = since.clone();
        all.take(&mut since);
        part
    }

    pub(super) fn fault(&self, why: String) {
        self.count(|counts| counts.faults += 1);
        *self.last_fault.borrow_mut() = Some(why);
    }

    pub(super) fn last_fault(&self) -> Option<String> {
        self.last_fault.borrow().clone()
    }
}
