//! The static table and a connection's dynamic table (RFC 7541, section 2.3 and appendix A).

use super::{FIELD_OVERHEAD_BYTES, Fault};
use std::{collections::VecDeque, rc::Rc};

/// Appendix A; the first entry has index 1.
static STATIC: [(&[u8], &[u8]); 61] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
];

/// What the static table has of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Static {
    /// The index of an entry with this name and value.
    Field(usize),
    /// The index of the first entry with this name.
    Name(usize),
    Nothing,
}

impl Static {
    pub(super) fn find(name: &[u8], value: &[u8]) -> Self {
        let mut named = (1..).zip(&STATIC).filter(|(_, entry)| entry.0 == name).peekable();
        let Some(&(first, _)) = named.peek() else { return Self::Nothing };
        named.find(|(_, entry)| entry.1 == value).map_or(Self::Name(first), |(index, _)| Self::Field(index))
    }
}

/// A name, shared by all entries that were inserted by a reference to it: such an entry costs the client two bytes, and
/// must not cost us a copy.
#[derive(Clone, Debug)]
pub(super) enum Name {
    Static(&'static [u8]),
    Dynamic(Rc<[u8]>),
}

impl Name {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Static(name) => name,
            Self::Dynamic(name) => name,
        }
    }
}

impl From<&[u8]> for Name {
    fn from(name: &[u8]) -> Self {
        Self::Dynamic(name.into())
    }
}

#[derive(Debug)]
struct Entry {
    name: Name,
    value: Box<[u8]>,
}

impl Entry {
    /// What the entry counts for (section 4.1).
    fn bytes(&self) -> usize {
        self.name.bytes().len() + self.value.len() + FIELD_OVERHEAD_BYTES
    }
}

/// The address space of both tables (section 2.3.3). Allocates nothing before the first insertion.
#[derive(Debug)]
pub(super) struct Table {
    /// The newest first.
    entries: VecDeque<Entry>,
    bytes: usize,
    bytes_max: usize,
}

impl Table {
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Changes the maximum size and evicts what is above it (section 4.3).
    pub(super) fn resize(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.evict(bytes_max);
        if self.entries.is_empty() {
            self.entries = VecDeque::new();
        }
    }

    /// Inserts an entry, after as many were evicted as it needs. One that is above the maximum size leaves the table
    /// empty, and is no error (section 4.4).
    pub(super) fn insert(&mut self, name: Name, value: &[u8]) {
        let bytes = name.bytes().len() + value.len() + FIELD_OVERHEAD_BYTES;
        let Some(others_max) = self.bytes_max.checked_sub(bytes) else { return self.evict(0) };
        self.evict(others_max);
        self.bytes += bytes;
        self.entries.push_front(Entry { name, value: value.into() });
    }

    /// Bytes that the entries use: their own, and those of the table.
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes + size_of::<Entry>() * self.entries.capacity()
    }

    /// The size (section 4.1).
    #[cfg(test)]
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The entries of the dynamic table, the newest first.
    #[cfg(test)]
    pub(super) fn dynamic(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.entries.iter().map(|entry| (entry.name.bytes(), &*entry.value))
    }

    /// Whether there is a field at `index`.
    pub(super) fn check(&self, index: usize) -> Result<(), Fault> {
        match index {
            0 => Err(Fault::IndexZero),
            _ if index <= STATIC.len() + self.entries.len() => Ok(()),
            _ => Err(Fault::IndexBeyondTables),
        }
    }

    /// The name and the value at `index`.
    pub(super) fn field(&self, index: usize) -> Result<(&[u8], &[u8]), Fault> {
        let nth = index.checked_sub(1).ok_or(Fault::IndexZero)?;
        if let Some(field) = STATIC.get(nth) {
            return Ok(*field);
        }
        let entry = self.entries.get(nth - STATIC.len()).ok_or(Fault::IndexBeyondTables)?;
        Ok((entry.name.bytes(), &entry.value))
    }

    /// The name at `index`, which outlives its entry.
    pub(super) fn name(&self, index: usize) -> Result<Name, Fault> {
        let nth = index.checked_sub(1).ok_or(Fault::IndexZero)?;
        if let Some((name, _)) = STATIC.get(nth) {
            return Ok(Name::Static(name));
        }
        let entry = self.entries.get(nth - STATIC.len()).ok_or(Fault::IndexBeyondTables)?;
        Ok(entry.name.clone())
    }

    fn evict(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let Some(oldest) = self.entries.pop_back() else { return };
            self.bytes -= oldest.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shared_and_outlives_its_entry() {
        let mut table = Table::new(200);
        table.insert(Name::from(&[b'n'; 100][..]), b"");
        let Ok(Name::Dynamic(name)) = table.name(62) else { panic!("a dynamic name") };
        table.insert(Name::Dynamic(Rc::clone(&name)), b"v");
        assert_eq!(table.dynamic().count(), 1, "the first was evicted");
        assert_eq!(table.bytes(), 133);
        assert_eq!(Rc::strong_count(&name), 2);
        table.resize(0);
        assert_eq!((Rc::strong_count(&name), table.bytes(), table.entries.capacity()), (1, 0, 0));
    }

    #[test]
    fn the_static_table_finds_each_of_its_entries() {
        for (index, (name, value)) in (1..).zip(STATIC) {
            assert_eq!(Static::find(name, value), Static::Field(index));
            let Static::Name(first) = Static::find(name, b"?") else { panic!("{index}") };
            assert_eq!(STATIC[first - 1].0, name);
            assert!(STATIC[..first - 1].iter().all(|entry| entry.0 != name), "the first of its name");
        }
        assert_eq!(Static::find(b"x-none", b""), Static::Nothing);
        assert_eq!(Static::find(b"", b""), Static::Nothing);
    }
}
