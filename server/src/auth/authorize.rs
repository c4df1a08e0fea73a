//! Whether a client may do something, if the upstream is asked too; and what a long stream needs to go on.
//!
//! Rules that are configured here come first, and can only allow. A failure to ask is neither a yes nor a no.

use std::sync::Arc;
use std::time::Instant;

use super::access::Access;
use super::delegated::{AccessAnswer, AccessQuestion, Subject, Upstream};
use super::guard::{Authorization, Grant, Guard, Proof, Reviewed, Visitor};
use super::identify::unavailable;
use crate::http::status::Status;

impl Guard {
    /// Authorizes an access.
    ///
    /// # Errors
    /// 403: it is not allowed; 503: the upstream has to be asked and cannot be.
    pub async fn authorize(
        &self,
        upstream: &impl Upstream,
        visitor: &Visitor,
        access: &Access,
    ) -> Result<Grant, Status> {
        let who = &visitor.identity;
        if self.allows(visitor, access) {
            return Ok(Grant::Local);
        }
        let delegated = self.delegated.as_ref().filter(|delegated| delegated.options().authorization);
        let Some(delegated) = delegated else { return Err(access.forbidden(&who.name)) };
        if who.is_master() {
            return Ok(Grant::Master);
        }
        let question = AccessQuestion::new(who, access);
        match delegated.review_access(upstream, &question).await {
            Ok(AccessAnswer { allowed: true, .. }) => Ok(Grant::Reviewed(Reviewed(question))),
            Ok(AccessAnswer { reason, .. }) => Err(access.forbidden_because(&who.name, &reason)),
            Err(_) => Err(unavailable()),
        }
    }

    /// The authorization that a long stream keeps; `None` if it cannot change.
    #[must_use]
    pub fn pass(
        &self,
        visitor: &Visitor,
        access: &Access,
        grant: &Grant,
        now: Instant,
    ) -> Option<Box<Authorization>> {
        let mut conditions = Vec::new();
        if let Some(delegated) = &self.delegated {
            let mut require = |subject| conditions.push(delegated.require(subject, now));
            if let Proof::Reviewed(token) = &visitor.proof {
                let who = visitor.identity.real.as_ref().unwrap_or(&visitor.identity);
                require(Subject::Token(token.clone(), Arc::clone(who)));
            }
            visitor.acting.iter().for_each(|question| require(Subject::Access(question.clone())));
            if let Grant::Reviewed(Reviewed(question)) = grant {
                require(Subject::Access(question.clone()));
            }
        }
        (self.has_files() || self.delegated.is_some()).then(|| {
            let access = (*grant == Grant::Local).then(|| access.clone());
            Box::new(Authorization { visitor: visitor.clone(), access, conditions })
        })
    }
}
