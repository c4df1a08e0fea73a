//! One end of a connection on which both sides send at once, with TLS or without: it sends a pattern, and compares what it receives.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustls::{ConnectionCommon, SideData};

use super::Pattern;

/// The time of a whole exchange. It usually takes a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// When an end says that it has sent all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// When it has, and goes on receiving.
    First,
    /// After the other side has.
    Last,
}

/// What an end does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Bytes that it sends in all, after these that it sent before.
    pub(crate) send: u64,
    pub(crate) sent_before: u64,
    pub(crate) finish: Finish,
}

/// Exchanges bytes until both sides have said that they have sent all. Returns how many were received. `before`: bytes that were
/// received already.
pub(crate) fn exchange<S: SideData>(
    socket: &TcpStream,
    tls: Option<&mut ConnectionCommon<S>>,
    before: &[u8],
    plan: Plan,
) -> u64 {
    socket.set_nonblocking(true).unwrap();
    let mut end = End { socket, tls };
    let (mut out, mut into) = (Pattern::default(), Pattern::default());
    into.expect(before);
    out.next(plan.sent_before);
    let mut unsent: &[u8] = &[];
    let (mut is_finished, mut has_ended) = (false, false);
    let mut piece = vec![0; 64 << 10];
    let deadline = Instant::now() + PATIENCE;
    while !(is_finished && has_ended && end.is_flushed()) {
        assert!(
            Instant::now() < deadline,
            "{} sent, {} received, {is_finished} {has_ended}",
            out.at(),
            into.at()
        );
        let mut has_moved = false;
        if unsent.is_empty() && out.at() < plan.send {
            unsent = out.next(plan.send);
        }
        if !unsent.is_empty() {
            let sent = end.write(unsent);
            unsent = &unsent[sent..];
            has_moved |= sent > 0;
        } else if !is_finished && (plan.finish == Finish::First || has_ended) {
            end.finish();
            is_finished = true;
        }
        has_moved |= end.flush();
        while !has_ended {
            match end.read(&mut piece) {
                None => break,
                Some(0) => has_ended = true,
                Some(read) => into.expect(&piece[..read]),
            }
            has_moved = true;
        }
        if !has_moved {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    into.at()
}

struct End<'a, S> {
    socket: &'a TcpStream,
    tls: Option<&'a mut ConnectionCommon<S>>,
}

impl<S: SideData> End<'_, S> {
    /// How many bytes were taken.
    fn write(&mut self, bytes: &[u8]) -> usize {
        match &mut self.tls {
            None => now(self.socket.write(bytes)).unwrap_or(0),
            Some(tls) => tls.writer().write(bytes).unwrap(),
        }
    }

    /// Whether something was sent.
    fn flush(&mut self) -> bool {
        let Some(tls) = &mut self.tls else { return false };
        let mut has_moved = false;
        while tls.wants_write() && now(tls.write_tls(&mut self.socket)).is_some() {
            has_moved = true;
        }
        has_moved
    }

    fn is_flushed(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.wants_write())
    }

    /// Says that nothing more is sent: in TLS by its own means alone.
    fn finish(&mut self) {
        match &mut self.tls {
            None => self.socket.shutdown(std::net::Shutdown::Write).unwrap(),
            Some(tls) => tls.send_close_notify(),
        }
    }

    /// Some bytes; 0: the other side has sent all; `None`: nothing yet.
    fn read(&mut self, into: &mut [u8]) -> Option<usize> {
        let Some(tls) = &mut self.tls else { return now(self.socket.read(into)) };
        loop {
            // An end without the words of TLS is an error here.
            if let Some(read) = now(tls.reader().read(into)) {
                return Some(read);
            }
            now(tls.read_tls(&mut self.socket))?;
            tls.process_new_packets().unwrap();
        }
    }
}

fn now(done: std::io::Result<usize>) -> Option<usize> {
    match done {
        Ok(count) => Some(count),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => panic!("the connection broke: {error}"),
    }
}
