//! The command line: which command, which options, and the help.
//!
//! It owns the shape of an invocation. It never judges a value: the rows of the table do, when
//! [`Config`](crate::config::Config) is put together.

use std::ffi::OsString;

use lexopt::Arg;

use crate::config::table::{ROWS, Row, Standard};
use crate::config::{ConfigError, Flags, Origin, Wrong};

/// What to do. `revcast` alone is [`Command::Serve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Serve until SIGTERM.
    Serve(Flags),
    /// Print the effective configuration and who set each value.
    Config(Flags),
    /// Probe the machine and print a line for each finding.
    Doctor(Flags),
    /// Print the version.
    Version,
    /// Print [`help`].
    Help,
}

const COMMANDS: [(&str, &str); 5] = [
    ("serve", "serve list and watch; the default"),
    ("config", "print the effective configuration and who set each value"),
    ("doctor", "probe this machine and say what is wrong and how to mend it"),
    ("version", "print the version"),
    ("help", "print this"),
];

/// Reads the arguments after the program's name.
///
/// # Errors
/// An unknown command or option, a value that is missing or not UTF-8, an argument too many.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, ConfigError> {
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut command: Option<&'static str> = None;
    let mut flags = Flags::default();
    while let Some(argument) = parser.next().map_err(refused)? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help),
            Arg::Short('V') | Arg::Long("version") => return Ok(Command::Version),
            Arg::Long(name) => {
                let name = name.to_owned();
                flags.given.push(option(&mut parser, &name)?);
            }
            Arg::Short(letter) => return Err(unknown_option(&format!("-{letter}"), None)),
            Arg::Value(word) => {
                let word = word.to_string_lossy();
                if let Some(first) = command {
                    let mend = format!("options start with --; the command is {first}");
                    return Err(ConfigError::at(word, Wrong::new("one argument too many", mend)));
                }
                let names = COMMANDS.map(|(name, _)| name);
                let found = names.into_iter().find(|name| *name == word);
                command = Some(found.ok_or_else(|| unknown_command(&word, &names))?);
            }
        }
    }
    let command = match command {
        None | Some("serve") => Command::Serve(flags),
        Some("config") => Command::Config(flags),
        Some("doctor") => Command::Doctor(flags),
        Some("version") => Command::Version,
        Some(_) => Command::Help,
    };
    Ok(command)
}

fn option(parser: &mut lexopt::Parser, name: &str) -> Result<(usize, String), ConfigError> {
    let Some((index, row)) = ROWS.iter().enumerate().find(|(_, row)| row.name == name) else {
        let value = parser.optional_value().map(|value| value.to_string_lossy().into_owned());
        return Err(unknown_option(&format!("--{name}"), value.as_deref()));
    };
    let value = parser.value().map_err(|_| {
        let mend = format!("write {} {}", row.flag(), row.value);
        ConfigError::at(row.flag(), Wrong::new("its value is missing", mend))
    })?;
    let value = value.into_string().map_err(|value| {
        let place = format!("{} \"{}\"", row.flag(), value.to_string_lossy());
        ConfigError::at(place, Wrong::new("not UTF-8", "give plain text"))
    })?;
    Ok((index, value))
}

fn unknown_option(name: &str, value: Option<&str>) -> ConfigError {
    let mut known: Vec<String> = ROWS.iter().map(Row::flag).collect();
    known.extend(["--help".to_owned(), "--version".to_owned()]);
    let place = Origin::Flag(name.to_owned());
    ConfigError::unknown("option", &place, name, value, &known)
}

fn unknown_command(word: &str, names: &[&str]) -> ConfigError {
    let place = Origin::Flag(word.to_owned());
    ConfigError::unknown("command", &place, word, None, names)
}

/// `lexopt`'s own refusals: only a value for an option that takes none gets here.
fn refused(error: lexopt::Error) -> ConfigError {
    ConfigError::at("command line", Wrong::new(error.to_string(), "see revcast --help"))
}

/// The help: at most 80 columns and 40 lines.
#[must_use]
pub fn help() -> String {
    let mut text = String::from(
        "revcast: Kubernetes-style list and watch for tens of thousands of watchers\n\n\
         usage: revcast [COMMAND] [--OPTION VALUE | --OPTION=VALUE]...\n\n",
    );
    for (name, says) in COMMANDS {
        text.push_str(&format!("  {name:<10}{says}\n"));
    }
    text.push_str("\noptions of serve, config and doctor [default]:\n");
    for row in &ROWS {
        let left = format!("{} {}", row.flag(), row.value);
        let standard = match row.standard {
            Standard::Text(text) => format!(" [{text}]"),
            Standard::Unset("none") => String::new(),
            Standard::Unset(words) => format!(" [{words}]"),
        };
        text.push_str(&format!("  {left:<25} {}{standard}\n", row.help));
    }
    text.push_str(
        "\nEach is also a variable: REVCAST_RING_EVENTS. Flag beats variable beats file.\n\
         --resource may be given again; REVCAST_RESOURCE takes a list with commas.\n\
         Times: 500ms, 60s, 1m30s. Sizes: 64MiB, 500MB, bytes.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Command, ConfigError> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn commands() {
        assert_eq!(run(""), Ok(Command::Serve(Flags::default())));
        assert_eq!(run("serve"), run(""));
        assert_eq!(run("serve --shards 2"), run("--shards=2"));
        assert_eq!(run("--shards 2 serve"), run("serve --shards=2"));
        assert!(matches!(run("config --shards 2"), Ok(Command::Config(flags)) if flags.given.len() == 1));
        assert!(matches!(run("doctor"), Ok(Command::Doctor(_))));
        for line in ["version", "--version", "-V"] {
            assert_eq!(run(line), Ok(Command::Version), "{line}");
        }
        for line in ["help", "--help", "-h", "serve --help", "--listen x:1 -h"] {
            assert_eq!(run(line), Ok(Command::Help), "{line}");
        }
    }

    #[test]
    fn mistakes_name_themselves_and_the_mend() {
        for (line, says) in [
            ("sevre", "sevre: no such command; did you mean serve?"),
            ("serve now", "now: one argument too many; options start with --; the command is serve"),
            ("--ring-event=5", "--ring-event=\"5\": no such option; did you mean --ring-events?"),
            ("--ring_bytes 5", "--ring_bytes: no such option; did you mean --ring-bytes?"),
            ("--colour", "--colour: no such option; take it out, or see revcast --help"),
            ("-p 80", "-p: no such option; take it out, or see revcast --help"),
            ("--listen", "--listen: its value is missing; write --listen ADDR"),
        ] {
            assert_eq!(run(line).expect_err(line).to_string(), says);
        }
    }

    #[test]
    fn help_names_everything_and_fits_a_screen() {
        let help = help();
        for row in &ROWS {
            assert!(help.contains(&format!("  {} {} ", row.flag(), row.value)), "{}", row.name);
            assert!(help.contains(row.help), "{}", row.name);
            if let Standard::Text(text) = row.standard {
                assert!(help.contains(&format!("[{text}]")), "the default of {}", row.name);
            }
        }
        for (name, _) in COMMANDS {
            assert!(help.contains(&format!("  {name} ")), "{name}");
        }
        assert!(help.lines().count() <= 48, "{} lines", help.lines().count());
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        }
    }
}
