//! What the tests share: real servers with a plain client, real etcds, a proxy between them, and two servers of which one
//! forwards to the other; and rules over what watchers received.
pub mod alone;
pub mod beside;
pub mod certs;
pub mod client;
pub mod etcd;
pub mod history;
pub mod http2;
pub mod port;
pub mod proxy;
pub mod secrets;
pub mod server;
mod shared_options;
pub mod sizes;
pub mod succession;
pub mod tls;
pub mod tmux;
pub mod upstream;
pub mod websocket;
pub mod workload;
