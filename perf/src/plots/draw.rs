//! One plot as SVG, by `plotters`: lines with what spreads around them, labelled where they end. It never reads a record: a
//! plot is given points.

use crate::spread::Spread;
use crate::units::Unit;
use plotters::coord::combinators::LogCoord;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use std::ops::Range;

const SIZE: (u32, u32) = (640, 330);
const NAMES_WIDTH: u32 = 140;
const NAME_CHARS_MAX: usize = 18;
const NAME_STEP: i32 = 14;
/// A log axis where the largest value is so many times the least.
const LOG_FROM: f64 = 30.0;
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x1f, 0x7f, 0xd0),
    RGBColor(0xe0, 0x6a, 0x10),
    RGBColor(0x10, 0xa0, 0x78),
    RGBColor(0xc0, 0x5f, 0xa6),
    RGBColor(0xc4, 0x87, 0x00),
    RGBColor(0x3a, 0x9b, 0xd1),
    RGBColor(0x8a, 0x66, 0xd0),
    RGBColor(0x9a, 0x7a, 0x30),
];
const FLOOR_COLOUR: RGBColor = RGBColor(0x80, 0x86, 0x8c);

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
pub(super) enum Scale {
    Linear,
    Log,
    /// Quantiles: each nine gets as much room as the one before.
    Nines,
}

#[derive(Clone, Debug)]
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) x_label: &'static str,
    pub(super) x_unit: Unit,
    pub(super) x_scale: Scale,
    pub(super) y_unit: Unit,
    /// Points are marked, with bars from the least to the most; else a band reaches over the line.
    pub(super) markers: bool,
    pub(super) lines: Vec<Line>,
}

/// An axis: which values it has, which of them get a tick, and in which unit they are written.
#[derive(Clone)]
struct Axis {
    scale: Scale,
    range: Range<f64>,
    ticks: Vec<f64>,
    unit: Unit,
    /// On a linear axis all ticks share one unit: its size and its name.
    shared: (f64, &'static str),
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let range = self.place(self.range.start)..self.place(self.range.end);
        RangedCoordf64::from(range).map(&self.place(*value), limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        if self.scale != Scale::Linear {
            return self.unit.show(*value);
        }
        let text = format!("{:.3}", value / self.shared.0);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

impl Axis {
    fn new(scale: Scale, unit: Unit, values: impl Iterator<Item = f64> + Clone) -> Self {
        let (least, most) = values.fold((f64::INFINITY, 0.0), |(least, most), value| {
            (f64::min(least, value), f64::max(most, value))
        });
        let shared = unit.scale(most);
        let (low, high, ticks) = match scale {
            Scale::Linear => {
                let high = if most > 0.0 { most * 1.05 } else { shared.0 };
                let ticks = RangedCoordf64::from(0.0..high / shared.0).key_points(7);
                (0.0, high, ticks.into_iter().map(|tick| tick * shared.0).collect::<Vec<_>>())
            }
            Scale::Log => {
                let low = if least > 0.0 && least.is_finite() { least / 1.3 } else { 0.1 };
                let high = most.max(low * 2.0) * 1.3;
                (low, high, log_ticks(low, high))
            }
            Scale::Nines => (0.0, most.max(0.9) + 1e-9, vec![0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999]),
        };
        let ticks = ticks.into_iter().filter(|tick| (low..=high).contains(tick)).collect();
        Self { scale, range: low..high, ticks, unit, shared }
    }

    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
            Scale::Nines => -(1.0 - value.min(0.999_999)).log10(),
        }
    }

    fn title(&self, words: &str) -> String {
        let unit = if self.scale == Scale::Linear { self.shared.1 } else { "" };
        match (words, unit) {
            (words, "") => words.to_owned(),
            ("", unit) => unit.to_owned(),
            (words, unit) => format!("{words}, {unit}"),
        }
    }
}

/// 1, 2 and 5 times powers of ten; over many decades the powers alone.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let coordinates: LogCoord<f64> = (low..high).log_scale().into();
    let mantissas: &[f64] = if (high / low).log10() <= 3.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let powers = coordinates.key_points(8).into_iter().map(|tick| 10_f64.powf(tick.log10().floor()));
    let mut ticks: Vec<f64> = powers
        .flat_map(|power| mantissas.iter().map(move |mantissa| mantissa * power))
        .filter(|tick| (low..=high).contains(tick))
        .collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    ticks
}

impl Plot {
    /// For the page, whose text has the reader's colour.
    pub(super) fn inline(&self) -> String {
        self.svg(false).replace("#000000", "currentColor")
    }

    /// For a page of somebody else: with its title, on white.
    pub(super) fn standalone(&self) -> String {
        self.svg(true)
    }

    fn svg(&self, standalone: bool) -> String {
        let mut svg = String::new();
        let drawn = self.draw(SVGBackend::with_string(&mut svg, SIZE), standalone);
        drawn.map_or_else(|fault| format!("<!-- {} -->", fault.replace("--", "-")), |()| svg)
    }

    fn draw(&self, backend: SVGBackend<'_>, standalone: bool) -> Result<(), String> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let ys = points().flat_map(|point| [point.y.least, point.y.median, point.y.most]);
        let x_axis = Axis::new(self.x_scale, self.x_unit, points().map(|point| point.x));
        let y_axis = Axis::new(scale_of(ys.clone()), self.y_unit, ys);
        let wrong = |fault: DrawingAreaErrorKind<_>| fault.to_string();
        let root = backend.into_drawing_area();
        let mut chart = ChartBuilder::on(&root);
        if standalone {
            root.fill(&WHITE).map_err(wrong)?;
            chart.caption(&self.title, ("sans-serif", 22));
        }
        let mut chart = chart
            .margin(10)
            .margin_right(NAMES_WIDTH)
            .x_label_area_size(42)
            .y_label_area_size(72)
            .build_cartesian_2d(x_axis.clone(), y_axis.clone())
            .map_err(wrong)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.14))
            .axis_style(BLACK.mix(0.4))
            .label_style(("sans-serif", 15))
            .x_label_formatter(&|value| x_axis.format_ext(value))
            .y_label_formatter(&|value| y_axis.format_ext(value))
            .x_desc(x_axis.title(self.x_label))
            .y_desc(y_axis.title(""))
            .draw()
            .map_err(wrong)?;
        let mut ends = Vec::new();
        for line in &self.lines {
            let colour = colour_of(line.floor, line.place);
            let middle = || line.points.iter().map(|point| (point.x, point.y.median));
            if self.markers {
                let bar = |&Point { x, y }: &Point| {
                    ErrorBar::new_vertical(x, y.least, y.median, y.most, colour.filled(), 8)
                };
                chart.draw_series(line.points.iter().map(bar)).map_err(wrong)?;
            } else {
                let over = line.points.iter().map(|point| (point.x, point.y.most));
                let under = line.points.iter().rev().map(|point| (point.x, point.y.least));
                let band = Polygon::new(over.chain(under).collect::<Vec<_>>(), colour.mix(0.16));
                chart.draw_series([band]).map_err(wrong)?;
            }
            let style = colour.stroke_width(2);
            if line.floor || line.place >= COLOURS.len() {
                chart.draw_series(DashedLineSeries::new(middle(), 6, 4, style)).map_err(wrong)?;
            } else {
                chart.draw_series(LineSeries::new(middle(), style)).map_err(wrong)?;
            }
            if let Some(end) = middle().next_back() {
                ends.push((chart.backend_coord(&end).1, line));
            }
        }
        ends.sort_by_key(|(y, _)| *y);
        let places = apart(ends.iter().map(|(y, _)| *y), i32::try_from(SIZE.1).unwrap_or(0) - 60);
        let left = i32::try_from(SIZE.0 - NAMES_WIDTH).unwrap_or(0) + 6;
        for ((_, line), y) in ends.iter().zip(places) {
            let colour = colour_of(line.floor, line.place);
            let style = ("sans-serif", 15).into_font().color(&colour);
            root.draw(&Text::new(shortened(&line.name), (left, y - 6), style)).map_err(wrong)?;
        }
        root.present().map_err(wrong)
    }
}

/// The colour of a subject: the same in every plot and in the legend.
pub(super) fn colour_of(floor: bool, place: usize) -> RGBColor {
    if floor { FLOOR_COLOUR } else { COLOURS[place % COLOURS.len()] }
}

/// At most so many characters, with an ellipsis in place of the rest.
fn shortened(name: &str) -> String {
    let kept: String = name.chars().take(NAME_CHARS_MAX).collect();
    if kept.len() < name.len() { format!("{}…", kept.trim_end()) } else { kept }
}

/// A log axis for values that are far apart, where none is zero or below.
fn scale_of(values: impl Iterator<Item = f64> + Clone) -> Scale {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(0.0, f64::max);
    if least > 0.0 && most / least >= LOG_FROM { Scale::Log } else { Scale::Linear }
}

/// Places near the wanted ones (ascending), a name's height apart as far as they fit above `bottom`.
fn apart(wanted: impl Iterator<Item = i32>, bottom: i32) -> Vec<i32> {
    let mut places: Vec<i32> = Vec::new();
    for place in wanted {
        places.push(places.last().map_or(place, |last| place.max(last + NAME_STEP)));
    }
    let mut most = bottom;
    for place in places.iter_mut().rev() {
        *place = (*place).min(most);
        most = *place - NAME_STEP;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, points: &[(f64, f64)]) -> Line {
        let spread = |y: f64| Spread { median: y, least: y * 0.9, most: y * 1.1 };
        let points = points.iter().map(|&(x, y)| Point { x, y: spread(y) }).collect();
        Line { name: name.to_owned(), floor: name == "floor", place: 0, points }
    }

    #[test]
    fn a_plot_is_drawn_whatever_it_is_given() {
        let hostile = "<script>alert(\"x\")</script>&'";
        let eight: Vec<Line> =
            (0..8).map(|at| line(hostile, &[(100.0, f64::from(at)), (1000.0, 5.0)])).collect();
        for lines in [
            vec![line("one point", &[(1000.0, 7.0)]), line("floor", &[(1000.0, 6.0), (2000.0, 6.0)])],
            vec![line("zeros", &[(0.0, 0.0), (100.0, 0.0)])],
            vec![line("far apart", &[(1.0, 1.0), (2.0, 1e6), (3.0, 1e12)])],
            eight,
            vec![],
        ] {
            for x_scale in [Scale::Log, Scale::Linear, Scale::Nines] {
                for markers in [true, false] {
                    let plot = Plot {
                        title: hostile.to_owned(),
                        x_label: "Watchers",
                        x_unit: Unit::Count,
                        x_scale,
                        y_unit: Unit::PerSecond,
                        markers,
                        lines: lines.clone(),
                    };
                    for svg in [plot.inline(), plot.standalone()] {
                        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
                        assert!(!svg.contains("<script") && !svg.contains("NaN"), "{svg}");
                    }
                }
            }
        }
    }

    #[test]
    fn ticks_are_round_and_inside() {
        let axis = Axis::new(Scale::Linear, Unit::Bytes, [4096.0].into_iter());
        assert_eq!(
            (axis.format_ext(&2048.0), axis.title("Memory")),
            ("2".to_owned(), "Memory, KiB".to_owned())
        );
        let axis = Axis::new(Scale::Log, Unit::Count, [100.0, 19_000.0].into_iter());
        assert_eq!(axis.ticks, [100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4]);
        assert!(log_ticks(1e-9, 1e30).len() < 20);
        assert_eq!(scale_of([1.0, 30.0].into_iter()), Scale::Log);
        assert_eq!(scale_of([0.0, 30.0].into_iter()), Scale::Linear);
    }

    #[test]
    fn names_do_not_stand_on_each_other() {
        for wanted in [vec![100; 8], vec![34, 35, 263, 264], vec![]] {
            let places = apart(wanted.into_iter(), 270);
            assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= NAME_STEP), "{places:?}");
            assert!(places.iter().all(|place| *place <= 270), "{places:?}");
        }
        assert_eq!(shortened("äöüäöüäöüäöüäöüäöüäöü").chars().count(), NAME_CHARS_MAX + 1);
    }
}
