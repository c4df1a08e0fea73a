//! What is delegated, and how long answers are used.

use std::time::Duration;

/// What is delegated, and how long answers are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelegatedOptions {
    /// `--authentication delegated`: TokenReviews, and what the cluster says of certificates and front proxies.
    pub authentication: bool,
    /// `--authorization delegated`: SubjectAccessReviews.
    pub authorization: bool,
    /// The audiences that a token must be made for; empty: the API server's own.
    pub audiences: Vec<String>,
    /// How long the answer about a token is used.
    pub token_ttl: Duration,
    /// How long the answer about an access is used.
    pub access_ttl: Duration,
    /// How often an open watch's access is reviewed again.
    pub recheck: Duration,
    /// How long an open watch goes on while nothing can be reviewed.
    pub grace: Duration,
}
