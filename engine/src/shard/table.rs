//! The watchers and classes of one shard, by slot.
//!
//! It owns allocation of slots, the timers' entries and the counts that follow from them. It never sends.

use std::ops::Range;

use super::indexed_heap::IndexedHeap;
use super::interest::Interest;
use crate::hash::{HashSeed, Map};
use crate::revision::Position;
use crate::tick::Tick;
use crate::watcher::class::{Class, ClassKey, Members, Run};
use crate::watcher::trail::Trail;
use crate::watcher::{Phase, Watcher, WatcherId};

#[derive(Debug)]
struct Slot {
    generation: u32,
    watcher: Option<Watcher>,
}

/// Watchers by slot, classes by number, and when each watcher's timer is due.
#[derive(Debug)]
pub(crate) struct Table {
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    pub(crate) classes: Vec<Option<Class>>,
    free_classes: Vec<u32>,
    /// Classes that were created so far.
    classes_made: u64,
    class_by_key: Map<ClassKey, u32>,
    pub(crate) interest: Interest,
    timers: IndexedHeap<Tick>,
    /// The next event that rounds note in trails.
    pub(crate) next_noted: Position,
    pub(crate) watchers: u64,
    pub(crate) live: u64,
}

impl Table {
    /// `next_noted`: the first event that a round will sort.
    pub(crate) fn new(resources: usize, seed: HashSeed, next_noted: Position) -> Self {
        Self {
            slots: Vec::new(),
            free_slots: Vec::new(),
            classes: Vec::new(),
            free_classes: Vec::new(),
            classes_made: 0,
            class_by_key: Map::with_hasher(seed),
            interest: Interest::new(resources, seed),
            timers: IndexedHeap::new(),
            next_noted,
            watchers: 0,
            live: 0,
        }
    }

    pub(crate) fn class_count(&self) -> usize {
        self.class_by_key.len()
    }

    /// Bytes that watchers and classes take, by capacity.
    pub(crate) fn bytes(&self) -> usize {
        // A watcher is in its slot, among its class's members and in the heap of timers.
        let watcher =
            size_of::<Slot>() + size_of::<WatcherId>() + size_of::<(Tick, u32)>() + size_of::<u32>();
        let class = size_of::<Option<Class>>() + size_of::<(ClassKey, u32)>();
        watcher * self.slots.capacity() + class * self.classes.capacity()
    }

    /// Puts a watcher into a free slot.
    pub(crate) fn insert(&mut self, watcher: Watcher) -> WatcherId {
        let due = watcher.next_due();
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, watcher: None });
            u32::try_from(self.slots.len() - 1).expect("a shard has fewer than 2^32 watchers")
        });
        let entry = &mut self.slots[slot as usize];
        entry.watcher = Some(watcher);
        self.timers.put(slot, due);
        self.watchers += 1;
        WatcherId::new(slot, entry.generation)
    }

    pub(crate) fn get(&self, id: WatcherId) -> Option<&Watcher> {
        let slot = self.slots.get(id.slot())?;
        if slot.generation == id.generation() { slot.watcher.as_ref() } else { None }
    }

    pub(crate) fn get_mut(&mut self, id: WatcherId) -> Option<&mut Watcher> {
        let slot = self.slots.get_mut(id.slot())?;
        if slot.generation == id.generation() { slot.watcher.as_mut() } else { None }
    }

    /// The class of a watcher.
    pub(crate) fn class_of(&self, id: WatcherId) -> Option<&Class> {
        self.classes[self.get(id)?.class as usize].as_ref()
    }

    /// The watcher and its class.
    pub(crate) fn pair(&mut self, id: WatcherId) -> Option<(&mut Watcher, &mut Class)> {
        let slot = self.slots.get_mut(id.slot())?;
        if slot.generation != id.generation() {
            return None;
        }
        let watcher = slot.watcher.as_mut()?;
        let class = self.classes[watcher.class as usize].as_mut()?;
        Some((watcher, class))
    }

    /// Removes a watcher and frees its slot; its class is removed with the last of its watchers.
    pub(crate) fn remove(&mut self, id: WatcherId) -> Option<Watcher> {
        self.leave_live(id);
        let slot = self.slots.get_mut(id.slot())?;
        if slot.generation != id.generation() {
            return None;
        }
        let watcher = slot.watcher.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        let number = id.number();
        self.free_slots.push(number);
        self.timers.remove(number);
        self.watchers -= 1;
        self.release_class(watcher.class);
        Some(watcher)
    }

    /// The class with this key, created if there is none yet, with one more watcher.
    pub(crate) fn class_for(&mut self, key: ClassKey) -> u32 {
        if let Some(&number) = self.class_by_key.get(&key) {
            if let Some(class) = &mut self.classes[number as usize] {
                class.watchers += 1;
            }
            self.keep_trail(number);
            return number;
        }
        let number = self.free_classes.pop().unwrap_or_else(|| {
            self.classes.push(None);
            u32::try_from(self.classes.len() - 1).expect("no more classes than watchers")
        });
        self.interest.add(&key, number);
        self.class_by_key.insert(key.clone(), number);
        self.classes_made += 1;
        self.classes[number as usize] = Some(Class {
            serial: self.classes_made,
            key,
            watchers: 1,
            members: Members::default(),
            run: Run::default(),
            served: None,
            bookmark: None,
            trail: Trail::default(),
        });
        self.keep_trail(number);
        number
    }

    fn release_class(&mut self, number: u32) {
        let place = &mut self.classes[number as usize];
        let Some(class) = place else { return };
        class.watchers -= 1;
        if class.watchers == 0
            && let Some(class) = place.take()
        {
            self.interest.remove(&class.key, number);
            self.class_by_key.remove(&class.key);
            self.free_classes.push(number);
        }
        self.keep_trail(number);
    }

    /// Events are noted for a class while not all of its watchers are live.
    fn keep_trail(&mut self, number: u32) {
        let Some(class) = &mut self.classes[number as usize] else { return };
        if class.members.len() == class.watchers as usize {
            class.trail.end();
        } else {
            class.trail.begin(self.next_noted);
        }
    }

    /// Rounds continue at this event, and no event before it was noted.
    pub(crate) fn restart_trails(&mut self, next_noted: Position) {
        self.next_noted = next_noted;
        for number in 0..self.classes.len() {
            if let Some(class) = &mut self.classes[number] {
                class.trail.end();
            }
            self.keep_trail(u32::try_from(number).expect("no more classes than watchers"));
        }
    }

    /// Moves a watcher that is not live to the class of watchers whose first message was sent.
    pub(crate) fn open(&mut self, id: WatcherId) {
        let Some((_, class)) = self.pair(id) else { return };
        if class.key.opened {
            return;
        }
        let key = ClassKey { opened: true, ..class.key.clone() };
        let opened = self.class_for(key);
        let Some(watcher) = self.get_mut(id) else { return };
        let old = std::mem::replace(&mut watcher.class, opened);
        self.release_class(old);
    }

    /// The watcher was sent everything dispatched: it becomes live.
    pub(crate) fn join_live(&mut self, id: WatcherId) {
        let Some((watcher, class)) = self.pair(id) else { return };
        debug_assert!(watcher.rest.is_none(), "a live watcher owes nothing");
        watcher.member = class.members.join(id);
        watcher.phase = Phase::Live;
        let number = watcher.class;
        self.live += 1;
        self.keep_trail(number);
    }

    /// A live watcher has another index among the members of its class.
    pub(crate) fn set_member(&mut self, id: WatcherId, at: u32) {
        if let Some(watcher) = self.get_mut(id) {
            watcher.member = at;
        }
    }

    /// Removes a live watcher from its class's members. The caller sets its next phase.
    pub(crate) fn leave_live(&mut self, id: WatcherId) {
        let Some((watcher, class)) = self.pair(id) else { return };
        if !matches!(watcher.phase, Phase::Live) {
            return;
        }
        let moved = class.members.leave(watcher.member);
        let number = watcher.class;
        self.live -= 1;
        for (other, at) in moved.into_iter().flatten() {
            if let Some(other) = self.get_mut(other) {
                other.member = at;
            }
        }
        self.keep_trail(number);
    }

    /// Sets when the watcher's timer is due.
    pub(crate) fn schedule(&mut self, id: WatcherId, due: Tick) {
        if self.get(id).is_none() {
            return;
        }
        self.timers.put(id.number(), due);
    }

    /// When the first timer is due.
    pub(crate) fn next_due(&self) -> Option<Tick> {
        self.timers.first().map(|(due, _)| due)
    }

    /// The watcher whose timer is due first, if that is by `now`.
    pub(crate) fn first_due(&self, now: Tick) -> Option<WatcherId> {
        let (due, slot) = self.timers.first()?;
        (due <= now).then(|| self.id(slot))
    }

    /// The watcher in an occupied slot.
    pub(crate) fn id(&self, slot: u32) -> WatcherId {
        WatcherId::new(slot, self.slots[slot as usize].generation)
    }

    /// How many slots there are, occupied or not.
    pub(crate) const fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The watchers in some of them.
    pub(crate) fn within(&self, slots: Range<usize>) -> impl Iterator<Item = (WatcherId, &Watcher)> {
        let first = slots.start;
        self.slots[slots].iter().enumerate().filter_map(move |(at, slot)| {
            let number = u32::try_from(first + at).expect("slots are counted in u32");
            slot.watcher.as_ref().map(|watcher| (WatcherId::new(number, slot.generation), watcher))
        })
    }

    /// All current watchers.
    pub(crate) fn ids(&self) -> impl Iterator<Item = WatcherId> {
        self.slots.iter().enumerate().filter(|(_, slot)| slot.watcher.is_some()).map(|(number, slot)| {
            WatcherId::new(u32::try_from(number).expect("slots are counted in u32"), slot.generation)
        })
    }
}
