//! What the kernel gives a shard: its rings for polls and sends, its eventfd, and descriptors.
//!
//! Does not know connections or watches.

pub(super) mod descriptor;
pub(super) mod notify;
pub(super) mod polls;
pub(super) mod procfs;
pub(super) mod sends;
pub(super) mod wake;
