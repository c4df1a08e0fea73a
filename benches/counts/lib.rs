//! Only benchmarks: see `counts.rs` beside this.
