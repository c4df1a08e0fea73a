//! A scale: from values to pixels, and the values that get a tick. It never draws.

/// How values are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Linear,
    Log,
    /// Quantiles: each nine gets as much room as the one before. 99.999 % is the end.
    Percentile,
}

/// The last quantile that has a place.
pub(super) const QUANTILE_MAX: f64 = 0.999_99;
/// About so many ticks on a linear scale.
const TICKS: f64 = 7.0;

/// A scale between two pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
    from_px: f64,
    to_px: f64,
}

impl Scale {
    /// A scale that holds all the values: a linear one from zero on (or from below it), a log one from and to a 1, 2 or 5
    /// times a power of ten. Values that are no numbers, and on a log scale those that are not above zero, do not count.
    pub(super) fn new(kind: Kind, values: &[f64], from_px: f64, to_px: f64) -> Self {
        let counts = |value: &f64| value.is_finite() && (kind != Kind::Log || *value > 0.0);
        let (least, most) = values
            .iter()
            .copied()
            .filter(counts)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
                (least.min(value), most.max(value))
            });
        let any = least <= most;
        let (low, high) = match kind {
            Kind::Linear if any => linear_bounds(least.min(0.0), most.max(0.0)),
            Kind::Linear => (0.0, 1.0),
            Kind::Log if any => log_bounds(least, most),
            Kind::Log => (1.0, 10.0),
            Kind::Percentile => (0.0, if any { most.clamp(0.9, QUANTILE_MAX) } else { QUANTILE_MAX }),
        };
        Self { kind, low, high, from_px, to_px }
    }

    /// A linear scale from the first value to the last, as time has it.
    pub(super) fn exact(values: &[f64], from_px: f64, to_px: f64) -> Self {
        let high = values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
        Self { kind: Kind::Linear, low: 0.0, high: if high > 0.0 { high } else { 1.0 }, from_px, to_px }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn high(&self) -> f64 {
        self.high
    }

    /// The pixel of a value; values outside are put at the edge.
    pub(super) fn place(&self, value: f64) -> f64 {
        let (low, high) = (self.spread(self.low), self.spread(self.high));
        let share = (self.spread(value) - low) / (high - low);
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.from_px + share * (self.to_px - self.from_px)
    }

    fn spread(&self, value: f64) -> f64 {
        match self.kind {
            Kind::Linear => value,
            Kind::Log => value.max(f64::MIN_POSITIVE).log10(),
            Kind::Percentile => -(1.0 - value.clamp(0.0, QUANTILE_MAX)).log10(),
        }
    }

    /// The values that get a tick, ascending: 1, 2 and 5 times powers of ten.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.kind {
            Kind::Linear => linear_ticks(self.low, self.high, 1.0),
            Kind::Log => log_ticks(self.low, self.high),
            Kind::Percentile => {
                let nines = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, QUANTILE_MAX];
                nines.into_iter().filter(|&quantile| quantile <= self.high + 1e-9).collect()
            }
        }
    }

    /// Linear ticks that are round in a unit: 0, 512 and 1024 bytes are 0, 0.5 and 1 KiB.
    pub(super) fn ticks_in(&self, unit: f64) -> Vec<f64> {
        if self.kind == Kind::Linear { linear_ticks(self.low, self.high, unit) } else { self.ticks() }
    }
}

fn linear_ticks(low: f64, high: f64, unit: f64) -> Vec<f64> {
    let (low, high) = (low / unit, high / unit);
    let step = nice_step((high - low) / TICKS);
    let mut ticks = Vec::new();
    let mut number = (low / step - 1e-9).ceil();
    while number * step <= high + step * 1e-9 && ticks.len() < 20 {
        // Not -0.
        ticks.push((number * step + 0.0) * unit);
        number += 1.0;
    }
    ticks
}

fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (high / low).log10();
    let mantissas: &[f64] = if decades <= 3.01 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    // Powers of ten in steps, where there are very many.
    let every = (decades / 8.0).ceil().max(1.0);
    let mut ticks = Vec::new();
    let mut power = (low.log10() - 1e-9).floor();
    while power <= high.log10() + 1e-9 {
        let all = mantissas.iter().map(|mantissa| mantissa * 10_f64.powf(power));
        ticks.extend(all.filter(|tick| *tick >= low * (1.0 - 1e-9) && *tick <= high * (1.0 + 1e-9)));
        power += every;
    }
    ticks
}

/// The least of 1, 2 and 5 times a power of ten that is not below `least`.
pub(super) fn nice_step(least: f64) -> f64 {
    if !least.is_finite() || least <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(least.log10().floor());
    let fits = [1.0, 2.0, 5.0, 10.0].into_iter().find(|mantissa| mantissa * power >= least * (1.0 - 1e-9));
    fits.unwrap_or(10.0) * power
}

fn linear_bounds(least: f64, most: f64) -> (f64, f64) {
    if least >= most {
        return (0.0, 1.0);
    }
    let step = nice_step((most - least) / TICKS) / 2.0;
    ((least / step).floor() * step, (most / step * 1.02).ceil() * step)
}

fn log_bounds(least: f64, most: f64) -> (f64, f64) {
    // A single value stands in the middle.
    let (least, most) = if most / least < 1.5 { (least / 2.0, most * 2.0) } else { (least, most) };
    let below = 1.0 / nice_step(1.0 / least);
    (below, nice_step(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: &[f64], wanted: &[f64]) {
        let same = found.len() == wanted.len()
            && found.iter().zip(wanted).all(|(a, b)| (a - b).abs() <= b.abs() * 1e-9);
        assert!(same, "{found:?} is not {wanted:?}");
    }

    #[test]
    fn steps_are_1_2_5() {
        near(
            &[0.9, 1.0, 1.1, 2.1, 5.1, 0.03, 3000.0].map(nice_step),
            &[1.0, 1.0, 2.0, 5.0, 10.0, 0.05, 5000.0],
        );
        assert_eq!([0.0, -1.0, f64::NAN, f64::INFINITY].map(nice_step), [1.0; 4]);
    }

    #[test]
    fn linear_scales_begin_at_zero_and_hold_all() {
        let scale = Scale::new(Kind::Linear, &[3.0, 94.0], 0.0, 100.0);
        near(&scale.ticks(), &[0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(scale.place(0.0), 0.0);
        assert!((scale.place(50.0) - 50.0).abs() < 1e-9);
        let below = Scale::new(Kind::Linear, &[-30.0, 40.0], 100.0, 0.0);
        near(&below.ticks(), &[-20.0, 0.0, 20.0, 40.0]);
        assert!(below.place(-30.0) > below.place(40.0), "pixels may run downwards");
        near(
            &Scale::new(Kind::Linear, &[4096.0], 0.0, 1.0).ticks_in(1024.0),
            &[0.0, 1024.0, 2048.0, 3072.0, 4096.0],
        );
    }

    #[test]
    fn log_scales_run_from_1_2_5_to_1_2_5() {
        let scale = Scale::new(Kind::Log, &[100.0, 1000.0, 10_000.0, 19_000.0, 0.0, -5.0], 0.0, 300.0);
        near(&scale.ticks(), &[100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4]);
        let wide = Scale::new(Kind::Log, &[1.0, 1e6], 0.0, 600.0);
        near(&wide.ticks(), &[1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
        assert!((wide.place(1e3) - 300.0).abs() < 1e-9);
        let one = Scale::new(Kind::Log, &[1000.0], 0.0, 100.0);
        assert!((one.place(1000.0) - 50.0).abs() < 5.0, "one value stands in the middle");
        assert!(Scale::new(Kind::Log, &[1e-9, 1e30], 0.0, 1.0).ticks().len() < 12);
    }

    #[test]
    fn each_nine_gets_the_same_room() {
        let scale = Scale::new(Kind::Percentile, &[0.0, QUANTILE_MAX], 0.0, 500.0);
        let places = [0.0, 0.9, 0.99, 0.999, 0.9999, 0.99999].map(|quantile| scale.place(quantile));
        for (place, wanted) in places.into_iter().zip([0.0, 100.0, 200.0, 300.0, 400.0, 500.0]) {
            assert!((place - wanted).abs() < 1e-6, "{places:?}");
        }
        assert_eq!(scale.place(1.0), 500.0);
        assert_eq!(scale.ticks().len(), 7);
    }

    #[test]
    fn odd_values_have_a_scale_all_the_same() {
        for kind in [Kind::Linear, Kind::Log, Kind::Percentile] {
            for values in [&[][..], &[0.0], &[f64::NAN], &[f64::INFINITY, 1.0], &[-1.0], &[1e300, 1e-300]] {
                let scale = Scale::new(kind, values, 10.0, 20.0);
                let ticks = scale.ticks();
                assert!(ticks.len() <= 20, "{kind:?} {values:?}");
                for value in ticks.iter().chain(values) {
                    assert!((10.0..=20.0).contains(&scale.place(*value)), "{kind:?} {values:?} {value}");
                }
            }
        }
        assert_eq!(Scale::exact(&[], 0.0, 1.0).high(), 1.0);
    }
}
