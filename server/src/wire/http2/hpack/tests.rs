//! The examples of RFC 7541, appendix C; what a client may not send; random connections.

use super::{huffman, table::Table, vectors, *};
use fastrand::Rng;

/// A field, and whether it is sensitive.
type Owned = (Vec<u8>, Vec<u8>, bool);

fn unhex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|c| c.to_digit(16)?.try_into().ok()).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// "name: value", sensitive after "!".
fn field(text: &str) -> Owned {
    let (is_sensitive, text) = text.strip_prefix('!').map_or((false, text), |text| (true, text));
    let (name, value) = text.split_once(": ").expect("a name and a value");
    (name.into(), value.into(), is_sensitive)
}

fn fields(texts: &[&str]) -> Vec<Owned> {
    texts.iter().map(|text| field(text)).collect()
}

/// The fields of `block`, as far as they come.
fn decode(decoder: &mut Decoder, block: &[u8], list_bytes_max: usize) -> (Result<List, Fault>, Vec<Owned>) {
    let mut fields = Vec::new();
    let list = decoder.decode(block, list_bytes_max, |Field { name, value, is_sensitive }| {
        fields.push((name.to_vec(), value.to_vec(), is_sensitive));
    });
    (list, fields)
}

#[track_caller]
fn whole(decoder: &mut Decoder, block: &[u8]) -> Vec<Owned> {
    let (list, fields) = decode(decoder, block, usize::MAX);
    assert_eq!(list, Ok(List::Whole), "{block:02x?}");
    fields
}

/// The dynamic table, the newest entry first.
fn table(decoder: &Decoder) -> Vec<(Vec<u8>, Vec<u8>)> {
    decoder.table().dynamic().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
}

/// Blocks of one connection: the bytes, the fields, the table after them and its size.
type Story<'s> = &'s [(&'s str, &'s [&'s str], &'s [&'s str], usize)];

fn tell(table_bytes: usize, story: Story<'_>) {
    let mut decoder = Decoder::new(table_bytes);
    for (block, list, entries, bytes) in story {
        assert_eq!(whole(&mut decoder, &unhex(block)), fields(list), "{block}");
        let entries: Vec<_> = fields(entries).into_iter().map(|(name, value, _)| (name, value)).collect();
        assert_eq!(table(&decoder), entries, "{block}");
        assert_eq!(decoder.table().bytes(), *bytes, "{block}");
    }
}

#[test]
fn c_1_integers() {
    for (bytes, prefix_bits, value) in [
        (&[0x0a][..], 5, 10),
        (&[0xea], 5, 10),
        (&[0x1f, 0x9a, 0x0a], 5, 1337),
        (&[0x2a], 8, 42),
        (&[0x1f, 0x9a, 0x8a, 0x80, 0x80, 0x00], 5, 1337),
        (&[0x7f, 0x80, 0xff, 0xff, 0xff, 0x0f], 7, 0xffff_ffff),
    ] {
        assert_eq!(block::Block::new(bytes).integer(prefix_bits), Ok(value), "{bytes:02x?}");
    }
    for (bytes, fault) in [
        (&[][..], Fault::Truncated),
        (&[0x1f], Fault::Truncated),
        (&[0x1f, 0x9a], Fault::Truncated),
        (&[0x1f, 0xe1, 0xff, 0xff, 0xff, 0x0f], Fault::IntegerTooLarge),
        (&[0x1f, 0x80, 0x80, 0x80, 0x80, 0x10], Fault::IntegerTooLarge),
        (&[0x1f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00], Fault::IntegerTooLarge),
        (&[0xff; 20], Fault::IntegerTooLarge),
    ] {
        assert_eq!(block::Block::new(bytes).integer(5), Err(fault), "{bytes:02x?}");
    }
}

#[test]
fn c_2_literals() {
    let custom = &["custom-key: custom-header"];
    tell(4096, &[("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", custom, custom, 55)]);
    tell(4096, &[("040c 2f73 616d 706c 652f 7061 7468", &[":path: /sample/path"], &[], 0)]);
    tell(4096, &[("1008 7061 7373 776f 7264 0673 6563 7265 74", &["!password: secret"], &[], 0)]);
    tell(4096, &[("82", &[":method: GET"], &[], 0)]);
}

#[test]
fn c_3_and_c_4_requests() {
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let huffman = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    let (host, cache, custom) =
        (":authority: www.example.com", "cache-control: no-cache", "custom-key: custom-value");
    for [first, second, third] in [plain, huffman] {
        let story: Story<'_> = &[
            (first, &[":method: GET", ":scheme: http", ":path: /", host], &[host], 57),
            (second, &[":method: GET", ":scheme: http", ":path: /", host, cache], &[cache, host], 110),
            (
                third,
                &[":method: GET", ":scheme: https", ":path: /index.html", host, custom],
                &[custom, cache, host],
                164,
            ),
        ];
        tell(4096, story);
    }
}

#[test]
fn c_5_and_c_6_responses() {
    let plain = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 \
         3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 \
         7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 \
         6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
    ];
    let huffman = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad \
         1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 \
         e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    let (found, moved) = (":status: 302", ":status: 307");
    let (private, location) = ("cache-control: private", "location: https://www.example.com");
    let (date, later) = ("date: Mon, 21 Oct 2013 20:13:21 GMT", "date: Mon, 21 Oct 2013 20:13:22 GMT");
    let (gzip, cookie) =
        ("content-encoding: gzip", "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1");
    for [first, second, third] in [plain, huffman] {
        let story: Story<'_> = &[
            (first, &[found, private, date, location], &[location, date, private, found], 222),
            (second, &[moved, private, date, location], &[moved, location, date, private], 222),
            (third, &[":status: 200", private, later, location, gzip, cookie], &[cookie, gzip, later], 215),
        ];
        tell(256, story);
    }
}

#[test]
fn what_another_implementation_encodes() {
    let mut decoder = Decoder::new(TABLE_BYTES_INITIAL);
    let mut lines = vectors::BLOCKS.lines().skip(1).peekable();
    let mut count = 0;
    while lines.peek().is_some() {
        let digits = std::iter::from_fn(|| lines.next_if(|line| !line.starts_with(' ')));
        let block = unhex(&digits.collect::<String>());
        let texts = std::iter::from_fn(|| lines.next_if(|line| line.starts_with(' ')));
        let texts: Vec<_> = texts.map(|line| &line[2..]).collect();
        assert_eq!(whole(&mut decoder, &block), fields(&texts), "{texts:?}");
        count += 1;
    }
    assert_eq!(count, 50);
    let every: Vec<u8> = (0..=255).collect();
    let (mut coded, mut decoded) = (Vec::new(), Vec::new());
    huffman::encode(&every, &mut coded);
    assert_eq!(coded, unhex(vectors::EVERY_BYTE));
    assert_eq!(huffman::decode(&coded, &mut decoded), Ok(()));
    assert_eq!(decoded, every);
}

#[test]
fn huffman_there_and_back() {
    let there_and_back = |text: &[u8]| {
        let (mut coded, mut decoded) = (Vec::new(), b"kept".to_vec());
        huffman::encode(text, &mut coded);
        assert_eq!(coded.len(), huffman::encoded_len(text));
        assert_eq!(huffman::decode(&coded, &mut decoded), Ok(()), "{text:02x?}");
        assert_eq!(decoded.strip_prefix(b"kept"), Some(text));
    };
    there_and_back(b"");
    for byte in 0..=255 {
        for times in 1..=9 {
            there_and_back(&vec![byte; times]);
        }
    }
    for seed in 0..5000 {
        let mut rng = Rng::with_seed(seed);
        let highest = if seed % 2 == 0 { 0x7f } else { 0xff };
        there_and_back(&(0..rng.usize(..60)).map(|_| rng.u8(..=highest)).collect::<Vec<_>>());
    }
}

/// Random strings, against a decoder that compares bit by bit.
#[test]
fn huffman_decodes_as_the_definition_does() {
    let codes: Vec<(String, u8)> = (0..=255)
        .map(|symbol| {
            let mut eight = Vec::new();
            huffman::encode(&[symbol; 8], &mut eight);
            let bits: String = eight.iter().map(|byte| format!("{byte:08b}")).collect();
            (bits[..eight.len()].to_owned(), symbol)
        })
        .collect();
    let by_definition = |coded: &[u8]| {
        let bits: String = coded.iter().map(|byte| format!("{byte:08b}")).collect();
        let (mut rest, mut text) = (&bits[..], Vec::new());
        loop {
            if rest.starts_with(&"1".repeat(30)) {
                return Err(Fault::EndInString);
            }
            let Some((code, symbol)) = codes.iter().find(|(code, _)| rest.starts_with(code)) else { break };
            text.push(*symbol);
            rest = &rest[code.len()..];
        }
        match (rest.chars().all(|bit| bit == '1'), rest.len()) {
            (true, 0..8) => Ok(text),
            (true, _) => Err(Fault::PaddingTooLong),
            (false, _) => Err(Fault::PaddingNotOnes),
        }
    };
    let same = |coded: &[u8]| {
        let mut decoded = Vec::new();
        let verdict = huffman::decode(coded, &mut decoded).map(|()| decoded);
        assert_eq!(verdict, by_definition(coded), "{coded:02x?}");
        u32::from(verdict.is_ok())
    };
    let mut good = 0;
    for seed in 0..3000 {
        let mut rng = Rng::with_seed(seed);
        let ones = rng.u8(..);
        let coded: Vec<u8> = (0..rng.usize(..12)).map(|_| rng.u8(..) | rng.u8(..) & ones).collect();
        good += same(&coded);
    }
    assert!(good > 300, "some of it is text: {good}");
    for len in 0..9 {
        same(&vec![0xff; len]);
        same(&[&[0x1f][..], &vec![0xff; len]].concat());
    }
}

#[test]
fn what_may_not_be_sent() {
    let table: &[(&str, &str, Fault)] = &[
        ("index 0", "80", Fault::IndexZero),
        ("index 62 of an empty table", "be", Fault::IndexBeyondTables),
        ("index 63 of one entry", "4001 6101 62 bf", Fault::IndexBeyondTables),
        ("index 2^32 - 1", "ff80 ffff ff0f", Fault::IndexBeyondTables),
        ("a name with index 62", "7e00", Fault::IndexBeyondTables),
        ("a name with index 62, not indexed", "0f2f 00", Fault::IndexBeyondTables),
        ("a name with index 62, never indexed", "1f2f 00", Fault::IndexBeyondTables),
        ("an index of 2^32", "ff81 ffff ff0f", Fault::IntegerTooLarge),
        ("an index without end", "ffff ffff ffff ffff", Fault::IntegerTooLarge),
        ("half an index", "ff80", Fault::Truncated),
        ("a literal without anything", "40", Fault::Truncated),
        ("a literal without its name's end", "4003 6161", Fault::Truncated),
        ("a literal without a value", "4001 61", Fault::Truncated),
        ("a known name without a value", "44", Fault::Truncated),
        ("a value without its end", "0402 61", Fault::Truncated),
        ("a value of 4 GiB", "047f 80ff ffff 0f61", Fault::Truncated),
        ("a Huffman value without its end", "0483 f1e3", Fault::Truncated),
        ("a size of 4097", "3fe2 1f", Fault::SizeUpdateTooLarge),
        ("a size of 4097 after 0", "203f e21f", Fault::SizeUpdateTooLarge),
        ("three size updates", "2020 20", Fault::SizeUpdateTooMany),
        ("half a size update", "3f", Fault::Truncated),
        ("a size update after a field", "8220", Fault::SizeUpdateLate),
        ("EOS", "0484 ffff ffff", Fault::EndInString),
        ("EOS after a symbol", "0485 1fff ffff ff", Fault::EndInString),
        ("EOS and padding for more", "0485 ffff fffd 07", Fault::EndInString),
        ("8 bits of padding", "0481 ff", Fault::PaddingTooLong),
        ("11 bits of padding", "0482 1fff", Fault::PaddingTooLong),
        ("27 bits of padding", "0484 07ff ffff", Fault::PaddingTooLong),
        ("padding of zeros", "0481 18", Fault::PaddingNotOnes),
        ("padding with one zero", "0481 1e", Fault::PaddingNotOnes),
        ("half a symbol", "0481 fe", Fault::PaddingNotOnes),
        ("half a symbol in a name", "0081 fe00", Fault::PaddingNotOnes),
    ];
    for (what, block, fault) in table {
        let mut decoder = Decoder::new(TABLE_BYTES_INITIAL);
        assert_eq!(decode(&mut decoder, &unhex(block), usize::MAX).0, Err(*fault), "{what}");
        // Nor is it valid over the limit, where nothing is handed over.
        let mut decoder = Decoder::new(TABLE_BYTES_INITIAL);
        assert_eq!(decode(&mut decoder, &unhex(block), 0), (Err(*fault), Vec::new()), "{what}");
        assert!(!fault.to_string().is_empty());
    }
}

#[test]
fn a_lowered_table_is_complied_with() {
    let started = || {
        let mut decoder = Decoder::new(TABLE_BYTES_INITIAL);
        whole(&mut decoder, &unhex("4001 6101 62 4001 6301 64"));
        decoder.lower(40);
        decoder
    };
    let mut decoder = started();
    assert_eq!(whole(&mut decoder, &unhex("be bf")), fields(&["c: d", "a: b"]), "without an update it stays");
    let mut decoder = started();
    assert_eq!(decode(&mut decoder, &unhex("3f0a"), 100).0, Err(Fault::SizeUpdateTooLarge), "41");
    let mut decoder = started();
    assert_eq!(whole(&mut decoder, &unhex("3f09 be")), fields(&["c: d"]), "40");
    assert_eq!(whole(&mut decoder, &unhex("be")), fields(&["c: d"]), "once is enough");
    decoder.lower(50);
    assert_eq!(whole(&mut decoder, &unhex("be")), fields(&["c: d"]), "not lower");
    assert_eq!(whole(&mut decoder, &unhex("203f 0982")), fields(&[":method: GET"]), "to 0 and back to 40");
    assert_eq!(table(&decoder), []);
    let mut decoder = started();
    whole(&mut decoder, &unhex("20"));
    decoder.lower(0);
    whole(&mut decoder, &unhex("4001 6101 62"));
    assert_eq!(table(&decoder), [], "nothing fits into a table of 0 bytes");
}

#[test]
fn an_entry_above_the_table_empties_it() {
    let mut decoder = Decoder::new(100);
    whole(&mut decoder, &unhex("4001 6101 62"));
    let long = [&[0x40, 1, b'n', 68][..], &[b'v'; 68]].concat();
    whole(&mut decoder, &long);
    assert_eq!((decoder.table().bytes(), table(&decoder)), (0, vec![]));
    whole(&mut decoder, &[&[0x40, 1, b'n', 67][..], &[b'v'; 67]].concat());
    assert_eq!((decoder.table().bytes(), table(&decoder).len()), (100, 1));
    // Its name is known until the new entry has it.
    whole(&mut decoder, &unhex("7e02 7878"));
    assert_eq!(table(&decoder), [(b"n".to_vec(), b"xx".to_vec())]);
}

#[test]
fn a_list_is_counted_and_the_table_stays_in_step() {
    let block = unhex("82 4001 6101 62 4001 6301 64 bf");
    let all = fields(&[":method: GET", "a: b", "c: d", "a: b"]);
    for (list_bytes_max, handed_over) in
        [(144, 4), (143, 3), (110, 3), (109, 2), (76, 2), (75, 1), (42, 1), (41, 0)]
    {
        let mut decoder = Decoder::new(TABLE_BYTES_INITIAL);
        let list = if handed_over == 4 { List::Whole } else { List::TooLarge };
        assert_eq!(decode(&mut decoder, &block, list_bytes_max), (Ok(list), all[..handed_over].to_vec()));
        assert_eq!(whole(&mut decoder, &unhex("be bf")), fields(&["c: d", "a: b"]));
    }
    // A field that is small enough for what is left comes after one that is not: the list has ended.
    let mut decoder = Decoder::new(TABLE_BYTES_INITIAL);
    let block = [&[0, 1, b'n', 100][..], &[b'v'; 100], &[0x82]].concat();
    assert_eq!(decode(&mut decoder, &block, 60), (Ok(List::TooLarge), vec![]));
}

/// A block that stands for gigabytes: an entry as long as the table, and a byte for each reference to it.
#[test]
fn a_bomb_hands_over_no_more_than_the_limit() {
    let mut block = vec![0x40, 1, b'n'];
    Model::integer(&mut block, 0, 7, 4063);
    block.extend([b'v'; 4063]);
    block.resize(block.len() + 1_000_000, 0xbe);
    let mut decoder = Decoder::new(TABLE_BYTES_INITIAL);
    let (mut count, mut bytes) = (0, 0);
    let list = decoder.decode(&block, 16_384, |field| {
        count += 1;
        bytes += field.name.len() + field.value.len() + FIELD_OVERHEAD_BYTES;
    });
    assert_eq!(list, Ok(List::TooLarge));
    assert!(count == 4 && bytes <= 16_384, "{count} fields, {bytes} bytes");
    assert_eq!(table(&decoder).len(), 1);
    // A name as long as the table, and two bytes for each entry that has it.
    let mut block = vec![0x40];
    Model::integer(&mut block, 0, 7, 4064);
    block.extend([b'n'; 4064]);
    block.push(0);
    for _ in 0..100_000 {
        block.extend([0x7e, 0]);
    }
    let mut decoder = Decoder::new(TABLE_BYTES_INITIAL);
    assert_eq!(decode(&mut decoder, &block, 0).0, Ok(List::TooLarge));
    assert_eq!(table(&decoder).len(), 1);
}

#[test]
fn what_we_encode() {
    let encoded = |name: &str, value: &str| {
        let mut out = Vec::new();
        push_field(&mut out, name.as_bytes(), value.as_bytes());
        let mut decoder = Decoder::new(0);
        let is_sensitive = out[0] & 0xf0 == 0x10;
        assert_eq!(whole(&mut decoder, &out), [(name.into(), value.into(), is_sensitive)]);
        out
    };
    assert_eq!(encoded("accept-encoding", "gzip, deflate"), [0x90]);
    assert_eq!(encoded("via", ""), [0xbc]);
    assert_eq!(encoded("age", "7"), [15, 6, 1, b'7']);
    assert_eq!(encoded("content-type", "text/plain"), unhex("0f10 0a74 6578 742f 706c 6169 6e"));
    assert_eq!(encoded(":path", "/x"), unhex("0402 2f78"));
    assert_eq!(encoded("audit-id", "1"), unhex("0008 6175 6469 742d 6964 0131"));
    assert_eq!(encoded("set-cookie", "a=b"), unhex("1f28 0361 3d62"));
    assert_eq!(encoded("authorization", ""), unhex("1f08 00"));
    for len in [126, 127, 128, 254, 255, 16_510, 16_511, 70_000] {
        encoded("x-long", &"v".repeat(len));
        encoded(&"n".repeat(len), "");
    }
    for status in 100..=999 {
        let mut out = Vec::new();
        push_status(&mut out, status);
        let short = matches!(status, 200 | 204 | 206 | 304 | 400 | 404 | 500);
        assert_eq!(out.len(), if short { 1 } else { 5 }, "{status}");
        assert_eq!(whole(&mut Decoder::new(0), &out), fields(&[&format!(":status: {status}")]));
    }
}

#[test]
fn an_idle_decoder_is_small() {
    assert!(size_of::<Decoder>() <= 56, "{}", size_of::<Decoder>());
}

/// An encoder that uses all that the format has, at random, and models the dynamic table in the plainest way.
struct Model {
    rng: Rng,
    /// The newest first.
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    bytes_max: usize,
    /// What the decoder allows.
    limit: usize,
}

impl Model {
    fn shrink(&mut self) {
        let bytes = |(name, value): &(Vec<u8>, Vec<u8>)| name.len() + value.len() + 32;
        while self.entries.iter().map(bytes).sum::<usize>() > self.bytes_max {
            self.entries.pop();
        }
    }

    fn integer(out: &mut Vec<u8>, pattern: u8, prefix_bits: u32, value: usize) {
        let mask = (1 << prefix_bits) - 1;
        let byte = |value: usize| u8::try_from(value).expect("below 256");
        if value < mask {
            return out.push(pattern | byte(value));
        }
        out.push(pattern | byte(mask));
        let mut left = value - mask;
        while left >= 128 {
            out.push(byte(left % 128 + 128));
            left /= 128;
        }
        out.push(byte(left));
    }

    fn text(&mut self, out: &mut Vec<u8>, text: &[u8]) {
        if self.rng.bool() {
            Self::integer(out, 0x80, 7, huffman::encoded_len(text));
            huffman::encode(text, out);
        } else {
            Self::integer(out, 0, 7, text.len());
            out.extend_from_slice(text);
        }
    }

    fn some_text(&mut self) -> Vec<u8> {
        match self.rng.u8(..8) {
            0 => (0..self.rng.usize(..200)).map(|_| self.rng.u8(..)).collect(),
            1 => b"GET".to_vec(),
            _ => vec![b'a' + self.rng.u8(..6); self.rng.usize(..4)],
        }
    }

    fn some_name(&mut self) -> Vec<u8> {
        let known: [&[u8]; 4] = [b":method", b"cookie", b"www-authenticate", b":authority"];
        if self.rng.u8(..3) == 0 { known[self.rng.usize(..4)].to_vec() } else { self.some_text() }
    }

    /// All indices at which both tables have what `is_wanted` wants.
    fn indices(&self, is_wanted: impl Fn(&[u8], &[u8]) -> bool) -> Vec<usize> {
        let fixed = Table::new(0);
        let fixed =
            (1..62).filter(|index| fixed.field(*index).is_ok_and(|(name, value)| is_wanted(name, value)));
        let dynamic = (62..).zip(&self.entries).filter(|(_, (name, value))| is_wanted(name, value));
        fixed.chain(dynamic.map(|(index, _)| index)).collect()
    }

    fn field(&mut self, out: &mut Vec<u8>) -> Owned {
        let (mut name, mut value) = (self.some_name(), self.some_text());
        if self.rng.bool() && !self.entries.is_empty() {
            (name, value) = self.entries[self.rng.usize(..self.entries.len())].clone();
        }
        let exact = self.indices(|n, v| n == name && v == value);
        if self.rng.u8(..4) > 0 && !exact.is_empty() {
            Self::integer(out, 0x80, 7, exact[self.rng.usize(..exact.len())]);
            return (name, value, false);
        }
        let (pattern, prefix_bits) = [(0x40, 6), (0x40, 6), (0, 4), (0x10, 4)][self.rng.usize(..4)];
        let named = self.indices(|n, _| n == name);
        if self.rng.u8(..4) > 0 && !named.is_empty() {
            Self::integer(out, pattern, prefix_bits, named[self.rng.usize(..named.len())]);
        } else {
            Self::integer(out, pattern, prefix_bits, 0);
            self.text(out, &name);
        }
        self.text(out, &value);
        if pattern == 0x40 {
            self.entries.insert(0, (name.clone(), value.clone()));
            self.shrink();
        }
        (name, value, pattern == 0x10)
    }

    fn block(&mut self) -> (Vec<u8>, Vec<Owned>) {
        let mut out = Vec::new();
        let least = usize::from(self.bytes_max > self.limit);
        for _ in 0..least.max(self.rng.usize(..8).saturating_sub(5)) {
            self.bytes_max = self.rng.usize(..=self.limit);
            Self::integer(&mut out, 0x20, 5, self.bytes_max);
            self.shrink();
        }
        let fields = (0..self.rng.usize(..10)).map(|_| self.field(&mut out)).collect();
        (out, fields)
    }
}

#[test]
fn random_connections() {
    for seed in 0..3000 {
        let mut rng = Rng::with_seed(seed);
        let limit = if rng.bool() { 4096 } else { rng.usize(..400) };
        let mut decoder = Decoder::new(limit);
        let mut model = Model { rng, entries: Vec::new(), bytes_max: limit, limit };
        for _ in 0..8 {
            if model.rng.u8(..6) == 0 {
                model.limit = model.rng.usize(..=model.limit);
                decoder.lower(model.limit);
            }
            let (block, fields) = model.block();
            let list_bytes_max = if model.rng.u8(..4) == 0 { model.rng.usize(..300) } else { usize::MAX };
            let (list, decoded) = decode(&mut decoder, &block, list_bytes_max);
            let mut bytes = 0_usize;
            let fit = fields.iter().take_while(|(name, value, _)| {
                bytes += name.len() + value.len() + 32;
                bytes <= list_bytes_max
            });
            let fit = fit.count();
            let expected = if fit == fields.len() { List::Whole } else { List::TooLarge };
            assert_eq!((list, &decoded[..]), (Ok(expected), &fields[..fit]), "seed {seed}");
            assert_eq!(table(&decoder), model.entries, "seed {seed}");
        }
    }
}

/// Valid blocks with random faults: no panic, and a table that is never above its maximum.
#[test]
fn noise_never_panics() {
    let (mut good, mut faults) = (0, 0);
    for seed in 0..5000 {
        let rng = Rng::with_seed(seed);
        let mut decoder = Decoder::new(300);
        let mut model = Model { rng, entries: Vec::new(), bytes_max: 300, limit: 300 };
        for _ in 0..4 {
            let mut block = model.block().0;
            if model.rng.bool() {
                block = (0..model.rng.usize(..20)).map(|_| model.rng.u8(..)).collect();
            }
            if model.rng.bool() && !block.is_empty() {
                let at = model.rng.usize(..block.len());
                block[at] ^= 1 << model.rng.u8(..8);
                block.truncate(model.rng.usize(..=block.len()).max(at));
            }
            let (list, _) = decode(&mut decoder, &block, 1000);
            let bytes: usize =
                table(&decoder).iter().map(|(name, value)| name.len() + value.len() + 32).sum();
            assert!(bytes == decoder.table().bytes() && bytes <= 300, "seed {seed}");
            good += u32::from(list.is_ok());
            faults += u32::from(list.is_err());
        }
    }
    assert!(good > 1000 && faults > 1000, "the noise reaches both: {good}, {faults}");
}
