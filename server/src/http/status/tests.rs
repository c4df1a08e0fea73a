//! Bodies as recorded, byte for byte; lengths are the `Content-Length` of the recording.

use super::*;
use crate::http::shown::VALUE_CHARS_MAX;

const CONFIGMAPS: GroupResource<'_> = GroupResource { group: "", resource: "configmaps" };
const DEPLOYMENTS: GroupResource<'_> = GroupResource { group: "apps", resource: "deployments" };

fn compact(status: &Status) -> String {
    let body = String::from_utf8(status.to_body(Layout::Compact)).expect("JSON is text");
    assert_eq!(body, format!("{}\n", status.to_json()));
    body
}

/// The body is `json` and a line feed, and as long as the recorded one.
fn is(status: &Status, code: u16, content_length: usize, json: &str) {
    let body = compact(status);
    assert_eq!(body.strip_suffix('\n'), Some(json));
    assert_eq!((status.code(), body.len()), (code, content_length));
}

fn failure(message: &str, rest: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{message}"{rest}}}"#
    )
}

#[test]
fn recording_12_http_errors() {
    is(
        &Status::not_found(CONFIGMAPS, "none"),
        404,
        188,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"configmaps \"none\" not found","reason":"NotFound","details":{"name":"none","kind":"configmaps"},"code":404}"#,
    );
    is(
        &Status::unknown_resource(),
        404,
        174,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}"#,
    );
    is(
        &Status::method_not_allowed(),
        405,
        197,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server does not allow this method on the requested resource","reason":"MethodNotAllowed","details":{},"code":405}"#,
    );
    let recorded = "{\n  \"kind\": \"Status\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {},\n  \"status\": \"Failure\",\n  \
        \"message\": \"406: Not Acceptable\\n\\nAvailable representations: application/json, application/yaml, \
        application/vnd.kubernetes.protobuf, application/json;stream=watch, \
        application/vnd.kubernetes.protobuf;stream=watch\",\n  \"reason\": \"NotAcceptable\",\n  \"details\": {},\n  \
        \"code\": 406\n}";
    let status = Status::not_acceptable(&[
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;stream=watch",
        "application/vnd.kubernetes.protobuf;stream=watch",
    ]);
    for layout in [Layout::Compact, Layout::Pretty] {
        assert_eq!(String::from_utf8(status.to_body(layout)).expect("text"), recorded);
    }
    assert_eq!(recorded.len(), 365);
}

#[test]
fn recordings_02_and_08_bad_requests() {
    is(
        &Status::bad_request("strconv.ParseInt: parsing \"x\": invalid syntax".to_owned()),
        400,
        162,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"strconv.ParseInt: parsing \"x\": invalid syntax","reason":"BadRequest","code":400}"#,
    );
    is(
        &Status::other(
            500,
            "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax"
                .to_owned(),
        ),
        500,
        184,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax","code":500}"#,
    );
}

#[test]
fn recording_08_invalid() {
    let status = Status::invalid(
        "meta.k8s.io",
        "ListOptions",
        "",
        vec![Cause::not_supported("resourceVersionMatch", "Foo", &["Exact", "NotOlderThan", ""])],
    );
    is(
        &status,
        422,
        479,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Unsupported value: \"Foo\": supported values: \"Exact\", \"NotOlderThan\", \"\"","reason":"Invalid","details":{"group":"meta.k8s.io","kind":"ListOptions","causes":[{"reason":"FieldValueNotSupported","message":"Unsupported value: \"Foo\": supported values: \"Exact\", \"NotOlderThan\", \"\"","field":"resourceVersionMatch"}]},"code":422}"#,
    );
}

#[test]
fn recording_06_gone() {
    assert_eq!(
        Status::watch_expired(Revision::new(1), Revision::new(133)).to_json(),
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (132)","reason":"Expired","code":410}"#
    );
    assert_eq!(
        Status::watch_compacted().to_json(),
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"The resourceVersion for the provided watch is too old.","reason":"Expired","code":410}"#
    );
    is(
        &Status::list_expired(),
        410,
        165,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"The resourceVersion for the provided list is too old.","reason":"Expired","code":410}"#,
    );
    is(
        &Status::continue_expired(
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiY20yXHUwMDAwIn0".to_owned(),
        ),
        410,
        609,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{"continue":"eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiY20yXHUwMDAwIn0"},"status":"Failure","message":"The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.","reason":"Expired","code":410}"#,
    );
}

#[test]
fn recordings_06_and_07_too_large() {
    let waited = Status::version_too_large(Revision::new(99_999_999), Revision::new(83), Some(1));
    is(
        &waited,
        504,
        291,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: Too large resource version: 99999999, current: 83","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}"#,
    );
    assert_eq!(waited.retry_after_seconds(), Some(1));
    let at_once = Status::version_too_large(Revision::new(99_999_999), Revision::new(138), None);
    is(
        &at_once,
        504,
        270,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: Too large resource version: 99999999, current: 138","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]},"code":504}"#,
    );
    assert_eq!(at_once.retry_after_seconds(), None);
}

#[test]
fn errors_of_writes() {
    let taken = failure(
        r#"configmaps \"x\" already exists"#,
        r#","reason":"AlreadyExists","details":{"name":"x","kind":"configmaps"},"code":409"#,
    );
    assert_eq!(Status::already_exists(CONFIGMAPS, "x").to_json(), taken);
    let changed = failure(
        r#"Operation cannot be fulfilled on deployments.apps \"x\": the object has been modified; please apply your changes to the latest version and try again"#,
        r#","reason":"Conflict","details":{"name":"x","group":"apps","kind":"deployments"},"code":409"#,
    );
    assert_eq!(Status::conflict(DEPLOYMENTS, "x").to_json(), changed);
    let missing = failure(
        r#"deployments.apps \"x\" not found"#,
        r#","reason":"NotFound","details":{"name":"x","group":"apps","kind":"deployments"},"code":404"#,
    );
    assert_eq!(Status::not_found(DEPLOYMENTS, "x").to_json(), missing);
    let large = failure(
        "Request entity too large: limit is 3145728",
        r#","reason":"RequestEntityTooLarge","code":413"#,
    );
    assert_eq!(Status::request_entity_too_large(3 * 1024 * 1024).to_json(), large);
    let media = failure(
        "the body of the request was in an unknown format - accepted media types include: application/json",
        r#","reason":"UnsupportedMediaType","code":415"#,
    );
    assert_eq!(Status::unsupported_media_type(&["application/json"]).to_json(), media);
    let named = Status::invalid(
        "",
        "ConfigMap",
        "a",
        vec![
            Cause::required("metadata.name", ""),
            Cause::invalid("metadata.name", "A", "no"),
            Cause::invalid("metadata.name", "A", "no"),
        ],
    );
    let message = named.message();
    assert_eq!(
        message,
        r#"ConfigMap "a" is invalid: [metadata.name: Required value, metadata.name: Invalid value: "A": no]"#,
        "a line is said once"
    );
    assert!(named.to_json().contains(r#""details":{"name":"a","kind":"ConfigMap","causes":["#));
}

#[test]
fn lines_of_many_causes_are_said_once_and_in_order() {
    let cause = |n: usize| Cause::invalid("metadata.labels", &format!("-{n}"), "no");
    let causes: Vec<Cause> = (0..2_000).chain((0..2_000).rev()).map(cause).collect();
    let lines = Cause::lines(&causes);
    assert_eq!(lines.len(), 2_000);
    for (n, line) in lines.iter().enumerate() {
        assert_eq!(*line, format!("metadata.labels: Invalid value: \"-{n}\": no"));
    }
    // A cause that differs in one of the two is another line.
    let other = Cause { field: "metadata.name".to_owned(), ..cause(0) };
    assert_eq!(Cause::lines(&[cause(0), other, cause(1), cause(0)]).len(), 3);
}

#[test]
fn errors_of_the_server() {
    let busy = failure(
        "storage is (re)initializing",
        r#","reason":"TooManyRequests","details":{"retryAfterSeconds":2},"code":429"#,
    );
    assert_eq!(Status::initializing(2).to_json(), busy);
    assert_eq!(Status::initializing(2).retry_after_seconds(), Some(2));
    let internal = failure(
        "Internal error occurred: disk is full",
        r#","reason":"InternalError","details":{"causes":[{"message":"disk is full"}]},"code":500"#,
    );
    assert_eq!(Status::internal_error("disk is full").to_json(), internal);
    assert_eq!(
        Status::unauthorized().to_json(),
        failure("Unauthorized", r#","reason":"Unauthorized","code":401"#)
    );
    let forbidden = failure(
        "configmaps is forbidden: no",
        r#","reason":"Forbidden","details":{"kind":"configmaps"},"code":403"#,
    );
    assert_eq!(Status::forbidden(CONFIGMAPS, "", "no").to_json(), forbidden);
    assert_eq!(Status::forbidden(CONFIGMAPS, "a", "no").message(), r#"configmaps "a" is forbidden: no"#);
}

#[test]
fn a_delete_succeeds() {
    let done = Status::deleted(CONFIGMAPS, "x", "eb0f60a8-97ec-4d87-b91d-385c792cb033");
    assert_eq!(done.code(), 200);
    assert_eq!(
        done.to_json(),
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"x","kind":"configmaps","uid":"eb0f60a8-97ec-4d87-b91d-385c792cb033"}}"#
    );
    assert_eq!(
        Status::deleted(DEPLOYMENTS, "x", "u").to_json(),
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"x","group":"apps","kind":"deployments","uid":"u"}}"#
    );
    assert_eq!(
        Status::success().to_json(),
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}"#
    );
}

#[test]
fn pretty_is_indented_by_two() {
    let body = String::from_utf8(
        Status::version_too_large(Revision::new(9), Revision::new(8), Some(1)).to_body(Layout::Pretty),
    )
    .expect("text");
    let expected = r#"{
  "kind": "Status",
  "apiVersion": "v1",
  "metadata": {},
  "status": "Failure",
  "message": "Timeout: Too large resource version: 9, current: 8",
  "reason": "Timeout",
  "details": {
    "causes": [
      {
        "reason": "ResourceVersionTooLarge",
        "message": "Too large resource version"
      }
    ],
    "retryAfterSeconds": 1
  },
  "code": 504
}"#;
    assert_eq!(body, expected);
}

/// Whatever a `Status` is made of, it is short in each encoding, and has the code and the subject.
#[test]
fn no_status_is_longer_than_its_bound() {
    let fillers = [
        "<", "\"", "\\", "'", "a", "a ", "a\n", "\n", "\u{1}", "\u{85}", "é", "\u{feff}", "\u{2028}", "😀",
        ": #", "-",
    ];
    for filler in fillers {
        // The longest that a request may bring, of what grows most when it is written, and of several bytes.
        let longest = ["\u{1}", "😀"].contains(&filler).then_some(3 << 20);
        for len in [VALUE_CHARS_MAX - 1, 5_000, 200_000].into_iter().chain(longest) {
            let huge = filler.repeat(len / filler.len());
            let of = GroupResource { group: &huge, resource: &huge };
            let causes = |count: usize| -> Vec<Cause> {
                (0..count)
                    .map(|n| {
                        Cause::invalid(
                            &format!("{n}{huge}"),
                            &huge,
                            &huge[..huge.len().min(1 << 12) / 12 * 12],
                        )
                    })
                    .collect()
            };
            let few: Vec<Cause> = (0..3_000).map(|n| Cause::forbidden("f", &n.to_string())).collect();
            let statuses = [
                Status::not_found(of, &huge),
                Status::deleted(of, &huge, &huge),
                Status::conflict_because(of, &huge, &huge),
                Status::apply_conflict(huge.clone(), causes(2)),
                Status::forbidden(of, &huge, &huge),
                Status::bad_request(huge.clone()),
                Status::invalid(&huge, &huge, &huge, causes(1)),
                Status::invalid(&huge, &huge, &huge, causes(4)),
                Status::invalid("", "K", "n", few),
                Status::invalid(
                    "",
                    "K",
                    "n",
                    vec![Cause::none_supported(&huge, &[huge.as_str(); 40], &["All"])],
                ),
                Status::internal_error(&huge),
                Status::source_timeout(&huge, 1),
                Status::continue_expired(huge[..huge.len().min(6 << 10) / 12 * 12].to_owned()),
            ];
            for status in &statuses {
                for layout in [Layout::Compact, Layout::Pretty] {
                    let body = status.to_body(layout);
                    assert!(
                        body.len() <= STATUS_BYTES_MAX,
                        "{} bytes of {filler:?} {len}: {}",
                        body.len(),
                        status.code()
                    );
                    let json: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
                    assert_eq!(json["kind"], "Status");
                }
                let yaml = crate::http::yaml::from_json(status.to_json().as_bytes());
                assert!(
                    yaml.len() <= STATUS_BYTES_MAX,
                    "{} bytes of YAML, {filler:?} {len}: {}",
                    yaml.len(),
                    status.code()
                );
            }
        }
    }
}

#[test]
fn what_is_left_out_is_counted() {
    let causes: Vec<Cause> =
        (0..1_000).map(|n| Cause::invalid("metadata.labels", &format!("-{n}"), &"why".repeat(100))).collect();
    let status = Status::invalid("", "ConfigMap", "a", causes);
    let listed = status.message().matches("Invalid value").count();
    assert!((30..100).contains(&listed), "{listed}");
    assert!(status.message().ends_with(&format!(", and {} more]", 1_000 - listed)), "{}", status.message());
    let json: serde_json::Value = serde_json::from_str(&status.to_json()).expect("JSON");
    let causes = json["details"]["causes"].as_array().expect("causes");
    assert!((30..100).contains(&causes.len()), "{}", causes.len());
    assert!(
        causes[0]["message"]
            .as_str()
            .is_some_and(|message| message.starts_with("Invalid value: \"-0\": whywhy"))
    );

    let name = "<".repeat(3 << 20);
    let cut = "<".repeat(VALUE_CHARS_MAX);
    let status = Status::not_found(CONFIGMAPS, &name);
    assert_eq!(status.message(), format!("configmaps \"{cut}\"... not found"));
    assert!(status.to_json().contains(&format!("\"name\":\"{}...\"", "\\u003c".repeat(VALUE_CHARS_MAX))));
}

/// Bad-input row 42: client text is repeated escaped, and the JSON stays valid.
#[test]
fn a_name_cannot_split_the_response() {
    let name = "a\r\nX-Evil: 1\r\n\r\n<script>\u{0}\u{2028}\\\"";
    let status = Status::not_found(CONFIGMAPS, name);
    for layout in [Layout::Compact, Layout::Pretty] {
        let body = status.to_body(layout);
        assert!(!body.contains(&b'\r') && !body.contains(&0) && !body.contains(&b'<'));
        let parsed: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(parsed["details"]["name"], name);
    }
    assert!(!status.to_json().contains('\n'));
}
