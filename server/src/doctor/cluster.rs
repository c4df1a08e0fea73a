//! Whether each member of the etcd cluster answers, and what it is.

use super::finding::Findings;
use crate::source::etcd::Member;

pub(super) fn judge(findings: &mut Findings, member: &Member) {
    let endpoint = &member.endpoint;
    match &member.version {
        Err(error) => findings.fail(
            "etcd",
            &format!("{endpoint} does not answer: {error}"),
            "start it, or mend --etcd-endpoints, --etcd-ca, --etcd-cert and the login",
        ),
        Ok(version) if member.is_new => findings.fine("etcd", &format!("{endpoint} answers (etcd {version})")),
        Ok(version) => findings.warn(
            "etcd",
            &format!("{endpoint} is etcd {version}, which cannot always say how far a watch is"),
            "use 3.4.36, 3.5.18 or newer; of older ones every key is watched, which the user must be allowed to read",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_told_apart() {
        let judged = |version: Result<&str, &str>, is_new| {
            let version = version.map(str::to_owned).map_err(str::to_owned);
            let mut findings = Findings::default();
            judge(&mut findings, &Member { endpoint: "http://e:2379".into(), version, is_new });
            format!("{:?} {}", findings.0[0].verdict, findings.0[0].line())
        };
        assert_eq!(judged(Ok("3.5.18"), true), "Ok etcd: http://e:2379 answers (etcd 3.5.18)");
        assert!(
            judged(Ok("3.5.1"), false).starts_with("Warn etcd: http://e:2379 is etcd 3.5.1, which cannot")
        );
        let dead = judged(Err("connection refused"), false);
        assert!(dead.starts_with("Fail etcd: http://e:2379 does not answer: connection refused; start it"));
    }
}
