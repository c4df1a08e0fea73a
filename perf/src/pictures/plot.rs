//! One plot as a self-contained SVG: lines with what spreads around them, labelled where they end. It never reads a
//! record: a plot is given points.

use super::axis::{Area, Axis};
use super::quantity::Quantity;
use super::scale::{Kind, Scale};
use super::text::{escape, shorten};
use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 330.0;
const AREA: Area = Area { left: 70.0, right: 490.0, top: 34.0, bottom: 284.0 };
/// Between the lines' labels.
const LABEL_STEP: f64 = 14.0;
const LABEL_CHARS_MAX: usize = 17;
/// Points of a line that can be hovered over.
const HOVERED_MAX: usize = 400;
/// A log axis where the largest value is so many times the least.
const LOG_FROM: f64 = 30.0;

/// A measured point: the median, and the least and the most of the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

/// How the spread is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    Band,
    Bars,
    None,
}

/// One subject's line, ascending in x.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    /// The class that gives it its colour: `s0` to `s7`, or `floor`.
    pub(super) class: String,
    pub(super) points: Vec<Point>,
}

/// What a plot shows.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) x_label: String,
    pub(super) x_quantity: Quantity,
    pub(super) x_kind: Kind,
    pub(super) y_label: String,
    pub(super) y_quantity: Quantity,
    pub(super) spread: Spread,
    pub(super) lines: Vec<Line>,
}

impl Plot {
    pub(super) fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| line.points.is_empty())
    }

    /// The whole element. It is XML too: it can be cut out of the page and opened alone. Points that are no numbers have
    /// no place in it.
    pub(super) fn svg(&self) -> String {
        let mut plot = self.clone();
        let finite =
            |point: &Point| [point.x, point.y, point.least, point.most].into_iter().all(f64::is_finite);
        plot.lines.iter_mut().for_each(|line| line.points.retain(finite));
        plot.draw()
    }

    fn draw(&self) -> String {
        let title = escape(&self.title);
        let mut svg = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">"#
        );
        if self.is_empty() {
            let (x, y) = (WIDTH / 2.0, HEIGHT / 2.0);
            let _infallible = write!(
                svg,
                r#"<text class="tick" x="{x}" y="{y}" text-anchor="middle">nothing was recorded</text></svg>"#
            );
            return svg;
        }
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let xs: Vec<f64> = points().map(|point| point.x).collect();
        let ys: Vec<f64> = points().flat_map(|point| [point.least, point.y, point.most]).collect();
        let x_scale = match self.x_kind {
            Kind::Linear => Scale::exact(&xs, AREA.left, AREA.right),
            Kind::Log | Kind::Percentile => Scale::new(self.x_kind, &xs, AREA.left, AREA.right),
        };
        let y_scale = Scale::new(kind_of(&ys), &ys, AREA.bottom, AREA.top);
        let beside = Axis { scale: y_scale, quantity: self.y_quantity, label: &self.y_label };
        beside.draw_beside(AREA, &mut svg);
        Axis { scale: x_scale, quantity: self.x_quantity, label: &self.x_label }.draw_below(AREA, &mut svg);
        for line in self.lines.iter().filter(|line| !line.points.is_empty()) {
            self.draw_line(line, &x_scale, &y_scale, &mut svg);
        }
        self.draw_labels(&x_scale, &y_scale, &mut svg);
        svg.push_str("</svg>");
        svg
    }

    fn draw_line(&self, line: &Line, x_scale: &Scale, y_scale: &Scale, svg: &mut String) {
        let at = |point: &Point, y: f64| format!("{:.1} {:.1}", x_scale.place(point.x), y_scale.place(y));
        let _infallible = write!(svg, r#"<g class="{}">"#, line.class);
        let spreads = line.points.iter().any(|point| point.least < point.most);
        if self.spread == Spread::Band && spreads {
            let over = line.points.iter().map(|point| at(point, point.most));
            let under = line.points.iter().rev().map(|point| at(point, point.least));
            let edge: Vec<String> = over.chain(under).collect();
            let _infallible = write!(svg, r#"<path class="band" d="M{}Z"/>"#, edge.join("L"));
        }
        let way: Vec<String> = line.points.iter().map(|point| at(point, point.y)).collect();
        let _infallible = write!(svg, r#"<path class="line" d="M{}"/>"#, way.join("L"));
        if self.spread == Spread::Bars {
            for point in line.points.iter().filter(|point| point.least < point.most) {
                let (x, top, bottom) =
                    (x_scale.place(point.x), y_scale.place(point.most), y_scale.place(point.least));
                let _infallible = write!(
                    svg,
                    r#"<path class="bar" d="M{:.1} {top:.1}h8m-4 0V{bottom:.1}m-4 0h8"/>"#,
                    x - 4.0
                );
            }
        }
        if line.points.len() <= HOVERED_MAX {
            let class = if self.spread == Spread::Bars || line.points.len() == 1 { "dot" } else { "touch" };
            for point in &line.points {
                let (x, y) = (x_scale.place(point.x), y_scale.place(point.y));
                let says = escape(&self.says(line, point));
                let _infallible = write!(
                    svg,
                    r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="3.5"><title>{says}</title></circle>"#
                );
            }
        }
        svg.push_str("</g>");
    }

    /// What hovering over a point tells.
    fn says(&self, line: &Line, point: &Point) -> String {
        let show = |y: f64| self.y_quantity.show(y);
        let spread = if point.least < point.most {
            format!(" ({}..{})", show(point.least), show(point.most))
        } else {
            String::new()
        };
        format!("{}: {}{spread} at {}", line.name, show(point.y), self.x_quantity.show(point.x))
    }

    /// Each line's name where it ends, moved apart so that none stands on another.
    fn draw_labels(&self, x_scale: &Scale, y_scale: &Scale, svg: &mut String) {
        let mut ends: Vec<(f64, f64, &Line)> = Vec::new();
        for line in &self.lines {
            if let Some(last) = line.points.last() {
                ends.push((y_scale.place(last.y), x_scale.place(last.x), line));
            }
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let places = apart(&ends.iter().map(|end| end.0).collect::<Vec<_>>(), AREA.top, AREA.bottom);
        for ((y, x, line), place) in ends.into_iter().zip(places) {
            let name = escape(&shorten(&line.name, LABEL_CHARS_MAX));
            let (from, to, text_y) = (x.max(AREA.right) + 2.0, AREA.right + 12.0, place + 4.0);
            let whole = escape(&line.name);
            let _infallible = write!(
                svg,
                r#"<g class="{}"><path class="lead" d="M{from:.1} {y:.1}L{to:.1} {place:.1}"/><text class="label" x="{:.1}" y="{text_y:.1}">{name}<title>{whole}</title></text></g>"#,
                line.class,
                to + 3.0
            );
        }
    }
}

/// A log axis for values that are far apart, where none is zero or below.
fn kind_of(values: &[f64]) -> Kind {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    if least > 0.0 && most / least >= LOG_FROM { Kind::Log } else { Kind::Linear }
}

/// Places near the wanted ones (ascending), each a label's height below the one before, inside the area as far as they fit.
fn apart(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut places: Vec<f64> = Vec::with_capacity(wanted.len());
    for &place in wanted {
        let least = places.last().map_or(top, |last| last + LABEL_STEP);
        places.push(place.max(least));
    }
    let mut most = bottom;
    for place in places.iter_mut().rev() {
        *place = place.min(most);
        most = *place - LABEL_STEP;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::super::xml;
    use super::*;

    fn plot(lines: Vec<Line>) -> Plot {
        Plot {
            title: "Throughput <of> watchers".to_owned(),
            x_label: "Watchers".to_owned(),
            x_quantity: Quantity::Count,
            x_kind: Kind::Log,
            y_label: "Deliveries".to_owned(),
            y_quantity: Quantity::PerSecond,
            spread: Spread::Bars,
            lines,
        }
    }

    fn line(name: &str, points: &[(f64, f64)]) -> Line {
        let points = points.iter().map(|&(x, y)| Point { x, y, least: y * 0.9, most: y * 1.1 }).collect();
        Line { name: name.to_owned(), class: "s0".to_owned(), points }
    }

    #[test]
    fn a_plot_is_well_formed_whatever_it_is_given() {
        let hostile = "<script>alert(\"x\")</script>&\u{0}'";
        let eight = (0..8)
            .map(|at| line(&format!("{hostile}{at}"), &[(100.0, f64::from(at)), (1000.0, 5.0)]))
            .collect();
        for lines in [
            vec![],
            vec![line("empty", &[])],
            vec![line("one point", &[(1000.0, 7.0)])],
            vec![line("zeros", &[(0.0, 0.0), (100.0, 0.0)])],
            vec![line("odd", &[(1.0, f64::NAN), (2.0, f64::INFINITY), (3.0, -4.0)])],
            eight,
        ] {
            for (kind, spread) in
                [(Kind::Log, Spread::Bars), (Kind::Linear, Spread::Band), (Kind::Percentile, Spread::None)]
            {
                let svg = Plot { x_kind: kind, spread, ..plot(lines.clone()) }.svg();
                assert_eq!(xml::check(&svg), Ok(()), "{svg}");
                assert!(!svg.contains("<script") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }

    #[test]
    fn points_say_what_they_are_and_lines_their_names() {
        let svg = plot(vec![line("revcast", &[(100.0, 1000.0), (1000.0, 2000.0)])]).svg();
        assert!(svg.contains("<title>revcast: 2,000/s (1,800/s..2,200/s) at 1,000</title>"), "{svg}");
        assert!(svg.contains("Deliveries, thousand/s") && svg.contains(">Watchers<"), "{svg}");
        assert_eq!(svg.matches("class=\"dot\"").count(), 2);
        assert_eq!(svg.matches("class=\"bar\"").count(), 2);
        assert_eq!(svg.matches("class=\"label\"").count(), 1);
    }

    #[test]
    fn labels_do_not_stand_on_each_other() {
        for wanted in [vec![100.0; 8], vec![34.0, 35.0, 283.0, 284.0], vec![284.0; 3], vec![]] {
            let places = apart(&wanted, AREA.top, AREA.bottom);
            assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= LABEL_STEP - 1e-9), "{places:?}");
            assert!(places.iter().all(|place| (AREA.top..=AREA.bottom).contains(place)), "{places:?}");
        }
        assert_eq!(apart(&[50.0, 200.0], 0.0, 300.0), [50.0, 200.0], "those that are apart stay");
    }

    #[test]
    fn far_apart_is_a_log_axis_but_never_with_a_zero() {
        assert_eq!(kind_of(&[1.0, 29.0]), Kind::Linear);
        assert_eq!(kind_of(&[1.0, 30.0]), Kind::Log);
        assert_eq!(kind_of(&[0.0, 30.0]), Kind::Linear);
        assert_eq!(kind_of(&[]), Kind::Linear);
    }
}
