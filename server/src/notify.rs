//! Notifications of a service manager: ready, alive, stopping (sd_notify(3)).
//!
//! It owns the socket that the manager named and the thread that sends keep-alives. Without a manager it does nothing. A
//! message that cannot be sent is lost: the manager's watchdog notices that.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use crate::runtime::Pulse;
use crate::runtime::watchdog::TurnMonitor;
use crate::serve::Life;

/// Interval of the checks when the manager expects no keep-alives.
const LOOK: Duration = Duration::from_secs(1);

/// A service manager that expects notifications.
#[derive(Debug)]
pub struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
    /// The interval in which it expects a keep-alive.
    watchdog: Option<Duration>,
}

impl Manager {
    /// The one that started this process: `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`. `None`: there is none.
    ///
    /// # Errors
    /// A socket that is neither a path nor an abstract name, or a system without another socket; in one line.
    pub fn of_environment() -> Result<Option<Self>, String> {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|micros| ours && *micros > 0);
        Self::at(&name, watchdog.map(Duration::from_micros)).map(Some)
    }

    fn at(name: &OsStr, watchdog: Option<Duration>) -> Result<Self, String> {
        let broken =
            |error: &dyn std::fmt::Display| format!("NOTIFY_SOCKET {}: {error}", name.to_string_lossy());
        let address = match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest),
            [b'/', ..] => SocketAddr::from_pathname(name),
            _ => return Err(broken(&"neither a path nor an abstract name")),
        };
        let socket = UnixDatagram::unbound().map_err(|error| broken(&error))?;
        // A manager that does not read must not block the server.
        socket.set_nonblocking(true).map_err(|error| broken(&error))?;
        Ok(Self { socket, address: address.map_err(|error| broken(&error))?, watchdog })
    }

    /// Sends one or several assignments, one per line.
    fn say(&self, words: &str) {
        let _ = self.socket.send_to_addr(words.as_bytes(), &self.address);
    }

    /// The server stops.
    pub fn stopping(&self, status: &str) {
        self.say(&format!("STOPPING=1\nSTATUS={status}"));
    }

    /// Reports when the server is ready, its status, and keep-alives as long as every shard turns; until the process ends.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn attend(self: &Arc<Self>, pulse: Pulse) -> std::io::Result<()> {
        let manager = Arc::clone(self);
        let talk = move || {
            let mut words = Words::default();
            loop {
                let said = words.next(pulse.life(), &pulse.turns(), pulse.watchers());
                if !said.is_empty() {
                    manager.say(&said);
                }
                // At most half of the interval, as sd_watchdog_enabled(3) advises.
                std::thread::sleep(manager.watchdog.map_or(LOOK, |time| (time / 2).min(LOOK)));
            }
        };
        std::thread::Builder::new().name("notify".into()).spawn(talk).map(|_| ())
    }
}

/// Which notifications are due.
#[derive(Debug, Default)]
struct Words {
    ready: bool,
    status: String,
    stillness: TurnMonitor,
}

impl Words {
    /// The notifications that are due now; `None` if nothing changed and no keep-alive is due.
    fn next(&mut self, life: Life, turns: &[u64], watchers: usize) -> String {
        let mut words = String::new();
        self.stillness.look(turns);
        if life == Life::Serving && !self.ready {
            self.ready = true;
            words.push_str("READY=1\n");
        }
        if self.stillness.all_turn() {
            words.push_str("WATCHDOG=1\n");
        }
        let shards = turns.len();
        let status = match life {
            Life::Starting => "waiting for the state of the source".to_owned(),
            Life::Serving if !self.stillness.all_turn() => "a shard does not turn: see the log".to_owned(),
            Life::Serving => format!("serving {watchers} watches, shards: {shards}"),
            Life::Lingering => format!("not ready, closing soon: {watchers} watches"),
            Life::Closing => format!("closing: {watchers} watches left"),
        };
        if status != self.status {
            words.push_str(&format!("STATUS={status}\n"));
            self.status = status;
        }
        words
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn life_is_proven_only_while_every_shard_turns() {
        let mut words = Words::default();
        assert_eq!(
            words.next(Life::Starting, &[1, 1], 0),
            "WATCHDOG=1\nSTATUS=waiting for the state of the source\n"
        );
        assert_eq!(
            words.next(Life::Serving, &[2, 2], 0),
            "READY=1\nWATCHDOG=1\nSTATUS=serving 0 watches, shards: 2\n"
        );
        assert_eq!(words.next(Life::Serving, &[3, 3], 0), "WATCHDOG=1\n", "ready is said once");
        assert_eq!(words.next(Life::Serving, &[4, 3], 0), "STATUS=a shard does not turn: see the log\n");
        assert_eq!(words.next(Life::Serving, &[5, 3], 0), "", "no proof of life");
        assert_eq!(
            words.next(Life::Serving, &[6, 4], 7),
            "WATCHDOG=1\nSTATUS=serving 7 watches, shards: 2\n"
        );
        assert_eq!(words.next(Life::Closing, &[7, 5], 7), "WATCHDOG=1\nSTATUS=closing: 7 watches left\n");
    }

    #[test]
    fn sockets_have_paths_or_abstract_names() {
        let name = format!("revcast-notify-{}", std::process::id());
        let abstract_one = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let path = std::env::temp_dir().join(&name);
        let _ = std::fs::remove_file(&path);
        let with_path = UnixDatagram::bind(&path).unwrap();
        for (socket, name) in
            [(abstract_one, format!("@{name}")), (with_path, path.to_str().unwrap().to_owned())]
        {
            Manager::at(OsStr::new(&name), None).unwrap().stopping("now");
            let mut buffer = [0; 64];
            let length = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"STOPPING=1\nSTATUS=now");
        }
        std::fs::remove_file(path).unwrap();
        let wrong = Manager::at(OsStr::new("vsock:2:1"), None).unwrap_err();
        assert_eq!(wrong, "NOTIFY_SOCKET vsock:2:1: neither a path nor an abstract name");
    }
}
