//! Ports of the loopback that a test may listen on repeatedly: after a kill, after a cut.
//!
//! They are outside the range that the system assigns to clients. Otherwise a client that keeps connecting to a port
//! without a listener may be assigned that port, connect to itself, and keep its owner from coming back. A port is
//! claimed, by an abstract socket's name, as long as its [`Port`] lives: the system releases it however the process
//! ends.

use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// With fewer than this there is too little to choose from.
const WIDTH_MIN: u16 = 2_000;

/// A port that no other test has.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// Holds the name; nothing connects to it.
    _claim: UnixListener,
}

impl Port {
    /// A port without a listener.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn free() -> Self {
        static NEXT: LazyLock<AtomicU32> =
            LazyLock::new(|| AtomicU32::new(std::process::id().wrapping_mul(7919)));
        let (first, width) = range();
        let candidates = (0..width).map(|_| {
            let step = NEXT.fetch_add(1, Ordering::Relaxed) % u32::from(width);
            first + u16::try_from(step).expect("less than the width")
        });
        let mut free = candidates.filter_map(Self::claim);
        free.next().unwrap_or_else(|| panic!("no free port in {width} from {first} on 127.0.0.1"))
    }

    /// This port; `None` when another test has it, or something listens there.
    #[must_use]
    pub fn claim(number: u16) -> Option<Self> {
        let name = SocketAddr::from_abstract_name(format!("revcast-test-port-{number}")).ok()?;
        let claim = UnixListener::bind_addr(&name).ok()?;
        // Not by listening: a process that another thread starts meanwhile would hold the listener until it is executed.
        TcpStream::connect(("127.0.0.1", number)).is_err().then_some(Self { number, _claim: claim })
    }

    /// Its number.
    #[must_use]
    pub const fn number(&self) -> u16 {
        self.number
    }
}

/// The first port to choose from, and how many.
fn range() -> (u16, u16) {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut words = text.split_whitespace().map_while(|word| word.parse().ok());
    choose(words.next().unwrap_or(32_768), words.next().unwrap_or(60_999))
}

/// Ports below those of clients, otherwise above them; when clients get all, the usual range.
const fn choose(low: u16, high: u16) -> (u16, u16) {
    const FIRST: u16 = 10_000;
    if low >= FIRST + WIDTH_MIN {
        (FIRST, low - FIRST)
    } else if high < u16::MAX - WIDTH_MIN {
        (high + 1, u16::MAX - high)
    } else {
        (FIRST, 50_000)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::{Port, choose};

    #[test]
    fn a_port_belongs_to_one() {
        let (one, other) = (Port::free(), Port::free());
        assert_ne!(one.number(), other.number());
        let number = one.number();
        assert!(Port::claim(number).is_none(), "it is taken");
        TcpListener::bind(("127.0.0.1", number)).expect("and free to listen on");
        drop(one);
        assert!(Port::claim(number).is_some(), "and given back");
    }

    #[test]
    fn who_listens_keeps_his_port() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        assert!(Port::claim(listener.local_addr().expect("bound").port()).is_none());
    }

    #[test]
    fn clients_ports_are_left_alone() {
        assert_eq!(choose(32_768, 60_999), (10_000, 22_768));
        assert_eq!(choose(1_024, 40_000), (40_001, 25_535));
        assert_eq!(choose(1_024, 65_535), (10_000, 50_000));
    }
}
