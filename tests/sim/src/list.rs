//! Lists: the newest state, past ones, and lists by pages, compared with the state in the history.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use revcast_engine::Object;
use revcast_engine::codec::Value;
use revcast_engine::key_range::KeyRange;
use revcast_engine::revision::Revision;

use super::fault::{Checked, Promise, broken};
use super::object::{KINDS, NAMESPACES, State, hex, row};
use super::oracle::Oracle;
use super::pager::Pager;
use super::range::{Range, is_behind};
use super::rng::Rng;
use super::world::World;

/// Most lists under way.
const PAGERS_MAX: usize = 4;

impl World {
    /// What stands in a range of keys, now or at a past revision.
    fn list_range(&mut self, mut own: Rng) -> Checked {
        let oracle = &self.net.oracle;
        let range = Range::random(&mut own, &oracle.names);
        let keys = range.keys();
        let low = oracle.forgotten.min(oracle.visible);
        let revision = if own.percent(40) { oracle.visible } else { own.range_u64(low, oracle.visible) };
        let states = KINDS.iter().enumerate().flat_map(|(kind, _)| oracle.list(kind, revision));
        let all: Vec<_> = states.filter(|state| range.covers(&oracle.names[state.name])).collect();
        let after = own.percent(50).then(|| own.pick(&oracle.names).key.clone());
        let expected = all.iter().filter(|state| is_behind(&oracle.names[state.name].key, after.as_ref()));
        let expected: Vec<&[u8]> = expected.map(|state| state.text.as_slice()).collect();
        let bad = all.iter().find(|state| state.unreadable.is_some());
        let bad = bad.map(|state| &oracle.names[state.name].key);
        self.net.coverage.range_lists += 1;
        self.net.coverage.range_lists_unreadable += u64::from(bad.is_some());
        let snapshot = self.feed.snapshot();
        let same = |got: &mut dyn Iterator<Item = &Arc<Object>>, found: Option<&Arc<Object>>| {
            let got: Vec<_> = got.map(|object| served(object)).collect();
            got == expected && found.map(|object| object.key()) == bad
        };
        let newest = revision < oracle.visible
            || same(&mut snapshot.range(&keys, after.as_ref()), snapshot.unreadable_in_range(&keys).next());
        let past = match self.feed.past_of_range(KeyRange::everything(), Revision::new(revision)) {
            Err(expired) => {
                let why = format!("a past of {revision} is refused, {} is forgotten", expired.oldest);
                return broken(Promise::List, why);
            }
            Ok(past) => past,
        };
        let whole = same(&mut past.range(&keys, after.as_ref()), past.first_unreadable_in_range(&keys));
        let own_past =
            self.feed.past_of_range(keys.clone(), Revision::new(revision)).expect("it was given before");
        let part =
            same(&mut own_past.range(&keys, after.as_ref()), own_past.first_unreadable_in_range(&keys));
        if !newest || !whole || !part {
            let what = format!("{range:?} at {revision}, after {after:?}: {newest}, {whole}, {part}");
            return broken(Promise::List, what);
        }
        Ok(())
    }

    /// A list of any kind at any revision, or a page of one.
    pub(crate) fn list(&mut self) -> Checked {
        if let Some(own) = self.ranges.as_mut().map(Rng::fork) {
            self.list_range(own)?;
        }
        if self.rng.percent(40) {
            return self.page();
        }
        let kind = self.rng.below(self.plan.kinds);
        if self.rng.percent(30) {
            return self.check_newest(kind);
        }
        let oracle = &self.net.oracle;
        let low = if self.rng.percent(30) { oracle.forgotten.saturating_sub(8) } else { oracle.forgotten };
        let revision = self.rng.range_u64(low.min(oracle.visible), oracle.visible);
        let past = self.feed.past(row(kind), Revision::new(revision));
        let forgotten = revision < oracle.visible && revision < oracle.forgotten;
        let past = match past {
            Err(expired) if forgotten && expired.oldest.get() == oracle.forgotten => {
                self.net.coverage.lists_expired += 1;
                return Ok(());
            }
            Ok(past) if !forgotten => past,
            other => {
                return broken(
                    Promise::List,
                    format!("at {revision}, {} is forgotten: {:?}", oracle.forgotten, other.map(|_| ())),
                );
            }
        };
        self.net.coverage.lists_past += 1;
        let namespace = (KINDS[kind].namespaced && self.rng.percent(50)).then(|| *self.rng.pick(&NAMESPACES));
        let all: Vec<_> = oracle
            .list(kind, revision)
            .filter(|state| namespace.is_none_or(|it| oracle.names[state.name].namespace == Some(it)))
            .collect();
        let from = if all.is_empty() || self.rng.percent(60) { 0 } else { self.rng.below(all.len()) };
        let after = from.checked_sub(1).map(|last| oracle.names[all[last].name].key.path());
        let got = past.list(namespace, after).map(|object| served(object));
        if !got.eq(all[from..].iter().map(|state| state.text.as_slice())) {
            return broken(
                Promise::List,
                format!("kind {kind} at {revision}, namespace {namespace:?}, after {after:?}"),
            );
        }
        let name = self.rng.percent(30).then(|| &*self.rng.pick(&oracle.names).name);
        let bad = past.first_unreadable(namespace, name).map(|object| object.key().path());
        let expected = all.iter().find(|state| state.unreadable.is_some() && of(oracle, state, None, name));
        let expected = expected.map(|state| oracle.names[state.name].key.path());
        self.net.coverage.lists_unreadable += u64::from(expected.is_some());
        if bad != expected {
            return broken(
                Promise::Unreadable,
                format!(
                    "kind {kind} at {revision}, {namespace:?}, {name:?}: {expected:?} is unreadable, not {bad:?}"
                ),
            );
        }
        Ok(())
    }

    /// Begins a list by pages, or reads the next page of one: together its pages are the state of one revision, or the
    /// token is expired because the window does not reach back any more.
    fn page(&mut self) -> Checked {
        if self.pagers.is_empty() || self.pagers.len() < PAGERS_MAX && self.rng.percent(30) {
            let kind = self.rng.below(self.plan.kinds);
            let namespace =
                (KINDS[kind].namespaced && self.rng.percent(50)).then(|| *self.rng.pick(&NAMESPACES));
            let oracle = &self.net.oracle;
            let of_it = |state: &&Rc<State>| {
                namespace.is_none_or(|it| oracle.names[state.name].namespace == Some(it))
            };
            let all: Vec<_> = oracle.list(kind, oracle.visible).filter(of_it).cloned().collect();
            let revision = oracle.visible;
            let pager = Pager { kind, namespace, revision, after: None, rest: all.into_iter(), pages: 0 };
            self.pagers.push(pager);
        }
        let at = self.rng.below(self.pagers.len());
        let oracle = &self.net.oracle;
        let pager = &mut self.pagers[at];
        let forgotten = pager.revision < oracle.visible && pager.revision < oracle.forgotten;
        let past = match self.feed.past(row(pager.kind), Revision::new(pager.revision)) {
            Err(_) if forgotten => {
                self.net.coverage.pages_expired += 1;
                self.pagers.swap_remove(at);
                return Ok(());
            }
            Ok(past) if !forgotten => past,
            other => {
                let what = format!("page {} of {pager:?}: {:?}", pager.pages, other.map(|_| ()));
                return broken(Promise::List, what);
            }
        };
        let limit = self.rng.range(1, 5);
        let after = pager.after.clone();
        let mut page = past.list(pager.namespace, after.as_deref());
        for object in page.by_ref().take(limit) {
            if pager.rest.next().is_none_or(|state| state.text[..] != *served(object)) {
                let what = format!("page {} of {pager:?} shows {:?}", pager.pages, object.key());
                return broken(Promise::List, what);
            }
            pager.after = Some(object.key().shared_path());
        }
        pager.pages += 1;
        let more = page.next().is_some();
        if more == (pager.rest.len() == 0) {
            return broken(
                Promise::List,
                format!("page {} of {pager:?} ends too early or late", pager.pages),
            );
        }
        if !more {
            self.net.coverage.lists_paged += u64::from(pager.pages > 1 && pager.revision < oracle.visible);
            drop(page);
            self.pagers.swap_remove(at);
        }
        Ok(())
    }

    /// The newest state of one kind.
    pub(crate) fn check_newest(&mut self, kind: usize) -> Checked {
        self.net.coverage.lists_newest += 1;
        let oracle = &self.net.oracle;
        let snapshot = self.feed.snapshot();
        if snapshot.revision().get() != oracle.visible {
            return broken(
                Promise::List,
                format!("a snapshot of {}, not {}", snapshot.revision(), oracle.visible),
            );
        }
        let got = snapshot.list(row(kind), None, None).map(|object| served(object));
        if !got.eq(oracle.list(kind, oracle.visible).map(|state| state.text.as_slice())) {
            return broken(Promise::List, format!("the newest state of kind {kind} at {}", oracle.visible));
        }
        let unreadable: Vec<_> =
            oracle.list(kind, oracle.visible).filter(|state| state.unreadable.is_some()).collect();
        let namespace = self.rng.percent(50).then(|| *self.rng.pick(&NAMESPACES));
        let name = self.rng.percent(30).then(|| &*self.rng.pick(&oracle.names).name);
        let expected = unreadable.iter().find(|state| of(oracle, state, namespace, name));
        let expected = expected.map(|state| oracle.names[state.name].key.path());
        let got = snapshot.first_unreadable(row(kind), namespace, name).map(|object| object.key().path());
        let total = KINDS.iter().enumerate().map(|(kind, _)| self.feed.unreadable(row(kind))).sum::<usize>();
        if got != expected
            || self.feed.unreadable(row(kind)) != unreadable.len()
            || self.feed.unreadable_total() != total
        {
            return broken(
                Promise::Unreadable,
                format!(
                    "kind {kind}, {namespace:?}, {name:?}: {expected:?} of {}, not {got:?}",
                    unreadable.len()
                ),
            );
        }
        self.net.coverage.lists_unreadable += u64::from(expected.is_some());
        Ok(())
    }
}

/// What is served of an object: of one that is unreadable, the Status.
fn served(object: &Object) -> Cow<'_, [u8]> {
    match (object.unreadable(), object.value()) {
        (Some(why), _) => why.status().into(),
        (None, Value::Opaque(bytes)) => hex(bytes).into(),
        (None, value) => value.json().expect("it is a Kubernetes object"),
    }
}

/// Whether a state is of one namespace and one name, where given.
fn of(oracle: &Oracle, state: &State, namespace: Option<&str>, name: Option<&str>) -> bool {
    let known = &oracle.names[state.name];
    namespace.is_none_or(|it| known.namespace == Some(it)) && name.is_none_or(|it| known.name == it)
}
