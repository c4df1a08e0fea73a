//! What names, labels and annotations may be.
//!
//! Rules and texts are those of apimachinery (`api/validation/objectmeta.go`, `util/validation`). It never changes
//! an object.

use revcast_engine::selector::{key_fault, value_fault};
use serde_json::{Map, Value};

use crate::api::resources::ApiResource;
use crate::http::status::Cause;

/// Bytes of the longest name.
const SUBDOMAIN_BYTES_MAX: usize = 253;
/// Bytes of the longest namespace.
const LABEL_BYTES_MAX: usize = 63;
/// Bytes of all annotations of an object together.
const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;
/// Random characters behind a `generateName`.
const SUFFIX_LEN: usize = 5;
/// What they are drawn from: no vowels, so that no words come out (apimachinery `util/rand`).
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
     or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
     must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// What is wrong with the name of an object. `None` when nothing is.
pub(super) fn name_fault(resource: &ApiResource, name: &str) -> Option<Cause> {
    let cause = |why: &str| Some(Cause::invalid("metadata.name", name, why));
    if name.len() > SUBDOMAIN_BYTES_MAX {
        return cause("must be no more than 253 bytes");
    }
    // Roles and addresses are named by anything that a path can hold: `system:node`, `2001:db8::1`.
    if resource.group == "rbac.authorization.k8s.io" || resource.plural == "ipaddresses" {
        return match name {
            "." => cause("may not be '.'"),
            ".." => cause("may not be '..'"),
            name if name.contains('/') => cause("may not contain '/'"),
            name if name.contains('%') => cause("may not contain '%'"),
            name if name.chars().any(char::is_control) => cause("may not contain control characters"),
            _ => None,
        };
    }
    if resource.plural == "namespaces" && resource.group.is_empty() {
        return label_fault("metadata.name", name);
    }
    if name.split('.').all(is_dns_label) { None } else { cause(SUBDOMAIN_RULE) }
}

/// What is wrong with the name of a namespace. `None` when nothing is.
pub(super) fn namespace_fault(namespace: &str) -> Option<Cause> {
    label_fault("metadata.namespace", namespace)
}

fn label_fault(field: &str, label: &str) -> Option<Cause> {
    if label.len() > LABEL_BYTES_MAX {
        return Some(Cause::invalid(field, label, "must be no more than 63 bytes"));
    }
    if is_dns_label(label) { None } else { Some(Cause::invalid(field, label, LABEL_RULE)) }
}

/// Small letters, digits and inner hyphens.
fn is_dns_label(label: &str) -> bool {
    let small = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = label.as_bytes();
    bytes.first().is_some_and(small)
        && bytes.last().is_some_and(small)
        && bytes.iter().all(|b| small(b) || *b == b'-')
}

/// Everything that is wrong with labels and annotations, which are maps of text.
pub(super) fn metadata_faults(metadata: &Map<String, Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let Some(Value::Object(labels)) = metadata.get("labels") {
        for (key, value) in labels {
            let value = value.as_str().unwrap_or_default();
            if let Some(why) = key_fault(key) {
                causes.push(Cause::invalid("metadata.labels", key, &why));
            }
            if let Some(why) = value_fault(value) {
                causes.push(Cause::invalid("metadata.labels", value, &why));
            }
        }
    }
    if let Some(Value::Object(annotations)) = metadata.get("annotations") {
        let mut bytes = 0;
        for (key, value) in annotations {
            bytes += key.len() + value.as_str().map_or(0, str::len);
            if let Some(why) = key_fault(&key.to_ascii_lowercase()) {
                causes.push(Cause::invalid("metadata.annotations", key, &why));
            }
        }
        if bytes > ANNOTATIONS_BYTES_MAX {
            causes.push(Cause::too_long("metadata.annotations", ANNOTATIONS_BYTES_MAX));
        }
    }
    if let Some(Value::Array(finalizers)) = metadata.get("finalizers") {
        for finalizer in finalizers.iter().filter_map(Value::as_str) {
            if let Some(why) = key_fault(finalizer) {
                causes.push(Cause::invalid("metadata.finalizers", finalizer, &why));
            }
        }
    }
    causes
}

/// `base` and five characters made of `random` (apiserver `storage/names`): at most 253 bytes in all.
pub(super) fn generate(base: &str, random: u64) -> String {
    let mut end = base.len().min(SUBDOMAIN_BYTES_MAX - SUFFIX_LEN);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = base[..end].to_owned();
    let mut rest = random;
    let count = SUFFIX_ALPHABET.len() as u64;
    for _ in 0..SUFFIX_LEN {
        let at = usize::try_from(rest % count).unwrap_or_default();
        name.push(char::from(SUFFIX_ALPHABET[at]));
        rest /= count;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::resources::Registry;

    #[test]
    fn names_are_those_of_kubernetes() {
        let registry = Registry::builtin();
        let configmaps = registry.find("", "v1", "configmaps").expect("built in");
        let roles = registry.find("rbac.authorization.k8s.io", "v1", "roles").expect("built in");
        let namespaces = registry.find("", "v1", "namespaces").expect("built in");
        for good in ["a", "a-b.c", "1", &"a".repeat(253)] {
            assert_eq!(name_fault(configmaps, good), None, "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", "a.", "é", "a/b", &"a".repeat(254)] {
            assert!(name_fault(configmaps, bad).is_some(), "{bad}");
        }
        assert_eq!(name_fault(roles, "system:node"), None);
        for bad in ["..", "a/b", "a%b", "a\nb"] {
            assert!(name_fault(roles, bad).is_some(), "{bad}");
        }
        assert!(name_fault(namespaces, "a.b").is_some());
        assert_eq!(namespace_fault("kube-system"), None);
        assert!(namespace_fault(&"a".repeat(64)).is_some());
    }

    #[test]
    fn generated_names_fit() {
        assert_eq!(generate("web-", 0), "web-bbbbb");
        assert_ne!(generate("web-", 1), generate("web-", 2));
        assert_eq!(generate(&"a".repeat(300), u64::MAX).len(), 253);
    }
}
