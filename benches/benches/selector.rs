//! Selectors: one verdict on the attributes of one object, and one parse at the edge.

mod support;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use revcast_engine::attributes::{AttributeTexts, OwnAttributes};
use revcast_engine::selector::{FieldSelector, LabelSelector, Selector};

const LABELS: [(&str, &str, bool); 4] = [
    ("equality", "app=web", true),
    ("set_of_16", "tier in (a,b,c,d,e,f,front,g,h,i,j,k,l,m,n,o)", true),
    ("three_terms", "app=web,tier!=back,!canary", true),
    ("no_match", "app=db", false),
];

fn labels(text: &str) -> Selector {
    Selector::new(LabelSelector::parse(text).expect("it is valid"), FieldSelector::default())
}

fn matching(c: &mut Criterion) {
    let mut group = c.benchmark_group("selector/matches");
    let resource = support::pod();
    let pair = |(key, value): (&'static str, &'static str)| (key.into(), value.into());
    let eight = [
        ("app", "web"),
        ("tier", "front"),
        ("track", "stable"),
        ("pod-template-hash", "5d89bdfbf9"),
        ("app.kubernetes.io/name", "web"),
        ("app.kubernetes.io/part-of", "shop"),
        ("region", "eu"),
        ("zone", "eu-1"),
    ];
    let fields = ["pod-1", "default", "node-17", "Running"];
    let fields = fields.iter().map(|&field| field.into()).collect();
    let attributes = OwnAttributes::new(&AttributeTexts::new(eight.map(pair).into(), fields));
    let attributes = attributes.get();
    let everything = Selector::everything();
    group.bench_function("everything", |b| b.iter(|| everything.matches(black_box(attributes))));
    for (name, text, expected) in LABELS {
        let selector = labels(text);
        assert_eq!(selector.matches(attributes), expected, "{text}");
        group.bench_function(name, |b| b.iter(|| black_box(&selector).matches(black_box(attributes))));
    }
    let node = FieldSelector::parse("spec.nodeName=node-17", &resource).expect("it is valid");
    let selector = Selector::new(LabelSelector::default(), node);
    assert!(selector.matches(attributes));
    group.bench_function("field", |b| b.iter(|| black_box(&selector).matches(black_box(attributes))));
}

fn parsing(c: &mut Criterion) {
    let mut group = c.benchmark_group("selector/parse");
    for (name, text, _) in LABELS {
        group
            .bench_function(name, |b| b.iter(|| LabelSelector::parse(black_box(text)).expect("it is valid")));
    }
    let resource = support::pod();
    group.bench_function("field", |b| {
        b.iter(|| FieldSelector::parse(black_box("spec.nodeName=node-17"), &resource).expect("it is valid"));
    });
}

criterion_group!(benches, matching, parsing);
criterion_main!(benches);
