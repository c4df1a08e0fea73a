//! Authorization rules. What no rule grants is denied.
//!
//! Owns the decision on an access. Everything is compared exactly: nothing is a prefix of anything, except a path in a
//! rule that ends in `*`. The file format is in the module `file`.

mod file;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::access::{Access, OfResource};
use crate::http::request_info::Verb;
use crate::identity::Identity;
use crate::setting::ConfigError;

/// All rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    grants: Vec<Grant>,
    by_user: HashMap<String, Vec<usize>>,
    by_group: HashMap<String, Vec<usize>>,
}

/// A set of names, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    All,
    These(HashSet<String>),
}

impl Names {
    fn have(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => names.contains(name),
        }
    }
}

/// A set of verbs, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verbs {
    All,
    These(Vec<Verb>),
}

impl Verbs {
    fn have(&self, verb: Verb) -> bool {
        match self {
            Self::All => true,
            Self::These(verbs) => verbs.contains(&verb),
        }
    }
}

/// A resource or subresource, as a rule names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ResourceName {
    group: String,
    resource: String,
    subresource: String,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Grant {
    Resources {
        verbs: Verbs,
        /// `None`: every resource and subresource.
        resources: Option<Vec<ResourceName>>,
        /// "All" includes objects without a namespace, and requests for several namespaces.
        namespaces: Names,
        names: Names,
    },
    Paths {
        verbs: Verbs,
        whole: HashSet<String>,
        /// The part before the `*`.
        beginnings: Vec<String>,
    },
}

impl Grant {
    fn covers(&self, access: &Access) -> bool {
        match (self, access) {
            (Self::Resources { verbs, resources, namespaces, names }, Access::Resource(access)) => {
                let OfResource { verb, group, resource, subresource, namespace, name, .. } = &**access;
                let named = |known: &ResourceName| {
                    known.resource == *resource && known.group == *group && known.subresource == *subresource
                };
                verbs.have(*verb)
                    && resources.as_ref().is_none_or(|resources| resources.iter().any(named))
                    // An empty namespace or name stands for all of them: no set contains it.
                    && namespaces.have(namespace)
                    && names.have(name)
            }
            (Self::Paths { verbs, whole, beginnings }, Access::Path { verb, path, .. }) => {
                verbs.have(*verb)
                    && (whole.contains(path)
                        || beginnings.iter().any(|beginning| path.starts_with(beginning.as_str())))
            }
            (Self::Resources { .. }, Access::Path { .. }) | (Self::Paths { .. }, Access::Resource(_)) => {
                false
            }
        }
    }
}

impl Rules {
    /// Reads the text of `path`.
    ///
    /// # Errors
    /// The first error, with its line and the remedy.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let mut rules = Self::default();
        for rule in file::parse(path, text)? {
            let place = rules.grants.len();
            rules.grants.push(rule.grant);
            for user in rule.users {
                rules.by_user.entry(user).or_default().push(place);
            }
            for group in rule.groups {
                rules.by_group.entry(group).or_default().push(place);
            }
        }
        Ok(rules)
    }

    /// Whether the access is allowed.
    #[must_use]
    pub fn allow(&self, who: &Identity, access: &Access) -> bool {
        let of_user = self.by_user.get(&who.name);
        let of_groups = who.groups.iter().filter_map(|group| self.by_group.get(group));
        of_user.into_iter().chain(of_groups).flatten().any(|place| self.grants[*place].covers(access))
    }

    /// Resources that rules name, each once: `apps/deployments`, `pods/status`.
    #[must_use]
    pub fn resources(&self) -> Vec<(String, String)> {
        let mut named: Vec<(String, String)> = Vec::new();
        for grant in &self.grants {
            if let Grant::Resources { resources: Some(resources), .. } = grant {
                named.extend(resources.iter().map(|r| (r.group.clone(), r.resource.clone())));
            }
        }
        named.sort_unstable();
        named.dedup();
        named
    }
}
