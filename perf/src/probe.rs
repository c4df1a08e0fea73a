//! Asks a server whether it lives, at a steady pace: each question has the moment at which it was meant to be sent, and a
//! slow answer does not move the next one. A probe is a thread; it looks at nothing but the status and the time.

use crate::clock::{now_ns, sleep_until};
use crate::latency::Latency;
use crate::target::Target;
use rustix::process::setpriority_process;
use rustix::thread::gettid;
use std::num::NonZeroU64;

const PATH: &str = "/livez";
/// 50 times a second.
const INTERVAL_NS: u64 = 20_000_000;
/// The generator's own threads should not make the probe wait; where that is not allowed it waits, which is reported.
const NICE: i32 = -20;

#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) target: Target,
    /// A connection for each question; else one for all.
    pub(crate) fresh: bool,
    pub(crate) from_ns: u64,
    pub(crate) end_ns: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Probed {
    /// From the intended moment to the end of the answer; with a connection each, that is in it.
    pub(crate) latency: Latency,
    /// How late the probe itself woke: part of the latency.
    pub(crate) late: Latency,
    pub(crate) failed: u64,
    pub(crate) first_fault: Option<String>,
}

impl Probe {
    pub(crate) fn run(self) -> Probed {
        // Not allowed: see `late`.
        let _same = setpriority_process(Some(gettid()), NICE);
        let _slack = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut probed = Probed::default();
        let mut kept = self.target.connect();
        // The two kinds of probe take turns.
        let mut due_ns = self.from_ns + if self.fresh { 0 } else { INTERVAL_NS / 2 };
        while due_ns < self.end_ns {
            if now_ns() < due_ns {
                sleep_until(due_ns);
                probed.late.record(now_ns().saturating_sub(due_ns));
            }
            let outcome = if self.fresh {
                self.target.connect().get(PATH).map(|_| ())
            } else {
                kept.get(PATH).map(|_| ())
            };
            match outcome {
                Ok(()) => probed.latency.record(now_ns().saturating_sub(due_ns)),
                Err(why) => {
                    probed.failed += 1;
                    probed.first_fault.get_or_insert(why);
                }
            }
            due_ns += INTERVAL_NS;
        }
        probed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Load;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, SocketAddr, TcpListener};
    use std::thread;
    use std::time::Duration;

    /// A server that answers each request with `status` after `wait`; gives how many connections it took.
    fn serve(status: u16, wait: Duration, connections: usize) -> (SocketAddr, thread::JoinHandle<()>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let server = thread::spawn(move || {
            for mut stream in listener.incoming().take(connections).flatten() {
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|count| count > 0) {
                    thread::sleep(wait);
                    let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nok");
                    let _gone = stream.write_all(answer.as_bytes());
                }
            }
        });
        (address, server)
    }

    fn probe(address: SocketAddr, fresh: bool, questions: u64) -> Probed {
        let target = Target::local(&Load::default(), address.port(), 0);
        let from_ns = now_ns();
        let turn = if fresh { 0 } else { INTERVAL_NS / 2 };
        Probe { target, fresh, from_ns, end_ns: from_ns + turn + INTERVAL_NS * questions }.run()
    }

    #[test]
    fn a_fresh_probe_connects_each_time_and_a_kept_one_once() {
        let (address, server) = serve(200, Duration::ZERO, 5);
        let probed = probe(address, true, 5);
        assert_eq!((probed.failed, probed.latency.count()), (0, 5), "{:?}", probed.first_fault);
        server.join().expect("it took five connections, no fewer");
        let (address, server) = serve(200, Duration::ZERO, 1);
        let probed = probe(address, false, 5);
        assert_eq!((probed.failed, probed.latency.count()), (0, 5), "{:?}", probed.first_fault);
        server.join().expect("one connection");
    }

    #[test]
    fn a_slow_answer_is_counted_from_the_intended_moment() {
        let (address, _server) = serve(200, Duration::from_millis(50), 1);
        let probed = probe(address, false, 4);
        assert_eq!((probed.failed, probed.latency.count()), (0, 4));
        // The fourth was meant for 60 ms after the first and could be asked after 150 ms.
        assert!(probed.latency.max() >= 139_000_000, "{} ns", probed.latency.max());
    }

    #[test]
    fn another_status_is_a_failure() {
        let (address, _server) = serve(503, Duration::ZERO, 1);
        let probed = probe(address, false, 2);
        assert_eq!((probed.failed, probed.latency.count()), (2, 0));
        assert!(probed.first_fault.is_some_and(|why| why.contains("503")));
    }
}
