//! A number that several rounds measured: the middle one, and between which it lay.

use serde::{Deserialize, Serialize};

/// Median, least and most of at least one number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Of what was measured; `None`: nothing was. Of an even number of rounds the two in the middle are averaged.
    pub(crate) fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().filter(|number| number.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (&least, &most) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Some(Self { median, least, most })
    }

    /// `4.12 (4.00..4.50)`, each number as `show` writes it; one where all are the same.
    pub(crate) fn show(&self, show: impl Fn(f64) -> String) -> String {
        if self.least == self.most {
            return show(self.median);
        }
        format!("{} ({}..{})", show(self.median), show(self.least), show(self.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_ends() {
        let spread = Spread::of([3.0, 1.0, f64::NAN, 10.0]).expect("three numbers");
        assert_eq!(spread, Spread { median: 3.0, least: 1.0, most: 10.0 });
        assert_eq!(Spread::of([1.0, 2.0]).map(|spread| spread.median), Some(1.5));
        assert_eq!(Spread::of([f64::NAN]), None);
        let show = |spread: Spread| spread.show(|number| format!("{number:.1}"));
        assert_eq!(
            (show(spread), show(Spread { least: 3.0, most: 3.0, ..spread })),
            ("3.0 (1.0..10.0)".into(), "3.0".into())
        );
    }
}
