//! DELETE of a collection: every object that a list with the same parameters shows.
//!
//! One revision per object, in list order. An object that is deleted already, or whose delete lost every race, is skipped as
//! upstream does; any other error ends the request there.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use revcast_engine::key::Key;

use super::Call;
use super::delete;
use super::list::{self, Page};
use super::select::Choice;
use crate::frontend::{Host, Reply};
use crate::http::options::{ListOptions, OptionsError};
use crate::http::status::Status;

/// Deletes in progress: they share a group commit.
const AT_ONCE: usize = 32;

/// Answers a DELETE on a collection with the list of what it deleted.
pub(super) async fn delete<H: Host>(call: &Call<'_, H>, body: &Bytes) -> Result<Reply, Status> {
    let mut which = ListOptions::parse(call.query, call.schema()).map_err(OptionsError::status)?;
    let options = delete::options(call, body)?;
    let choice = Choice::new(call, std::mem::take(&mut which.selectors), None);
    let state = list::state(call, &which, &choice).await?;
    let page = Page::find(call, choice, state, &which).await;
    // Keys are pointers into the snapshot that the page holds anyway.
    let keys: Vec<Key> = page.objects().map(|object| object.key().clone()).collect();
    for wave in keys.chunks(AT_ONCE) {
        let deletes = wave.iter().map(|key| delete::delete(call, key, &options));
        for outcome in all(deletes).await {
            match outcome {
                Err(status) if status.code() != 404 => return Err(status),
                Ok(_) | Err(_) => {}
            }
        }
        call.host.yield_now().await;
    }
    page.reply(call).await
}

/// Runs futures concurrently; the results are in their order.
async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Result<F::Output, Pin<Box<F>>>> =
        futures.map(|future| Err(Box::pin(future))).collect();
    poll_fn(|context| {
        let mut pending = false;
        for slot in &mut running {
            if let Err(future) = slot {
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => *slot = Ok(output),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    running.into_iter().filter_map(Result::ok).collect()
}
