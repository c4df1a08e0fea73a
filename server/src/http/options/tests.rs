//! The rows of section 2 of the list/watch protocol, with errors as recorded.

use std::num::NonZeroU64;
use std::time::Duration;

use revcast_engine::resource::{Field, Resource};
use revcast_engine::revision::Revision;
use revcast_engine::selector::{FieldSelector, LabelSelector};

use super::*;
use crate::http::continuation::{Continuation, PageRevision};
use crate::http::text::noise::Noise;

fn query(raw: &str) -> Query {
    Query::parse(raw).expect("a query")
}

fn pods() -> Resource {
    Resource::new("v1", "Pod", true, vec![Field::at("spec.nodeName")])
}

/// What a GET on a collection requests.
#[derive(Debug)]
enum CollectionRead {
    List(ListOptions),
    Watch(WatchOptions),
}

fn read(raw: &str) -> Result<CollectionRead, OptionsError> {
    read_query(&query(raw))
}

fn read_query(query: &Query) -> Result<CollectionRead, OptionsError> {
    if query.watches() {
        WatchOptions::parse(query, &pods()).map(CollectionRead::Watch)
    } else {
        ListOptions::parse(query, &pods()).map(CollectionRead::List)
    }
}

fn list(raw: &str) -> ListOptions {
    match read(raw) {
        Ok(CollectionRead::List(options)) => options,
        other => panic!("{raw}: {other:?}"),
    }
}

fn watch(raw: &str) -> WatchOptions {
    match read(raw) {
        Ok(CollectionRead::Watch(options)) => options,
        other => panic!("{raw}: {other:?}"),
    }
}

fn limit(n: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(n)
}

const TOKEN_74: &str = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NzQsInN0YXJ0IjoiL2NtMlx1MDAwMCJ9";
const TOKEN_LATEST: &str = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiY20yXHUwMDAwIn0";

/// Recordings 02, 05 and 08: query, code, body.
const RECORDED_ERRORS: &[(&str, u16, &str)] = &[
    (
        "limit=2&continue=abc",
        400,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"invalid continue token: continue key is not valid: invalid character 'i' looking for beginning of value","reason":"BadRequest","code":400}"#,
    ),
    (
        "limit=2&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NzQsInN0YXJ0IjoiL2NtMlx1MDAwMCJ9&resourceVersion=5",
        400,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"specifying resource version is not allowed when using continue","reason":"BadRequest","code":400}"#,
    ),
    (
        "limit=2&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NzQsInN0YXJ0IjoiL2NtMlx1MDAwMCJ9&resourceVersionMatch=Exact",
        422,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided]","reason":"Invalid","details":{"group":"meta.k8s.io","kind":"ListOptions","causes":[{"reason":"FieldValueForbidden","message":"Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided","field":"resourceVersionMatch"},{"reason":"FieldValueForbidden","message":"Forbidden: resourceVersionMatch is forbidden when continue is provided","field":"resourceVersionMatch"}]},"code":422}"#,
    ),
    (
        "limit=x",
        400,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"strconv.ParseInt: parsing \"x\": invalid syntax","reason":"BadRequest","code":400}"#,
    ),
    (
        "watch=true&sendInitialEvents=true&timeoutSeconds=1",
        422,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan","reason":"Invalid","details":{"group":"meta.k8s.io","kind":"ListOptions","causes":[{"reason":"FieldValueForbidden","message":"Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan","field":"resourceVersionMatch"}]},"code":422}"#,
    ),
    (
        "watch=true&sendInitialEvents=true&resourceVersionMatch=Exact&timeoutSeconds=1",
        422,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"]","reason":"Invalid","details":{"group":"meta.k8s.io","kind":"ListOptions","causes":[{"reason":"FieldValueForbidden","message":"Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan","field":"resourceVersionMatch"},{"reason":"FieldValueNotSupported","message":"Unsupported value: \"Exact\": supported values: \"NotOlderThan\"","field":"resourceVersionMatch"}]},"code":422}"#,
    ),
    (
        "watch=true&resourceVersionMatch=NotOlderThan&resourceVersion=1&timeoutSeconds=1",
        422,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided","reason":"Invalid","details":{"group":"meta.k8s.io","kind":"ListOptions","causes":[{"reason":"FieldValueForbidden","message":"Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided","field":"resourceVersionMatch"}]},"code":422}"#,
    ),
    (
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        422,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list]","reason":"Invalid","details":{"group":"meta.k8s.io","kind":"ListOptions","causes":[{"reason":"FieldValueForbidden","message":"Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided","field":"resourceVersionMatch"},{"reason":"FieldValueForbidden","message":"Forbidden: sendInitialEvents is forbidden for list","field":"sendInitialEvents"}]},"code":422}"#,
    ),
    (
        "resourceVersion=abc",
        400,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax","reason":"BadRequest","code":400}"#,
    ),
    (
        "watch=true&resourceVersion=abc",
        // As recorded, except for the code and the reason: 500 there, without a reason.
        400,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax","reason":"BadRequest","code":400}"#,
    ),
    (
        "resourceVersion=-1",
        400,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"invalid resource version: resourceVersion: Invalid value: \"-1\": strconv.ParseUint: parsing \"-1\": invalid syntax","reason":"BadRequest","code":400}"#,
    ),
    (
        "resourceVersionMatch=Exact",
        422,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided","reason":"Invalid","details":{"group":"meta.k8s.io","kind":"ListOptions","causes":[{"reason":"FieldValueForbidden","message":"Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided","field":"resourceVersionMatch"}]},"code":422}"#,
    ),
    (
        "resourceVersionMatch=Foo&resourceVersion=1",
        422,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Unsupported value: \"Foo\": supported values: \"Exact\", \"NotOlderThan\", \"\"","reason":"Invalid","details":{"group":"meta.k8s.io","kind":"ListOptions","causes":[{"reason":"FieldValueNotSupported","message":"Unsupported value: \"Foo\": supported values: \"Exact\", \"NotOlderThan\", \"\"","field":"resourceVersionMatch"}]},"code":422}"#,
    ),
    (
        "resourceVersionMatch=Exact&resourceVersion=0",
        422,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"","reason":"Invalid","details":{"group":"meta.k8s.io","kind":"ListOptions","causes":[{"reason":"FieldValueForbidden","message":"Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"","field":"resourceVersionMatch"}]},"code":422}"#,
    ),
    (
        "watch=true&timeoutSeconds=abc",
        400,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"strconv.ParseInt: parsing \"abc\": invalid syntax","reason":"BadRequest","code":400}"#,
    ),
];

#[test]
fn errors_as_recorded() {
    for (raw, code, body) in RECORDED_ERRORS {
        let status = read(raw).expect_err(raw).status();
        assert_eq!((status.code(), status.to_json().as_str()), (*code, *body), "{raw}");
    }
    let get = GetOptions::parse(&query("resourceVersion=abc")).expect_err("no number").status();
    assert_eq!(
        get.to_json(),
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax","reason":"BadRequest","code":400}"#
    );
}

#[test]
fn numbers_out_of_range_and_empty() {
    let message = |raw: &str| read(raw).expect_err(raw).status().message().to_owned();
    assert_eq!(message("limit="), r#"strconv.ParseInt: parsing "": invalid syntax"#);
    assert_eq!(
        message("limit=9223372036854775808"),
        r#"strconv.ParseInt: parsing "9223372036854775808": value out of range"#
    );
    assert_eq!(
        message("resourceVersion=18446744073709551616"),
        "invalid resource version: resourceVersion: Invalid value: \"18446744073709551616\": strconv.ParseUint: \
         parsing \"18446744073709551616\": value out of range"
    );
    assert_eq!(
        message("timeoutSeconds=x"),
        r#"strconv.ParseInt: parsing "x": invalid syntax"#,
        "on a LIST too"
    );
    assert_eq!(
        message("watch=1&limit=x"),
        r#"strconv.ParseInt: parsing "x": invalid syntax"#,
        "on a WATCH too"
    );
}

#[test]
fn the_state_that_a_list_shows() {
    use ListVersion as V;
    let exact = |n: u64| V::Exact(Revision::new(n));
    let newer = |n: u64| V::NotOlderThan(Revision::new(n));
    let table: &[(&str, ListVersion, Option<NonZeroU64>)] = &[
        ("", V::Unset, None),
        ("resourceVersion=", V::Unset, None),
        ("limit=500", V::Unset, limit(500)),
        ("limit=0", V::Unset, None),
        ("limit=-1", V::Unset, None),
        ("resourceVersion=0", V::Any, None),
        ("resourceVersion=00", V::Any, None),
        ("resourceVersion=0&limit=500", V::Any, None),
        ("resourceVersion=0&resourceVersionMatch=NotOlderThan&limit=5", V::Any, None),
        ("resourceVersion=7", newer(7), None),
        ("resourceVersion=7&limit=2", exact(7), limit(2)),
        ("resourceVersion=7&limit=-2", newer(7), None),
        ("resourceVersion=7&limit=2&resourceVersionMatch=NotOlderThan", newer(7), limit(2)),
        ("resourceVersion=7&resourceVersionMatch=NotOlderThan", newer(7), None),
        ("resourceVersion=7&resourceVersionMatch=Exact", exact(7), None),
        ("resourceVersion=7&resourceVersionMatch=Exact&limit=2", exact(7), limit(2)),
        ("resourceVersion=18446744073709551615", newer(u64::MAX), None),
        ("resourceVersion=7&resourceVersion=abc", newer(7), None),
        ("allowWatchBookmarks=true&timeoutSeconds=5&timeout=32s&bogus=1", V::Unset, None),
        ("watch=false", V::Unset, None),
        ("watch=0", V::Unset, None),
        ("watch=FALSE", V::Unset, None),
    ];
    for (raw, version, limit) in table {
        let options = list(raw);
        assert_eq!((options.version, options.limit), (*version, *limit), "{raw}");
        assert_eq!(options.continuation, None, "{raw}");
    }
    let page = list(&format!("limit=2&continue={TOKEN_74}"));
    assert_eq!((page.version, page.limit), (exact(74), limit(2)));
    let expected =
        Continuation { at: PageRevision::Exact(Revision::new(74)), start: "cm2\0".to_owned(), line: 0 };
    assert_eq!(page.continuation, Some(expected));
    assert_eq!(
        list(&format!("resourceVersion=0&limit=2&continue={TOKEN_74}")),
        page,
        "0 is no version there"
    );
    let rest = list(&format!("limit=2&continue={TOKEN_LATEST}"));
    assert_eq!(rest.version, V::Unset);
    assert_eq!(rest.continuation.map(|c| c.start), Some("cm2\0".to_owned()));
    assert_eq!(list("continue=").continuation, None);
}

#[test]
fn where_a_watch_starts() {
    use WatchStart as S;
    let wanted = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let unwanted = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let with = |base: &str, version: &str| watch(&format!("{base}&resourceVersion={version}")).start;
    let seven = Revision::new(7);
    assert_eq!(watch("watch=1").start, S::State(Freshness::MostRecent), "the default of the gate WatchList");
    assert_eq!(watch(wanted).start, S::State(Freshness::MostRecent));
    assert_eq!(watch(unwanted).start, S::MostRecent);
    assert_eq!(with("watch=1", "0"), S::State(Freshness::Any));
    assert_eq!(with(wanted, "0"), S::State(Freshness::Any));
    assert_eq!(with(unwanted, "0"), S::Any);
    assert_eq!(with("watch=1", "7"), S::After(seven));
    assert_eq!(with(unwanted, "7"), S::After(seven));
    assert_eq!(with(wanted, "7"), S::State(Freshness::NotOlderThan(seven)));
}

#[test]
fn what_counts_as_a_watch() {
    for raw in
        ["watch", "watch=", "watch=1", "watch=true", "watch=True", "watch=maybe", "&watch=true&", "watch=2"]
    {
        assert!(matches!(read(raw), Ok(CollectionRead::Watch(_))), "{raw}");
    }
    for raw in ["", "watch=0", "watch=False", "Watch=1"] {
        assert!(matches!(read(raw), Ok(CollectionRead::List(_))), "{raw}");
        assert!(WatchOptions::parse(&query(raw), &pods()).is_ok(), "{raw} on a /watch/ path");
    }
}

#[test]
fn the_other_options_of_a_watch() {
    let options = watch(
        "?&watch=true&timeoutSeconds=290&allowWatchBookmarks=true&labelSelector=a%20in%20(b%2Cc)&fieldSelector=metadata.name%3Dx"
            .trim_start_matches('?'),
    );
    assert_eq!(options.timeout, WatchTimeout::After(Duration::from_secs(290)));
    assert!(options.bookmarks);
    assert_eq!(options.selectors.labels, LabelSelector::parse("a in (b,c)").expect("one"));
    assert_eq!(options.selectors.fields, FieldSelector::parse("metadata.name=x", &pods()).expect("one"));
    assert!(!watch("watch=1").bookmarks);
    assert!(!watch("watch=1&allowWatchBookmarks=false").bookmarks);
    for raw in ["watch=1", "watch=1&timeoutSeconds=0"] {
        assert_eq!(watch(raw).timeout, WatchTimeout::ServerChoice);
    }
    assert_eq!(watch("watch=1&timeoutSeconds=-5").timeout, WatchTimeout::After(Duration::ZERO));
    let ignored = watch(&format!("watch=1&limit=2&continue={TOKEN_74}&resourceVersion=7"));
    assert_eq!(
        ignored.start,
        WatchStart::After(Revision::new(7)),
        "limit and continue mean nothing on a watch"
    );
}

#[test]
fn queries_of_real_clients() {
    for raw in ["", "&limit=500", "&", "&&limit=500&&", "limit=500&timeout=32s"] {
        assert!(matches!(read(raw), Ok(CollectionRead::List(_))), "{raw}");
    }
    let informer = "allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeout=7m34s\
                    &timeoutSeconds=454&watch=true";
    assert_eq!(watch(informer).start, WatchStart::State(Freshness::MostRecent));
    assert_eq!(list("limit=500&resourceVersion=0").limit, None);
    let encoded = query("fieldSelector=metadata.name%3Dcm-1&labelSelector=app%3Ddemo&a+b=c+d");
    assert_eq!(encoded.get("fieldSelector"), Some("metadata.name=cm-1"));
    assert_eq!(encoded.get("a b"), Some("c d"));
    assert_eq!(encoded.get("A b"), None);
    let verbose = query("verbose&exclude=a&exclude=b");
    assert!(verbose.has("verbose") && !verbose.has("quiet"));
    assert_eq!(verbose.all("exclude").collect::<Vec<_>>(), ["a", "b"]);
    for raw in ["labelSelector=%ff", "a=%zz", "a=%00", "%=a"] {
        assert!(Query::parse(raw).is_err(), "{raw}");
    }
}

#[test]
fn options_of_a_get() {
    let version = |raw: &str| GetOptions::parse(&query(raw)).map(|options| options.version);
    assert_eq!(version("watch=true"), Ok(GetVersion::Unset));
    assert_eq!(version("resourceVersion=0"), Ok(GetVersion::Any));
    assert_eq!(version("resourceVersion=98&watch=true"), Ok(GetVersion::NotOlderThan(Revision::new(98))));
    assert_eq!(version("export=false"), Ok(GetVersion::Unset));
    let status = version("export=true").expect_err("gone").status();
    assert_eq!(
        (status.code(), status.message()),
        (400, "the export parameter, deprecated since v1.14, is no longer supported")
    );
}

#[test]
fn who_gets_pretty_json() {
    let layout = |raw: &str, agent: &str| query(raw).layout(Some(agent));
    for agent in ["curl/8.0", "Wget/1.21", "Mozilla/5.0 (X11)"] {
        assert_eq!(layout("", agent), Layout::Pretty, "{agent}");
        assert_eq!(layout("pretty=false", agent), Layout::Compact, "{agent}");
    }
    for agent in ["", "kubectl/v1.33", "libcurl", "Mozilla/4.0"] {
        assert_eq!(layout("", agent), Layout::Compact, "{agent}");
        assert_eq!(layout("pretty=true", agent), Layout::Pretty, "{agent}");
    }
    assert_eq!(query("pretty=1").layout(None), Layout::Pretty);
    assert_eq!(layout("pretty", "curl"), Layout::Pretty, "an empty value says nothing");
    assert_eq!(layout("pretty=yes", "curl"), Layout::Compact, "no bool of Go's is false");
}

#[test]
fn what_a_table_row_carries() {
    let include = |raw: &str| IncludeObject::parse(&query(raw));
    assert_eq!(include(""), Ok(IncludeObject::Metadata));
    assert_eq!(include("includeObject=Metadata"), Ok(IncludeObject::Metadata));
    assert_eq!(include("includeObject=None"), Ok(IncludeObject::None));
    assert_eq!(include("includeObject=Object"), Ok(IncludeObject::Object));
    let status = include("includeObject=none").expect_err("case matters").status();
    assert_eq!(
        (status.code(), status.message()),
        (
            400,
            "Unable to convert to Table as requested: includeObject: Invalid value: \"none\": must be 'Metadata', \
             'Object', 'None', or empty"
        )
    );
}

#[test]
fn of_several_faults_the_first_is_told() {
    // Each row has the errors of the rows below it too.
    let rows = [
        ("timeoutSeconds=x", "strconv.ParseInt: parsing \"x\": invalid syntax"),
        ("limit=y", "strconv.ParseInt: parsing \"y\": invalid syntax"),
        ("labelSelector=%3D", "found '=', expected: !, identifier, or 'end of string'"),
        ("fieldSelector=a", "invalid selector: 'a'; can't understand 'a'"),
        ("resourceVersionMatch=Foo", "ListOptions.meta.k8s.io"),
        ("fieldSelector=a%3Db", "field label not supported: a"),
        ("resourceVersion=abc", "resourceVersion: Invalid value"),
    ];
    for (at, (_, message)) in rows.iter().enumerate() {
        let parts: Vec<&str> = rows[at..].iter().map(|(part, _)| *part).collect();
        for watch in ["", "&watch=1"] {
            let raw = parts.join("&") + watch;
            let status = read(&raw).expect_err(&raw).status();
            assert!(status.message().contains(message), "{raw}: {}", status.message());
        }
    }
    let both = "continue=x&resourceVersion=abc";
    let status = read(both).expect_err(both).status();
    assert!(status.message().starts_with("invalid continue token: "), "{}", status.message());
}

#[test]
fn a_watch_of_the_whole_state_takes_no_token() {
    for (raw, refused) in [
        ("watch=1&continue=x", true),
        ("watch=1&continue=x&resourceVersion=0", true),
        ("watch=1&continue=x&resourceVersion=5", false),
        ("watch=1&continue=", false),
        (
            "watch=1&continue=x&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=5",
            true,
        ),
    ] {
        match read(raw) {
            Ok(_) => assert!(!refused, "{raw}"),
            Err(error) => {
                let status = error.status();
                assert!(refused, "{raw}: {}", status.message());
                assert_eq!(status.code(), 422);
                assert!(
                    status.message().ends_with("resourceVersionMatch is forbidden when continue is provided")
                );
            }
        }
    }
}

#[test]
fn options_of_writes() {
    let parse = |raw: &str, kind: WriteKind| WriteOptions::parse(&query(raw), kind);
    let kubectl =
        parse("fieldManager=kubectl-create&fieldValidation=Strict", WriteKind::Create).expect("right");
    assert_eq!(
        kubectl,
        WriteOptions {
            dry_run: false,
            field_manager: "kubectl-create".to_owned(),
            field_validation: FieldValidation::Strict,
            force: false,
        }
    );
    assert!(parse("dryRun=All", WriteKind::Update).expect("right").dry_run);
    assert!(parse("fieldManager=a&force=true", WriteKind::Apply).expect("right").force);
    assert!(!parse("fieldManager=a&force=false", WriteKind::Apply).expect("right").force);
    assert!(!parse("force=true", WriteKind::Create).expect("ignored where it means nothing").force);

    let message = |raw: &str, kind: WriteKind| {
        let status = parse(raw, kind).expect_err(raw).status();
        assert_eq!(status.code(), 422);
        status.message().to_owned()
    };
    assert_eq!(
        message("dryRun=true", WriteKind::Create),
        r#"CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: []string{"true"}: supported values: "All""#
    );
    message("dryRun=All&dryRun=no", WriteKind::Create);
    message("dryRun=", WriteKind::Create);
    assert_eq!(
        message("force=true", WriteKind::Patch),
        r#"PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch"#
    );
    assert_eq!(
        message("", WriteKind::Apply),
        r#"PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch"#
    );
    assert_eq!(
        message(&format!("fieldManager={}", "a".repeat(129)), WriteKind::Update),
        r#"UpdateOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes"#
    );
    assert_eq!(
        message("fieldManager=a%0a", WriteKind::Update),
        r#"UpdateOptions.meta.k8s.io "" is invalid: fieldManager: Invalid value: "a\n": invalid character U+000A (at position 1)"#
    );
    assert_eq!(
        message("fieldValidation=x", WriteKind::Update),
        r#"UpdateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "x": supported values: "", "Ignore", "Strict", "Warn""#
    );
}

#[test]
fn so_many_faults_of_a_field_manager_are_listed() {
    let causes = |manager: &str| {
        let query = query(&format!("fieldManager={manager}"));
        match WriteOptions::parse(&query, WriteKind::Update) {
            Err(OptionsError::Invalid { causes, .. }) => causes,
            other => panic!("{manager}: {other:?}"),
        }
    };
    let cause = |why: &str| Cause::invalid("fieldManager", "a\tb\n", why);
    assert_eq!(
        causes("a%09b%0a"),
        [
            cause("invalid character U+0009 (at position 1)"),
            cause("invalid character U+000A (at position 3)")
        ]
    );
    assert_eq!(causes(&"%09".repeat(16)).len(), 16);
    assert_eq!(causes(&"%09".repeat(128)).len(), 16);
    // A value that is too long is not quoted.
    assert_eq!(causes(&"%09".repeat(2_600)), [Cause::too_long("fieldManager", 128)]);
}

#[test]
fn options_of_a_delete() {
    let from_query = |raw: &str| DeleteOptions::parse(&query(raw), b"");
    let from_body = |body: &str| DeleteOptions::parse(&query("dryRun=All"), body.as_bytes());
    assert_eq!(from_query(""), Ok(DeleteOptions::default()));
    let options = from_query("dryRun=All&gracePeriodSeconds=0&propagationPolicy=Orphan").expect("right");
    assert!(options.dry_run);
    assert_eq!((options.grace_period_seconds, options.propagation), (Some(0), Some(Propagation::Orphan)));
    assert_eq!(from_query("orphanDependents=true").map(|o| o.propagation), Ok(Some(Propagation::Orphan)));

    let kubectl = from_body(r#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}"#);
    let kubectl = kubectl.expect("right");
    assert_eq!(kubectl.propagation, Some(Propagation::Background));
    assert!(!kubectl.dry_run, "with a body the query does not count");
    let guarded = from_body(r#"{"preconditions":{"uid":"u","resourceVersion":"7"},"dryRun":["All"],"x":1}"#);
    let guarded = guarded.expect("right");
    assert!(guarded.dry_run);
    assert_eq!(
        (guarded.preconditions.uid.as_str(), guarded.preconditions.resource_version.as_str()),
        ("u", "7")
    );
    assert_eq!(from_body(r#"{"dryRun":null,"preconditions":null}"#), Ok(DeleteOptions::default()));

    for (result, code) in [
        (from_query("gracePeriodSeconds=x"), 400),
        (from_query("propagationPolicy=Foo"), 422),
        (from_query("propagationPolicy=Orphan&orphanDependents=true"), 422),
        (from_query("dryRun=Some"), 422),
        (from_body(r#"{"dryRun":["None"]}"#), 422),
        (from_body("{"), 400),
        (from_body("[1]"), 400),
        (from_body(r#"{"kind":"Pod"}"#), 400),
    ] {
        let error = result.expect_err("wrong");
        assert_eq!(error.clone().status().code(), code, "{error}");
    }
}

#[test]
fn noise_never_panics() {
    let pieces: &[&[u8]] = &[
        b"watch=1",
        b"&",
        b"=",
        b"resourceVersion",
        b"resourceVersionMatch=",
        b"Exact",
        b"NotOlderThan",
        b"limit=",
        b"continue=",
        TOKEN_74.as_bytes(),
        b"0",
        b"7",
        b"-1",
        b"%",
        b"%2C",
        b"sendInitialEvents=",
        b"true",
        b"timeoutSeconds=",
        b"dryRun=All",
        b"propagationPolicy=",
    ];
    for seed in 0..20_000 {
        let mut noise = Noise(seed);
        let parts = noise.below(14);
        let raw = String::from_utf8_lossy(&noise.text(pieces, parts)).into_owned();
        let Ok(query) = Query::parse(&raw) else { continue };
        let (read, watched) = (read_query(&query).map(drop), WatchOptions::parse(&query, &pods()).map(drop));
        for error in [read, watched].into_iter().filter_map(Result::err) {
            assert!(matches!(error.status().code(), 400 | 422), "seed {seed}: {raw}");
        }
        let _ = GetOptions::parse(&query);
        let _ = DeleteOptions::parse(&query, b"");
        let _ = DeleteOptions::parse(&query, raw.as_bytes());
        let _ = WriteOptions::parse(&query, WriteKind::Apply);
    }
}
