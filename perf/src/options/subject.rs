//! What can be compared, as it is written on the command line.

use super::Mode;
use crate::endpoint::Server;
use clap::ValueEnum;
use std::fmt;

/// Stands for the port in a command.
const PORT: &str = "{port}";

/// One of those that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A server that runs.
    Url(Server),
    /// A bare etcd: a server that runs, or one to be started.
    #[cfg(feature = "etcd")]
    Etcd(Box<Self>),
    /// The bare loop; `None`: in its cheapest mode.
    Floor(Option<Mode>),
    /// A server to be started, word by word, with its port left open.
    Command(Vec<String>),
}

impl Subject {
    /// The error is the mend.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(etcd) = text.strip_prefix("etcd:") {
            return Self::parse_etcd(etcd);
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

    #[cfg(feature = "etcd")]
    fn parse_etcd(text: &str) -> Result<Self, String> {
        match Self::parse(text)? {
            etcd @ (Self::Url(_) | Self::Command(_)) => Ok(Self::Etcd(Box::new(etcd))),
            Self::Etcd(_) | Self::Floor(_) => {
                Err("give etcd:http://HOST:PORT, or etcd: and a command line with {port} in it".to_owned())
            }
        }
    }

    #[cfg(not(feature = "etcd"))]
    fn parse_etcd(_text: &str) -> Result<Self, String> {
        Err("it speaks etcd's protocol: build with --features etcd".to_owned())
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(server) => write!(out, "http://{}", server.authority()),
            #[cfg(feature = "etcd")]
            Self::Etcd(etcd) => write!(out, "etcd:{etcd}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_as_written() {
        assert_eq!(Subject::parse("http://127.0.0.1:8001"), Ok(Subject::Url(Server::local(8001))));
        assert_eq!(Subject::parse("floor"), Ok(Subject::Floor(None)));
        assert_eq!(Subject::parse("floor:uring"), Ok(Subject::Floor(Some(Mode::Uring))));
        let command = Subject::parse("a/server serve --listen 127.0.0.1:{port}").expect("a command");
        assert_eq!(command.to_string(), "a/server serve --listen 127.0.0.1:{port}");
        let Subject::Command(words) = command else { panic!("a command") };
        assert_eq!(with_port(&words, 99), ["a/server", "serve", "--listen", "127.0.0.1:99"]);
        #[cfg(feature = "etcd")]
        {
            let etcd =
                Subject::parse("etcd:etcd --listen-client-urls http://127.0.0.1:{port}").expect("an etcd");
            assert!(matches!(&etcd, Subject::Etcd(inner) if matches!(**inner, Subject::Command(_))));
            assert_eq!(etcd.to_string(), "etcd:etcd --listen-client-urls http://127.0.0.1:{port}");
            assert!(Subject::parse("etcd:http://127.0.0.1:2379").is_ok());
        }
        let quoted = Subject::parse("'a b' \"c 'd\" {port}").expect("quotes are closed");
        assert_eq!(quoted, Subject::Command(["a b", "c 'd", "{port}"].map(str::to_owned).to_vec()));
        assert!(Subject::parse("etcd:floor").is_err());
        for bad in ["floor:fast", "floors", "server", "https://x", "http://x/y", "server '{port}"] {
            assert!(Subject::parse(bad).is_err(), "{bad}");
        }
    }
}
