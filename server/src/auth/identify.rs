//! Who a request's client is, and as whom it acts, if the upstream is asked too.
//!
//! Owns the order of authenticators: a front proxy's headers, the certificate, the token (what is configured here before the
//! upstream), and only without any of them nobody. A failure to ask is neither a yes nor a no.

use std::sync::Arc;
use std::time::SystemTime;

use super::certificate::{self, PeerCertificate};
use super::credentials::Presented;
use super::delegated::{
    AccessAnswer, Delegated, Impersonation, ReviewError, TokenAnswer, Upstream, front_proxy_identity,
};
use super::guard::{Guard, Proof, Refused, Visitor};
use crate::http::go_quote;
use crate::http::request::RequestHead;
use crate::http::status::{GroupResource, Status};
use crate::identity::Identity;

/// Why it is not known who the client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unidentified {
    /// 401.
    Refused(Refused),
    /// 503: the upstream has to be asked and cannot be.
    Unavailable(ReviewError),
}

impl From<Refused> for Unidentified {
    fn from(why: Refused) -> Self {
        Self::Refused(why)
    }
}

/// Seconds after which a client may ask again when the upstream could not be asked.
const RETRY_AFTER_SECONDS: u32 = 1;

/// 503: the upstream cannot be asked. Why is not the client's business, and in the log.
pub(super) fn unavailable() -> Status {
    let message = "the upstream API server cannot be asked who is allowed to do what: try again".to_owned();
    Status::service_unavailable(message, RETRY_AFTER_SECONDS)
}

impl Unidentified {
    /// The response.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Refused(why) => {
                crate::log::debug(|| format!("a request was refused: {why}"));
                Status::unauthorized()
            }
            Self::Unavailable(_) => unavailable(),
        }
    }
}

impl Guard {
    /// Authenticates a request.
    ///
    /// # Errors
    /// Wrong credentials, or none where some are required; or the upstream cannot be asked.
    pub async fn identify(
        &self,
        upstream: &impl Upstream,
        head: &RequestHead,
        certificate: Option<PeerCertificate<'_>>,
        now: SystemTime,
    ) -> Result<Visitor, Unidentified> {
        let presented = Presented::of(head);
        let user = certificate.filter(|certificate| certificate.is_client).map(|certificate| certificate.der);
        let delegated = self.delegated.as_ref().filter(|delegated| delegated.options().authentication);
        let mut wrong = None;
        // The number first: see `authenticate`.
        let number = self.number();
        if let (Some(delegated), Some(certificate)) = (delegated, certificate)
            && certificate.is_proxy
        {
            match spoken_for(delegated, head, certificate) {
                Ok((identity, proof)) => return Ok(self.visitor(Arc::new(identity), proof, number)),
                // One that names a user besides is that user's.
                Err(why) if user.is_none() => wrong = Some(Refused::Proxy(why)),
                Err(_) => {}
            }
        }
        let known = self.authenticate(&presented, user, now, wrong);
        match (known, delegated, presented) {
            (Err(_), Some(delegated), Presented::Token(token)) => {
                let token = delegated.token(&token);
                match delegated.review_token(upstream, &token).await {
                    Ok(TokenAnswer::Known(who)) => Ok(self.visitor(who, Proof::Reviewed(token), number)),
                    Ok(TokenAnswer::Unknown(why)) => Err(Refused::Reviewed(why).into()),
                    Err(error) => Err(Unidentified::Unavailable(error)),
                }
            }
            (known, ..) => Ok(known?),
        }
    }

    /// The client as the user that it asks to act as; itself, if it asks for none.
    ///
    /// # Errors
    /// 400, 403 or 503: it may not, or it is not known whether it may. It is never served as itself then.
    pub async fn impersonate(
        &self,
        upstream: &impl Upstream,
        head: &RequestHead,
        visitor: Visitor,
    ) -> Result<Visitor, Status> {
        let Some(named) = &head.impersonate else { return Ok(visitor) };
        if self.is_open() {
            return Ok(visitor);
        }
        let real = Arc::clone(&visitor.identity);
        let delegated = self.delegated.as_ref().filter(|delegated| delegated.options().authorization);
        let Some(delegated) = delegated else {
            let user = go_quote(&real.name);
            let why = format!(
                "User {user} cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
            );
            return Err(Status::forbidden(GroupResource { group: "", resource: "users" }, named, &why));
        };
        let Some(asked) = Impersonation::of(&head.identity)? else { return Ok(visitor) };
        let mut acting = Vec::new();
        if !real.is_master() {
            for right in asked.rights() {
                let question = right.question(&real);
                match delegated.review_access(upstream, &question).await {
                    Ok(AccessAnswer { allowed: true, .. }) => acting.push(question),
                    Ok(AccessAnswer { reason, .. }) => return Err(right.forbidden(&real.name, &reason)),
                    Err(_) => return Err(unavailable()),
                }
            }
        }
        Ok(Visitor { identity: Arc::new(asked.identity(&real)), acting, ..visitor })
    }
}

/// The user that a front proxy speaks for.
fn spoken_for(
    delegated: &Delegated,
    head: &RequestHead,
    certificate: PeerCertificate<'_>,
) -> Result<(Identity, Proof), &'static str> {
    let cluster = delegated.cluster();
    let name = certificate::common_name(certificate.der)
        .filter(|name| cluster.proxy.allows(name))
        .ok_or("its certificate is of the authority of front proxies, and not one of the allowed names")?;
    let identity = front_proxy_identity(&cluster.proxy, &head.identity)
        .ok_or("its certificate is a front proxy's, and its headers name no user")?;
    Ok((identity, Proof::FrontProxy(name.into())))
}
