//! What is known to fail, each with the reason. Whatever else fails, and whatever of this passes, fails the command.

/// One operation that is expected to fail.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) operation: &'static str,
    /// The beginning of the headings of the columns that it is expected in.
    pub(crate) columns: &'static str,
    /// What stands below the matrix.
    pub(crate) why: &'static str,
}

const STRATEGIC: &str = "strategic merge patches get 415: they need the schemas of Kubernetes' types";
const APPLY: &str = "server-side apply gets 415: it needs the schemas of Kubernetes' types";

pub(crate) const KNOWN: &[Known] = &[
    Known { operation: "apply", columns: "kubectl", why: STRATEGIC },
    Known { operation: "apply a list by its keys", columns: "kubectl", why: STRATEGIC },
    Known { operation: "diff of a change", columns: "kubectl", why: STRATEGIC },
    Known { operation: "patch --type strategic", columns: "kubectl", why: STRATEGIC },
    Known { operation: "edit", columns: "kubectl", why: STRATEGIC },
    Known { operation: "set image", columns: "kubectl", why: STRATEGIC },
    Known { operation: "rollout restart", columns: "kubectl", why: STRATEGIC },
    Known { operation: "cordon", columns: "kubectl", why: STRATEGIC },
    Known { operation: "patch: the client's default", columns: "", why: STRATEGIC },
    Known { operation: "apply --server-side", columns: "kubectl", why: APPLY },
    Known { operation: "apply --server-side removes", columns: "kubectl", why: APPLY },
    Known { operation: "server-side apply", columns: "", why: APPLY },
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
