//! What /proc tells of a process: CPU time, resident memory, and which process listens on a port.

use crate::stamp::decimal;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// CPU time (user and system, all threads, also ended ones) of process `pid`. Resolution: one clock tick, mostly 10 ms.
pub(crate) fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(ticks(parse_stat(&stat)?))
}

fn ticks(count: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_nanos(count.saturating_mul(1_000_000_000 / per_second))
}

/// utime + stime, in clock ticks. The name of the process may contain anything, also `)`: proc_pid_stat(5).
fn parse_stat(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

/// Resident memory of process `pid`, bytes.
pub(crate) fn rss_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    parse_kib(&status, "VmRSS:")
}

/// The most resident memory that process `pid` ever had, bytes.
pub(crate) fn peak_rss_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    parse_kib(&status, "VmHWM:")
}

fn parse_kib(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    decimal(line.trim().strip_suffix("kB")?.trim().as_bytes())?.checked_mul(1024)
}

/// The process that listens at a loopback address. `None`: there is none, or it belongs to someone else.
pub(crate) fn listener(address: SocketAddr) -> Option<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let inodes: Vec<String> = tables
        .iter()
        .flat_map(|table| table.lines().skip(1))
        .filter_map(|line| parse_listener(line, address))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let processes = fs::read_dir("/proc").ok()?;
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut owners: Vec<u32> = pids.filter(|&pid| has_open(pid, &inodes)).collect();
    owners.sort_unstable();
    owners.first().copied()
}

/// The inode of a listening socket that takes connections to `address`.
fn parse_listener(line: &str, address: SocketAddr) -> Option<u64> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (ip, port) = fields.get(1)?.split_once(':')?;
    let listens = *fields.get(3)? == "0A" && u16::from_str_radix(port, 16).ok()? == address.port();
    // The kernel prints an IPv4 address as one native-endian word; an IPv6 one as four.
    let words: Vec<u8> = ip
        .as_bytes()
        .chunks(8)
        .filter_map(|word| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok())
        .flat_map(u32::to_ne_bytes)
        .collect();
    let wildcard = words.iter().all(|&byte| byte == 0);
    let same = match address.ip() {
        IpAddr::V4(ip) => words == ip.octets() || words == ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => words == ip.octets(),
    };
    (listens && (wildcard || same)).then(|| fields.get(9)?.parse().ok())?
}

fn has_open(pid: u32, sockets: &[String]) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let mut links = descriptors.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links.any(|link| link.to_str().is_some_and(|link| sockets.iter().any(|socket| socket == link)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = "42 (a) (b c) S 1 42 42 0 -1 4194560 1 2 3 4 700 50 9 9 20 0 4 0 1 1 1";
        assert_eq!(parse_stat(stat), Some(750));
        assert_eq!(parse_stat("42 (a) S 1"), None);
    }

    #[test]
    fn resident_memory() {
        let status = "Name:\tx\nVmHWM:\t 9 kB\nVmRSS:\t   123 kB\n";
        assert_eq!(parse_kib(status, "VmRSS:"), Some(123 * 1024));
        assert_eq!(parse_kib(status, "VmHWM:"), Some(9 * 1024));
        assert!(peak_rss_bytes(std::process::id()) >= rss_bytes(std::process::id()));
        assert!(rss_bytes(std::process::id()).is_some_and(|bytes| bytes > 100_000));
        assert!(cpu_time(std::process::id()).is_some());
    }

    #[test]
    fn finds_itself_as_the_listener() {
        for bind in [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED] {
            let socket = TcpListener::bind((bind, 0)).expect("a free port");
            let port = socket.local_addr().expect("bound").port();
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            assert_eq!(listener(address), Some(std::process::id()));
            drop(socket);
            assert_eq!(listener(address), None);
        }
    }
}
