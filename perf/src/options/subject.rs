//! What can be compared, as it is written on the command line.

use super::{Mode, value_name};
use crate::endpoint::Server;
use clap::ValueEnum;
use std::fmt;

const PORT: &str = "{port}";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Url(Server),
    /// A bare etcd: a server that runs, or one to be started.
    #[cfg(feature = "etcd")]
    Etcd(Box<Self>),
    /// A server whose watches ask for protobuf.
    Protobuf(Box<Self>),
    /// The bare loop; `None`: in its cheapest mode.
    Floor(Option<Mode>),
    /// A server to be started, word by word, with its port left open.
    Command(Vec<String>),
}

impl Subject {
    /// The error is the mend.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(etcd) = text.strip_prefix("etcd:") {
            #[cfg(feature = "etcd")]
            return Self::parse(etcd)?.server("etcd").map(Self::Etcd);
            #[cfg(not(feature = "etcd"))]
            return Err(format!("{etcd} speaks etcd's protocol: build with --features etcd"));
        }
        if let Some(server) = text.strip_prefix("protobuf:") {
            return Self::parse(server)?.server("protobuf").map(Self::Protobuf);
        }
        if text.contains(PORT) {
            return shell_words::split(text)
                .map(Self::Command)
                .map_err(|_| "a quote is not closed".to_owned());
        }
        if let Some(mode) = text.strip_prefix("floor") {
            if mode.is_empty() {
                return Ok(Self::Floor(None));
            }
            let mode = mode.strip_prefix(':').and_then(|mode| Mode::from_str(mode, false).ok());
            let mend = || "give floor, floor:send, floor:writev or floor:uring".to_owned();
            return mode.map(|mode| Self::Floor(Some(mode))).ok_or_else(mend);
        }
        if text.contains("://") {
            return Server::parse(text).map(Self::Url).map_err(str::to_owned);
        }
        Err("give http://HOST:PORT, floor, etcd:http://HOST:PORT, or a command line with {port} in it"
            .to_owned())
    }

    /// Itself, if it is a server that what stands before it may stand before.
    fn server(self, before: &str) -> Result<Box<Self>, String> {
        let mend =
            || format!("give {before}:http://HOST:PORT, or {before}: and a command line with {PORT} in it");
        matches!(self, Self::Url(_) | Self::Command(_)).then(|| Box::new(self)).ok_or_else(mend)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(server) => write!(out, "{server}"),
            #[cfg(feature = "etcd")]
            Self::Etcd(etcd) => write!(out, "etcd:{etcd}"),
            Self::Protobuf(server) => write!(out, "protobuf:{server}"),
            Self::Floor(None) => out.write_str("floor"),
            Self::Floor(Some(mode)) => write!(out, "floor:{}", value_name(mode)),
            Self::Command(words) => out.write_str(&words.join(" ")),
        }
    }
}

pub(crate) fn with_port(words: &[String], port: u16) -> Vec<String> {
    words.iter().map(|word| word.replace(PORT, &port.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_as_written() {
        let words = |words: &[&str]| Subject::Command(words.iter().map(|word| (*word).to_owned()).collect());
        for (text, subject) in [
            ("http://127.0.0.1:8001", Subject::Url(Server::local(8001))),
            ("floor", Subject::Floor(None)),
            ("floor:uring", Subject::Floor(Some(Mode::Uring))),
            ("a/server --listen 127.0.0.1:{port}", words(&["a/server", "--listen", "127.0.0.1:{port}"])),
            ("protobuf:http://127.0.0.1:1", Subject::Protobuf(Box::new(Subject::Url(Server::local(1))))),
            #[cfg(feature = "etcd")]
            ("etcd:etcd --at {port}", Subject::Etcd(Box::new(words(&["etcd", "--at", "{port}"])))),
            #[cfg(feature = "etcd")]
            ("etcd:http://127.0.0.1:1", Subject::Etcd(Box::new(Subject::Url(Server::local(1))))),
        ] {
            assert_eq!(subject.to_string(), text);
            assert_eq!(Subject::parse(text), Ok(subject));
        }
        assert_eq!(Subject::parse("'a b' \"c 'd\" {port}"), Ok(words(&["a b", "c 'd", "{port}"])));
        assert_eq!(with_port(&["--listen".to_owned(), "h:{port}".to_owned()], 99), ["--listen", "h:99"]);
        for bad in
            ["floor:fast", "floors", "server", "http://x/y", "server '{port}", "etcd:floor", "protobuf:floor"]
        {
            assert!(Subject::parse(bad).is_err(), "{bad}");
        }
    }
}
