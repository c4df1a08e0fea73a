//! `revcast top`: the status of a running server in a terminal, or once for scripts.
//!
//! It shows what the page on the admin listener shows, with the same arithmetic, and reads the same stream. Below: `client` and
//! `document` take what a server sends and bound it; `samples`, `units`, `table` and `view` make of it what is shown; `screen` is what
//! an operator chose; `draw` and `terminal` are the cells and the device, `once` is without one.

mod client;
mod document;
mod draw;
mod once;
#[cfg(test)]
mod page_figures;
mod samples;
mod screen;
mod table;
mod terminal;
mod units;
mod view;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

pub use client::{Address, Subject, TOKEN_VARIABLE};
pub use once::Form;

/// What is to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Of which server.
    pub subject: Subject,
    /// Between two views; of one view, what its rates are over.
    pub delay: Duration,
    /// One view, in this form; `None`: until a key ends it.
    pub once: Option<Form>,
}

/// Why nothing, or nothing more, is shown; on one line.
#[derive(Debug)]
pub enum Fault {
    /// There is no terminal for it.
    Usage(String),
    /// The server or the terminal failed.
    Run(String),
}

/// Shows it.
///
/// # Errors
/// There is no terminal, or it fails. For one view also: the server does not answer, or with something else.
pub fn run(options: Options) -> Result<ExitCode, Fault> {
    let Options { subject, delay, once } = options;
    let Some(form) = once else {
        terminal::check().map_err(Fault::Usage)?;
        return terminal::run(subject, delay).map_err(Fault::Run);
    };
    let text = form.render(&once::view(&subject, delay).map_err(Fault::Run)?);
    let mut out = std::io::stdout().lock();
    // A closed reader is not an error.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    Ok(ExitCode::SUCCESS)
}
