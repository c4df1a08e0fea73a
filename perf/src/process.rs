//! What this process may do: open files, and the CPUs that it runs on.

use crate::options::BadOption;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::thread;

/// Descriptors of a process that are not watches: epolls, pipes, the writers, what the runtime holds.
const SPARE_DESCRIPTORS: u64 = 256;

/// Raises the soft limit of open files to the hard one, and returns it.
pub(crate) fn raise_nofile() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // Refused: the soft limit holds, and is what counts.
    let _refused = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

pub(crate) fn check_descriptors(watchers: u32, processes: u32, limit: u64) -> Result<(), BadOption> {
    let room = limit.saturating_sub(SPARE_DESCRIPTORS);
    let each = u64::from(watchers.div_ceil(processes));
    if each <= room {
        return Ok(());
    }
    let needed = each + SPARE_DESCRIPTORS;
    let mend = if room == 0 {
        "raise nofile (ulimit -n)".to_owned()
    } else {
        format!("use --processes {}", u64::from(watchers).div_ceil(room))
    };
    let mend = format!("{each} watchers need {needed} open files in a process, {limit} are allowed: {mend}");
    Err(BadOption::new("--watchers", watchers, mend))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_watchers_are_told_how_many_processes_they_need() {
        assert!(check_descriptors(19_000, 1, 20_000).is_ok());
        let bad = check_descriptors(50_000, 1, 20_000).expect_err("over the limit").to_string();
        assert_eq!(
            bad,
            r#"--watchers "50000": 50000 watchers need 50256 open files in a process, 20000 are allowed: use --processes 3"#
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
}
