//! What the watchers of `mixed` watch: of twenty in a namespace ten see all of it, four one half by label, three one
//! object by name, two metadata alone and one a Table, as controllers, kubelets and people do.

use crate::endpoint::selected;
use crate::http::Connection;
use crate::object::{Recipe, name_of};
use crate::scope::Scope;
use crate::setup::list_scope;

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const TURNS: u32 = 20;

/// Lists every scope. Those that stand next to each other are of different namespaces.
pub(crate) fn list(server: &mut Connection, recipe: &Recipe) -> Result<Vec<Scope>, String> {
    let mut whole = Vec::new();
    for (number, namespace) in (0..).zip(&recipe.namespaces) {
        whole.push(list_scope(server, recipe, recipe.resource.collection(namespace), number)?);
    }
    let mut scopes = Vec::new();
    for turn in 0..TURNS {
        for (number, all) in (0..).zip(&whole) {
            let (query, accept) = shape(turn, recipe.per_namespace);
            scopes.push(match query {
                Some((key, query)) => list_scope(server, recipe, selected(&all.path, key, &query), number)?,
                None => Scope { accept: accept.map(str::to_owned), ..all.clone() },
            });
        }
    }
    Ok(scopes)
}

/// The selector of one turn, and the media type.
fn shape(turn: u32, objects: u32) -> (Option<(&'static str, String)>, Option<&'static str>) {
    let label = |half: &str| (Some(("labelSelector", half.to_owned())), None);
    match turn % TURNS {
        1 | 11 => label("half=even"),
        // The only object of a namespace is even.
        6 | 16 => label(if objects > 1 { "half=odd" } else { "half=even" }),
        3 | 8 | 13 => (Some(("fieldSelector", format!("metadata.name={}", name_of(turn % objects)))), None),
        5 | 15 => (None, Some(METADATA)),
        18 => (None, Some(TABLE)),
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares() {
        let shapes: Vec<_> = (0..TURNS).map(|turn| shape(turn, 10)).collect();
        let with = |part: &str| {
            shapes
                .iter()
                .filter(|shape| shape.0.as_ref().is_some_and(|(_, query)| query.contains(part)))
                .count()
        };
        assert_eq!((with("half=even"), with("half=odd"), with("metadata.name")), (2, 2, 3));
        let accepts = |wanted| shapes.iter().filter(|shape| shape.1 == wanted).count();
        assert_eq!((accepts(Some(METADATA)), accepts(Some(TABLE))), (2, 1));
        assert_eq!(shapes.iter().filter(|shape| shape.0.is_none() && shape.1.is_none()).count(), 10);
        assert!(shape(16, 1).0.is_some_and(|(_, query)| query.ends_with("even")));
    }
}
