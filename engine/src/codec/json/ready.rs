//! A text that only wants a revision: what is served of a value, and how it gets there.
//!
//! It owns the splice. [`Ready`] lives until the decoder reads its next value; a [`ReadJson`] goes from where a value is checked to where it
//! is published.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use super::{BESIDE, Places, scan};
use crate::attributes::{AttributeTexts, KeptTexts};
use crate::codec::DecodeError;
use crate::codec::announced::{Announced, Copies};
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
    /// Keeps what was read of a value beyond the decoder's next one.
    pub(in crate::codec) fn new(value: &Bytes, ready: Ready<'_>) -> Self {
        let attributes = ready.texts.keep(&ready.text, |attribute| ready.place(attribute));
        let Ready { text, escapes, found, .. } = ready;
        let text = match text {
            Cow::Borrowed(part) => value.slice_ref(part),
            Cow::Owned(made) => made.into(),
        };
        Self { text, escapes, found, attributes }
    }

    /// As it was read.
    pub(in crate::codec) fn ready(&self) -> Ready<'_> {
        Ready {
            text: Cow::Borrowed(&self.text),
            escapes: self.escapes,
            found: self.found.clone(),
            texts: self.attributes.of(&self.text),
            address: Some(self.text.as_ptr().addr()),
        }
    }

    /// Appends the object as `revision` writes it: as it is served then.
    pub(in crate::codec) fn push_at(&self, resource: &Resource, revision: Revision, out: &mut Vec<u8>) {
        out.reserve(self.text.len() + BESIDE);
        splice(resource, &self.text, self.escapes, &self.found, revision, out);
    }
}

/// A value that was read and only wants a revision: its text, on one line and as Kubernetes writes numbers, and its attributes.
#[derive(Debug)]
pub(in crate::codec) struct Ready<'a> {
    pub(super) text: Cow<'a, [u8]>,
    /// It has characters that must be escaped.
    pub(super) escapes: bool,
    pub(super) found: scan::Places,
    /// Attributes: many are parts of what was read, which is the text or a copy of it.
    pub(super) texts: AttributeTexts<'a>,
    /// The address of the text in what was read; `None`: the text was made anew, and no attribute is found in it.
    pub(super) address: Option<usize>,
}

impl Ready<'_> {
    /// Where in the text an attribute may stand.
    fn place(&self, attribute: &str) -> Option<usize> {
        let at = attribute.as_ptr().addr().checked_sub(self.address?)?;
        (at < self.text.len()).then_some(at)
    }

    /// The message of this kind that announces the object, as `revision` wrote it.
    pub(in crate::codec) fn announce(
        &self,
        framing: &Framing,
        resource: &Resource,
        revision: Revision,
        kind: MessageKind,
    ) -> Result<Announced<Places>, DecodeError> {
        let mut draft = Draft::new(framing, self.text.len() + BESIDE);
        let begin = draft.payload().len();
        let (object, places, copies) = envelope::event(draft.payload(), kind, |out| {
            let start = out.len() - begin;
            let (places, copies) = splice(resource, &self.text, self.escapes, &self.found, revision, out);
            (start..out.len() - begin, places, copies)
        });
        let place = |attribute: &str| Some(object.start + copies.place(self.place(attribute)?)?);
        let (message, table) = draft.finish_with(Some(&self.texts), place);
        let table = table.ok_or_else(|| DecodeError::TooLarge(object.len()))?;
        Announced::new(message, kind, object, table, places)
    }
}

/// Appends `text` with the version spliced in, and with `kind` and `apiVersion` when it lacks them. A part of it gets longer by
/// what is escaped.
fn splice(
    resource: &Resource,
    text: &[u8],
    escapes: bool,
    found: &scan::Places,
    revision: Revision,
    out: &mut Vec<u8>,
) -> (Places, Copies) {
    let start = out.len();
    let mut copies = Copies::default();
    let push = if escapes { escape::push } else { Vec::extend_from_slice };
    let mut copy = |out: &mut Vec<u8>, part: Range<usize>| {
        copies.add(part.start, out.len() - start);
        push(out, &text[part]);
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
