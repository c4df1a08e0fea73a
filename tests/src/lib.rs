//! What the tests share: a simulator of the engine with an oracle, and real servers with a plain client.
pub mod client;
pub mod server;
pub mod sim;
