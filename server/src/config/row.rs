//! What a row of the table of options is.

use std::path::{Path, PathBuf};

use super::Config;
use crate::setting::Wrong;

/// One option.
#[derive(Debug)]
pub(crate) struct Row {
    /// In kebab case; the flag without its dashes.
    pub(crate) name: &'static str,
    /// The placeholder of the value in the help.
    pub(crate) value: &'static str,
    /// One line, without the default.
    pub(crate) help: &'static str,
    pub(crate) standard: Standard,
    /// Whether the file may have it.
    pub(crate) in_file: bool,
    pub(crate) set: Set,
    pub(crate) show: fn(&Config) -> Shown,
}

/// What holds when the option is not given.
#[derive(Debug)]
pub(crate) enum Standard {
    /// This text, parsed as any other.
    Text(&'static str),
    /// Nothing is set; the words describe that.
    Unset(&'static str),
}

/// How text becomes a setting.
#[derive(Debug)]
pub(crate) enum Set {
    /// One value.
    One(fn(&mut Config, &str) -> Result<(), Wrong>),
    /// A list of resources. A stronger origin replaces the list of a weaker one.
    Resources,
}

/// A setting as TOML.
#[derive(Debug)]
pub(crate) enum Shown {
    Unset,
    Number(usize),
    Text(String),
    Truth(bool),
    /// TOML as it stands.
    List(Vec<String>),
}

impl Row {
    /// `--ring-events`
    pub(crate) fn flag(&self) -> String {
        format!("--{}", self.name)
    }

    /// `REVCAST_RING_EVENTS`
    pub(crate) fn variable(&self) -> String {
        format!("REVCAST_{}", self.key().to_ascii_uppercase())
    }

    /// `ring_events`
    pub(crate) fn key(&self) -> String {
        self.name.replace('-', "_")
    }

    /// The default in the help.
    pub(crate) fn standard_text(&self) -> &'static str {
        match self.standard {
            Standard::Text(text) | Standard::Unset(text) => text,
        }
    }
}

/// What is shown where nothing is set.
pub(crate) const NONE: Standard = Standard::Unset("none");

/// A row whose value is text.
macro_rules! row {
    ($name:literal, $value:expr, $help:literal, $standard:expr, $set:expr, $show:expr) => {
        $crate::config::row::Row {
            name: $name,
            value: $value,
            help: $help,
            standard: $standard,
            in_file: true,
            set: $crate::config::row::Set::One($set),
            show: $show,
        }
    };
}
pub(super) use row;

/// The value of an option that is on or off.
pub(crate) const TRUTH: &str = "true|false";

pub(super) fn path(text: &str) -> Result<PathBuf, Wrong> {
    if text.is_empty() || text.contains('\0') {
        return Err(Wrong::new("not a path", "name a file or folder, or leave it out"));
    }
    Ok(PathBuf::from(text))
}

pub(super) fn show_path(path: Option<&Path>) -> Shown {
    path.map_or(Shown::Unset, |path| Shown::Text(path.display().to_string()))
}
