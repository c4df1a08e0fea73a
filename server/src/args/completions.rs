//! Completions for shells, made from the table of options: every option with its help and its possible values.
//!
//! It owns each shell's quoting. It never lists options itself.

use super::COMMANDS;
use super::own::{self, OWN, OwnOption};
use crate::config::row::{Row, TRUTH};
use crate::config::table::ROWS;

/// A shell that completions are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// `eval "$(revcast completions bash)"`
    Bash,
    /// A file `_revcast` in a folder of `fpath`, or `eval`.
    Zsh,
    /// `revcast completions fish | source`
    Fish,
}

impl Shell {
    /// All shells, in the order of the help.
    pub const ALL: [Self; 3] = [Self::Bash, Self::Zsh, Self::Fish];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }

    /// The script.
    #[must_use]
    pub fn script(self) -> String {
        match self {
            Self::Bash => bash(),
            Self::Zsh => zsh(),
            Self::Fish => fish(),
        }
    }
}

/// The possible values, as far as a shell can complete them.
enum Value {
    File,
    Folder,
    /// One of these words.
    Words(Vec<&'static str>),
    Anything,
}

fn value(row: &Row) -> Value {
    value_of(row.value, words(row))
}

fn own_value(option: &OwnOption) -> Value {
    value_of(option.value, option.words())
}

fn value_of(placeholder: &str, words: &[&'static str]) -> Value {
    match placeholder {
        "FILE" => Value::File,
        "DIR" => Value::Folder,
        _ if !words.is_empty() => Value::Words(words.to_vec()),
        _ => Value::Anything,
    }
}

/// The values of an option that has few.
fn words(row: &Row) -> &'static [&'static str] {
    match (row.name, row.value) {
        (_, TRUTH) => &["true", "false"],
        ("send-mode", _) => &["auto", "send", "io_uring"],
        ("log-level", _) => &["error", "warn", "info", "debug"],
        ("log-format", _) => &["text", "json"],
        ("etcd-watch", _) => &["auto", "all", "prefix"],
        ("http2-heartbeat", _) => &["stream", "ping"],
        ("warm-start", _) => &["full", "fast", "off"],
        _ => &[],
    }
}

fn shells() -> String {
    Shell::ALL.map(Shell::name).join(" ")
}

fn bash() -> String {
    let mut text = String::from(
        "# Completions of revcast for bash: eval \"$(revcast completions bash)\"\n\
         _revcast() {\n    local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\"\n    \
         COMPREPLY=()\n    if [[ $word != -* ]]; then\n        case \"$before\" in\n",
    );
    let commands = COMMANDS.map(|verb| verb.name);
    for (verb, how) in [
        ("completions", format!("-W '{}'", shells())),
        ("help", format!("-W '{}'", commands.join(" "))),
        ("man", "-d".to_owned()),
    ] {
        text.push_str(&format!(
            "            {verb}) mapfile -t COMPREPLY < <(compgen {how} -- \"$word\"); return ;;\n"
        ));
    }
    text.push_str("        esac\n    fi\n    case \"$before\" in\n");
    let mut offer = |option: &str, how: &str| {
        text.push_str(&format!(
            "        {option}) mapfile -t COMPREPLY < <(compgen {how} -- \"$word\"); return ;;\n"
        ));
    };
    let rows = ROWS.iter().map(|row| (row.flag(), value(row)));
    let own = OWN.iter().filter(|option| !option.value.is_empty());
    let mut free = Vec::new();
    for (flag, value) in rows.chain(own.map(|option| (option.flag(), own_value(option)))) {
        match value {
            Value::File => offer(&flag, "-f"),
            Value::Folder => offer(&flag, "-d"),
            Value::Words(words) => offer(&flag, &format!("-W '{}'", words.join(" "))),
            Value::Anything => free.push(flag),
        }
    }
    text.push_str(&format!("        {}) return ;;\n    esac\n", free.join("|")));
    text.push_str(&format!(
        "    local command=serve known\n    for known in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do\n        \
         case \"$known\" in {}) command=$known; break ;; esac\n    done\n    \
         if [[ $word != -* ]]; then\n        \
         mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$word\"); return\n    fi\n    case \"$command\" in\n",
        commands.join("|"),
        commands.join(" ")
    ));
    for name in commands {
        text.push_str(&format!(
            "        {name}) mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$word\") ;;\n",
            flags(name).join(" ")
        ));
    }
    text.push_str("    esac\n}\ncomplete -F _revcast revcast\n");
    text
}

/// All options of a command.
fn flags(verb: &str) -> Vec<String> {
    let own = own::of(verb).map(OwnOption::flag);
    own.chain(own::rows(verb).map(Row::flag)).chain(["--help".to_owned()]).collect()
}

/// How zsh completes a value.
fn action(value: Value) -> String {
    match value {
        Value::File => "_files".to_owned(),
        Value::Folder => "_files -/".to_owned(),
        Value::Words(words) => format!("({})", words.join(" ")),
        Value::Anything => " ".to_owned(),
    }
}

fn zsh() -> String {
    // Within single quotes; brackets end a description and colons a word.
    let quoted = |text: &str| {
        let mut quoted = String::new();
        for letter in text.chars() {
            match letter {
                '\'' => quoted.push_str("'\\''"),
                '[' | ']' | ':' | '\\' => quoted.extend(['\\', letter]),
                _ => quoted.push(letter),
            }
        }
        quoted
    };
    let mut text = String::from("#compdef revcast\n_revcast() {\n    local -a commands\n    commands=(\n");
    for verb in &COMMANDS {
        text.push_str(&format!("        '{}:{}'\n", verb.name, quoted(verb.says)));
    }
    text.push_str("    )\n    _arguments \\\n");
    for row in &ROWS {
        let action = action(value(row));
        text.push_str(&format!(
            "        '{}=[{}]:{}:{action}' \\\n",
            row.flag(),
            quoted(row.help),
            quoted(row.value)
        ));
    }
    for (at, option) in OWN.iter().enumerate() {
        // zsh takes an option once, whichever commands have it.
        if OWN[..at].iter().any(|other| other.name == option.name) {
            continue;
        }
        let verbs: Vec<&str> =
            OWN.iter().filter(|other| other.name == option.name).map(|own| own.verb).collect();
        let (sign, value) = match option.value {
            "" => ("", String::new()),
            value => ("=", format!(":{value}:{}", action(own_value(option)))),
        };
        text.push_str(&format!(
            "        '{}{sign}[{}: {}]{value}' \\\n",
            option.flag(),
            verbs.join(", "),
            quoted(option.help)
        ));
    }
    text.push_str(&format!(
        "        '(- *)--help[print the help]' \\\n        \
         '1:command:{{_describe command commands}}' \\\n        '2:shell:({})'\n}}\n\
         if [[ ${{funcstack[1]}} == _revcast ]]; then _revcast \"$@\"; else compdef _revcast revcast; fi\n",
        shells()
    ));
    text
}

fn fish() -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let mut text = String::from(
        "# Completions of revcast for fish: revcast completions fish | source\ncomplete -c revcast -f\n",
    );
    for verb in &COMMANDS {
        text.push_str(&format!(
            "complete -c revcast -n __fish_use_subcommand -a {} -d {}\n",
            verb.name,
            quoted(verb.says)
        ));
    }
    text.push_str(&format!(
        "complete -c revcast -n '__fish_seen_subcommand_from completions' -a '{}'\n\
         complete -c revcast -n '__fish_seen_subcommand_from help' -a '{}'\n\
         complete -c revcast -n '__fish_seen_subcommand_from man' -a '(__fish_complete_directories)'\n\
         complete -c revcast -l help -d 'print the help'\n",
        shells(),
        COMMANDS.map(|verb| verb.name).join(" ")
    ));
    let how = |value: Value| match value {
        Value::File | Value::Folder => "-r -F".to_owned(),
        Value::Words(words) => format!("-x -a {}", quoted(&words.join(" "))),
        Value::Anything => "-x".to_owned(),
    };
    for option in &OWN {
        let how =
            if option.value.is_empty() { String::new() } else { format!(" {}", how(own_value(option))) };
        text.push_str(&format!(
            "complete -c revcast -n '__fish_seen_subcommand_from {}' -l {}{how} -d {}\n",
            option.verb,
            option.name,
            quoted(option.help)
        ));
    }
    for row in &ROWS {
        let how = how(value(row));
        text.push_str(&format!("complete -c revcast -l {} {how} -d {}\n", row.name, quoted(row.help)));
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::config::{Config, Flags};

    #[test]
    fn every_row_and_command_appears() {
        for shell in Shell::ALL {
            let script = shell.script();
            let has = |word: &str| {
                script
                    .split(|letter: char| !letter.is_alphanumeric() && letter != '-')
                    .any(|found| found == word)
            };
            for row in &ROWS {
                let word = if shell == Shell::Fish { row.name.to_owned() } else { row.flag() };
                assert!(has(&word), "{} has no {word}", shell.name());
                assert!(words(row).iter().all(|word| script.contains(word)), "{}: {word}", shell.name());
            }
            for option in &OWN {
                let word = if shell == Shell::Fish { option.name.to_owned() } else { option.flag() };
                assert!(has(&word), "{} has no {word}", shell.name());
            }
            assert!(COMMANDS.iter().all(|verb| has(verb.name)), "{}", shell.name());
        }
    }

    #[test]
    fn what_is_offered_is_taken() {
        let mut offered = 0;
        for (index, row) in ROWS.iter().enumerate() {
            for word in words(row) {
                let flags = Flags { given: vec![(index, (*word).to_owned())] };
                assert!(Config::load(&flags, [], &[0]).is_ok(), "{} {word}", row.flag());
                offered += 1;
            }
        }
        assert!(offered >= 12, "{offered}");
    }

    /// Whether a shell accepts the script; prints a notice if there is no such shell.
    #[test]
    fn shells_take_them() {
        for shell in Shell::ALL {
            let child = Command::new(shell.name()).arg("-n").stdin(Stdio::piped()).spawn();
            let Ok(mut child) = child else {
                let _ = writeln!(std::io::stderr(), "!!! SKIPPED: there is no {} here", shell.name());
                continue;
            };
            child.stdin.take().unwrap().write_all(shell.script().as_bytes()).unwrap();
            assert!(child.wait().unwrap().success(), "{} refuses its script", shell.name());
        }
    }

    /// What bash completes after some words.
    fn offered(words: &[&str]) -> Option<Vec<String>> {
        let line = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        let script = format!(
            "{}\nCOMP_WORDS=({line}); COMP_CWORD={}; _revcast; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            Shell::Bash.script(),
            words.len() - 1
        );
        let output = Command::new("bash").args(["-c", &script]).output().ok()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
    }

    #[test]
    fn bash_offers_what_fits() {
        let Some(commands) = offered(&["revcast", "do"]) else { return };
        assert_eq!(commands, ["doctor"]);
        assert_eq!(offered(&["revcast", "serve", "--drain-"]).unwrap(), ["--drain-delay", "--drain-grace"]);
        assert_eq!(offered(&["revcast", "--log-level", "w"]).unwrap(), ["warn"]);
        assert_eq!(offered(&["revcast", "completions", ""]).unwrap(), ["bash", "zsh", "fish"]);
        assert_eq!(offered(&["revcast", "--shards", "x"]).unwrap(), [""]);
        // Each command has its own, and none of the others'.
        for verb in &COMMANDS {
            let mut wanted = flags(verb.name);
            let mut all = offered(&["revcast", verb.name, "--"]).unwrap();
            wanted.sort_unstable();
            all.sort_unstable();
            assert_eq!(all, wanted, "{}", verb.name);
        }
        assert_eq!(offered(&["revcast", "demo", "--w"]).unwrap(), ["--watchers", "--writes"]);
        assert_eq!(offered(&["revcast", "demo", "--watchers", "x"]).unwrap(), [""]);
        assert_eq!(offered(&["revcast", "help", "de"]).unwrap(), ["demo"]);
    }
}
