//! libFuzzer over the target of this name.
#![no_main]

#[allow(dead_code, reason = "each program runs one target of all")]
#[path = "../targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::frames::run(data));
