//! Benchmarks are in `benches/`, one file per engine module, and instruction counts in `benches/counts`; this crate has
//! no code of its own.
//!
//! ```text
//! cargo bench -p revcast-benches                      # all of them
//! cargo bench -p revcast-benches --bench shard        # one module
//! cargo bench -p revcast-benches -- --test            # each once, to see that they still run
//! ```
//!
//! Compare figures within one run on one machine only.
