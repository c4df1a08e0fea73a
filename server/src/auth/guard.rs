//! The guard: authentication and authorization.
//!
//! Owns the last valid state of the files, and replaces it as a whole: a request sees one state or the next, never a
//! mixture. It reads files only when it is told to; it knows no socket, and time is an argument.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use arc_swap::ArcSwap;

use super::access::Access;
use super::certificate::{self, CertificateError};
use super::credentials::Presented;
use super::delegated::{AccessQuestion, Condition, Delegated, DelegatedOptions, ReviewedToken};
use super::files;
use super::keys::Keys;
use super::oidc::{self, OidcOptions, TokenError};
use super::rules::Rules;
use super::tokens::{Digest, Tokens};
use crate::identity::Identity;
use crate::setting::ConfigError;

/// The options of an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `--token-auth-file`.
    pub token_file: Option<PathBuf>,
    /// The issuer of signed tokens, and the file of its keys.
    pub oidc: Option<(OidcOptions, PathBuf)>,
    /// `--authorization-rules`; without rules, a client with credentials may do everything.
    pub rules: Option<PathBuf>,
    /// Whether requests without credentials are allowed.
    pub anonymous: bool,
    /// Whether connections may have verified certificates.
    pub certificates: bool,
    /// What the upstream decides.
    pub delegated: Option<DelegatedOptions>,
}

impl Options {
    /// Whether a token can authenticate.
    fn takes_tokens(&self) -> bool {
        self.token_file.is_some() || self.oidc.is_some() || self.delegates_authentication()
    }

    /// Whether the upstream authenticates.
    pub(super) fn delegates_authentication(&self) -> bool {
        self.delegated.as_ref().is_some_and(|delegated| delegated.authentication)
    }

    /// Whether the upstream authorizes.
    pub(super) fn delegates_authorization(&self) -> bool {
        self.delegated.as_ref().is_some_and(|delegated| delegated.authorization)
    }

    /// Whether authentication is configured.
    #[must_use]
    pub fn has_authentication(&self) -> bool {
        self.takes_tokens() || self.certificates
    }

    /// The files, each with its option.
    fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let keys = self.oidc.as_ref().map(|(_, path)| path.as_path());
        let files = [
            ("token-auth-file", self.token_file.as_deref()),
            ("oidc-jwks-file", keys),
            ("authorization-rules", self.rules.as_deref()),
        ];
        files.into_iter().filter_map(|(option, path)| Some((option, path?)))
    }

    fn texts(&self) -> Texts {
        self.files().map(|(option, path)| files::read(option, path)).collect()
    }
}

/// The parsed files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    tokens: Tokens,
    keys: Keys,
    rules: Option<Rules>,
}

/// The content of a guard's files, in the order of its options; or why one cannot be read. It is compared with the last
/// content, and kept for no longer than that: it contains secrets.
pub(super) type Texts = Vec<Result<String, ConfigError>>;

impl State {
    fn of(options: &Options, texts: Texts) -> Result<Self, ConfigError> {
        let mut state = Self::default();
        for ((option, path), text) in options.files().zip(texts) {
            let text = text?;
            match option {
                "token-auth-file" => state.tokens = Tokens::parse(path, &text)?,
                "oidc-jwks-file" => state.keys = Keys::parse(path, &text)?,
                _ => state.rules = Some(Rules::parse(path, &text)?),
            }
        }
        Ok(state)
    }
}

/// How a client was authenticated: enough to check later whether it still holds, without a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Not authenticated.
    Nothing,
    /// A token of the file, by its digest.
    Token(Digest),
    /// A token that this key signed.
    Signed(Digest),
    /// The connection's certificate.
    Certificate,
    /// Headers of a front proxy, whose certificate has this common name.
    FrontProxy(Arc<str>),
    /// A token that the upstream knows.
    Reviewed(ReviewedToken),
}

/// A client that was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visitor {
    /// Its identity.
    pub identity: Arc<Identity>,
    pub(super) proof: Proof,
    /// The state that decided it.
    pub(super) number: u64,
    /// What allows it to act as another user, if it does.
    pub(super) acting: Vec<AccessQuestion>,
}

impl Visitor {
    /// The identity, if it was authenticated.
    #[must_use]
    pub fn named(&self) -> Option<&Arc<Identity>> {
        (self.proof != Proof::Nothing).then_some(&self.identity)
    }

    /// Whether the client's own credentials mean something to another server: a bearer token that an issuer signed, or that the
    /// upstream knows as its own, or none at all; a token of a file or of audiences here, unless it `knows_only_here`.
    #[must_use]
    pub const fn passes_credentials(&self, knows_only_here: bool) -> bool {
        match &self.proof {
            Proof::Nothing | Proof::Signed(_) => true,
            Proof::Token(_) => !knows_only_here,
            Proof::Reviewed(token) => token.is_for_upstream || !knows_only_here,
            Proof::Certificate | Proof::FrontProxy(_) => false,
        }
    }
}

/// Who allowed an access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Rules, or that there are none.
    Local,
    /// The user is a member of `system:masters`.
    Master,
    /// The upstream.
    Reviewed(Reviewed),
}

/// What the upstream was asked and allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reviewed(pub(super) AccessQuestion);

/// The authorization that a long stream keeps, so that it can be checked again.
#[derive(Clone, Debug)]
pub struct Authorization {
    pub(super) visitor: Visitor,
    /// What was allowed here; `None`: the upstream allowed it.
    pub(super) access: Option<Access>,
    /// Answers of the upstream that it needs.
    pub(super) conditions: Vec<Arc<Condition>>,
}

impl Authorization {
    /// The number of the state that granted it.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.visitor.number
    }

    /// The user.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.visitor.identity
    }

    /// Whether the certificate of its connection is still signed by the authorities that it counted by.
    #[must_use]
    pub fn holds_with(&self, is_client: bool, is_proxy: bool) -> bool {
        match self.visitor.proof {
            Proof::Certificate => is_client,
            Proof::FrontProxy(_) => is_proxy,
            Proof::Nothing | Proof::Token(_) | Proof::Signed(_) | Proof::Reviewed(_) => is_client || is_proxy,
        }
    }
}

/// Why a request is refused: 401. Written to the log, never sent to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It has no credentials.
    Nothing,
    /// Its token is unknown.
    Unknown,
    /// Its signed token is not accepted.
    Token(TokenError),
    /// Its token cannot be read.
    Unreadable(&'static str),
    /// Its certificate has no identity.
    Certificate(CertificateError),
    /// Its certificate has expired.
    CertificateOver,
    /// Its certificate is a front proxy's, which may speak for users, and is none.
    Proxy(&'static str),
    /// The upstream does not accept its token.
    Reviewed(Arc<str>),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("no credentials"),
            Self::Unknown => f.write_str("the token is unknown"),
            Self::Token(why) => why.fmt(f),
            Self::Unreadable(why) => f.write_str(why),
            Self::Certificate(why) => why.fmt(f),
            Self::CertificateOver => f.write_str("the client's certificate has expired"),
            Self::Proxy(why) => f.write_str(why),
            Self::Reviewed(why) => write!(f, "the upstream does not accept the token: {why}"),
        }
    }
}

impl std::error::Error for Refused {}

/// Authentication and authorization.
#[derive(Debug)]
pub struct Guard {
    pub(super) options: Options,
    pub(super) state: ArcSwap<State>,
    /// Increases with every state that differs from the one before.
    number: AtomicU64,
    nobody: Arc<Identity>,
    pub(super) delegated: Option<Arc<Delegated>>,
}

impl Guard {
    /// Lets every client do everything.
    #[must_use]
    pub fn open() -> Self {
        let options = Options { anonymous: true, ..Options::default() };
        Self::of(options, State::default())
    }

    /// As the options and their files define.
    ///
    /// # Errors
    /// The first invalid file, with the line and the remedy.
    pub fn new(options: Options) -> Result<Self, ConfigError> {
        let state = State::of(&options, options.texts())?;
        Ok(Self::of(options, state))
    }

    fn of(options: Options, state: State) -> Self {
        let nobody = Arc::new(Identity::anonymous());
        let delegated = options.delegated.clone().map(|options| Arc::new(Delegated::new(options)));
        Self { options, state: ArcSwap::from_pointee(state), number: AtomicU64::new(0), nobody, delegated }
    }

    /// The identity for paths that need no credentials.
    #[must_use]
    pub fn nobody(&self) -> Visitor {
        self.visitor(Arc::clone(&self.nobody), Proof::Nothing, self.number())
    }

    pub(super) fn visitor(&self, identity: Arc<Identity>, proof: Proof, number: u64) -> Visitor {
        Visitor { identity, proof, number, acting: Vec::new() }
    }

    /// Whether the selectors of a request matter for what it may do.
    #[must_use]
    pub fn asks_with_selectors(&self) -> bool {
        self.options.delegates_authorization()
    }

    /// What the upstream decides; `None`: nothing.
    #[must_use]
    pub const fn delegated(&self) -> Option<&Arc<Delegated>> {
        self.delegated.as_ref()
    }

    /// What the upstream says has changed: earlier decisions may not hold any more.
    pub fn outdate(&self) {
        self.number.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether it lets every client do everything, and always will.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let Options { anonymous, rules, delegated, .. } = &self.options;
        *anonymous && !self.options.has_authentication() && rules.is_none() && delegated.is_none()
    }

    /// Whether the upstream decides what no rule here allows.
    #[must_use]
    pub fn delegates_authorization(&self) -> bool {
        self.delegated.as_ref().is_some_and(|delegated| delegated.options().authorization)
    }

    /// Whether there are files that can change.
    #[must_use]
    pub fn has_files(&self) -> bool {
        self.options.files().next().is_some()
    }

    /// Warnings for an operator, one per line.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let Options { token_file, rules, .. } = &self.options;
        let mut lines: Vec<String> =
            token_file.iter().filter_map(|path| files::too_open("token-auth-file", path)).collect();
        if self.options.delegates_authentication()
            && !self.options.delegates_authorization()
            && rules.is_none()
        {
            lines.push(
                "every user and service account of the cluster may do everything here: give --authorization delegated, or \
                 --authorization-rules"
                    .to_owned(),
            );
        }
        lines
    }

    /// Resources in rules that `is_served` does not know, one per line.
    #[must_use]
    pub fn unserved(&self, is_served: impl Fn(&str, &str) -> bool) -> Vec<String> {
        let state = self.state.load();
        let named = state.rules.as_ref().map(Rules::resources).unwrap_or_default();
        let unserved = named.into_iter().filter(|(group, resource)| !is_served(group, resource));
        unserved
            .map(|(group, resource)| {
                let slash = if group.is_empty() { "" } else { "/" };
                format!("rules name {group}{slash}{resource}, which is not served: is it misspelt?")
            })
            .collect()
    }

    /// The number of the state: when it changes, earlier decisions may not hold any more.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// The current content of the files.
    pub(super) fn texts(&self) -> Texts {
        self.options.texts()
    }

    /// Reads the files again. True when their meaning changed.
    ///
    /// # Errors
    /// The first invalid file; the last valid state stays.
    pub fn read_again(&self) -> Result<bool, ConfigError> {
        self.take(self.texts())
    }

    /// Takes the content of the files, as [`Guard::read_again`] does.
    pub(super) fn take(&self, texts: Texts) -> Result<bool, ConfigError> {
        let state = State::of(&self.options, texts)?;
        if **self.state.load() == state {
            return Ok(false);
        }
        // The state first: a reader of the new number finds the new state, or a newer one.
        self.state.store(Arc::new(state));
        self.number.fetch_add(1, Ordering::AcqRel);
        Ok(true)
    }

    /// Authenticates a request by what is configured here; `certificate` is the connection's verified one, in DER. `wrong`: why
    /// other credentials were refused before, if there were some: then it is not taken as anonymous.
    ///
    /// # Errors
    /// 401: wrong credentials, or none where some are required.
    pub fn authenticate(
        &self,
        presented: &Presented<'_>,
        certificate: Option<&[u8]>,
        now: SystemTime,
        mut wrong: Option<Refused>,
    ) -> Result<Visitor, Refused> {
        // The number first: if the state is newer than its number, it is only checked again.
        let number = self.number();
        let visitor = |identity, proof| self.visitor(identity, proof, number);
        if let Some(der) = certificate.filter(|_| self.options.certificates) {
            match certificate::identity(der) {
                Ok(found) if found.expires.is_none_or(|ends| now < ends) => {
                    return Ok(visitor(Arc::new(found), Proof::Certificate));
                }
                Ok(_) => wrong = Some(Refused::CertificateOver),
                Err(why) => wrong = Some(Refused::Certificate(why)),
            }
        }
        // If no token can authenticate, a token counts as none.
        let presented = if self.options.takes_tokens() { presented } else { &Presented::Nothing };
        match presented {
            Presented::Token(token) => {
                let (identity, proof) = self.token(token, now)?;
                Ok(visitor(identity, proof))
            }
            Presented::Unreadable(why) => Err(Refused::Unreadable(why)),
            Presented::Nothing if wrong.is_none() && self.options.anonymous => {
                Ok(visitor(Arc::clone(&self.nobody), Proof::Nothing))
            }
            Presented::Nothing => Err(wrong.unwrap_or(Refused::Nothing)),
        }
    }

    fn token(&self, token: &str, now: SystemTime) -> Result<(Arc<Identity>, Proof), Refused> {
        let state = self.state.load();
        if let Some((digest, identity)) = state.tokens.find(token) {
            return Ok((identity, Proof::Token(digest)));
        }
        match &self.options.oidc {
            Some((options, _)) if oidc::looks_signed(token) => {
                let (identity, key) = options.identify(&state.keys, token, now).map_err(Refused::Token)?;
                Ok((Arc::new(identity), Proof::Signed(key)))
            }
            Some(_) | None => Err(Refused::Unknown),
        }
    }

    /// Whether the access is allowed by what is configured here.
    #[must_use]
    pub fn allows(&self, visitor: &Visitor, access: &Access) -> bool {
        self.grants(&self.state.load(), &visitor.identity, &visitor.proof, access)
    }

    fn grants(&self, state: &State, who: &Identity, proof: &Proof, access: &Access) -> bool {
        match &state.rules {
            Some(rules) => rules.allow(who, access),
            None if self.options.delegates_authorization() => false,
            // Without rules, authentication decides, if it is configured.
            None => *proof != Proof::Nothing || !self.options.has_authentication(),
        }
    }

    /// Whether the access of a stream is still allowed, for the same user with the same proof. The expiry of the proof
    /// is handled by the stream's deadline.
    #[must_use]
    pub fn still_allows(&self, pass: &Authorization) -> bool {
        if pass.conditions.iter().any(|condition| condition.is_over()) {
            return false;
        }
        let state = self.state.load();
        let Visitor { identity, proof, .. } = &pass.visitor;
        let identity = match proof {
            Proof::Token(digest) => match state.tokens.named(digest) {
                // What an impersonated user may do does not depend on the groups of the one that acts as it.
                Some(now) if identity.real.as_ref().is_some_and(|real| is_same(&now, real)) => {
                    Arc::clone(identity)
                }
                Some(now) if identity.real.is_none() && is_same(&now, identity) => now,
                Some(_) | None => return false,
            },
            Proof::Signed(key) if !state.keys.has(key) => return false,
            Proof::FrontProxy(name) if !self.has_proxy(name) => return false,
            Proof::Signed(_)
            | Proof::Nothing
            | Proof::Certificate
            | Proof::FrontProxy(_)
            | Proof::Reviewed(_) => Arc::clone(identity),
        };
        pass.access.as_ref().is_none_or(|access| self.grants(&state, &identity, proof, access))
    }

    /// Whether certificates of this common name may speak for users.
    fn has_proxy(&self, name: &str) -> bool {
        self.delegated.as_ref().is_some_and(|delegated| delegated.cluster().proxy.allows(name))
    }
}

/// Whether a user of this name is still the same.
fn is_same(now: &Identity, then: &Identity) -> bool {
    now.name == then.name && now.uid == then.uid
}
