//! How many tests ran, parsed from the output of the test programs.

/// Tests and benchmarks seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Benchmarks that criterion ran once.
    pub(crate) benchmarks: u64,
    /// Deliveries that the tests of etcd's faults checked.
    pub(crate) deliveries: u64,
    /// Test programs that began, and those that finished.
    pub(crate) programs_begun: u64,
    pub(crate) programs_ended: u64,
}

impl Tally {
    /// Takes one line: `test result: ok. 12 passed; 0 failed; ...` of a test program, criterion's `Testing NAME`, or
    /// `faults: etcd 3.4 killed: 12 deliveries checked ...`.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.programs_ended += 1;
            self.passed += counted(result, "passed");
            self.failed += counted(result, "failed");
        } else if line.starts_with("running ") && line.ends_with(" tests") || line == "running 1 test" {
            self.programs_begun += 1;
        } else if line.starts_with("Testing ") {
            self.benchmarks += 1;
        } else if let Some((_, run)) = line.split_once("faults: etcd ") {
            self.deliveries += counted(run, "deliveries");
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.benchmarks += other.benchmarks;
        self.deliveries += other.deliveries;
        self.programs_begun += other.programs_begun;
        self.programs_ended += other.programs_ended;
    }
}

/// The failed test in this line: `test signals::a_second_signal ... FAILED`.
pub(crate) fn failed_test(line: &str) -> Option<&str> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    Some(name.strip_suffix(" - should panic").unwrap_or(name))
}

/// The number before `word` in `ok. 12 passed; 0 failed; 0 ignored`.
fn counted(result: &str, word: &str) -> u64 {
    let words: Vec<&str> = result.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
    let pair = words.windows(2).find(|pair| pair[1] == word);
    pair.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Tally, failed_test};

    #[test]
    fn failed_tests_are_named() {
        assert_eq!(failed_test("test signals::a_second_signal ... FAILED"), Some("signals::a_second_signal"));
        assert_eq!(failed_test("test a_flaw_shows - should panic ... FAILED"), Some("a_flaw_shows"));
        assert_eq!(failed_test("test signals::a_second_signal ... ok"), None);
        assert_eq!(failed_test("test result: FAILED. 1 passed; 2 failed; 0 ignored"), None);
    }

    #[test]
    fn results_add_up() {
        let mut tally = Tally::default();
        for line in [
            "running 14 tests",
            "running 1 test",
            "running out of words",
            "test ring::tests::a ... ok",
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.02s",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "Testing ring/push",
            "Success",
            ".faults: etcd 3.4 killed: 120 deliveries checked of 9 writes; 120 deliveries so far",
            "faults: etcd 3.5 killed: 7 deliveries checked of 9 writes; 127 deliveries so far",
            "not a test result: ok. 5 passed; 0 failed",
        ] {
            tally.read(line);
        }
        assert_eq!(
            tally,
            Tally {
                passed: 13,
                failed: 2,
                benchmarks: 1,
                deliveries: 127,
                programs_begun: 2,
                programs_ended: 2
            }
        );
    }
}
