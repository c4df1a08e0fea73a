//! A text that only wants a revision: what is served of a value, and how it gets there.
//!
//! It owns the splice. A [`Ready`] text lives as long as a value is looked at; a [`ReadJson`] goes from where a value is checked to where it is
//! published.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use super::marks::Marks;
use super::{Announced, BESIDE, Places, behind, scan};
use crate::attributes::{AttributeTexts, KeptTexts};
use crate::codec::DecodeError;
use crate::decimal::decimal;
use crate::envelope;
use crate::escape;
use crate::framing::Framing;
use crate::message::{Draft, MessageKind};
use crate::resource::Resource;
use crate::revision::Revision;

/// A value that was read, before it has a revision.
#[derive(Debug)]
pub(in crate::codec) struct ReadJson {
    /// Ready to be spliced.
    text: Bytes,
    escapes: bool,
    found: scan::Places,
    attributes: KeptTexts,
}

impl ReadJson {
    pub(super) fn new(value: &Bytes, ready: Ready<'_>, attributes: KeptTexts) -> Self {
        let Ready { text, escapes, found, .. } = ready;
        let text = match text {
            Cow::Borrowed(part) => value.slice_ref(part),
            Cow::Owned(made) => made.into(),
        };
        Self { text, escapes, found, attributes }
    }

    fn ready(&self) -> Ready<'_> {
        let text = Cow::Borrowed(&self.text[..]);
        Ready { text, escapes: self.escapes, found: self.found.clone(), trimmed: Some(0) }
    }

    /// What the decoder announces of the value.
    pub(in crate::codec) fn announce(
        &self,
        framing: &Framing,
        resource: &Resource,
        revision: Revision,
        kind: MessageKind,
    ) -> Result<Announced<Places>, DecodeError> {
        let (ready, texts) = (self.ready(), self.attributes.of(&self.text));
        let begin = self.text.as_ptr().addr();
        ready.announce(framing, resource, revision, kind, &texts, |text| ready.place(begin, text))
    }

    /// Appends the object as `revision` writes it: as it is served then.
    pub(in crate::codec) fn push_at(&self, resource: &Resource, revision: Revision, out: &mut Vec<u8>) {
        out.reserve(self.text.len() + BESIDE);
        self.ready().push(resource, revision, out);
    }
}

/// The text of a value that only wants a revision: on one line, and as Kubernetes writes numbers.
#[derive(Debug)]
pub(super) struct Ready<'a> {
    pub(super) text: Cow<'a, [u8]>,
    /// It has characters that must be escaped.
    escapes: bool,
    found: scan::Places,
    /// Where the text begins in the value; `None`: it was made anew, and nothing is found again.
    trimmed: Option<usize>,
}

impl<'a> Ready<'a> {
    /// Of a value that is valid JSON.
    pub(super) fn of(resource: &Resource, value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut text = Cow::Borrowed(value.trim_ascii());
        let marks = Marks::of(&text);
        if marks.lines {
            text = scan::compact(&text).into();
        }
        if resource.sorts_members && scan::may_have_negative_zero(&text) {
            text = scan::without_negative_zeros(&text).into();
        }
        let found = scan::places(&text).map_err(|scan::EscapedName| DecodeError::EscapedName)?;
        let trimmed = match &text {
            Cow::Borrowed(part) => Some(part.as_ptr().addr() - value.as_ptr().addr()),
            Cow::Owned(_) => None,
        };
        Ok(Self { text, escapes: marks.escapes, found, trimmed })
    }

    /// Where in the text a part of the value stands whose copy begins at this address.
    pub(super) fn place(&self, address: usize, part: &str) -> Option<usize> {
        let at = part.as_ptr().addr().checked_sub(address)?.checked_sub(self.trimmed?)?;
        (at < self.text.len()).then_some(at)
    }

    /// Appends the object with its revision.
    fn push(&self, resource: &Resource, revision: Revision, out: &mut Vec<u8>) -> (Places, Copies) {
        let copy = if self.escapes { escape::push } else { Vec::extend_from_slice };
        splice(resource, &self.text, &self.found, copy, revision, out)
    }

    /// The message with these attributes; `place` returns where in the text one of them may stand.
    pub(super) fn announce(
        &self,
        framing: &Framing,
        resource: &Resource,
        revision: Revision,
        kind: MessageKind,
        texts: &AttributeTexts<'_>,
        place: impl Fn(&str) -> Option<usize>,
    ) -> Result<Announced<Places>, DecodeError> {
        let mut draft = Draft::new(framing, self.text.len() + BESIDE);
        envelope::open(&mut draft, kind);
        let start = draft.len();
        let (places, copies) = self.push(resource, revision, draft.payload());
        let end = draft.len();
        envelope::close(&mut draft);
        let behind = behind(&draft, texts, |text| Some(start + copies.place(place(text)?)?))?;
        Announced::new(draft, kind, start..end, behind, places)
    }
}

/// Which parts of a text were copied, and where to: at most three.
#[derive(Debug, Default)]
struct Copies {
    /// Where they begin in the text and in the object, in this order.
    begin: [(usize, usize); 3],
    len: usize,
}

impl Copies {
    fn add(&mut self, from: usize, to: usize) {
        self.begin[self.len] = (from, to);
        self.len += 1;
    }

    /// Where a byte of the text is in the object, if nothing before it in its part got longer.
    fn place(&self, at: usize) -> Option<usize> {
        let (from, to) = self.begin[..self.len].iter().rfind(|(from, _)| *from <= at)?;
        Some(to + at - from)
    }
}

/// Appends `text` with the version spliced in, and with `kind` and `apiVersion` when it lacks them. `copy` appends a part of
/// it, which may get longer by that.
fn splice(
    resource: &Resource,
    text: &[u8],
    found: &scan::Places,
    copy: fn(&mut Vec<u8>, &[u8]),
    revision: Revision,
    out: &mut Vec<u8>,
) -> (Places, Copies) {
    let start = out.len();
    let mut copies = Copies::default();
    let mut copy = |out: &mut Vec<u8>, part: Range<usize>| {
        copies.add(part.start, out.len() - start);
        copy(out, &text[part]);
    };
    let mut bare = 0;
    let mut copied = 0;
    if let Some(after_type) = found.after_type {
        copy(out, 0..after_type);
        copied = after_type;
        bare = out.len() - start;
    }
    if found.kind.is_none() || found.api_version.is_none() {
        out.push(b'{');
        copied = 1;
        let kind = (found.kind.is_none(), "kind", &resource.kind);
        let api_version = (found.api_version.is_none(), "apiVersion", &resource.api_version);
        let types = if resource.sorts_members { [api_version, kind] } else { [kind, api_version] };
        for (_, name, value) in types.into_iter().filter(|(is_missing, ..)| *is_missing) {
            for part in ["\"", name, "\":\"", value, "\","] {
                out.extend_from_slice(part.as_bytes());
            }
        }
        if found.kind.is_none() && found.api_version.is_none() {
            bare = out.len() - start;
        }
    }
    let mut digits = [0; 20];
    let digits = decimal(revision.get(), &mut digits);
    let version_at;
    if let Some(old) = &found.resource_version {
        copy(out, copied..old.start);
        out.push(b'"');
        version_at = out.len() - start;
        out.extend_from_slice(digits);
        out.push(b'"');
        copy(out, old.end..text.len());
    } else {
        // `attributes` found an object as metadata, so the scan did too.
        let metadata = found.metadata.unwrap_or(1);
        let after = if resource.sorts_members { found.after_lesser } else { found.after_identity };
        let at = after.unwrap_or(metadata);
        copy(out, copied..at);
        if after.is_some() {
            out.push(b',');
        }
        out.extend_from_slice(b"\"resourceVersion\":\"");
        version_at = out.len() - start;
        out.extend_from_slice(digits);
        out.push(b'"');
        if after.is_none() && found.metadata_filled {
            out.push(b',');
        }
        copy(out, at..text.len());
    }
    let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let version = offset(version_at)..offset(version_at + digits.len());
    (Places { version, bare: offset(bare) }, copies)
}
