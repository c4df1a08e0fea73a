//! How connections to the server speak.

use super::parse::within;
use super::{BadOption, Load};
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Clone, Debug)]
pub(crate) struct Protocol {
    /// Open watches and lists over HTTP/2: by prior knowledge, with TLS by ALPN; all other calls stay HTTP/1.1
    #[arg(long)]
    pub(crate) http2: bool,
    /// Watches that share a connection of HTTP/2
    #[arg(long = "streams-per-connection", value_name = "STREAMS", default_value = "100", value_parser = within(1, 100_000))]
    pub(crate) streams: u32,
    /// Speak TLS, as with a server that is given as https://
    #[arg(long)]
    pub(crate) tls: bool,
    /// Trust the certificates in this file (PEM): authorities, or the server's own if it is none
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

impl Load {
    pub(crate) fn tls(&self) -> bool {
        self.protocol.tls || self.server.tls
    }

    /// Watches of one connection; `None`: HTTP/1.1, which carries one.
    pub(crate) fn streams(&self) -> Option<u32> {
        self.protocol.http2.then_some(self.protocol.streams)
    }

    /// Connections of so many watches. Each receiving thread has its own.
    pub(crate) fn connections(&self, watches: u32) -> u32 {
        let Some(streams) = self.streams() else { return watches };
        let lanes = self.processes.saturating_mul(self.threads);
        watches.div_ceil(streams).saturating_add(lanes - 1).min(watches)
    }

    /// In words: `HTTP/1.1`, or `HTTP/2 with 100 streams, TLS`.
    pub(crate) fn protocol_name(&self) -> String {
        let http = self.streams().map(|streams| format!("HTTP/2 with {streams} streams"));
        http.unwrap_or_else(|| "HTTP/1.1".to_owned()) + if self.tls() { ", TLS" } else { "" }
    }

    /// The name of a subject, with the protocol unless it is the usual one.
    pub(crate) fn name_asked(&self, subject: &str) -> String {
        let protocol = self.protocol_name();
        if protocol == "HTTP/1.1" { subject.to_owned() } else { format!("{subject}, {protocol}") }
    }

    /// Certificates that are trusted, in PEM. `None`: there is no TLS.
    pub(crate) fn trust(&self) -> Result<Option<String>, BadOption> {
        if !self.tls() {
            return Ok(None);
        }
        let no_file = || BadOption::new("--tls", "", "say with --ca FILE which certificates to trust");
        let file = self.protocol.ca.as_ref().ok_or_else(no_file)?;
        let unread = |fault| BadOption::new("--ca", file.display(), format!("cannot be read: {fault}"));
        std::fs::read_to_string(file).map(Some).map_err(unread)
    }
}
