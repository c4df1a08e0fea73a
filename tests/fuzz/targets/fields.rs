//! Field blocks of HTTP/2 (HPACK): a limit cuts a list and changes nothing else, and what is decoded is encoded again.

use revcast::wire::http2::hpack::{Decoder, Fault, List, TABLE_BYTES_INITIAL, push_field};

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn decode(decoder: &mut Decoder, block: &[u8], limit: usize) -> (Result<List, Fault>, Fields) {
    let mut fields = Vec::new();
    let list = decoder.decode(block, limit, |field| fields.push((field.name.to_vec(), field.value.to_vec())));
    (list, fields)
}

/// Blocks of one connection: each after its length in a byte, the last to the end.
pub(crate) fn run(data: &[u8]) {
    let mut rest = data;
    let [mut all, mut some, mut none] = [(); 3].map(|()| Decoder::new(TABLE_BYTES_INITIAL));
    while let Some((&len, after)) = rest.split_first() {
        let (block, after) = after.split_at(usize::from(len).min(after.len()));
        rest = after;
        let limit = 32 * usize::from(len % 8);
        let (list, fields) = decode(&mut all, block, usize::MAX);
        let (limited, first) = decode(&mut some, block, limit);
        let (nothing, not_one) = decode(&mut none, block, 0);
        assert_eq!(list.is_err(), limited.is_err(), "a limit hides a fault");
        assert_eq!(list.err(), nothing.err());
        assert!(not_one.is_empty() && fields.starts_with(&first));
        // 4 KiB of a table may be named by each byte of a block.
        assert!(fields.len() <= block.len());
        assert!(all.bytes() < 32 << 10, "{} bytes", all.bytes());
        if list.is_err() {
            return;
        }
        let bytes: usize = first.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
        assert!(bytes <= limit && (limited == Ok(List::Whole)) == (first.len() == fields.len()));
        let mut again = Vec::new();
        for (name, value) in fields.iter().filter(|(name, _)| !name.iter().any(u8::is_ascii_uppercase)) {
            let from = again.len();
            push_field(&mut again, name, value);
            let mut fresh = Decoder::new(0);
            let decoded = decode(&mut fresh, &again[from..], usize::MAX);
            assert_eq!(decoded, (Ok(List::Whole), vec![(name.clone(), value.clone())]));
        }
    }
}
