//! The file of rules: TOML, one `[[rule]]` per rule, read strictly.
//!
//! Owns the grammar and its errors: a rule that is ambiguous, or that grants nothing, is one.

use std::collections::HashSet;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::{Grant, Names, ResourceName, Verbs};
use crate::auth::files::mistake;
use crate::http::request_info::Verb;
use crate::setting::ConfigError;

/// Subresources that have paths; otherwise a group could not be distinguished from a resource.
const SUBRESOURCES: [&str; 3] = ["status", "scale", "finalize"];

/// A valid rule.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) users: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) grant: Grant,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    rule: Vec<Spanned<Table>>,
}

/// A list with its position, of items with their positions.
type List = Option<Spanned<Vec<Spanned<String>>>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    users: List,
    groups: List,
    verbs: List,
    resources: List,
    namespaces: List,
    names: List,
    paths: List,
}

/// All rules of a file.
///
/// # Errors
/// The first error, with its line and the remedy.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<Rule>, ConfigError> {
    let file = File { path, text };
    let document: Document = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        file.wrong(
            at,
            error.message(),
            "write [[rule]] with users or groups, verbs, and resources and namespaces, or paths",
        )
    })?;
    if document.rule.is_empty() {
        return Err(file.wrong(0, "no rule", "write a [[rule]], or leave the file out"));
    }
    document.rule.iter().map(|rule| file.rule(rule.span().start, rule.get_ref())).collect()
}

/// A file, to report positions of errors.
struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

impl File<'_> {
    fn wrong(&self, at: usize, problem: &str, mend: &str) -> ConfigError {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        mistake(self.path, line, problem, mend)
    }

    fn rule(&self, at: usize, table: &Table) -> Result<Rule, ConfigError> {
        let users = self.people("users", &table.users)?;
        let groups = self.people("groups", &table.groups)?;
        if users.is_empty() && groups.is_empty() {
            return Err(self.wrong(
                at,
                "a rule without users and groups",
                "add users = [\"...\"] or groups = [\"...\"]",
            ));
        }
        let Some(verbs) = &table.verbs else {
            return Err(self.wrong(at, "a rule without verbs", "add verbs = [\"get\", \"list\", \"watch\"]"));
        };
        let grant = match (&table.resources, &table.paths) {
            (Some(resources), None) => self.of_resources(at, table, verbs, resources)?,
            (None, Some(paths)) => self.of_paths(table, verbs, paths)?,
            (Some(_), Some(paths)) => {
                let problem = "a rule with both resources and paths";
                return Err(self.wrong(paths.span().start, problem, "write two rules"));
            }
            (None, None) => {
                let mend = "add resources = [\"configmaps\"] or paths = [\"/version\"]";
                return Err(self.wrong(at, "a rule without resources and paths", mend));
            }
        };
        Ok(Rule { users, groups, grant })
    }

    fn of_resources(
        &self,
        at: usize,
        table: &Table,
        verbs: &Spanned<Vec<Spanned<String>>>,
        resources: &Spanned<Vec<Spanned<String>>>,
    ) -> Result<Grant, ConfigError> {
        let verbs = self.verbs(verbs, &Verb::OF_RESOURCES)?;
        let resources = match self.stars("resources", resources)? {
            None => None,
            Some(items) => Some(items.iter().map(|item| self.resource(item)).collect::<Result<_, _>>()?),
        };
        let Some(namespaces) = &table.namespaces else {
            let mend = "add namespaces = [\"NAME\"], or namespaces = [\"*\"] for all, and for resources that have none";
            return Err(self.wrong(at, "a rule with resources and without namespaces", mend));
        };
        let namespaces = self.names("namespaces", namespaces)?;
        let names = match &table.names {
            None => Names::All,
            Some(names) => match self.names("names", names)? {
                Names::All => {
                    return Err(self.wrong(names.span().start, "a star in names", "leave names out"));
                }
                names @ Names::These(_) => names,
            },
        };
        Ok(Grant::Resources { verbs, resources, namespaces, names })
    }

    fn of_paths(
        &self,
        table: &Table,
        verbs: &Spanned<Vec<Spanned<String>>>,
        paths: &Spanned<Vec<Spanned<String>>>,
    ) -> Result<Grant, ConfigError> {
        for (name, list) in [("namespaces", &table.namespaces), ("names", &table.names)] {
            if let Some(list) = list {
                let problem = format!("{name} of paths");
                return Err(self.wrong(list.span().start, &problem, "leave them out, or write resources"));
            }
        }
        let verbs = self.verbs(verbs, &Verb::OF_PATHS)?;
        let mut whole = HashSet::new();
        let mut beginnings = Vec::new();
        for item in self.items("paths", paths)? {
            let text = item.get_ref().as_str();
            let (beginning, star) = text.strip_suffix('*').map_or((text, false), |cut| (cut, true));
            if !(beginning.starts_with('/') || text == "*") || beginning.contains('*') {
                let mend = "write a path from its first slash, as /version or /openapi/*";
                return Err(self.wrong(item.span().start, &format!("{text:?} is not a path"), mend));
            }
            if star {
                beginnings.push(beginning.to_owned());
            } else {
                // As requests are read: one final slash is ignored.
                let path = if beginning.len() > 1 {
                    beginning.strip_suffix('/').unwrap_or(beginning)
                } else {
                    beginning
                };
                whole.insert(path.to_owned());
            }
        }
        Ok(Grant::Paths { verbs, whole, beginnings })
    }

    /// Users or groups: exact names, no star.
    fn people(&self, what: &str, list: &List) -> Result<Vec<String>, ConfigError> {
        let Some(list) = list else { return Ok(Vec::new()) };
        let items = self.items(what, list)?;
        for item in items {
            if item.get_ref().contains('*') {
                let mend = "name them; every user with credentials is in the group system:authenticated";
                return Err(self.wrong(item.span().start, &format!("a star in {what}"), mend));
            }
        }
        Ok(items.iter().map(|item| item.get_ref().clone()).collect())
    }

    fn verbs(&self, list: &Spanned<Vec<Spanned<String>>>, known: &[Verb]) -> Result<Verbs, ConfigError> {
        let Some(items) = self.stars("verbs", list)? else { return Ok(Verbs::All) };
        let verbs = items.iter().map(|item| {
            known.iter().copied().find(|verb| verb.as_str() == item.get_ref()).ok_or_else(|| {
                let names: Vec<&str> = known.iter().map(|verb| verb.as_str()).collect();
                let problem = format!("unknown verb {:?}", item.get_ref());
                self.wrong(item.span().start, &problem, &format!("use {} or *", names.join(", ")))
            })
        });
        Ok(Verbs::These(verbs.collect::<Result<_, _>>()?))
    }

    fn names(&self, what: &str, list: &Spanned<Vec<Spanned<String>>>) -> Result<Names, ConfigError> {
        let Some(items) = self.stars(what, list)? else { return Ok(Names::All) };
        Ok(Names::These(items.iter().map(|item| item.get_ref().clone()).collect()))
    }

    /// The items of a list; `None` for `["*"]`.
    fn stars<'b>(
        &self,
        what: &str,
        list: &'b Spanned<Vec<Spanned<String>>>,
    ) -> Result<Option<&'b [Spanned<String>]>, ConfigError> {
        let items = self.items(what, list)?;
        if let [only] = items
            && only.get_ref() == "*"
        {
            return Ok(None);
        }
        for item in items {
            if item.get_ref().contains('*') {
                let problem = format!("a star in {what}");
                let mend = format!("write {what} = [\"*\"] for all; a star is not a pattern");
                return Err(self.wrong(item.span().start, &problem, &mend));
            }
        }
        Ok(Some(items))
    }

    /// The items of a list: at least one, and none of them empty.
    fn items<'b>(
        &self,
        what: &str,
        list: &'b Spanned<Vec<Spanned<String>>>,
    ) -> Result<&'b [Spanned<String>], ConfigError> {
        if list.get_ref().is_empty() {
            let mend = "name at least one, or remove the rule";
            return Err(self.wrong(list.span().start, &format!("{what} is empty"), mend));
        }
        match list.get_ref().iter().find(|item| item.get_ref().is_empty()) {
            Some(empty) => {
                let problem = format!("an empty entry in {what}");
                Err(self.wrong(empty.span().start, &problem, "remove it, or write what is meant"))
            }
            None => Ok(list.get_ref()),
        }
    }

    /// `configmaps`, `pods/status`, `apps/deployments`, `apps/deployments/status`.
    fn resource(&self, item: &Spanned<String>) -> Result<ResourceName, ConfigError> {
        let text = item.get_ref().as_str();
        let parts: Vec<&str> = text.split('/').collect();
        let (group, resource, subresource) = match parts.as_slice() {
            [resource] => ("", *resource, ""),
            [resource, part] if SUBRESOURCES.contains(part) && !resource.contains('.') => {
                ("", *resource, *part)
            }
            [group, resource] => (*group, *resource, ""),
            [group, resource, part] if SUBRESOURCES.contains(part) => (*group, *resource, *part),
            _ => ("", "", ""),
        };
        let is_name = |name: &str, dots: bool| {
            let fits = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || (dots && byte == b'.')
            };
            !name.is_empty() && name.bytes().all(fits)
        };
        if parts.iter().any(|part| part.is_empty())
            || !is_name(resource, false)
            || (parts.len() > 1 && !group.is_empty() && !is_name(group, true))
        {
            let problem = format!("{text:?} is not a resource");
            let mend = "write configmaps, apps/deployments, pods/status or apps/deployments/status, or [\"*\"] for all";
            return Err(self.wrong(item.span().start, &problem, mend));
        }
        let own = |part: &str| part.to_owned();
        Ok(ResourceName { group: own(group), resource: own(resource), subresource: own(subresource) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(Path::new("/etc/rules.toml"), text).expect_err(text).to_string()
    }

    fn rule(lines: &str) -> String {
        format!("# who may\n[[rule]]\n{lines}")
    }

    const ALL: &str = "users = [\"u\"]\nverbs = [\"*\"]\nresources = [\"*\"]\nnamespaces = [\"*\"]\n";

    #[test]
    fn rules_that_are_right() {
        let text = format!(
            "{}[[rule]]\ngroups = [\"g\", \"system:authenticated\"]\nverbs = [\"get\", \"list\"]\n\
             resources = [\"configmaps\", \"apps/deployments\", \"pods/status\", \"apps/deployments/status\", \
             \"example.com/status\"]\nnamespaces = [\"a\"]\nnames = [\"x\"]\n\n\
             [[rule]]\nusers = [\"v\"]\nverbs = [\"get\"]\npaths = [\"/\", \"/api\", \"/apis/*\", \"/version/\", \"*\"]\n",
            rule(ALL)
        );
        let rules = parse(Path::new("x"), &text).expect("right rules");
        assert_eq!(rules.len(), 3);
        let all = Grant::Resources {
            verbs: Verbs::All,
            resources: None,
            namespaces: Names::All,
            names: Names::All,
        };
        assert_eq!(rules[0].grant, all);
        let Grant::Resources { resources: Some(resources), .. } = &rules[1].grant else {
            panic!("{rules:?}")
        };
        let has = |group: &str, resource: &str, part: &str| {
            let own = |text: &str| text.to_owned();
            let name = ResourceName { group: own(group), resource: own(resource), subresource: own(part) };
            assert!(resources.contains(&name), "{name:?} in {resources:?}");
        };
        has("", "configmaps", "");
        has("apps", "deployments", "");
        has("", "pods", "status");
        has("apps", "deployments", "status");
        has("example.com", "status", "");
        let Grant::Paths { whole, beginnings, .. } = &rules[2].grant else { panic!("{rules:?}") };
        assert_eq!(whole.len(), 3);
        assert!(whole.contains("/version") && whole.contains("/"));
        assert_eq!(beginnings, &["/apis/", ""]);
    }

    #[test]
    fn mistakes_have_a_line_and_a_mend() {
        let but = |from: &str, to: &str| {
            assert!(ALL.contains(from), "{from}");
            rule(&ALL.replace(from, to))
        };
        let paths = "users = [\"u\"]\nverbs = [\"get\"]\npaths = [\"/version\"]\n";
        for (text, line, says) in [
            (String::new(), 1, "no rule; write a [[rule]]"),
            ("# nothing\n\n".into(), 1, "no rule"),
            ("[rule]\nusers = [\"u\"]".into(), 1, "invalid type"),
            ("[[rules]]\n".into(), 1, "unknown field `rules`"),
            ("[[rule]]\nuser = [\"u\"]".into(), 2, "unknown field `user`"),
            ("[[rule]]\nusers = [\"u\"".into(), 2, ""),
            (but("users = [\"u\"]", "users = \"u\""), 3, "invalid type: string \"u\""),
            (but("[\"u\"]", "[1]"), 3, "invalid type: integer `1`"),
            (but("users = [\"u\"]\n", ""), 2, "a rule without users and groups; add users"),
            (but("[\"u\"]", "[]"), 3, "users is empty; name at least one"),
            (but("[\"u\"]", "[\"u\", \"\"]"), 3, "an empty entry in users"),
            (but("[\"u\"]", "[\"*\"]"), 3, "a star in users; name them"),
            (but("[\"u\"]", "[\"system:*\"]"), 3, "a star in users"),
            (but("verbs = [\"*\"]\n", ""), 2, "a rule without verbs"),
            (but("verbs = [\"*\"]", "verbs = [\"read\"]"), 4, "unknown verb \"read\"; use get, list, watch"),
            (but("verbs = [\"*\"]", "verbs = [\"Get\"]"), 4, "unknown verb \"Get\""),
            (but("verbs = [\"*\"]", "verbs = [\"post\"]"), 4, "unknown verb \"post\""),
            (but("verbs = [\"*\"]", "verbs = [\"get\", \"*\"]"), 4, "a star in verbs"),
            (but("verbs = [\"*\"]", "verbs = [\n\"get\",\n\"gett\"]"), 6, "unknown verb \"gett\""),
            (but("resources = [\"*\"]\n", ""), 2, "a rule without resources and paths"),
            (but("resources = [\"*\"]", "resources = []"), 5, "resources is empty"),
            (but("resources = [\"*\"]", "resources = [\"config*\"]"), 5, "a star in resources"),
            (but("resources = [\"*\"]", "resources = [\"apps/*\"]"), 5, "a star in resources"),
            (but("resources = [\"*\"]", "resources = [\"ConfigMap\"]"), 5, "\"ConfigMap\" is not a resource"),
            (
                but("resources = [\"*\"]", "resources = [\"/configmaps\"]"),
                5,
                "\"/configmaps\" is not a resource",
            ),
            (
                but("resources = [\"*\"]", "resources = [\"configmaps/\"]"),
                5,
                "\"configmaps/\" is not a resource",
            ),
            (
                but("resources = [\"*\"]", "resources = [\"apps/v1/deployments\"]"),
                5,
                "is not a resource; write",
            ),
            (but("namespaces = [\"*\"]\n", ""), 2, "a rule with resources and without namespaces"),
            (but("namespaces = [\"*\"]", "namespaces = [\"team-*\"]"), 6, "a star in namespaces"),
            (but("namespaces = [\"*\"]", "namespaces = [\"\"]"), 6, "an empty entry in namespaces"),
            (rule(&format!("{ALL}names = []\n")), 7, "names is empty"),
            (rule(&format!("{ALL}names = [\"*\"]\n")), 7, "a star in names; leave names out"),
            (rule(&format!("{ALL}names = [\"x*\"]\n")), 7, "a star in names"),
            (
                rule(&format!("{ALL}paths = [\"/x\"]\n")),
                7,
                "a rule with both resources and paths; write two rules",
            ),
            (rule(&format!("{paths}names = [\"x\"]\n")), 6, "names of paths"),
            (rule(&format!("{paths}namespaces = [\"x\"]\n")), 6, "namespaces of paths"),
            (rule(&paths.replace("/version", "version")), 5, "\"version\" is not a path"),
            (rule(&paths.replace("/version", "/a*b")), 5, "\"/a*b\" is not a path"),
            (rule(&paths.replace("/version", "/**")), 5, "\"/**\" is not a path"),
            (rule(&paths.replace("\"get\"", "\"list\"")), 4, "unknown verb \"list\"; use get, post or *"),
            (rule(&format!("{ALL}{ALL}")), 7, "duplicate key"),
        ] {
            let error = error(&text);
            assert!(error.starts_with(&format!("/etc/rules.toml:{line}: ")), "{error}\nin {text}");
            assert!(error.contains(says), "{error}: {says}\nin {text}");
            assert!(error.contains("; "), "{error} has a remedy");
        }
    }
}
