//! Query strings: compared with a plain decoder, and read as every set of options; errors are one line.

use revcast::http::options::{
    DeleteOptions, GetOptions, ListOptions, OptionsError, Query, WatchOptions, WriteKind, WriteOptions,
};
use revcast::http::status::Status;
use revcast_engine::resource::{Field, Resource};

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let expected = slow(text);
    let query = Query::parse(text);
    assert_eq!(query.is_ok(), expected.is_some(), "{text:?}: {query:?}");
    let (Ok(query), Some(pairs)) = (query, expected) else { return };
    for (name, _) in &pairs {
        let values: Vec<&str> = query.all(name).collect();
        let wanted: Vec<&str> =
            pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| &**value).collect();
        assert_eq!(values, wanted, "{name:?}");
    }
    let resource =
        Resource::new("v1", "Pod", true, vec![Field::at("spec.nodeName"), Field::at("status.phase")]);
    told(ListOptions::parse(&query, &resource));
    told(WatchOptions::parse(&query, &resource));
    told(GetOptions::parse(&query));
    for kind in [WriteKind::Create, WriteKind::Update, WriteKind::Patch] {
        told(WriteOptions::parse(&query, kind));
    }
    told(DeleteOptions::parse(&query, b""));
}

/// An error is reported in JSON without line ends of the client's text.
fn told<T>(read: Result<T, OptionsError>) {
    let Err(error) = read else { return };
    let status: Status = error.status();
    let json = status.to_json();
    assert!((400..500).contains(&status.code()), "{json}");
    assert!(
        !json.contains(['\r', '\n']) && serde_json::from_str::<serde_json::Value>(&json).is_ok(),
        "{json}"
    );
}

/// Name and value of each parameter; `None`: it cannot be decoded.
fn slow(text: &str) -> Option<Vec<(String, String)>> {
    let parts = text.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.find('=').map_or((part, ""), |at| (&part[..at], &part[at + 1..]));
            Some((decoded(name)?, decoded(value)?))
        })
        .collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let (high, low) = (char::from(rest.next()?), char::from(rest.next()?));
                u8::try_from(high.to_digit(16)? * 16 + low.to_digit(16)?).ok()?
            }
            b'+' => b' ',
            other => other,
        });
    }
    let text = String::from_utf8(bytes).ok()?;
    text.chars().all(|c| !c.is_control() || "\t\r\n".contains(c)).then_some(text)
}
