//! One connection that carries watches, or lists: from the bytes of its socket to what each of them gets. It knows no socket. An
//! HTTP/1.1 connection carries one of them, an HTTP/2 connection one on each stream; either may be in TLS.

use crate::http::{Caller, Part, Request, Responses, excerpt};
use crate::{http2, tls};
use std::io::{self, Error, ErrorKind, Read, Write};

const WORDS_BYTES_MAX: usize = 16 * 1024;

/// What came for one watch.
#[derive(Debug)]
pub(crate) enum Brought<'a> {
    /// The head of its response, with status 200.
    Head {
        gzip: bool,
    },
    Data(&'a [u8]),
    /// Nothing more comes.
    End(End),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The body is complete.
    Whole,
    /// The server answered with another status than 200, and in these words.
    Refused(u16, String),
    /// The stream broke off, and why.
    Cut(String),
}

/// How connections are begun.
#[derive(Clone, Debug)]
pub(crate) struct Speech {
    pub(crate) caller: Caller,
    tls: Option<tls::Client>,
    /// `None`: HTTP/1.1. Else a stream's window before anything is read, in bytes.
    window: Option<u32>,
}

impl Speech {
    /// `window`: of an HTTP/2 stream whose watch never reads; those that read have the largest. `None`: HTTP/1.1.
    pub(crate) fn new(caller: &Caller, window: Option<u32>) -> Result<Self, String> {
        let tls = caller.tls(if window.is_some() { tls::HTTP2 } else { tls::HTTP1 })?;
        Ok(Self { caller: caller.clone(), tls, window })
    }
}

enum Codec {
    Http1 { responses: Responses, status: u16, held: Vec<u8> },
    Http2(Box<http2::Session>),
}

pub(crate) struct Wire {
    codec: Codec,
    tls: Option<Box<tls::Session>>,
    /// To be sent: plain.
    out: Vec<u8>,
}

impl Wire {
    pub(crate) fn new(speech: &Speech) -> io::Result<Self> {
        let mut out = Vec::new();
        let codec = match speech.window {
            None => Codec::Http1 { responses: Responses::default(), status: 0, held: Vec::new() },
            Some(window) => Codec::Http2(Box::new(http2::Session::new(window, &mut out))),
        };
        let tls = speech.tls.as_ref().map(tls::Client::session).transpose()?.map(Box::new);
        Ok(Self { codec, tls, out })
    }

    /// Asks for watch number `slot` of this connection: of HTTP/1.1 there is only one. `reads`: it takes all that comes.
    pub(crate) fn ask(&mut self, slot: u32, request: &Request<'_>, reads: bool) -> io::Result<()> {
        match &mut self.codec {
            Codec::Http1 { .. } => self.out.extend_from_slice(request.head().as_bytes()),
            Codec::Http2(session) => session.ask(slot, request, reads, &mut self.out)?,
        }
        Ok(())
    }

    /// Watch number `slot` wants no more. False: the connection must be closed for it.
    pub(crate) fn cancel(&mut self, slot: u32) -> bool {
        let Codec::Http2(session) = &mut self.codec else { return false };
        session.cancel(slot, &mut self.out);
        session.leaving.is_none() || session.open_streams() > 0
    }

    /// Why the server takes no more watches over this connection.
    pub(crate) fn leaving(&self) -> Option<&str> {
        let Codec::Http2(session) = &self.codec else { return None };
        session.leaving.as_deref()
    }

    /// What is asked for goes out as soon as it is sent: there is no TLS, or its handshake is over.
    pub(crate) fn is_open(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.is_open)
    }

    /// Sends what there is to send, as far as the socket takes it.
    pub(crate) fn send(&mut self, mut socket: impl Write) -> io::Result<()> {
        if let Some(tls) = &mut self.tls
            && (!self.out.is_empty() || !tls.is_open)
            && tls.seal(&self.out)?
        {
            self.out = Vec::new();
        }
        loop {
            let unsent = self.tls.as_ref().map_or(&self.out[..], |tls| tls.sealed());
            if unsent.is_empty() {
                return Ok(());
            }
            let outcome = socket.write(unsent);
            match (outcome, &mut self.tls) {
                (Ok(count), Some(tls)) => tls.sent(count),
                (Ok(count), None) => {
                    self.out.drain(..count);
                    if self.out.is_empty() {
                        self.out = Vec::new();
                    }
                }
                (Err(fault), _) if fault.kind() == ErrorKind::WouldBlock => return Ok(()),
                (Err(fault), _) if fault.kind() == ErrorKind::Interrupted => {}
                (Err(fault), _) => return Err(fault),
            }
        }
    }

    /// Reads once. Gives how many bytes of the buffer are to be taken, and how many came: none at the end of the connection.
    pub(crate) fn read(&self, mut socket: impl Read, buffer: &mut [u8]) -> io::Result<(usize, usize)> {
        let lead = self.tls.as_ref().map_or(0, |tls| tls.lead(buffer));
        let count = socket.read(&mut buffer[lead..])?;
        Ok((lead + count, count))
    }

    /// Takes what was read. An error: the connection is of no more use.
    pub(crate) fn take(&mut self, bytes: &mut [u8], mut on: impl FnMut(u32, Brought<'_>)) -> io::Result<()> {
        let (codec, out) = (&mut self.codec, &mut self.out);
        let Some(tls) = &mut self.tls else { return codec.take(bytes, out, &mut on) };
        let was_open = tls.is_open;
        let outcome = tls.open(bytes, |plain| codec.take(plain, out, &mut on));
        if tls.is_open && !was_open && matches!(codec, Codec::Http2(_)) && tls.protocol() != Some(tls::HTTP2)
        {
            let why = "the server does not offer h2 by ALPN: omit --http2";
            return Err(Error::new(ErrorKind::InvalidData, why));
        }
        outcome
    }
}

impl Codec {
    fn take(
        &mut self,
        mut input: &[u8],
        out: &mut Vec<u8>,
        on: &mut impl FnMut(u32, Brought<'_>),
    ) -> io::Result<()> {
        let (responses, status, held) = match self {
            Self::Http1 { responses, status, held } => (responses, status, held),
            Self::Http2(session) => return session.take(input, out, on),
        };
        loop {
            match responses.next(&mut input, held)? {
                Part::Head(head) => {
                    *status = head.status;
                    *held = Vec::new();
                    if *status == 200 {
                        on(0, Brought::Head { gzip: head.gzip });
                    }
                }
                Part::Data(data) if *status == 200 => on(0, Brought::Data(data)),
                Part::Data(data) => {
                    held.extend_from_slice(&data[..data.len().min(WORDS_BYTES_MAX - held.len())]);
                }
                Part::End(_) => {
                    let end = if *status == 200 { End::Whole } else { End::Refused(*status, excerpt(held)) };
                    on(0, Brought::End(end));
                    return Ok(());
                }
                Part::More => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A connection in clear.
    pub(crate) fn plain(window: Option<u32>) -> Wire {
        let caller = Caller { host: "h:1".to_owned(), token: None, trust: None };
        Speech::new(&caller, window)
            .and_then(|it| Wire::new(&it).map_err(|why| why.to_string()))
            .expect("valid")
    }
}
