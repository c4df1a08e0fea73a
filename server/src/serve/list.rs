//! LIST: pages of objects, written while they are sent.
//!
//! Owns which state a list shows, where a page ends, and the JSON around the items (recordings 01, 02, 06, 17). A list holds
//! one snapshot and never its complete text, in any format: a piece is made when the previous one is being sent.

use std::sync::Arc;

use revcast_engine::codec::protobuf::Envelope;
use revcast_engine::codec::protobuf::wire::{field_len, push_field, push_number};
use revcast_engine::index::{Past, Snapshot};
use revcast_engine::revision::Revision;
use revcast_engine::{Object, Objects};
use serde_json::{Value, json};

use super::encode::{self, Shape};
use super::items::{self, Item};
use super::precedence::by_precedence;
use super::reply::ResponseFormat;
use super::select::Choice;
use super::{Call, get, gzip, reply};
use crate::api::printer::Printer;
use crate::api::resources::{ApiResource, ViewId};
use crate::api::table;
use crate::catalog::Catalog;
use crate::frontend::{Host, Reply, StreamingBody};
use crate::http::continuation::{Continuation, PageRevision};
use crate::http::indent::Indent;
use crate::http::options::{ListOptions, ListVersion};
use crate::http::response::{JSON, PROTOBUF, YAML};
use crate::http::status::{Layout, Status};
use crate::http::yaml;

/// The longest list that is sent in one part, with its length (recording 01; Go's `net/http` buffers this much).
const WHOLE_BYTES_MAX: usize = 2048;
/// The size of a piece.
const PIECE_BYTES: usize = 64 << 10;
/// Objects that are visited before yielding to other work.
const SCAN_MAX: usize = 4096;
/// Remaining objects are counted up to this number; beyond, `remainingItemCount` is left out, as the API allows.
const REMAINING_MAX: usize = 1 << 16;

/// Answers a LIST.
pub(super) async fn handle<H: Host>(call: &Call<'_, H>, mut options: ListOptions) -> Result<Reply, Status> {
    let choice = Choice::new(call, std::mem::take(&mut options.selectors), None);
    let state = state(call, &options, &choice).await?;
    let page = Page::find(call, choice, state, &options).await;
    page.reply(call).await
}

/// Objects as of one revision.
#[derive(Debug)]
pub(super) enum State {
    /// The newest.
    Now(Arc<Snapshot>),
    /// An older one.
    Then(Box<Past>),
}

impl State {
    fn revision(&self) -> Revision {
        match self {
            Self::Now(snapshot) => snapshot.revision(),
            Self::Then(past) => past.revision(),
        }
    }

    /// The first object in the scope that is unreadable.
    fn first_unreadable(&self, scope: &Objects) -> Option<&Arc<Object>> {
        let (namespace, name) = (scope.namespace.as_deref(), scope.name.as_deref());
        match self {
            Self::Now(snapshot) => snapshot.first_unreadable(scope.resource, namespace, name),
            Self::Then(past) => past.first_unreadable(namespace, name),
        }
    }

    /// The objects in the selection's resource and namespace after the path `after`, in key order; only the named one if its
    /// key is known. The selector is not applied.
    fn objects<'a>(
        &'a self,
        choice: &'a Choice,
        after: Option<&'a str>,
    ) -> Box<dyn Iterator<Item = &'a Arc<Object>> + 'a> {
        let scope = &choice.scope;
        let namespace = scope.namespace.as_deref();
        match self {
            Self::Now(snapshot) => match &choice.key {
                Some(key) if after.is_some_and(|after| key.path() <= after) => Box::new(std::iter::empty()),
                Some(key) => Box::new(snapshot.get(key).into_iter()),
                None => Box::new(snapshot.list(scope.resource, namespace, after)),
            },
            Self::Then(past) => Box::new(past.list(namespace, after)),
        }
    }
}

/// The state that a list shows.
///
/// # Errors
/// 504 if it is not reached in time, 410 if it is compacted, 500 if an object in the scope is unreadable: whether the selector
/// matches it is unknown.
pub(super) async fn state<H: Host>(
    call: &Call<'_, H>,
    options: &ListOptions,
    choice: &Choice,
) -> Result<State, Status> {
    let state = reached(call, options).await?;
    match state.first_unreadable(&choice.scope) {
        None => Ok(state),
        Some(object) => Err(get::json(object).err().unwrap_or_else(|| Status::unreadable(String::new()))),
    }
}

async fn reached<H: Host>(call: &Call<'_, H>, options: &ListOptions) -> Result<State, Status> {
    let revision = match options.version {
        ListVersion::Unset => return call.consistent().await.map(State::Now),
        ListVersion::Any => return Ok(State::Now(call.epoch.feed.snapshot())),
        ListVersion::NotOlderThan(revision) => return call.not_older_than(revision).await.map(State::Now),
        ListVersion::Exact(revision) => revision,
    };
    if let Some(continuation) = &options.continuation
        && ![0, call.epoch.line].contains(&continuation.line)
    {
        // The previous page showed a state that was never part of this history.
        return Err(Status::continue_expired(continuation.at_latest().encode()));
    }
    let newest = call.not_older_than(revision).await?;
    if newest.revision() == revision {
        return Ok(State::Now(newest));
    }
    match call.epoch.feed.past(call.resource.row, revision) {
        Ok(past) => Ok(State::Then(Box::new(past))),
        Err(_) => Err(match &options.continuation {
            Some(continuation) => Status::continue_expired(continuation.at_latest().encode()),
            None => Status::list_expired(),
        }),
    }
}

/// The objects of one page.
#[derive(Debug)]
pub(super) struct Page {
    state: State,
    choice: Choice,
    /// The path after which it starts.
    after: Option<Arc<str>>,
    /// The path of its last object; `None`: it extends to the end.
    last: Option<Arc<str>>,
    /// The token of the next page.
    token: Option<String>,
    /// How many objects follow it, if known.
    remaining: Option<usize>,
}

impl Page {
    /// Finds where the page ends.
    pub(super) async fn find<H: Host>(
        call: &Call<'_, H>,
        choice: Choice,
        state: State,
        options: &ListOptions,
    ) -> Self {
        let after: Option<Arc<str>> = options.continuation.as_ref().map(|continuation| {
            // Relative to the request's path, as upstream, whatever the selector narrowed it to.
            match call.namespace {
                Some(namespace) => format!("{namespace}/{}", continuation.start).into(),
                None => continuation.start.as_str().into(),
            }
        });
        let mut page = Self { state, choice, after, last: None, token: None, remaining: None };
        let Some(limit) = options.limit else { return page };
        let limit = usize::try_from(limit.get()).unwrap_or(usize::MAX);

        let mut cut = None;
        let mut taken = 0_usize;
        let mut scanned = 0_usize;
        let mut more = false;
        let mut objects = page.state.objects(&page.choice, page.after.as_deref());
        for object in objects.by_ref() {
            if taken == limit {
                more = true;
                break;
            }
            if page.choice.takes(object) {
                taken += 1;
                cut = Some(object.key().shared_path());
            }
            scanned += 1;
            if scanned.is_multiple_of(SCAN_MAX) {
                call.host.yield_now().await;
            }
        }
        if !more {
            drop(objects);
            return page;
        }
        if page.choice.everything {
            page.remaining = match (&page.state, &page.after, call.namespace) {
                (State::Now(snapshot), None, None) => Some(snapshot.len(call.resource.row) - taken),
                _ => {
                    // One was found already.
                    let mut remaining = 1_usize;
                    for _ in objects.by_ref().take(REMAINING_MAX) {
                        remaining += 1;
                        if remaining.is_multiple_of(SCAN_MAX) {
                            call.host.yield_now().await;
                        }
                    }
                    (remaining <= REMAINING_MAX).then_some(remaining)
                }
            };
        }
        drop(objects);
        let relative = cut.as_deref().map(|path| match call.namespace {
            Some(namespace) => path.get(namespace.len() + 1..).unwrap_or_default(),
            None => path,
        });
        let at = PageRevision::Exact(page.state.revision());
        page.token = relative.map(|key| Continuation::behind(key, at, call.epoch.line).encode());
        page.last = cut;
        page
    }

    /// Every object of the page that still matches, for a caller that acts on each.
    pub(super) fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.state
            .objects(&self.choice, self.after.as_deref())
            .take_while(|object| self.last.as_deref().is_none_or(|last| object.key().path() <= last))
            .filter(|object| self.choice.takes(object))
    }

    /// Makes sure that the version of the resource can show every object: the list is written while it is sent.
    ///
    /// # Errors
    /// 500: it cannot show one.
    async fn check<H: Host>(&self, call: &Call<'_, H>) -> Result<(), Status> {
        if !call.resource.conversion.can_fail() || matches!(call.shape, Shape::Metadata(_)) {
            return Ok(());
        }
        let mut checked = 0;
        for object in self.objects() {
            let json = get::json(object)?;
            checked += json.len();
            call.resource.show(json).map_err(Status::unreadable)?;
            if checked >= PIECE_BYTES {
                checked = 0;
                call.host.yield_now().await;
            }
        }
        Ok(())
    }

    /// The bytes of all items in protobuf.
    ///
    /// # Errors
    /// 500: an object has no such form.
    async fn measure<H: Host>(&self, call: &Call<'_, H>) -> Result<usize, Status> {
        let (mut bytes, mut yielded, mut scanned) = (0, 0, 0_usize);
        for object in self.objects() {
            let message = items::message(call.catalog.registry.release(), call.resource, call.shape, object)
                .map_err(Status::unreadable)?;
            bytes += field_len(2, message.len());
            scanned += 1;
            // What is not kept in protobuf is made here.
            if bytes - yielded >= PIECE_BYTES || scanned.is_multiple_of(SCAN_MAX) {
                yielded = bytes;
                call.host.yield_now().await;
            }
        }
        Ok(bytes)
    }

    /// The list: complete if it is short, else in pieces.
    pub(super) async fn reply<H: Host>(self, call: &Call<'_, H>) -> Result<Reply, Status> {
        self.check(call).await?;
        let pen = match call.format {
            ResponseFormat::Json(Layout::Compact) => Pen::Compact,
            ResponseFormat::Json(Layout::Pretty) => Pen::Indented(Indent::default()),
            ResponseFormat::Yaml => Pen::Yaml,
            ResponseFormat::Protobuf => Pen::Protobuf { items: self.measure(call).await? },
        };
        let mut writer = ListWriter {
            catalog: Arc::clone(&call.catalog),
            resource: call.resource.view,
            shape: call.shape,
            pen,
            now: call.now_seconds(),
            page: self,
            stage: Stage::Opening,
            first: true,
            ready: Vec::new(),
            printed: Vec::new().into_iter(),
        };
        if matches!((call.shape, call.resource.printer), (Shape::Table(..), Printer::FlowSchemas)) {
            writer.printed = by_precedence(writer.page.objects()).unwrap_or_default().into_iter();
        }
        // Whether it is long enough for gzip must be known before its head is sent.
        let short = if call.head.accepts_gzip() { gzip::WHOLE_BYTES_MIN } else { WHOLE_BYTES_MAX };
        let mut body = Vec::new();
        while writer.append(&mut body) {
            if body.len() > short {
                break;
            }
            call.host.yield_now().await;
        }
        if body.len() <= WHOLE_BYTES_MAX {
            return Ok(Reply::FullBody(reply::whole(200, call.format.content_type(), body.into())));
        }
        let zipped = call.head.accepts_gzip() && body.len() > short;
        writer.ready = body;
        let pieces: Box<dyn StreamingBody> = Box::new(writer);
        if !zipped {
            return Ok(Reply::StreamingBody(pieces));
        }
        Ok(gzip::pieces(call.host, pieces, WHOLE_BYTES_MAX).await)
    }
}

/// The format of a list.
#[derive(Clone, Copy, Debug)]
enum Pen {
    /// JSON on one line.
    Compact,
    /// JSON on several lines, and their indent.
    Indented(Indent),
    Yaml,
    /// Protobuf, whose lengths come first: the bytes of all items.
    Protobuf {
        items: usize,
    },
}

/// The next part of a list to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Opening,
    Items,
    Done,
}

/// Writes a list piece by piece.
#[derive(Debug)]
struct ListWriter {
    catalog: Arc<Catalog>,
    resource: ViewId,
    shape: Shape,
    pen: Pen,
    now: i64,
    page: Page,
    stage: Stage,
    /// Whether no item was written yet.
    first: bool,
    /// Output that was made before the list was known to be long.
    ready: Vec<u8>,
    /// The objects whose cells are in the next rows of a Table, if these are not those of the rows' own objects.
    printed: std::vec::IntoIter<Arc<Object>>,
}

impl StreamingBody for ListWriter {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        if !self.ready.is_empty() {
            out.append(&mut std::mem::take(&mut self.ready));
            return true;
        }
        self.append(out)
    }

    fn content_type(&self) -> &'static str {
        match self.pen {
            Pen::Compact | Pen::Indented(_) => JSON,
            Pen::Yaml => YAML,
            Pen::Protobuf { .. } => PROTOBUF,
        }
    }
}

impl ListWriter {
    /// Appends the next piece; false when nothing is left.
    fn append(&mut self, out: &mut Vec<u8>) -> bool {
        let catalog = Arc::clone(&self.catalog);
        let Some(resource) = catalog.registry.view(self.resource) else { return false };
        let mut pen = self.pen;
        let mut printed = std::mem::take(&mut self.printed);
        match self.stage {
            Stage::Done => return false,
            Stage::Opening => {
                self.push_opening(&mut pen, out, resource);
                self.stage = Stage::Items;
            }
            Stage::Items => {}
        }
        let until = out.len() + PIECE_BYTES;
        let mut seen: Option<Arc<str>> = None;
        let mut ended = true;
        let mut objects = self.page.state.objects(&self.page.choice, self.page.after.as_deref());
        let mut scanned = 0;
        let mut scratch = Vec::new();
        for object in objects.by_ref() {
            if self.page.last.as_deref().is_some_and(|last| object.key().path() > last) {
                break;
            }
            scanned += 1;
            if self.page.choice.takes(object) {
                let item = Item { shape: self.shape, object, printed: printed.next() };
                self.push_item(&mut pen, out, &mut scratch, resource, &item);
                self.first = false;
            }
            if out.len() >= until || scanned == SCAN_MAX {
                seen = Some(object.key().shared_path());
                ended = false;
                break;
            }
        }
        drop(objects);
        if ended {
            match &mut pen {
                Pen::Compact => {
                    self.close(out, resource);
                    out.push(b'\n');
                }
                Pen::Indented(indent) => {
                    let mut closing = Vec::new();
                    self.close(&mut closing, resource);
                    indent.push(out, &closing);
                }
                Pen::Yaml => self.close_yaml(out, resource),
                Pen::Protobuf { .. } => Envelope::close(out),
            }
            self.stage = Stage::Done;
        } else {
            self.page.after = seen;
        }
        self.pen = pen;
        self.printed = printed;
        true
    }

    fn push_opening(&self, pen: &mut Pen, out: &mut Vec<u8>, resource: &ApiResource) {
        match pen {
            Pen::Compact => self.open(out, resource),
            Pen::Indented(indent) => {
                let mut opening = Vec::new();
                self.open(&mut opening, resource);
                indent.push(out, &opening);
            }
            Pen::Yaml => self.open_yaml(out, resource),
            Pen::Protobuf { items } => self.open_protobuf(out, resource, *items),
        }
    }

    /// Appends what comes before the items: the envelope, and the list's metadata.
    fn open_protobuf(&self, out: &mut Vec<u8>, resource: &ApiResource, items: usize) {
        let (kind, api_version) = match self.shape {
            Shape::Metadata(version) => ("PartialObjectMetadataList", version.api_version()),
            Shape::Object | Shape::Table(..) => (resource.list_kind.as_str(), resource.api_version()),
        };
        let mut metadata = Vec::new();
        // `selfLink`, which is always empty, `resourceVersion`, and `continue`.
        push_field(&mut metadata, 1, b"");
        push_field(&mut metadata, 2, self.page.state.revision().to_string().as_bytes());
        push_field(&mut metadata, 3, self.page.token.as_deref().unwrap_or_default().as_bytes());
        if let Some(remaining) = self.page.remaining {
            push_number(&mut metadata, 4, remaining as u64);
        }
        Envelope::open(out, (api_version, kind), field_len(1, metadata.len()) + items);
        push_field(out, 1, &metadata);
    }

    /// Appends one item, and the separator before it. `scratch` is used for its allocation only.
    fn push_item(
        &self,
        pen: &mut Pen,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
        resource: &ApiResource,
        item: &Item<'_>,
    ) {
        scratch.clear();
        match pen {
            Pen::Compact => {
                if !self.first {
                    out.push(b',');
                }
                item.push(out, resource, self.now);
            }
            Pen::Indented(indent) => {
                if !self.first {
                    indent.push(out, b",");
                }
                item.push(scratch, resource, self.now);
                indent.push_value(out, scratch);
            }
            Pen::Protobuf { .. } => {
                // It had a form when it was measured.
                push_field(
                    out,
                    2,
                    &items::message(self.catalog.registry.release(), resource, self.shape, item.object)
                        .unwrap_or_default(),
                );
            }
            Pen::Yaml => {
                if self.first {
                    out.extend_from_slice(self.items_key());
                    out.extend_from_slice(b":\n");
                }
                item.push(scratch, resource, self.now);
                yaml::push_item(out, scratch);
            }
        }
    }

    /// Whether the list's members are in the order of their names, its metadata after the items: those of custom resources are
    /// (recording 36).
    fn is_sorted(&self, resource: &ApiResource) -> bool {
        self.shape == Shape::Object && resource.printer == Printer::Custom
    }

    fn open(&self, out: &mut Vec<u8>, resource: &ApiResource) {
        match self.shape {
            Shape::Object if self.is_sorted(resource) => {
                let api_version = resource.api_version();
                out.extend_from_slice(format!("{{\"apiVersion\":\"{api_version}\",\"items\":[").as_bytes());
                return;
            }
            Shape::Object => opening(out, &resource.list_kind, resource.api_version()),
            Shape::Metadata(version) => opening(out, "PartialObjectMetadataList", version.api_version()),
            Shape::Table(version, _) => encode::open_table(out, version),
        }
        out.extend_from_slice(format!("\"resourceVersion\":\"{}\"", self.page.state.revision()).as_bytes());
        if let Some(token) = &self.page.token {
            out.extend_from_slice(format!(",\"continue\":\"{token}\"").as_bytes());
        }
        if let Some(remaining) = self.page.remaining {
            out.extend_from_slice(format!(",\"remainingItemCount\":{remaining}").as_bytes());
        }
        out.extend_from_slice(b"},");
        match self.shape {
            Shape::Object | Shape::Metadata(_) => out.extend_from_slice(b"\"items\":["),
            Shape::Table(..) => encode::open_rows(out, resource, true),
        }
    }

    fn close(&self, out: &mut Vec<u8>, resource: &ApiResource) {
        out.push(b']');
        if self.is_sorted(resource) {
            let token = self.page.token.as_deref().unwrap_or_default();
            let kind = &resource.list_kind;
            out.extend_from_slice(
                format!(",\"kind\":\"{kind}\",\"metadata\":{{\"continue\":\"{token}\"").as_bytes(),
            );
            if let Some(remaining) = self.page.remaining {
                out.extend_from_slice(format!(",\"remainingItemCount\":{remaining}").as_bytes());
            }
            out.extend_from_slice(
                format!(",\"resourceVersion\":\"{}\"}}", self.page.state.revision()).as_bytes(),
            );
        }
        out.push(b'}');
    }
}

/// In YAML keys are sorted: some come before the items, some after them.
impl ListWriter {
    const fn items_key(&self) -> &'static [u8] {
        match self.shape {
            Shape::Object | Shape::Metadata(_) => b"items",
            Shape::Table(..) => b"rows",
        }
    }

    fn open_yaml(&self, out: &mut Vec<u8>, resource: &ApiResource) {
        match self.shape {
            Shape::Object => yaml::push(out, &json!({"apiVersion": resource.api_version()})),
            Shape::Metadata(version) => yaml::push(out, &json!({"apiVersion": version.api_version()})),
            Shape::Table(version, _) => {
                let mut columns = Vec::new();
                table::append_column_definitions(&mut columns, resource);
                let columns: Value = serde_json::from_slice(&columns).unwrap_or_default();
                let (version, metadata) = (version.api_version(), self.metadata());
                let head = json!({"apiVersion": version, "columnDefinitions": columns, "kind": "Table", "metadata": metadata});
                yaml::push(out, &head);
            }
        }
    }

    fn close_yaml(&self, out: &mut Vec<u8>, resource: &ApiResource) {
        if self.first {
            out.extend_from_slice(self.items_key());
            out.extend_from_slice(b": []\n");
        }
        let kind = match self.shape {
            Shape::Object => &resource.list_kind,
            Shape::Metadata(_) => "PartialObjectMetadataList",
            Shape::Table(..) => return,
        };
        let mut metadata = self.metadata();
        if self.is_sorted(resource) {
            metadata["continue"] = self.page.token.as_deref().unwrap_or_default().into();
        }
        yaml::push(out, &json!({"kind": kind, "metadata": metadata}));
    }

    fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.page.state.revision().to_string()});
        if let Some(token) = &self.page.token {
            metadata["continue"] = token.as_str().into();
        }
        if let Some(remaining) = self.page.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        metadata
    }
}

/// Appends a list up to the brace of its metadata. Kinds and versions need no escapes: the registry checks them.
fn opening(out: &mut Vec<u8>, kind: &str, api_version: &str) {
    out.extend_from_slice(
        format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{{").as_bytes(),
    );
}
