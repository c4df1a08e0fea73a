//! The rules for names, labels and annotations.
//!
//! Rules and texts are those of apimachinery (`api/validation/objectmeta.go`, `util/validation`). It never changes an object.

use revcast_engine::selector::{key_fault, value_fault};
use serde_json::{Map, Value};

use crate::api::resources::ApiResource;
use crate::http::status::Cause;

/// Bytes of the longest name.
const SUBDOMAIN_BYTES_MAX: usize = 253;
const SUBDOMAIN_TOO_LONG: &str = "must be no more than 253 bytes";
/// Bytes of the longest namespace.
const LABEL_BYTES_MAX: usize = 63;
/// Bytes of all annotations of an object together.
const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;
/// The most faults of labels, annotations and finalizers that a reply lists. Kubernetes lists all; the reply to an object of 3
/// MiB could have eighty.
const FAULTS_LISTED_MAX: usize = 100;
/// Random characters after a `generateName`.
const SUFFIX_LEN: usize = 5;
/// Their alphabet: no vowels, so that no words result (apimachinery `util/rand`).
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
     or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
     must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// Bytes of the longest generated name, which must be valid as a label too (apiserver `storage/names`).
const GENERATED_BYTES_MAX: usize = 63;

/// All faults of the name of an object.
pub(super) fn name_faults(resource: &ApiResource, name: &str) -> Vec<Cause> {
    faults(resource, "metadata.name", name, name)
}

/// All faults of a `generateName`, which may end in a hyphen: its last character is checked with the generated name
/// (apimachinery `api/validation`: `maskTrailingDash`).
pub(super) fn prefix_faults(resource: &ApiResource, prefix: &str) -> Vec<Cause> {
    let masked = match prefix.strip_suffix('-').and_then(|rest| rest.char_indices().next_back()) {
        Some((end, _)) => format!("{}a", &prefix[..end]),
        None => prefix.to_owned(),
    };
    faults(resource, "metadata.generateName", prefix, &masked)
}

/// The faults of `name`; the texts show `shown`.
fn faults(resource: &ApiResource, field: &str, shown: &str, name: &str) -> Vec<Cause> {
    let cause = |why: &str| vec![Cause::invalid(field, shown, why)];
    // Roles and addresses may have any name that a path can hold: `system:node`, `2001:db8::1`.
    if resource.group == "rbac.authorization.k8s.io" || resource.plural == "ipaddresses" {
        return match name {
            "." => cause("may not be '.'"),
            ".." => cause("may not be '..'"),
            name if name.contains('/') => cause("may not contain '/'"),
            name if name.contains('%') => cause("may not contain '%'"),
            name if name.chars().any(char::is_control) => cause("may not contain control characters"),
            name if name.len() > SUBDOMAIN_BYTES_MAX => cause(SUBDOMAIN_TOO_LONG),
            _ => Vec::new(),
        };
    }
    if resource.plural == "namespaces" && resource.group.is_empty() {
        return label_faults(field, shown, name);
    }
    let long = (name.len() > SUBDOMAIN_BYTES_MAX).then_some(SUBDOMAIN_TOO_LONG);
    let wrong = (!name.split('.').all(is_dns_label)).then_some(SUBDOMAIN_RULE);
    long.into_iter().chain(wrong).flat_map(cause).collect()
}

/// All faults of the name of a namespace.
pub(super) fn namespace_faults(namespace: &str) -> Vec<Cause> {
    label_faults("metadata.namespace", namespace, namespace)
}

fn label_faults(field: &str, shown: &str, label: &str) -> Vec<Cause> {
    let long = (label.len() > LABEL_BYTES_MAX).then_some("must be no more than 63 bytes");
    let wrong = (!is_dns_label(label)).then_some(LABEL_RULE);
    long.into_iter().chain(wrong).map(|why| Cause::invalid(field, shown, why)).collect()
}

/// Lowercase letters, digits and inner hyphens.
fn is_dns_label(label: &str) -> bool {
    let small = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = label.as_bytes();
    bytes.first().is_some_and(small)
        && bytes.last().is_some_and(small)
        && bytes.iter().all(|b| small(b) || *b == b'-')
}

/// The faults of labels, annotations and finalizers: the first [`FAULTS_LISTED_MAX`]. The check stops there.
pub(super) fn metadata_faults(metadata: &Map<String, Value>) -> Vec<Cause> {
    let map = |member: &str| metadata.get(member).and_then(Value::as_object).into_iter().flatten();
    let of_labels = map("labels").flat_map(|(key, value)| {
        let value = value.as_str().unwrap_or_default();
        let cause =
            |text: &str, why: Option<String>| why.map(|why| Cause::invalid("metadata.labels", text, &why));
        [cause(key, key_fault(key)), cause(value, value_fault(value))]
    });
    let of_annotations = map("annotations").map(|(key, _)| {
        key_fault(&key.to_ascii_lowercase()).map(|why| Cause::invalid("metadata.annotations", key, &why))
    });
    let bytes: usize =
        map("annotations").map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    let too_long = (bytes > ANNOTATIONS_BYTES_MAX)
        .then(|| Cause::too_long("metadata.annotations", ANNOTATIONS_BYTES_MAX));
    let finalizers = metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten();
    let of_finalizers = finalizers.filter_map(Value::as_str).map(|finalizer| {
        key_fault(finalizer).map(|why| Cause::invalid("metadata.finalizers", finalizer, &why))
    });
    let all = of_labels.chain(of_annotations).chain([too_long]).chain(of_finalizers);
    all.flatten().take(FAULTS_LISTED_MAX).collect()
}

/// `base` and five characters derived from `random` (apiserver `storage/names`): at most 63 bytes in all.
pub(super) fn generate(base: &str, random: u64) -> String {
    let mut end = base.len().min(GENERATED_BYTES_MAX - SUFFIX_LEN);
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
    use serde_json::json;

    use super::*;
    use crate::api::resources::Registry;

    #[test]
    fn names_are_those_of_kubernetes() {
        let registry = Registry::builtin();
        let configmaps = registry.find("", "v1", "configmaps").expect("built in");
        let roles = registry.find("rbac.authorization.k8s.io", "v1", "roles").expect("built in");
        let namespaces = registry.find("", "v1", "namespaces").expect("built in");
        for good in ["a", "a-b.c", "1", &"a".repeat(253)] {
            assert_eq!(name_faults(configmaps, good), [], "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", "a.", "é", "a/b", &"a".repeat(254)] {
            assert!(!name_faults(configmaps, bad).is_empty(), "{bad}");
        }
        assert_eq!(name_faults(roles, "system:node"), []);
        for bad in ["..", "a/b", "a%b", "a\nb"] {
            assert!(!name_faults(roles, bad).is_empty(), "{bad}");
        }
        assert!(!name_faults(namespaces, "a.b").is_empty());
        assert_eq!(namespace_faults("kube-system"), []);
        assert!(!namespace_faults(&"a".repeat(64)).is_empty());
    }

    #[test]
    fn every_fault_is_told() {
        let registry = Registry::builtin();
        let configmaps = registry.find("", "v1", "configmaps").expect("built in");
        assert_eq!(name_faults(configmaps, &"A".repeat(254)).len(), 2, "too long, and not in small letters");
        for good in ["a-", "a", "a.b-", "A-", "a.-"] {
            assert_eq!(prefix_faults(configmaps, good), [], "{good}");
        }
        for bad in ["Ab-", "-", "a_", "-a", "-a-b-"] {
            let faults = prefix_faults(configmaps, bad);
            assert_eq!((faults.len(), faults[0].field.as_str()), (1, "metadata.generateName"), "{bad}");
            assert!(faults[0].message.starts_with(&format!("Invalid value: {bad:?}: ")), "{faults:?}");
        }
    }

    #[test]
    fn so_many_faults_of_metadata_are_listed() {
        let faults = |metadata: Value| metadata_faults(metadata.as_object().expect("an object"));
        let one_each = json!({"labels": {"-a": "-b", "c": "d"}, "annotations": {"-E": "-f", "G": "-h"},
            "finalizers": ["-i", "j/k"]});
        let told = faults(one_each);
        let wanted = [("labels", "-a"), ("labels", "-b"), ("annotations", "-E"), ("finalizers", "-i")];
        assert_eq!(told.len(), wanted.len(), "{told:?}");
        for (cause, (member, bad)) in told.iter().zip(wanted) {
            assert_eq!(cause.field, format!("metadata.{member}"));
            assert!(cause.message.starts_with(&format!("Invalid value: {bad:?}: ")), "{cause:?}");
        }
        let large = faults(json!({"annotations": {"a": "b".repeat(ANNOTATIONS_BYTES_MAX)}}));
        assert_eq!(large, [Cause::too_long("metadata.annotations", ANNOTATIONS_BYTES_MAX)]);

        let map = |count: usize| -> Map<String, Value> {
            (0..count).map(|n| (format!("-{n}"), json!("-"))).collect()
        };
        let list = |count: usize| -> Vec<String> { (0..count).map(|n| format!("-{n}")).collect() };
        for (few, many) in [
            (json!({"labels": map(49)}), json!({"labels": map(1_000)})),
            (json!({"annotations": map(98)}), json!({"annotations": map(1_000)})),
            (json!({"finalizers": list(98)}), json!({"finalizers": list(1_000)})),
        ] {
            assert_eq!(faults(few).len(), 98);
            assert_eq!(faults(many).len(), FAULTS_LISTED_MAX);
        }
        let all = faults(json!({"labels": map(40), "annotations": map(40), "finalizers": list(40)}));
        assert_eq!(all.len(), FAULTS_LISTED_MAX, "all of them together");
    }

    #[test]
    fn generated_names_fit() {
        assert_eq!(generate("web-", 0), "web-bbbbb");
        assert_ne!(generate("web-", 1), generate("web-", 2));
        assert_eq!(generate(&"a".repeat(300), u64::MAX).len(), 63);
    }
}
