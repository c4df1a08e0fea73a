//! The lines of a watch stream, cut from body data as it arrives. A line that lies whole in the data is not copied.

use crate::http::Refusal;
use memchr::memchr;

/// A line above this ends the watch.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Gives each line that ends in `data` to `on_line`; `held` has the beginning of the first one, and is empty after it. Returns
/// what follows the last newline.
pub(crate) fn cut<'a>(held: &mut Vec<u8>, mut data: &'a [u8], mut on_line: impl FnMut(&[u8])) -> &'a [u8] {
    while let Some(end) = memchr(b'\n', data) {
        let line = &data[..end];
        data = &data[end + 1..];
        if held.is_empty() {
            on_line(line);
        } else {
            held.extend_from_slice(line);
            on_line(held);
            held.clear();
        }
    }
    data
}

/// Keeps more of a line that is not complete.
pub(crate) fn hold(held: &mut Vec<u8>, more: &[u8]) -> Result<(), Refusal> {
    if held.len() + more.len() > LINE_BYTES_MAX {
        return Err(Refusal::Broken("the server sent an event over 16 MiB".to_owned()));
    }
    held.extend_from_slice(more);
    Ok(())
}
