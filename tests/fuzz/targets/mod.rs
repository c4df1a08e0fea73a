//! Fuzz targets: each takes any bytes and fails when our parser and a slow, plain one differ.
//!
//! `cargo xtask fuzz` runs them under libFuzzer; the server's test `fuzz` runs them with their seeds and with seeded
//! mutations of these, on every machine.

pub(crate) mod body;
pub(crate) mod decode;
pub(crate) mod fields;
pub(crate) mod frames;
pub(crate) mod head;
pub(crate) mod patch;
pub(crate) mod query;
pub(crate) mod selector;
pub(crate) mod stored;
pub(crate) mod token;

/// A target: takes any bytes.
pub(crate) type Target = fn(&[u8]);

/// Every target with its name, which is also the name of its folder of seeds.
pub(crate) const ALL: [(&str, Target); 10] = [
    ("head", head::run),
    ("body", body::run),
    ("query", query::run),
    ("selector", selector::run),
    ("token", token::run),
    ("patch", patch::run),
    ("decode", decode::run),
    ("stored", stored::run),
    ("frames", frames::run),
    ("fields", fields::run),
];
