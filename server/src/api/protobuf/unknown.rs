//! Members of an object that its type does not have: they have no place in protobuf.

use serde_json::{Map, Value};

use super::types::{Count, Field, MessageId, Release, Shape, Types};

/// How many are named.
const NAMED_MAX: usize = 16;

/// The members, with those that lead to them, that an object's type does not have; the first few. None, if the type is not known.
#[must_use]
pub fn unknown_members(
    release: Release,
    api_version: &str,
    kind: &str,
    members: &Map<String, Value>,
) -> Vec<String> {
    let types = release.types();
    let mut walk = Walk { types, path: String::new(), found: Vec::new() };
    if let Some(id) = types.kind(api_version, kind) {
        walk.object(members, id);
    }
    walk.found
}

struct Walk<'t> {
    types: &'t Types,
    path: String,
    found: Vec<String>,
}

impl Walk<'_> {
    fn object(&mut self, members: &Map<String, Value>, id: MessageId) {
        for (name, value) in members {
            if self.found.len() >= NAMED_MAX {
                return;
            }
            let length = self.path.len();
            if !self.path.is_empty() {
                self.path.push('.');
            }
            self.path.push_str(name);
            match field(self.types, id, name) {
                Some(field) => self.field(value, field),
                // Of the object, or of a part that is an object of its own.
                None if matches!(name.as_str(), "kind" | "apiVersion") => {}
                None => self.found.push(self.path.clone()),
            }
            self.path.truncate(length);
        }
    }

    fn field(&mut self, value: &Value, field: Field) {
        let Some(id) = self.message(field.shape) else { return };
        match (field.count, value) {
            (Count::Value | Count::Pointer, Value::Object(members)) => self.object(members, id),
            (Count::List, Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.part(item, id, &format!("[{index}]"));
                }
            }
            (Count::Map, Value::Object(entries)) => {
                for (key, value) in entries {
                    self.part(value, id, &format!(".{key}"));
                }
            }
            // Of another type: the encoder says so.
            _ => {}
        }
    }

    /// The message of a value that has members.
    fn message(&self, shape: Shape) -> Option<MessageId> {
        if let Shape::Message(id) = shape {
            return Some(id);
        }
        let Shape::Either(id) = shape else { return None };
        self.types.message(id).fields.iter().find_map(|field| self.message(field.shape))
    }

    fn part(&mut self, value: &Value, id: MessageId, step: &str) {
        let Value::Object(members) = value else { return };
        let length = self.path.len();
        self.path.push_str(step);
        self.object(members, id);
        self.path.truncate(length);
    }
}

/// The field of a member, which may stand in a message whose members are its own.
fn field(types: &Types, id: MessageId, name: &str) -> Option<Field> {
    let fields = &types.message(id).fields;
    fields.iter().find(|field| field.name == name).copied().or_else(|| {
        fields.iter().filter(|field| field.name.is_empty()).find_map(|inline| {
            let Shape::Message(inner) = inline.shape else { return None };
            field(types, inner, name)
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{NAMED_MAX, Release, unknown_members};

    fn unknown(object: Value) -> Vec<String> {
        let Value::Object(members) = object else { panic!("an object") };
        unknown_members(Release::DEFAULT, "apps/v1", "StatefulSet", &members)
    }

    #[test]
    fn members_that_the_type_does_not_have_are_named() {
        let volume = json!({"name": "v", "emptyDir": {"medium": "", "x": 1}, "y": 2});
        let object = json!({"kind": "StatefulSet", "apiVersion": "apps/v1", "metadata": {"name": "a", "z": 1, "labels": {"any": "x"}},
            "spec": {"replicas": 1, "template": {"spec": {"volumes": [volume], "nodeSelector": {"any": "x"}}},
            "volumeClaimTemplates": [{"kind": "PersistentVolumeClaim", "apiVersion": "v1", "spec": {}}]}, "other": null});
        assert_eq!(
            unknown(object),
            [
                "metadata.z",
                "spec.template.spec.volumes[0].emptyDir.x",
                "spec.template.spec.volumes[0].y",
                "other"
            ]
        );
        // What is of another type has no members.
        assert!(unknown(json!({"spec": 1, "metadata": []})).is_empty());
        let many = Value::Object((0..100).map(|n| (format!("m{n}"), json!(n))).collect());
        assert_eq!(unknown(many).len(), NAMED_MAX);
    }

    #[test]
    fn types_that_are_not_known_know_no_member() {
        let members = json!({"metadata": {"name": "a"}, "data": {"k": "v"}, "spec": {}});
        let Value::Object(members) = members else { panic!("an object") };
        assert_eq!(unknown_members(Release::DEFAULT, "v1", "ConfigMap", &members), ["spec"]);
        assert!(unknown_members(Release::DEFAULT, "example.com/v1", "Widget", &members).is_empty());
    }
}
