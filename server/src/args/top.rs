//! The options of `revcast top`.

use std::time::Duration;

use crate::setting::{ConfigError, Origin, Wrong};
use crate::top::{Address, Form, Options, Subject};
use crate::value;

/// What `revcast top` is to show, of the options that were given.
///
/// # Errors
/// A value is wrong, or `--output` is given without `--once`.
pub(super) fn options(given: &[(&'static str, String)]) -> Result<Options, ConfigError> {
    // Of two of one name the last counts.
    let value_of =
        |name: &str| given.iter().rev().find(|(of, _)| *of == name).map(|(_, value)| value.as_str());
    let wrong = |name: &str, given: &str, wrong: Wrong| {
        ConfigError::bad_value(&Origin::Flag(format!("--{name}")), name, given, wrong)
    };
    let admin = value_of("admin").unwrap_or("http://127.0.0.1:8081");
    let address = Address::parse(admin).ok_or_else(|| {
        let mend = "give HOST:PORT, http://HOST:PORT or https://HOST:PORT";
        wrong("admin", admin, Wrong::new("not the address of an admin listener", mend))
    })?;
    let is_once = value_of("once").is_some();
    let once = match value_of("output") {
        None => is_once.then_some(Form::Table),
        Some(_) if !is_once => {
            let wrong = Wrong::new("an option of one view", "add --once, or remove it");
            return Err(ConfigError::at("--output", wrong));
        }
        Some("table") => Some(Form::Table),
        Some("json") => Some(Form::Json),
        Some(other) => {
            return Err(wrong("output", other, Wrong::new("no such form", "give table or json")));
        }
    };
    let bounds = Duration::from_secs(1)..=Duration::from_secs(60);
    let delay = match value_of("delay") {
        None => Duration::from_secs(if is_once { 2 } else { 1 }),
        Some(given) => value::time(given, bounds).map_err(|why| wrong("delay", given, why))?,
    };
    let path = |name: &str| value_of(name).map(Into::into);
    Ok(Options { subject: Subject { address, ca: path("ca"), token_file: path("token-file") }, delay, once })
}
