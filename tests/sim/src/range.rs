//! Ranges of keys that clients ask for, and the simulator's own reading of which keys these mean.

use revcast_engine::key::Key;
use revcast_engine::key_range::KeyRange;

use super::object::{KINDS, Name, row};
use super::rng::Rng;

/// A place in the order of keys: a kind, and a path.
type Place = (usize, String);

#[derive(Clone, Debug)]
pub(crate) enum Range {
    Key(Place),
    Prefix(Place),
    /// The first place is included, the second is not; `None`: to the last key.
    Between(Place, Option<Place>),
}

impl Range {
    pub(crate) fn random(rng: &mut Rng, names: &[Name]) -> Self {
        let mut place = || {
            let name = rng.pick(names);
            let path = name.key.path();
            // Paths are ASCII: each of their beginnings is a text.
            let len = if rng.percent(50) { path.len() } else { rng.below(path.len() + 1) };
            (name.kind, path[..len].to_owned())
        };
        let (one, other) = (place(), place());
        match rng.below(10) {
            0 | 1 => {
                let name = rng.pick(names);
                Self::Key((name.kind, name.key.path().to_owned()))
            }
            2..=4 => Self::Prefix(one),
            5 => Self::Prefix((one.0, String::new())),
            6 => Self::Between((0, String::new()), None),
            7 => Self::Between(one, None),
            // May be empty.
            8 => Self::Between(one, Some(other)),
            _ => Self::Between(one.clone().min(other.clone()), Some(one.max(other))),
        }
    }

    pub(crate) fn keys(&self) -> KeyRange {
        fn at(place: &Place) -> (revcast_engine::key::ResourceId, &str) {
            (row(place.0), &*place.1)
        }
        match self {
            Self::Key((kind, path)) => KeyRange::key(row(*kind), path),
            Self::Prefix((kind, prefix)) => KeyRange::prefix(row(*kind), prefix),
            Self::Between(from, to) => KeyRange::new(at(from), to.as_ref().map(at)),
        }
    }

    pub(crate) fn covers(&self, name: &Name) -> bool {
        let path = name.key.path();
        match self {
            Self::Key((kind, key)) => name.kind == *kind && path == key,
            Self::Prefix((kind, prefix)) => name.kind == *kind && path.starts_with(prefix),
            Self::Between(from, to) => {
                let at = (name.kind, path.to_owned());
                *from <= at && to.as_ref().is_none_or(|to| at < *to)
            }
        }
    }

    /// Whether there can be a key of a kind in it.
    pub(crate) fn reaches(&self, kind: usize) -> bool {
        match self {
            Self::Key(at) | Self::Prefix(at) => at.0 == kind,
            Self::Between(from, to) => {
                let low = if kind == from.0 { &*from.1 } else { "" };
                let ends = to.as_ref().is_some_and(|to| kind > to.0 || kind == to.0 && *to.1 <= *low);
                kind >= from.0 && !ends
            }
        }
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = usize> {
        (0..KINDS.len()).filter(|kind| self.reaches(*kind))
    }
}

/// Whether a key is behind another, if there is one.
pub(crate) fn is_behind(key: &Key, after: Option<&Key>) -> bool {
    after.is_none_or(|after| (key.resource(), key.path()) > (after.resource(), after.path()))
}
