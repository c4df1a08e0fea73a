//! The command line: which command, which options, and the help.
//!
//! It owns the syntax of an invocation. It never validates a value: the rows of the table do, when
//! [`Config`](crate::config::Config) is built.

mod completions;
mod manual;
mod own;
mod top;

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::Arg;

use crate::config::Flags;
use crate::config::row::{Row, Standard, TRUTH};
use crate::config::table::ROWS;
use crate::demo::Options as DemoOptions;
use crate::printable::one_line;
use crate::probe::Target;
use crate::setting::{ConfigError, Origin, Wrong};
use crate::top::Options as TopOptions;
pub use completions::Shell;
pub use manual::{page, write_pages};
use own::{OWN, OwnOption};

/// The command. `revcast` alone is [`Command::Serve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Serve until SIGTERM.
    Serve(Flags),
    /// Print the effective configuration and the origin of each value.
    Config(Flags),
    /// Probe the machine and print each finding.
    Doctor {
        /// The options of the server that is to run.
        flags: Flags,
        /// One JSON object instead of lines.
        json: bool,
    },
    /// Ask a server whether it is ready.
    Probe(Target),
    /// Serve a small cluster, with clients of it in the same process.
    Demo {
        /// The options of its server.
        flags: Flags,
        /// Its own.
        options: DemoOptions,
    },
    /// Show the status of a server.
    Top(TopOptions),
    /// Print completions for a shell.
    Completions(Shell),
    /// Print the man page, or write one for each command into a folder.
    Man(Option<PathBuf>),
    /// Print the version.
    Version,
    /// Print [`help`].
    Help,
    /// Print [`help_of`] this command.
    HelpOf(&'static str),
}

/// A command, as in the help and the man page.
#[derive(Debug)]
struct Verb {
    name: &'static str,
    /// The argument that may follow it.
    argument: &'static str,
    says: &'static str,
}

const COMMANDS: [Verb; 10] = [
    Verb { name: "serve", argument: "", says: "serve list and watch; the default" },
    Verb { name: "config", argument: "", says: "print the configuration and the origin of each value" },
    Verb {
        name: "doctor",
        argument: "[--json]",
        says: "check this machine and say how to fix what is wrong",
    },
    Verb { name: "probe", argument: "URL", says: "check a URL, as http://127.0.0.1:8081/readyz" },
    Verb { name: "demo", argument: "", says: "show fan-out: a small cluster, and watchers of it" },
    Verb { name: "top", argument: "", says: "show a running server: rates, watchers, latencies, errors" },
    Verb { name: "completions", argument: "SHELL", says: "print completions for bash, zsh or fish" },
    Verb { name: "man", argument: "[DIR]", says: "print the man page, or write all of them to DIR" },
    Verb { name: "version", argument: "", says: "print the version" },
    Verb { name: "help", argument: "[COMMAND]", says: "print this help, or that of a command" },
];

/// Reads the arguments after the program's name.
///
/// # Errors
/// An unknown command or option, a value that is missing or not UTF-8, an argument too many.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, ConfigError> {
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut words: Vec<String> = Vec::new();
    let mut flags = Flags::default();
    let mut own: Vec<(&'static str, String)> = Vec::new();
    let mut help = false;
    while let Some(argument) = parser.next().map_err(refused)? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => help = true,
            Arg::Short('V') | Arg::Long("version") => return Ok(Command::Version),
            Arg::Long(name) => {
                let name = name.to_owned();
                match OWN.iter().find(|option| option.name == name) {
                    Some(option) => own.push((option.name, own_value(&mut parser, option)?)),
                    None => flags.given.push(option(&mut parser, &name)?),
                }
            }
            Arg::Short(letter) => return Err(unknown_option(&format!("-{letter}"), None)),
            Arg::Value(word) => words.push(word.to_string_lossy().into_owned()),
        }
    }
    let mut words = words.into_iter();
    let name = words.next();
    let verb = match &name {
        None => &COMMANDS[0],
        Some(name) => command(name)?,
    };
    let takes_word = !verb.argument.is_empty() && !verb.argument.starts_with("[--");
    let argument = if takes_word { words.next() } else { None };
    if help {
        return Ok(if verb.name == "serve" || verb.name == "help" {
            Command::Help
        } else {
            Command::HelpOf(verb.name)
        });
    }
    if let Some(more) = words.next() {
        let mend = format!("options start with --; the command is {}", verb.name);
        return Err(ConfigError::at(more, Wrong::new("one argument too many", mend)));
    }
    own::check(&own, verb.name)?;
    if let (Some((row, _)), "top") = (flags.given.first(), verb.name) {
        let wrong = Wrong::new("not an option of top", "remove it, or see revcast help top");
        return Err(ConfigError::at(ROWS[*row].flag(), wrong));
    }
    Ok(match verb.name {
        "serve" => Command::Serve(flags),
        "config" => Command::Config(flags),
        "doctor" => Command::Doctor { flags, json: !own.is_empty() },
        "demo" => {
            let mut options = DemoOptions::default();
            own.iter().try_for_each(|(name, value)| options.set(name, value))?;
            Command::Demo { flags, options }
        }
        "top" => Command::Top(top::options(&own)?),
        "probe" => Command::Probe(target(argument.as_deref())?),
        "completions" => Command::Completions(shell(argument.as_deref())?),
        "man" => Command::Man(argument.map(PathBuf::from)),
        "version" => Command::Version,
        _ => match argument {
            Some(name) => Command::HelpOf(command(&name)?.name),
            None => Command::Help,
        },
    })
}

/// Whether there is a command of this name.
#[must_use]
pub fn has_command(name: &str) -> bool {
    COMMANDS.iter().any(|verb| verb.name == name)
}

fn command(name: &str) -> Result<&'static Verb, ConfigError> {
    COMMANDS.iter().find(|verb| verb.name == name).ok_or_else(|| unknown_command(name))
}

/// The value of a command's own option; empty if it takes none.
fn own_value(parser: &mut lexopt::Parser, option: &OwnOption) -> Result<String, ConfigError> {
    if option.value.is_empty() {
        return Ok(String::new());
    }
    value(parser, &option.flag(), option.value)
}

fn target(url: Option<&str>) -> Result<Target, ConfigError> {
    let url = url.unwrap_or_default();
    Target::parse(url).ok_or_else(|| {
        let wrong =
            Wrong::new("not an http URL", "give http://HOST:PORT/PATH, as http://127.0.0.1:8081/readyz");
        ConfigError::at(format!("probe \"{}\"", one_line(url)), wrong)
    })
}

fn shell(name: Option<&str>) -> Result<Shell, ConfigError> {
    let name = name.unwrap_or_default();
    Shell::ALL.into_iter().find(|shell| shell.name() == name).ok_or_else(|| {
        let wrong = Wrong::new("not a supported shell", "give bash, zsh or fish");
        ConfigError::at(format!("completions \"{}\"", one_line(name)), wrong)
    })
}

fn option(parser: &mut lexopt::Parser, name: &str) -> Result<(usize, String), ConfigError> {
    let Some((index, row)) = ROWS.iter().enumerate().find(|(_, row)| row.name == name) else {
        let value = parser.optional_value().map(|value| value.to_string_lossy().into_owned());
        return Err(unknown_option(&format!("--{name}"), value.as_deref()));
    };
    // What is on or off is on without a value.
    let is_bare = row.value == TRUTH
        && parser
            .try_raw_args()
            .is_some_and(|rest| rest.peek().is_none_or(|next| next.as_encoded_bytes().starts_with(b"-")));
    if is_bare {
        return Ok((index, "true".to_owned()));
    }
    Ok((index, value(parser, &row.flag(), row.value)?))
}

fn value(parser: &mut lexopt::Parser, flag: &str, form: &str) -> Result<String, ConfigError> {
    let value = parser.value().map_err(|_| {
        ConfigError::at(flag, Wrong::new("its value is missing", format!("write {flag} {form}")))
    })?;
    value.into_string().map_err(|value| {
        let place = format!("{flag} \"{}\"", value.to_string_lossy());
        ConfigError::at(place, Wrong::new("not UTF-8", "give plain text"))
    })
}

fn unknown_option(name: &str, value: Option<&str>) -> ConfigError {
    let mut known: Vec<String> = ROWS.iter().map(Row::flag).chain(OWN.iter().map(OwnOption::flag)).collect();
    known.extend(["--help".to_owned(), "--version".to_owned()]);
    let place = Origin::Flag(name.to_owned());
    ConfigError::unknown("option", &place, name, value, &known)
}

fn unknown_command(word: &str) -> ConfigError {
    let place = Origin::Flag(word.to_owned());
    ConfigError::unknown("command", &place, word, None, &COMMANDS.map(|verb| verb.name))
}

/// `lexopt`'s own errors: only a value for an option that takes none can occur here.
fn refused(error: lexopt::Error) -> ConfigError {
    ConfigError::at("command line", Wrong::new(error.to_string(), "see revcast --help"))
}

/// The help: at most 80 columns, and one or two screens.
#[must_use]
pub fn help() -> String {
    let mut text = String::from(
        "revcast: Kubernetes-style list and watch for tens of thousands of watchers\n\n\
         usage: revcast [COMMAND] [--OPTION VALUE | --OPTION=VALUE]...\n\n",
    );
    for Verb { name, argument, says } in COMMANDS {
        let left = format!("{name} {argument}");
        text.push_str(&format!("  {left:<18} {says}\n"));
    }
    text.push_str("\noptions of serve, config and doctor [default]; others: revcast help COMMAND\n");
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
        "\nEach is also a variable: REVCAST_RING_EVENTS. A flag overrides a variable, and\n\
         a variable overrides the file.\n\
         --resource may be repeated; REVCAST_RESOURCE takes a list with commas.\n\
         Times: 500ms, 60s, 1m30s. Sizes: 64MiB, 500MB, bytes.\n",
    );
    text
}

/// The help of one command: at most 80 columns.
///
/// # Panics
/// There is no such command.
#[must_use]
pub fn help_of(name: &str) -> String {
    let verb = command(name).expect("the name of a command");
    let space = if verb.argument.is_empty() { "" } else { " " };
    let (own, rows): (Vec<_>, Vec<_>) = (own::of(name).collect(), own::rows(name).collect());
    let options = if own.is_empty() && rows.is_empty() { "" } else { " [--OPTION VALUE]..." };
    let mut text =
        format!("revcast {name}: {}\n\nusage: revcast {name}{space}{}{options}\n", verb.says, verb.argument);
    if let Some(about) = own::about(name) {
        text.push_str(&format!("\n{about}\n"));
    }
    if !options.is_empty() {
        text.push_str("\noptions [default]:\n");
    }
    let mut line = |flag: String, value: &str, help: &str, standard: &str| {
        let left = format!("{flag} {value}");
        let standard = if matches!(standard, "" | "none") { String::new() } else { format!(" [{standard}]") };
        text.push_str(&format!("  {left:<25} {help}{standard}\n"));
    };
    own.iter().for_each(|option| line(option.flag(), option.value, option.help, option.standard));
    if rows.len() == ROWS.len() {
        text.push_str("  and those of serve: revcast help\n");
    } else {
        rows.iter().for_each(|row| line(row.flag(), row.value, row.help, row.standard_text()));
    }
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
        assert_eq!(run("doctor"), Ok(Command::Doctor { flags: Flags::default(), json: false }));
        assert_eq!(run("--json doctor"), Ok(Command::Doctor { flags: Flags::default(), json: true }));
        assert!(matches!(run("probe http://127.0.0.1:8081/readyz"), Ok(Command::Probe(_))));
        assert_eq!(run("completions fish"), Ok(Command::Completions(Shell::Fish)));
        assert_eq!(run("man"), Ok(Command::Man(None)));
        assert_eq!(run("man pages"), Ok(Command::Man(Some("pages".into()))));
        let address = |text: &str| crate::top::Address::parse(text).expect("it is one");
        let subject = crate::top::Subject { address: address("127.0.0.1:8081"), ca: None, token_file: None };
        let shown = TopOptions { subject, delay: std::time::Duration::from_secs(1), once: None };
        assert_eq!(run("top"), Ok(Command::Top(shown)));
        let subject = crate::top::Subject {
            address: address("https://h:1"),
            ca: Some("c.pem".into()),
            token_file: Some("t".into()),
        };
        let line = "top --admin https://h:1 --ca c.pem --token-file t --delay 3s --once --output json";
        let delay = std::time::Duration::from_secs(3);
        let once = Some(crate::top::Form::Json);
        assert_eq!(run(line), Ok(Command::Top(TopOptions { subject, delay, once })));
        let Ok(Command::Top(once)) = run("top --once") else { panic!("it is top") };
        let (form, delay) = (once.once, once.delay.as_secs());
        assert_eq!((form, delay), (Some(crate::top::Form::Table), 2), "as long as rates are over");
        let options = DemoOptions { watchers: 7, json: true, open: Some(false), ..DemoOptions::default() };
        let flags = |line| match run(line) {
            Ok(Command::Serve(flags)) => flags,
            other => panic!("{other:?}"),
        };
        let wanted = Command::Demo { flags: flags("--listen 127.0.0.1:0"), options };
        assert_eq!(run("demo --watchers 7 --listen=127.0.0.1:0 --json --no-open"), Ok(wanted));
        for line in ["version", "--version", "-V"] {
            assert_eq!(run(line), Ok(Command::Version), "{line}");
        }
        for line in ["help", "--help", "-h", "serve --help", "--listen x:1 -h"] {
            assert_eq!(run(line), Ok(Command::Help), "{line}");
        }
        for (line, of) in [
            ("demo --help", "demo"),
            ("-h --json doctor", "doctor"),
            ("help man", "man"),
            ("probe -h", "probe"),
        ] {
            assert_eq!(run(line), Ok(Command::HelpOf(of)), "{line}");
        }
    }

    #[test]
    fn what_is_on_or_off_is_on_without_a_value() {
        let given = |line: &str| match run(line) {
            Ok(Command::Serve(flags)) => {
                flags.given.into_iter().map(|(row, text)| format!("{} {text}", ROWS[row].name))
            }
            other => panic!("{line}: {other:?}"),
        };
        for (line, all) in [
            ("--take-over", &["take-over true"][..]),
            ("--take-over --shards 2", &["take-over true", "shards 2"]),
            ("--take-over false --insecure=true", &["take-over false", "insecure true"]),
            ("serve --take-over=no", &["take-over no"]),
        ] {
            assert_eq!(given(line).collect::<Vec<_>>(), all, "{line}");
        }
    }

    #[test]
    fn mistakes_name_themselves_and_the_mend() {
        for (line, says) in [
            ("sevre", "sevre: no such command; did you mean serve?"),
            ("serve now", "now: one argument too many; options start with --; the command is serve"),
            ("--ring-event=5", "--ring-event=\"5\": no such option; did you mean --ring-events?"),
            ("--ring_bytes 5", "--ring_bytes: no such option; did you mean --ring-bytes?"),
            ("--colour", "--colour: no such option; remove it, or see revcast --help"),
            ("--json", "--json: not an option of serve; remove it, or give revcast doctor --json"),
            (
                "top --admin host",
                "--admin \"host\": not the address of an admin listener; give HOST:PORT, http://HOST:PORT or https://HOST:PORT",
            ),
            (
                "top --delay 5",
                "--delay \"5\": a time without a unit; give a time from 1s to 1m such as 500ms, 60s, 5m, 1h or 1m30s",
            ),
            ("top --output json", "--output: an option of one view; add --once, or remove it"),
            ("top --once --output xml", "--output \"xml\": no such form; give table or json"),
            ("top --shards 2", "--shards: not an option of top; remove it, or see revcast help top"),
            ("--once", "--once: not an option of serve; remove it, or give revcast top --once"),
            ("top now", "now: one argument too many; options start with --; the command is top"),
            (
                "config --watchers 5",
                "--watchers: not an option of config; remove it, or give revcast demo --watchers N",
            ),
            ("demo --watchers", "--watchers: its value is missing; write --watchers N"),
            ("demo --watcher 5", "--watcher: no such option; did you mean --watchers?"),
            ("demo --writes 0", "--writes \"0\": too small; give a whole number from 1 to 500"),
            ("help sevre", "sevre: no such command; did you mean serve?"),
            ("completions", "completions \"\": not a supported shell; give bash, zsh or fish"),
            (
                "completions bash zsh",
                "zsh: one argument too many; options start with --; the command is completions",
            ),
            (
                "probe host",
                "probe \"host\": not an http URL; give http://HOST:PORT/PATH, as http://127.0.0.1:8081/readyz",
            ),
            ("-p 80", "-p: no such option; remove it, or see revcast --help"),
            ("--listen", "--listen: its value is missing; write --listen ADDR"),
        ] {
            assert_eq!(run(line).expect_err(line).to_string(), says);
        }
    }

    #[test]
    fn help_names_everything_and_is_short() {
        let help = help();
        for row in &ROWS {
            assert!(help.contains(&format!("  {} {} ", row.flag(), row.value)), "{}", row.name);
            assert!(help.contains(row.help), "{}", row.name);
            if let Standard::Text(text) = row.standard {
                assert!(help.contains(&format!("[{text}]")), "the default of {}", row.name);
            }
        }
        for Verb { name, argument, says } in COMMANDS {
            assert!(help.contains(&format!("  {name} {argument}")) && help.contains(says), "{name}");
        }
        assert!(help.lines().count() <= 104, "{} lines", help.lines().count());
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        }
    }

    #[test]
    fn each_command_has_its_help() {
        for verb in &COMMANDS {
            let help = help_of(verb.name);
            assert!(help.contains(verb.says) && help.contains(verb.argument), "{help}");
            for option in own::of(verb.name) {
                assert!(help.contains(&format!("  {} {}", option.flag(), option.value)), "{help}");
                assert!(help.contains(option.help) && help.contains(option.standard), "{help}");
            }
            for line in help.lines() {
                assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
            }
        }
        assert!(help_of("demo").contains("--admin-listen") && !help_of("version").contains("options"));
    }
}
