//! Which kinds have messages, and whether two versions of one have the same members.

use std::collections::HashSet;

use super::types::{Field, MessageId, Release, Shape, Types};

/// Whether a kind has messages.
#[must_use]
pub fn has_type(release: Release, api_version: &str, kind: &str) -> bool {
    release.types().kind(api_version, kind).is_some()
}

/// Whether a message of one version of a kind is one of the other, byte for byte, and has the same JSON: fields with the same
/// numbers and names, in the same order, down to the last message.
#[must_use]
pub fn is_same(release: Release, kind: &str, one: &str, other: &str) -> bool {
    let types = release.types();
    match (types.kind(one, kind), types.kind(other, kind)) {
        (Some(one), Some(other)) => are_same(types, one, other, &mut HashSet::new()),
        _ => false,
    }
}

fn are_same(
    types: &Types,
    one: MessageId,
    other: MessageId,
    compared: &mut HashSet<(MessageId, MessageId)>,
) -> bool {
    // A type that contains itself is the same as long as nothing else differs.
    if one == other || !compared.insert((one, other)) {
        return true;
    }
    let (one, other) = (&types.message(one).fields, &types.message(other).fields);
    let as_written = |field: &Field| (field.number, field.name, field.count, field.omit);
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            as_written(one) == as_written(other)
                && match (one.shape, other.shape) {
                    (Shape::Message(one), Shape::Message(other))
                    | (Shape::Either(one), Shape::Either(other)) => are_same(types, one, other, compared),
                    (one, other) => one == other,
                }
        })
}
