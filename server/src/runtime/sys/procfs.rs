//! What `/proc/self` reports about this process. What cannot be read is `None`.

/// Bytes of memory: resident, and virtual.
pub(in crate::runtime) fn memory() -> Option<(u64, u64)> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    Some((kilobytes("VmRSS:")? << 10, kilobytes("VmSize:")? << 10))
}

/// Open descriptors. Kernels from 6.2 on report the number; with older ones they are counted one by one.
pub(in crate::runtime) fn descriptors() -> Option<u64> {
    const FOLDER: &str = "/proc/self/fd";
    match std::fs::metadata(FOLDER).ok()?.len() {
        // One of them is the descriptor of the directory that is read.
        0 => Some((std::fs::read_dir(FOLDER).ok()?.count() as u64).saturating_sub(1)),
        count => Some(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_knows_itself() {
        let (resident, all) = memory().expect("on every Linux");
        assert!(resident > 1 << 20 && all >= resident, "{resident} of {all}");
        let before = descriptors().expect("on every Linux");
        let files: Vec<_> = (0..64).map(|_| std::fs::File::open("/dev/null").expect("a file")).collect();
        let during = descriptors().expect("on every Linux");
        // Other tests of this process open and close some meanwhile.
        assert!(during + 16 > before + files.len() as u64, "{before} and 64 more are {during}");
    }
}
