//! An identity: a name, groups, and until when it is valid.
//!
//! It says who someone is. How that was proven is decided elsewhere.

use std::sync::Arc;
use std::time::SystemTime;

/// The group of all authenticated users.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of all others.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group whose members may do everything.
pub(crate) const MASTERS: &str = "system:masters";
/// The name of all others.
pub(crate) const ANONYMOUS: &str = "system:anonymous";

/// A user, as rules and messages name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's name.
    pub name: String,
    /// Distinguishes successive users of one name; may be empty.
    pub uid: String,
    /// Includes `AUTHENTICATED` or `UNAUTHENTICATED`.
    pub groups: Vec<String>,
    /// When the proof expires; `None`: never.
    pub expires: Option<SystemTime>,
    /// What else an authenticator says of it: keys in lower case, sorted, each with its values.
    pub extra: Vec<(String, Vec<String>)>,
    /// The user that acts as this one, by impersonation.
    pub real: Option<Arc<Self>>,
}

impl Identity {
    /// An authenticated user: a member of `AUTHENTICATED` besides its own groups, as in Kubernetes.
    #[must_use]
    pub fn proven(name: String, uid: String, mut groups: Vec<String>, expires: Option<SystemTime>) -> Self {
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { name, uid, groups, expires, extra: Vec::new(), real: None }
    }

    /// A user that another server names: a member of `AUTHENTICATED` besides its own groups, unless that server says that it is
    /// anonymous.
    #[must_use]
    pub(crate) fn reported(
        name: String,
        uid: String,
        groups: Vec<String>,
        mut extra: Vec<(String, Vec<String>)>,
        expires: Option<SystemTime>,
    ) -> Self {
        extra.sort();
        if name == ANONYMOUS || groups.iter().any(|group| group == UNAUTHENTICATED) {
            return Self { name, uid, groups, expires, extra, real: None };
        }
        Self { extra, ..Self::proven(name, uid, groups, expires) }
    }

    /// Whether it may do everything.
    #[must_use]
    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }

    /// Whether it was authenticated.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.groups.iter().any(|group| group == AUTHENTICATED)
    }

    /// The anonymous user.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            uid: String::new(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            expires: None,
            extra: Vec::new(),
            real: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_in_one_of_two_groups() {
        let user = |groups: &[&str]| {
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            Identity::proven("u".into(), String::new(), groups, None).groups
        };
        assert_eq!(user(&[]), [AUTHENTICATED]);
        assert_eq!(user(&["a", "b"]), ["a", "b", AUTHENTICATED]);
        assert_eq!(user(&[AUTHENTICATED, "a"]), [AUTHENTICATED, "a"], "once");
        let nobody = Identity::anonymous();
        assert_eq!((nobody.name.as_str(), nobody.groups), (ANONYMOUS, vec![UNAUTHENTICATED.to_owned()]));
    }
}
