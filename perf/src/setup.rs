//! Prepares the server for a run: the namespaces and objects that will be written, at the size that was asked for, and
//! the scopes that will be watched.

use crate::endpoint::encode;
use crate::http::{Connection, excerpt};
use crate::object::{Recipe, name_of, place_of};
use crate::scope::Scope;
use crate::stamp::Stamp;
use crate::target::list;
use serde_json::Value;
use std::thread;

/// Stands for an object's name in a selector: then each watcher selects another object.
pub(crate) const OBJECT_PLACEHOLDER: &str = "{object}";

/// The version that the server tells at `/version`, as Kubernetes does. `None`: it tells none.
pub(crate) fn server_version(server: &mut Connection) -> Option<String> {
    let told: Value = serde_json::from_slice(server.get("/version").ok()?).ok()?;
    told["gitVersion"].as_str().map(str::to_owned)
}

/// Creates the objects, or overwrites them when they exist, padded so that the server stores about `size_bytes` each.
/// Gives the size that it stores.
pub(crate) fn create_objects(
    server: &mut Connection,
    recipe: &mut Recipe,
    size_bytes: usize,
) -> Result<usize, String> {
    // What the server adds (uid, times, revision, managed fields) is learned from its answer to the first object.
    let stored = learn_padding(server, recipe, size_bytes)?;
    for object in 1..recipe.objects() {
        store(server, recipe, object)?;
    }
    Ok(stored)
}

fn learn_padding(server: &mut Connection, recipe: &mut Recipe, size_bytes: usize) -> Result<usize, String> {
    let bare = store(server, recipe, 0)?;
    recipe.pad_bytes = size_bytes.saturating_sub(bare);
    store(server, recipe, 0)
}

/// The same over several connections at once, in namespaces that hold no object of a former run.
pub(crate) fn create_objects_at_once(
    connect: &(impl Fn() -> Connection + Sync),
    recipe: &mut Recipe,
    size_bytes: usize,
    connections: u32,
) -> Result<usize, String> {
    let mut server = connect();
    for namespace in recipe.namespaces.clone() {
        let path = format!("{}?labelSelector=app%3Drevcast-perf", recipe.resource.collection(&namespace));
        let (status, kept) = call(&mut server, "DELETE", &path, b"{}")?;
        // 404: there is no such namespace yet.
        if !(200..300).contains(&status) && status != 404 {
            return Err(format!("the server answered DELETE {path} with {status}: {}", excerpt(&kept)));
        }
    }
    let stored = learn_padding(&mut server, recipe, size_bytes)?;
    let recipe = &*recipe;
    let share = |number: u32| {
        let mut server = connect();
        let mine = (1 + number..recipe.objects()).step_by(connections.max(1) as usize);
        mine.into_iter().try_for_each(|object| store(&mut server, recipe, object).map(|_| ()))
    };
    let outcomes: Vec<Result<(), String>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..connections).map(|number| scope.spawn(move || share(number))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|outcome| outcome.unwrap_or_else(|_| Err("a writer panicked".to_owned()))).collect()
    });
    outcomes.into_iter().collect::<Result<(), String>>()?;
    Ok(stored)
}

/// Stores one object and gives the size of what the server keeps.
fn store(server: &mut Connection, recipe: &Recipe, object: u32) -> Result<usize, String> {
    let body = recipe.body_of(object);
    let collection = recipe.resource.collection(recipe.namespace_of(object));
    let path = recipe.path_of(object);
    let (mut status, mut kept) = call(server, "POST", &collection, body.bytes())?;
    if status == 404 {
        create_namespace(server, recipe.namespace_of(object))?;
        (status, kept) = call(server, "POST", &collection, body.bytes())?;
    }
    let mut asked = ("POST", &collection);
    if status == 409 {
        asked = ("PUT", &path);
        (status, kept) = call(server, "PUT", &path, body.bytes())?;
    }
    if !(200..300).contains(&status) {
        return Err(format!("the server answered {} {} with {status}: {}", asked.0, asked.1, excerpt(&kept)));
    }
    let object_kept: Value = serde_json::from_slice(&kept)
        .map_err(|fault| format!("the server's answer to a write is not JSON: {fault}"))?;
    let stamp = object_kept["data"]["stamp"].as_str().and_then(|text| Stamp::parse(text.as_bytes()));
    if stamp.is_none_or(|stamp| stamp.run != recipe.run || stamp.object != object) {
        let plural = &recipe.resource.plural;
        return Err(format!(
            "the server did not keep `data` of {plural}: load a resource that has it, such as configmaps"
        ));
    }
    Ok(kept.len())
}

fn create_namespace(server: &mut Connection, namespace: &str) -> Result<(), String> {
    let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{namespace}"}}}}"#);
    let (status, kept) = call(server, "POST", "/api/v1/namespaces", body.as_bytes())?;
    // 409: it is there, so the 404 meant something else, which the next answer will say.
    if (200..300).contains(&status) || status == 409 {
        return Ok(());
    }
    Err(format!(
        "the server answered the creation of namespace {namespace} with {status}: {}",
        excerpt(&kept)
    ))
}

fn call(server: &mut Connection, method: &str, path: &str, body: &[u8]) -> Result<(u16, Vec<u8>), String> {
    let answer = server.call(method, path, Some(body)).map(|(status, body)| (status, body.to_vec()));
    answer.map_err(|fault| format!("{method} {path}: {fault}"))
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
            let mut query = Vec::new();
            for (key, text) in selectors {
                let text = text.map(|text| text.replace(OBJECT_PLACEHOLDER, &name_of(place)));
                query.extend(text.map(|text| format!("{key}={}", encode(&text))));
            }
            let path = if query.is_empty() {
                collection.clone()
            } else {
                format!("{collection}?{}", query.join("&"))
            };
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

pub(crate) fn list_scope(
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
    Ok(Scope { path, revision, objects, accept: None })
}
