//! What the keys below the prefix hold: counted while they are read, for the log and for `revcast doctor`.
//!
//! It owns the counts and their text. It reads no value by itself: its user says what a value is.

use std::collections::BTreeMap;

use revcast_engine::codec::{DecodeError, Reason, protobuf};
use revcast_engine::index::Snapshot;
use revcast_engine::key::ResourceId;
use revcast_engine::resource::Schema;

use super::layout::Layout;

/// Where CustomResourceDefinitions are, below the prefix.
const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions/";
/// Folders of no served resource that are told apart, and those that a text names.
const FOLDERS_MAX: usize = 1_000;
const FOLDERS_SHOWN: usize = 5;

/// Values that cannot be read for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// How many.
    pub count: u64,
    /// The key of one.
    pub example: String,
    /// What is wrong with that one.
    pub why: DecodeError,
}

/// What the keys hold.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// Readable objects in JSON.
    json: u64,
    /// Those in protobuf.
    protobuf: u64,
    /// Those of each kind that has any.
    kinds: BTreeMap<ResourceId, u64>,
    definitions: u64,
    /// Keys of no served resource.
    foreign: u64,
    /// The first folders of those.
    folders: BTreeMap<String, u64>,
    unread: BTreeMap<Reason, Unread>,
}

impl Census {
    /// A key of a served resource, and its value, which is readable as far as is known.
    pub(super) fn count(&mut self, layout: &Layout, etcd: &[u8], resource: ResourceId, value: &[u8]) {
        *self.of_codec(value) += 1;
        *self.kinds.entry(resource).or_default() += 1;
        self.count_definition(layout, etcd);
    }

    /// A key of no served resource.
    pub(super) fn count_foreign(&mut self, layout: &Layout, etcd: &[u8]) {
        self.foreign += 1;
        self.count_definition(layout, etcd);
        let text = String::from_utf8_lossy(etcd.strip_prefix(layout.prefix().as_bytes()).unwrap_or(etcd));
        let (first, rest) = text.split_once('/').unwrap_or((&text, ""));
        // The folder of a custom resource has its group in front.
        let folder = match rest.split_once('/') {
            Some((second, _)) if first.contains('.') => &text[..=first.len() + second.len()],
            _ => first,
        };
        if let Some(count) = self.folders.get_mut(folder) {
            *count += 1;
        } else if self.folders.len() < FOLDERS_MAX {
            self.folders.insert(folder.to_owned(), 1);
        }
    }

    /// A value that was counted cannot be read.
    pub(super) fn move_unread(&mut self, etcd: &str, resource: ResourceId, value: &[u8], why: &DecodeError) {
        *self.of_codec(value) -= 1;
        if let Some(count) = self.kinds.get_mut(&resource) {
            *count -= 1;
        }
        let of_reason = self.unread.entry(why.reason());
        let first = || Unread { count: 0, example: etcd.to_owned(), why: why.clone() };
        of_reason.or_insert_with(first).count += 1;
    }

    /// The values of a whole state that cannot be read.
    pub(super) fn move_unread_of(&mut self, layout: &Layout, schema: &Schema, state: &Snapshot) {
        if state.unreadable_total() == 0 {
            return;
        }
        let rows = (0..schema.len()).map(|row| ResourceId::new(u16::try_from(row).unwrap_or(u16::MAX)));
        for object in rows.flat_map(|row| state.unreadable_in(row, None, None)) {
            if let Some(why) = object.unreadable() {
                let (key, value) = (object.key(), object.value().bytes());
                self.move_unread(&layout.to_etcd(key), key.resource(), value, why.error());
            }
        }
    }

    fn of_codec(&mut self, value: &[u8]) -> &mut u64 {
        if value.starts_with(protobuf::PREFIX) { &mut self.protobuf } else { &mut self.json }
    }

    fn count_definition(&mut self, layout: &Layout, etcd: &[u8]) {
        let rest = etcd.strip_prefix(layout.prefix().as_bytes());
        self.definitions += u64::from(rest.is_some_and(|rest| rest.starts_with(DEFINITIONS.as_bytes())));
    }

    /// What is served, and what is no served resource's, in a line.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} objects (JSON {}, protobuf {}) of {} kinds, {} CustomResourceDefinitions; {} keys of no served resource",
            self.json + self.protobuf,
            self.json,
            self.protobuf,
            self.kinds.values().filter(|count| **count > 0).count(),
            self.definitions,
            self.foreign
        );
        let mut folders: Vec<(&String, &u64)> = self.folders.iter().collect();
        folders.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let more = folders.len().saturating_sub(FOLDERS_SHOWN);
        let mut shown: Vec<String> =
            folders.iter().take(FOLDERS_SHOWN).map(|(folder, count)| format!("{folder} {count}")).collect();
        if more > 0 {
            shown.push(format!("{more} more folders"));
        }
        if !shown.is_empty() {
            text.push_str(&format!(" ({})", shown.join(", ")));
        }
        text
    }

    /// What cannot be read: a line for each reason.
    pub fn unread(&self) -> impl Iterator<Item = String> + use<'_> {
        self.unread.iter().map(|(reason, Unread { count, example, why })| {
            format!("{count} values cannot be read ({}), such as {example}: {why}", reason.name())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::resources::Registry;

    #[test]
    fn what_is_found_is_told() {
        let registry = Registry::builtin();
        let rows =
            registry.rows().map(|resource| (resource.row, resource.namespaced, resource.etcd_folder()));
        let layout = Layout::new("/registry", rows).expect("no folder twice");
        let mut census = Census::default();
        for (key, value) in [
            ("/registry/configmaps/a/x", &b"{}"[..]),
            ("/registry/configmaps/a/y", b"k8s\0"),
            ("/registry/secrets/a/y", b"k8s:enc:aescbc:v1:key1:"),
            ("/registry/secrets/a/z", b"k8s:enc:aescbc:v1:key1:"),
            ("/registry/masterleases/10.0.0.1", b"x"),
            ("/registry/example.com/widgets/a/b", b"{}"),
            ("/registry/example.com/widgets/a/c", b"{}"),
        ] {
            let Some(found) = layout.to_key(key.as_bytes()) else {
                census.count_foreign(&layout, key.as_bytes());
                continue;
            };
            census.count(&layout, key.as_bytes(), found.resource(), value);
            if value.starts_with(b"k8s:enc:") {
                let why = DecodeError::Encrypted("aescbc:v1:key1".to_owned());
                census.move_unread(key, found.resource(), value, &why);
            }
        }
        census.count_definition(&layout, b"/registry/apiextensions.k8s.io/customresourcedefinitions/a");
        let expected = "2 objects (JSON 1, protobuf 1) of 1 kinds, 1 CustomResourceDefinitions; 3 keys of no served \
                        resource (example.com/widgets 2, masterleases 1)";
        assert_eq!(census.text(), expected);
        let lines: Vec<String> = census.unread().collect();
        let [line] = &lines[..] else { panic!("{lines:?}") };
        let begins =
            "2 values cannot be read (encrypted), such as /registry/secrets/a/y: the stored value is";
        assert!(line.starts_with(begins), "{line}");
    }

    #[test]
    fn folders_have_a_limit() {
        let layout = Layout::new("/registry", std::iter::empty()).expect("no folder");
        let mut census = Census::default();
        for at in 0..FOLDERS_MAX + 10 {
            census.count_foreign(&layout, format!("/registry/f{at}/x").as_bytes());
        }
        assert_eq!((census.folders.len(), census.foreign), (FOLDERS_MAX, FOLDERS_MAX as u64 + 10));
        assert!(census.text().ends_with(", 995 more folders)"), "{}", census.text());
    }
}
