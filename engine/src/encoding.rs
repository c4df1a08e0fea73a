//! How objects are shown to a watcher besides plain JSON. The engine knows the names; the server the shapes.

use crate::key::ResourceId;

/// How the objects of one watch are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Encoding {
    /// The object as it is.
    #[default]
    Json,
    /// What an [`Encode`] makes of it, in the encoder's own numbering (below [`crate::limits::ENCODINGS_MAX`]).
    Other(u8),
}

/// Turns objects into another shape (a Table row, metadata alone). Implemented outside the engine.
///
/// It must be deterministic: a frame that was sent by half is made again, and must come out the same.
pub trait Encode: Send + Sync + std::fmt::Debug {
    /// Appends what stands as `object` in a watch event.
    ///
    /// `first` is true for the first frame of a watch, when [`Encode::first_differs`] says so.
    /// `as_of_seconds` is the wall time of the event since the Unix epoch, for ages.
    fn append(&self, out: &mut Vec<u8>, view: View<'_>);

    /// Whether the first frame of a watch looks different (a Table names its columns once).
    fn first_differs(&self, encoding: u8) -> bool;
}

/// One object to be shown.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The encoder's number.
    pub encoding: u8,
    /// Whether it is the first frame of the watch.
    pub first: bool,
    /// What kind of object it is.
    pub resource: ResourceId,
    /// The object as JSON.
    pub json: &'a [u8],
    /// Wall time since the Unix epoch, in seconds.
    pub as_of_seconds: u64,
}

/// The encoder of an engine that only speaks JSON.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonOnly;

impl Encode for JsonOnly {
    fn append(&self, out: &mut Vec<u8>, view: View<'_>) {
        out.extend_from_slice(view.json);
    }

    fn first_differs(&self, _: u8) -> bool {
        false
    }
}
