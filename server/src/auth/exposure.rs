//! Whether a listener may be as open as it is configured.
//!
//! Owns the one decision that prevents serving a network by mistake. It uses addresses and options only; the default of
//! `--anonymous-auth` comes from here too.

use std::net::SocketAddr;

use crate::setting::Wrong;

/// The input of the decision.
#[derive(Clone, Copy, Debug)]
pub struct Exposure {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Whether the connection is encrypted.
    pub has_tls: bool,
    /// Where operators connect: in plain text.
    pub admin: Option<SocketAddr>,
    /// Whether authentication is configured: by a token, a signed token or a certificate.
    pub has_authentication: bool,
    /// `--anonymous-auth`, if given.
    pub anonymous: Option<bool>,
    /// `--insecure`.
    pub insecure: bool,
}

impl Exposure {
    /// Whether requests without credentials are allowed, or why the server must not start.
    ///
    /// # Errors
    /// A listener that a network can reach without TLS and authentication, unless the operator insists; or a server
    /// that no client could use.
    pub fn settle(&self) -> Result<bool, Wrong> {
        let Self { listen, has_tls, has_authentication, insecure, .. } = *self;
        if !insecure {
            let is_guarded = has_tls && has_authentication;
            if !(listen.ip().is_loopback() || is_guarded) {
                return Err(Wrong::new(
                    format!("any client that reaches listen {listen} {}", reaches(has_authentication)),
                    mend(has_tls, has_authentication, "listen on 127.0.0.1"),
                ));
            }
            if let Some(admin) = self.admin.filter(|admin| !admin.ip().is_loopback()) {
                return Err(Wrong::new(
                    format!("any client that reaches admin-listen {admin} {}", reaches(has_authentication)),
                    "give --admin-listen 127.0.0.1:8081 or none, or --insecure true if the network keeps others out",
                ));
            }
        }
        let anonymous = self.anonymous.unwrap_or_else(|| listen.ip().is_loopback() && !has_authentication);
        if !anonymous && !has_authentication {
            return Err(Wrong::new(
                "no client can authenticate, and requests without credentials are refused",
                "give --token-auth-file, --oidc-issuer-url, --tls-client-ca or --authentication delegated, or --anonymous-auth true to \
                 serve everyone",
            ));
        }
        Ok(anonymous)
    }
}

/// What any client could do that reaches an unguarded listener.
const fn reaches(has_authentication: bool) -> &'static str {
    if has_authentication {
        "could read tokens in transit: there is no TLS"
    } else {
        "could read and change everything: there is no authentication"
    }
}

fn mend(has_tls: bool, has_authentication: bool, instead: &str) -> String {
    let mut steps = Vec::new();
    if !has_authentication {
        steps.push("--token-auth-file, --oidc-issuer-url, --tls-client-ca or --authentication delegated");
    }
    if !has_tls {
        steps.push("--tls-cert and --tls-key");
    }
    format!(
        "give {}, {instead}, or give --insecure true if the network keeps others out",
        steps.join(" and ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(
        listen: &str,
        has_tls: bool,
        has_authentication: bool,
        anonymous: Option<bool>,
        insecure: bool,
    ) -> Result<bool, String> {
        let listen = listen.parse().expect("an address");
        let admin = Some("127.0.0.1:8081".parse().expect("an address"));
        let exposure = Exposure { listen, has_tls, admin, has_authentication, anonymous, insecure };
        exposure.settle().map_err(|wrong| format!("{}; {}", wrong.problem, wrong.mend))
    }

    #[test]
    fn who_may_listen_where() {
        let (home, net, any) = ("127.0.0.1:8080", "192.0.2.1:8080", "[::]:8080");
        // On loopback: without credentials while no authentication is configured.
        assert_eq!(settle(home, false, false, None, false), Ok(true));
        assert_eq!(settle("[::1]:1", false, false, None, false), Ok(true));
        assert_eq!(settle("127.9.9.9:1", false, false, None, false), Ok(true));
        assert_eq!(settle(home, false, true, None, false), Ok(false));
        assert_eq!(settle(home, false, true, Some(true), false), Ok(true));
        assert!(settle(home, false, false, Some(false), false).is_err(), "no client could be admitted");
        // On a network: TLS and authentication, or insisting; never without credentials by default.
        for listen in [net, any, "0.0.0.0:1", "[::ffff:127.0.0.1]:1"] {
            for (tls, authentication) in [(false, false), (false, true), (true, false)] {
                assert!(
                    settle(listen, tls, authentication, None, false).is_err(),
                    "{listen} {tls} {authentication}"
                );
                assert!(settle(listen, tls, authentication, Some(true), false).is_err(), "{listen}");
            }
            assert_eq!(settle(listen, true, true, None, false), Ok(false));
            assert_eq!(settle(listen, true, true, Some(true), false), Ok(true));
            assert_eq!(settle(listen, false, true, None, true), Ok(false));
            assert!(settle(listen, false, false, None, true).is_err(), "no client could be admitted");
            assert_eq!(settle(listen, false, false, Some(true), true), Ok(true));
        }
    }

    #[test]
    fn refusals_are_one_line_with_the_mends() {
        assert_eq!(
            settle("0.0.0.0:8080", false, false, None, false).expect_err("open"),
            "any client that reaches listen 0.0.0.0:8080 could read and change everything: there is no authentication; give \
             --token-auth-file, --oidc-issuer-url, --tls-client-ca or --authentication delegated and --tls-cert and --tls-key, \
             listen on 127.0.0.1, or give --insecure true if the network keeps others out"
        );
        assert_eq!(
            settle("0.0.0.0:8080", false, true, None, false).expect_err("in the clear"),
            "any client that reaches listen 0.0.0.0:8080 could read tokens in transit: there is no TLS; give --tls-cert and \
             --tls-key, listen on 127.0.0.1, or give --insecure true if the network keeps others out"
        );
    }

    #[test]
    fn operators_are_no_exception() {
        let exposure = |admin: &str| Exposure {
            listen: "127.0.0.1:1".parse().expect("an address"),
            has_tls: true,
            admin: Some(admin.parse().expect("an address")),
            has_authentication: true,
            anonymous: None,
            insecure: false,
        };
        assert!(exposure("0.0.0.0:8081").settle().is_err());
        assert_eq!(exposure("[::1]:8081").settle().ok(), Some(false));
        assert_eq!(Exposure { insecure: true, ..exposure("0.0.0.0:8081") }.settle().ok(), Some(false));
    }
}
