//! The engine in simulated time, without a server: one file per behaviour. One program, since each would compile the engine's
//! generic code for itself; what counts allocations is a program of its own.

#[path = "../framings/counted.rs"]
mod counted;

mod catching_up;
mod dismiss;
mod drain;
mod end_mark;
mod fairness;
mod growing;
mod heartbeats;
mod history;
mod protobuf;
mod ranges;
mod resume;
mod timings;
