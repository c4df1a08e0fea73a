//! The two axes of a plot as SVG: thin grid lines, ticks with their numbers, and what is measured, with its unit.

use super::quantity::{Quantity, percentile, tick};
use super::scale::{Kind, Scale};
use super::text::escape;
use std::fmt::Write;

/// Where the drawing area of a plot ends, in pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// One axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis<'a> {
    pub(super) scale: Scale,
    pub(super) quantity: Quantity,
    /// What is measured, without its unit.
    pub(super) label: &'a str,
}

impl Axis<'_> {
    /// The numbers at the ticks, and the unit that they share; on a log axis each has its own.
    fn ticks(&self) -> (Vec<(f64, String)>, &'static str) {
        if self.quantity == Quantity::Quantile {
            return (self.scale.ticks().into_iter().map(|at| (at, percentile(at))).collect(), "");
        }
        if self.scale.kind() == Kind::Log && self.quantity != Quantity::Count {
            let own = |at: f64| {
                let (size, unit) = self.quantity.unit(at * (1.0 + 1e-9));
                format!("{} {unit}", tick(at / size))
            };
            return (self.scale.ticks().into_iter().map(|at| (at, own(at))).collect(), "");
        }
        let (size, unit) = self.quantity.unit(self.scale.high());
        let ticks = self.scale.ticks_in(size);
        (ticks.into_iter().map(|at| (at, tick(at / size))).collect(), unit)
    }

    fn title(&self, unit: &str) -> String {
        let text = if unit.is_empty() { self.label.to_owned() } else { format!("{}, {unit}", self.label) };
        escape(&text)
    }

    /// Along the bottom. Numbers that would run into the one before are left out.
    pub(super) fn draw_below(&self, area: Area, svg: &mut String) {
        let (ticks, unit) = self.ticks();
        let mut free_from = f64::NEG_INFINITY;
        for (at, text) in ticks {
            let x = self.scale.place(at);
            let _infallible = write!(
                svg,
                r#"<line class="grid" x1="{x:.1}" y1="{:.1}" x2="{x:.1}" y2="{:.1}"/>"#,
                area.top, area.bottom
            );
            // A digit is about 6.4 pixels wide.
            let half = text.chars().count() as f64 * 3.2;
            if x - half < free_from {
                continue;
            }
            free_from = x + half + 10.0;
            let y = area.bottom + 16.0;
            let _infallible = write!(
                svg,
                r#"<text class="tick" x="{x:.1}" y="{y:.1}" text-anchor="middle">{}</text>"#,
                escape(&text)
            );
        }
        let (x, y) = (f64::midpoint(area.left, area.right), area.bottom + 36.0);
        let title = self.title(unit);
        let _infallible =
            write!(svg, r#"<text class="axis" x="{x:.1}" y="{y:.1}" text-anchor="middle">{title}</text>"#);
    }

    /// Along the left side; its title stands above, where it can be read without turning the head.
    pub(super) fn draw_beside(&self, area: Area, svg: &mut String) {
        let (ticks, unit) = self.ticks();
        for (at, text) in ticks {
            let y = self.scale.place(at);
            let class = if at == 0.0 { "base" } else { "grid" };
            let _infallible = write!(
                svg,
                r#"<line class="{class}" x1="{:.1}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}"/>"#,
                area.left, area.right
            );
            let (x, y) = (area.left - 7.0, y + 4.0);
            let _infallible = write!(
                svg,
                r#"<text class="tick" x="{x:.1}" y="{y:.1}" text-anchor="end">{}</text>"#,
                escape(&text)
            );
        }
        let (y, title) = (area.top - 12.0, self.title(unit));
        let _infallible = write!(svg, r#"<text class="axis" x="4" y="{y:.1}">{title}</text>"#);
    }
}
