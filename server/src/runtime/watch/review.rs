//! Which watches have their authorization or certificate checked again, some of them per turn.
//!
//! What they are checked against (rules and tokens, authorities) has a number. When it changes, all watches are visited once,
//! in the order of their slots; a watch that was admitted under another number than the current one is visited soon.

use std::collections::VecDeque;

/// Slots that are visited per turn, whether or not there is something to check.
const CHECKS: usize = 4096;

/// The state of the visits of all watches.
#[derive(Debug, Default)]
pub(super) struct Review {
    /// The number under which all were checked, except those that are left.
    number: u64,
    /// The next slot of the current visit.
    next: Option<usize>,
    late: VecDeque<usize>,
}

impl Review {
    /// For watches that begin under this number.
    pub(super) const fn new(number: u64) -> Self {
        Self { number, next: None, late: VecDeque::new() }
    }

    /// A watch begins that was admitted under this number.
    pub(super) fn begins(&mut self, slot: usize, number: u64) {
        if number != self.number {
            self.late.push_back(slot);
        }
    }

    /// Whether watches have to be checked, given the current number.
    pub(super) fn has_work(&self, number: u64) -> bool {
        number != self.number || self.next.is_some() || !self.late.is_empty()
    }

    /// Visits watches that have to be checked, until `most` were: `ask` returns whether there was something to check.
    pub(super) fn visit(
        &mut self,
        number: u64,
        slots: usize,
        most: usize,
        mut ask: impl FnMut(usize) -> bool,
    ) {
        if number != self.number {
            self.number = number;
            self.late.clear();
            self.next = Some(0);
        }
        let (mut checks, mut asked) = (0, 0);
        while checks < CHECKS && asked < most {
            let slot = match (&mut self.next, self.late.pop_front()) {
                (_, Some(slot)) => slot,
                (Some(next), None) if *next < slots => {
                    *next += 1;
                    *next - 1
                }
                (next, None) => {
                    *next = None;
                    return;
                }
            };
            checks += 1;
            asked += usize::from(ask(slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_asked_once_a_change_and_some_at_a_time() {
        let mut review = Review::new(1);
        assert!(!review.has_work(1));
        review.begins(3, 1);
        assert!(!review.has_work(1), "it was let in by what holds");
        let mut asked = Vec::new();
        while review.has_work(2) {
            let before = asked.len();
            review.visit(2, 10, 4, |slot| {
                asked.push(slot);
                true
            });
            assert!(asked.len() <= before + 4);
        }
        assert_eq!(asked, (0..10).collect::<Vec<_>>());
        // Admitted under the old number, after its slot was visited.
        review.begins(5, 1);
        assert!(review.has_work(2));
        asked.clear();
        review.visit(2, 10, 4, |slot| {
            asked.push(slot);
            true
        });
        assert_eq!(asked, [5]);
        assert!(!review.has_work(2));
    }

    #[test]
    fn what_has_nothing_to_ask_is_passed_over_in_large_steps() {
        let mut review = Review::new(0);
        let (mut turns, mut checks) = (0, 0);
        while review.has_work(1) {
            turns += 1;
            review.visit(1, 20_000, 4, |_| {
                checks += 1;
                false
            });
        }
        assert_eq!((checks, turns), (20_000, 5));
    }
}
