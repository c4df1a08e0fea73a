//! Whether an address can be bound, and which process uses it if not.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener};

use rustix::io::Errno;

use super::finding::Findings;

/// State of a listening socket in `/proc/net/tcp` (`TCP_LISTEN`).
const LISTENING: &str = "0A";

/// The result of binding an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Port {
    /// The option that names it.
    pub(super) option: &'static str,
    pub(super) address: SocketAddr,
    /// The errno, if it was refused.
    pub(super) refused: Option<i32>,
    /// The listening process, as far as `/proc` shows it: `nginx (pid 7)`.
    pub(super) owner: Option<String>,
}

/// Binds the address and releases it.
pub(super) fn look(option: &'static str, address: SocketAddr) -> Port {
    let refused = TcpListener::bind(address).err().map(|error| error.raw_os_error().unwrap_or(0));
    let taken = refused == Some(Errno::ADDRINUSE.raw_os_error());
    Port { option, address, refused, owner: if taken { owner(address) } else { None } }
}

/// `takes_over`: a server of this program may have it, and gives it away.
pub(super) fn judge(findings: &mut Findings, port: &Port, takes_over: bool) {
    let Port { option, address, refused, owner } = port;
    let Some(errno) = refused else {
        return findings.fine("ports", &format!("--{option} {address} is free"));
    };
    let errno = Errno::from_raw_os_error(*errno);
    if let (true, Errno::ADDRINUSE, Some(owner)) = (takes_over, errno, owner)
        && owner.starts_with("revcast ")
    {
        return findings.fine("ports", &format!("--{option} {address} is to be taken over from {owner}"));
    }
    let (problem, mend) = match errno {
        Errno::ADDRINUSE => {
            let who = owner.as_deref().map(|owner| format!(" by {owner}")).unwrap_or_default();
            (format!("is taken{who}"), format!("stop what listens there, or choose another --{option}"))
        }
        Errno::ACCESS | Errno::PERM => (
            format!("is not allowed ({errno})"),
            "choose a port above 1023, or give CAP_NET_BIND_SERVICE".to_owned(),
        ),
        Errno::ADDRNOTAVAIL => (
            "is not an address of this machine".to_owned(),
            format!("choose another --{option}, as 0.0.0.0:8080"),
        ),
        _ => (format!("cannot be bound ({errno})"), format!("choose another --{option}")),
    };
    findings.fail("ports", &format!("--{option} {address} {problem}"), &mend);
}

/// Which process listens on an address that cannot be bound.
fn owner(address: SocketAddr) -> Option<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let inode = tables.iter().find_map(|table| listener(table, address))?;
    let socket = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    processes.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok()).find_map(|pid| {
        // Those of other users cannot be read.
        let mut open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.filter_map(Result::ok);
        open.find(|file| fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == &*socket))?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Some(format!("{} (pid {pid})", name.trim()))
    })
}

/// The inode of the socket that prevents binding an address, in a table of `/proc/net` (proc_net_tcp.txt of the
/// kernel).
fn listener(table: &str, address: SocketAddr) -> Option<&str> {
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        let local = socket(local).filter(|_| *state == LISTENING)?;
        (local.port() == address.port() && overlap(local.ip(), address.ip())).then_some(*inode)
    })
}

/// From `0100007F:1F90`: the kernel writes an address as numbers of four bytes in the machine's own order.
fn socket(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let mut bytes = [0; 16];
    for (place, at) in bytes.chunks_exact_mut(4).zip((0..ip.len()).step_by(8)) {
        let word = u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?;
        place.copy_from_slice(&word.to_ne_bytes());
    }
    let ip = match ip.len() {
        8 => IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]),
        32 => IpAddr::from(bytes),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// Whether two listeners on one port conflict: the same address, or one of them is the wildcard.
fn overlap(one: IpAddr, other: IpAddr) -> bool {
    // ::ffff:127.0.0.1 is 127.0.0.1, and [::] also accepts IPv4.
    let (one, other) = (one.to_canonical(), other.to_canonical());
    let covers = |all: IpAddr, it: IpAddr| all.is_unspecified() && (all.is_ipv6() || it.is_ipv4());
    one == other || covers(one, other) || covers(other, one)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::doctor::finding::Verdict;

    fn judged(port: &Port) -> String {
        let mut findings = Findings::default();
        judge(&mut findings, port, false);
        findings.0[0].line()
    }

    #[test]
    fn a_table_of_sockets_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:1F90 00000000:0000 01 00000000:00000000 00:00000000 00000000 0 0 11 1 x\n   \
                     1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 22 1 x\n";
        let of = |address: &str| listener(table, address.parse().unwrap());
        for taken in ["127.0.0.1:8080", "0.0.0.0:8080", "[::]:8080", "[::ffff:127.0.0.1]:8080"] {
            assert_eq!(of(taken), Some("22"), "{taken}");
        }
        for free in ["127.0.0.1:8081", "127.0.0.2:8080", "[::1]:8080"] {
            assert_eq!(of(free), None, "{free}");
        }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn sockets_are_read() {
        let read = |text: &str| socket(text).map(|address| address.to_string());
        assert_eq!(read("0100007F:1F90").as_deref(), Some("127.0.0.1:8080"));
        assert_eq!(read("00000000:0050").as_deref(), Some("0.0.0.0:80"));
        assert_eq!(read("00000000000000000000000001000000:0016").as_deref(), Some("[::1]:22"));
        assert_eq!(read("0000000000000000FFFF00000100007F:0016").as_deref(), Some("[::ffff:127.0.0.1]:22"));
        for odd in ["", "0100007F", "0100007:1F90", "0100007F0100007F:1F90", "x100007F:1F90", "0100007F:x"] {
            assert_eq!(read(odd), None, "{odd}");
        }
    }

    #[test]
    fn addresses_are_in_each_others_way() {
        let both = |one: &str, other: &str| {
            let (one, other) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!(overlap(one, other), overlap(other, one));
            overlap(one, other)
        };
        assert!(both("127.0.0.1", "127.0.0.1") && both("127.0.0.1", "::ffff:127.0.0.1"));
        assert!(both("0.0.0.0", "192.0.2.1") && both("::", "192.0.2.1") && both("::", "::1"));
        assert!(both("::", "0.0.0.0"));
        assert!(!both("127.0.0.1", "192.0.2.1") && !both("0.0.0.0", "::1") && !both("::1", "127.0.0.1"));
    }

    #[test]
    fn who_has_a_port_is_named() {
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = held.local_addr().unwrap();
        let port = look("listen", address);
        let line = judged(&port);
        let pid = std::process::id();
        assert!(line.starts_with(&format!("ports: --listen {address} is taken by ")), "{line}");
        assert!(line.contains(&format!("(pid {pid}); stop what listens there")), "{line}");
        let own = Port { owner: Some("revcast (pid 7)".to_owned()), ..look("listen", address) };
        let mut findings = Findings::default();
        judge(&mut findings, &own, true);
        judge(&mut findings, &port, true);
        let verdicts: Vec<Verdict> = findings.0.iter().map(|finding| finding.verdict).collect();
        assert_eq!(verdicts, [Verdict::Ok, Verdict::Fail], "it gives it away, and nobody else does");
        drop(held);
        assert_eq!(judged(&look("listen", address)), format!("ports: --listen {address} is free"));
        let elsewhere = look("admin-listen", "192.0.2.1:80".parse().unwrap());
        assert!(
            judged(&elsewhere).contains("is not an address of this machine; choose another --admin-listen")
        );
        let refused = Port { refused: Some(Errno::ACCESS.raw_os_error()), ..elsewhere };
        assert!(judged(&refused).contains("CAP_NET_BIND_SERVICE"));
    }
}
