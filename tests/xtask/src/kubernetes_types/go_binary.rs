//! The struct types that a Go binary describes for reflection: names, fields in order, their types and tags.
//!
//! Read from a 64-bit little-endian ELF file that is not position independent, as Go 1.18 to 1.27 write it. `.typelink`
//! is a list of offsets of types from the first one. A type is 48 bytes (flags at 20, kind at 23, the offset of its name
//! at 40), followed by what its kind adds. A name is a flag byte, a varint length and the text, and the same again for a
//! tag. Any file gives an answer: what does not fit is an error, never a panic.

use std::collections::{BTreeMap, BTreeSet};

const TYPE_BYTES: u64 = 48;
/// Flags of a type: a star is in front of its name; it has a name; a package path follows.
const EXTRA_STAR: u8 = 2;
const NAMED: u8 = 4;
const UNCOMMON: u8 = 1;
/// Flags of a name: it has a tag; the field is embedded.
const TAGGED: u8 = 2;
const EMBEDDED: u8 = 8;
/// A section that has no bytes in the file.
const NO_BITS: u32 = 8;

/// What a type is, as far as API types need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A scalar's Go name: `int32`.
    Scalar(&'static str),
    Pointer(u64),
    Slice(u64),
    Map(u64, u64),
    Struct(Vec<Field>),
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) tag: String,
    pub(super) embedded: bool,
    /// The address of its type.
    pub(super) of: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Type {
    /// `k8s.io/api/core/v1.Pod`; empty for a type without a name.
    pub(super) name: String,
    pub(super) shape: Shape,
}

struct Section {
    address: u64,
    offset: u64,
    length: u64,
    in_file: bool,
}

/// A binary, and the types that it describes by their addresses.
pub(super) struct GoBinary<'a> {
    bytes: &'a [u8],
    sections: BTreeMap<String, Section>,
    base: u64,
    types: BTreeMap<u64, Type>,
}

const SHORT: &str = "the file ends too early";

impl<'a> GoBinary<'a> {
    /// Reads all types that can be reached.
    ///
    /// # Errors
    /// It is not such a binary.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, String> {
        if bytes.get(..6) != Some(b"\x7fELF\x02\x01") {
            return Err("not a 64-bit little-endian ELF file".to_owned());
        }
        let mut binary = Self { bytes, sections: BTreeMap::new(), base: 0, types: BTreeMap::new() };
        binary.read_sections()?;
        let links = binary
            .sections
            .get(".typelink")
            .ok_or("no .typelink: not a Go binary, or position independent")?;
        let (links, count) = (links.offset, links.length / 4);
        let first = [".".to_owned() + "go.type", ".rodata".to_owned()];
        let first = first.iter().find_map(|name| binary.sections.get(name)).ok_or("no section of types")?;
        binary.base = first.address;
        let mut todo = Vec::new();
        for number in 0..count {
            todo.push(binary.relative(links + 4 * number)?);
        }
        let mut seen = BTreeSet::new();
        while let Some(address) = todo.pop() {
            if !seen.insert(address) {
                continue;
            }
            // Entries that are no types of this layout are passed over: what an API type refers to must be there.
            let Ok(found) = binary.read_type(address) else { continue };
            match &found.shape {
                Shape::Pointer(of) | Shape::Slice(of) => todo.push(*of),
                Shape::Map(key, of) => todo.extend([*key, *of]),
                Shape::Struct(fields) => todo.extend(fields.iter().map(|field| field.of)),
                Shape::Scalar(_) | Shape::Other => {}
            }
            binary.types.insert(address, found);
        }
        Ok(binary)
    }

    /// All types, by address.
    pub(super) const fn types(&self) -> &BTreeMap<u64, Type> {
        &self.types
    }

    /// The type at an address.
    ///
    /// # Errors
    /// None was found there.
    pub(super) fn at(&self, address: u64) -> Result<&Type, String> {
        self.types.get(&address).ok_or_else(|| format!("no type at {address:#x}"))
    }

    fn read_sections(&mut self) -> Result<(), String> {
        let table = self.number::<8>(0x28)?;
        let (size, count, names) =
            (self.number::<2>(0x3a)?, self.number::<2>(0x3c)?, self.number::<2>(0x3e)?);
        let header = |number: u64| table.checked_add(size * number).ok_or(SHORT);
        let strings = self.number::<8>(header(names)? + 24)?;
        for number in 0..count {
            let at = header(number)?;
            let name = strings.saturating_add(self.number::<4>(at)?);
            let text = self.slice(name, 0)?.split(|byte| *byte == 0).next().unwrap_or_default();
            let section = Section {
                address: self.number::<8>(at + 16)?,
                offset: self.number::<8>(at + 24)?,
                length: self.number::<8>(at + 32)?,
                in_file: self.number::<4>(at + 4)? != u64::from(NO_BITS),
            };
            self.sections.insert(String::from_utf8_lossy(text).into_owned(), section);
        }
        Ok(())
    }

    /// The bytes from an offset in the file on, at least `least` of them.
    fn slice(&self, offset: u64, least: u64) -> Result<&'a [u8], String> {
        let from = usize::try_from(offset).ok().and_then(|offset| self.bytes.get(offset..));
        from.filter(|rest| rest.len() as u64 >= least).ok_or_else(|| SHORT.to_owned())
    }

    /// A little-endian number of `N` bytes.
    fn number<const N: usize>(&self, offset: u64) -> Result<u64, String> {
        let mut value = [0; 8];
        value[..N].copy_from_slice(&self.slice(offset, N as u64)?[..N]);
        Ok(u64::from_le_bytes(value))
    }

    /// The address that a signed offset from the first type names.
    fn relative(&self, offset: u64) -> Result<u64, String> {
        let low = u32::try_from(self.number::<4>(offset)?).unwrap_or_default();
        self.base.checked_add_signed(i64::from(low.cast_signed())).ok_or_else(|| SHORT.to_owned())
    }

    /// Where an address of memory is in the file.
    fn offset(&self, address: u64) -> Result<u64, String> {
        let holds = |section: &&Section| {
            let into = address.checked_sub(section.address);
            section.in_file && section.address > 0 && into.is_some_and(|into| into < section.length)
        };
        let section = self.sections.values().find(holds);
        let section = section.ok_or_else(|| format!("no section holds {address:#x}"))?;
        Ok(address - section.address + section.offset)
    }

    /// A text with its length before it, and the offset after it.
    fn text(&self, mut at: u64) -> Result<(String, u64), String> {
        let (mut length, mut shift) = (0_u64, 0);
        loop {
            let byte = self.number::<1>(at)?;
            at += 1;
            length |= (byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
            if shift > 28 {
                return Err("a length of more than 28 bits".to_owned());
            }
        }
        let bytes = self.slice(at, length)?;
        let text = &bytes[..usize::try_from(length).unwrap_or_default()];
        Ok((String::from_utf8_lossy(text).into_owned(), at + length))
    }

    /// A name at an address: its text, its tag, and whether its field is embedded.
    fn name(&self, address: u64) -> Result<(String, String, bool), String> {
        let at = self.offset(address)?;
        let flags = u8::try_from(self.number::<1>(at)?).unwrap_or_default();
        let (text, after) = self.text(at + 1)?;
        let tag = if flags & TAGGED > 0 { self.text(after)?.0 } else { String::new() };
        Ok((text, tag, flags & EMBEDDED > 0))
    }

    fn read_type(&self, address: u64) -> Result<Type, String> {
        let at = self.offset(address)?;
        let flags = u8::try_from(self.number::<1>(at + 20)?).unwrap_or_default();
        let kind = self.number::<1>(at + 23)? & 31;
        let own = at + TYPE_BYTES;
        // The bytes that the kind adds, after which a package path may follow.
        let (shape, more) = match kind {
            1 => (Shape::Scalar("bool"), 0),
            5 => (Shape::Scalar("int32"), 0),
            6 => (Shape::Scalar("int64"), 0),
            8 => (Shape::Scalar("uint8"), 0),
            24 => (Shape::Scalar("string"), 0),
            // A map's own part differs between releases of Go, so its package path is not looked for.
            21 => (Shape::Map(self.number::<8>(own)?, self.number::<8>(own + 8)?), u64::MAX),
            22 => (Shape::Pointer(self.number::<8>(own)?), 8),
            23 => (Shape::Slice(self.number::<8>(own)?), 8),
            25 => (Shape::Struct(self.fields(own)?), 32),
            _ => (Shape::Other, u64::MAX),
        };
        let mut name = String::new();
        if flags & NAMED > 0 {
            let text = self.name(self.relative(at + 40)?)?.0;
            let text = if flags & EXTRA_STAR > 0 { text.get(1..).unwrap_or_default() } else { &text };
            let short = text.rsplit('.').next().unwrap_or_default();
            let mut package = String::new();
            if flags & UNCOMMON > 0 && more != u64::MAX {
                package = self
                    .relative(own + more)
                    .and_then(|path| self.name(path))
                    .map_or_else(|_| package, |found| found.0);
            }
            name = if package.is_empty() { text.to_owned() } else { format!("{package}.{short}") };
        }
        Ok(Type { name, shape })
    }

    fn fields(&self, own: u64) -> Result<Vec<Field>, String> {
        let (array, count) = (self.number::<8>(own + 8)?, self.number::<8>(own + 16)?);
        if count == 0 {
            return Ok(Vec::new());
        }
        let start = self.offset(array)?;
        let field = |number: u64| {
            let at = start + 24 * number;
            let (name, tag, embedded) = self.name(self.number::<8>(at)?)?;
            Ok(Field { name, tag, embedded, of: self.number::<8>(at + 8)? })
        };
        // A struct has at most some hundred fields: a larger number is no struct.
        if count > 4096 { Err("too many fields".to_owned()) } else { (0..count).map(field).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::GoBinary;

    #[test]
    fn what_is_no_go_binary_is_refused() {
        for (bytes, why) in [
            (&b""[..], "not a 64-bit"),
            (b"\x7fELF\x01\x01", "not a 64-bit"),
            (b"\x7fELF\x02\x01", "ends too early"),
        ] {
            let said = GoBinary::read(bytes).err().unwrap_or_default();
            assert!(said.contains(why), "{said}");
        }
        // No sections at all.
        let mut bytes = vec![0; 64 + 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[0x28] = 64;
        bytes[0x3a] = 64;
        assert!(GoBinary::read(&bytes).err().is_some_and(|said| said.contains(".typelink")));
    }
}
