//! Decodes a client's header blocks (RFC 7541, section 3.2).

use super::{
    FIELD_OVERHEAD_BYTES, Fault,
    block::{Block, Text},
    table::{Name, Table},
};

/// A field of a header list. Its bytes are as the client sent them, unchecked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'f> {
    pub name: &'f [u8],
    pub value: &'f [u8],
    /// The client asks that no table ever holds the value (section 6.2.3). Only a proxy has to act on it.
    pub is_sensitive: bool,
}

/// How the fields of a block compare with the limit of their list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum List {
    /// Every field was handed over.
    Whole,
    /// The fields up to the limit were handed over, and no more. The block is valid and the table in step: the request
    /// is refused (431), the connection goes on.
    TooLarge,
}

/// What a literal does to the dynamic table (section 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Indexing {
    Incremental,
    Without,
    Never,
}

/// The decoding context of one connection. Holds no heap memory before a client inserts an entry.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// The `SETTINGS_HEADER_TABLE_SIZE` that is in force. Below the table's maximum size until the client complies.
    table_bytes_max: usize,
}

impl Decoder {
    /// A decoder whose dynamic table has at most `table_bytes`, which the client takes for granted:
    /// [`TABLE_BYTES_INITIAL`](super::TABLE_BYTES_INITIAL) on a new connection.
    pub const fn new(table_bytes: usize) -> Self {
        Self { table: Table::new(table_bytes), table_bytes_max: table_bytes }
    }

    /// The client acknowledged SETTINGS with a lower `SETTINGS_HEADER_TABLE_SIZE`: its next block is to begin with a size
    /// update, unless the table is already as small (section 4.2). The table of a client without one, which may use no
    /// table at all, stays as it is. A value above the one in force changes nothing.
    pub fn lower(&mut self, table_bytes: usize) {
        self.table_bytes_max = self.table_bytes_max.min(table_bytes);
    }

    /// Bytes that its table uses.
    pub fn bytes(&self) -> usize {
        self.table.heap_bytes()
    }

    /// Decodes a whole block, and hands over its fields in their order, as long as their list has at most
    /// `list_bytes_max`: a field counts its name, its value and 32 bytes (RFC 9113, section 6.5.2,
    /// `SETTINGS_MAX_HEADER_LIST_SIZE`).
    ///
    /// The cost is in proportion to the bytes of the block and of the fields that are handed over. A field that refers
    /// to a table is not copied; a name that is inserted by reference is shared.
    ///
    /// # Errors
    /// The block is invalid. Fields before the fault were handed over, and the decoder is of no more use.
    pub fn decode(
        &mut self,
        block: &[u8],
        list_bytes_max: usize,
        on_field: impl FnMut(Field<'_>),
    ) -> Result<List, Fault> {
        let mut block = Block::new(block);
        self.size_updates(&mut block)?;
        let mut list = Counted { left: Some(list_bytes_max), on_field };
        let mut scratch = Vec::new();
        while let Some(first) = block.peek() {
            match first {
                // What nobody takes is not looked up: a block may refer thousands of times to one entry.
                0x80.. if list.left.is_none() => self.table.check(block.integer(7)?)?,
                0x80.. => {
                    let (name, value) = self.table.field(block.integer(7)?)?;
                    list.push(Field { name, value, is_sensitive: false });
                }
                0x40.. => self.literal(Indexing::Incremental, &mut block, &mut scratch, &mut list)?,
                0x20.. => return Err(Fault::SizeUpdateLate),
                0x10.. => self.literal(Indexing::Never, &mut block, &mut scratch, &mut list)?,
                0.. => self.literal(Indexing::Without, &mut block, &mut scratch, &mut list)?,
            }
        }
        Ok(if list.left.is_some() { List::Whole } else { List::TooLarge })
    }

    #[cfg(test)]
    pub(super) const fn table(&self) -> &Table {
        &self.table
    }

    /// The size updates with which a block begins: two, if the maximum was lowered and raised again since the last one
    /// (section 4.2).
    fn size_updates(&mut self, block: &mut Block<'_>) -> Result<(), Fault> {
        let mut count = 0;
        while let Some(0x20..0x40) = block.peek() {
            count += 1;
            if count > 2 {
                return Err(Fault::SizeUpdateTooMany);
            }
            let bytes_max = block.integer(5)?;
            if bytes_max > self.table_bytes_max {
                return Err(Fault::SizeUpdateTooLarge);
            }
            self.table.resize(bytes_max);
        }
        Ok(())
    }

    fn literal(
        &mut self,
        indexing: Indexing,
        block: &mut Block<'_>,
        scratch: &mut Vec<u8>,
        list: &mut Counted<impl FnMut(Field<'_>)>,
    ) -> Result<(), Fault> {
        scratch.clear();
        let prefix_bits = if indexing == Indexing::Incremental { 6 } else { 4 };
        let known = match block.integer(prefix_bits)? {
            0 => None,
            index => Some(self.table.name(index)?),
        };
        let name = if known.is_some() { Text::Plain(b"") } else { block.text(scratch)? };
        let value = block.text(scratch)?;
        let name = known.as_ref().map_or_else(|| name.bytes(scratch), Name::bytes);
        let value = value.bytes(scratch);
        list.push(Field { name, value, is_sensitive: indexing == Indexing::Never });
        if indexing == Indexing::Incremental {
            let name = known.clone().unwrap_or_else(|| Name::from(name));
            self.table.insert(name, value);
        }
        Ok(())
    }
}

/// Hands over the fields of a list up to its limit.
struct Counted<F> {
    /// Bytes up to the limit; none: it was passed.
    left: Option<usize>,
    on_field: F,
}

impl<F: FnMut(Field<'_>)> Counted<F> {
    fn push(&mut self, field: Field<'_>) {
        let bytes = field.name.len() + field.value.len() + FIELD_OVERHEAD_BYTES;
        self.left = self.left.and_then(|left| left.checked_sub(bytes));
        if self.left.is_some() {
            (self.on_field)(field);
        }
    }
}
