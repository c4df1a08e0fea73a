//! The status as a server sends it, as far as it is shown.
//!
//! Owns what is believed of a server: its texts cannot move a cursor, and what is kept for minutes is small.

use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::printable::{cut, one_line};

/// The longest document: one of a server with every limit reached is a tenth of it.
pub(super) const DOCUMENT_BYTES_MAX: usize = 4 << 20;
/// Of texts.
const TEXT_BYTES_MAX: usize = 256;
/// Names in one group of counts.
const COUNTS_MAX: usize = 256;
const SHARDS_MAX: usize = 4_096;
const BUCKETS_MAX: usize = 256;

/// Text on one line, without what a terminal obeys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text(pub(super) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self(shown(&String::deserialize(from)?)))
    }
}

/// Any text of a server, safe to show.
pub(super) fn shown(text: &str) -> String {
    cut(&one_line(text), TEXT_BYTES_MAX).into_owned()
}

/// Named numbers in the order of the document; `None`: `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts(pub(super) Vec<(String, Option<u64>)>);

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Counts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Counts, A::Error> {
                let mut found = Vec::new();
                while let Some((Text(name), count)) = map.next_entry()? {
                    if found.len() == COUNTS_MAX {
                        return Err(A::Error::custom(format!("more than {COUNTS_MAX} names")));
                    }
                    found.push((name, count));
                }
                Ok(Counts(found))
            }
        }
        from.deserialize_map(Members)
    }
}

/// One document. `server/docs/operations.md` says what each member is.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document {
    pub(super) version: Text,
    pub(super) uptime_seconds: f64,
    pub(super) life: Text,
    pub(super) listen: Listen,
    pub(super) limits: Limits,
    pub(super) source: Source,
    pub(super) window: Window,
    pub(super) memory: Counts,
    pub(super) shards: Vec<Shard>,
    pub(super) totals: Totals,
    pub(super) watchers: Watchers,
    pub(super) stages: Stages,
    pub(super) errors: Errors,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Listen {
    pub(super) api: Text,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Limits {
    pub(super) memory: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Source {
    pub(super) kind: Text,
    pub(super) is: Text,
    pub(super) ready: bool,
    pub(super) revision: u64,
    pub(super) epoch: u64,
    pub(super) stale_seconds: Option<f64>,
    pub(super) objects: u64,
    pub(super) unreadable: u64,
    pub(super) unreadable_by_reason: Counts,
    pub(super) failed: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Window {
    pub(super) events: u64,
    pub(super) events_max: u64,
    pub(super) bytes: u64,
    pub(super) bytes_max: u64,
    pub(super) oldest_revision: Option<u64>,
    pub(super) age_seconds: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shard {
    pub(super) number: u64,
    pub(super) watchers: u64,
    pub(super) live: u64,
    pub(super) blocked: u64,
    pub(super) lag_seconds: f64,
    pub(super) events_sent: u64,
    pub(super) cpu_seconds: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Totals {
    pub(super) events_received: u64,
    pub(super) messages_serialized: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Watchers {
    pub(super) by_resource: Vec<OfResource>,
    pub(super) slowest: Vec<Slow>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfResource {
    /// `None`: of ranges of keys.
    pub(super) resource: Option<Text>,
    pub(super) initial: u64,
    pub(super) catching_up: u64,
    pub(super) live: u64,
    pub(super) parked: u64,
    pub(super) draining: u64,
}

impl OfResource {
    /// In the order of the page.
    pub(super) fn phases(&self) -> [u64; 5] {
        [self.initial, self.catching_up, self.live, self.parked, self.draining]
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Slow {
    pub(super) shard: u64,
    pub(super) client: Option<Text>,
    pub(super) resource: Option<Text>,
    pub(super) namespace: Option<Text>,
    pub(super) phase: Text,
    pub(super) blocked: bool,
    pub(super) lag_events: u64,
    pub(super) lag_seconds: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stages {
    pub(super) bounds_seconds: Vec<f64>,
    pub(super) ring: Stage,
    pub(super) first_write: Stage,
    pub(super) last_write: Stage,
    pub(super) turn_delay: Stage,
}

impl Stages {
    /// In the order of the page.
    pub(super) fn all(&self) -> [&Stage; 4] {
        [&self.ring, &self.first_write, &self.last_write, &self.turn_delay]
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Stage {
    /// One for each bound, and one for what is longer.
    pub(super) counts: Vec<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Errors {
    pub(super) requests: Counts,
    pub(super) watches_ended: Counts,
    pub(super) connections_refused: Counts,
    pub(super) http2_streams_failed: Counts,
    pub(super) upstream: Counts,
    pub(super) source: Counts,
    pub(super) panics: u64,
    pub(super) log_lines_dropped: u64,
    pub(super) audit_lines_dropped: u64,
}

impl Document {
    /// Reads one line of the stream.
    ///
    /// # Errors
    /// It is not the status of a revcast; in one line.
    pub(super) fn parse(line: &[u8]) -> Result<Self, String> {
        let not = |why: String| format!("not the status of a revcast: {why}");
        let document: Self = serde_json::from_slice(line).map_err(|error| not(shown(&error.to_string())))?;
        let buckets = document.stages.bounds_seconds.len();
        if document.shards.len() > SHARDS_MAX {
            return Err(not(format!("{} shards", document.shards.len())));
        }
        if document.shards.iter().zip(0..).any(|(shard, number)| shard.number != number) {
            return Err(not("shards are not numbered from 0".to_owned()));
        }
        if buckets > BUCKETS_MAX
            || document.stages.all().iter().any(|stage| stage.counts.len() != buckets + 1)
        {
            return Err(not(format!("{buckets} bounds, and other numbers of counts")));
        }
        Ok(document)
    }

    /// How much of the window a watcher has used: at 1 it is ended.
    pub(super) fn used(&self, slow: &Slow) -> f64 {
        let Window { events, events_max, bytes, bytes_max, .. } = self.window;
        if events == 0 {
            return 0.0;
        }
        let full = (events as f64 / events_max as f64).max(bytes as f64 / bytes_max as f64);
        slow.lag_events as f64 / events as f64 * full
    }

    /// A part of the memory by its name.
    pub(super) fn resident(&self) -> Option<u64> {
        self.memory.0.iter().find(|(name, _)| name == "resident")?.1
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A document like a server's, at a time of its life: what only grows is as large as `grown`.
    pub(in crate::top) fn sample(uptime: f64, grown: u64) -> Value {
        let counts = [grown, 0, grown, 0];
        json!({
            "version": "1.2.3", "uptimeSeconds": uptime, "life": "serving",
            "listen": {"api": "127.0.0.1:8080", "admin": "127.0.0.1:8081"},
            "limits": {"watchers": 1000, "shards": 2, "memory": null},
            "source": {"kind": "etcd", "is": "etcd http://e:2379", "ready": true, "revision": 77, "epoch": 1, "staleSeconds": 0.25,
                "objects": 1234, "unreadable": 0, "unreadableByReason": {}, "failed": false},
            "window": {"events": 100, "eventsMax": 200, "bytes": 1024, "bytesMax": 4096, "oldestRevision": 7, "forgottenRevision": 6,
                "ageSeconds": 90.0},
            "memory": {"window": 1024, "index": 2048, "watchers": 512, "pages": 0, "requests": 0, "resident": 10240},
            "shards": [
                {"number": 0, "watchers": 10, "live": 9, "behind": 1, "blocked": 1, "lagSeconds": 0.002, "eventsSent": grown * 10, "cpuSeconds": uptime / 2.0},
                {"number": 1, "watchers": 5, "live": 5, "behind": 0, "blocked": 0, "lagSeconds": 0.0, "eventsSent": 0, "cpuSeconds": 0.0},
            ],
            "totals": {"eventsReceived": grown, "messagesSerialized": grown, "writes": 0},
            "watchers": {
                "byResource": [
                    {"resource": "configmaps", "initial": 0, "catchingUp": 1, "live": 4, "parked": 0, "draining": 0},
                    {"resource": "pods", "initial": 1, "catchingUp": 0, "live": 9, "parked": 0, "draining": 0},
                ],
                "slowest": [
                    {"shard": 0, "client": "10.0.0.9:1234", "resource": "pods", "namespace": "ns", "phase": "catchingUp", "blocked": true,
                     "lagEvents": 80, "lagSeconds": 3.5, "windowLeftEvents": 20},
                    {"shard": 1, "client": null, "resource": null, "namespace": null, "phase": "live", "blocked": false,
                     "lagEvents": 1, "lagSeconds": 0.1, "windowLeftEvents": 99},
                ],
            },
            "stages": {"boundsSeconds": [0.001, 0.01, 0.1], "ring": {"counts": counts, "sumSeconds": 1.0},
                "firstWrite": {"counts": counts, "sumSeconds": 1.0}, "lastWrite": {"counts": counts, "sumSeconds": 1.0},
                "turnDelay": {"counts": [0, 0, 0, grown], "sumSeconds": 1.0}},
            "errors": {"requests": {"0": 1, "404": grown}, "watchesEnded": {"closed": 5, "expired": 2}, "connectionsRefused": {},
                "http2StreamsFailed": {"flow_control": 0}, "upstream": {}, "source": {"failures": 0, "watchRestarts": 1},
                "panics": 0, "logLinesDropped": 0, "auditLinesDropped": 0},
        })
    }

    pub(in crate::top) fn document(uptime: f64, grown: u64) -> Document {
        Document::parse(sample(uptime, grown).to_string().as_bytes()).expect("it is one")
    }

    #[test]
    fn texts_of_a_server_cannot_reach_the_terminal() {
        let mut hostile = sample(1.0, 1);
        hostile["version"] = json!("\u{1b}[2J\u{202e}x");
        hostile["watchers"]["slowest"][0]["client"] = json!("\u{9b}31m\n");
        hostile["errors"]["upstream"] = json!({"\u{1b}]0;title\u{7}": 1});
        hostile["listen"]["api"] = json!("x".repeat(5_000));
        let read = Document::parse(hostile.to_string().as_bytes()).expect("its shape is right");
        let kept = format!("{read:?}");
        assert!(!kept.contains(['\u{1b}', '\u{202e}', '\u{9b}', '\u{7}', '\n']), "{kept}");
        assert!(read.listen.api.0.len() < 300, "{}", read.listen.api.0.len());
    }

    #[test]
    fn what_is_no_status_says_so() {
        let with = |change: &dyn Fn(&mut Value)| {
            let mut it = sample(1.0, 1);
            change(&mut it);
            Document::parse(it.to_string().as_bytes()).expect_err("it is none")
        };
        assert!(
            Document::parse(b"<html>")
                .expect_err("it is none")
                .starts_with("not the status of a revcast: expected value")
        );
        assert!(with(&|it| it["shards"] = Value::Null).contains("expected a sequence"));
        assert!(with(&|it| it["shards"][1]["number"] = json!(7)).contains("numbered from 0"));
        assert!(with(&|it| it["stages"]["ring"]["counts"] = json!([1])).contains("3 bounds"));
        let many: serde_json::Map<String, Value> =
            (0..=COUNTS_MAX).map(|n| (n.to_string(), json!(1))).collect();
        assert!(
            with(&|it| it["errors"]["requests"] = Value::Object(many.clone()))
                .contains("more than 256 names")
        );
    }

    #[test]
    fn the_share_of_the_window_that_is_used() {
        let document = document(1.0, 1);
        let used: Vec<f64> = document.watchers.slowest.iter().map(|slow| document.used(slow)).collect();
        assert_eq!(used, [0.8 * 0.5, 0.01 * 0.5]);
    }
}
