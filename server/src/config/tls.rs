//! Options of TLS: what they must be together.

use std::path::PathBuf;

use super::Config;
use crate::setting::{ConfigError, Wrong};
use crate::tls::{Fault, Files};

/// What was asked for, one by one.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsWanted {
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) client_ca: Option<PathBuf>,
}

impl Config {
    /// Combines the options, and refuses those that have no effect alone.
    pub(super) fn settle_tls(&mut self) -> Result<(), ConfigError> {
        let wanted = &self.tls_wanted;
        let refuse =
            |name: &str, problem: &str, mend: &str| Err(self.refused(name, Wrong::new(problem, mend)));
        let pair = "a certificate and its key go together";
        match (&wanted.cert, &wanted.key, &wanted.client_ca) {
            (Some(cert), Some(key), client_ca) => {
                let files = Files { cert: cert.clone(), key: key.clone(), client_ca: client_ca.clone() };
                self.tls = Some(files);
                Ok(())
            }
            (Some(_), None, _) => refuse("tls-cert", pair, "add --tls-key FILE"),
            (None, Some(_), _) => refuse("tls-key", pair, "add --tls-cert FILE"),
            (None, None, Some(_)) => refuse(
                "tls-client-ca",
                "has no effect without TLS",
                "add --tls-cert FILE and --tls-key FILE, or leave it out",
            ),
            (None, None, None) => Ok(()),
        }
    }

    /// What is wrong with one of the files of TLS, as an error of its option.
    #[must_use]
    pub fn tls_error(&self, fault: Fault) -> ConfigError {
        self.refused(fault.which.option(), Wrong::new(fault.problem, fault.mend))
    }
}
