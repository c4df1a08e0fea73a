//! Request heads: read whole and byte by byte, and compared with a plain reader of lines.

use revcast::http::request::{BodyFraming, HEAD_BYTES_MAX, HeadScanner, Parsed, RequestHead, parse_head};

pub(crate) fn run(data: &[u8]) {
    let whole = parse_head(data);
    let mut scanner = HeadScanner::new();
    let stepwise = (0..=data.len())
        .map(|end| scanner.parse(&data[..end]))
        .find(|verdict| !matches!(verdict, Ok(Parsed::Incomplete)));
    assert_eq!(stepwise.unwrap_or(Ok(Parsed::Incomplete)), whole, "the verdict hangs on how the bytes came");
    let Ok(Parsed::Complete { head, head_len }) = whole else {
        assert!(data.len() <= HEAD_BYTES_MAX || whole.is_err(), "more is read than a head may have");
        return;
    };
    check(&head, &data[..head_len]);
}

/// What must hold for every accepted head.
fn check(head: &RequestHead, text: &[u8]) {
    // A value may contain non-ASCII bytes of any meaning (RFC 9110, section 5.5).
    let text = String::from_utf8_lossy(text);
    let lines = text.strip_suffix("\r\n\r\n").expect("it ends with an empty line");
    let lines = lines.strip_prefix("\r\n").unwrap_or(lines);
    assert!(
        lines
            .replace("\r\n", "")
            .bytes()
            .all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte) || byte > 0x7f)
    );
    let mut lines = lines.split("\r\n");
    let request: Vec<&str> = lines.next().expect("a request line").split(' ').collect();
    let [_, target, version] = request[..] else { panic!("not three words: {request:?}") };
    assert!(matches!((version, head.minor_version), ("HTTP/1.1", 1) | ("HTTP/1.0", 0)));
    let fields: Vec<(String, &str)> = lines
        .map(|line| line.split_once(':').expect("a colon"))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim_matches([' ', '\t'])))
        .collect();
    let all = |name: &str| -> Vec<&str> {
        fields.iter().filter(|(key, _)| key == name).map(|(_, value)| *value).collect()
    };
    assert!(fields.iter().all(|(name, _)| !name.is_empty() && !name.contains([' ', '\t'])));
    assert!(all("host").len() == 1 || (head.minor_version == 0 && all("host").is_empty()), "one Host");
    let framing = match (&all("transfer-encoding")[..], &all("content-length")[..]) {
        ([], []) => BodyFraming::None,
        ([], [length]) => {
            assert!(!length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit()), "{length:?}");
            match length.parse().expect("below 2^64") {
                0 => BodyFraming::None,
                length => BodyFraming::Length(length),
            }
        }
        ([coding], []) => {
            assert!(coding.eq_ignore_ascii_case("chunked") && head.minor_version == 1, "{coding:?}");
            BodyFraming::Chunked
        }
        both => panic!("where the body ends can be read in two ways: {both:?}"),
    };
    assert_eq!(head.body, framing);
    for segment in &head.path {
        assert!(segment != "." && segment != ".." && !segment.contains('/'), "{segment:?}");
        assert!(!segment.chars().any(char::is_control), "{segment:?}");
    }
    let query = head.query.raw();
    assert!(query.is_empty() || target.ends_with(query), "{target}");
    assert!(head.minor_version == 1 || !head.keep_alive);
}
