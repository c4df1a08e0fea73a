//! Names that can stand in a URL, a key and a DNS name.

/// RFC 1123: letters, digits and dashes, no dash at an end, at most 63 bytes; and no upper case.
pub(super) fn is_dns_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}
