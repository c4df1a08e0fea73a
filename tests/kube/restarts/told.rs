//! What a client was told, in the form in which it is compared with etcd's log: objects as JSON with sorted members, since these clients
//! read them and write them again.

use std::collections::HashSet;

use revcast_tests::etcd::Record;
use revcast_tests::history::{End, Kind, Log, Object, Seen, Segment, Violation, Watcher, check};
use serde_json::{Value, json};

/// What a client wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// What its keys begin with.
    pub(crate) keys: &'static str,
    /// A label that its objects have.
    pub(crate) label: Option<(&'static str, &'static str)>,
}

impl Wanted {
    fn wants(self, key: &str, value: &[u8]) -> bool {
        let labelled = |(name, text): (&'static str, &'static str)| {
            let object: Value = serde_json::from_slice(value).unwrap_or_default();
            object["metadata"]["labels"][name] == text
        };
        key.starts_with(self.keys) && self.label.is_none_or(labelled)
    }
}

/// One client, or one run of it.
#[derive(Debug)]
pub(crate) struct Told {
    name: String,
    wanted: Wanted,
    seen: Vec<Seen>,
    /// Keys of the objects that it has.
    known: HashSet<String>,
    /// The newest revision of an event, and the keys that it changed.
    newest: (u64, HashSet<String>),
    lists: u64,
    problems: Vec<String>,
}

impl Told {
    pub(crate) fn new(name: String, wanted: Wanted) -> Self {
        let (seen, known, problems) = (Vec::new(), HashSet::new(), Vec::new());
        Self { name, wanted, seen, known, newest: (0, HashSet::new()), lists: 0, problems }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How often it listed after the first time.
    pub(crate) const fn relists(&self) -> u64 {
        self.lists.saturating_sub(1)
    }

    pub(crate) fn problems(&self) -> &[String] {
        &self.problems
    }

    pub(crate) fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    pub(crate) fn events(&self) -> usize {
        self.seen.iter().filter(|seen| matches!(seen, Seen::Event(..))).count()
    }

    /// It begins to list.
    pub(crate) const fn begins(&mut self) {
        self.lists += 1;
    }

    /// It has listed.
    pub(crate) fn listed(&mut self, revision: u64, objects: &[Value]) {
        let objects: Vec<Object> = objects.iter().map(|object| self.object(object)).collect();
        self.known = objects.iter().map(|object| object.key.clone()).collect();
        self.seen.push(Seen::List { revision, objects });
    }

    /// An event that does not say whether the object is new.
    pub(crate) fn changed(&mut self, object: &Value, is_gone: bool) {
        let key = self.object(object).key;
        let kind = match (is_gone, self.known.contains(&key)) {
            (true, _) => Kind::Deleted,
            (false, true) => Kind::Modified,
            (false, false) => Kind::Added,
        };
        self.event(kind, object);
    }

    /// An event.
    pub(crate) fn event(&mut self, kind: Kind, object: &Value) {
        let object = self.object(object);
        if object.revision != self.newest.0 {
            self.newest = (object.revision, HashSet::new());
        }
        // A client that resumes after a revision of several changes is told all of them again.
        if !self.newest.1.insert(object.key.clone()) {
            return;
        }
        if kind == Kind::Deleted {
            self.known.remove(&object.key)
        } else {
            self.known.insert(object.key.clone())
        };
        self.seen.push(Seen::Event(kind, object));
    }

    /// Its stream ended.
    pub(crate) fn ended(&mut self, end: End) {
        self.seen.push(Seen::End(end));
    }

    fn object(&self, object: &Value) -> Object {
        let member = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
        let plural = self.wanted.keys.split('/').nth(2).unwrap_or_default();
        Object {
            key: format!("/registry/{plural}/{}/{}", member("namespace"), member("name")),
            revision: member("resourceVersion").parse().unwrap_or_default(),
            value: sorted(object.clone()),
        }
    }

    /// What is wrong with it; it was waited for up to `reached`.
    pub(crate) fn check(&self, log: &Log, reached: Option<u64>) -> Vec<Violation> {
        let wanted = self.wanted;
        let wants = move |key: &str, value: &[u8]| wanted.wants(key, value);
        let segments = vec![Segment { epoch: 0, seen: self.seen.clone(), reached }];
        let keys = self.wanted.keys.to_owned();
        check(
            std::slice::from_ref(log),
            &[Watcher { name: self.name.clone(), keys, wants: &wants, segments }],
        )
    }
}

/// etcd's log, in the same form.
pub(crate) fn log(records: Vec<Record>) -> Log {
    let form = |value: &[u8]| serde_json::from_slice(value).map_or_else(|_| value.to_vec(), sorted);
    Log::new(1, &[], records).unwrap().with_values(form)
}

/// Without what the store does not have, or lists do not.
fn sorted(mut object: Value) -> Vec<u8> {
    object.sort_all_objects();
    if let Some(members) = object.as_object_mut() {
        members.retain(|name, _| !["kind", "apiVersion"].contains(&name.as_str()));
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| name != "resourceVersion");
    }
    object.to_string().into_bytes()
}

/// A ConfigMap that is there before all clients: its key and its value.
pub(crate) fn first(number: usize) -> (String, String) {
    let name = format!("first-{number}");
    let metadata = json!({"name": name, "namespace": "s0", "labels": {"app": format!("a{}", number % 4)}});
    let value = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"k": "0"}});
    (format!("/registry/configmaps/s0/{name}"), value.to_string())
}
