//! The figures are those of the page: its own scripts compute and show the same from the same documents.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::document::Document;
use super::document::tests::sample;
use super::samples::{Sample, Samples, percentile};
use super::units;

const SCRIPTS: [&str; 2] = [include_str!("../page/units.js"), include_str!("../page/samples.js")];

/// Reads `{numbers, documents}`, and answers with what the page would show.
const ASK: &str = r#"
const {numbers, documents} = JSON.parse(require("fs").readFileSync(0, "utf8"));
const samples = new Samples();
for (const document of documents) samples.add(document);
const bounds = documents[0].stages.boundsSeconds;
console.log(JSON.stringify({
  shown: numbers.map((it) => [short(it), whole(it), together(duration(it)), latency(it), together(bytes(it)), percent(it), uptime(it)]),
  rates: [2, 10].map((seconds) => [samples.rate((it) => it.deliveries, seconds), samples.rate((it) => it.events, seconds), samples.rate((it) => it.cpu[0], seconds)]),
  lines: samples.rates((it) => it.deliveries).map(([, value]) => value),
  seconds: samples.seconds,
  stages: STAGES.map((stage) => [0.5, 0.9, 0.99, 0.999].map((share) => latency(percentile(bounds, samples.lately(stage), share)))),
  errors: [...samples.newest.errors],
}));
"#;

/// The page's answer; `None`, said aloud: there is no Node here.
fn ask(question: &Value) -> Option<Value> {
    let script = SCRIPTS.join("\n") + ASK;
    let child = Command::new("node")
        .args(["-e", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn();
    let Ok(mut child) = child else {
        let _ = writeln!(
            std::io::stderr(),
            "!!! SKIPPED: node is not here, figures were not compared with the page's"
        );
        return None;
    };
    let mut input = child.stdin.take().expect("it is a pipe");
    input.write_all(question.to_string().as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it is ours");
    assert!(output.status.success());
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}

#[test]
fn the_page_shows_the_same() {
    let mut numbers = vec![
        0.0, 0.0005, 0.001_25, 0.5, 1.25, 2.5, 9.995, 9.9949, 12.25, 59.97, 99.95, 99.949, 1_023.4, 3_600.0,
    ];
    let mut random = fastrand::Rng::with_seed(7);
    numbers.extend((0..2_000).map(|_| 10_f64.powf(random.f64() * 24.0 - 8.0)));
    // Halves and quarters are where rounding differs.
    numbers.extend((0..1_000).map(|_| f64::from(random.u32(0..40_000)) / 8.0));
    let documents: Vec<Value> = (0_u32..320)
        .map(|at| {
            let grown = u64::from(at) * 100 + random.u64(0..100);
            sample(f64::from(at) + random.f64() / 4.0, grown)
        })
        .collect();
    let question = json!({ "numbers": numbers, "documents": documents });
    let Some(page) = ask(&question) else { return };
    for (number, shown) in numbers.iter().zip(page["shown"].as_array().expect("a list")) {
        let it = *number;
        let ours = [
            units::short(it),
            units::whole(it),
            units::duration(it),
            units::latency(it),
            units::bytes(it),
            units::percent(it),
            units::uptime(it),
        ];
        assert_eq!(json!(ours), *shown, "{it}");
    }
    let mut samples = Samples::default();
    let read = |it: &Value| Document::parse(it.to_string().as_bytes()).expect("it is one");
    documents.iter().for_each(|it| samples.add(&read(it)));
    let rates = [2.0, 10.0].map(|seconds| {
        let rate = |read: &dyn Fn(&Sample) -> f64| samples.rate(read, seconds);
        [rate(&|it| it.deliveries as f64), rate(&|it| it.events as f64), rate(&|it| it.cpu[0])]
    });
    assert_eq!(json!(rates), page["rates"]);
    assert_eq!(json!(samples.rates(|it| it.deliveries as f64)), page["lines"]);
    assert_eq!(json!(samples.seconds()), page["seconds"]);
    let bounds = read(&documents[0]).stages.bounds_seconds;
    let stages = [0, 1, 2, 3].map(|stage| {
        let counts = samples.lately(stage);
        [0.5, 0.9, 0.99, 0.999].map(|share| units::latency(percentile(&bounds, &counts, share)))
    });
    assert_eq!(json!(stages), page["stages"]);
    assert_eq!(json!(samples.newest().expect("many").errors), page["errors"]);
}
