//! What etcd holds: how the objects are stored, which keys are no served resource's, and which values cannot be read. Only a
//! part of a large store is read; the finding says how much.

use super::finding::Findings;
use crate::api::resources::Registry;
use crate::catalog::Catalogs;
use crate::source::etcd::{EtcdOptions, Layout, OtherEtcds, Survey, survey};

pub(super) fn look(findings: &mut Findings, options: &EtcdOptions, registry: &Registry) {
    let rows = registry.rows().map(|resource| (resource.row, resource.namespaced, resource.etcd_folder()));
    let others = OtherEtcds::new(registry, &options.overrides);
    match Layout::new(&options.prefix, rows) {
        Err(why) => findings.fail("etcd-values", &why, "see --resource"),
        Ok(layout) => {
            let layout = layout.without(|row| others.has(row));
            judge(findings, &options.prefix, survey(options, &layout, &Catalogs::new(registry.clone(), "")));
        }
    }
}

fn judge(findings: &mut Findings, prefix: &str, survey: Result<Survey, String>) {
    let survey = match survey {
        Ok(survey) => survey,
        Err(why) => {
            let says = format!("the keys under {prefix} cannot be read: {why}");
            return findings.warn("etcd-values", &says, "let the user of etcd read these keys");
        }
    };
    let text = survey.census.text();
    let says = match &survey.stopped {
        None => format!("under {prefix}: {text}"),
        Some((all, why)) => {
            format!("under {prefix}, of the first {} keys of {all} ({why}): {text}", survey.read)
        }
    };
    findings.fine("etcd-values", &says);
    for line in survey.census.unread() {
        findings.warn("etcd-values", &line, "until then lists and watches that cover them get 500");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;
    use crate::source::etcd::Census;

    #[test]
    fn a_part_says_that_it_is_one() {
        let found = |stopped| {
            let mut findings = Findings::default();
            judge(&mut findings, "/registry", Ok(Survey { census: Census::default(), read: 7, stopped }));
            findings.0.remove(0).line()
        };
        assert!(found(None).starts_with("etcd-values: under /registry: 0 objects"), "{}", found(None));
        let part = found(Some((9, "the limit is 7 keys".to_owned())));
        assert!(part.contains("of the first 7 keys of 9 (the limit is 7 keys): 0 objects"), "{part}");
        let mut findings = Findings::default();
        judge(&mut findings, "/registry", Err("no answer".to_owned()));
        assert_eq!(findings.0[0].verdict, Verdict::Warn, "the members were judged before");
    }
}
