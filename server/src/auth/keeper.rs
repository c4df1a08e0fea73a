//! The keeper: looks whether the files changed, and has the guard read them again.
//!
//! Owns one thread, which sleeps but for a look every few seconds. A file that is wrong changes nothing and is told to the
//! log once. A file that is noticed to have changed is read when it has been quiet for a look: who writes one in pieces is
//! not read by halves.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::files::Stamp;
use super::guard::Guard;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(2);

/// A way to have the files read at once. The thread ends when the last of them goes.
#[derive(Clone, Debug)]
pub struct Keeper(Sender<()>);

impl Keeper {
    /// Starts the thread; `changed` is called when the guard says something else than before.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(guard: Arc<Guard>, changed: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let (sender, asked) = channel();
        std::thread::Builder::new()
            .name("keeper".into())
            .spawn(move || keep(&guard, &asked, LOOK, changed))?;
        Ok(Self(sender))
    }

    /// Reads the files now, whatever they look like.
    pub fn read_now(&self) {
        // A keeper that is gone has nothing to keep any more.
        let _ = self.0.send(());
    }
}

fn keep(guard: &Guard, asked: &Receiver<()>, look: Duration, changed: impl Fn()) {
    let mut read: Vec<Option<Stamp>> = guard.stamps();
    let mut seen = read.clone();
    loop {
        let now = match asked.recv_timeout(look) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let stamps = guard.stamps();
        let quiet = stamps == seen;
        seen.clone_from(&stamps);
        if !now && (stamps == read || !quiet) {
            continue;
        }
        // What changes while it is read is noticed at the next look.
        read = stamps;
        match guard.read_again() {
            Ok(true) => {
                crate::log::info("who may do what was read again and has changed");
                for line in guard.warnings() {
                    crate::log::warn(&line);
                }
                changed();
            }
            Ok(false) if now => crate::log::info("who may do what was read again and is as it was"),
            Ok(false) => {}
            Err(error) => crate::log::error(&format!("what held before stays: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::auth::Options;
    use crate::auth::credentials::Presented;

    /// A file of its own, removed at the end.
    struct Scratch(PathBuf);

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn files_are_read_again_when_they_are_quiet_and_right() {
        let path = std::env::temp_dir().join(format!("revcast-keeper-{}.csv", std::process::id()));
        let file = Scratch(path);
        std::fs::write(&file.0, "one,alice,1\n").expect("a file");
        let options = Options { token_file: Some(file.0.clone()), ..Options::default() };
        let guard = Arc::new(Guard::new(options).expect("a right file"));
        let knows = |token: &'static str| {
            guard.authenticate(&Presented::Token(token.into()), None, std::time::SystemTime::now()).is_ok()
        };
        let (sender, asked) = channel();
        let (tell, told) = channel();
        let its = Arc::clone(&guard);
        let keeper = std::thread::spawn(move || {
            keep(&its, &asked, Duration::from_millis(20), || tell.send(()).expect("somebody listens"));
        });
        let soon = Duration::from_secs(20);
        std::fs::write(&file.0, "two,alice,1\n# three,bob,2\n").expect("written");
        assert!(told.recv_timeout(Duration::from_millis(500)).is_err(), "a wrong file says nothing");
        assert!(knows("one") && !knows("two") && guard.number() == 0);
        std::fs::write(&file.0, "two,alice,1\nthree,bob,2\n").expect("written");
        told.recv_timeout(soon).expect("noticed by itself");
        assert!(!knows("one") && knows("two") && knows("three") && guard.number() == 1);
        std::fs::remove_file(&file.0).expect("removed");
        sender.send(()).expect("the keeper is there");
        assert!(
            told.recv_timeout(Duration::from_millis(500)).is_err(),
            "a file that is gone changes nothing"
        );
        assert!(knows("two") && guard.number() == 1);
        std::fs::write(&file.0, "four,alice,1\n").expect("written");
        sender.send(()).expect("the keeper is there");
        told.recv_timeout(soon).expect("read when it is told to");
        assert!(knows("four"));
        drop(sender);
        keeper.join().expect("it ends with the last who could ask");
    }
}
