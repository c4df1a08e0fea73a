//! The semantics of requests: from a parsed head and a body to a [`Reply`].
//!
//! Owns the verbs of the Kubernetes API over a [`Host`] and the [`App`]. It does not use sockets or the runtime, and it never
//! holds a complete list in memory. A comment that names a recording, by its number, means a file of `tests/recorded`: what a real
//! kube-apiserver answered. Intended differences from it:
//!
//! - Objects are stored as received, or as their type in protobuf has them: there is no other schema, no admission and no garbage
//!   collection.
//!   `propagationPolicy` is accepted and does nothing.
//! - Namespaces need not exist to be used, and deleting one deletes nothing in it.
//! - `metadata.managedFields` has the entries of appliers only: see the module `owners`.
//! - Defaults are in a table at the top of the module `object`.

mod admit;
pub mod app;
mod apply;
mod collection;
mod create;
mod delete;
pub mod encode;
mod forward;
mod get;
mod gzip;
mod health;
mod items;
mod list;
mod names;
mod object;
mod options;
mod order;
mod owners;
mod patch;
mod payload;
mod precedence;
mod reply;
pub mod retire;
mod select;
mod served_here;
mod storage;
#[cfg(test)]
mod tests;
mod update;
mod upstream;
mod watch;
mod write;

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use revcast_engine::Object;
use revcast_engine::escape;
use revcast_engine::key::Key;
use revcast_engine::resource::{Codec, Resource};

use admit::admit;
pub use admit::{Admitted, Operator, admit_operator};
pub use app::{App, Freshness, Life};
pub use encode::Encoder;
pub use options::ServeOptions;
pub use patch::strategic;
pub use reply::holds;
pub use served_here::why_not_cached;
pub use storage::StorageMediaType;
pub use upstream::Upstream;

use crate::api::openapi;
use crate::api::printer::Printer;
use crate::api::resources::{ApiResource, StoredResource};
use crate::api::versions::Conversion;
use crate::auth::PeerCertificate;
use crate::catalog::Catalog;
use crate::frontend::{Admission, Budget, ByHost, Forwarding, Frontend, FullBody, Host, Instead, Reply};
use crate::http::negotiation::{self, DiscoveryForm, Form, Media, NotAcceptable, Objects};
use crate::http::options::{IncludeObject, ListOptions, OptionsError, Query, WatchOptions};
use crate::http::request::{BodyFraming, Method, RequestHead};
use crate::http::request_info::Verb;
use crate::http::response::JSON;
use crate::http::route::{ResourcePath, RouteError, Routed, Target};
use crate::http::status::{GroupResource, Layout, Status};
use crate::source::epoch::Epoch;
use crate::upstream::UpstreamError;
use encode::Shape;
use reply::ResponseFormat;

impl Frontend for App {
    type Admitted = Box<Admitted>;

    async fn admit<H: Host>(
        &self,
        host: &H,
        head: &RequestHead,
        routed: Routed,
        certificate: Option<PeerCertificate<'_>>,
        now: SystemTime,
    ) -> Admission<Box<Admitted>> {
        admit(self, host, head, routed, certificate, now).await
    }

    fn takes_body(&self, admitted: &Box<Admitted>) -> bool {
        let is_of_resource = matches!(
            admitted.target,
            Ok(Target::Collection { .. } | Target::Object { .. } | Target::Subresource { .. })
        );
        // What is refused, or of no resource, may not have a body as large as an object.
        admitted.access.is_some() && is_of_resource
    }

    fn is_health(&self, admitted: &Box<Admitted>) -> bool {
        matches!(admitted.target, Ok(Target::Health { .. }))
    }

    fn forwards(
        &self,
        head: &RequestHead,
        admitted: &Box<Admitted>,
    ) -> Option<Result<Forwarding, Box<FullBody>>> {
        forward::forwards(self, head, admitted)
    }

    async fn without_upstream<H: Host>(
        &self,
        host: &H,
        head: &RequestHead,
        admitted: &Box<Admitted>,
        error: &UpstreamError,
    ) -> Instead {
        forward::without_upstream(self, host, head, admitted, error).await
    }

    async fn handle<H: Host>(
        &self,
        host: &H,
        head: &RequestHead,
        admitted: &Box<Admitted>,
        body: Bytes,
        budget: &dyn Budget,
    ) -> Reply {
        let request = Request::new(self, host, head, admitted, budget);
        match request.answer(body).await.unwrap_or_else(|status| request.failed(&status)) {
            Reply::FullBody(whole) if gzip::is_worth_it(&whole) && head.accepts_gzip() => {
                Reply::FullBody(gzip::shrink(host, whole).await)
            }
            reply @ (Reply::FullBody(_)
            | Reply::StreamingBody(_)
            | Reply::PeriodicBody(_)
            | Reply::Refused(..)
            | Reply::Watch(_)) => reply,
        }
    }
}

/// A request before its resource is known.
struct Request<'a, H> {
    app: &'a App,
    /// What is served while the request is answered, also if that changes meanwhile.
    catalog: Arc<Catalog>,
    host: &'a H,
    head: &'a RequestHead,
    admitted: &'a Admitted,
    /// The request's budget of the memory that all requests share.
    budget: &'a dyn Budget,
    query: &'a Query,
    layout: Layout,
}

impl<'a, H: Host> Request<'a, H> {
    fn new(
        app: &'a App,
        host: &'a H,
        head: &'a RequestHead,
        admitted: &'a Admitted,
        budget: &'a dyn Budget,
    ) -> Self {
        // What was authorized is answered. A body may take longer than the objects of a resource are kept that is not served any more.
        let has_body = head.body != BodyFraming::None;
        let catalog = if has_body { app.catalog() } else { Arc::clone(&admitted.catalog) };
        let (query, layout) = (&head.query, admitted.layout);
        Self { app, catalog, host, head, admitted, budget, query, layout }
    }

    async fn answer(&self, body: Bytes) -> Result<Reply, Status> {
        let target = match &self.admitted.target {
            Ok(target) => target,
            Err(RouteError::Method { allow, of, everywhere }) => {
                return Ok(self.refuse(allow, of.as_ref(), *everywhere));
            }
            Err(error @ RouteError::Name { .. }) => return Err(error.status()),
        };
        match target {
            Target::Root => Ok(Reply::FullBody(reply::whole(200, JSON, self.catalog.root.clone()))),
            Target::Api => self.discovery("/api"),
            Target::Apis => self.discovery("/apis"),
            Target::ApiGroup(group) => self.plain_discovery(&format!("/apis/{group}")),
            Target::GroupVersion { group, version } if group.is_empty() => {
                self.plain_discovery(&format!("/api/{version}"))
            }
            Target::GroupVersion { group, version } => {
                self.plain_discovery(&format!("/apis/{group}/{version}"))
            }
            Target::Version => self.version(),
            Target::Health { check, sub } => Ok(health::handle(self.app, *check, sub.as_deref(), self.query)),
            Target::OpenApiV2 => self.openapi_v2(),
            Target::OpenApiV3Index => self.openapi("/openapi/v3"),
            Target::OpenApiV3 { path } => self.openapi(&format!("/openapi/v3/{path}")),
            Target::Unknown => Ok(reply::page_not_found()),
            Target::Collection { of, namespace } if !self.watches() => {
                let Some(resource) = self.resource(of)? else { return Ok(reply::page_not_found()) };
                let call = self.call(resource, namespace.as_deref())?;
                self.collection(&call, &body).await
            }
            // A watch, whichever of the two says so.
            Target::Collection { of, namespace } | Target::WatchCollection { of, namespace } => {
                let Some(resource) = self.resource(of)? else { return Ok(reply::page_not_found()) };
                let call = self.call(resource, namespace.as_deref())?;
                let options = WatchOptions::parse(self.query, call.schema()).map_err(OptionsError::status)?;
                watch::handle(&call, options, None).await
            }
            Target::Object { of, namespace, name } => {
                let Some(resource) = self.resource(of)? else { return Ok(reply::page_not_found()) };
                let call = self.call(resource, namespace.as_deref())?;
                self.object(&call, name, Part::All, &body).await
            }
            Target::Subresource { of, namespace, name, subresource } => {
                let Some(resource) = self.resource(of)? else { return Ok(reply::page_not_found()) };
                let call = self.call(resource, namespace.as_deref())?;
                if !resource.subresources.contains(subresource) {
                    return Err(Status::unknown_resource());
                }
                self.object(&call, name, Part::Status, &body).await
            }
            Target::WatchObject { of, namespace, name } => {
                let Some(resource) = self.resource(of)? else { return Ok(reply::page_not_found()) };
                let call = self.call(resource, namespace.as_deref())?;
                if call.is_nowhere() {
                    return Err(Status::unknown_resource());
                }
                let options = WatchOptions::parse(self.query, call.schema()).map_err(OptionsError::status)?;
                watch::handle(&call, options, Some(name)).await
            }
        }
    }

    /// Whether a read of a collection is a watch.
    fn watches(&self) -> bool {
        matches!(self.head.method, Method::Get | Method::Head) && self.query.watches()
    }

    /// The reply that is this error.
    fn failed(&self, status: &Status) -> Reply {
        reply::status(status, self.errors())
    }

    /// The format of an error.
    fn errors(&self) -> ResponseFormat {
        ResponseFormat::of_errors(self.head.accept.as_deref(), self.layout)
    }

    /// 405, unless the path names nothing that exists.
    fn refuse(&self, allow: &'static str, of: Option<&ResourcePath>, everywhere: bool) -> Reply {
        match of.map(|of| self.resource(of)) {
            Some(Ok(None)) => reply::page_not_found(),
            Some(Err(status)) => self.failed(&status),
            Some(Ok(Some(resource))) if everywhere && resource.namespaced => {
                reply::method_not_allowed("GET", self.errors())
            }
            Some(Ok(Some(_))) | None => reply::method_not_allowed(allow, self.errors()),
        }
    }

    async fn collection(&self, call: &Call<'_, H>, body: &Bytes) -> Result<Reply, Status> {
        match self.head.method {
            Method::Post | Method::Delete if call.is_nowhere() => {
                // A request over all namespaces can only read.
                Ok(reply::method_not_allowed("GET", self.errors()))
            }
            Method::Post => {
                call.shows_one()?;
                call.takes_writes()?;
                create::handle(call, body).await
            }
            Method::Delete => {
                call.shows_list()?;
                collection::delete(call, body).await
            }
            Method::Put | Method::Patch | Method::Options | Method::Trace | Method::Other => {
                Err(Status::method_not_allowed())
            }
            Method::Get | Method::Head => {
                let options = ListOptions::parse(self.query, call.schema()).map_err(OptionsError::status)?;
                call.shows_list()?;
                list::handle(call, options).await
            }
        }
    }

    async fn object(
        &self,
        call: &Call<'_, H>,
        name: &str,
        part: Part,
        body: &Bytes,
    ) -> Result<Reply, Status> {
        if call.is_nowhere() {
            return Err(Status::unknown_resource());
        }
        call.shows_one()?;
        if matches!(self.head.method, Method::Put | Method::Patch) {
            call.takes_writes()?;
        }
        match self.head.method {
            Method::Put => update::handle(call, name, part, body).await,
            Method::Patch => patch::handle(call, name, part, body).await,
            Method::Delete => delete::handle(call, name, body).await,
            Method::Get | Method::Head => get::handle(call, name).await,
            Method::Post | Method::Options | Method::Trace | Method::Other => {
                Err(Status::method_not_allowed())
            }
        }
    }

    fn discovery(&self, path: &str) -> Result<Reply, Status> {
        let (form, media) =
            negotiation::negotiate_discovery(self.head.accept.as_deref()).map_err(|e| e.status())?;
        let document = self.catalog.discovery.get(path, form).ok_or_else(Status::unknown_resource)?;
        Ok(reply::document(document, media, self.head.if_none_match.as_deref(), true))
    }

    fn plain_discovery(&self, path: &str) -> Result<Reply, Status> {
        let Some(document) = self.catalog.discovery.get(path, DiscoveryForm::Plain) else {
            return Ok(reply::page_not_found());
        };
        // Anything but a list of groups has one form; aggregated ones in the header mean nothing here.
        let (_, media) =
            negotiation::negotiate_discovery(self.head.accept.as_deref()).map_err(|e| e.status())?;
        Ok(reply::document(document, media, self.head.if_none_match.as_deref(), false))
    }

    fn version(&self) -> Result<Reply, Status> {
        let media = negotiation::negotiate_version(self.head.accept.as_deref()).map_err(|e| e.status())?;
        let document = self.catalog.discovery.version();
        Ok(reply::document(document, media, self.head.if_none_match.as_deref(), false))
    }

    fn openapi(&self, path: &str) -> Result<Reply, Status> {
        let Some(document) = self.catalog.openapi.get(path) else { return Ok(reply::page_not_found()) };
        // Some of these are long, and no known client asks for them in YAML.
        negotiation::negotiate_document(self.head.accept.as_deref()).map_err(|e| e.status())?;
        Ok(reply::document(document, Media::Json, self.head.if_none_match.as_deref(), false))
    }

    fn openapi_v2(&self) -> Result<Reply, Status> {
        let asked = self.head.accept.as_deref();
        if !asked.is_some_and(openapi::wants_protobuf) {
            negotiation::negotiate_document(asked).map_err(|e| e.status())?;
        }
        let document = self.catalog.openapi.v2(asked);
        Ok(reply::document(document, Media::Json, self.head.if_none_match.as_deref(), true))
    }

    /// The resource that a path names; `None`: its group and version are not served either (recording 12).
    fn resource(&self, of: &ResourcePath) -> Result<Option<&ApiResource>, Status> {
        let registry = &self.catalog.registry;
        match registry.find(&of.group, &of.version, &of.resource) {
            Some(resource) => Ok(Some(resource)),
            None if registry.iter().any(|r| r.group == of.group && r.version == of.version) => {
                Err(Status::unknown_resource())
            }
            None => Ok(None),
        }
    }

    /// 406, as Kubernetes words it for what is asked (recording 31).
    fn not_acceptable(&self, refused: NotAcceptable, resource: &ApiResource) -> Status {
        let is_object =
            matches!(self.admitted.target, Ok(Target::Object { .. } | Target::Subresource { .. }));
        let refused = match refused {
            NotAcceptable::Media if resource.printer == Printer::Custom => NotAcceptable::Form,
            NotAcceptable::Media if is_object => NotAcceptable::Object,
            NotAcceptable::Media
            | NotAcceptable::Form
            | NotAcceptable::Stream
            | NotAcceptable::Document
            | NotAcceptable::Object => refused,
        };
        refused.status()
    }

    /// The request, after its resource is known and served.
    fn call<'b>(
        &'b self,
        resource: &'b ApiResource,
        namespace: Option<&'b str>,
    ) -> Result<Call<'b, H>, Status> {
        // 404 would say that there is no such resource.
        if let Some(why) = self.app.why_in_other_etcd(resource.row) {
            return Err(Status::service_unavailable(why.to_owned(), 0));
        }
        // Read once: the request is answered from the epoch that was checked to be ready.
        let epoch = self.app.epoch();
        match self.app.life() {
            Life::Starting => return Err(Status::initializing(1)),
            Life::Serving | Life::Lingering if !epoch.is_ready() => return Err(Status::initializing(1)),
            Life::Serving | Life::Lingering => {}
            Life::Closing => {
                let why = "the server is closing: try again, another instance will answer".to_owned();
                return Err(Status::too_many_requests(why, 5));
            }
        }
        if namespace.is_some() && !resource.namespaced {
            return Err(Status::unknown_resource());
        }
        if !matches!(self.head.method, Method::Get | Method::Head) {
            self.app.takes_writes()?;
        }
        let row = self.app.catalogs().schema().get(resource.row);
        if row.codec != Codec::Kubernetes {
            let resource = row.qualified_plural();
            return Err(Status::unreadable(format!("{resource} cannot be served: the values are not JSON")));
        }
        let objects = if row.message.is_some() { Objects::Protobuf } else { Objects::NoProtobuf };
        let agreed = negotiation::negotiate(self.head.accept.as_deref(), objects)
            .map_err(|refused| self.not_acceptable(refused, resource))?;
        let include = match agreed.form {
            Form::Table(_) => IncludeObject::parse(self.query).map_err(OptionsError::status)?,
            Form::Object | Form::Metadata(_) | Form::MetadataList(_) => IncludeObject::default(),
        };
        Ok(Call {
            request: self,
            epoch,
            format: ResponseFormat::of(agreed, self.layout),
            form: agreed.form,
            objects,
            shape: Shape::new(agreed.form, include),
            resource,
            namespace,
        })
    }
}

/// The part of an object that a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// All of it.
    All,
    /// Its `status`.
    Status,
}

/// A request about objects of one resource.
struct Call<'a, H> {
    request: &'a Request<'a, H>,
    /// The epoch that the request is answered from, also if another one begins meanwhile.
    epoch: Arc<Epoch>,
    format: ResponseFormat,
    form: Form,
    /// Whether its objects have a form in protobuf.
    objects: Objects,
    shape: Shape,
    resource: &'a ApiResource,
    /// The namespace in the path; `None` also if the resource has none.
    namespace: Option<&'a str>,
}

impl<'a, H> Deref for Call<'a, H> {
    type Target = Request<'a, H>;

    fn deref(&self) -> &Request<'a, H> {
        self.request
    }
}

impl<H: Host> Call<'_, H> {
    /// Whether a namespaced resource is named without a namespace: the request cannot be for a single object.
    const fn is_nowhere(&self) -> bool {
        self.resource.namespaced && self.namespace.is_none()
    }

    fn key(&self, name: &str) -> Key {
        Key::new(self.resource.row, self.namespace, name)
    }

    /// The resource as its clients select from it.
    const fn schema(&self) -> &Resource {
        self.resource.selectable()
    }

    /// The engine's row of the resource.
    fn row(&self) -> &Resource {
        self.app.catalogs().schema().get(self.resource.row)
    }

    /// The version that the objects of the resource are kept in.
    fn kept_api_version(&self) -> &str {
        let stored = self.catalog.registry.get(self.resource.row);
        stored.map_or_else(|| self.resource.api_version(), StoredResource::api_version)
    }

    /// Refuses to write objects of a version that cannot be brought to the one that is kept.
    fn takes_writes(&self) -> Result<(), Status> {
        if self.resource.conversion.is_writable() { Ok(()) } else { Err(self.not_written("written")) }
    }

    /// 400: objects are not `written`, or `applied`, in this version.
    fn not_written(&self, how: &str) -> Status {
        let (kind, kept) = (&self.resource.kind, self.kept_api_version());
        Status::bad_request(format!(
            "a {kind} cannot be {how} as {}, which has other members than what is stored: write it as {kept}",
            self.resource.api_version()
        ))
    }

    fn group_resource(&self) -> GroupResource<'_> {
        GroupResource { group: &self.resource.group, resource: &self.resource.plural }
    }

    fn not_found(&self, name: &str) -> Status {
        Status::not_found(self.group_resource(), name)
    }

    /// 403 unless the client may also do this to the object of the request.
    async fn may(&self, verb: Verb) -> Result<(), Status> {
        let (access, _) = self.admitted.access.as_ref().ok_or_else(Status::unauthorized)?;
        let (upstream, access) = (ByHost(self.host), access.with_verb(verb));
        self.app.guard().authorize(&upstream, &self.admitted.visitor, &access).await.map(drop)
    }

    /// Refuses to show one object as a list (apiserver `handlers/response.go`); before anything is written.
    fn shows_one(&self) -> Result<(), Status> {
        match self.form {
            Form::MetadataList(_) => Err(Status::not_accepted_because(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                self.go_type("")
            ))),
            Form::Object | Form::Table(_) | Form::Metadata(_) => Ok(()),
        }
    }

    /// Refuses to show a list as one object.
    fn shows_list(&self) -> Result<(), Status> {
        match self.form {
            Form::Metadata(_) => Err(Status::not_accepted_because(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({})",
                self.go_type("List")
            ))),
            Form::Object | Form::Table(_) | Form::MetadataList(_) => Ok(()),
        }
    }

    /// The Go type in upstream's code: `*core.ConfigMapList`.
    fn go_type(&self, suffix: &str) -> String {
        if self.resource.printer == Printer::Custom {
            return format!("*unstructured.Unstructured{suffix}");
        }
        let package = match self.resource.group.split('.').next() {
            Some("" | "events") | None => "core",
            Some(package) => package,
        };
        format!("*{package}.{}{suffix}", self.resource.kind)
    }

    /// Wall time in seconds since the Unix epoch, for ages.
    fn now_seconds(&self) -> i64 {
        seconds(self.host.wall())
    }

    /// A stored object, in the negotiated form. The bytes of the version that is kept are sent without a copy.
    ///
    /// # Errors
    /// 500: it has no such form.
    fn show_stored(&self, code: u16, object: &Object) -> Result<Reply, Status> {
        let is_kept = matches!(self.resource.conversion, Conversion::Kept);
        if (self.shape, self.format) == (Shape::Object, ResponseFormat::Protobuf)
            && let Some(kept) = object.shared_protobuf()
            && self.resource.has_kept_members()
        {
            let body = if is_kept {
                kept
            } else {
                let renamed = self.resource.pack(Some(&kept), || Cow::Borrowed(b"null"));
                Bytes::from(renamed.map_err(Status::unreadable)?.into_owned())
            };
            return Ok(Reply::FullBody(reply::whole(code, self.format.content_type(), body)));
        }
        let stored = if self.shows_as_served() { object.shared_json() } else { None };
        Ok(match stored {
            Some(json) => self.as_served(code, json),
            None => self.show(code, &get::json(object)?),
        })
    }

    /// One object that was just written, as it is served from then on.
    fn show_written(&self, code: u16, json: Vec<u8>) -> Reply {
        if self.shows_as_served() { self.as_served(code, json.into()) } else { self.show(code, &json) }
    }

    /// Whether an object is shown as the engine serves it: on one line, escaped, and in the version that is kept.
    fn shows_as_served(&self) -> bool {
        matches!(self.resource.conversion, Conversion::Kept)
            && (self.shape, self.format) == (Shape::Object, ResponseFormat::Json(Layout::Compact))
    }

    fn as_served(&self, code: u16, json: Bytes) -> Reply {
        Reply::FullBody(FullBody { end: b"\n", ..reply::whole(code, self.format.content_type(), json) })
    }

    /// One object in the version that is kept, in the negotiated form. An object that was never stored is not escaped yet.
    fn show(&self, code: u16, json: &[u8]) -> Reply {
        let json = escape::escaped(json);
        let mut out = Vec::with_capacity(json.len() + 1);
        if let Err(why) = self.shape.append(&mut out, self.resource, &json, self.now_seconds(), true) {
            return reply::status(&Status::unreadable(why), self.format);
        }
        match self.format.body(out, self.catalog.registry.release()) {
            Ok(body) => Reply::FullBody(reply::whole(code, self.format.content_type(), body)),
            Err(status) => reply::status(&status, self.format),
        }
    }
}

/// Seconds since the Unix epoch; zero before it.
fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
