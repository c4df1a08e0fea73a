//! Known failures, with reasons. Any other failure, and any of these that passes, fails the command.

/// One operation that is expected to fail.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) operation: &'static str,
    /// The beginning of the headings of the columns that it is expected in.
    pub(crate) columns: &'static str,
    /// The note below the matrix.
    pub(crate) why: &'static str,
}

pub(crate) const KNOWN: &[Known] = &[
    Known {
        operation: "scale",
        columns: "kubectl",
        why: "the subresource /scale is not served: patch spec.replicas",
    },
    Known {
        operation: "auth can-i",
        columns: "kubectl",
        why: "there is no authorization, so access reviews are 404",
    },
];
