//! A list that is taken page by page: how far its client is.

use std::rc::Rc;
use std::sync::Arc;

use super::object::State;

/// A client that takes a list page by page while the world goes on: what its continue token says, and what is still to
/// come.
#[derive(Debug)]
pub(crate) struct Pager {
    pub(super) kind: usize,
    pub(super) namespace: Option<&'static str>,
    pub(super) revision: u64,
    /// Behind which path the next page starts.
    pub(super) after: Option<Arc<str>>,
    pub(super) rest: std::vec::IntoIter<Rc<State>>,
    pub(super) pages: usize,
}
