//! The table of types: what several releases of Kubernetes have, in one text.
//!
//! One line per message and one per field, fields in the order of the Go struct, which is the order in JSON:
//!
//! ```text
//! kind core/v1.Secret                     a message that can be an object of its own; `message` otherwise
//! <TAB>metadata 1 meta/v1.ObjectMeta omitempty
//! <TAB>stringData 4 map[string]string omitempty since=1.34 until=1.36
//! ```
//!
//! A field is its member in JSON (`-` for one whose members stand in the outer object), its number in protobuf, its Go
//! type, and what its JSON tag says about zero values. `list<T>` is a named list, which is a message with repeated
//! items in protobuf. `since` and `until` name the first and the last release that has it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::go_binary::{Field, GoBinary, Shape, Type};

/// Packages whose types the API has, and how the table calls them.
const PACKAGES: [(&str, &str); 3] = [
    ("k8s.io/api/", ""),
    ("k8s.io/apimachinery/pkg/apis/meta/v1.", "meta/v1."),
    ("k8s.io/apimachinery/pkg/apis/meta/v1beta1.", "meta/v1beta1."),
];

/// Messages with a form of their own in JSON.
const SPECIAL: [(&str, &str); 7] = [
    ("k8s.io/apimachinery/pkg/api/resource.Quantity", "Quantity"),
    ("k8s.io/apimachinery/pkg/apis/meta/v1.Duration", "Duration"),
    ("k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1", "FieldsV1"),
    ("k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime", "MicroTime"),
    ("k8s.io/apimachinery/pkg/apis/meta/v1.Time", "Time"),
    ("k8s.io/apimachinery/pkg/runtime.RawExtension", "RawExtension"),
    ("k8s.io/apimachinery/pkg/util/intstr.IntOrString", "IntOrString"),
];

/// The messages of one release, by name.
pub(super) type Messages = BTreeMap<String, Message>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// Whether it has an apiVersion and a kind.
    pub(super) is_kind: bool,
    /// As in the table, without the releases.
    pub(super) fields: Vec<String>,
}

/// The kinds of the API that a binary knows, and the messages that they are made of.
///
/// # Errors
/// A type that the table has no word for.
pub(super) fn messages(binary: &GoBinary<'_>) -> Result<Messages, String> {
    let mut found = Messages::new();
    let is_kind = |of: &Type| matches!(&of.shape, Shape::Struct(fields) if fields.iter().any(is_type_meta));
    // A Table, for one, has no form in protobuf.
    let in_protobuf = |of: &Type| matches!(&of.shape, Shape::Struct(fields) if fields.iter().any(|field| tag(&field.tag, "protobuf").is_some()));
    let roots =
        binary.types().values().filter(|of| is_kind(of) && in_protobuf(of) && short(&of.name).is_some());
    let mut todo: Vec<&Type> = roots.collect();
    while let Some(of) = todo.pop() {
        let Shape::Struct(fields) = &of.shape else { continue };
        let name = short(&of.name).ok_or_else(|| format!("{}: a package that is not the API's", of.name))?;
        if found.contains_key(&name) {
            continue;
        }
        let mut message = Message { is_kind: is_kind(of), fields: Vec::new() };
        for field in fields.iter().filter(|field| !is_type_meta(field)) {
            let line =
                line(binary, field, &mut todo).map_err(|why| format!("{name}.{}: {why}", field.name))?;
            message.fields.extend(line);
        }
        found.insert(name, message);
    }
    Ok(found)
}

fn is_type_meta(field: &Field) -> bool {
    field.embedded && field.name == "TypeMeta"
}

/// `core/v1.Pod`; `None` for a type of another package.
fn short(name: &str) -> Option<String> {
    PACKAGES.iter().find_map(|(package, called)| Some(format!("{called}{}", name.strip_prefix(package)?)))
}

/// The part of a tag with this key, split at its commas.
fn tag<'a>(tag: &'a str, key: &str) -> Option<Vec<&'a str>> {
    let (_, rest) = tag.split_once(&format!("{key}:\""))?;
    Some(rest.split_once('"')?.0.split(',').collect())
}

/// A field's line; `None` for one that is in neither form. What its type is made of goes to `todo`.
fn line<'a>(
    binary: &'a GoBinary<'_>,
    field: &Field,
    todo: &mut Vec<&'a Type>,
) -> Result<Option<String>, String> {
    let json = tag(&field.tag, "json").ok_or("no json tag")?;
    let Some(protobuf) = tag(&field.tag, "protobuf") else {
        return if json == ["-"] { Ok(None) } else { Err("no protobuf tag".to_owned()) };
    };
    let number = protobuf.get(1).and_then(|number| number.parse::<u32>().ok()).ok_or("no field number")?;
    let member = match json[0] {
        "" if field.embedded || json.contains(&"inline") => "-",
        "" | "-" => return Err("no member".to_owned()),
        name => name,
    };
    let mut line = format!("{member} {number} {}", type_name(binary, field.of, todo)?);
    for word in json[1..].iter().filter(|word| word.starts_with("omit")) {
        line = line + " " + word;
    }
    Ok(Some(line))
}

fn type_name<'a>(binary: &'a GoBinary<'_>, at: u64, todo: &mut Vec<&'a Type>) -> Result<String, String> {
    let of = binary.at(at)?;
    if let Some((_, word)) = SPECIAL.iter().find(|(name, _)| *name == of.name) {
        return Ok((*word).to_owned());
    }
    Ok(match &of.shape {
        Shape::Scalar("uint8") | Shape::Other => return Err(format!("no word for {}", of.name)),
        Shape::Scalar(name) => (*name).to_owned(),
        Shape::Pointer(to) => format!("*{}", type_name(binary, *to, todo)?),
        Shape::Slice(item) if binary.at(*item)?.shape == Shape::Scalar("uint8") => "bytes".to_owned(),
        Shape::Slice(item) if of.name.is_empty() => format!("[]{}", type_name(binary, *item, todo)?),
        Shape::Slice(item) => format!("list<{}>", type_name(binary, *item, todo)?),
        Shape::Map(key, value) => {
            if binary.at(*key)?.shape != Shape::Scalar("string") {
                return Err("a map whose keys are not text".to_owned());
            }
            format!("map[string]{}", type_name(binary, *value, todo)?)
        }
        Shape::Struct(_) => {
            todo.push(of);
            short(&of.name).ok_or_else(|| format!("no word for {}", of.name))?
        }
    })
}

/// One table of the messages of several releases (minor versions, ascending).
///
/// # Errors
/// Something was removed and came back.
pub(super) fn merge(releases: &[(u32, Messages)]) -> Result<String, String> {
    let names: BTreeSet<&String> = releases.iter().flat_map(|(_, messages)| messages.keys()).collect();
    let mut text = String::new();
    for name in names {
        let having: Vec<(u32, &Message)> =
            releases.iter().filter_map(|(minor, messages)| Some((*minor, messages.get(name)?))).collect();
        let all: Vec<u32> = releases.iter().map(|(minor, _)| *minor).collect();
        let own: Vec<u32> = having.iter().map(|(minor, _)| *minor).collect();
        let word = if having.iter().any(|(_, message)| message.is_kind) { "kind" } else { "message" };
        let _ = writeln!(text, "{word} {name}{}", range(&own, &all).map_err(|why| format!("{name} {why}"))?);
        for field in in_order(&having) {
            let has = |(minor, message): &(u32, &Message)| message.fields.contains(field).then_some(*minor);
            let minors: Vec<u32> = having.iter().filter_map(has).collect();
            let range = range(&minors, &own).map_err(|why| format!("{name} {field} {why}"))?;
            let _ = writeln!(text, "\t{field}{range}");
        }
    }
    Ok(text)
}

/// The fields of all releases: in the order of the newest one, and what only older ones have after the field that it
/// followed there.
fn in_order<'a>(having: &[(u32, &'a Message)]) -> Vec<&'a String> {
    let mut order: Vec<&String> = Vec::new();
    for (_, message) in having.iter().rev() {
        let mut place = 0;
        for field in &message.fields {
            match order.iter().position(|known| *known == field) {
                Some(at) => place = at + 1,
                None => {
                    order.insert(place, field);
                    place += 1;
                }
            }
        }
    }
    order
}

/// Which of all releases these are.
fn range(these: &[u32], all: &[u32]) -> Result<String, String> {
    let (first, last) = (these.first().copied().unwrap_or(0), these.last().copied().unwrap_or(0));
    if all.iter().filter(|minor| (first..=last).contains(minor)).ne(these) {
        return Err(format!("is in {these:?} only: removed, and there again"));
    }
    let mut range = String::new();
    if all.first() != Some(&first) {
        let _ = write!(range, " since=1.{first}");
    }
    if all.last() != Some(&last) {
        let _ = write!(range, " until=1.{last}");
    }
    Ok(range)
}

#[cfg(test)]
mod tests {
    use super::{Message, Messages, merge, tag};

    fn release(minor: u32, messages: &[(&str, bool, &[&str])]) -> (u32, Messages) {
        let message = |&(name, is_kind, fields): &(&str, bool, &[&str])| {
            let fields = fields.iter().map(|field| (*field).to_owned()).collect();
            (name.to_owned(), Message { is_kind, fields })
        };
        (minor, messages.iter().map(message).collect())
    }

    #[test]
    fn tags_are_read() {
        let text = r#"json:"a,omitempty" protobuf:"bytes,3,opt,name=a""#;
        assert_eq!(tag(text, "json"), Some(vec!["a", "omitempty"]));
        assert_eq!(tag(text, "protobuf").map(|words| words[1]), Some("3"));
        assert_eq!(tag(text, "yaml"), None);
    }

    #[test]
    fn fields_keep_their_places_and_say_when_they_were_there() {
        let releases = [
            release(33, &[("core/v1.A", true, &["a 1 string", "old 2 string", "b 3 string"])]),
            release(34, &[("core/v1.A", true, &["a 1 string", "b 3 string omitempty"])]),
            release(
                35,
                &[
                    ("core/v1.A", true, &["a 1 string", "new 4 int32", "b 3 string omitempty"]),
                    ("core/v1.B", false, &[]),
                ],
            ),
        ];
        assert_eq!(
            merge(&releases).as_deref(),
            Ok(
                "kind core/v1.A\n\ta 1 string\n\told 2 string until=1.33\n\tb 3 string until=1.33\n\tnew 4 int32 since=1.35\n\
                \tb 3 string omitempty since=1.34\nmessage core/v1.B since=1.35\n"
            )
        );
        let back = [releases[0].clone(), release(34, &[("core/v1.A", true, &[])]), releases[0].clone()];
        let back = [(33, back[0].1.clone()), (34, back[1].1.clone()), (35, back[2].1.clone())];
        assert!(merge(&back).is_err_and(|why| why.contains("there again")));
    }
}
