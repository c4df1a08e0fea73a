//! Tests only: whether a text is well-formed XML, as far as the pictures use it: elements, attributes, character data
//! and references. A picture that is not would be cut off or shown wrong.

/// Checks one document, or says where it is not well-formed.
pub(super) fn check(text: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    let mut roots = 0;
    while !rest.is_empty() {
        let at = rest.find('<').unwrap_or(rest.len());
        let (data, tail) = rest.split_at(at);
        check_data(data)?;
        if open.is_empty() && !data.trim().is_empty() {
            return Err(format!("text outside of the root: {data}"));
        }
        if tail.is_empty() {
            break;
        }
        let end = tail.find('>').ok_or_else(|| format!("a tag without an end: {tail}"))?;
        let tag = &tail[1..end];
        rest = &tail[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> closes nothing"));
            }
            continue;
        }
        let (tag, alone) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(format!("no name of an element: {name}"));
        }
        check_attributes(attributes)?;
        roots += usize::from(open.is_empty());
        if !alone {
            open.push(name);
        }
    }
    if open.is_empty() && roots == 1 { Ok(()) } else { Err(format!("{roots} roots, open: {open:?}")) }
}

fn check_attributes(text: &str) -> Result<(), String> {
    let mut seen: Vec<&str> = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, tail) = rest.split_once("=\"").ok_or_else(|| format!("no attribute: {rest}"))?;
        let (value, tail) = tail.split_once('"').ok_or_else(|| format!("no end of a value: {tail}"))?;
        if seen.contains(&name) || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(format!("attribute {name}"));
        }
        seen.push(name);
        check_data(value)?;
        rest = tail.trim_start();
    }
    Ok(())
}

fn check_data(text: &str) -> Result<(), String> {
    if let Some(bad) = text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '<' || *c == '\u{FFFF}')
    {
        return Err(format!("{bad:?} in {text}"));
    }
    for after in text.split('&').skip(1) {
        let name = after.split_once(';').map_or("", |(name, _)| name);
        if !["amp", "lt", "gt", "quot", "#39"].contains(&name) {
            return Err(format!("& without a reference: {text}"));
        }
    }
    Ok(())
}

#[test]
fn faults_are_found() {
    assert_eq!(check(r#"<a b="1" c="&lt;"><d/>x &amp; y</a>"#), Ok(()));
    for bad in [
        "",
        "<a>",
        "<a></b>",
        "<a/><b/>",
        "x<a/>",
        "<a b=1/>",
        "<a b=\"1\" b=\"2\"/>",
        "<a>&</a>",
        "<a>\u{1}</a>",
        "<a",
    ] {
        assert!(check(bad).is_err(), "{bad}");
    }
}
