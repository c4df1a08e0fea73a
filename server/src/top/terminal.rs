//! The terminal: its modes, its keys and the loop. It is put back as it was, however this ends.

use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write as _};
use std::process::ExitCode;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::cursor::{Hide, Show};
use ratatui_crossterm::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui_crossterm::crossterm::execute;
use ratatui_crossterm::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::client::Subject;
use super::document::Document;
use super::draw::{Palette, draw};
use super::screen::{Action, Connection, Key, Screen};

/// Between two attempts to connect.
const AGAIN: Duration = Duration::from_secs(2);
/// Between two documents at least, whatever the server sends: the rest waits in its socket.
const DOCUMENT_EVERY: Duration = Duration::from_millis(200);
/// What waits for the loop.
const WAITING_MAX: usize = 16;

/// What happens to the loop.
enum Input {
    Key(Key),
    Resized,
    Document(Box<Document>),
    Lost(String),
    Signal(i32),
    /// The terminal cannot be read.
    Deaf(io::Error),
}

/// The terminal in its other screen.
struct Raw {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
}

impl Raw {
    fn enter() -> io::Result<Self> {
        modes()?;
        // From here on a drop puts it back.
        let terminal = Terminal::new(CrosstermBackend::new(BufWriter::new(io::stdout())));
        if terminal.is_err() {
            restore();
        }
        Ok(Self { terminal: terminal? })
    }

    fn suspend(&mut self) -> io::Result<()> {
        restore();
        kill_process(getpid(), Signal::STOP)?;
        modes()?;
        self.terminal.clear()
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

fn modes() -> io::Result<()> {
    enable_raw_mode()?;
    let entered = execute!(io::stdout(), EnterAlternateScreen, Hide);
    if entered.is_err() {
        restore();
    }
    entered
}

/// As it was. A terminal that is gone needs nothing.
fn restore() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
    let _ = io::stdout().flush();
}

/// Whether there is a terminal that can do this.
///
/// # Errors
/// Why not, and what to do.
pub(super) fn check() -> Result<(), String> {
    let term = std::env::var("TERM").unwrap_or_default();
    if !io::stdout().is_terminal() {
        Err("stdout is not a terminal: give --once for scripts".to_owned())
    } else if term.is_empty() || term == "dumb" {
        Err(format!("the terminal cannot move its cursor (TERM=\"{term}\"): set TERM, or give --once"))
    } else {
        Ok(())
    }
}

/// Shows the status until an operator has seen enough.
///
/// # Errors
/// The terminal fails.
pub(super) fn run(subject: Subject, delay: Duration) -> Result<ExitCode, String> {
    let (inputs, taken) = sync_channel(WAITING_MAX);
    let mut screen = Screen::new(subject.address.authority(), delay);
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(|error| error.to_string())?;
    let broken = |error: io::Error| format!("terminal: {error}");
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore();
        before(panic);
        // Whichever thread it is: the others would write on the terminal.
        std::process::exit(101);
    }));
    let mut raw = Raw::enter().map_err(broken)?;
    let (told, typed) = (inputs.clone(), inputs.clone());
    // They end with the process.
    spawn("signals", move || signals.forever().for_each(|signal| drop(told.send(Input::Signal(signal)))))?;
    spawn("keys", move || read_keys(&typed))?;
    spawn("status", move || follow(&subject, &inputs))?;
    let palette = Palette::new(std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()));
    let began = Instant::now();
    let mut is_stale = true;
    loop {
        if is_stale {
            raw.terminal.draw(|frame| draw(&mut screen, frame.buffer_mut(), palette)).map_err(broken)?;
        }
        is_stale = true;
        match taken.recv().map_err(|error| error.to_string())? {
            Input::Resized => {}
            Input::Document(document) => is_stale = screen.take(*document, began.elapsed()),
            Input::Lost(why) => screen.connection = Connection::Lost(why),
            Input::Signal(signal) => return Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))),
            Input::Deaf(error) => return Err(broken(error)),
            Input::Key(key) => match screen.press(key, began.elapsed()) {
                Action::Draw => {}
                Action::Redraw => raw.terminal.clear().map_err(broken)?,
                Action::Suspend => raw.suspend().map_err(broken)?,
                Action::Quit => return Ok(ExitCode::SUCCESS),
            },
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map(drop).map_err(|error| format!("no thread: {error}; raise nproc (ulimit -u)"))
}

fn read_keys(inputs: &SyncSender<Input>) {
    loop {
        let input = match event::read() {
            Ok(Event::Key(key)) => key_of(key).map(Input::Key),
            Ok(Event::Resize(..)) => Some(Input::Resized),
            Ok(Event::FocusGained | Event::FocusLost | Event::Mouse(_) | Event::Paste(_)) => None,
            Err(error) => {
                let _ = inputs.send(Input::Deaf(error));
                return;
            }
        };
        if input.is_some_and(|input| inputs.send(input).is_err()) {
            return;
        }
    }
}

#[allow(clippy::wildcard_enum_match_arm)]
fn key_of(key: KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    Some(match key.code {
        KeyCode::Char(letter) if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Control(letter),
        KeyCode::Char(letter) => Key::Char(letter),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        // As htop has them.
        KeyCode::F(1) => Key::Char('h'),
        KeyCode::F(4) => Key::Char('/'),
        KeyCode::F(6) => Key::Char('>'),
        KeyCode::F(10) => Key::Char('q'),
        _ => return None,
    })
}

/// Follows the stream, and connects again when it ends.
fn follow(subject: &Subject, inputs: &SyncSender<Input>) {
    loop {
        let why = match subject.open() {
            Err(why) => why,
            Ok(mut stream) => loop {
                let came = Instant::now();
                match stream.next() {
                    Ok(Some(document)) => {
                        if inputs.send(Input::Document(Box::new(document))).is_err() {
                            return;
                        }
                    }
                    Ok(None) => break "the server ended the stream".to_owned(),
                    Err(why) => break why,
                }
                thread::sleep(DOCUMENT_EVERY.saturating_sub(came.elapsed()));
            },
        };
        if inputs.send(Input::Lost(why)).is_err() {
            return;
        }
        thread::sleep(AGAIN);
    }
}
