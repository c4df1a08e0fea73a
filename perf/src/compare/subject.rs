//! What can be compared, as it is written on the command line.

use crate::floor::Mode;
use crate::target::Server;
use std::fmt;

/// Stands for the port in a command.
const PORT: &str = "{port}";

/// One of those that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A server that runs.
    Url(Server),
    /// The bare loop; `None`: in its cheapest mode.
    Floor(Option<Mode>),
    /// A server to be started, word by word, with its port left open.
    Command(Vec<String>),
}

impl Subject {
    /// The error is the mend.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.contains(PORT) {
            return Ok(Self::Command(words(text)?));
        }
        if let Some(mode) = text.strip_prefix("floor") {
            if mode.is_empty() {
                return Ok(Self::Floor(None));
            }
            let mode = mode.strip_prefix(':').and_then(Mode::parse);
            return mode
                .map(|mode| Self::Floor(Some(mode)))
                .ok_or_else(|| "give floor, floor:send, floor:writev or floor:uring".to_owned());
        }
        if text.contains("://") {
            return Server::parse(text).map(Self::Url).map_err(str::to_owned);
        }
        Err("give http://HOST:PORT, floor, or a command line with {port} in it".to_owned())
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(server) => write!(out, "http://{}", server.authority()),
            Self::Floor(None) => out.write_str("floor"),
            Self::Floor(Some(mode)) => write!(out, "floor:{mode}"),
            Self::Command(words) => out.write_str(&words.join(" ")),
        }
    }
}

/// The words of a command with its port filled in.
pub(crate) fn with_port(words: &[String], port: u16) -> Vec<String> {
    words.iter().map(|word| word.replace(PORT, &port.to_string())).collect()
}

/// Cuts at blanks; what stands in quotes, single or double, stays together.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in text.chars() {
        match (letter, quote) {
            (letter, Some(open)) if letter == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (letter, None) if letter.is_whitespace() => found.extend(word.take()),
            (letter, _) => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".to_owned());
    }
    found.extend(word);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_as_written() {
        let server = Server { host: "127.0.0.1".to_owned(), port: 8001 };
        assert_eq!(Subject::parse("http://127.0.0.1:8001"), Ok(Subject::Url(server)));
        assert_eq!(Subject::parse("floor"), Ok(Subject::Floor(None)));
        assert_eq!(Subject::parse("floor:uring"), Ok(Subject::Floor(Some(Mode::Uring))));
        let command = Subject::parse("a/server serve --listen 127.0.0.1:{port}").expect("a command");
        assert_eq!(command.to_string(), "a/server serve --listen 127.0.0.1:{port}");
        let Subject::Command(words) = command else { panic!("a command") };
        assert_eq!(with_port(&words, 99), ["a/server", "serve", "--listen", "127.0.0.1:99"]);
        for bad in ["floor:fast", "floors", "server", "https://x", "http://x/y", "server '{port}"] {
            assert!(Subject::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn quotes_keep_words_together() {
        assert_eq!(words("a  'b c'\t\"d 'e\"f ''").expect("closed"), ["a", "b c", "d 'ef", ""]);
        assert_eq!(words("  ").expect("closed"), [""; 0]);
    }
}
