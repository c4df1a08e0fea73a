//! The man page, made from the table of options, as roff (man(7)).

use super::COMMANDS;
use crate::config::row::Standard;
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
    for row in &ROWS {
        let standard = match row.standard {
            Standard::Text(standard) | Standard::Unset(standard) => plain(standard),
        };
        text.push_str(&format!(
            ".TP\n\\fB{}\\fR \\fI{}\\fR\n{}. Default: {standard}.\n",
            plain(&row.flag()),
            plain(row.value),
            plain(row.help)
        ));
    }
    text.push_str(REST);
    text
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

    /// groff, with every warning; or mandoc. Prints a notice if there is neither.
    #[test]
    fn roff_takes_it() {
        let checks: [(&str, &[&str]); 2] =
            [("groff", &["-man", "-Tutf8", "-ww", "-z"]), ("mandoc", &["-T", "lint", "-W", "warning"])];
        let mut checked = false;
        for (name, arguments) in checks {
            let child = Command::new(name)
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn();
            let Ok(mut child) = child else { continue };
            child.stdin.take().unwrap().write_all(page().as_bytes()).unwrap();
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
