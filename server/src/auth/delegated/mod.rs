//! Authentication and authorization by the API server beside this one.

mod options;

pub use options::DelegatedOptions;
