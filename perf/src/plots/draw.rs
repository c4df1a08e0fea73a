//! One plot as SVG, by `plotters`: lines with what spreads around them. It never reads a record: a plot is given points.

use crate::table::Spread;
use crate::units::Unit;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use std::ops::Range;

const WIDTH: u32 = 640;
const HEIGHT: u32 = 360;
const NAME_HEIGHT: u32 = 18;
/// A log axis where the largest value is so many times the least.
const LOG_FROM: f64 = 30.0;
const COLOURS: [u32; 8] =
    [0x001f_7fd0, 0x00e0_6a10, 0x0010_a078, 0x00c0_5fa6, 0x00c4_8700, 0x003a_9bd1, 0x008a_66d0, 0x009a_7a30];
const FLOOR_COLOURS: [u32; 3] = [0x0080_868c, 0x00b5_9f8a, 0x0050_6a70];

/// A measured point: the median, and the least and the most of the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: Spread,
}

#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) floor: bool,
    /// Among its kind: decides its colour.
    pub(super) place: usize,
    pub(super) points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// Points are marked, with bars from the least to the most; elsewhere a band reaches over the line.
    Watchers,
    Quantiles,
    Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Linear,
    Log,
    /// Quantiles: each nine gets as much room as the one before.
    Nines,
}

#[derive(Clone, Debug)]
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) over: Over,
    pub(super) y_unit: Unit,
    pub(super) lines: Vec<Line>,
}

/// An axis: where it begins and ends, and its ticks with their labels, in coordinates of the scale.
#[derive(Clone, Debug)]
struct Axis {
    range: Range<f64>,
    ticks: Vec<(f64, String)>,
    title: String,
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.max(f64::MIN_POSITIVE).log10(),
            Self::Nines => -(1.0 - value.min(0.999_999)).log10(),
        }
    }
}

impl Axis {
    fn new(scale: Scale, unit: Unit, words: &str, values: impl Iterator<Item = f64> + Clone) -> Self {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let most = values.fold(0.0, f64::max);
        // On a linear axis all ticks share one unit.
        let (size, shared) = if scale == Scale::Linear { unit.scale(most) } else { (1.0, "") };
        let (low, high, ticks) = match scale {
            Scale::Linear => {
                let high = if most > 0.0 { most * 1.05 } else { size };
                let ticks = RangedCoordf64::from(0.0..high / size).key_points(7);
                (0.0, high, ticks.into_iter().map(|tick| tick * size).collect())
            }
            Scale::Log => {
                let low = if least > 0.0 && least.is_finite() { least / 1.3 } else { 0.1 };
                let high = most.max(low * 2.0) * 1.3;
                (low, high, log_ticks(low, high))
            }
            Scale::Nines => (0.0, most.max(0.9) + 1e-9, vec![0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999]),
        };
        let label = |tick: f64| match scale {
            Scale::Linear => {
                format!("{:.3}", tick / size).trim_end_matches('0').trim_end_matches('.').to_owned()
            }
            Scale::Log | Scale::Nines => unit.show(tick),
        };
        let inside = ticks.into_iter().filter(|tick| (low..=high).contains(tick));
        Self {
            range: scale.place(low)..scale.place(high),
            ticks: inside.map(|tick| (scale.place(tick), label(tick))).collect(),
            title: [words, shared].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", "),
        }
    }

    fn label(&self, at: f64) -> String {
        let tick = self.ticks.iter().find(|(place, _)| (place - at).abs() < 1e-9);
        tick.map_or_else(String::new, |(_, label)| label.clone())
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.range.clone()).map(place, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|(place, _)| *place).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// 1, 2 and 5 times powers of ten; over many decades the powers alone.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let mantissas: &[f64] = if (high / low).log10() <= 3.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let powers = (-12..=24).map(|exponent| 10_f64.powi(exponent));
    let ticks = powers.flat_map(|power| mantissas.iter().map(move |mantissa| mantissa * power));
    ticks.filter(|tick| (low..=high).contains(tick)).collect()
}

impl Plot {
    /// For the page, whose text has the reader's colour.
    pub(super) fn inline(&self) -> String {
        self.svg(TRANSPARENT).replace("#000000", "currentColor")
    }

    /// For a page of somebody else: on white.
    pub(super) fn standalone(&self) -> String {
        self.svg(WHITE.to_rgba())
    }

    fn svg(&self, ground: RGBAColor) -> String {
        let mut svg = String::new();
        let names = NAME_HEIGHT * u32::try_from(self.lines.len()).unwrap_or(0);
        let drawn = self.draw(SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT + names)), ground);
        drawn.map_or_else(|fault| format!("<!-- {} -->", fault.to_string().replace("--", "-")), |()| svg)
    }

    fn draw<'a>(&self, backend: SVGBackend<'a>, ground: RGBAColor) -> Drawn<'a> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let ys = points().flat_map(|point| [point.y.least, point.y.median, point.y.most]);
        let (x_scale, x_unit, words) = match self.over {
            Over::Watchers => (Scale::Log, Unit::Count, "Watchers"),
            Over::Quantiles => (Scale::Nines, Unit::Quantile, "Percentile"),
            Over::Time => (Scale::Linear, Unit::Seconds, "Time since the run began"),
        };
        let x_axis = Axis::new(x_scale, x_unit, words, points().map(|point| point.x));
        let y_scale = scale_of(ys.clone());
        let y_axis = Axis::new(y_scale, self.y_unit, "", ys);
        let root = backend.into_drawing_area();
        root.fill(&ground)?;
        let root = root.titled(&self.title, ("sans-serif", 20))?;
        let (names, root) = root.split_vertically(NAME_HEIGHT * u32::try_from(self.lines.len()).unwrap_or(0));
        for (line, y) in self.lines.iter().zip((0..).step_by(NAME_HEIGHT as usize)) {
            let style = ("sans-serif", 15).into_font().color(&line.colour());
            names.draw(&Text::new(line.name.clone(), (90, y), style))?;
        }
        let mut chart = ChartBuilder::on(&root)
            .margin(10)
            .x_label_area_size(42)
            .y_label_area_size(72)
            .build_cartesian_2d(x_axis.clone(), y_axis.clone())?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.14))
            .axis_style(BLACK.mix(0.4))
            .label_style(("sans-serif", 15))
            .x_label_formatter(&|at| x_axis.label(*at))
            .y_label_formatter(&|at| y_axis.label(*at))
            .x_desc(x_axis.title.clone())
            .y_desc(y_axis.title.clone())
            .draw()?;
        for line in &self.lines {
            let colour = line.colour();
            let at = |of: fn(&Spread) -> f64| {
                let place = move |point: &Point| (x_scale.place(point.x), y_scale.place(of(&point.y)));
                line.points.iter().map(place)
            };
            let (least, median, most) = (at(|y| y.least), at(|y| y.median), at(|y| y.most));
            if self.over == Over::Watchers {
                let bars = least.zip(median.clone()).zip(most);
                chart.draw_series(bars.map(|((least, (x, median)), most)| {
                    ErrorBar::new_vertical(x, least.1, median, most.1, colour.filled(), 8)
                }))?;
            } else {
                let band = Polygon::new(most.chain(least.rev()).collect::<Vec<_>>(), colour.mix(0.16));
                chart.draw_series([band])?;
            }
            let style = colour.stroke_width(2);
            if line.floor || line.place >= COLOURS.len() {
                chart.draw_series(DashedLineSeries::new(median, 6, 4, style))?;
            } else {
                chart.draw_series(LineSeries::new(median, style))?;
            }
        }
        root.present()
    }
}

type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

impl Line {
    /// The colour of a subject is the same in every plot.
    fn colour(&self) -> RGBColor {
        let colours = if self.floor { &FLOOR_COLOURS[..] } else { &COLOURS };
        let colour = colours[self.place % colours.len()];
        let [_, red, green, blue] = colour.to_be_bytes();
        RGBColor(red, green, blue)
    }
}

/// A log axis for values that are far apart, where none is zero or below.
fn scale_of(values: impl Iterator<Item = f64> + Clone) -> Scale {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(0.0, f64::max);
    if least > 0.0 && most / least >= LOG_FROM { Scale::Log } else { Scale::Linear }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let axis = Axis::new(Scale::Linear, Unit::Bytes, "Memory", [4096.0].into_iter());
        assert_eq!((axis.label(2048.0).as_str(), axis.title.as_str()), ("2", "Memory, KiB"));
        let axis = Axis::new(Scale::Log, Unit::Count, "", [100.0, 19_000.0].into_iter());
        let labels: Vec<&str> = axis.ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["100", "200", "500", "1,000", "2,000", "5,000", "10,000", "20,000"]);
        assert_eq!(log_ticks(0.5, 1e6).len(), 7);
        assert_eq!(scale_of([1.0, 30.0].into_iter()), Scale::Log);
        assert_eq!(scale_of([0.0, 30.0].into_iter()), Scale::Linear);
    }
}
