//! Which watches are asked again whether they may go on, some of them a turn.
//!
//! What they are asked against (rules and tokens, authorities) has a number. When it changes, all watches are visited once, in
//! the order of their slots; a watch that was let in by another number than the one that is visited is visited soon.

use std::collections::VecDeque;

/// Slots that are looked at in one go, whether or not there is something to ask.
const LOOKS: usize = 4096;

/// One visit of all watches after another.
#[derive(Debug, Default)]
pub(super) struct Review {
    /// The number that all were asked by, but those that are left.
    number: u64,
    /// The next slot of the visit under way.
    next: Option<usize>,
    late: VecDeque<usize>,
}

impl Review {
    /// For watches that begin under this number.
    pub(super) const fn new(number: u64) -> Self {
        Self { number, next: None, late: VecDeque::new() }
    }

    /// A watch begins that was let in by this number.
    pub(super) fn begins(&mut self, slot: usize, number: u64) {
        if number != self.number {
            self.late.push_back(slot);
        }
    }

    /// Whether somebody is to be asked, now that the number is this one.
    pub(super) fn has_work(&self, number: u64) -> bool {
        number != self.number || self.next.is_some() || !self.late.is_empty()
    }

    /// Visits some of those that are to be asked, until `most` were: `ask` says whether there was something to ask.
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
        let (mut looks, mut asked) = (0, 0);
        while looks < LOOKS && asked < most {
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
            looks += 1;
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
        // Let in by the old number, after its slot was visited.
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
        let (mut turns, mut looks) = (0, 0);
        while review.has_work(1) {
            turns += 1;
            review.visit(1, 20_000, 4, |_| {
                looks += 1;
                false
            });
        }
        assert_eq!((looks, turns), (20_000, 5));
    }
}
