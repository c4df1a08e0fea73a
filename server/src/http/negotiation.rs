//! Content negotiation: from `Accept` to the form of the response.
//!
//! Owns which forms exist and how a client's list is read (RFC 9110, section 12.5.1; apiserver `handlers/negotiation`).
//! It never writes a body.

use super::status::Status;

/// The available media types, as a 406 lists them.
pub const REPRESENTATIONS: [&str; 5] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
/// Those of objects and lists.
const OBJECTS: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
/// Those of a watch.
const STREAMS: [&str; 2] =
    ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

/// Clauses of an `Accept` that are read; of more clauses the first ones count.
const CLAUSES_MAX: usize = 64;

/// The version of `meta.k8s.io` of a Table or partial metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVersion {
    /// `meta.k8s.io/v1`.
    V1,
    /// `meta.k8s.io/v1beta1`.
    V1beta1,
}

impl MetaVersion {
    /// The `apiVersion` of the response.
    #[must_use]
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What an object, a list or an event's object is converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The object itself.
    Object,
    /// A `Table`: what kubectl prints.
    Table(MetaVersion),
    /// `PartialObjectMetadata`.
    Metadata(MetaVersion),
    /// `PartialObjectMetadataList`; in a watch each object is a `PartialObjectMetadata`.
    MetadataList(MetaVersion),
}

/// The encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// `application/json`.
    Json,
    /// `application/yaml`, which is not available for streams.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`: objects of built-in resources, metadata, and errors.
    Protobuf,
}

impl Media {
    /// In the server's order of preference.
    const ALL: [Self; 3] = [Self::Json, Self::Yaml, Self::Protobuf];
}

/// The agreed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The form.
    pub form: Form,
    /// The media type.
    pub media: Media,
    /// Whether the clause asked for pretty JSON: `application/json;pretty=1`.
    pub pretty: bool,
}

/// The form of `/api` and `/apis` (KEP-3352; kubectl up to 1.29 knows v2beta1 only).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiscoveryForm {
    /// All groups and resources in one answer, `apidiscovery.k8s.io/v2`.
    AggregatedV2,
    /// The same, `apidiscovery.k8s.io/v2beta1`.
    AggregatedV2beta1,
    /// `APIVersions` and `APIGroupList`.
    Plain,
}

impl DiscoveryForm {
    /// The `Content-Type` of the response; clients compare it with what they asked for (recording 19).
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::AggregatedV2 => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            Self::AggregatedV2beta1 => {
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
            }
            Self::Plain => "application/json",
        }
    }

    /// The same in protobuf (recording 31).
    #[must_use]
    pub const fn protobuf_content_type(self) -> &'static str {
        match self {
            Self::AggregatedV2 => {
                "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
            Self::AggregatedV2beta1 => {
                "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
            }
            Self::Plain => "application/vnd.kubernetes.protobuf",
        }
    }
}

/// Nothing available is acceptable to the client: 406.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAcceptable {
    /// None of the media types (recording 12).
    Media,
    /// An available media type, but with unavailable parameters (`as`, `stream`), or refused (`q=0`).
    Form,
    /// A watch in a form that has no streams (recording 17).
    Stream,
    /// A document that is available in JSON only.
    Document,
    /// None of the media types of one object (recording 31).
    Object,
}

impl NotAcceptable {
    /// The response.
    #[must_use]
    pub fn status(self) -> Status {
        match self {
            Self::Media => Status::not_acceptable(&REPRESENTATIONS),
            Self::Form => Status::not_accepted(&OBJECTS),
            Self::Stream => Status::not_accepted(&STREAMS),
            Self::Document => Status::not_acceptable(&OBJECTS[..1]),
            Self::Object => Status::not_acceptable(&OBJECTS),
        }
    }
}

const DEFAULT: Agreed = Agreed { form: Form::Object, media: Media::Json, pretty: false };

/// Whether the objects of a resource have a form in protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objects {
    /// They have: those of built-in resources.
    Protobuf,
    /// They have not: custom resources. Their metadata has.
    NoProtobuf,
}

impl Objects {
    fn have(self, agreed: Agreed) -> bool {
        self == Self::Protobuf || agreed.media != Media::Protobuf || agreed.form != Form::Object
    }
}

/// Agrees on the form of an object or a list. Without a header, or with an empty one, it is JSON.
///
/// # Errors
/// [`NotAcceptable`] when every clause asks for something else: CBOR, an unknown `as`, ...
pub fn negotiate(accept: Option<&str>, objects: Objects) -> Result<Agreed, NotAcceptable> {
    choose(accept, DEFAULT, |clause, media| agree(clause, media).filter(|agreed| objects.have(*agreed)))
}

/// Agrees on the form of a stream's objects, after one of an object was agreed on.
///
/// # Errors
/// [`NotAcceptable::Stream`] when every clause asks for a form without streams: YAML.
pub fn negotiate_stream(accept: Option<&str>, objects: Objects) -> Result<Agreed, NotAcceptable> {
    let streamed = |clause: &Clause<'_>, media| {
        agree(clause, media).filter(|agreed| agreed.media != Media::Yaml && objects.have(*agreed))
    };
    choose(accept, DEFAULT, streamed).map_err(|_| NotAcceptable::Stream)
}

/// The encoding of an error, which has one form only; `None`: the client accepts none, and gets pretty JSON
/// nevertheless (apiserver `responsewriters.WriteRawJSON`; recording 12).
#[must_use]
pub fn negotiate_error(accept: Option<&str>) -> Option<Agreed> {
    let plain =
        |clause: &Clause<'_>, media| agree(clause, media).filter(|agreed| agreed.form == Form::Object);
    choose(accept, DEFAULT, plain).ok()
}

/// Agrees on a document that is available in JSON only.
///
/// # Errors
/// [`NotAcceptable`] when the client does not accept JSON.
pub fn negotiate_document(accept: Option<&str>) -> Result<(), NotAcceptable> {
    let json = |clause: &Clause<'_>, media| agree(clause, media).filter(|agreed| agreed.media == Media::Json);
    choose(accept, DEFAULT, json).map(drop).map_err(|_| NotAcceptable::Document)
}

fn agree(clause: &Clause<'_>, media: Media) -> Option<Agreed> {
    let form = match clause.transform() {
        None => Form::Object,
        Some((kind, "meta.k8s.io", version)) => {
            let version = match version {
                "v1" => MetaVersion::V1,
                "v1beta1" => MetaVersion::V1beta1,
                _ => return None,
            };
            match kind {
                "Table" => Form::Table(version),
                "PartialObjectMetadata" => Form::Metadata(version),
                "PartialObjectMetadataList" => Form::MetadataList(version),
                _ => return None,
            }
        }
        Some(_) => return None,
    };
    if let (Form::Table(_), Media::Protobuf) = (form, media) {
        return None;
    }
    Some(Agreed { form, media, pretty: clause.param("pretty") == Some("1") })
}

/// Agrees on the form of `/api` or `/apis`.
///
/// # Errors
/// [`NotAcceptable`], as [`negotiate`].
pub fn negotiate_discovery(accept: Option<&str>) -> Result<(DiscoveryForm, Media), NotAcceptable> {
    let default = (DiscoveryForm::Plain, Media::Json);
    choose(accept, default, |clause, media| match (clause.transform(), media) {
        (None, media) => Some((DiscoveryForm::Plain, media)),
        (Some(_), Media::Yaml) => None,
        (Some(("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2")), media) => {
            Some((DiscoveryForm::AggregatedV2, media))
        }
        (Some(("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1")), media) => {
            Some((DiscoveryForm::AggregatedV2beta1, media))
        }
        (Some(_), _) => None,
    })
}

/// Agrees on the form of `/version`, which has none in protobuf (recording 31).
///
/// # Errors
/// [`NotAcceptable`] when the client accepts neither JSON nor YAML.
pub fn negotiate_version(accept: Option<&str>) -> Result<Media, NotAcceptable> {
    let text = |_: &Clause<'_>, media| (media != Media::Protobuf).then_some(media);
    choose(accept, Media::Json, text).map_err(|_| NotAcceptable::Document)
}

/// The first clause, in the client's order of preference, that `take` can serve.
fn choose<T>(
    accept: Option<&str>,
    default: T,
    take: impl Fn(&Clause<'_>, Media) -> Option<T>,
) -> Result<T, NotAcceptable> {
    let accept = accept.unwrap_or_default();
    if accept.trim().is_empty() {
        return Ok(default);
    }
    let mut clauses: Vec<Clause<'_>> =
        accept.split(',').take(CLAUSES_MAX).filter_map(Clause::parse).collect();
    // Stable: clauses of equal weight stay in the client's order.
    clauses.sort_by_key(|clause| std::cmp::Reverse((clause.quality, clause.range.exactness())));
    let offers = clauses.iter().filter(|clause| clause.quality > 0).flat_map(|clause| {
        Media::ALL.into_iter().filter(|media| clause.covers(*media)).map(move |media| (clause, media))
    });
    let found = offers.into_iter().find_map(|(clause, media)| take(clause, media));
    found.ok_or(if clauses.is_empty() { NotAcceptable::Media } else { NotAcceptable::Form })
}

/// How specific a media range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Range {
    Anything,
    Application,
    Exactly(Media),
}

impl Range {
    /// Among equal weights the more specific one is preferred.
    const fn exactness(self) -> u8 {
        match self {
            Self::Anything => 0,
            Self::Application => 1,
            Self::Exactly(_) => 2,
        }
    }
}

/// A clause of `Accept` that matches an available media type.
#[derive(Debug)]
struct Clause<'a> {
    range: Range,
    /// Thousandths.
    quality: u16,
    params: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (main, sub) = parts.next()?.split_once('/')?;
        let application = main.eq_ignore_ascii_case("application");
        let range = match (main, sub) {
            ("*", "*") => Range::Anything,
            (_, "*") if application => Range::Application,
            (_, sub) if application && sub.eq_ignore_ascii_case("json") => Range::Exactly(Media::Json),
            (_, sub) if application && sub.eq_ignore_ascii_case("yaml") => Range::Exactly(Media::Yaml),
            (_, sub) if application && sub.eq_ignore_ascii_case("vnd.kubernetes.protobuf") => {
                Range::Exactly(Media::Protobuf)
            }
            _ => return None,
        };
        let mut clause = Self { range, quality: 1000, params: Vec::new() };
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (name, value) = (name.trim(), value.trim().trim_matches('"'));
            if name.eq_ignore_ascii_case("q") {
                clause.quality = quality(value);
            } else {
                clause.params.push((name, value));
            }
        }
        Some(clause)
    }

    /// Whether the client accepts this media type by this clause; YAML has no streams.
    fn covers(&self, media: Media) -> bool {
        let named = match self.range {
            Range::Anything | Range::Application => true,
            Range::Exactly(one) => one == media,
        };
        named
            && match self.param("stream") {
                None | Some("") => true,
                Some("watch") => media != Media::Yaml,
                Some(_) => false,
            }
    }

    fn param(&self, name: &str) -> Option<&'a str> {
        self.params.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// `as`, `g` and `v`, if one of them is present.
    fn transform(&self) -> Option<(&'a str, &'a str, &'a str)> {
        let (kind, group, version) = (self.param("as"), self.param("g"), self.param("v"));
        (kind.is_some() || group.is_some() || version.is_some())
            .then(|| (kind.unwrap_or_default(), group.unwrap_or_default(), version.unwrap_or_default()))
    }
}

/// A quality value in thousandths (RFC 9110, section 12.4.2); an invalid one counts as 1.
fn quality(text: &str) -> u16 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return 1000;
    }
    match whole {
        "0" => format!("{fraction:0<3}").parse().unwrap_or(1000),
        _ => 1000,
    }
}

#[cfg(test)]
mod tests {
    use super::super::status::Layout;
    use super::super::text::noise::Noise;
    use super::*;

    fn form(accept: &str) -> Option<Form> {
        negotiate(Some(accept), Objects::NoProtobuf).ok().map(|agreed| agreed.form)
    }

    fn objects(accept: &str) -> Result<Agreed, NotAcceptable> {
        negotiate(Some(accept), Objects::Protobuf)
    }

    fn streams(accept: &str) -> Result<Agreed, NotAcceptable> {
        stream(accept, Objects::Protobuf)
    }

    fn stream(accept: &str, objects: Objects) -> Result<Agreed, NotAcceptable> {
        negotiate(Some(accept), objects)?;
        negotiate_stream(Some(accept), objects)
    }

    const TABLE_V1: Option<Form> = Some(Form::Table(MetaVersion::V1));

    #[test]
    fn what_real_clients_send() {
        assert_eq!(negotiate(None, Objects::Protobuf), Ok(DEFAULT), "kube-rs sends none");
        for accept in [
            "",
            "application/json",
            "application/json, */*",
            "application/json, */*;q=0.8",
            "*/*",
            "application/vnd.kubernetes.protobuf,application/json",
            "application/vnd.kubernetes.protobuf, */*",
            "APPLICATION/Json",
            "application/*",
            "application/json;stream=watch",
            "application/json;charset=utf-8",
            "text/html, application/xhtml+xml, */*;q=0.8",
        ] {
            assert_eq!(form(accept), Some(Form::Object), "{accept:?}");
        }
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(form(kubectl), TABLE_V1);
        assert_eq!(
            form("application/json;as=Table;v=v1beta1;g=meta.k8s.io"),
            Some(Form::Table(MetaVersion::V1beta1))
        );
        assert_eq!(form("application/json;as=Table;v=v2;g=meta.k8s.io,application/json"), Some(Form::Object));
        for (kind, wanted) in [
            ("PartialObjectMetadata", Form::Metadata(MetaVersion::V1)),
            ("PartialObjectMetadataList", Form::MetadataList(MetaVersion::V1)),
        ] {
            let accept = format!("application/json; as={kind}; v=v1; g=meta.k8s.io");
            assert_eq!(form(&accept), Some(wanted));
            let metadata_informer = format!(
                "application/vnd.kubernetes.protobuf;as={kind};g=meta.k8s.io;v=v1,{accept},application/json"
            );
            assert_eq!(form(&metadata_informer), Some(wanted));
        }
    }

    #[test]
    fn what_cannot_be_had_is_406() {
        for accept in ["application/foo", "application/cbor", "text/*", "json", ","] {
            assert_eq!(objects(accept), Err(NotAcceptable::Media), "{accept:?}");
            assert_eq!(streams(accept), Err(NotAcceptable::Media), "{accept:?}");
            assert_eq!(negotiate_error(Some(accept)), None, "{accept:?}");
        }
        for accept in [
            "application/json;q=0",
            "*/*;q=0.000",
            "application/json;as=Foo;v=v1;g=meta.k8s.io",
            "application/json;as=Table",
            "application/json;v=v1",
            "application/json;stream=other",
            "application/yaml;stream=watch",
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
            "application/vnd.kubernetes.protobuf;as=Nope;v=v1;g=meta.k8s.io",
        ] {
            assert_eq!(objects(accept), Err(NotAcceptable::Form), "{accept:?}");
        }
        let body = |why: NotAcceptable| {
            let status = why.status();
            assert_eq!(status.code(), 406);
            String::from_utf8(status.to_body(Layout::Compact)).expect("text")
        };
        assert!(body(NotAcceptable::Media).contains(
            r#""message": "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch","#
        ));
        assert_eq!(
            body(NotAcceptable::Stream).trim_end(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch","reason":"NotAcceptable","code":406}"#
        );
    }

    #[test]
    fn protobuf_is_for_what_has_a_type() {
        let protobuf = "application/vnd.kubernetes.protobuf";
        let media = |accept: &str, objects| negotiate(Some(accept), objects).map(|agreed| agreed.media);
        for (accept, built_in, custom) in [
            (protobuf, Ok(Media::Protobuf), Err(NotAcceptable::Form)),
            ("application/vnd.kubernetes.protobuf,application/json", Ok(Media::Protobuf), Ok(Media::Json)),
            (
                "application/json;q=0.5,application/vnd.kubernetes.protobuf;q=0.9",
                Ok(Media::Protobuf),
                Ok(Media::Json),
            ),
            ("application/json,application/vnd.kubernetes.protobuf", Ok(Media::Json), Ok(Media::Json)),
            ("text/html,application/vnd.kubernetes.protobuf", Ok(Media::Protobuf), Err(NotAcceptable::Form)),
            (
                "application/vnd.kubernetes.protobuf;type=v1.ConfigMap",
                Ok(Media::Protobuf),
                Err(NotAcceptable::Form),
            ),
            (
                "application/vnd.kubernetes.protobuf;stream=watch",
                Ok(Media::Protobuf),
                Err(NotAcceptable::Form),
            ),
            ("*/*", Ok(Media::Json), Ok(Media::Json)),
        ] {
            assert_eq!(media(accept, Objects::Protobuf), built_in, "{accept}");
            assert_eq!(media(accept, Objects::NoProtobuf), custom, "{accept}");
            assert_eq!(streams(accept).map(|agreed| agreed.media), built_in, "{accept}");
            assert_eq!(stream(accept, Objects::NoProtobuf).map(|agreed| agreed.media), custom, "{accept}");
        }
        let metadata = format!("{protobuf};as=PartialObjectMetadata;v=v1;g=meta.k8s.io");
        let agreed = Agreed { form: Form::Metadata(MetaVersion::V1), media: Media::Protobuf, pretty: false };
        assert_eq!(negotiate(Some(&metadata), Objects::NoProtobuf), Ok(agreed), "custom resources too");
        assert_eq!(negotiate_error(Some(protobuf)).map(|agreed| agreed.media), Some(Media::Protobuf));
        assert_eq!(negotiate_document(Some(protobuf)), Err(NotAcceptable::Document));
    }

    #[test]
    fn yaml_is_for_all_but_streams() {
        let media = |accept: &str| objects(accept).map(|agreed| (agreed.media, agreed.form));
        assert_eq!(media("application/yaml"), Ok((Media::Yaml, Form::Object)));
        assert_eq!(media("APPLICATION/YAML;q=0.5"), Ok((Media::Yaml, Form::Object)));
        assert_eq!(media("application/yaml, application/json"), Ok((Media::Yaml, Form::Object)));
        assert_eq!(media("application/yaml;q=0.9, application/json"), Ok((Media::Json, Form::Object)));
        assert_eq!(media("application/yaml, */*"), Ok((Media::Yaml, Form::Object)), "the exact one");
        for accept in ["*/*", "application/*", "application/json, application/yaml"] {
            assert_eq!(media(accept), Ok((Media::Json, Form::Object)), "{accept}");
        }
        let table = "application/yaml;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(media(table), Ok((Media::Yaml, Form::Table(MetaVersion::V1))));
        assert_eq!(streams("application/yaml"), Err(NotAcceptable::Stream));
        assert_eq!(streams(table), Err(NotAcceptable::Stream));
        assert_eq!(streams("application/yaml, application/json"), Ok(DEFAULT));
        assert_eq!(negotiate_document(Some("application/yaml")), Err(NotAcceptable::Document));
        assert_eq!(negotiate_document(Some("application/yaml, */*;q=0.1")), Ok(()));
        // Errors have one form only.
        let error = |accept: &str| negotiate_error(Some(accept)).map(|agreed| agreed.media);
        assert_eq!(error("application/yaml"), Some(Media::Yaml));
        assert_eq!(error(table), None);
        assert_eq!(error(&format!("{table}, application/json")), Some(Media::Json));
        assert_eq!(negotiate_error(None), Some(DEFAULT));
    }

    #[test]
    fn the_dearest_comes_first() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(form(&format!("{table};q=0.5, application/json")), Some(Form::Object));
        assert_eq!(form(&format!("application/json;q=0.5, {table};q=0.9")), TABLE_V1);
        assert_eq!(form(&format!("*/*, {table}")), TABLE_V1, "the exact one among equals");
        assert_eq!(form(&format!("application/json, {table}")), Some(Form::Object), "the first among equals");
        assert_eq!(form(&format!("application/json;q=0.001, {table};q=0")), Some(Form::Object));
        for (text, thousandths) in [
            ("1", 1000),
            ("1.000", 1000),
            ("0", 0),
            ("0.", 0),
            ("0.5", 500),
            ("0.05", 50),
            ("0.999", 999),
            ("x", 1000),
            ("0.1234", 1000),
            ("0.+1", 1000),
            ("-1", 1000),
        ] {
            assert_eq!(quality(text), thousandths, "{text}");
        }
    }

    #[test]
    fn pretty_may_be_in_the_clause() {
        assert_eq!(objects("application/json;pretty=1").map(|agreed| agreed.pretty), Ok(true));
        assert_eq!(objects("application/json;pretty=0").map(|agreed| agreed.pretty), Ok(false));
    }

    #[test]
    fn the_forms_of_discovery() {
        let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let v2beta1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        let both = |accept: &str| negotiate_discovery(Some(accept));
        let ask = |accept: &str| both(accept).map(|(form, _)| form);
        assert_eq!(ask(&format!("{v2},{v2beta1},application/json")), Ok(DiscoveryForm::AggregatedV2));
        assert_eq!(
            ask(&format!("{v2beta1},application/json")),
            Ok(DiscoveryForm::AggregatedV2beta1),
            "kubectl 1.27"
        );
        assert_eq!(ask("application/json, */*"), Ok(DiscoveryForm::Plain), "kubectl 1.20");
        assert_eq!(negotiate_discovery(None), Ok((DiscoveryForm::Plain, Media::Json)));
        assert_eq!(
            ask("application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io;profile=x"),
            Ok(DiscoveryForm::AggregatedV2)
        );
        assert_eq!(
            ask("application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList"),
            Err(NotAcceptable::Form)
        );
        assert_eq!(both("application/yaml"), Ok((DiscoveryForm::Plain, Media::Yaml)));
        assert_eq!(ask(&v2.replace("json", "yaml")), Err(NotAcceptable::Form));
        let protobuf = |text: &str| text.replace("application/json", "application/vnd.kubernetes.protobuf");
        for form in [DiscoveryForm::Plain, DiscoveryForm::AggregatedV2, DiscoveryForm::AggregatedV2beta1] {
            let accept = protobuf(form.content_type());
            assert_eq!(accept, form.protobuf_content_type());
            assert_eq!(both(&format!("{accept},{v2}")), Ok((form, Media::Protobuf)));
        }
        assert_eq!(both("*/*"), Ok((DiscoveryForm::Plain, Media::Json)));
        assert_eq!(negotiate_version(Some(&protobuf("application/json"))), Err(NotAcceptable::Document));
        assert_eq!(negotiate_version(Some("application/yaml")), Ok(Media::Yaml));
        assert_eq!(DiscoveryForm::AggregatedV2.content_type(), v2);
        assert_eq!(DiscoveryForm::AggregatedV2beta1.content_type(), v2beta1);
        assert_eq!(DiscoveryForm::Plain.content_type(), "application/json");
    }

    #[test]
    fn noise_never_panics() {
        let pieces: &[&[u8]] = &[
            b"application/json",
            b"*/*",
            b";",
            b",",
            b"as=Table",
            b"g=meta.k8s.io",
            b"v=v1",
            b"q=0.",
            b"=",
            b"\"",
        ];
        let mut agreed = 0;
        for seed in 0..20_000 {
            let mut noise = Noise(seed);
            let parts = noise.below(14);
            let accept = String::from_utf8_lossy(&noise.text(pieces, parts)).into_owned();
            agreed += u32::from(objects(&accept).is_ok());
            let _ = negotiate_discovery(Some(&accept));
        }
        assert!(agreed > 100, "the noise reaches agreement: {agreed}");
    }
}
