//! Reads what a server sent on one connection, strictly: whole requests, one after another, each with one meaning only.

/// One request.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) line: String,
    pub(crate) names: Vec<String>,
}

/// All requests in `bytes`, and whether the last one is cut.
///
/// An error: what no server should send.
pub(crate) fn requests(mut bytes: &[u8]) -> Result<(Vec<Message>, bool), String> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        match request(bytes)? {
            Some((message, rest)) => {
                all.push(message);
                bytes = rest;
            }
            None => return Ok((all, true)),
        }
    }
    Ok((all, false))
}

fn request(bytes: &[u8]) -> Result<Option<(Message, &[u8])>, String> {
    let Some((line, mut rest)) = line(bytes)? else { return Ok(None) };
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(format!("no request line: {line:?}"));
    };
    if !is_token(method) || !target.starts_with('/') || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("a bad request line: {line:?}"));
    }
    let (mut names, mut length, mut is_chunked) = (Vec::new(), None, false);
    loop {
        let Some((field, behind)) = self::line(rest)? else { return Ok(None) };
        rest = behind;
        if field.is_empty() {
            break;
        }
        let (name, value) = field.split_once(": ").ok_or_else(|| format!("no header: {field:?}"))?;
        let lower = name.to_ascii_lowercase();
        if !is_token(name) || value.trim() != value || value.chars().any(|c| c.is_control() && c != '\t') {
            return Err(format!("a bad header: {field:?}"));
        }
        match lower.as_str() {
            "content-length" if value.bytes().all(|byte| byte.is_ascii_digit()) && length.is_none() => {
                length = Some(value.parse::<usize>().map_err(|error| error.to_string())?);
            }
            "transfer-encoding" if value == "chunked" && !is_chunked => is_chunked = true,
            "connection" if ["TE", "Upgrade"].contains(&value) => {}
            "host" if !names.contains(&lower) => {}
            "content-length" | "transfer-encoding" | "connection" | "host" | "keep-alive"
            | "proxy-connection" | "expect" | "trailer" => {
                return Err(format!("a header that must not be there: {field:?}"));
            }
            other if other.starts_with("x-remote-") => return Err(format!("an identity: {field:?}")),
            _ => {}
        }
        names.push(lower);
    }
    if !names.iter().any(|name| name == "host") || (length.is_some() && is_chunked) {
        return Err(format!("a head without a host, or with two lengths: {line:?}"));
    }
    if is_chunked {
        loop {
            let Some((size, behind)) = self::line(rest)? else { return Ok(None) };
            let is_hex =
                !size.is_empty() && size.len() <= 8 && size.bytes().all(|byte| byte.is_ascii_hexdigit());
            let size = usize::from_str_radix(size, 16).ok().filter(|_| is_hex);
            let size = size.ok_or_else(|| format!("no chunk size in {line:?}"))?;
            let Some(behind) = behind.get(size..) else { return Ok(None) };
            match behind {
                [b'\r', b'\n', after @ ..] => rest = after,
                [] | [b'\r'] => return Ok(None),
                _ => return Err(format!("bytes behind a chunk of {line:?}")),
            }
            if size == 0 {
                break;
            }
        }
    }
    let Some(rest) = rest.get(length.unwrap_or(0)..) else { return Ok(None) };
    Ok(Some((Message { line: line.to_owned(), names }, rest)))
}

/// A line without its CR LF; `None`: it is cut.
fn line(bytes: &[u8]) -> Result<Option<(&str, &[u8])>, String> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let text = bytes[..end].strip_suffix(b"\r").ok_or("a line that ends in LF")?;
    let text = std::str::from_utf8(text).map_err(|_| "a line that is no UTF-8")?;
    if text.contains('\r') { Err("a CR in a line".to_owned()) } else { Ok(Some((text, &bytes[end + 1..]))) }
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// It finds what it is for.
#[test]
fn what_is_wrong_is_found() {
    let good = "GET /x?a HTTP/1.1\r\nhost: a\r\nx: b\r\n\r\n";
    let post = "POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
    let (all, is_cut) = requests(format!("{good}{post}{good}").as_bytes()).unwrap();
    assert_eq!((all.len(), is_cut), (3, false));
    assert_eq!((all[1].line.as_str(), all[1].names.len()), ("POST /x HTTP/1.1", 2));
    for end in 1..post.len() {
        assert_eq!(
            requests(&post.as_bytes()[..end]).map(|(all, is_cut)| (all.len(), is_cut)),
            Ok((0, true)),
            "{end}"
        );
    }
    for (from, to) in [
        ("GET ", "GET  "),
        ("/x?a", "x"),
        ("HTTP/1.1", "HTTP/1.0"),
        ("host: a\r\n", ""),
        ("x: b", "host: b"),
        ("x: b", "x:b"),
        ("x: b", "x : b"),
        ("x: b", "x: a\x01b"),
        ("x: b", "x: a\r\n b"),
        ("x: b\r\n", "x: b\n"),
        ("x: b", "connection: close"),
        ("x: b", "X-Remote-User: b"),
        ("x: b", "content-length: 1, 1"),
        ("x: b", "content-length: 0\r\ncontent-length: 0"),
        ("x: b", "transfer-encoding: gzip, chunked"),
        ("x: b", "transfer-encoding: chunked\r\ncontent-length: 0"),
    ] {
        assert!(requests(good.replace(from, to).as_bytes()).is_err(), "{to:?}");
    }
    for (from, to) in
        [("2\r\n", "2;a\r\n"), ("2\r\n", "0x2\r\n"), ("hi", "hix"), ("0\r\n\r\n", "0\r\nx: y\r\n\r\n")]
    {
        assert!(requests(post.replace(from, to).as_bytes()).is_err(), "{to:?}");
    }
}
