//! One core: its shard of the engine, and what the tasks of the core share.
//!
//! | file | owns |
//! |---|---|
//! | `core` | the engine's shard, its watches, and their epoch |
//! | `local` | what tasks of this core use: all of the below, and the core |
//! | `source_client` | requests to the source's thread, and the tasks that wait for answers |
//! | `revision_waiters` | tasks that wait for a revision |
//! | `scheduling` | when tasks yield to the shard and to the executor's rings |
//! | `request_gate` | how many requests begin between two turns |
//! | `handshake_limiter` | the order of TLS handshake steps |

pub(super) mod core;
pub(super) mod handshake_limiter;
pub(super) mod local;
mod request_gate;
mod revision_waiters;
mod scheduling;
mod source_client;
