//! The guard: who somebody is, and whether he may.
//!
//! Owns what the files said when they were last right, and swaps it whole: a request sees one state or the next, never
//! half of each. It reads files only when it is told to; it knows no socket, and time is an argument.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use arc_swap::ArcSwap;

use super::access::Access;
use super::certificate::{self, CertificateError};
use super::credentials::Presented;
use super::files;
use super::identity::Identity;
use super::keys::Keys;
use super::oidc::{self, OidcOptions, TokenError};
use super::rules::Rules;
use super::tokens::{Digest, Tokens};
use crate::setting::ConfigError;

/// What the operator asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `--token-auth-file`.
    pub token_file: Option<PathBuf>,
    /// Whose signed tokens are believed, and the file of their keys.
    pub oidc: Option<(OidcOptions, PathBuf)>,
    /// `--authorization-rules`; without rules whoever has credentials may do everything.
    pub rules: Option<PathBuf>,
    /// Whether requests without credentials are let in.
    pub anonymous: bool,
    /// Whether connections may bring verified certificates.
    pub certificates: bool,
}

impl Options {
    /// Whether a token can name anybody.
    const fn takes_tokens(&self) -> bool {
        self.token_file.is_some() || self.oidc.is_some()
    }

    /// Whether anybody can prove who they are.
    #[must_use]
    pub const fn has_authentication(&self) -> bool {
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

/// What the files said.
#[derive(Debug, Default, PartialEq, Eq)]
struct State {
    tokens: Tokens,
    keys: Keys,
    rules: Option<Rules>,
}

/// What the files of a guard hold, in the order of its options; or why one cannot be read. It is compared with what was
/// read before, and kept for no longer than that: it holds secrets.
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

/// How somebody proved who they are: enough to ask again whether it still holds, and no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// Not at all.
    Nothing,
    /// A token of the file, by its digest.
    Token(Digest),
    /// A token that this key signed.
    Signed(Digest),
    /// The connection's certificate.
    Certificate,
}

/// Somebody who was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visitor {
    /// Who that is.
    pub identity: Arc<Identity>,
    proof: Proof,
    /// The state that said so.
    number: u64,
}

impl Visitor {
    /// Who that is, where it was proven.
    #[must_use]
    pub fn named(&self) -> Option<&Arc<Identity>> {
        (self.proof != Proof::Nothing).then_some(&self.identity)
    }
}

/// What a long stream keeps of how it was allowed, so that it can be asked again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization {
    visitor: Visitor,
    access: Access,
}

impl Authorization {
    /// The number of the state that it was given by.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.visitor.number
    }

    /// Whose it is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.visitor.identity
    }
}

/// Why a request is not let in: 401. Told to the log, never to who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It has no credentials.
    Nothing,
    /// Its token names nobody.
    Unknown,
    /// Its signed token is not believed.
    Token(TokenError),
    /// Its token cannot be read.
    Unreadable(&'static str),
    /// Its certificate names nobody.
    Certificate(CertificateError),
    /// Its certificate is over.
    CertificateOver,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("no credentials"),
            Self::Unknown => f.write_str("the token names nobody"),
            Self::Token(why) => why.fmt(f),
            Self::Unreadable(why) => f.write_str(why),
            Self::Certificate(why) => why.fmt(f),
            Self::CertificateOver => f.write_str("the client's certificate is over"),
        }
    }
}

impl std::error::Error for Refused {}

/// Who may come in, and what they may do.
#[derive(Debug)]
pub struct Guard {
    options: Options,
    state: ArcSwap<State>,
    /// Grows with every state that differs from the one before.
    number: AtomicU64,
    nobody: Arc<Identity>,
}

impl Guard {
    /// Lets everybody in to do everything.
    #[must_use]
    pub fn open() -> Self {
        let options = Options { anonymous: true, ..Options::default() };
        Self::of(options, State::default())
    }

    /// As the options and their files say.
    ///
    /// # Errors
    /// The first file that is wrong, with the line and the mend.
    pub fn new(options: Options) -> Result<Self, ConfigError> {
        let state = State::of(&options, options.texts())?;
        Ok(Self::of(options, state))
    }

    fn of(options: Options, state: State) -> Self {
        let nobody = Arc::new(Identity::anonymous());
        Self { options, state: ArcSwap::from_pointee(state), number: AtomicU64::new(0), nobody }
    }

    /// Whoever asks for what is open to everybody.
    #[must_use]
    pub fn nobody(&self) -> Visitor {
        Visitor { identity: Arc::clone(&self.nobody), proof: Proof::Nothing, number: self.number() }
    }

    /// Whether it lets everybody do everything, and always will.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.options.anonymous && !self.options.has_authentication() && self.options.rules.is_none()
    }

    /// Whether there are files that can change.
    #[must_use]
    pub fn has_files(&self) -> bool {
        self.options.files().next().is_some()
    }

    /// What an operator should look at; a line each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.options.token_file.iter().filter_map(|path| files::too_open("token-auth-file", path)).collect()
    }

    /// Resources that rules name and `is_served` does not know; a line each.
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

    /// The number of the state: another one means that what was allowed may not be any more.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// What the files hold now.
    pub(super) fn texts(&self) -> Texts {
        self.options.texts()
    }

    /// Reads the files again. True when they say something else now.
    ///
    /// # Errors
    /// The first file that is wrong; what was right before stays.
    pub fn read_again(&self) -> Result<bool, ConfigError> {
        self.take(self.texts())
    }

    /// Takes what the files hold, as [`Guard::read_again`] does.
    pub(super) fn take(&self, texts: Texts) -> Result<bool, ConfigError> {
        let state = State::of(&self.options, texts)?;
        if **self.state.load() == state {
            return Ok(false);
        }
        // The state first: whoever sees the new number finds the new state, or a newer one.
        self.state.store(Arc::new(state));
        self.number.fetch_add(1, Ordering::AcqRel);
        Ok(true)
    }

    /// Who sent a request; `certificate` is the connection's verified one, in DER.
    ///
    /// # Errors
    /// 401: credentials that are not right, or none where some are needed.
    pub fn authenticate(
        &self,
        presented: &Presented<'_>,
        certificate: Option<&[u8]>,
        now: SystemTime,
    ) -> Result<Visitor, Refused> {
        // The number first: a state that is newer than its number is only asked again.
        let number = self.number();
        let visitor = |identity, proof| Visitor { identity, proof, number };
        let mut wrong = Refused::Nothing;
        if let Some(der) = certificate.filter(|_| self.options.certificates) {
            match certificate::identity(der) {
                Ok(found) if found.expires.is_none_or(|ends| now < ends) => {
                    return Ok(visitor(Arc::new(found), Proof::Certificate));
                }
                Ok(_) => wrong = Refused::CertificateOver,
                Err(why) => wrong = Refused::Certificate(why),
            }
        }
        // Where no token can name anybody, one is as good as none.
        let presented = if self.options.takes_tokens() { presented } else { &Presented::Nothing };
        match presented {
            Presented::Token(token) => {
                let (identity, proof) = self.token(token, now)?;
                Ok(visitor(identity, proof))
            }
            Presented::Unreadable(why) => Err(Refused::Unreadable(why)),
            Presented::Nothing if wrong == Refused::Nothing && self.options.anonymous => {
                Ok(visitor(Arc::clone(&self.nobody), Proof::Nothing))
            }
            Presented::Nothing => Err(wrong),
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

    /// Whether somebody may.
    #[must_use]
    pub fn allows(&self, visitor: &Visitor, access: &Access) -> bool {
        self.grants(&self.state.load(), &visitor.identity, visitor.proof, access)
    }

    fn grants(&self, state: &State, who: &Identity, proof: Proof, access: &Access) -> bool {
        match &state.rules {
            Some(rules) => rules.allow(who, access),
            // Without rules credentials are what counts, where there can be any.
            None => proof != Proof::Nothing || !self.options.has_authentication(),
        }
    }

    /// What a long stream of somebody keeps; `None` where nothing of it can change.
    #[must_use]
    pub fn pass(&self, visitor: &Visitor, access: &Access) -> Option<Box<Authorization>> {
        self.has_files().then(|| Box::new(Authorization { visitor: visitor.clone(), access: access.clone() }))
    }

    /// Whether what a stream was allowed is still allowed, by the same user with the same proof. The end of a proof in time
    /// is the stream's own: it is no longer than that.
    #[must_use]
    pub fn still_allows(&self, pass: &Authorization) -> bool {
        let state = self.state.load();
        let Visitor { identity, proof, .. } = &pass.visitor;
        let identity = match proof {
            Proof::Token(digest) => match state.tokens.named(digest) {
                Some(now) if now.name == identity.name && now.uid == identity.uid => now,
                Some(_) | None => return false,
            },
            Proof::Signed(key) if !state.keys.has(key) => return false,
            Proof::Signed(_) | Proof::Nothing | Proof::Certificate => Arc::clone(identity),
        };
        self.grants(&state, &identity, *proof, &pass.access)
    }
}
