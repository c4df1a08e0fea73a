//! Prepares the server for a run: the namespaces and objects that will be written, at the size that was asked for, and
//! the scopes that will be watched. Those of `mixed` are what controllers, kubelets and people watch: of twenty watchers in a
//! namespace ten see all of it, four one half by label, three one object by name, two metadata alone and one a Table.

use crate::endpoint::{encode, selected};
use crate::http::Connection;
use crate::ledger::Scope;
use crate::media::Media;
use crate::object::{Recipe, name_of, place_of};
use crate::stamp::Stamp;
use crate::target::{Target, list};
use serde_json::Value;
use std::thread;

/// Stands for an object's name in a selector: then each watcher selects another object.
pub(crate) const OBJECT_PLACEHOLDER: &str = "{object}";

/// Creates the objects over so many connections at once, or overwrites them when they exist, padded so that the server
/// stores about `size_bytes` each. Gives the size that it stores.
pub(crate) fn create_objects(
    target: &Target,
    recipe: &mut Recipe,
    size_bytes: usize,
    connections: u32,
) -> Result<usize, String> {
    // What the server adds (uid, times, revision, managed fields) is learned from its answer to the first object.
    let mut server = target.connect();
    let bare = store(&mut server, recipe, 0)?;
    recipe.pad_bytes = size_bytes.saturating_sub(bare);
    let stored = store(&mut server, recipe, 0)?;
    let recipe = &*recipe;
    let share = |number: u32| {
        let mut server = target.connect();
        let mut mine = (1 + number..recipe.objects()).step_by(connections.max(1) as usize);
        mine.try_for_each(|object| store(&mut server, recipe, object).map(|_| ()))
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..connections).map(|number| scope.spawn(move || share(number))).collect();
        let mut joined = threads.into_iter().map(|thread| thread.join());
        joined.try_for_each(|outcome| outcome.map_err(|_| "a writer panicked".to_owned())?)
    })?;
    Ok(stored)
}

/// Deletes the objects of former runs.
pub(crate) fn delete_objects(target: &Target, recipe: &Recipe) -> Result<(), String> {
    let mut server = target.connect();
    for namespace in &recipe.namespaces {
        let path = format!("{}?labelSelector=app%3Drevcast-perf", recipe.resource.collection(namespace));
        // 404: there is no such namespace yet.
        server.ask("DELETE", &path, Some(b"{}"), &[404])?;
    }
    Ok(())
}

fn store(server: &mut Connection, recipe: &Recipe, object: u32) -> Result<usize, String> {
    let body = recipe.body_of(object);
    let namespace = recipe.namespace_of(object);
    let collection = recipe.resource.collection(namespace);
    let body = Some(body.bytes());
    let mut status = server.ask("POST", &collection, body, &[404, 409])?;
    if status == 404 {
        let wanted =
            format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{namespace}"}}}}"#);
        // 409: it is there, so the 404 meant something else, which the next answer will say.
        server.ask("POST", "/api/v1/namespaces", Some(wanted.as_bytes()), &[409])?;
        status = server.ask("POST", &collection, body, &[409])?;
    }
    if status == 409 {
        server.ask("PUT", &recipe.path_of(object), body, &[])?;
    }
    let kept = server.body();
    let object_kept: Value = serde_json::from_slice(kept)
        .map_err(|fault| format!("the server's answer to a write is not JSON: {fault}"))?;
    let stamp = object_kept.pointer(recipe.stamp_pointer()).and_then(Value::as_str);
    let stamp = stamp.and_then(|text| Stamp::parse(text.as_bytes()));
    if stamp.is_none_or(|stamp| stamp.run != recipe.run || stamp.object != object) {
        let plural = &recipe.resource.plural;
        return Err(format!(
            "the server did not keep `data` of {plural}: load a resource that has it, such as configmaps"
        ));
    }
    Ok(kept.len())
}

/// Lists every scope: one a namespace, or one an object of it when a selector has the placeholder.
pub(crate) fn list_scopes(
    server: &mut Connection,
    recipe: &Recipe,
    label_selector: Option<&str>,
    field_selector: Option<&str>,
) -> Result<Vec<Scope>, String> {
    let selectors = [("labelSelector", label_selector), ("fieldSelector", field_selector)];
    let each = selectors.iter().any(|(_, text)| text.is_some_and(|text| text.contains(OBJECT_PLACEHOLDER)));
    let mut scopes = Vec::new();
    for (number, namespace) in (0..).zip(&recipe.namespaces) {
        let collection = recipe.resource.collection(namespace);
        for place in 0..if each { recipe.per_namespace } else { 1 } {
            let selected = |(key, text): (&str, Option<&str>)| {
                Some(format!("{key}={}", encode(&text?.replace(OBJECT_PLACEHOLDER, &name_of(place)))))
            };
            let query: Vec<String> = selectors.into_iter().filter_map(selected).collect();
            let join = if query.is_empty() { "" } else { "?" };
            let path = format!("{collection}{join}{}", query.join("&"));
            let scope = list_scope(server, recipe, path, number)?;
            let (listed, created) = (scope.objects.len(), recipe.per_namespace);
            if query.is_empty() && listed != created as usize {
                return Err(format!(
                    "GET {} lists {listed} of the {created} objects that were created",
                    scope.path
                ));
            }
            scopes.push(scope);
        }
    }
    Ok(scopes)
}

fn list_scope(
    server: &mut Connection,
    recipe: &Recipe,
    path: String,
    namespace: u32,
) -> Result<Scope, String> {
    let (revision, names) = list(server, &path)?;
    let places = names.iter().filter_map(|name| place_of(name, recipe.per_namespace));
    let mut objects: Vec<u32> = places.map(|place| namespace * recipe.per_namespace + place).collect();
    objects.sort_unstable();
    objects.dedup();
    if objects.is_empty() {
        return Err(format!(
            "GET {path} has none of the objects: their labels are app=revcast-perf, half=even or odd, object=NAME"
        ));
    }
    Ok(Scope { path, revision, objects, media: recipe.encoding.into() })
}

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const TURNS: u32 = 20;

pub(crate) fn list_shapes(server: &mut Connection, recipe: &Recipe) -> Result<Vec<Scope>, String> {
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
