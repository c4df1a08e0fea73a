//! Benchmarks live in `benches/`, one file per engine module, and instruction counts in `benches/counts`; this crate has no code of its own.
//!
//! ```text
//! cargo bench -p revcast-benches                      # all of them
//! cargo bench -p revcast-benches --bench shard        # one module
//! cargo bench -p revcast-benches -- --test            # each once, to see that they still run
//! ```
//!
//! A figure is good for a comparison within one run on one machine, not for keeping.
