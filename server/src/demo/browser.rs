//! Opens the page in a browser, where somebody sits who would see it.

use std::io::IsTerminal;
use std::process::{Command, Stdio};

/// What is known of who started the demo.
#[derive(Clone, Copy, Debug)]
struct Surroundings {
    has_terminal: bool,
    has_display: bool,
    is_remote: bool,
    is_root: bool,
}

/// Whether the page is opened if nobody said so: at a terminal with a display of this machine, and not as root, whose browser
/// would write into another's session.
const fn is_wanted(around: Surroundings) -> bool {
    around.has_terminal && around.has_display && !around.is_remote && !around.is_root
}

/// Opens `url`, if that is wanted. What to say about it.
pub(super) fn open(url: &str, wanted: Option<bool>) -> Option<String> {
    let has = |names: &[&str]| {
        names.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
    };
    let around = Surroundings {
        has_terminal: std::io::stdout().is_terminal(),
        has_display: has(&["DISPLAY", "WAYLAND_DISPLAY"]),
        is_remote: has(&["SSH_CONNECTION", "SSH_TTY"]),
        is_root: rustix::process::geteuid().is_root(),
    };
    if !wanted.unwrap_or_else(|| is_wanted(around)) {
        return None;
    }
    let started = Command::new("xdg-open")
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        Ok(mut child) => {
            // It ends when the browser has the address, and is waited for so that it leaves no zombie.
            let waits =
                std::thread::Builder::new().name("browser".into()).spawn(move || child.wait().is_ok());
            waits.is_ok().then(|| "opened in your browser".to_owned())
        }
        Err(error) if wanted.is_some() => Some(format!("not opened: xdg-open: {error}")),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_where_somebody_sits() {
        let seat = Surroundings { has_terminal: true, has_display: true, is_remote: false, is_root: false };
        assert!(is_wanted(seat));
        for other in [
            Surroundings { has_terminal: false, ..seat },
            Surroundings { has_display: false, ..seat },
            Surroundings { is_remote: true, ..seat },
            Surroundings { is_root: true, ..seat },
        ] {
            assert!(!is_wanted(other), "{other:?}");
        }
        assert_eq!(open("http://127.0.0.1:1/", Some(false)), None);
    }
}
