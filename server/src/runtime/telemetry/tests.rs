//! Every metric is documented, every name that rules and dashboards use is served, and counts reach the page.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use revcast_engine::codec::Reason;
use revcast_engine::revision::Revision;
use revcast_engine::{RingLimits, ShardConfig};
use serde_json::Value;

use super::*;
use crate::api::resources::Registry;
use crate::catalog::Catalogs;
use crate::clock::Clock;
use crate::http::request_info::Verb;
use crate::runtime::admission::Admission;
use crate::runtime::options::Options;
use crate::runtime::shards::ShardHandles;
use crate::runtime::tally::{Ending, Refusal};
use crate::serve::{App, Encoder, ServeOptions, StorageMediaType};
use crate::source::command_queue::CommandQueue;
use crate::source::engine::Engine;
use crate::source::epoch::{Epoch, Epochs};

const ALERTS: &str = include_str!("../../../ops/alerts.yaml");
const DASHBOARD: &str = include_str!("../../../ops/grafana-dashboard.json");
const DOCUMENT: &str = include_str!("../../../ops/METRICS.md");

fn shared() -> Shared {
    let catalogs = Catalogs::new(Registry::builtin(), "127.0.0.1:1");
    let ring = RingLimits { events: 1 << 10, bytes: 1 << 20 };
    let engine = Engine {
        catalogs: Arc::clone(&catalogs),
        encoder: Arc::new(Encoder::new(Arc::clone(&catalogs))),
        limits: ring,
        shards: 2,
    };
    let (_, feed) = engine.start(Revision::new(1));
    let epochs = Epochs::new(Epoch::loaded(0, 0, Revision::ZERO, feed));
    let options = Arc::new(Options::blank());
    let watches = ServeOptions {
        min_watch_timeout: Duration::from_secs(60),
        watch_list_gzip: true,
        storage_media_type: StorageMediaType::Json,
        write_etcd: None,
    };
    Shared {
        app: App::new(catalogs, epochs, watches),
        commands: CommandQueue::new(),
        handles: ShardHandles::new(2).expect("eventfds"),
        watchers_max: 7,
        admission: Admission::new(&options),
        options,
        clock: Clock::start(),
        memory: crate::runtime::memory::Memory::new(Some(1 << 30)),
        account: crate::runtime::account::Account::new(Some(1 << 30)),
        reserve: crate::runtime::reserve::Reserve::new(),
        panics: AtomicU64::new(0),
        census: crate::runtime::census::CensusRequests::default(),
        status_streams: AtomicUsize::new(0),
        tls: None,
        closing: OnceLock::new(),
        handover: crate::runtime::HandoverState::default(),
        shard_config: ShardConfig::default(),
        remote: false,
        listen: ([127, 0, 0, 1], 1).into(),
        admin_listen: None,
        source: "in memory".to_owned(),
        ring,
        audit: None,
        upstream: None,
    }
}

/// The names that a page has families of, each with its type.
fn families(page: &str) -> BTreeSet<(&str, &str)> {
    page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect()
}

/// The metrics that a query names: ours and those of the process, without the suffixes of a histogram.
fn named(query: &str) -> BTreeSet<String> {
    let words = query.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let ours = words.filter(|word| word.starts_with("revcast_") || word.starts_with("process_"));
    ours.map(|word| {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end));
        base.unwrap_or(word).to_owned()
    })
    .collect()
}

#[test]
fn every_family_has_help_a_type_and_a_line_in_the_document() {
    let shared = shared();
    let page = metrics(&shared, Form::Text);
    let served: BTreeSet<&str> = families(&page).into_iter().map(|(name, _)| name).collect();
    let helped: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next()).collect();
    assert_eq!(helped.iter().copied().collect::<BTreeSet<_>>(), served);
    assert_eq!(helped.len(), served.len(), "no family is told twice");
    let rows = DOCUMENT.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let rows: Vec<(&str, &str)> = rows.collect();
    let documented: BTreeSet<&str> = rows.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        documented, served,
        "server/ops/METRICS.md has a line for each metric that is served, and no other"
    );
    assert_eq!(rows.len(), served.len(), "and one line each");
    let types = families(&page);
    for (name, rest) in rows {
        let kind = rest.split([' ', ',']).next().unwrap_or_default();
        assert!(types.contains(&(name, kind)), "{name} is no {kind}");
    }
}

#[test]
fn samples_belong_to_the_family_above_them() {
    let page = metrics(&shared(), Form::Text);
    let (mut family, mut kind) = ("", "");
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            (family, kind) = rest.split_once(' ').expect("a type");
            assert_eq!(kind == "counter", family.ends_with("_total"), "{line}");
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let name = line.split(['{', ' ']).next().expect("a name");
        let rest = name.strip_prefix(family).unwrap_or_else(|| panic!("{line} below {family}"));
        let ends: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        assert!(ends.contains(&rest), "{line}");
        let value = line.rsplit(' ').next().expect("a value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn openmetrics_has_the_same_samples() {
    let shared = shared();
    let samples = |form| -> Vec<String> {
        let page = metrics(&shared, form);
        let own = page.lines().filter(|line| !line.starts_with('#'));
        own.map(|line| line.rsplit_once(' ').expect("a value").0.to_owned()).collect()
    };
    assert_eq!(samples(Form::Text), samples(Form::OpenMetrics));
}

#[test]
fn every_reason_why_a_value_cannot_be_read_is_served_and_documented() {
    let page = metrics(&shared(), Form::Text);
    let row = DOCUMENT.lines().find(|line| line.starts_with("| `revcast_objects_unreadable`"));
    for reason in Reason::ALL {
        let sample = format!("revcast_objects_unreadable{{reason=\"{}\"}} 0", reason.name());
        assert!(page.lines().any(|line| line == sample), "{sample}");
        assert!(row.is_some_and(|row| row.contains(&format!("`{}`", reason.name()))), "{}", reason.name());
    }
}

#[test]
fn alerts_and_dashboard_use_metrics_that_exist() {
    let page = metrics(&shared(), Form::Text);
    let served: BTreeSet<&str> = families(&page).into_iter().map(|(name, _)| name).collect();
    let alerts = crate::api::yaml::to_json(ALERTS.as_bytes()).expect("alerts.yaml is YAML");
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("the dashboard is JSON");
    let mut queries = Vec::new();
    expressions(&alerts, "expr", &mut queries);
    let rules = queries.len();
    assert_eq!(rules, ALERTS.matches("- alert: ").count());
    expressions(&dashboard, "expr", &mut queries);
    expressions(&dashboard, "query", &mut queries);
    assert!(rules > 5 && queries.len() > rules + 20, "{} queries", queries.len());
    for query in queries {
        let names = named(&query);
        for name in &names {
            assert!(served.contains(name.as_str()), "{name} in {query:?} is not served");
        }
        assert!(
            !names.is_empty() || query.starts_with("up{") || query == "prometheus",
            "{query:?} asks for nothing"
        );
    }
}

/// Every text of this name, at any depth.
fn expressions(value: &Value, name: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                match value.as_str().filter(|_| key == name) {
                    Some(text) => found.push(text.to_owned()),
                    None => expressions(value, name, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, name, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn counts_reach_the_page() {
    let shared = shared();
    let [one, two] = &*shared.handles.0 else { panic!("two shards") };
    one.tally.requests.count(Verb::Watch, 200, Duration::from_millis(3));
    two.tally.requests.count(Verb::Watch, 200, Duration::from_millis(30));
    two.tally.requests.count(Verb::Create, 799, Duration::from_millis(1));
    one.tally.ended(Ending::Lapped, 2);
    two.tally.ended(Ending::Lapped, 1);
    one.tally.accepted();
    two.tally.refused(Refusal::Descriptors);
    let page = metrics(&shared, Form::Text);
    for line in [
        "revcast_http_requests_total{verb=\"watch\",code=\"200\"} 2",
        "revcast_http_requests_total{verb=\"create\",code=\"other\"} 1",
        "revcast_http_requests_total{verb=\"list\",code=\"200\"} 0",
        "revcast_http_request_duration_seconds_bucket{verb=\"watch\",le=\"0.005\"} 1",
        "revcast_http_request_duration_seconds_bucket{verb=\"watch\",le=\"+Inf\"} 2",
        "revcast_http_request_duration_seconds_sum{verb=\"watch\"} 0.033",
        "revcast_watchers_ended_total{reason=\"lapped\"} 3",
        "revcast_connections_accepted_total 1",
        "revcast_connections_refused_total{reason=\"descriptors\"} 1",
        "revcast_watchers{shard=\"1\"} 0",
        "revcast_watchers_max 7",
        "revcast_memory_max_bytes 1073741824",
    ] {
        assert!(page.lines().any(|it| it == line), "no {line} in\n{page}");
    }
}
