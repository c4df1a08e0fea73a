//! How much of a client's value responses and log lines repeat: its beginning.
//!
//! Owns that bound. Kubernetes repeats values completely, several times; a name of 3 MiB would make a response of more
//! than 100 MB, on a core that others share. The bound of a whole `Status` is in the module `status`.

use std::io;

use serde::Serialize;

use super::go_quote;

/// A value in a message without quotes; with quotes, [`go_quote`] cuts it in the same way.
pub(crate) use revcast_engine::shown::shown;
pub(super) use revcast_engine::shown::{MORE, VALUE_CHARS_MAX};

/// Values of a list that a response repeats.
const LIST_MAX: usize = 16;

/// The first values, in quotes, separated by commas.
pub(crate) fn shown_list<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
    let mut values = values.into_iter();
    let mut list: Vec<String> = values.by_ref().take(LIST_MAX).map(go_quote).collect();
    if values.next().is_some() {
        list.push(MORE.to_owned());
    }
    list.join(", ")
}

/// The beginning of a value as JSON; not more is serialized than is shown.
pub(crate) fn shown_json<T: Serialize + ?Sized>(value: &T) -> String {
    let mut room = Room(Vec::new());
    // It fails at the end of the room, as intended: what was written until then is shown.
    let _ = serde_json::to_writer(&mut room, value);
    let text = String::from_utf8_lossy(&room.0);
    shown(&text).into_owned()
}

/// Takes what is shown, and a little more, so that it is known whether there is more.
struct Room(Vec<u8>);

impl io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = (VALUE_CHARS_MAX + 1) * 4 - self.0.len();
        let taken = bytes.len().min(left);
        self.0.extend_from_slice(&bytes[..taken]);
        if taken == 0 && !bytes.is_empty() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_list_the_first_are_shown() {
        assert_eq!(shown_list([]), "");
        assert_eq!(shown_list(["a", "\""]), r##""a", "\"""##);
        let many = shown_list(["a"; LIST_MAX + 1]);
        assert_eq!(many, format!("{}...", "\"a\", ".repeat(LIST_MAX)));
    }

    #[test]
    fn json_is_written_as_far_as_it_is_shown() {
        assert_eq!(shown_json(&json!({"a": [1, "é"]})), r#"{"a":[1,"é"]}"#);
        let zeros = vec![0; 100_000];
        for long in [json!("😀".repeat(1_000)), json!({"k": "<".repeat(3 << 20)}), json!(zeros)] {
            let text = shown_json(&long);
            assert_eq!(text.chars().count(), VALUE_CHARS_MAX + 3);
            assert!(long.to_string().starts_with(text.strip_suffix("...").expect("more")), "{text}");
        }
    }
}
