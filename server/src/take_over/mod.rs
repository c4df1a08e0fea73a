//! Handover from a running revcast (the predecessor) to one that is started beside it (the successor), on one host.
//!
//! The successor loads its state, asks the predecessor for its listening sockets, and accepts from them. The predecessor then ends its
//! watches one after another, and its clients resume at the successor. It owns how the two find each other and speak (`channel`,
//! `message`), and the order of the steps on both sides (`predecessor`, `successor`). What becomes of listeners and watches within
//! a process is the runtime's part ([`Handover`](crate::runtime::Handover)).
//!
//! ```text
//! successor                                     predecessor
//! who?                                     ──▶
//!                                          ◀──  process, store, revision
//! (waits until it has that revision)
//! listeners?                               ──▶  stops to accept
//!                                          ◀──  the sockets
//! ready                                    ──▶
//!                                          ◀──  yours
//! accepts                                       ends its watches, one after another
//! leaving (it ends in an orderly way)      ──▶
//!                                               ends
//! ```
//!
//! Whoever breaks the connection before `yours` changes nothing: the predecessor accepts again. If the successor breaks it after that,
//! without `leaving`, it has died, and the predecessor takes the listeners back.

mod channel;
mod control_socket;
mod message;
mod predecessor;
mod predecessor_link;
mod successor;

pub use control_socket::ControlSocket;
pub use message::{Description, Store};
pub use predecessor::attend;
pub use predecessor_link::PredecessorLink;
pub use successor::{find, receive};
