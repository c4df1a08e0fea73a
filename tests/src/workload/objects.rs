//! Objects as these tests store them, and the form in which histories compare them.
//!
//! A form is four letters (what selectors look at) and a digest of every byte that store and server must agree on: all
//! except `resourceVersion` and the kind, which lists omit. It supports the objects of these tests only.

use revcast_sim::rng::Rng;

use super::protobuf;

/// Namespaces with objects: those of the writer, then the reader's two.
pub const NAMESPACES: [&str; 6] = ["s0", "s1", "s2", "s3", READER_DIRECT, READER_HTTP];
/// Keys that the reader writes directly to the store.
pub const READER_DIRECT: &str = "r";
/// Keys that it writes through a server.
pub const READER_HTTP: &str = "h";
/// How many of [`NAMESPACES`] belong to the writer.
pub const WRITTEN: usize = 4;
/// Objects per namespace and kind.
pub const NAMES: usize = 20;

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Selected by labels only.
    ConfigMap,
    /// With fields, too.
    Pod,
}

impl Kind {
    /// In paths and keys.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::Pod => "pods",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Pod => "Pod",
        }
    }
}

/// The store's key.
#[must_use]
pub fn key(kind: Kind, namespace: &str, name: &str) -> String {
    format!("/registry/{}/{namespace}/{name}", kind.plural())
}

/// An object with random labels and fields. `sequence` makes it unique.
pub(crate) fn object(kind: Kind, namespace: &str, name: &str, sequence: u64, rng: &mut Rng) -> String {
    let app = rng.below(4);
    let tier = if rng.percent(70) { format!(r#","tier":"t{}""#, rng.below(3)) } else { String::new() };
    let rest = match kind {
        Kind::ConfigMap => format!(r#""data":{{"k":"{:x}"}}"#, rng.next()),
        Kind::Pod => {
            let policy = rng.pick(&["Always", "Never", "OnFailure"]);
            format!(r#""spec":{{"nodeName":"w{}","restartPolicy":"{policy}"}}"#, rng.below(5))
        }
    };
    format!(
        r#"{{"kind":"{}","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"{namespace}","labels":{{"app":"a{app}"{tier}}},"annotations":{{"sequence":"{sequence}"}}}},{rest}}}"#,
        kind.text()
    )
}

/// The text of the first member of this name, if it is a string.
#[must_use]
pub fn member<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let start = json.find(&format!("\"{name}\":\""))? + name.len() + 4;
    json[start..].split('"').next()
}

/// The number in `metadata.resourceVersion`.
#[must_use]
pub fn revision(json: &str) -> Option<u64> {
    member(json, "resourceVersion")?.parse().ok()
}

/// The store's key of an object that a server shows.
#[must_use]
pub fn key_of(kind: Kind, json: &str) -> Option<String> {
    Some(key(kind, member(json, "namespace")?, member(json, "name")?))
}

/// Letters of a form: `app`, `tier`, node, restart policy; a dash for a missing one.
pub const LETTERS: usize = 4;

/// A value, from the store or from a server, in the form that is equal for both. A value in protobuf has the form of the JSON that
/// a server makes of it.
#[must_use]
pub fn form(value: &[u8]) -> Vec<u8> {
    if value.starts_with(protobuf::MAGIC) {
        return protobuf::shown(value).map_or_else(|_| Vec::new(), |json| form(json.as_bytes()));
    }
    let Ok(json) = std::str::from_utf8(value) else { return Vec::new() };
    let letter = |name: &str, at: usize| {
        member(json, name).and_then(|text| text.as_bytes().get(at).copied()).unwrap_or(b'-')
    };
    let mut form =
        vec![letter("app", 1), letter("tier", 1), letter("nodeName", 1), letter("restartPolicy", 0)];
    let mut cuts: Vec<(usize, usize)> = Vec::new();
    for head in [r#""kind":"ConfigMap","#, r#""kind":"Pod","#, r#""apiVersion":"v1","#] {
        // No other object of the tests has such members.
        cuts.extend(json.find(head).map(|start| (start, start + head.len())));
    }
    if let Some(start) = json.find(r#""resourceVersion":""#) {
        let digits = start + r#""resourceVersion":""#.len();
        let end = digits + json[digits..].find('"').unwrap_or(0) + 1;
        // With one of the commas around it.
        let behind = json[end..].starts_with(',');
        let before = !behind && json[..start].ends_with(',');
        cuts.push((start - usize::from(before), end + usize::from(behind)));
    }
    cuts.sort_unstable();
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    for (start, end) in cuts.into_iter().chain([(json.len(), json.len())]) {
        // FNV-1a.
        for byte in &value[at..start] {
            digest = (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        at = end;
    }
    form.extend_from_slice(&digest.to_be_bytes());
    form
}

/// The elements of `items` in a list, as text.
#[must_use]
pub fn items(list: &str) -> Vec<&str> {
    let Some(start) = list.find("\"items\":[") else { return Vec::new() };
    let bytes = list.as_bytes();
    let (mut depth, mut begun, mut items) = (0_usize, 0, Vec::new());
    // No string of these objects has a brace or an escape in it.
    for (at, byte) in bytes.iter().enumerate().skip(start + "\"items\":[".len()) {
        match byte {
            b'{' => {
                if depth == 0 {
                    begun = at;
                }
                depth += 1;
            }
            b'}' if depth == 0 => break,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    items.push(&list[begun..=at]);
                }
            }
            _ => {}
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use revcast_sim::rng::Rng;

    use super::{Kind, form, items, key_of, member, object, revision};

    #[test]
    fn forms_agree_where_they_should() {
        let stored = object(Kind::Pod, "s1", "n01", 7, &mut Rng::new(3));
        let shown = stored.replace(r#""namespace""#, r#""resourceVersion":"12","namespace""#);
        let last = shown
            .replace(r#""resourceVersion":"12","#, "")
            .replace(r#""7"}}"#, r#""7"},"resourceVersion":"99"}"#);
        let listed = shown.replace(r#""kind":"Pod","apiVersion":"v1","#, "");
        for other in [&shown, &last, &listed] {
            assert_ne!(other, &stored);
            assert_eq!(form(other.as_bytes()), form(stored.as_bytes()), "{other}");
        }
        assert_eq!((revision(&shown), revision(&stored)), (Some(12), None));
        assert_eq!(key_of(Kind::Pod, &shown).as_deref(), Some("/registry/pods/s1/n01"));
        assert_eq!(member(&stored, "sequence"), Some("7"));
        let damaged = shown.replace("nodeName\":\"w", "nodeName\":\"v");
        assert_ne!(form(damaged.as_bytes()), form(stored.as_bytes()), "one letter");
        assert_eq!(
            form(stored.as_bytes())[3],
            member(&stored, "restartPolicy").expect("a policy").as_bytes()[0]
        );
    }

    #[test]
    fn lists_are_taken_apart() {
        let list =
            r#"{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[{"a":{"b":{}}},{"c":1}]}"#;
        assert_eq!(items(list), [r#"{"a":{"b":{}}}"#, r#"{"c":1}"#]);
        assert_eq!((items(r#"{"items":[]}"#).len(), items("{}").len()), (0, 0));
    }
}
