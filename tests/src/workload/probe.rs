//! When a server reported that it is ready: `/readyz`, polled continuously.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Workload;
use crate::client::Client;

const EVERY: Duration = Duration::from_millis(50);

/// One reply: when it was requested, when it came, its code (0: no reply).
#[derive(Clone, Copy, Debug)]
struct Answer {
    asked: Instant,
    came: Instant,
    code: u16,
}

/// Polls a server.
#[derive(Debug)]
pub struct Probe {
    workload: Arc<Workload>,
    answers: Arc<Mutex<Vec<Answer>>>,
    thread: Option<JoinHandle<()>>,
}

impl Probe {
    /// Polls the first server until the end of the test.
    #[must_use]
    pub fn start(workload: &Arc<Workload>) -> Self {
        let answers: Arc<Mutex<Vec<Answer>>> = Arc::default();
        let (ours, workload) = (Arc::clone(&answers), Arc::clone(workload));
        let of = Arc::clone(&workload);
        let thread = std::thread::spawn(move || {
            while !of.is_over() {
                let asked = Instant::now();
                let code = Client::new(&of.address(0)).get("/readyz").status;
                let answer = Answer { asked, came: Instant::now(), code };
                ours.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
                std::thread::sleep(EVERY);
            }
        });
        Self { workload, answers, thread: Some(thread) }
    }

    /// Waits until it reports that it is ready, to a request no earlier than `since`.
    ///
    /// # Errors
    /// It does not in time.
    pub fn await_ready(&self, since: Instant, within: Duration) -> Result<(), String> {
        while !self.answers().iter().any(|answer| answer.asked >= since && answer.code == 200) {
            if since.elapsed() > within {
                return Err(format!("not ready again in {within:?}"));
            }
            std::thread::sleep(EVERY);
        }
        Ok(())
    }

    /// How long after `since` it last reported that it is not ready.
    #[must_use]
    pub fn ready_since(&self, since: Instant) -> Duration {
        let answers = self.answers();
        let last = answers.iter().rev().find(|answer| answer.asked >= since && answer.code != 200);
        last.map_or(Duration::ZERO, |answer| answer.came.duration_since(since))
    }

    /// Whether it never reported that it is ready between two moments, and was polled.
    ///
    /// # Errors
    /// It did, or was not polled.
    pub fn never_ready(&self, from: Instant, to: Instant) -> Result<(), String> {
        let answers = self.answers();
        let between = || answers.iter().filter(|answer| answer.asked >= from && answer.came <= to);
        match (between().count(), between().find(|answer| answer.code == 200)) {
            (0, _) => Err("/readyz was not requested during the outage".to_owned()),
            (_, Some(answer)) => {
                let late = answer.asked.duration_since(from);
                Err(format!("/readyz says ok {late:?} after it must not any more"))
            }
            (_, None) => Ok(()),
        }
    }

    fn answers(&self) -> MutexGuard<'_, Vec<Answer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.workload.end();
        let failed = self.thread.take().is_some_and(|thread| thread.join().is_err());
        assert!(std::thread::panicking() || !failed, "the probe panicked: see above");
    }
}
