//! What can be compared, as it is written on the command line.

use super::{Load, Mode, value_name};
use crate::endpoint::Server;
use crate::media::Encoding;
use clap::ValueEnum;
use std::fmt;

const PORT: &str = "{port}";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Url(Server),
    /// A bare etcd: a server that runs, or one to be started.
    #[cfg(feature = "etcd")]
    Etcd(Box<Self>),
    /// A server, or the floor, that is asked in another way.
    Asked(Vec<Way>, Box<Self>),
    /// The bare loop; `None`: in its cheapest mode.
    Floor(Option<Mode>),
    /// A server to be started, word by word, with its port left open.
    Command(Vec<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    Protobuf,
    Http2,
    Tls,
}

impl Way {
    pub(crate) fn ask(self, load: &mut Load) {
        match self {
            Self::Protobuf => load.encoding = Encoding::Protobuf,
            Self::Http2 => load.protocol.http2 = true,
            Self::Tls => load.protocol.tls = true,
        }
    }
}

impl Subject {
    /// The error is the mend.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (mut ways, mut bare) = (Vec::new(), text);
        while let Some((before, rest)) = bare.split_once(':')
            && let Ok(way) = Way::from_str(before, false)
        {
            ways.push(way);
            bare = rest;
        }
        let subject = Self::parse_bare(bare)?;
        let has_floor = matches!(subject, Self::Floor(_)) && !ways.contains(&Way::Protobuf);
        match ways.as_slice() {
            [] => Ok(subject),
            _ if has_floor => Ok(Self::Asked(ways, Box::new(subject))),
            [_, ..] => Ok(Self::Asked(ways, subject.server(text.trim_end_matches(bare))?)),
        }
    }

    fn parse_bare(text: &str) -> Result<Self, String> {
        if let Some(etcd) = text.strip_prefix("etcd:") {
            #[cfg(feature = "etcd")]
            return Self::parse_bare(etcd)?.server("etcd:").map(Self::Etcd);
            #[cfg(not(feature = "etcd"))]
            return Err(format!("{etcd} speaks etcd's protocol: build with --features etcd"));
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
            let mend = || "give floor, floor:send, floor:writev, floor:uring or floor:pages".to_owned();
            return mode.map(|mode| Self::Floor(Some(mode))).ok_or_else(mend);
        }
        if text.contains("://") {
            return Server::parse(text).map(Self::Url).map_err(str::to_owned);
        }
        Err("give http://HOST:PORT, floor, etcd:http://HOST:PORT, or a command line with {port} in it"
            .to_owned())
    }

    /// Itself, if it is a server that `before` may stand before.
    fn server(self, before: &str) -> Result<Box<Self>, String> {
        let mend =
            || format!("give {before}http://HOST:PORT, or {before} and a command line with {PORT} in it");
        matches!(self, Self::Url(_) | Self::Command(_)).then(|| Box::new(self)).ok_or_else(mend)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(server) => write!(out, "{server}"),
            #[cfg(feature = "etcd")]
            Self::Etcd(etcd) => write!(out, "etcd:{etcd}"),
            Self::Asked(ways, subject) => {
                let before: String = ways.iter().map(|way| value_name(way) + ":").collect();
                write!(out, "{before}{subject}")
            }
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
        let asked = |ways: &[Way], subject| Subject::Asked(ways.to_vec(), Box::new(subject));
        let words = |words: &[&str]| Subject::Command(words.iter().map(|word| (*word).to_owned()).collect());
        for (text, subject) in [
            ("http://127.0.0.1:8001", Subject::Url(Server::local(8001))),
            ("floor", Subject::Floor(None)),
            ("floor:uring", Subject::Floor(Some(Mode::Uring))),
            ("a/server --listen 127.0.0.1:{port}", words(&["a/server", "--listen", "127.0.0.1:{port}"])),
            ("protobuf:http://127.0.0.1:1", asked(&[Way::Protobuf], Subject::Url(Server::local(1)))),
            ("http2:tls:floor", asked(&[Way::Http2, Way::Tls], Subject::Floor(None))),
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
        for bad in [
            "floor:fast",
            "floors",
            "server",
            "http://x/y",
            "server '{port}",
            "etcd:floor",
            "protobuf:floor",
            "protobuf:http2:floor",
            "tls:etcd:http://x",
        ] {
            assert!(Subject::parse(bad).is_err(), "{bad}");
        }
    }
}
