//! Processes: what this one may do (open files, CPUs), and what /proc tells of others: CPU time, memory, descriptors, listeners.

use crate::clock::nanos;
use crate::options::BadOption;
use procfs::net::{TcpNetEntry, TcpState, tcp, tcp6};
use procfs::process::{FDTarget, Process, Status};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;
use std::{fs, thread};

/// Descriptors of a process that are not watches: epolls, pipes, the writers, what the runtime holds.
const SPARE_DESCRIPTORS: u64 = 256;

/// Raises the soft limit of open files to the hard one, and returns it.
pub(crate) fn raise_nofile() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // Refused: the soft limit holds, and is what counts.
    let _refused = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

pub(crate) fn check_descriptors(connections: u32, processes: u32, limit: u64) -> Result<(), BadOption> {
    let room = limit.saturating_sub(SPARE_DESCRIPTORS);
    let each = u64::from(connections.div_ceil(processes));
    if each <= room {
        return Ok(());
    }
    let needed = each + SPARE_DESCRIPTORS;
    let mend = if room == 0 {
        "raise nofile (ulimit -n)".to_owned()
    } else {
        format!("use --processes {}", u64::from(connections).div_ceil(room))
    };
    let mend =
        format!("{each} connections need {needed} open files in a process, {limit} are allowed: {mend}");
    Err(BadOption::new("--watchers", connections, mend))
}

/// Binds this thread, and all that it starts from here on, to some CPUs.
pub(crate) fn pin(cpus: &[usize]) -> Result<(), BadOption> {
    let shown = cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    pin_to(cpus).map_err(|fault| BadOption::new("--client-cpu", shown, format!("not allowed: {fault}")))
}

/// The same; an empty list changes nothing.
pub(crate) fn pin_to(cpus: &[usize]) -> Result<(), rustix::io::Errno> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(None, &set)
}

pub(crate) fn cpu_count(cpus: &[usize]) -> usize {
    if cpus.is_empty() { thread::available_parallelism().map_or(1, Into::into) } else { cpus.len() }
}

/// The CPUs of the server's side: those that were named, else the first that is not one of `client_cpus`, or any.
pub(crate) fn server_cpus(named: &[usize], client_cpus: &[usize]) -> Vec<usize> {
    if !named.is_empty() || client_cpus.is_empty() {
        return named.to_vec();
    }
    // What this process may run on is counted before it is pinned; numbers may have holes above that.
    let most = cpu_count(&[]).max(client_cpus.len() + 1);
    (0..most).find(|cpu| !client_cpus.contains(cpu)).into_iter().collect()
}

fn process(pid: u32) -> Option<Process> {
    Process::new(i32::try_from(pid).ok()?).ok()
}

/// CPU time of process `pid`, ns: user and system, all threads, also ended ones.
pub(crate) fn cpu_ns(pid: u32) -> Option<u64> {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).ok()?);
    let used = nix::time::clock_getcpuclockid(pid).and_then(nix::time::ClockId::now).ok()?;
    Some(nanos(Duration::from(used)))
}

pub(crate) fn cpus_of(pid: u32) -> Option<Vec<usize>> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
    let set = rustix::thread::sched_getaffinity(Some(pid)).ok()?;
    Some((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

fn kib(pid: u32, of: impl Fn(Status) -> Option<u64>) -> Option<u64> {
    of(process(pid)?.status().ok()?)?.checked_mul(1024)
}

pub(crate) fn rss_bytes(pid: u32) -> Option<u64> {
    kib(pid, |status| status.vmrss)
}

/// Resident memory of process `pid` that no file backs: what it allocated itself, bytes. Socket buffers are the kernel's.
pub(crate) fn anon_bytes(pid: u32) -> Option<u64> {
    kib(pid, |status| status.rssanon)
}

/// The most resident memory of process `pid` is from now on counted anew (proc_pid_clear_refs(5)), where that is allowed.
pub(crate) fn forget_peak_rss(pid: u32) -> Option<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").ok()
}

pub(crate) fn peak_rss_bytes(pid: u32) -> Option<u64> {
    kib(pid, |status| status.vmhwm)
}

pub(crate) fn open_fds(pid: u32) -> Option<u64> {
    Some(process(pid)?.fd_count().ok()? as u64)
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
    let table = if address.is_ipv4() { tcp() } else { tcp6() }.ok()?;
    let mut held = Held::default();
    // The kernel writes its table in parts, and repeats a connection when others open between two of them.
    let mut seen = HashSet::new();
    // TIME_WAIT waits for the last segments of a connection that is over.
    let connections = table
        .iter()
        .filter(|entry| !matches!(entry.state, TcpState::Listen | TcpState::TimeWait))
        .filter(|entry| seen.insert((entry.local_address, entry.remote_address)));
    for entry in connections {
        if is_at(entry.local_address, address) {
            held.connections += 1;
            // Closed here, and not all of it is acknowledged.
            let closing = matches!(entry.state, TcpState::FinWait1 | TcpState::LastAck | TcpState::Closing);
            held.closing += u64::from(closing);
            held.unsent_bytes += u64::from(entry.tx_queue);
        } else if is_at(entry.remote_address, address) {
            held.unread_bytes += u64::from(entry.rx_queue);
        }
    }
    Some(held)
}

/// The same port and IP address; an IPv4 address may be mapped into IPv6.
fn is_at(end: SocketAddr, address: SocketAddr) -> bool {
    end.port() == address.port() && end.ip().to_canonical() == address.ip().to_canonical()
}

/// Connections that came while the queue of their listener was full: the client sends its SYN again one second later.
pub(crate) fn listen_overflows() -> Option<u64> {
    parse_netstat(&fs::read_to_string("/proc/net/netstat").ok()?, "TcpExt:", "ListenOverflows")
}

/// A line of names and a line of numbers, each after the same word.
fn parse_netstat(text: &str, word: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(word));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let at = names.split_ascii_whitespace().position(|one| one == name)?;
    crate::stamp::decimal(numbers.split_ascii_whitespace().nth(at)?.as_bytes())
}

/// The process that listens at a loopback address. `None`: there is none, or it belongs to someone else.
pub(crate) fn listener(address: SocketAddr) -> Option<u32> {
    let listens = |entry: &TcpNetEntry| {
        let at = entry.local_address;
        let everywhere = at.ip().is_unspecified() && at.port() == address.port();
        entry.state == TcpState::Listen && (everywhere || is_at(at, address))
    };
    let tables = [tcp(), tcp6()].into_iter().flatten().flatten();
    let inodes: Vec<u64> = tables.filter(listens).map(|entry| entry.inode).collect();
    let has_one = |process: &Process| {
        let mut descriptors = process.fd().into_iter().flatten().flatten();
        descriptors.any(|fd| matches!(fd.target, FDTarget::Socket(inode) if inodes.contains(&inode)))
    };
    let processes = procfs::process::all_processes().ok()?.flatten();
    processes.filter(has_one).filter_map(|process| u32::try_from(process.pid).ok()).min()
}

/// The command line of a process; `None` where there is none, or it belongs to someone else.
pub(crate) fn command_of(pid: u32) -> Option<String> {
    let raw = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    show_command(&String::from_utf8_lossy(&raw))
}

/// As a shell takes it, the program without its folder.
fn show_command(raw: &str) -> Option<String> {
    let mut words = raw.strip_suffix('\0')?.split('\0');
    let program = words.next()?.rsplit('/').next()?;
    Some(shell_words::join(std::iter::once(program).chain(words)))
}

/// The name of a process: its program's first 15 bytes.
pub(crate) fn name_of(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::thread;

    #[test]
    fn too_many_watchers_are_told_how_many_processes_they_need() {
        assert!(check_descriptors(19_000, 1, 20_000).is_ok());
        let bad = check_descriptors(50_000, 1, 20_000).expect_err("over the limit").to_string();
        assert_eq!(
            bad,
            r#"--watchers "50000": 50000 connections need 50256 open files in a process, 20000 are allowed: use --processes 3"#
        );
        assert!(check_descriptors(50_000, 3, 20_000).is_ok());
        assert!(check_descriptors(1, 1, 100).is_err_and(|bad| bad.to_string().contains("ulimit")));
    }

    #[test]
    fn the_sender_keeps_away_from_the_clients() {
        assert_eq!(server_cpus(&[], &[1]), [0]);
        assert_eq!(server_cpus(&[], &[0]), [1]);
        assert_eq!(server_cpus(&[], &[0, 1, 3]), [2]);
        assert_eq!(server_cpus(&[5, 6], &[1]), [5, 6]);
        assert!(server_cpus(&[], &[]).is_empty(), "nothing is pinned");
    }

    #[test]
    fn this_process_has_memory_and_cpus_and_uses_time() {
        let own = std::process::id();
        // In this order: other tests of this process allocate meanwhile.
        let resident = rss_bytes(own);
        assert!(peak_rss_bytes(own) >= resident);
        assert!(resident > Some(100_000) && anon_bytes(own) > Some(10_000));
        assert!(cpus_of(own).is_some_and(|cpus| !cpus.is_empty()));
        let before = cpu_ns(own);
        let work = || (0..1_000_000).fold(1u64, |sum, number| sum.rotate_left(7) ^ number);
        assert_ne!(thread::spawn(work).join().expect("it only counts"), 0);
        assert!(cpu_ns(own) > before, "of a thread that has ended too");
        assert_eq!((cpu_ns(u32::MAX), cpus_of(u32::MAX), rss_bytes(u32::MAX)), (None, None, None));
    }

    #[test]
    fn command_lines_can_be_pasted() {
        let shown = show_command("/opt/x/revcast\0serve\0--name\0a b\0it's\0\0");
        assert_eq!(shown.as_deref(), Some(r"revcast serve --name 'a b' 'it'\''s' ''"));
        assert!(command_of(std::process::id()).is_some_and(|own| own.starts_with("revcast_perf-")));
        assert!(name_of(std::process::id()).is_some_and(|name| name.len() <= 15));
        assert_eq!((command_of(u32::MAX), name_of(u32::MAX)), (None, None));
    }

    #[test]
    fn what_is_unread_and_unsent_is_found() {
        let listening = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listening.local_addr().expect("bound");
        let look = || held(address).expect("readable");
        assert_eq!(look(), Held::default(), "a listener holds nothing");
        let _client = TcpStream::connect(address).expect("it listens");
        let (mut server, _) = listening.accept().expect("connected");
        server.write_all(&[7; 1000]).expect("room for 1,000 bytes");
        let unread = Held { connections: 1, closing: 0, unsent_bytes: 0, unread_bytes: 1000 };
        let arrives = |_| {
            thread::sleep(Duration::from_millis(10));
            look() == unread
        };
        assert!((0..100).any(arrives), "{:?}", look());
        server.set_nonblocking(true).expect("a socket can be");
        while server.write(&[7; 100_000]).is_ok() {}
        let full = look();
        assert!(full.unsent_bytes > 0 && full.unread_bytes > 1000, "{full:?}");
        drop(server);
        let closed = look();
        assert_eq!((closed.connections, closed.closing), (1, 1), "closed with bytes unsent: {closed:?}");
    }

    #[test]
    fn kernel_counters_by_name() {
        let text = "TcpExt: A ListenOverflows B\nTcpExt: 1 22 3\nIpExt: ListenOverflows\nIpExt: 4\n";
        assert_eq!(parse_netstat(text, "TcpExt:", "ListenOverflows"), Some(22));
        assert_eq!(parse_netstat(text, "TcpExt:", "C"), None);
        assert!(listen_overflows().is_some());
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
