//! Detects changes of the files, and makes the guard read them again.
//!
//! Owns one thread, which reads the files every few seconds: times and sizes do not show all changes, and a revoked
//! right must not be missed. Content is taken when two checks found the same, so that a file that is written in pieces
//! is not taken half-written. An invalid or unreadable file changes nothing, is reported to the log once, and is looked
//! at again.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::guard::{Guard, Texts};
use crate::debounce::{CHECK_INTERVAL, Debounce, Fingerprint};

/// Makes the thread read the files at once. The thread ends when the last of these is dropped.
#[derive(Clone, Debug)]
pub struct AuthReloader(Sender<()>);

impl AuthReloader {
    /// Starts the thread; `changed` is called when the guard's state has changed.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(guard: Arc<Guard>, changed: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let (sender, asked) = channel();
        std::thread::Builder::new()
            .name("keeper".into())
            .spawn(move || keep(&guard, &asked, CHECK_INTERVAL, changed))?;
        Ok(Self(sender))
    }

    /// Reads the files now.
    pub fn read_now(&self) {
        // If the thread has ended there is nothing to read.
        let _ = self.0.send(());
    }
}

fn keep(guard: &Guard, asked: &Receiver<()>, look: Duration, changed: impl Fn()) {
    let mut debounce = Debounce::default();
    loop {
        let now = match asked.recv_timeout(look) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let texts = guard.texts();
        if !debounce.take(fingerprint(&texts), now) {
            continue;
        }
        match guard.take(texts) {
            Ok(true) => {
                crate::log::info("authentication and authorization were read again and have changed");
                for line in guard.warnings() {
                    crate::log::warn(&line);
                }
                changed();
            }
            Ok(false) if now => {
                crate::log::info("authentication and authorization were read again and are unchanged")
            }
            Ok(false) => {}
            Err(error) => crate::log::error(&format!("the previous users and rules stay in effect: {error}")),
        }
    }
}

/// Distinguishes two readings.
fn fingerprint(texts: &Texts) -> Fingerprint {
    let said: Vec<_> = texts.iter().map(|text| text.as_ref().map_err(ToString::to_string)).collect();
    Fingerprint::of(&said)
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
            guard
                .authenticate(&Presented::Token(token.into()), None, std::time::SystemTime::now(), None)
                .is_ok()
        };
        let (sender, asked) = channel();
        let (tell, told) = channel();
        let its = Arc::clone(&guard);
        let keeper = std::thread::spawn(move || {
            keep(&its, &asked, Duration::from_millis(20), || tell.send(()).expect("the thread listens"));
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
        // A folder in its place cannot be read; when the file comes back with its old times, the change is noticed
        // nevertheless.
        std::fs::create_dir(&file.0).expect("a folder");
        assert!(told.recv_timeout(Duration::from_millis(200)).is_err());
        std::fs::remove_dir(&file.0).expect("removed");
        std::fs::write(&file.0, "two,alice,1\n").expect("written");
        let then = std::fs::File::options().write(true).open(&file.0).expect("the file");
        then.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("an old time");
        told.recv_timeout(soon).expect("noticed by itself");
        assert!(knows("two") && !knows("three"));
        std::fs::write(&file.0, "six,alice,1\n").expect("written");
        then.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("the same old time");
        told.recv_timeout(soon).expect("of the same size and time, and noticed");
        std::fs::write(&file.0, "four,alice,1\n").expect("written");
        sender.send(()).expect("the keeper is there");
        told.recv_timeout(soon).expect("read when it is told to");
        assert!(knows("four"));
        drop(sender);
        keeper.join().expect("it ends with the last who could ask");
    }
}
