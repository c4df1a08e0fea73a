//! The encodings of the simulation: two shapes around the object, one of which differs in the first frame.

use std::io::Write as _;

use revcast_engine::encoding::{Encode, Encoding, View};

/// An encoding whose first frame differs, as a Table's does.
pub(crate) const ROWS: Encoding = Encoding::Other(0);
/// One whose frames are all alike; the last number that there is.
pub(crate) const WRAPPED: Encoding = Encoding::Other(7);

/// All encodings, for counting; the index is [`number`].
pub(crate) const ENCODINGS: [Encoding; 3] = [Encoding::Json, ROWS, WRAPPED];

pub(crate) fn number(encoding: Encoding) -> usize {
    ENCODINGS.iter().position(|known| *known == encoding).expect("one of three")
}

/// Whether the first frame in this encoding is another one.
pub(crate) fn first_differs(encoding: Encoding) -> bool {
    encoding == ROWS
}

/// Wraps every object in what there is to know of the frame, so that a wrong one shows.
#[derive(Debug)]
pub(crate) struct Wrapper;

impl Encode for Wrapper {
    fn append(&self, out: &mut Vec<u8>, view: View<'_>) {
        // Writing to a Vec cannot fail.
        let _ = write!(
            out,
            "{{\"as\":{},\"first\":{},\"row\":{},\"at\":{},\"object\":",
            view.encoding,
            view.first,
            view.resource.row(),
            view.as_of_seconds
        );
        out.extend_from_slice(view.json);
        out.push(b'}');
    }

    fn first_differs(&self, encoding: u8) -> bool {
        encoding == 0
    }
}

/// What must stand as `object` in a watch event.
pub(crate) fn shown(encoding: Encoding, first: bool, kind: usize, at: u64, object: &[u8]) -> Vec<u8> {
    match encoding {
        Encoding::Json => object.to_vec(),
        Encoding::Other(number) => {
            let first = first && number == 0;
            let head = format!("{{\"as\":{number},\"first\":{first},\"row\":{kind},\"at\":{at},\"object\":");
            [head.as_bytes(), object, b"}"].concat()
        }
    }
}
