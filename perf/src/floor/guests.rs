//! The connections of a floor-sender until each of their watches has its response head. All of them are read by one epoll: over
//! HTTP/2 nobody says before how many watches a connection will carry.

use crate::http::JSON;
use crate::http2::{HEAD_BYTES, Head, PREFACE, fields, flag, kind, push_frame};
use crate::tls::Session;
use memchr::memmem;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustls::ServerConfig;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
const READ_BYTES: usize = 64 * 1024;
const EVENTS_MAX: usize = 256;
/// By which the epoll tells of the listener.
const LISTENER: u64 = u64::MAX;

pub(super) struct Guest {
    pub(super) socket: TcpStream,
    pub(super) tls: Option<Session>,
    /// Watches that it carries.
    pub(super) streams: usize,
    /// What was not understood yet.
    input: Vec<u8>,
}

/// Accepts connections until so many watches are answered.
pub(super) fn accept(
    listener: &TcpListener,
    watches: u32,
    http2: bool,
    tls: Option<&Arc<ServerConfig>>,
) -> io::Result<Vec<Guest>> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let (mut guests, mut left) = (Vec::new(), watches as usize);
    let mut events = Vec::with_capacity(EVENTS_MAX);
    while left > 0 {
        events.clear();
        epoll::wait(&epoll, spare_capacity(&mut events), None)?;
        for event in &events {
            let data = event.data;
            if data.u64() == LISTENER {
                let (socket, _) = listener.accept()?;
                socket.set_nodelay(true)?;
                epoll::add(&epoll, &socket, EventData::new_u64(guests.len() as u64), EventFlags::IN)?;
                let tls = tls.map(Session::server).transpose()?;
                guests.push(Guest { socket, tls, streams: 0, input: Vec::new() });
            } else if let Some(guest) = usize::try_from(data.u64()).ok().and_then(|at| guests.get_mut(at)) {
                left = left.saturating_sub(guest.serve(http2)?);
            }
        }
    }
    guests.iter().try_for_each(|guest| guest.socket.set_nonblocking(true))?;
    Ok(guests)
}

impl Guest {
    /// Reads once, and answers the requests that are complete now. Gives how many there are.
    fn serve(&mut self, http2: bool) -> io::Result<usize> {
        let mut buffer = [0; READ_BYTES];
        let count = self.socket.read(&mut buffer)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        match &mut self.tls {
            Some(tls) => tls.open(&buffer[..count], |plain| self.input.write_all(plain))?,
            None => self.input.extend_from_slice(&buffer[..count]),
        }
        let before = self.streams;
        let answer = if http2 { self.answer_frames() } else { self.answer_head() };
        match &mut self.tls {
            Some(tls) => tls.seal(&answer, &self.socket)?,
            None => self.socket.write_all(&answer)?,
        }
        Ok(self.streams - before)
    }

    fn answer_head(&mut self) -> Vec<u8> {
        if memmem::find(&self.input, b"\r\n\r\n").is_none() {
            return Vec::new();
        }
        self.input = Vec::new();
        self.streams = 1;
        HEAD.to_vec()
    }

    fn answer_frames(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.input.starts_with(PREFACE) {
            self.input.drain(..PREFACE.len());
            push_frame(&mut out, kind::SETTINGS, 0, 0, &[]);
        }
        while !PREFACE.starts_with(&self.input[..self.input.len().min(4)])
            && let Some(head) = self.input.first_chunk().map(|head| Head::read(*head))
            && self.input.len() >= HEAD_BYTES + head.length
        {
            self.input.drain(..HEAD_BYTES + head.length);
            if head.kind == kind::SETTINGS {
                push_frame(&mut out, kind::SETTINGS, flag::ACK, 0, &[]);
            } else if head.kind == kind::HEADERS {
                self.streams += 1;
                push_frame(&mut out, kind::HEADERS, flag::END_HEADERS, head.stream, &fields::of_200(JSON));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    impl Guest {
        pub(in crate::floor) fn of_test(socket: TcpStream) -> Self {
            Self { socket, tls: None, streams: 1, input: Vec::new() }
        }
    }

    #[test]
    fn a_request_in_pieces_is_answered_once_it_is_complete() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let mut guest = Guest::of_test(listener.accept().expect("a connection").0);
        guest.streams = 0;
        for (piece, streams) in [("GET / HTTP/1.1\r\nHost: x\r\n", 0), ("\r\n", 1)] {
            client.write_all(piece.as_bytes()).expect("a socket");
            assert_eq!(guest.serve(false).expect("it is there"), streams);
        }
    }
}
