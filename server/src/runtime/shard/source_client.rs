//! Requests of one shard to the thread of the source, and the tasks that wait for the answers.
//!
//! The newest revision is requested once for all tasks that wait: a request serves those that waited when it was sent.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future;
use glommio::timer::sleep;

use crate::frontend::Newest;
use crate::runtime::sys::notify::Oneshot;
use crate::source::command_queue::{Answer, Asker, Command, CommandQueue};
use crate::source::{Fault, SourceError};

/// The ticket of the request for the newest revision; those of other commands count from zero.
const NEWEST: u64 = u64::MAX;

type NewestAnswer = Rc<Oneshot<Result<Newest, SourceError>>>;

/// The request for the newest revision.
#[derive(Debug, Default)]
struct Question {
    /// The tasks that wait for the current request.
    asked: Option<Vec<NewestAnswer>>,
    /// The tasks that came since, and wait for the next one.
    next: Vec<NewestAnswer>,
}

/// The requests of one shard.
#[derive(Debug)]
pub(super) struct SourceClient {
    shard: usize,
    commands: Arc<CommandQueue>,
    pending: RefCell<HashMap<u64, Rc<Oneshot<Answer>>>>,
    next_ticket: Cell<u64>,
    newest: RefCell<Question>,
}

impl SourceClient {
    pub(super) fn new(shard: usize, commands: Arc<CommandQueue>) -> Self {
        let (pending, next_ticket, newest) = Default::default();
        Self { shard, commands, pending, next_ticket, newest }
    }

    /// Submits a command and waits for its answer. `None`: too many wait already.
    pub(super) async fn ask(&self, command: impl FnOnce(Asker) -> Command) -> Option<Answer> {
        let ticket = self.next_ticket.replace(self.next_ticket.get() + 1);
        let answer = Rc::new(Oneshot::new());
        self.pending.borrow_mut().insert(ticket, Rc::clone(&answer));
        if self.commands.submit(command(Asker { shard: self.shard, ticket })).is_err() {
            self.pending.borrow_mut().remove(&ticket);
            return None;
        }
        Some(answer.received().await)
    }

    /// The newest revision, at least that of every write acknowledged before this call.
    ///
    /// # Errors
    /// The source did not answer in time.
    pub(super) async fn newest(&self, within: Duration) -> Result<Newest, SourceError> {
        let answer = Rc::new(Oneshot::new());
        self.newest.borrow_mut().next.push(Rc::clone(&answer));
        self.put_question();
        let late = async {
            sleep(within).await;
            let why = format!("the source did not report its revision within {} s", within.as_secs());
            Err(SourceError::new(Fault::Unavailable, why))
        };
        let found = future::or(answer.received(), late).await;
        // A task that gave up is removed.
        self.newest.borrow_mut().next.retain(|waiting| !Rc::ptr_eq(waiting, &answer));
        found
    }

    /// An answer arrived.
    pub(super) fn answered(&self, ticket: u64, answer: Answer) {
        if ticket == NEWEST {
            self.newest_answered(answer);
        } else if let Some(waiting) = self.pending.borrow_mut().remove(&ticket) {
            waiting.send(answer);
        }
    }

    /// Requests the newest revision for all tasks that wait, unless a request is in progress.
    fn put_question(&self) {
        let mut question = self.newest.borrow_mut();
        if question.asked.is_some() || question.next.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut question.next);
        let asker = Asker { shard: self.shard, ticket: NEWEST };
        if self.commands.submit(Command::Newest(asker)).is_ok() {
            question.asked = Some(waiting);
        } else {
            for answer in waiting {
                answer.send(Err(too_many()));
            }
        }
    }

    fn newest_answered(&self, answer: Answer) {
        let found = match answer {
            Answer::Newest { epoch, revision } => Ok(Newest { epoch, revision }),
            Answer::Unanswered(error) => Err(error),
            Answer::Written(_)
            | Answer::Refused(_)
            | Answer::Compacted(_)
            | Answer::NotCompacted(_)
            | Answer::Found(_) => Err(something_else()),
        };
        for answer in self.newest.borrow_mut().asked.take().unwrap_or_default() {
            answer.send(found.clone());
        }
        self.put_question();
    }
}

pub(super) fn too_many() -> SourceError {
    SourceError::new(Fault::Unavailable, "too many requests wait for the source: try again")
}

pub(super) fn something_else() -> SourceError {
    SourceError::new(Fault::Broken, "the source answered a different request: this is a bug")
}
