//! The scope of a watcher: a kind, a namespace and random selectors, as a request and as a predicate.

use revcast_sim::rng::Rng;

use super::objects::{Kind, LETTERS, NAMES, NAMESPACES, WRITTEN};

/// The condition of a selector on one letter of a form.
#[derive(Clone, Copy, Debug)]
enum Test {
    Is(u8),
    IsNot(u8),
    OneOf(u8, u8),
    There,
    NotThere,
}

impl Test {
    const fn holds(self, letter: u8) -> bool {
        match self {
            Self::Is(wanted) => letter == wanted,
            Self::IsNot(unwanted) => letter != unwanted,
            Self::OneOf(one, other) => letter == one || letter == other,
            Self::There => letter != b'-',
            Self::NotThere => letter == b'-',
        }
    }
}

/// The scope of a watcher.
#[derive(Clone, Debug)]
pub struct Scope {
    kind: Kind,
    namespace: Option<&'static str>,
    name: Option<String>,
    /// Which letter, and its condition.
    tests: Vec<(usize, Test)>,
    /// `&labelSelector=..&fieldSelector=..`, or nothing.
    query: String,
    /// The prefix of its keys, or the whole key.
    keys: String,
}

impl Scope {
    /// A random scope.
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let kind = if rng.percent(50) { Kind::ConfigMap } else { Kind::Pod };
        let namespace = rng.percent(60).then(|| *rng.pick(&NAMESPACES));
        let name = (namespace.is_some() && rng.percent(8)).then(|| format!("n{:02}", rng.below(NAMES)));
        let (mut tests, mut labels, mut fields) = (Vec::new(), String::new(), Vec::new());
        let (app, tier) = (rng.below(4), rng.below(3));
        let digit = |number: usize| b"0123456789"[number];
        match rng.below(8) {
            0 | 1 => {
                labels = format!("app%3Da{app}");
                tests.push((0, Test::Is(digit(app))));
            }
            2 => {
                labels = format!("app!%3Da{app}");
                tests.push((0, Test::IsNot(digit(app))));
            }
            3 => {
                let other = (app + 1) % 4;
                labels = format!("app%20in%20(a{app},a{other})");
                tests.push((0, Test::OneOf(digit(app), digit(other))));
            }
            4 => {
                labels = "!tier".to_owned();
                tests.push((1, Test::NotThere));
            }
            5 => {
                labels = format!("tier,app%3Da{app}");
                tests.extend([(1, Test::There), (0, Test::Is(digit(app)))]);
            }
            6 => {
                labels = format!("tier%3Dt{tier}");
                tests.push((1, Test::Is(digit(tier))));
            }
            _ => {}
        }
        if let Some(name) = &name {
            fields.push(format!("metadata.name%3D{name}"));
        }
        if kind == Kind::Pod {
            let node = rng.below(5);
            if rng.percent(35) {
                fields.push(format!("spec.nodeName%3Dw{node}"));
                tests.push((2, Test::Is(digit(node))));
            }
            match rng.below(6) {
                0 => {
                    fields.push("spec.restartPolicy%3DNever".to_owned());
                    tests.push((3, Test::Is(b'N')));
                }
                1 => {
                    fields.push("spec.restartPolicy!%3DOnFailure".to_owned());
                    tests.push((3, Test::IsNot(b'O')));
                }
                _ => {}
            }
        }
        let mut query = String::new();
        if !labels.is_empty() {
            query += &format!("&labelSelector={labels}");
        }
        if !fields.is_empty() {
            query += &format!("&fieldSelector={}", fields.join(","));
        }
        let mut keys = format!("/registry/{}/", kind.plural());
        if let Some(namespace) = namespace {
            keys += &format!("{namespace}/");
        }
        if let Some(name) = &name {
            keys += name;
        }
        Self { kind, namespace, name, tests, query, keys }
    }

    /// A single object that a writer with this many names writes.
    pub(crate) fn of_one(names: usize, rng: &mut Rng) -> Self {
        let kind = if rng.percent(50) { Kind::ConfigMap } else { Kind::Pod };
        let namespace = NAMESPACES[rng.below(WRITTEN)];
        let name = format!("n{:02}", rng.below(names));
        let query = format!("&fieldSelector=metadata.name%3D{name}");
        let keys = format!("/registry/{}/{namespace}/{name}", kind.plural());
        Self { kind, namespace: Some(namespace), name: Some(name), tests: Vec::new(), query, keys }
    }

    /// The kind of its objects.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The path and the query of a request for it, to which more may be appended with `&`.
    #[must_use]
    pub fn path(&self) -> String {
        let plural = self.kind.plural();
        match self.namespace {
            Some(namespace) => format!("/api/v1/namespaces/{namespace}/{plural}?limit=0{}", self.query),
            None => format!("/api/v1/{plural}?limit=0{}", self.query),
        }
    }

    /// What all of its keys begin with.
    #[must_use]
    pub fn keys(&self) -> &str {
        &self.keys
    }

    /// Whether an object is in it, by its key and its form.
    #[must_use]
    pub fn wants(&self, key: &str, form: &[u8]) -> bool {
        let placed = if self.name.is_some() { key == self.keys } else { key.starts_with(&self.keys) };
        placed && form.len() > LETTERS && self.tests.iter().all(|(at, test)| test.holds(form[*at]))
    }
}

#[cfg(test)]
mod tests {
    use revcast_sim::rng::Rng;

    use super::Scope;
    use crate::workload::objects::{NAMESPACES, form, key, object};

    #[test]
    fn scopes_take_some_and_leave_some() {
        let mut rng = Rng::new(5);
        let (mut taken, mut left) = (0, 0);
        for number in 0..2_000 {
            let scope = Scope::random(&mut rng);
            let namespace = *rng.pick(&NAMESPACES);
            let value = object(scope.kind(), namespace, "n03", number, &mut rng);
            let wanted = scope.wants(&key(scope.kind(), namespace, "n03"), &form(value.as_bytes()));
            *(if wanted { &mut taken } else { &mut left }) += 1;
            assert!(!scope.wants("/registry/ticks/a/b", &form(value.as_bytes())));
        }
        assert!(taken > 200 && left > 200, "{taken} {left}");
    }
}
