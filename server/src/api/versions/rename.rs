//! Another `apiVersion` for an object whose members stay as they are.

use std::borrow::Cow;

use revcast_engine::codec::protobuf::Envelope;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Type;

/// An object in JSON under another version. One that states no version stays as it is.
#[must_use]
pub fn json<'k>(to: Type<'_>, kept: Cow<'k, [u8]>) -> Cow<'k, [u8]> {
    let Some((start, end)) = value(&kept) else { return kept };
    let mut out = Vec::with_capacity(kept.len() + to.api_version.len());
    out.extend_from_slice(&kept[..start]);
    // The registry checks versions: they need no escapes.
    out.extend_from_slice(to.api_version.as_bytes());
    out.extend_from_slice(&kept[end..]);
    out.into()
}

/// The version that an object in JSON states.
pub(super) fn version(kept: &[u8]) -> Option<&[u8]> {
    value(kept).map(|(start, end)| &kept[start..end])
}

/// Where the text of `apiVersion` is, without its quotes.
fn value(json: &[u8]) -> Option<(usize, usize)> {
    const MEMBER: &[u8] = b"\"apiVersion\":\"";
    // It is the first member, or the second after a kind: as every server writes it.
    let after_kind = || {
        let kind = json.strip_prefix(b"{\"kind\":\"")?;
        let end = kind.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        kind[end..].strip_prefix(b"\",")
    };
    let rest = json.strip_prefix(b"{").filter(|rest| rest.starts_with(MEMBER)).or_else(after_kind);
    if let Some(text) = rest.and_then(|rest| rest.strip_prefix(MEMBER))
        && let Some(len) = text.iter().position(|byte| matches!(byte, b'"' | b'\\'))
        && text[len] == b'"'
    {
        let start = json.len() - text.len();
        return Some((start, start + len));
    }
    let version: Top<'_> = serde_json::from_slice(json).ok()?;
    let quoted = version.api_version?.get();
    let start = (quoted.as_ptr().addr()).checked_sub(json.as_ptr().addr())? + 1;
    Some((start, start + quoted.len().checked_sub(2)?))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Top<'j> {
    #[serde(borrow, default)]
    api_version: Option<&'j RawValue>,
}

/// An object in its envelope under another version.
///
/// # Errors
/// It is in no envelope.
pub(super) fn envelope(to: Type<'_>, kept: &[u8]) -> Result<Vec<u8>, String> {
    let Envelope { kind, message, .. } = Envelope::read(kept).map_err(str::to_owned)?;
    let mut out = Vec::with_capacity(kept.len() + to.api_version.len());
    Envelope::push(&mut out, (to.api_version, kind), message.len(), |out| out.extend_from_slice(message));
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::protobuf::Release;

    #[test]
    fn the_version_is_replaced_wherever_it_stands() {
        let to = Type { api_version: "b/v2", kind: "K", release: Release::DEFAULT };
        for (kept, shown) in [
            (r#"{"kind":"K","apiVersion":"v1","a":1}"#, r#"{"kind":"K","apiVersion":"b/v2","a":1}"#),
            (r#"{"apiVersion":"v1","kind":"K"}"#, r#"{"apiVersion":"b/v2","kind":"K"}"#),
            (
                r#"{"a":{"apiVersion":"v1"},"apiVersion":"v1"}"#,
                r#"{"a":{"apiVersion":"v1"},"apiVersion":"b/v2"}"#,
            ),
            (r#"{"kind":"a\"b","apiVersion":"v\u0031"}"#, r#"{"kind":"a\"b","apiVersion":"b/v2"}"#),
            (r#"{"metadata":{"name":"x"}}"#, r#"{"metadata":{"name":"x"}}"#),
            ("[", "["),
        ] {
            let found = json(to, Cow::Borrowed(kept.as_bytes()));
            assert_eq!(String::from_utf8_lossy(&found), shown);
        }
    }
}
