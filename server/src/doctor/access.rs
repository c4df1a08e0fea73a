//! Whether the listeners may be as open as they are configured, and whether the files for authentication can be used.
//!
//! It makes the same check as the server at its start, and repeats its text.

use super::finding::Findings;
use crate::auth::Guard;
use crate::config::Config;
use crate::setting::ConfigError;
use crate::tls::Current;

/// As [`Config::auth`] calls it.
const WHO: &str = "access";
const TLS: &str = "tls";

pub(super) fn judge(findings: &mut Findings, config: &Config) {
    let certificates = config.tls.as_ref().is_some_and(|files| files.client_ca.is_some());
    let settled = config.auth(config.tls.is_some(), certificates).and_then(|options| {
        let anonymous = options.anonymous;
        Guard::new(options).map(|_| anonymous)
    });
    match settled {
        Ok(true) => findings.fine(WHO, "requests without credentials are served"),
        Ok(false) => findings.fine(WHO, "credentials are required"),
        Err(error) => refuse(findings, WHO, &error),
    }
    if let Some(files) = &config.tls {
        match Current::open(files.clone()) {
            Ok(_) => findings.fine(TLS, "the certificate and its key can be served"),
            Err(fault) => refuse(findings, TLS, &config.tls_error(fault)),
        }
    }
}

fn refuse(findings: &mut Findings, check: &'static str, error: &ConfigError) {
    let line = error.to_string();
    // A finding prints its check itself.
    let says = line.strip_prefix(check).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&line);
    let (says, mend) = says.split_once("; ").unwrap_or((says, "see revcast help"));
    findings.fail(check, says, mend);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Flags;
    use crate::config::table::index_of;

    fn config(given: &[(&str, &str)]) -> Config {
        let given = given.iter().map(|(name, value)| (index_of(name).unwrap(), (*value).to_owned()));
        Config::load(&Flags { given: given.collect() }, [], &[0]).unwrap()
    }

    fn judged(config: &Config) -> Vec<String> {
        let mut findings = Findings::default();
        judge(&mut findings, config);
        findings.0.iter().map(|finding| format!("{:?} {}", finding.verdict, finding.line())).collect()
    }

    #[test]
    fn what_the_start_refuses_is_said_in_its_words() {
        assert_eq!(judged(&config(&[])), ["Ok access: requests without credentials are served"]);
        let open = config(&[("listen", "0.0.0.0:8080")]);
        assert_eq!(judged(&open), [format!("Fail {}", open.auth(false, false).unwrap_err())]);
        let finding = {
            let mut findings = Findings::default();
            judge(&mut findings, &open);
            findings.0.remove(0)
        };
        assert!(finding.says.ends_with("there is no authentication"), "{finding:?}");
        assert!(finding.mend.unwrap().starts_with("give --token-auth-file"));
    }

    #[test]
    fn files_that_cannot_be_read_are_named() {
        let tokens = judged(&config(&[("token-auth-file", "/nonexistent/tokens.csv")]));
        assert_eq!(tokens.len(), 1);
        assert!(tokens[0].starts_with("Fail access: "), "{tokens:?}");
        assert!(tokens[0].contains("/nonexistent/tokens.csv") && tokens[0].contains("; "), "{tokens:?}");
        let pair = [("tls-cert", "/nonexistent/server.pem"), ("tls-key", "/nonexistent/server.key")];
        let tls = judged(&config(&pair));
        assert_eq!(tls.len(), 2);
        assert!(tls[1].starts_with("Fail tls: --tls-cert \"/nonexistent/server.pem\": "), "{tls:?}");
    }
}
