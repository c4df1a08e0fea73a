//! Whether each member of the etcd cluster answers, and its version. One that answers is enough to serve.

use super::finding::Findings;
use crate::source::etcd::Member;

/// The remedy: start the member, or correct the connection options.
const MEND: &str = "start it, or fix --etcd-endpoints, --etcd-ca, --etcd-cert and the login";

pub(super) fn judge(findings: &mut Findings, members: &[Member]) {
    let any_answers = members.iter().any(|member| member.version.is_ok());
    members.iter().for_each(|member| judge_one(findings, member, any_answers));
}

fn judge_one(findings: &mut Findings, member: &Member, any_answers: bool) {
    let endpoint = &member.endpoint;
    match &member.version {
        Err(error) => {
            let says = format!("{endpoint} does not answer: {error}");
            if any_answers {
                findings.warn("etcd", &says, MEND);
            } else {
                findings.fail("etcd", &says, MEND);
            }
        }
        Ok(version) if member.is_new => findings.fine("etcd", &format!("{endpoint} answers (etcd {version})")),
        Ok(version) => findings.warn(
            "etcd",
            &format!("{endpoint} is etcd {version}, which cannot always report a watch's progress"),
            "use 3.4.36, 3.5.18 or newer; of older ones every key is watched, which the user must be allowed to read",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(version: Result<&str, &str>, is_new: bool) -> Member {
        let version = version.map(str::to_owned).map_err(str::to_owned);
        Member { endpoint: "http://e:2379".into(), version, is_new }
    }

    fn lines(members: &[Member]) -> Vec<String> {
        let mut findings = Findings::default();
        judge(&mut findings, members);
        findings.0.iter().map(|finding| format!("{:?} {}", finding.verdict, finding.line())).collect()
    }

    #[test]
    fn one_member_of_many_may_be_away() {
        let (dead, alive) = (member(Err("connection refused"), false), member(Ok("3.5.18"), true));
        let verdicts = |members: &[Member]| -> Vec<String> {
            lines(members).iter().filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect()
        };
        assert_eq!(verdicts(&[dead.clone(), alive.clone(), dead.clone()]), ["Warn", "Ok", "Warn"]);
        assert_eq!(verdicts(&[dead.clone(), dead]), ["Fail", "Fail"]);
        assert_eq!(verdicts(&[alive]), ["Ok"]);
    }

    #[test]
    fn members_are_told_apart() {
        let judged = |version: Result<&str, &str>, is_new| lines(&[member(version, is_new)]).remove(0);
        assert_eq!(judged(Ok("3.5.18"), true), "Ok etcd: http://e:2379 answers (etcd 3.5.18)");
        assert!(
            judged(Ok("3.5.1"), false).starts_with("Warn etcd: http://e:2379 is etcd 3.5.1, which cannot")
        );
        let dead = judged(Err("connection refused"), false);
        assert!(dead.starts_with("Fail etcd: http://e:2379 does not answer: connection refused; start it"));
    }
}
