//! The man pages, made from the tables of commands and options, as roff (man(7)): one of the program, and one of each command.

use std::path::Path;

use super::own::{self, OwnOption};
use super::{COMMANDS, Verb};
use crate::config::row::{Row, Standard};
use crate::config::table::ROWS;

const ABOUT: &str = "\
.SH DESCRIPTION
.B revcast
serves Kubernetes\\-style list and watch to tens of thousands of watchers, from a store of its own or as a cache in front
of etcd. Without a command it serves.
";

const REST: &str = "\
.SH ENVIRONMENT
Each option is also a variable:
.B REVCAST_RING_EVENTS
for
.BR \\-\\-ring\\-events .
A flag overrides a variable, a variable overrides the file, the file overrides the default.
.TP
.BR NOTIFY_SOCKET ,\\  WATCHDOG_USEC ,\\  WATCHDOG_PID
as set by systemd for a service of Type=notify: the server reports when it serves and when it stops, and sends a keep-alive as
long as every shard turns.
.SH SIGNALS
.TP
.B SIGTERM
/readyz answers 503 at once. After
.B \\-\\-drain\\-delay
no connection is taken any more, and watches end one after another over
.BR \\-\\-drain\\-grace ,
with a last bookmark for clients that asked for bookmarks. Requests under way are answered.
.TP
.B SIGINT
the same without the delay, all watches at once.
.PP
A second signal ends the process.
.SH EXIT STATUS
.TP
.B 0
Success; of
.BR doctor :
no check failed; of
.BR probe :
the server answered 200.
.TP
.B 1
A failure, or a negative answer.
.TP
.B 2
Invalid options.
.TP
.B 78
This machine or container does not allow what every server requires, such as io_uring: see
.BR \"revcast doctor\" .
.TP
.B 101
A shard or the source's thread panicked.
.TP
.BR 130 ,\\  143
A second signal ended it.
.SH SEE ALSO
.BR kubectl (1),
.BR etcd (1),
.BR io_uring (7),
.BR systemd.service (5)
";

/// The whole page.
#[must_use]
pub fn page() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!(
        ".TH REVCAST 1 \"\" \"revcast {version}\" \"User Commands\"\n.SH NAME\nrevcast \\- watch fan\\-out server\n\
         .SH SYNOPSIS\n.B revcast\n[\\fICOMMAND\\fR] [\\fB\\-\\-\\fIOPTION VALUE\\fR]...\n{ABOUT}.SH COMMANDS\n"
    );
    for verb in &COMMANDS {
        let argument = if verb.argument.is_empty() {
            String::new()
        } else {
            format!(" \\fI{}\\fR", plain(verb.argument))
        };
        text.push_str(&format!(".TP\n\\fB{}\\fR{argument}\n{}.\n", verb.name, plain(verb.says)));
    }
    text.push_str(".SH OPTIONS\n");
    ROWS.iter().for_each(|row| text.push_str(&of_row(row)));
    text.push_str(REST);
    text
}

/// The page of one command.
fn page_of(verb: &Verb) -> String {
    let (name, version) = (verb.name, env!("CARGO_PKG_VERSION"));
    let argument =
        if verb.argument.is_empty() { String::new() } else { format!(" \\fI{}\\fR", plain(verb.argument)) };
    let says = plain(verb.says);
    let (own, rows): (Vec<_>, Vec<_>) = (own::of(name).collect(), own::rows(name).collect());
    let options = if own.is_empty() && rows.is_empty() { "" } else { " [\\fB\\-\\-\\fIOPTION VALUE\\fR]..." };
    let mut text = format!(
        ".TH REVCAST\\-{} 1 \"\" \"revcast {version}\" \"User Commands\"\n.SH NAME\nrevcast\\-{name} \\- {says}\n\
         .SH SYNOPSIS\n\\fBrevcast {name}\\fR{argument}{options}\n.SH DESCRIPTION\n",
        name.to_uppercase()
    );
    match own::about(name) {
        None => text.push_str(&format!("{says}.\n")),
        // Its lines are short, and some are commands: they stay as they are.
        Some(about) => {
            let lines: Vec<String> = about.lines().map(|line| plain(line) + "\n").collect();
            text.push_str(&format!(".nf\n{}.fi\n", lines.concat()));
        }
    }
    if !options.is_empty() {
        text.push_str(".SH OPTIONS\n");
    }
    own.iter().for_each(|option| text.push_str(&of_own(option)));
    rows.iter().for_each(|row| text.push_str(&of_row(row)));
    text.push_str(".SH SEE ALSO\n.BR revcast (1)\n");
    text
}

/// Writes a page for each command, and that of the program, into `dir`, and makes it if it is not there. Returns their paths,
/// one a line.
///
/// # Errors
/// A folder or a file that cannot be written.
pub fn write_pages(dir: &Path) -> Result<String, String> {
    let failed = |path: &Path, error: std::io::Error| {
        format!("man: {}: {error}: name a folder that can be written", path.display())
    };
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    let of_commands = COMMANDS.iter().map(|verb| (format!("revcast-{}.1", verb.name), page_of(verb)));
    let mut written = String::new();
    for (name, text) in std::iter::once(("revcast.1".to_owned(), page())).chain(of_commands) {
        let path = dir.join(name);
        std::fs::write(&path, text).map_err(|error| failed(&path, error))?;
        written.push_str(&format!("{}\n", path.display()));
    }
    Ok(written)
}

fn of_row(row: &Row) -> String {
    let standard = match row.standard {
        Standard::Text(standard) | Standard::Unset(standard) => plain(standard),
    };
    format!(
        ".TP\n\\fB{}\\fR \\fI{}\\fR\n{}. Default: {standard}.\n",
        plain(&row.flag()),
        plain(row.value),
        plain(row.help)
    )
}

fn of_own(option: &OwnOption) -> String {
    let (flag, help) = (plain(&option.flag()), plain(option.help));
    let value = if option.value.is_empty() { String::new() } else { format!(" \\fI{}\\fR", option.value) };
    let standard = if option.standard.is_empty() {
        String::new()
    } else {
        format!(" Default: {}.", plain(option.standard))
    };
    format!(".TP\n\\fB{flag}\\fR{value}\n{help}.{standard}\n")
}

/// Text escaped for roff.
fn plain(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    if escaped.starts_with(['.', '\'']) { format!("\\&{escaped}") } else { escaped }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn every_row_and_command_appears() {
        let page = page();
        for row in &ROWS {
            assert!(page.contains(&format!("\\fB{}\\fR \\fI", plain(&row.flag()))), "{}", row.name);
            assert!(page.contains(&plain(row.help)), "{}", row.name);
        }
        for verb in &COMMANDS {
            assert!(page.contains(&format!(".TP\n\\fB{}\\fR", verb.name)), "{}", verb.name);
        }
        assert_eq!(plain(".a-b\\"), "\\&.a\\-b\\e");
    }

    #[test]
    fn each_command_has_its_page() {
        let dir = std::env::temp_dir().join(format!("revcast-pages-{}", std::process::id()));
        let written = write_pages(&dir).unwrap();
        assert_eq!(written.lines().count(), COMMANDS.len() + 1);
        for verb in &COMMANDS {
            let text = std::fs::read_to_string(dir.join(format!("revcast-{}.1", verb.name))).unwrap();
            assert!(text.contains(&plain(verb.says)), "{}", verb.name);
            for option in own::of(verb.name) {
                assert!(text.contains(&format!(".TP\n\\fB{}\\fR", plain(&option.flag()))), "{}", option.name);
            }
            for row in own::rows(verb.name) {
                assert!(text.contains(&format!(".TP\n\\fB{}\\fR \\fI", plain(&row.flag()))), "{}", row.name);
            }
        }
        std::fs::remove_dir_all(&dir).unwrap();
        std::fs::write(&dir, "a file").unwrap();
        assert!(write_pages(&dir).unwrap_err().contains("name a folder that can be written"));
        std::fs::remove_file(&dir).unwrap();
    }

    /// groff, with every warning; or mandoc. Prints a notice if there is neither.
    #[test]
    fn roff_takes_it() {
        let checks: [(&str, &[&str]); 2] =
            [("groff", &["-man", "-Tutf8", "-ww", "-z"]), ("mandoc", &["-T", "lint", "-W", "warning"])];
        let mut checked = false;
        let pages: Vec<String> = std::iter::once(page()).chain(COMMANDS.iter().map(page_of)).collect();
        for ((name, arguments), text) in
            checks.iter().flat_map(|check| pages.iter().map(move |text| (check, text)))
        {
            let child = Command::new(name)
                .args(*arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn();
            let Ok(mut child) = child else { continue };
            child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            let said = [output.stdout, output.stderr].concat();
            assert!(output.status.success() && said.is_empty(), "{name}: {}", String::from_utf8_lossy(&said));
            checked = true;
        }
        if !checked {
            let _ = writeln!(std::io::stderr(), "!!! SKIPPED: there is neither groff nor mandoc here");
        }
    }
}
