//! `kubectl get -w` in a loop. It lists, watches, and ends when its watch does, as it always has; each run is a client.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use revcast_tests::history::{End, Kind};
use revcast_tests::server::Scratch;
use serde_json::{Value, json};

use super::told::{Told, Wanted};

const WANTED: Wanted = Wanted { keys: "/registry/configmaps/", label: None };
/// Between two runs, of which the first failed.
const PAUSE: Duration = Duration::from_millis(500);

/// Loops that run.
pub(crate) struct Followers {
    over: Arc<AtomicBool>,
    children: Vec<Arc<Mutex<Option<Child>>>>,
    threads: Vec<JoinHandle<Vec<Told>>>,
}

impl Followers {
    /// Starts this many.
    pub(crate) fn start(address: &str, count: usize) -> Self {
        let over = Arc::<AtomicBool>::default();
        let (mut children, mut threads) = (Vec::new(), Vec::new());
        for number in 0..count {
            let (child, address, ends) = (Arc::default(), address.to_owned(), Arc::clone(&over));
            children.push(Arc::clone(&child));
            threads.push(std::thread::spawn(move || {
                // Several tests may run at once, each with a server of its own.
                let home = Scratch::new(&format!("kubectl-{}-{number}", address.replace(':', "-")));
                let mut all = Vec::new();
                while !ends.load(Ordering::SeqCst) {
                    let name = format!("kubectl {number}, run {}", all.len());
                    all.push(follow(&address, &home, &child, &ends, name));
                    if all.last().is_some_and(|told| !told.problems().is_empty()) {
                        std::thread::sleep(PAUSE);
                    }
                }
                all
            }));
        }
        Self { over, children, threads }
    }

    /// Ends them. What each run was told.
    pub(crate) fn end(self) -> Vec<Told> {
        self.over.store(true, Ordering::SeqCst);
        for child in &self.children {
            // It may have ended by itself.
            let _ = child.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(Child::kill);
        }
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    }
}

/// The events of a line. Of more than 500 objects kubectl shows a list a page, as one ADDED.
fn single(mut line: Value) -> Vec<Value> {
    match line.pointer_mut("/object/items").map(Value::take) {
        Some(Value::Array(items)) => {
            items.into_iter().map(|object| json!({ "type": line["type"], "object": object })).collect()
        }
        _ => vec![line],
    }
}

/// One run.
fn follow(
    address: &str,
    home: &Scratch,
    running: &Mutex<Option<Child>>,
    over: &AtomicBool,
    name: String,
) -> Told {
    let said = format!("{}/stderr", home.path());
    let mut child = Command::new("kubectl")
        .env("HOME", home.path())
        .env("KUBECONFIG", "/dev/null")
        .args(["--server", &format!("http://{address}"), "get", "configmaps", "-A", "-w"])
        // At this level it names its requests.
        .args(["--output-watch-events", "-o", "json", "-v", "6"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(&said).unwrap())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    *running.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
    let lines = lines.map_while(Result::ok).map_while(|line| serde_json::from_str(&line).ok());
    let lines: Vec<Value> = lines.flat_map(single).collect();
    let status = running.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(Child::wait);
    let clean = status.is_some_and(|status| status.is_ok_and(|status| status.success()));
    let said = std::fs::read_to_string(&said).unwrap();
    let mut told = Told::new(name, WANTED);
    // In the end it is killed.
    if !clean && !over.load(Ordering::SeqCst) {
        told.problem(said.lines().last().unwrap_or("it says nothing").to_owned());
    }
    // Its own word for what it has listed.
    let listed = said.lines().find(|line| line.contains("watch=true")).and_then(|line| {
        let digits = line.split_once("resourceVersion=")?.1;
        digits.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
    });
    let Some(listed) = listed else { return told };
    // The list comes first, in the order of keys. A watch from a revision of several changes may begin with these again.
    let place = |event: &Value| {
        let metadata = &event["object"]["metadata"];
        let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
        (text("namespace"), text("name"), text("resourceVersion").parse::<u64>().unwrap_or_default())
    };
    let places: Vec<_> = lines.iter().map(place).collect();
    let goes_on = |pair: &[(String, String, u64)]| {
        (&pair[0].0, &pair[0].1) < (&pair[1].0, &pair[1].1) && pair[1].2 <= listed
    };
    let first = match places.first() {
        Some((.., revision)) if *revision <= listed => {
            1 + places.windows(2).take_while(|pair| goes_on(pair)).count()
        }
        Some(_) | None => 0,
    };
    told.begins();
    let objects: Vec<Value> = lines[..first].iter().map(|event| event["object"].clone()).collect();
    told.listed(listed, &objects);
    for event in &lines[first..] {
        let kind = match event["type"].as_str() {
            Some("ADDED") => Kind::Added,
            Some("MODIFIED") => Kind::Modified,
            Some("DELETED") => Kind::Deleted,
            other => {
                told.problem(format!("an event {other:?}: {event}"));
                break;
            }
        };
        told.event(kind, &event["object"]);
    }
    told.ended(if clean { End::Clean } else { End::Cut });
    told
}
