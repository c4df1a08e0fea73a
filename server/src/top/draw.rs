//! The screen as cells of a terminal, of whatever size.
//!
//! Owns the layout. The terminal's colours are used by their names, so that they fit its theme; without colours everything is still
//! distinct.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};

use super::screen::{Connection, Mode, Pane, Screen};
use super::table::{Cell, Order, Table, Tone};
use super::units::{short, sparkline, uptime};
use super::view::{Health, Section, View};

/// From this width on all sections are shown in two columns.
const WIDE: u16 = 150;
/// A text column is not made narrower than this for others.
const TEXT_MIN: usize = 8;
const GAP: usize = 2;

const NARROW_SECTIONS: [Section; 5] =
    [Section::Stages, Section::Slowest, Section::Watchers, Section::Shards, Section::Errors];
const LEFT_SECTIONS: [Section; 4] = [Section::Stages, Section::Slowest, Section::Watchers, Section::Errors];
const RIGHT_SECTIONS: [Section; 4] = [Section::Shards, Section::Window, Section::Source, Section::Memory];

const HELP: [&str; 18] = [
    "q  Ctrl-C       quit",
    "h  ?            this help; any of q, h, Escape closes it",
    "1 to 9          a pane: 1 all, 2 watchers by resource, 3 slowest watchers,",
    "                4 stages, 5 window, 6 shards, 7 source, 8 memory, 9 errors",
    "Tab  arrows     the next pane, the one before",
    "<  >  s         the column that rows are sorted by",
    "r               reverse the order",
    "/               rows that contain a text; Escape: all",
    "Up Down k j     scroll; also PgUp, PgDn, Home, End",
    "p  Space        pause; counting goes on",
    "d               seconds between two views",
    "Ctrl-L  Ctrl-Z  draw again; suspend",
    "",
    "Rates are over 2 s, busy shares over 10 s, percentiles and errors",
    "over the last minutes, at most five. Percentiles are linear within",
    "the buckets of the histograms, as Prometheus has them. A watcher",
    "that has used all of the window is ended.",
    "",
];

/// How things look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Palette {
    has_color: bool,
}

impl Palette {
    pub(super) const fn new(has_color: bool) -> Self {
        Self { has_color }
    }

    fn color(self, color: Color) -> Style {
        if self.has_color { Style::new().fg(color) } else { Style::new() }
    }

    fn alarm(self) -> Style {
        self.color(Color::Red).add_modifier(Modifier::BOLD)
    }

    fn faint(self) -> Style {
        self.color(Color::DarkGray)
    }

    fn head(self) -> Style {
        self.color(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    fn tone(self, tone: Tone) -> Style {
        match tone {
            Tone::Plain => Style::new(),
            Tone::Faint => self.faint(),
            Tone::Alarm => self.alarm(),
        }
    }

    fn health(self, health: Health) -> Style {
        match health {
            Health::Good => self.color(Color::Green),
            Health::Fair => self.color(Color::Yellow),
            Health::Bad => self.alarm(),
        }
    }
}

/// Draws everything.
pub(super) fn draw(screen: &mut Screen, buffer: &mut Buffer, palette: Palette) {
    let area = buffer.area;
    let mut pen = Pen { buffer, palette };
    if area.height == 0 {
        return;
    }
    let figures = match area.height {
        0..=7 => 0,
        8..=13 => 1,
        14..=17 => 2,
        _ => 3,
    };
    let has_footer = area.height >= 4 || screen.mode != Mode::Normal;
    let has_tabs = area.height >= 10;
    pen.top(screen, area);
    let mut y = area.y + 1;
    if let Some(view) = screen.view() {
        pen.figures(view, area, y, figures);
    }
    y += figures;
    if has_tabs {
        pen.tabs(screen.pane(), area, y);
        y += 1;
    }
    let bottom = area.bottom().saturating_sub(u16::from(has_footer));
    let body = Rect { y, height: bottom.saturating_sub(y), ..area };
    if screen.mode == Mode::Help {
        for (line, y) in HELP.iter().zip(body.y..body.bottom()) {
            pen.put(body, y, 0, line, Style::new());
        }
    } else {
        pen.body(screen, body);
    }
    if has_footer {
        pen.footer(screen, area);
    }
}

struct Pen<'a> {
    buffer: &'a mut Buffer,
    palette: Palette,
}

impl Pen<'_> {
    /// Writes within an area, from a column of it; what is too long is cut and says so. Returns the column behind it.
    fn put(&mut self, area: Rect, y: u16, from: usize, text: &str, style: Style) -> usize {
        let (width, length) = (usize::from(area.width), text.chars().count());
        if y < area.y || y >= area.bottom() || from >= width {
            return from;
        }
        let room = width - from;
        let x = area.x + u16::try_from(from).unwrap_or(u16::MAX);
        self.buffer.set_stringn(x, y, text, room, style);
        if length > room
            && let Some(cell) = self.buffer.cell_mut((area.right() - 1, y))
        {
            cell.set_symbol("…");
        }
        from + length.min(room)
    }

    fn top(&mut self, screen: &Screen, area: Rect) {
        let (state, style) = match &screen.connection {
            Connection::Connecting => ("connecting", self.palette.health(Health::Fair)),
            Connection::Connected if screen.is_paused => ("paused", self.palette.health(Health::Fair)),
            Connection::Connected => ("connected", self.palette.health(Health::Good)),
            Connection::Lost(_) => ("no connection", self.palette.alarm()),
        };
        let width = usize::from(area.width);
        let right = width.saturating_sub(state.len());
        let left = Rect { width: u16::try_from(right.saturating_sub(1)).unwrap_or(0), ..area };
        let mut at = self.put(left, area.y, 0, "revcast ", self.palette.head());
        if let Some(view) = screen.view() {
            let (life, health) = &view.figures.life;
            at = self.put(left, area.y, at, life, self.palette.health(*health));
            self.put(left, area.y, at + 1, &view.figures.about(), Style::new());
        } else {
            self.put(left, area.y, at, &screen.address, Style::new());
        }
        self.put(area, area.y, right, state, style);
    }

    fn figures(&mut self, view: &View, area: Rect, y: u16, count: u16) {
        let lines = view.figures.lines();
        for (line, y) in lines.iter().zip(y..y + count) {
            let mut at = 0;
            for (name, value) in line {
                at = self.put(area, y, at, name, self.palette.faint());
                at = self.put(area, y, at + 1, value, Style::new().add_modifier(Modifier::BOLD)) + 3;
            }
        }
        if count > 2 {
            let half = usize::from(area.width) / 2;
            for (at, (name, rates)) in
                ["Deliveries/s", "Events/s"].iter().zip(&view.figures.rates).enumerate()
            {
                let most = rates.iter().copied().fold(f64::NAN, f64::max);
                let label = format!("{name} to {} ", short(most));
                let room = half.saturating_sub(label.chars().count() + GAP);
                let next = self.put(area, y + 2, at * half, &label, self.palette.faint());
                self.put(area, y + 2, next, &sparkline(rates, room), self.palette.color(Color::Blue));
            }
        }
    }

    fn tabs(&mut self, pane: Pane, area: Rect, y: u16) {
        let mut at = 0;
        // With the names, if there is room; those of all panes have 67 letters.
        let has_names = area.width >= 78;
        for (number, tab) in (1..).zip(Pane::all()) {
            let is_shown = tab == pane;
            let name = if has_names || is_shown { tab.name() } else { "" };
            let style =
                if is_shown { Style::new().add_modifier(Modifier::REVERSED) } else { self.palette.faint() };
            let text = if has_names { format!("{number}{name}") } else { format!("{number} {name}") };
            at = self.put(area, y, at, text.trim_end(), style) + 1;
        }
    }

    fn body(&mut self, screen: &mut Screen, area: Rect) {
        let Some(view) = screen.view() else {
            let text = match &screen.connection {
                Connection::Lost(why) => why.clone(),
                Connection::Connecting | Connection::Connected => {
                    format!("waiting for the status of {}", screen.address)
                }
            };
            self.put(area, area.y, 0, &text, Style::new());
            return;
        };
        match screen.pane() {
            Pane::One(section) => {
                let table = view.table(section).clone();
                let order = screen.order();
                let rows = table.rows(&screen.filter, order);
                let room = usize::from(area.height.saturating_sub(1));
                let top = screen.scroll(room, rows.len());
                self.table(&table, &rows, top, order, area);
            }
            Pane::All if area.width >= WIDE => {
                let half = Rect { width: area.width / 2 - 1, ..area };
                self.sections(&LEFT_SECTIONS, screen, view, half);
                let x = half.right() + 2;
                self.sections(&RIGHT_SECTIONS, screen, view, Rect { x, width: area.right() - x, ..area });
            }
            Pane::All => self.sections(&NARROW_SECTIONS, screen, view, area),
        }
    }

    /// Several tables, one below the other: each gets a head and a row, and the first ones what they need of the rest.
    fn sections(&mut self, sections: &[Section], screen: &Screen, view: &View, area: Rect) {
        let tables: Vec<_> = sections.iter().map(|section| view.table(*section)).collect();
        let rows: Vec<_> = tables.iter().map(|table| table.rows(&screen.filter, None)).collect();
        let wanted: Vec<u16> =
            rows.iter().map(|rows| u16::try_from(rows.len().max(1) + 1).unwrap_or(u16::MAX)).collect();
        let heights = share_out(&wanted, area.height);
        let gaps = u16::try_from(heights.len().saturating_sub(1)).unwrap_or(u16::MAX);
        let gap = u16::from(heights.iter().sum::<u16>() + gaps <= area.height);
        let mut y = area.y;
        for ((table, rows), height) in tables.iter().zip(&rows).zip(heights) {
            self.table(table, rows, 0, None, Rect { y, height, ..area });
            y += height + gap;
        }
    }

    /// A table from its row `top` on.
    fn table(&mut self, table: &Table, rows: &[&[Cell]], top: usize, order: Option<Order>, area: Rect) {
        if area.height == 0 {
            return;
        }
        let widths = fitted(table, table.widths(rows), usize::from(area.width));
        let mut at = 0;
        for (index, (column, width)) in table.columns.iter().zip(&widths).enumerate() {
            let mark = match order {
                Some(order) if order.column == index => {
                    if order.is_descending {
                        "▾"
                    } else {
                        "▴"
                    }
                }
                _ => "",
            };
            let style = if mark.is_empty() {
                self.palette.head()
            } else {
                self.palette.head().add_modifier(Modifier::REVERSED)
            };
            self.cell(area, area.y, at, *width, column.is_text, &format!("{}{mark}", column.name), style);
            at += width + GAP;
        }
        let room = usize::from(area.height) - 1;
        let is_cut = rows.len() > top + room;
        if is_cut {
            let more = format!(" {} more", rows.len() - top - room);
            let from = usize::from(area.width).saturating_sub(more.chars().count());
            // Beside the heads, if there is room.
            if at <= from {
                self.put(area, area.y, from, &more, self.palette.faint());
            }
        }
        if rows.is_empty() {
            let text =
                if table.rows.is_empty() { table.none } else { "no row contains the text of the filter" };
            self.put(area, area.y + 1, 0, text, self.palette.faint());
        }
        for (row, y) in rows.iter().skip(top).zip(area.y + 1..area.bottom()) {
            let mut at = 0;
            for ((cell, column), width) in row.iter().zip(table.columns).zip(&widths) {
                self.cell(area, y, at, *width, column.is_text, &cell.shown, self.palette.tone(cell.tone));
                at += width + GAP;
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn cell(
        &mut self,
        area: Rect,
        y: u16,
        from: usize,
        width: usize,
        is_left: bool,
        text: &str,
        style: Style,
    ) {
        let blank = if is_left { 0 } else { width.saturating_sub(text.chars().count()) };
        let end = u16::try_from(from + width).unwrap_or(u16::MAX).min(area.width);
        self.put(Rect { width: end, ..area }, y, from + blank, text, style);
    }

    fn footer(&mut self, screen: &Screen, area: Rect) {
        let y = area.bottom() - 1;
        let prompt = Style::new().add_modifier(Modifier::REVERSED);
        match (&screen.mode, &screen.connection) {
            (Mode::Filter { .. }, _) => {
                let at = self.put(area, y, 0, &format!("filter: {}", screen.filter), Style::new());
                self.put(area, y, at, " ", prompt);
            }
            (Mode::Delay { typed }, _) => {
                let text = format!("seconds between two views (now {}): {typed}", screen.delay.as_secs());
                let at = self.put(area, y, 0, &text, Style::new());
                self.put(area, y, at, " ", prompt);
            }
            (Mode::Normal | Mode::Help, _) if screen.notice.is_some() => {
                self.put(area, y, 0, screen.notice.unwrap_or_default(), self.palette.health(Health::Fair));
            }
            (Mode::Normal | Mode::Help, Connection::Lost(why)) if screen.view().is_some() => {
                self.put(area, y, 0, &format!("{why}: trying again"), self.palette.alarm());
            }
            (Mode::Normal | Mode::Help, _) => {
                let keys = "q quit  h help  Tab pane  < > sort  r reverse  / filter  p pause  d delay";
                if screen.filter.is_empty() {
                    self.put(area, y, 0, keys, self.palette.faint());
                } else {
                    let text = format!("filter: {}  (Escape: all)", screen.filter);
                    let at = self.put(area, y, 0, &text, self.palette.health(Health::Fair));
                    self.put(area, y, at + 2, keys, self.palette.faint());
                }
            }
        }
        let seconds = screen.view().map_or(0.0, |view| view.figures.seconds);
        let span = format!(" {}", uptime(seconds.round()));
        let from = usize::from(area.width).saturating_sub(span.len());
        if from > 78 && screen.mode == Mode::Normal {
            self.put(area, y, from, &span, self.palette.faint());
        }
    }
}

/// The widths of the columns in a room: texts give way, the widest first.
fn fitted(table: &Table, mut widths: Vec<usize>, room: usize) -> Vec<usize> {
    let gaps = GAP * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > room {
        let texts = table.columns.iter().enumerate().filter(|(_, column)| column.is_text).map(|(at, _)| at);
        let Some(widest) = texts.max_by_key(|at| widths[*at]).filter(|at| widths[*at] > TEXT_MIN) else {
            break;
        };
        widths[widest] -= 1;
    }
    widths
}

/// Heights for tables that want so much of what there is: two lines each while there is room, then what is left in order.
fn share_out(wanted: &[u16], height: u16) -> Vec<u16> {
    let mut left = height;
    let mut heights: Vec<u16> = wanted
        .iter()
        .map(|wanted| {
            let first = if left >= 2 { (*wanted).min(2) } else { 0 };
            left -= first;
            first
        })
        .collect();
    for (height, wanted) in heights.iter_mut().zip(wanted).filter(|(height, _)| **height > 0) {
        let more = (wanted - *height).min(left);
        *height += more;
        left -= more;
    }
    heights
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratatui_core::backend::TestBackend;
    use ratatui_core::terminal::Terminal;

    use super::super::document::Document;
    use super::super::document::tests::sample;
    use super::super::screen::tests::{press, screen};
    use super::*;

    /// The lines of a terminal of this size.
    fn lines(screen: &mut Screen, (width, height): (u16, u16)) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("it is in memory");
        terminal.draw(|frame| draw(screen, frame.buffer_mut(), Palette::new(true))).expect("it is in memory");
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect()
    }

    #[test]
    fn eighty_by_twenty_four_has_everything_in_its_place() {
        let wanted = "\
revcast serving 1.2.3 127.0.0.1:8080 up 12 s                           connected
Deliveries 150/s   Events 15.0/s   Watchers 15   Slowest 2.00 ms
Source lag 250 ms   Memory 10.0 KiB   Window 1.50 min, 1.00 KiB   Per message 10
Deliveries/s to 200                  ▄█ Events/s to 20.0                     ▄█
1All 2Watchers 3Slowest 4Stages 5Window 6Shards 7Source 8Memory 9Errors";
        let shown = lines(&mut screen(), (80, 24));
        // The last figure is cut at the edge, and says so.
        let top: Vec<String> = shown[..5].to_vec();
        assert_eq!(top[0], wanted.lines().next().expect("one"));
        assert_eq!(top[1], wanted.lines().nth(1).expect("two"));
        assert!(
            top[2].starts_with("Source lag 250 ms   Memory 10.0 KiB   Window 1.50 min, 1.00 KiB"),
            "{}",
            top[2]
        );
        assert!(top[3].starts_with("Deliveries/s to 200 ") && top[3].ends_with("▄█"), "{}", top[3]);
        assert_eq!(top[4], wanted.lines().nth(4).expect("five"));
        let heads = ["Stage ", "Client ", "Resource ", "Shard ", "Error "];
        let at: Vec<usize> = heads
            .iter()
            .map(|head| {
                shown
                    .iter()
                    .position(|line| line.trim_start().starts_with(head))
                    .unwrap_or_else(|| panic!("{head} in {shown:#?}"))
            })
            .collect();
        assert!(at.is_sorted() && at[0] == 5, "{at:?}");
        assert!(shown[23].starts_with("q quit  h help"), "{}", shown[23]);
        assert!(
            shown.iter().any(|line| line.starts_with("10.0.0.9:1234") && line.contains("pods in ns")),
            "{shown:#?}"
        );
    }

    #[test]
    fn a_wide_terminal_has_every_section_at_once() {
        let shown = lines(&mut screen(), (200, 60)).join("\n");
        for text in [
            "In the ring",
            "10.0.0.9:1234",
            "configmaps",
            "Request answered with 404",
            "Reaches back",
            "etcd http://e:2379",
            "Index",
        ] {
            assert!(shown.contains(text), "{text} in\n{shown}");
        }
    }

    #[test]
    fn a_tiny_terminal_has_the_state_and_a_pane() {
        let mut screen = screen();
        press(&mut screen, "2");
        let shown = lines(&mut screen, (20, 5));
        assert!(shown[0].starts_with("revcas") && shown[0].ends_with("connected"), "{shown:?}");
        assert!(shown[1].starts_with("Resource") && shown[2].starts_with("pods"), "{shown:?}");
    }

    #[test]
    fn every_size_pane_and_mode_is_drawn() {
        for keys in ["", "h", "/po", "d12", "2>", "3s", "4", "5", "6", "7", "8", "9", "/nothing\n", "x", "p"]
        {
            let mut screen = screen();
            press(&mut screen, keys);
            for width in (0..12).chain([20, 40, 79, 80, 149, 150, 200, 400]) {
                for height in (0..14).chain([17, 18, 24, 60]) {
                    lines(&mut screen, (width, height));
                }
            }
            screen.connection = Connection::Lost("the server is gone".to_owned());
            lines(&mut screen, (80, 24));
        }
        let mut before = Screen::new("127.0.0.1:8081".to_owned(), Duration::from_secs(1));
        for size in [(0, 0), (1, 1), (20, 5), (80, 24)] {
            lines(&mut before, size);
        }
    }

    #[test]
    fn a_lost_connection_and_a_filter_are_said() {
        let mut screen = screen();
        screen.connection = Connection::Lost("the server closed the stream".to_owned());
        let shown = lines(&mut screen, (80, 24));
        assert!(
            shown[0].ends_with("no connection")
                && shown[23].starts_with("the server closed the stream: trying again"),
            "{shown:#?}"
        );
        press(&mut screen, "2/pods\n");
        screen.connection = Connection::Connected;
        let shown = lines(&mut screen, (80, 24));
        assert!(shown[23].starts_with("filter: pods  (Escape: all)"), "{}", shown[23]);
        assert!(
            shown.iter().any(|line| line.starts_with("pods"))
                && !shown.iter().any(|line| line.starts_with("configmaps"))
        );
        press(&mut screen, "r");
        assert!(lines(&mut screen, (80, 24))[23].starts_with("choose a column first"));
    }

    #[test]
    fn what_there_is_no_room_for_is_counted() {
        let mut many = sample(13.0, 200);
        let row = many["watchers"]["byResource"][0].clone();
        many["watchers"]["byResource"] = (0..40).map(|_| row.clone()).collect();
        let mut screen = screen();
        screen
            .take(Document::parse(many.to_string().as_bytes()).expect("it is one"), Duration::from_secs(13));
        press(&mut screen, "2>");
        let shown = lines(&mut screen, (100, 24));
        let head = shown.iter().find(|line| line.starts_with("Resource▴")).expect("a head");
        assert!(head.ends_with("23 more"), "{head}");
    }

    #[test]
    fn without_colours_there_are_none() {
        let mut screen = screen();
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("it is in memory");
        terminal
            .draw(|frame| draw(&mut screen, frame.buffer_mut(), Palette::new(false)))
            .expect("it is in memory");
        let cells = terminal.backend().buffer().content();
        assert!(cells.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    }

    #[test]
    fn heights_are_shared_out() {
        assert_eq!(share_out(&[5, 9, 3], 18), [5, 9, 3]);
        assert_eq!(share_out(&[5, 9, 3], 10), [5, 3, 2]);
        assert_eq!(share_out(&[5, 9, 3], 5), [3, 2, 0]);
        assert_eq!(share_out(&[5, 9, 3], 0), [0, 0, 0]);
    }
}
