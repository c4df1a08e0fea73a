//! One connection that carries watches, or lists: from the bytes of its socket to what each of them gets. It knows no socket. An
//! HTTP/1.1 connection carries one of them, an HTTP/2 connection one on each stream; either may be in TLS.

use crate::brought::{Brought, End, WORDS_BYTES_MAX};
use crate::http::{Caller, Part, Request, Responses, excerpt};
use crate::{http2, tls};
use std::io::{self, Error, ErrorKind, Write};

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

#[derive(Default)]
struct Http1 {
    responses: Responses,
    /// Of the response that is being read.
    status: u16,
    /// The beginning of a head, or of a refusal's body.
    held: Vec<u8>,
    /// To be sent.
    out: Vec<u8>,
}

enum Codec {
    Http1(Http1),
    Http2(Box<http2::Session>),
}

pub(crate) struct Wire {
    codec: Codec,
    tls: Option<tls::Session>,
}

impl Wire {
    pub(crate) fn new(speech: &Speech) -> io::Result<Self> {
        let codec = match speech.window {
            None => Codec::Http1(Http1::default()),
            Some(window) => Codec::Http2(Box::new(http2::Session::new(window))),
        };
        let tls = speech.tls.as_ref().map(tls::Client::session).transpose()?;
        Ok(Self { codec, tls })
    }

    /// Asks for watch number `slot` of this connection: of HTTP/1.1 there is only one. `reads`: it takes all that comes.
    pub(crate) fn ask(&mut self, slot: u32, request: &Request<'_>, reads: bool) {
        match &mut self.codec {
            Codec::Http1(http1) => http1.out.extend_from_slice(request.head().as_bytes()),
            Codec::Http2(session) => session.ask(slot, request, reads),
        }
    }

    /// Watch number `slot` wants no more. False: the connection must be closed for it.
    pub(crate) fn cancel(&mut self, slot: u32) -> bool {
        let Codec::Http2(session) = &mut self.codec else { return false };
        session.cancel(slot);
        session.leaving.is_none() || session.open_streams() > 0
    }

    /// Why the server takes no more watches over this connection.
    pub(crate) fn leaving(&self) -> Option<&str> {
        let Codec::Http2(session) = &self.codec else { return None };
        session.leaving.as_deref()
    }

    /// What is asked for goes out as soon as it is sent: there is no TLS, or its handshake is over.
    pub(crate) fn is_open(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.0.is_handshaking())
    }

    /// Sends what there is to send, as far as the socket takes it.
    pub(crate) fn send(&mut self, socket: impl Write) -> io::Result<()> {
        let out = match &mut self.codec {
            Codec::Http1(http1) => &mut http1.out,
            Codec::Http2(session) => &mut session.out,
        };
        let outcome = match &mut self.tls {
            Some(tls) => tls.seal(&std::mem::take(out), socket),
            None => send_all(out, socket),
        };
        outcome.or_else(|fault| if fault.kind() == ErrorKind::WouldBlock { Ok(()) } else { Err(fault) })
    }

    /// Takes what was read. An error: the connection is of no more use.
    pub(crate) fn take(&mut self, bytes: &[u8], mut hear: impl FnMut(u32, Brought<'_>)) -> io::Result<()> {
        let codec = &mut self.codec;
        let mut take = |plain: &[u8]| match codec {
            Codec::Http1(http1) => http1.take(plain, &mut hear),
            Codec::Http2(session) => session.take(plain, &mut hear),
        };
        let Some(tls) = &mut self.tls else { return take(bytes) };
        let was_new = tls.0.is_handshaking();
        let outcome = tls.open(bytes, take);
        let is_new = was_new && !tls.0.is_handshaking() && matches!(codec, Codec::Http2(_));
        let is_refused = |fault: &Error| fault.to_string().ends_with("NoApplicationProtocol");
        if is_new && tls.0.alpn_protocol() != Some(tls::HTTP2) || outcome.as_ref().is_err_and(is_refused) {
            let why = "the server does not offer h2 by ALPN: omit --http2";
            return Err(Error::new(ErrorKind::InvalidData, why));
        }
        outcome
    }
}

fn send_all(out: &mut Vec<u8>, mut socket: impl Write) -> io::Result<()> {
    while !out.is_empty() {
        match socket.write(out) {
            Ok(count) => drop(out.drain(..count)),
            Err(fault) if fault.kind() == ErrorKind::Interrupted => {}
            Err(fault) => return Err(fault),
        }
    }
    *out = Vec::new();
    Ok(())
}

impl Http1 {
    fn take(&mut self, mut input: &[u8], hear: &mut impl FnMut(u32, Brought<'_>)) -> io::Result<()> {
        loop {
            match self.responses.next(&mut input, &mut self.held)? {
                Part::Head(head) => {
                    (self.status, self.held) = (head.status, Vec::new());
                    if self.status == 200 {
                        hear(0, Brought::Head { gzip: head.gzip });
                    }
                }
                Part::Data(data) if self.status == 200 => hear(0, Brought::Data(data)),
                Part::Data(data) => {
                    let room = WORDS_BYTES_MAX - self.held.len();
                    self.held.extend_from_slice(&data[..data.len().min(room)]);
                }
                Part::End(_) => {
                    hear(0, Brought::End(End::of(self.status, &self.held)));
                    return Ok(());
                }
                Part::More => return Ok(()),
            }
        }
    }
}

impl End {
    /// A body is complete, which begins with `words` if the status is another than 200.
    pub(crate) fn of(status: u16, words: &[u8]) -> Self {
        if status == 200 { Self::Whole } else { Self::Refused(status, excerpt(words)) }
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
