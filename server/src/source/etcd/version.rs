//! Which versions of etcd report the progress of a watch reliably.

/// Whether the answer to a request for progress is ordered with the events, and comes at all: fixed in 3.4.25 and 3.5.8
/// (#15220), and for watches that never had an event in 3.4.31 and 3.5.13 (PR 17566). And whether a watch that resumes at the
/// compacted revision is sent a delete there: fixed in 3.4.36 and 3.5.18 (PR 19249), so those are the bounds. A version that
/// cannot be parsed counts as unreliable.
pub(super) fn tells_progress(version: &str) -> bool {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor)), Some(Some(patch))) =
        (parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    match (major, minor) {
        (3, 4) => patch >= 36,
        (3, 5) => patch >= 18,
        (major, minor) => (major, minor) >= (3, 6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_apart() {
        for (version, tells) in [
            ("3.4.23", false),
            ("3.4.35", false),
            ("3.4.36", true),
            ("3.5.1", false),
            ("3.5.17", false),
            ("3.5.18", true),
            ("3.3.99", false),
            ("3.6.0-rc.1", true),
            ("3.7.2", true),
            ("4.0.0", true),
            ("", false),
            ("3.5", false),
            ("latest", false),
        ] {
            assert_eq!(tells_progress(version), tells, "{version}");
        }
    }
}
