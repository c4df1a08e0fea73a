//! The configuration file: TOML to rows of the table, each with its line.
//!
//! It owns how a TOML value becomes an option's text. It never applies one: [`Config`](super::Config) does.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::resource::{ResourceEntry, ResourceForm, ResourceTable};
use super::row::{Row, Set, TRUTH};
use super::table::{self, ROWS};
use crate::setting::{ConfigError, Origin, Wrong};

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What the file gives to one row.
#[derive(Debug)]
pub(super) enum Given {
    Text(String),
    Resources(Vec<ResourceEntry>),
}

/// Reads all of `path`.
///
/// # Errors
/// It cannot be read, is larger than 1 MiB or is not UTF-8.
pub(super) fn read(path: &Path) -> Result<String, ConfigError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| ConfigError::file(path, format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(ConfigError::file(path, "larger than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|error| {
        ConfigError::file(path, format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
    })
}

/// Reads `text`, the content of `path`, in the order of its lines.
///
/// # Errors
/// The first mistake: of TOML, of a name or of a type.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<(usize, Origin, Given)>, ConfigError> {
    let source = Source { path, text };
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let mend = "fix the TOML; strings need \"quotes\"";
        ConfigError::at(source.origin(at).to_string(), Wrong::new(error.message(), mend))
    })?;
    let mut entries: Vec<_> = document.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries.into_iter().map(|(key, value)| source.entry(key.get_ref(), key.span().start, value)).collect()
}

struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    fn origin(&self, at: usize) -> Origin {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        // One pass a key of a file of at most 1 MiB, once at start.
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        Origin::File { path: self.path.to_owned(), line }
    }

    fn entry(
        &self,
        key: &str,
        at: usize,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(usize, Origin, Given), ConfigError> {
        let origin = self.origin(at);
        let Some((index, row)) = ROWS.iter().enumerate().find(|(_, row)| row.in_file && row.key() == key)
        else {
            let known: Vec<String> = ROWS.iter().filter(|row| row.in_file).map(Row::key).collect();
            let shown = shown(value.get_ref());
            return Err(ConfigError::unknown("key", &origin, key, Some(&shown), &known));
        };
        let given = match (&row.set, value.get_ref()) {
            (Set::Resources, DeValue::Array(items)) => Given::Resources(self.resources(items)?),
            (Set::Resources, other) => Given::Resources(vec![self.resource(&origin, other)?]),
            (Set::One(_), DeValue::Boolean(truth)) if row.value == TRUTH => Given::Text(truth.to_string()),
            (Set::One(_), other) => Given::Text(scalar(other).ok_or_else(|| {
                let mend = format!("write {key} = \"{}\"", row.value);
                wrong_type(&origin, key, other, mend)
            })?),
        };
        Ok((index, origin, given))
    }

    fn resources(&self, items: &DeArray<'_>) -> Result<Vec<ResourceEntry>, ConfigError> {
        items.iter().map(|item| self.resource(&self.origin(item.span().start), item.get_ref())).collect()
    }

    fn resource(&self, origin: &Origin, value: &DeValue<'_>) -> Result<ResourceEntry, ConfigError> {
        match value {
            DeValue::String(text) => table::resource_text(text, origin)
                .map_err(|wrong| ConfigError::bad_value(origin, "resource", text, wrong)),
            DeValue::Table(members) => Ok(ResourceEntry {
                origin: origin.clone(),
                form: ResourceForm::Table(self.resource_table(origin, members)?),
            }),
            DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => {
                let mend = "write \"GROUP/VERSION/PLURAL/KIND/namespaced\" or a table";
                Err(wrong_type(origin, "resource", value, mend.to_owned()))
            }
        }
    }

    fn resource_table(&self, origin: &Origin, members: &DeTable<'_>) -> Result<ResourceTable, ConfigError> {
        let mut resource = ResourceTable::default();
        for (key, value) in members {
            let at = self.origin(key.span().start);
            let (key, value) = (key.get_ref().as_ref(), value.get_ref());
            if let Some(member) = resource.text_mut(key) {
                let DeValue::String(text) = value else {
                    return Err(wrong_type(&at, key, value, format!("write {key} = \"...\"")));
                };
                *member = text.to_string();
            } else if let Some(member) = resource.list_mut(key) {
                let mend = || format!("write {key} = [\"...\", \"...\"]");
                let DeValue::Array(items) = value else {
                    return Err(wrong_type(&at, key, value, mend()));
                };
                for item in items.iter() {
                    let DeValue::String(text) = item.get_ref() else {
                        let at = self.origin(item.span().start);
                        return Err(wrong_type(&at, key, item.get_ref(), mend()));
                    };
                    member.push(text.to_string());
                }
            } else {
                let value = shown(value);
                return Err(ConfigError::unknown(
                    "key of a resource",
                    &at,
                    key,
                    Some(&value),
                    &ResourceTable::KEYS,
                ));
            }
        }
        resource.check_complete(origin)?;
        Ok(resource)
    }
}

fn wrong_type(origin: &Origin, key: &str, value: &DeValue<'_>, mend: String) -> ConfigError {
    let problem = format!("cannot be a TOML {}", value.type_str());
    ConfigError::bad_value(origin, key, &shown(value), Wrong::new(problem, mend))
}

/// A string or a number as an option's text.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map(|number| number.to_string())
            // Wider than any bound: the option's own check reports it.
            .or_else(|_| Ok::<_, ()>(number.as_str().to_owned()))
            .ok(),
        DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_)
        | DeValue::Table(_) => None,
    }
}

/// A value as an error repeats it.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(moment) => moment.to_string(),
        DeValue::Array(_) => "[...]".to_owned(),
        DeValue::Table(_) => "{...}".to_owned(),
    }
}
