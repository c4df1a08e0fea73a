//! One line of comma-separated values (RFC 4180), as Go's `encoding/csv` reads it.

/// The fields of a line, or the error in it. A quoted field ends on its line.
pub(super) fn fields(line: &str) -> Result<Vec<String>, &'static str> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let (field, behind) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let (field, behind) = rest.split_at(end);
                if field.contains('"') {
                    return Err("a quote inside an unquoted field");
                }
                (field.to_owned(), behind)
            }
        };
        fields.push(field);
        match behind.strip_prefix(',') {
            Some(next) => rest = next,
            None if behind.is_empty() => return Ok(fields),
            None => return Err("text after a closing quote"),
        }
    }
}

/// A field after its opening quote, and the text after the closing one. Two quotes are one.
fn quoted_field(text: &str) -> Result<(String, &str), &'static str> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let (before, behind) = rest.split_once('"').ok_or("a quote is not closed")?;
        field.push_str(before);
        match behind.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None => return Ok((field, behind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fields;

    #[test]
    fn lines() {
        for (line, expected) in [
            ("a,b,c", Ok(vec!["a", "b", "c"])),
            ("a,,", Ok(vec!["a", "", ""])),
            ("", Ok(vec![""])),
            (r#"t,u,1,"g1,g2""#, Ok(vec!["t", "u", "1", "g1,g2"])),
            (r##""a""b","""""##, Ok(vec![r#"a"b"#, r#"""#])),
            (r#""","x""#, Ok(vec!["", "x"])),
            (r#""a,b"#, Err("a quote is not closed")),
            (r#""a"""#, Err("a quote is not closed")),
            (r#"a"b"#, Err("a quote inside an unquoted field")),
            (r#""a"b"#, Err("text after a closing quote")),
        ] {
            let expected = expected.map(|fields| fields.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(fields(line), expected, "{line}");
        }
    }
}
