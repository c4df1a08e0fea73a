//! Reads the keys below the prefix once, within bounds, and says what they hold: for `revcast doctor`.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use etcd_client::GetOptions;
use revcast_engine::Object;
use revcast_engine::codec::Decoder;
use revcast_engine::resource::Schema;
use revcast_engine::revision::Revision;
use tokio::time::{Instant, timeout_at};

use super::census::Census;
use super::definitions::Definitions;
use super::layout::Layout;
use super::link::{Links, Purpose, explain};
use super::load::behind;
use super::options::EtcdOptions;
use super::pager::Pager;
use crate::catalog::Catalogs;
use crate::source::{Fault, SourceError};

/// Keys that are read at most.
const KEYS_MAX: usize = 100_000;
/// Definitions of resources that are read at most: each may have a schema of a megabyte.
const DEFINITIONS_MAX: i64 = 1_000;
/// The time for it.
const WITHIN: Duration = Duration::from_secs(10);

/// What was found.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Of the keys that were read.
    pub census: Census,
    /// How many these are.
    pub read: usize,
    /// How many there are, and why not all were read: `None` if they were.
    pub stopped: Option<(usize, String)>,
}

/// Reads the keys of the first member that answers, until all are read or a limit is reached.
///
/// # Errors
/// Nothing could be read: why, in a line.
pub fn survey(options: &EtcdOptions, layout: &Layout, catalogs: &Arc<Catalogs>) -> Result<Survey, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let links = Links::new(Rc::new(options.clone()));
    let mut found = Err(String::new());
    for _ in &options.endpoints {
        found = runtime.block_on(read(&links, layout, catalogs)).map_err(|error| error.to_string());
        if found.is_ok() {
            break;
        }
        links.rotate();
    }
    found
}

async fn read(links: &Links, layout: &Layout, catalogs: &Arc<Catalogs>) -> Result<Survey, SourceError> {
    let deadline = Instant::now() + WITHIN;
    let client = Box::pin(links.open(Purpose::Calls)).await?;
    let definitions = Definitions::new(Arc::clone(catalogs));
    if let Some(folder) = definitions.folder(layout) {
        let wanted = GetOptions::new().with_prefix().with_limit(DEFINITIONS_MAX);
        let mut kv = client.kv_client().max_decoding_message_size(usize::MAX);
        let read = timeout_at(deadline, Box::pin(kv.get(folder, Some(wanted)))).await;
        if let Ok(read) = read {
            let mut read = read.map_err(|error| explain(&error, false))?;
            let named = read.take_kvs().into_iter().filter_map(|of| {
                let (key, value) = of.into_key_value();
                Some((layout.to_key(&key)?.name().to_owned(), value.into()))
            });
            definitions.set(named, layout);
        }
    }
    let schema = catalogs.schema();
    let mut survey = Survey { census: Census::default(), read: 0, stopped: None };
    let (mut decoder, mut pager) = (Decoder::new(), Pager::new());
    let (mut start, end) = (layout.prefix().as_bytes().to_vec(), behind(layout.prefix().as_bytes()));
    let mut remaining = 0;
    loop {
        if survey.read >= KEYS_MAX {
            survey.stopped = Some((survey.read + remaining, format!("the limit is {KEYS_MAX} keys")));
            return Ok(survey);
        }
        let wanted = GetOptions::new().with_range(end.clone()).with_limit(pager.limit());
        let mut kv = client.kv_client().max_decoding_message_size(pager.bytes_max());
        let page = timeout_at(deadline, Box::pin(kv.get(start.clone(), Some(wanted)))).await;
        let page = match page {
            Ok(Ok(page)) => page,
            Ok(Err(error)) => {
                let failure = explain(&error, false);
                if failure.fault == Fault::TooLarge && pager.shrink() {
                    continue;
                }
                return Err(failure);
            }
            Err(_) if survey.read > 0 => {
                survey.stopped = Some((survey.read + remaining, format!("the limit is {WITHIN:?}")));
                return Ok(survey);
            }
            Err(_) => {
                return Err(SourceError::new(
                    Fault::Unavailable,
                    format!("nothing was read within {WITHIN:?}"),
                ));
            }
        };
        let mut bytes = 0;
        for of in page.kvs() {
            bytes += of.key().len() + of.value().len();
            examine(&mut survey.census, layout, schema, &mut decoder, (of.key(), of.value()));
        }
        let count = page.kvs().len();
        survey.read += count;
        remaining = usize::try_from(page.count()).unwrap_or_default().saturating_sub(count);
        let Some(last) = page.kvs().last().filter(|_| page.more()) else { return Ok(survey) };
        start.clear();
        start.extend_from_slice(last.key());
        start.push(0);
        pager.took(count, bytes);
    }
}

fn examine(
    census: &mut Census,
    layout: &Layout,
    schema: &Schema,
    decoder: &mut Decoder,
    (etcd, value): (&[u8], &[u8]),
) {
    let Some(key) = layout.to_key(etcd) else { return census.count_foreign(layout, etcd) };
    let resource = key.resource();
    census.count(layout, etcd, resource, value);
    let object =
        Object::read(decoder, schema.get(resource), key, &Bytes::copy_from_slice(value), Revision::ZERO);
    if let Some(why) = object.unreadable() {
        census.move_unread(&String::from_utf8_lossy(etcd), resource, value, why.error());
    }
}
