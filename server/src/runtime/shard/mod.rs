//! One core: its shard of the engine, and what the tasks of the core share.
//!
//! | file | owns |
//! |---|---|
//! | `core` | the engine's shard, its watches, and the epoch that they are of |
//! | `local` | what tasks of this core reach: all of the below, and the core |
//! | `source_client` | questions to the source's thread, and who waits for their answers |
//! | `revision_waiters` | tasks that wait for a revision |
//! | `scheduling` | when tasks give way to the shard and to the executor's rings |
//! | `handshake_limiter` | whose step of a TLS handshake is next |

pub(super) mod core;
pub(super) mod handshake_limiter;
pub(super) mod local;
mod revision_waiters;
mod scheduling;
mod source_client;
