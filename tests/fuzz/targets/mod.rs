//! What is fuzzed: each target takes any bytes and fails when our reading of them and a slow, plain one differ.
//!
//! `cargo xtask fuzz` runs them under libFuzzer; the server's test `fuzz` runs them over their seeds and over seeded
//! mutations of these, everywhere.

pub(crate) mod body;
pub(crate) mod decode;
pub(crate) mod head;
pub(crate) mod patch;
pub(crate) mod query;
pub(crate) mod selector;
pub(crate) mod token;

/// What takes any bytes.
pub(crate) type Target = fn(&[u8]);

/// Every target with its name, which is that of its folder of seeds too.
pub(crate) const ALL: [(&str, Target); 7] = [
    ("head", head::run),
    ("body", body::run),
    ("query", query::run),
    ("selector", selector::run),
    ("token", token::run),
    ("patch", patch::run),
    ("decode", decode::run),
];
