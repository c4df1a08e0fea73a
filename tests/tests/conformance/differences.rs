//! All differences of our replies from the recordings, and their reasons. Everything else is replayed as recorded.
//!
//! Besides these, every comparison leaves out what differs from run to run (`recording::normal`): uids, times, audit
//! ids, and `managedFields`, which list appliers only.

use crate::recording::{Recorded, file};

/// How a recording is replayed.
#[derive(Clone, Copy, Debug)]
enum Ours {
    /// The reply has this status, and these parts of its body differ.
    Answers(u16, &'static [(&'static str, &'static str)]),
    /// The request is not sent.
    NotAsked,
}

/// One difference.
#[derive(Debug)]
struct Difference {
    file: &'static str,
    /// The beginning of the recording's title.
    title: &'static str,
    ours: Ours,
    why: &'static str,
}

const NUMBER: &[(&str, &str)] = &[("\"code\":500", "\"reason\":\"BadRequest\",\"code\":400")];
/// What kube-apiserver writes into the status of a pod that is bound.
const SCHEDULED: &str = r#","conditions":[{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-21T05:37:59Z"}],"qosClass":"BestEffort""#;
const UNCACHED: &str = "events are kept in memory here like everything else, there they are read from etcd: a watch names the \
     oldest revision, and who asks for the future is waited for";
const AT_ONCE: &str = "a compaction takes effect at once here, there within 15 s: asked before it";

const TABLE: &[Difference] = &[
    Difference {
        file: "06-410-gone.txt",
        title: "LIST Exact at 135 right after",
        ours: Ours::NotAsked,
        why: AT_ONCE,
    },
    Difference {
        file: "06-410-gone.txt",
        title: "continue token of 135 right after",
        ours: Ours::NotAsked,
        why: AT_ONCE,
    },
    Difference {
        file: "06-410-gone.txt",
        title: "events are not watch-cached",
        ours: Ours::Answers(
            200,
            &[("The resourceVersion for the provided watch is too old.", "too old resource version: 1 (N)")],
        ),
        why: UNCACHED,
    },
    Difference {
        file: "06-410-gone.txt",
        title: "events LIST with a future exact RV",
        ours: Ours::Answers(504, &[("version\"}]}", "version\"}],\"retryAfterSeconds\":1}")]),
        why: UNCACHED,
    },
    Difference {
        file: "06-410-gone.txt",
        title: "events LIST NotOlderThan a future RV",
        ours: Ours::Answers(504, &[("version\"}]}", "version\"}],\"retryAfterSeconds\":1}")]),
        why: UNCACHED,
    },
    Difference {
        file: "08-invalid-rv.txt",
        title: "WATCH resourceVersion=abc",
        ours: Ours::Answers(400, NUMBER),
        why: "a resourceVersion that is no number is the client's fault, and is told so in one way on LIST, WATCH and GET",
    },
    Difference {
        file: "08-invalid-rv.txt",
        title: "GET resourceVersion=abc",
        ours: Ours::Answers(400, NUMBER),
        why: "as for the WATCH",
    },
    Difference {
        file: "10-selector-transitions.txt",
        title: "pods fieldSelector spec.nodeName",
        ours: Ours::Answers(
            200,
            &[
                ("\"generation\":2", "\"generation\":3"),
                ("\"generation\":1", "\"generation\":2"),
                (SCHEDULED, ""),
            ],
        ),
        why: "there is no /binding here: a pod is bound by a patch of its spec, which counts as a change of it and says nothing \
              in its status",
    },
    Difference {
        file: "12-http-errors.txt",
        title: "405 for a resource without list",
        ours: Ours::NotAsked,
        why: "reviews are no stored objects: there is no such group here, which is 404",
    },
];

impl Difference {
    fn is_of(&self, file: &str, title: &str) -> bool {
        self.file == file && title.starts_with(self.title)
    }
}

/// Our reply to that recording; `None`: it is not sent.
pub(crate) fn ours(file: &str, title: &str, recorded: Recorded) -> Option<Recorded> {
    let Some(difference) = TABLE.iter().find(|difference| difference.is_of(file, title)) else {
        return Some(recorded);
    };
    match difference.ours {
        Ours::NotAsked => None,
        Ours::Answers(status, edits) => {
            let mut ours = Recorded { status, ..recorded };
            for (theirs, here) in edits {
                ours.body = ours.body.replace(theirs, here);
            }
            Some(ours)
        }
    }
}

#[test]
fn every_difference_is_one_of_a_recording() {
    for difference in TABLE {
        let found =
            file(difference.file).into_iter().find(|(title, _)| difference.is_of(difference.file, title));
        let (_, recorded) = found.unwrap_or_else(|| panic!("no recording for {difference:?}"));
        assert!(difference.why.len() > 10, "{difference:?}: say why");
        if let Ours::Answers(status, edits) = difference.ours {
            for (theirs, _) in edits {
                assert!(
                    recorded.body.contains(theirs),
                    "{difference:?}: {theirs} is not in {}",
                    recorded.body
                );
            }
            assert!(status != recorded.status || !edits.is_empty(), "{difference:?} is no difference");
        }
    }
}
