//! A real terminal for tests: a tmux of its own, in which a shell runs.

use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::server::Scratch;

/// One terminal. It ends when it is dropped.
#[derive(Debug)]
pub struct Tmux {
    folder: Scratch,
}

impl Tmux {
    /// `None`, said aloud, if there is no tmux.
    ///
    /// # Panics
    /// When tmux fails.
    #[must_use]
    pub fn start(name: &str, width: u32, height: u32) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            let _ = writeln!(
                std::io::stderr(),
                "!!! SKIPPED: tmux is not here, nothing was seen in a terminal; cargo xtask tmux installs it"
            );
            return None;
        }
        let tmux = Self { folder: Scratch::new(name) };
        let size = ["-x", &width.to_string(), "-y", &height.to_string()].map(str::to_owned);
        let start = ["-f", "/dev/null", "new-session", "-d"].map(str::to_owned);
        tmux.run(&[&start[..], &size, &["env PS1='shell$ ' TERM=screen-256color sh".to_owned()]].concat());
        Some(tmux)
    }

    fn run(&self, arguments: &[String]) -> String {
        let mut command = Command::new("tmux");
        // Otherwise it would write what is no ASCII as underscores.
        command.arg("-u").arg("-S").arg(format!("{}/socket", self.folder.path())).args(arguments);
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("REVCAST_"))
        {
            command.env_remove(name);
        }
        let output = command.env_remove("TMUX").env_remove("NO_COLOR").output().expect("tmux runs");
        assert!(output.status.success(), "tmux {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Presses keys, by the names that tmux has for them.
    pub fn keys(&self, keys: &[&str]) {
        self.run(&[&["send-keys"], keys].concat().iter().map(|key| (*key).to_owned()).collect::<Vec<_>>());
    }

    /// What is on it.
    #[must_use]
    pub fn screen(&self) -> String {
        self.run(&["capture-pane".to_owned(), "-p".to_owned()])
    }

    /// Gives it another size.
    pub fn resize(&self, width: u32, height: u32) {
        let size = ["-x".to_owned(), width.to_string(), "-y".to_owned(), height.to_string()];
        self.run(&[&["resize-window".to_owned()], &size[..]].concat());
    }

    /// A folder that ends with it.
    #[must_use]
    pub fn folder(&self) -> &str {
        self.folder.path()
    }

    /// The screen, once it is as wanted.
    ///
    /// # Panics
    /// When it is not within half a minute.
    pub fn until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let screen = self.screen();
            if wanted(&screen) {
                return screen;
            }
            assert!(Instant::now() < deadline, "{what} does not come:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server".to_owned()]);
    }
}
