//! What an operator chose: the pane, the order and the filter, and what each key does. Time is an argument.
#![allow(clippy::wildcard_enum_match_arm, reason = "a key that means nothing somewhere does nothing there")]

use std::time::Duration;

use super::document::Document;
use super::samples::Samples;
use super::table::Order;
use super::view::{Section, View};

/// The longest filter.
const FILTER_MAX: usize = 64;
/// Seconds between two views that may be chosen; a server says something once a second.
pub(super) const DELAYS: std::ops::RangeInclusive<u64> = 1..=60;
/// A document that comes a little early counts.
const EARLY: Duration = Duration::from_millis(250);

/// A key, whatever the terminal sends for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    /// Ctrl and a letter.
    Control(char),
    Enter,
    Escape,
    Backspace,
    Tab,
    BackTab,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
}

/// What the terminal is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Draw,
    /// Draw everything again: something else may have written on the terminal.
    Redraw,
    Suspend,
    Quit,
}

/// What is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Normal,
    Help,
    /// Escape goes back to the filter before.
    Filter {
        before: String,
    },
    Delay {
        typed: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    Connecting,
    Connected,
    /// Why, on one line.
    Lost(String),
}

/// A pane: everything, or one section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pane {
    All,
    One(Section),
}

impl Pane {
    const COUNT: usize = Section::ALL.len() + 1;

    pub(super) fn at(number: usize) -> Self {
        match number.checked_sub(1) {
            None => Self::All,
            Some(at) => Self::One(Section::ALL[at]),
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::All => "All",
            Self::One(Section::Watchers) => "Watchers",
            Self::One(Section::Slowest) => "Slowest",
            Self::One(Section::Stages) => "Stages",
            Self::One(Section::Window) => "Window",
            Self::One(Section::Shards) => "Shards",
            Self::One(Section::Source) => "Source",
            Self::One(Section::Memory) => "Memory",
            Self::One(Section::Errors) => "Errors",
        }
    }

    /// All panes, in the order of their keys.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self::at)
    }
}

/// What is kept for each pane.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    order: Option<Order>,
    /// The first row that is shown.
    top: usize,
}

#[derive(Debug)]
pub(super) struct Screen {
    /// Whose status it is.
    pub(super) address: String,
    pub(super) connection: Connection,
    pub(super) mode: Mode,
    pub(super) filter: String,
    pub(super) is_paused: bool,
    pub(super) delay: Duration,
    /// What a key could not do, until the next key.
    pub(super) notice: Option<&'static str>,
    pane: usize,
    places: [Place; Pane::COUNT],
    /// Rows that the last drawing had room for, and those that there were.
    shown: (usize, usize),
    samples: Samples,
    view: Option<View>,
    viewed: Option<Duration>,
    latest: Option<Document>,
}

impl Screen {
    pub(super) fn new(address: String, delay: Duration) -> Self {
        Self {
            address,
            connection: Connection::Connecting,
            mode: Mode::Normal,
            filter: String::new(),
            is_paused: false,
            delay,
            notice: None,
            pane: 0,
            places: [Place::default(); Pane::COUNT],
            shown: (1, 0),
            samples: Samples::default(),
            view: None,
            viewed: None,
            latest: None,
        }
    }

    pub(super) fn pane(&self) -> Pane {
        Pane::at(self.pane)
    }

    pub(super) fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// The order of the pane's rows; `None`: as the page has them.
    pub(super) fn order(&self) -> Option<Order> {
        self.places[self.pane].order
    }

    /// The first row that is shown, of so many of which there is room for some.
    pub(super) fn scroll(&mut self, room: usize, rows: usize) -> usize {
        self.shown = (room, rows);
        let top = &mut self.places[self.pane].top;
        *top = (*top).min(rows.saturating_sub(room));
        *top
    }

    /// A document came. True: it is shown.
    pub(super) fn take(&mut self, document: Document, now: Duration) -> bool {
        self.samples.add(&document);
        self.latest = Some(document);
        let was_lost = self.connection != Connection::Connected;
        self.connection = Connection::Connected;
        let is_due = self.viewed.is_none_or(|at| now.saturating_sub(at) + EARLY >= self.delay);
        if !self.is_paused && (is_due || was_lost) {
            self.refresh(now);
            return true;
        }
        was_lost
    }

    fn refresh(&mut self, now: Duration) {
        if let Some(latest) = &self.latest {
            self.view = Some(View::new(latest, &self.samples));
            self.viewed = Some(now);
        }
    }

    /// A key was pressed.
    pub(super) fn press(&mut self, key: Key, now: Duration) -> Action {
        self.notice = None;
        match key {
            Key::Control('c') => return Action::Quit,
            Key::Control('z') => return Action::Suspend,
            Key::Control('l') => return Action::Redraw,
            _ => {}
        }
        match std::mem::replace(&mut self.mode, Mode::Normal) {
            Mode::Normal => return self.command(key, now),
            Mode::Help => match key {
                Key::Char('q' | 'h' | '?' | ' ') | Key::Escape | Key::Enter => {}
                _ => self.mode = Mode::Help,
            },
            Mode::Filter { before } => self.filter_key(key, before),
            Mode::Delay { typed } => self.delay_key(key, typed),
        }
        Action::Draw
    }

    fn command(&mut self, key: Key, now: Duration) -> Action {
        match key {
            Key::Char('q' | 'Q') => return Action::Quit,
            Key::Char('h' | '?') => self.mode = Mode::Help,
            Key::Char('/' | 'f') => self.mode = Mode::Filter { before: self.filter.clone() },
            Key::Escape => self.filter.clear(),
            Key::Char('d') => self.mode = Mode::Delay { typed: String::new() },
            Key::Char('p' | ' ') => {
                self.is_paused = !self.is_paused;
                if !self.is_paused {
                    self.refresh(now);
                }
            }
            Key::Char('>' | '.' | 's') => self.sort(1),
            Key::Char('<' | ',') => self.sort(-1),
            Key::Char('r' | 'R' | 'I') => self.reverse(),
            Key::Tab | Key::Right => self.turn(1),
            Key::BackTab | Key::Left => self.turn(Pane::COUNT - 1),
            Key::Char(digit @ '1'..='9') => self.pane = usize::from(digit as u8 - b'1'),
            Key::Up | Key::Char('k') => self.move_by(-1),
            Key::Down | Key::Char('j') => self.move_by(1),
            Key::PageUp => self.move_by(-self.page()),
            Key::PageDown => self.move_by(self.page()),
            Key::Home | Key::Char('g') => self.places[self.pane].top = 0,
            Key::End | Key::Char('G') => {
                self.places[self.pane].top = self.shown.1.saturating_sub(self.shown.0)
            }
            Key::Char(_) | Key::Control(_) | Key::Enter | Key::Backspace => {
                self.notice = Some("no such key: h shows them");
            }
        }
        Action::Draw
    }

    fn turn(&mut self, by: usize) {
        self.pane = (self.pane + by) % Pane::COUNT;
    }

    fn page(&self) -> isize {
        isize::try_from(self.shown.0.saturating_sub(1).max(1)).unwrap_or(1)
    }

    fn move_by(&mut self, rows: isize) {
        let most = self.shown.1.saturating_sub(self.shown.0);
        let top = &mut self.places[self.pane].top;
        *top = top.saturating_add_signed(rows).min(most);
    }

    /// To the next column, after the last to the order of the page, and from there to the first.
    fn sort(&mut self, by: isize) {
        let Pane::One(section) = self.pane() else {
            self.notice = Some("choose a pane to sort: Tab, or 2 to 9");
            return;
        };
        let Some(view) = &self.view else { return };
        let columns = view.table(section).columns;
        let place = &mut self.places[self.pane];
        let stops = columns.len() + 1;
        let at = place.order.map_or(0, |order| order.column + 1);
        let next = if by < 0 { at + stops - 1 } else { at + 1 } % stops;
        place.order =
            next.checked_sub(1).map(|column| Order { column, is_descending: !columns[column].is_text });
        place.top = 0;
    }

    fn reverse(&mut self) {
        match &mut self.places[self.pane].order {
            Some(order) => order.is_descending = !order.is_descending,
            None => self.notice = Some("choose a column first: < and >"),
        }
    }

    fn filter_key(&mut self, key: Key, before: String) {
        match key {
            Key::Enter => return,
            Key::Escape => {
                self.filter = before;
                return;
            }
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Control('u') => self.filter.clear(),
            Key::Char(letter) if self.filter.chars().count() < FILTER_MAX => self.filter.push(letter),
            _ => {}
        }
        self.places[self.pane].top = 0;
        self.mode = Mode::Filter { before };
    }

    fn delay_key(&mut self, key: Key, mut typed: String) {
        match key {
            Key::Escape => return,
            Key::Enter => {
                match typed.parse() {
                    Ok(seconds) if DELAYS.contains(&seconds) => self.delay = Duration::from_secs(seconds),
                    _ if typed.is_empty() => {}
                    _ => self.notice = Some("a delay is from 1 to 60 seconds"),
                }
                return;
            }
            Key::Backspace => {
                typed.pop();
            }
            Key::Char(digit) if digit.is_ascii_digit() && typed.len() < 3 => typed.push(digit),
            _ => {}
        }
        self.mode = Mode::Delay { typed };
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::document::tests::document;
    use super::*;

    pub(in crate::top) fn screen() -> Screen {
        let mut screen = Screen::new("127.0.0.1:8081".to_owned(), Duration::from_secs(1));
        for (at, grown) in [(10_u32, 100), (11, 110), (12, 130)] {
            let now = Duration::from_secs(at.into());
            assert!(screen.take(document(f64::from(at), grown), now));
        }
        screen
    }

    pub(in crate::top) fn press(screen: &mut Screen, keys: &str) {
        for key in keys.chars() {
            let key = match key {
                '\n' => Key::Enter,
                '\t' => Key::Tab,
                '\u{1b}' => Key::Escape,
                key => Key::Char(key),
            };
            assert_eq!(screen.press(key, Duration::from_secs(100)), Action::Draw, "{key:?}");
        }
    }

    #[test]
    fn keys_end_suspend_and_draw_again() {
        let mut screen = screen();
        let now = Duration::ZERO;
        let keys = [Key::Char('q'), Key::Control('c'), Key::Control('z'), Key::Control('l')];
        let wanted = [Action::Quit, Action::Quit, Action::Suspend, Action::Redraw];
        assert_eq!(keys.map(|key| screen.press(key, now)), wanted);
        press(&mut screen, "/");
        assert_eq!(screen.press(Key::Control('c'), now), Action::Quit, "also while something is typed");
        press(&mut screen, "q\n?q");
        assert_eq!(
            (screen.filter.as_str(), &screen.mode),
            ("q", &Mode::Normal),
            "a letter there, and the end of the help"
        );
        press(&mut screen, "x");
        assert!(screen.notice.is_some());
        press(&mut screen, "j");
        assert!(screen.notice.is_none());
    }

    #[test]
    fn panes_are_chosen_by_number_and_in_turn() {
        let mut screen = screen();
        press(&mut screen, "3");
        assert_eq!(screen.pane(), Pane::One(Section::Slowest));
        press(&mut screen, "\t");
        assert_eq!(screen.pane(), Pane::One(Section::Stages));
        press(&mut screen, "9\t");
        assert_eq!(screen.pane(), Pane::All);
        screen.press(Key::BackTab, Duration::ZERO);
        assert_eq!(screen.pane(), Pane::One(Section::Errors));
        assert_eq!(Pane::all().count(), 9);
    }

    #[test]
    fn columns_are_chosen_and_reversed() {
        let mut screen = screen();
        press(&mut screen, ">");
        assert!(screen.notice.is_some() && screen.order().is_none(), "everything at once has no columns");
        press(&mut screen, "2r");
        assert!(screen.notice.is_some());
        press(&mut screen, ">");
        assert_eq!(screen.order(), Some(Order { column: 0, is_descending: false }), "a text from A to Z");
        press(&mut screen, "s");
        assert_eq!(
            screen.order(),
            Some(Order { column: 1, is_descending: true }),
            "the largest number first"
        );
        press(&mut screen, "r");
        assert_eq!(screen.order(), Some(Order { column: 1, is_descending: false }));
        press(&mut screen, "3");
        assert_eq!(screen.order(), None, "each pane has its own");
        press(&mut screen, "2<<<");
        assert_eq!(
            screen.order(),
            Some(Order { column: 7, is_descending: true }),
            "round, past the order of the page"
        );
    }

    #[test]
    fn a_filter_is_typed_kept_and_cleared() {
        let mut screen = screen();
        press(&mut screen, "/pods");
        screen.press(Key::Backspace, Duration::ZERO);
        assert_eq!(screen.filter, "pod", "it works while it is typed");
        press(&mut screen, "\n/xyz\u{1b}");
        assert_eq!((screen.filter.as_str(), &screen.mode), ("pod", &Mode::Normal));
        press(&mut screen, "\u{1b}");
        assert_eq!(screen.filter, "");
        press(&mut screen, &format!("/{}", "x".repeat(500)));
        assert_eq!(screen.filter.len(), FILTER_MAX);
    }

    #[test]
    fn a_pause_keeps_what_is_shown_and_counts_on() {
        let mut screen = screen();
        let uptime = |screen: &Screen| screen.view().expect("one").figures.uptime;
        press(&mut screen, "p");
        assert!(!screen.take(document(13.0, 200), Duration::from_secs(13)));
        assert_eq!(uptime(&screen), 12.0);
        press(&mut screen, " ");
        let figures = &screen.view().expect("one").figures;
        assert_eq!((figures.uptime, figures.seconds), (13.0, 3.0));
    }

    #[test]
    fn a_delay_is_typed_and_kept_to() {
        let mut screen = screen();
        press(&mut screen, "d61\n");
        assert_eq!((screen.delay, screen.notice.is_some()), (Duration::from_secs(1), true));
        press(&mut screen, "d3x\n");
        assert_eq!(screen.delay, Duration::from_secs(3));
        let mut taken = |at: u32| screen.take(document(f64::from(at), 200), Duration::from_secs(at.into()));
        assert_eq!([13, 14, 15, 16].map(&mut taken), [false, false, true, false]);
        screen.connection = Connection::Lost("gone".to_owned());
        assert!(
            screen.take(document(17.0, 201), Duration::from_secs(17)),
            "what comes again is shown at once"
        );
    }

    #[test]
    fn rows_are_scrolled_as_far_as_there_are_some() {
        let mut screen = screen();
        press(&mut screen, "2");
        assert_eq!(screen.scroll(10, 25), 0);
        screen.press(Key::PageDown, Duration::ZERO);
        assert_eq!(screen.scroll(10, 25), 9);
        screen.press(Key::End, Duration::ZERO);
        assert_eq!(screen.scroll(10, 25), 15);
        screen.press(Key::Down, Duration::ZERO);
        assert_eq!(screen.scroll(10, 25), 15);
        screen.press(Key::Up, Duration::ZERO);
        assert_eq!(screen.scroll(10, 25), 14);
        assert_eq!(screen.scroll(10, 12), 2, "rows went away");
        screen.press(Key::Home, Duration::ZERO);
        assert_eq!(screen.scroll(0, 0), 0);
    }
}
