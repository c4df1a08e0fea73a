//! What /proc tells of a process: CPU time, resident memory, and which process listens on a port.

use crate::stamp::decimal;
use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// CPU time (user and system, all threads, also ended ones) of process `pid`. Resolution: one clock tick, mostly 10 ms.
pub(crate) fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(ticks(parse_stat(&stat)?))
}

/// The CPUs that process `pid` may run on.
pub(crate) fn cpus_of(pid: u32) -> Option<Vec<usize>> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
    let set = rustix::thread::sched_getaffinity(Some(pid)).ok()?;
    Some((0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// How much CPU time a process had used at one moment.
#[derive(Clone, Debug)]
pub(crate) struct CpuMark {
    /// Of the whole process, in clock ticks: ended threads count.
    process_ns: u64,
    /// To the nanosecond, of each thread that lives. Empty where the kernel does not tell.
    threads_ns: BTreeMap<u32, u64>,
}

impl CpuMark {
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let process_ns = crate::clock::nanos(cpu_time(pid)?);
        Some(Self { process_ns, threads_ns: threads_ns(pid).unwrap_or_default() })
    }

    /// CPU time between an earlier mark and this one, ns: exact unless a thread has ended in between.
    pub(crate) fn since(&self, earlier: &Self) -> u64 {
        let all_live = earlier.threads_ns.keys().all(|thread| self.threads_ns.contains_key(thread));
        if earlier.threads_ns.is_empty() || !all_live {
            return self.process_ns.saturating_sub(earlier.process_ns);
        }
        let sum = |mark: &Self| mark.threads_ns.values().sum::<u64>();
        sum(self).saturating_sub(sum(earlier))
    }
}

fn threads_ns(pid: u32) -> Option<BTreeMap<u32, u64>> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    // The first number of proc's schedstat: time spent on the CPU, ns.
    let of = |thread: fs::DirEntry| -> Option<(u32, u64)> {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let number = thread.file_name().to_str()?.parse().ok()?;
        Some((number, text.split_ascii_whitespace().next()?.parse().ok()?))
    };
    threads.flatten().map(of).collect()
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

/// Descriptors that process `pid` has open. Kernels from 6.2 on tell how many there are; with older ones they are counted.
pub(crate) fn open_fds(pid: u32) -> Option<u64> {
    let folder = format!("/proc/{pid}/fd");
    match fs::metadata(&folder).ok()?.len() {
        0 => Some(fs::read_dir(&folder).ok()?.count() as u64),
        count => Some(count),
    }
}

/// Resident memory of process `pid` that no file backs: what it allocated itself, bytes. Socket buffers are the kernel's.
pub(crate) fn anon_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    parse_kib(&status, "RssAnon:")
}

/// What the kernel holds for connections to one address, both ends being on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) connections: u64,
    /// Those that the server has closed while bytes were unsent: the client cannot see that before it reads.
    pub(crate) closing: u64,
    pub(crate) unsent_bytes: u64,
    pub(crate) unread_bytes: u64,
}

/// Looks through the kernel's table of connections, which takes it some milliseconds for ten thousand.
pub(crate) fn held(address: SocketAddr) -> Option<Held> {
    let path = if address.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let table = fs::read_to_string(path).ok()?;
    let mut held = Held::default();
    table.lines().skip(1).filter_map(|line| add_connection(line, address, &mut held)).for_each(drop);
    Some(held)
}

fn add_connection(line: &str, address: SocketAddr, held: &mut Held) -> Option<()> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, remote, state) = (fields.next()?, fields.next()?, fields.next()?);
    let (unsent, unread) = fields.next()?.split_once(':')?;
    // 0A listens, 06 waits for the last stragglers of a connection that is over.
    if matches!(state, "0A" | "06") {
        return None;
    }
    if ends_at(local, address)? {
        held.connections += 1;
        // FIN_WAIT1, LAST_ACK, CLOSING: closed here, and not all of it is acknowledged.
        held.closing += u64::from(matches!(state, "04" | "09" | "0B"));
        held.unsent_bytes += u64::from_str_radix(unsent, 16).ok()?;
    } else if ends_at(remote, address)? {
        held.unread_bytes += u64::from_str_radix(unread, 16).ok()?;
    }
    Some(())
}

fn ends_at(end: &str, address: SocketAddr) -> Option<bool> {
    let (ip, port) = end.split_once(':')?;
    let same_port = u16::from_str_radix(port, 16).ok()? == address.port();
    Some(same_port && is_address(&words(ip), address.ip()))
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

/// Connections of this machine that came while the queue of their listener was full: the kernel let their SYN drop, and
/// the client sends another one second later.
pub(crate) fn listen_overflows() -> Option<u64> {
    parse_netstat(&fs::read_to_string("/proc/net/netstat").ok()?, "TcpExt:", "ListenOverflows")
}

/// A line of names and a line of numbers, each behind the same word.
fn parse_netstat(text: &str, word: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(word));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let at = names.split_ascii_whitespace().position(|one| one == name)?;
    decimal(numbers.split_ascii_whitespace().nth(at)?.as_bytes())
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
    let words = words(ip);
    let wildcard = words.iter().all(|&byte| byte == 0);
    (listens && (wildcard || is_address(&words, address.ip()))).then(|| fields.get(9)?.parse().ok())?
}

/// The kernel prints an IPv4 address as one native-endian word; an IPv6 one as four.
fn words(ip: &str) -> Vec<u8> {
    ip.as_bytes()
        .chunks(8)
        .filter_map(|word| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok())
        .flat_map(u32::to_ne_bytes)
        .collect()
}

fn is_address(words: &[u8], ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => words == ip.octets() || words == ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => words == ip.octets(),
    }
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
        // In this order: other tests of this process allocate meanwhile.
        let resident = rss_bytes(std::process::id());
        assert!(peak_rss_bytes(std::process::id()) >= resident);
        assert!(rss_bytes(std::process::id()).is_some_and(|bytes| bytes > 100_000));
        assert_eq!(parse_kib("RssAnon:\t  7 kB\n", "RssAnon:"), Some(7 * 1024));
        assert!(anon_bytes(std::process::id()).is_some_and(|bytes| bytes > 10_000));
        assert!(cpu_time(std::process::id()).is_some());
    }

    #[test]
    fn what_is_unread_and_unsent_is_found() {
        let listening = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listening.local_addr().expect("bound");
        assert_eq!(held(address), Some(Held::default()), "who only listens holds nothing");
        let client = std::net::TcpStream::connect(address).expect("it listens");
        let (mut server, _) = listening.accept().expect("connected");
        std::io::Write::write_all(&mut server, &[7; 1000]).expect("room for 1,000 bytes");
        let mut found = held(address).expect("readable");
        for _ in 0..100 {
            if found.unread_bytes == 1000 && found.unsent_bytes == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
            found = held(address).expect("readable");
        }
        assert_eq!(found, Held { connections: 1, closing: 0, unsent_bytes: 0, unread_bytes: 1000 });
        server.set_nonblocking(true).expect("a socket can be");
        while std::io::Write::write(&mut server, &[7; 100_000]).is_ok() {}
        let full = held(address).expect("readable");
        assert!(full.unsent_bytes > 0 && full.unread_bytes > 1000, "{full:?}");
        drop(server);
        let closed = held(address).expect("readable");
        assert_eq!((closed.connections, closed.closing), (1, 1), "closed with bytes unsent: {closed:?}");
        drop(client);
    }

    #[test]
    fn kernel_counters_by_name() {
        let text = "TcpExt: A ListenOverflows B\nTcpExt: 1 22 3\nIpExt: ListenOverflows\nIpExt: 4\n";
        assert_eq!(parse_netstat(text, "TcpExt:", "ListenOverflows"), Some(22));
        assert_eq!(parse_netstat(text, "TcpExt:", "C"), None);
        assert!(listen_overflows().is_some());
    }

    #[test]
    fn a_process_may_run_somewhere() {
        assert!(cpus_of(std::process::id()).is_some_and(|cpus| !cpus.is_empty()));
        assert_eq!(cpus_of(u32::MAX), None);
    }

    #[test]
    fn cpu_time_between_two_marks() {
        let mark = |process_ns, threads: &[(u32, u64)]| CpuMark {
            process_ns,
            threads_ns: threads.iter().copied().collect(),
        };
        let before = mark(10_000_000, &[(1, 5), (2, 10)]);
        assert_eq!(mark(20_000_000, &[(1, 7), (2, 10), (3, 1)]).since(&before), 3);
        assert_eq!(mark(20_000_000, &[(1, 7)]).since(&before), 10_000_000, "a thread has ended");
        assert_eq!(mark(30_000_000, &[(1, 7)]).since(&mark(10_000_000, &[])), 20_000_000);
        assert!(CpuMark::of(std::process::id()).is_some());
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
