//! Content negotiation: from `Accept` to the form of the answer.
//!
//! Owns which forms there are and how a client's list is read (RFC 9110, section 12.5.1; apiserver
//! `handlers/negotiation`). It never writes a body.

use super::status::Status;

/// The media types that can be had; what a 406 lists.
pub const REPRESENTATIONS: [&str; 2] = ["application/json", "application/json;stream=watch"];

/// Clauses of an `Accept` that are read; a client that sends more means the first ones.
const CLAUSES_MAX: usize = 64;

/// The version of `meta.k8s.io` in which a Table or its like is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVersion {
    /// `meta.k8s.io/v1`.
    V1,
    /// `meta.k8s.io/v1beta1`.
    V1beta1,
}

impl MetaVersion {
    /// The `apiVersion` of the answer.
    #[must_use]
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What an object, a list or an event's object is turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Itself.
    Object,
    /// A `Table`: what kubectl prints.
    Table(MetaVersion),
    /// `PartialObjectMetadata`, or its list.
    Metadata(MetaVersion),
}

/// What was agreed on; the media type is always `application/json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The form.
    pub form: Form,
    /// Whether the clause asked for pretty JSON: `application/json;pretty=1`.
    pub pretty: bool,
}

/// The form of `/api` and `/apis` (KEP-3352; which clients ask for what: kubectl up to 1.29 knows v2beta1 only).
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
    /// The `Content-Type` of the answer; clients compare it with what they asked (recording 19).
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
}

/// None of the forms that there are is acceptable to the client: 406.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAcceptable;

impl NotAcceptable {
    /// The response.
    #[must_use]
    pub fn status(self) -> Status {
        Status::not_acceptable(&REPRESENTATIONS)
    }
}

/// Agrees on the form of an object, a list or a stream. Nothing asked, or nothing in the header, is JSON.
///
/// # Errors
/// [`NotAcceptable`] when all that is asked is something else: YAML, protobuf, CBOR, an unknown `as`, ...
pub fn negotiate(accept: Option<&str>) -> Result<Agreed, NotAcceptable> {
    choose(accept, Agreed { form: Form::Object, pretty: false }, |clause| {
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
                    "PartialObjectMetadata" | "PartialObjectMetadataList" => Form::Metadata(version),
                    _ => return None,
                }
            }
            Some(_) => return None,
        };
        Some(Agreed { form, pretty: clause.param("pretty") == Some("1") })
    })
}

/// Agrees on the form of `/api` or `/apis`.
///
/// # Errors
/// [`NotAcceptable`], as [`negotiate`].
pub fn negotiate_discovery(accept: Option<&str>) -> Result<DiscoveryForm, NotAcceptable> {
    choose(accept, DiscoveryForm::Plain, |clause| match clause.transform() {
        None => Some(DiscoveryForm::Plain),
        Some(("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2")) => Some(DiscoveryForm::AggregatedV2),
        Some(("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1")) => {
            Some(DiscoveryForm::AggregatedV2beta1)
        }
        Some(_) => None,
    })
}

/// The first clause, in the client's order of preference, that `take` can serve.
fn choose<T>(
    accept: Option<&str>,
    default: T,
    take: impl Fn(&Clause<'_>) -> Option<T>,
) -> Result<T, NotAcceptable> {
    let accept = accept.unwrap_or_default();
    if accept.trim().is_empty() {
        return Ok(default);
    }
    let mut clauses: Vec<Clause<'_>> =
        accept.split(',').take(CLAUSES_MAX).filter_map(Clause::parse).collect();
    // Stable: clauses that are equally dear stay in the client's order.
    clauses.sort_by_key(|clause| std::cmp::Reverse((clause.quality, clause.range)));
    clauses.iter().filter(|clause| clause.quality > 0).find_map(take).ok_or(NotAcceptable)
}

/// How much a media range names; the more exact is preferred among equals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Range {
    Anything,
    Application,
    Json,
}

/// A clause of `Accept` that matches `application/json`.
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
        let media = parts.next()?;
        let (main, sub) = media.split_once('/')?;
        let range = match (main, sub) {
            ("*", "*") => Range::Anything,
            (main, "*") if main.eq_ignore_ascii_case("application") => Range::Application,
            (main, sub) if main.eq_ignore_ascii_case("application") && sub.eq_ignore_ascii_case("json") => {
                Range::Json
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
        match clause.param("stream") {
            None | Some("" | "watch") => Some(clause),
            Some(_) => None,
        }
    }

    fn param(&self, name: &str) -> Option<&'a str> {
        self.params.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// `as`, `g` and `v`, when there is one of them.
    fn transform(&self) -> Option<(&'a str, &'a str, &'a str)> {
        let (kind, group, version) = (self.param("as"), self.param("g"), self.param("v"));
        (kind.is_some() || group.is_some() || version.is_some())
            .then(|| (kind.unwrap_or_default(), group.unwrap_or_default(), version.unwrap_or_default()))
    }
}

/// A quality value in thousandths (RFC 9110, section 12.4.2); what is none counts as 1.
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
        negotiate(Some(accept)).ok().map(|agreed| agreed.form)
    }

    const TABLE_V1: Option<Form> = Some(Form::Table(MetaVersion::V1));

    #[test]
    fn what_real_clients_send() {
        assert_eq!(negotiate(None), Ok(Agreed { form: Form::Object, pretty: false }), "kube-rs sends none");
        for accept in [
            "",
            "application/json",
            "application/json, */*",
            "application/json, */*;q=0.8",
            "*/*",
            "application/vnd.kubernetes.protobuf,application/json",
            "application/vnd.kubernetes.protobuf, */*",
            "application/yaml;q=1, application/json;q=0.1",
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
        for kind in ["PartialObjectMetadata", "PartialObjectMetadataList"] {
            let accept = format!("application/json; as={kind}; v=v1; g=meta.k8s.io");
            assert_eq!(form(&accept), Some(Form::Metadata(MetaVersion::V1)));
            let metadata_informer = format!(
                "application/vnd.kubernetes.protobuf;as={kind};g=meta.k8s.io;v=v1,{accept},application/json"
            );
            assert_eq!(form(&metadata_informer), Some(Form::Metadata(MetaVersion::V1)));
        }
    }

    #[test]
    fn what_cannot_be_had_is_406() {
        for accept in [
            "application/foo",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
            "application/cbor",
            "application/json;q=0",
            "*/*;q=0.000",
            "application/json;as=Foo;v=v1;g=meta.k8s.io",
            "application/json;as=Table",
            "application/json;v=v1",
            "application/json;stream=other",
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            "text/*",
            "json",
            ",",
        ] {
            assert_eq!(form(accept), None, "{accept:?}");
        }
        let status = NotAcceptable.status();
        assert_eq!(status.code(), 406);
        let body = String::from_utf8(status.to_body(Layout::Compact)).expect("text");
        assert!(body.contains(
            r#""message": "406: Not Acceptable\n\nAvailable representations: application/json, application/json;stream=watch","#
        ));
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
        assert_eq!(negotiate(Some("application/json;pretty=1")).map(|agreed| agreed.pretty), Ok(true));
        assert_eq!(negotiate(Some("application/json;pretty=0")).map(|agreed| agreed.pretty), Ok(false));
    }

    #[test]
    fn the_forms_of_discovery() {
        let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let v2beta1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        let ask = |accept: &str| negotiate_discovery(Some(accept));
        assert_eq!(ask(&format!("{v2},{v2beta1},application/json")), Ok(DiscoveryForm::AggregatedV2));
        assert_eq!(
            ask(&format!("{v2beta1},application/json")),
            Ok(DiscoveryForm::AggregatedV2beta1),
            "kubectl 1.27"
        );
        assert_eq!(ask("application/json, */*"), Ok(DiscoveryForm::Plain), "kubectl 1.20");
        assert_eq!(negotiate_discovery(None), Ok(DiscoveryForm::Plain));
        assert_eq!(
            ask("application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io;profile=x"),
            Ok(DiscoveryForm::AggregatedV2)
        );
        assert_eq!(
            ask("application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList"),
            Err(NotAcceptable)
        );
        assert_eq!(ask("application/yaml"), Err(NotAcceptable));
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
            agreed += u32::from(negotiate(Some(&accept)).is_ok());
            let _ = negotiate_discovery(Some(&accept));
        }
        assert!(agreed > 100, "the noise reaches agreement: {agreed}");
    }
}
