//! What the watchers of `mixed` watch: of twenty in a namespace ten see all of it, four one half by label, three one
//! object by name, two metadata alone and one a Table, as controllers, kubelets and people do.

use crate::endpoint::selected;
use crate::http::Connection;
use crate::media::Media;
use crate::object::{Recipe, name_of};
use crate::scope::Scope;
use crate::setup::list_scope;

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const TURNS: u32 = 20;

pub(crate) fn list(server: &mut Connection, recipe: &Recipe) -> Result<Vec<Scope>, String> {
    let mut whole = Vec::new();
    for (number, namespace) in (0..).zip(&recipe.namespaces) {
        whole.push(list_scope(server, recipe, recipe.resource.collection(namespace), number)?);
    }
    let mut scopes = Vec::new();
    for turn in 0..TURNS {
        let shape = shape(turn, recipe.per_namespace);
        for (number, all) in (0..).zip(&whole) {
            scopes.push(match &shape {
                Shape::Selected(key, selector) => {
                    list_scope(server, recipe, selected(&all.path, key, selector), number)?
                }
                Shape::Whole(None) => all.clone(),
                Shape::Whole(Some(accept)) => {
                    Scope { media: Media::Unstamped((*accept).to_owned()), ..all.clone() }
                }
            });
        }
    }
    Ok(scopes)
}

#[derive(Debug, PartialEq, Eq)]
enum Shape {
    Selected(&'static str, String),
    /// All, in a media type other than plain JSON if one is named.
    Whole(Option<&'static str>),
}

fn shape(turn: u32, objects: u32) -> Shape {
    let label = |half: &str| Shape::Selected("labelSelector", format!("half={half}"));
    match turn % TURNS {
        1 | 11 => label("even"),
        // The only object of a namespace is even.
        6 | 16 => label(if objects > 1 { "odd" } else { "even" }),
        3 | 8 | 13 => Shape::Selected("fieldSelector", format!("metadata.name={}", name_of(turn % objects))),
        5 | 15 => Shape::Whole(Some(METADATA)),
        18 => Shape::Whole(Some(TABLE)),
        _ => Shape::Whole(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares() {
        let shapes: Vec<Shape> = (0..TURNS).map(|turn| shape(turn, 10)).collect();
        let selected = |key, selector: &str| Shape::Selected(key, selector.to_owned());
        for (wanted, count) in [
            (selected("labelSelector", "half=even"), 2),
            (selected("labelSelector", "half=odd"), 2),
            (selected("fieldSelector", &format!("metadata.name={}", name_of(3))), 2),
            (selected("fieldSelector", &format!("metadata.name={}", name_of(8))), 1),
            (Shape::Whole(Some(METADATA)), 2),
            (Shape::Whole(Some(TABLE)), 1),
            (Shape::Whole(None), 10),
        ] {
            assert_eq!(shapes.iter().filter(|shape| **shape == wanted).count(), count, "{wanted:?}");
        }
        assert_eq!(shape(16, 1), selected("labelSelector", "half=even"));
    }
}
