//! Field blocks as a server decodes them (RFC 7541; RFC 9113, section 4.3).

use revcast_tests::http2::{Connection, Frame, Response, code, flag, hpack as packed};
use revcast_tests::server::Server;

use super::case::{Case, Expect, frames, run};
use super::{QUIET, get, object, post};

const BROKEN: Expect = Expect::Ends(&[code::COMPRESSION_ERROR]);
const ANSWERED: Expect = Expect::Answers(1, 200);

/// A block alone.
fn of(id: &'static str, says: &'static str, block: Vec<u8>, expect: Expect) -> Case {
    frames(id, says, vec![Frame::headers(1, flag::WHOLE, block)], expect)
}

/// The block of a valid request, and bytes after it.
fn and(more: &[u8]) -> Vec<u8> {
    [packed::request("GET", "/readyz", &[]), more.to_vec()].concat()
}

/// A valid request with a field whose value is these bytes, with their length.
fn value(bytes: &[u8]) -> Vec<u8> {
    and(&[&[0], &packed::string(b"x-a")[..], bytes].concat())
}

#[test]
fn blocks_that_cannot_be_decoded_end_the_connection() {
    run(&[
        of("7541-6.1-index-0", "index 0 is not used", and(&[0x80]), BROKEN),
        of("7541-2.3.3-index-62", "beyond an empty table", and(&packed::indexed(62)), BROKEN),
        of("7541-2.3.3-index-70", "beyond an empty table", and(&packed::indexed(70)), BROKEN),
        of("7541-2.3.3-index-huge", "far beyond", and(&packed::indexed(1 << 20)), BROKEN),
        of(
            "7541-2.3.3-index-63",
            "beyond a table of one entry",
            and(&[packed::indexing("x-a", "1"), packed::indexed(63)].concat()),
            BROKEN,
        ),
        of(
            "7541-6.2.1-name-62",
            "a name beyond the table, to be indexed",
            and(&[packed::integer(0x40, 6, 62), packed::string(b"1")].concat()),
            BROKEN,
        ),
        of(
            "7541-6.2.2-name-62",
            "a name beyond the table, not to be indexed",
            and(&[packed::integer(0, 4, 62), packed::string(b"1")].concat()),
            BROKEN,
        ),
        of(
            "7541-6.2.3-name-62",
            "a name beyond the table, never to be indexed",
            and(&[packed::integer(0x10, 4, 62), packed::string(b"1")].concat()),
            BROKEN,
        ),
        of("7541-5.1-truncated", "the block ends inside an integer", and(&[0xff]), BROKEN),
        of("7541-5.1-truncated-later", "the block ends inside an integer", and(&[0xff, 0x80, 0x80]), BROKEN),
        of(
            "7541-5.1-huge",
            "an integer beyond 64 bits",
            and(&[&[0xff][..], &[0xff; 10], &[0x7f]].concat()),
            BROKEN,
        ),
        of(
            "7541-5.1-beyond-32",
            "an integer beyond 32 bits",
            and(&[0xff, 0x82, 0xff, 0xff, 0xff, 0x0f]),
            BROKEN,
        ),
        of(
            "7541-5.1-zeros",
            "an integer of many zeros",
            and(&[&[0xff][..], &[0x80; 40], &[0]].concat()),
            BROKEN,
        ),
        of(
            "7541-5.1-wraps",
            "an integer that is 2 again after 2^32",
            and(&[0xff, 0x83, 0xff, 0xff, 0xff, 0x0f]),
            BROKEN,
        ),
        of("7541-5.2-name-cut", "the block ends inside a name", and(&[0, 9, b'x']), BROKEN),
        of("7541-5.2-no-name", "the block ends before a name", and(&[0]), BROKEN),
        of(
            "7541-5.2-no-value",
            "the block ends before a value",
            and(&[&[0][..], &packed::string(b"x-a")].concat()),
            BROKEN,
        ),
        of("7541-5.2-value-cut", "the block ends inside a value", value(&[5, b'a', b'b']), BROKEN),
        of("7541-5.2-value-long", "a value of 2^28 bytes", value(&packed::integer(0, 7, 1 << 28)), BROKEN),
        of(
            "7541-5.2-length-huge",
            "a value of 2^63 bytes",
            value(&[&[0x7f][..], &[0xff; 9], &[1]].concat()),
            BROKEN,
        ),
        of("7541-5.2-indexed-name-no-value", "an indexed name without a value", and(&[0x44]), BROKEN),
        of("7541-5.2-eos", "the end of a string as a symbol", value(&[0x84, 0xff, 0xff, 0xff, 0xff]), BROKEN),
        of("7541-5.2-eos-after", "also after others", value(&[0x85, 0x1f, 0xff, 0xff, 0xff, 0xff]), BROKEN),
        of("7541-5.2-padding-8", "padding of a whole byte", value(&[0x82, 0x1f, 0xff]), BROKEN),
        of("7541-5.2-padding-alone", "nothing but padding", value(&[0x81, 0xff]), BROKEN),
        of("7541-5.2-padding-zeros", "padding of zeros", value(&[0x81, 0x18]), BROKEN),
        of("7541-5.2-padding-mixed", "padding of another symbol's beginning", value(&[0x81, 0x1d]), BROKEN),
        of("7541-5.2-huffman-cut", "the block ends inside a coded value", value(&[0x84, 0x1f]), BROKEN),
        of(
            "7541-5.2-name-eos",
            "also in a name",
            and(&[&[0, 0x84, 0xff, 0xff, 0xff, 0xff][..], &packed::string(b"1")].concat()),
            BROKEN,
        ),
        of(
            "7541-6.3-over-the-limit",
            "a table larger than was announced",
            [packed::resize(1 << 24), and(&[])].concat(),
            BROKEN,
        ),
        of("7541-6.3-huge", "far larger", [packed::resize(1 << 40), and(&[])].concat(), BROKEN),
        of("7541-4.2-after-a-field", "a size update after a field", and(&packed::resize(100)), BROKEN),
        of(
            "7541-4.2-inside",
            "a size update between fields",
            [vec![0x82], packed::resize(0), and(&[])].concat(),
            BROKEN,
        ),
        of("9113-4.3-ends-early", "the block of a head that is cut", and(&[])[..20].to_vec(), BROKEN),
        frames(
            "9113-4.3-trailers",
            "trailers that cannot be decoded",
            vec![post(1), Frame::data(1, 0, "x"), Frame::headers(1, flag::WHOLE, [0x80])],
            BROKEN,
        ),
        frames(
            "9113-4.3-continuation",
            "what comes in CONTINUATION",
            vec![
                Frame::headers(1, flag::END_STREAM, and(&[])),
                Frame::continuation(1, flag::END_HEADERS, [0x80]),
            ],
            BROKEN,
        ),
        frames(
            "9113-4.3-also-if-malformed",
            "a request that is malformed before",
            vec![Frame::headers(1, flag::WHOLE, [packed::literal("X-A", "1"), and(&[0x80])].concat())],
            BROKEN,
        ),
    ]);
}

/// A size update above 4,096 is wrong only where the server announced no more.
#[test]
fn the_announced_table_is_the_limit() {
    use revcast_tests::http2::setting;
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let most = connection.setting(setting::HEADER_TABLE_SIZE).unwrap_or(4_096) as usize;
    connection.send(Frame::headers(1, flag::WHOLE, [packed::resize(most), and(&[])].concat()));
    assert_eq!(connection.response(1).status, 200);
    connection.send(Frame::headers(3, flag::WHOLE, [packed::resize(most + 1), and(&[])].concat()));
    connection.expect_goaway(&[code::COMPRESSION_ERROR]);
}

#[test]
fn every_representation_is_decoded() {
    let coded = |name: &str, value: &str| {
        [vec![0], packed::huffman(name.as_bytes()), packed::huffman(value.as_bytes())].concat()
    };
    let all_coded: Vec<u8> =
        packed::pseudo("GET", "/readyz").iter().flat_map(|(name, value)| coded(name, value)).collect();
    let start = || [packed::indexed(2), packed::indexed(6), packed::literal(":authority", "test")].concat();
    let path = packed::string(b"/readyz");
    let plain = |id, says, more: Vec<u8>| of(id, says, and(&more), ANSWERED);
    let every_byte: Vec<u8> = (0x21..=0xff).filter(|byte| *byte != 0x7f).collect();
    run(&[
        of("7541-5.2-all-coded", "all in the Huffman code", all_coded, ANSWERED),
        of(
            "7541-6.1-indexed",
            "fields of the static table",
            [start(), packed::indexed(4)].concat(),
            Expect::Settles(1),
        ),
        of(
            "7541-6.2.1-indexed-name",
            "an indexed name, to be indexed",
            [start(), packed::integer(0x40, 6, 4), path.clone()].concat(),
            ANSWERED,
        ),
        of(
            "7541-6.2.2-indexed-name",
            "an indexed name, not to be indexed",
            [start(), packed::integer(0, 4, 4), path.clone()].concat(),
            ANSWERED,
        ),
        of(
            "7541-6.2.3-indexed-name",
            "an indexed name, never to be indexed",
            [start(), packed::integer(0x10, 4, 5), path].concat(),
            ANSWERED,
        ),
        plain(
            "7541-6.2.3-new-name",
            "a new name, never to be indexed",
            packed::never_indexed("authorization-x", "1"),
        ),
        plain(
            "7541-6.2.2-name-58",
            "a name whose index has two bytes",
            [packed::integer(0, 4, 58), packed::string(b"agent")].concat(),
        ),
        plain("7541-5.2-empty", "empty strings", [vec![0], packed::string(b"x-a"), vec![0]].concat()),
        plain(
            "7541-5.2-empty-coded",
            "empty strings in the Huffman code",
            [vec![0], packed::huffman(b"x-a"), vec![0x80]].concat(),
        ),
        plain("7541-5.2-127", "a length of exactly 127", packed::literal("x-a", [b'a'; 127])),
        plain(
            "7541-5.2-254",
            "lengths around two bytes",
            [packed::literal("x-a", [b'a'; 254]), packed::literal("x-b", [b'b'; 255])].concat(),
        ),
        plain(
            "7541-5.2-every-byte",
            "every byte of a value has a code",
            [vec![0], packed::string(b"x-a"), packed::huffman(&every_byte)].concat(),
        ),
        plain(
            "7541-5.1-not-shortest",
            "an integer with zeros at its end",
            [vec![0], packed::string(b"x-a"), vec![0x7f, 0x80, 0x80, 0], vec![b'z'; 127]].concat(),
        ),
        plain(
            "7541-4.4-larger-than-the-table",
            "an entry larger than the table",
            packed::indexing("x-a", [b'a'; 5_000]),
        ),
        plain(
            "7541-2.3.2-twice",
            "the same entry twice",
            [
                packed::indexing("x-a", "1"),
                packed::indexing("x-a", "1"),
                packed::indexed(63),
                packed::indexed(62),
            ]
            .concat(),
        ),
        of(
            "7541-4.2-two-updates",
            "two size updates",
            [packed::resize(0), packed::resize(4_096), and(&[])].concat(),
            ANSWERED,
        ),
        of(
            "7541-4.2-same-size",
            "the size that it has",
            [packed::resize(4_096), and(&[])].concat(),
            ANSWERED,
        ),
        frames(
            "7541-4.2-in-continuation",
            "a size update is the first of a block, wherever that is cut",
            vec![
                Frame::headers(1, flag::END_STREAM, []),
                Frame::continuation(1, flag::END_HEADERS, [packed::resize(0), and(&[])].concat()),
            ],
            ANSWERED,
        ),
        frames(
            "9113-4.3-cut-in-a-string",
            "a block that is cut inside a string",
            vec![
                Frame::headers(1, flag::END_STREAM, &and(&[])[..25]),
                Frame::continuation(1, flag::END_HEADERS, &and(&[])[25..]),
            ],
            ANSWERED,
        ),
    ]);
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Appendices C.3 and C.4: three requests of one connection, plain and in the Huffman code.
#[test]
fn the_requests_of_the_appendix_are_decoded() {
    let server = Server::start(&["--allowed-hosts", "www.example.com,test"]);
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let coded = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    let root = server.client().get("/").status;
    for blocks in [plain, coded] {
        let mut connection = Connection::dial(&server.address);
        connection.acknowledges = false;
        connection.preface(&[]);
        for (stream, block) in [1, 3, 5].into_iter().zip(blocks) {
            connection.send(Frame::headers(stream, flag::WHOLE, bytes(block)));
            let status = connection.response(stream).status;
            assert_eq!(status, if stream == 5 { 404 } else { root }, "{block}");
        }
        // Its table: custom-key, cache-control, :authority.
        let again = [
            packed::indexed(2),
            packed::indexed(6),
            packed::indexed(64),
            packed::indexed(62),
            packed::indexed(63),
        ];
        let path = packed::literal(":path", "/readyz");
        let block = [&again[..3].concat()[..], &path, &again[3..].concat()].concat();
        connection.send(Frame::headers(7, flag::WHOLE, block));
        assert_eq!(connection.response(7).status, 200);
        connection.send(Frame::headers(9, flag::WHOLE, packed::indexed(65)));
        connection.expect_goaway(&[code::COMPRESSION_ERROR]);
    }
}

/// A connection whose table has 4,096 bytes, and requests whose path says which entry was meant.
struct Asking(Connection);

impl Asking {
    fn new(server: &Server) -> Self {
        let mut connection = Connection::dial(&server.address);
        connection.acknowledges = false;
        connection.preface(&[]);
        connection.settle();
        Self(connection)
    }

    fn send(&mut self, first: Vec<u8>, path: Vec<u8>) -> u32 {
        let stream = self.0.next_stream();
        let start =
            [first, packed::indexed(2), packed::indexed(6), packed::literal(":authority", "test"), path];
        self.0.send(Frame::headers(stream, flag::WHOLE, start.concat()));
        stream
    }

    fn ask(&mut self, first: Vec<u8>, path: Vec<u8>) -> Response {
        let stream = self.send(first, path);
        self.0.response(stream)
    }

    /// The object that a block asked for; none of them exists.
    fn named(&mut self, path: Vec<u8>) -> String {
        let reply = self.ask(Vec::new(), path);
        assert_eq!(reply.status, 404, "{}", reply.text());
        reply.json()["details"]["name"].as_str().unwrap().to_owned()
    }

    /// The index is beyond the table.
    fn expect_beyond(mut self, index: usize) {
        self.send(Vec::new(), packed::indexed(index));
        self.0.expect_goaway(&[code::COMPRESSION_ERROR]);
    }
}

fn path(name: &str) -> String {
    format!("{}/{name}", super::PATH)
}

fn entry(name: &str) -> Vec<u8> {
    packed::indexing(":path", path(name))
}

/// What an entry of a path costs.
fn size(name: &str) -> usize {
    ":path".len() + path(name).len() + 32
}

#[test]
fn the_table_lives_across_requests() {
    let server = Server::start(&[]);
    let mut asking = Asking::new(&server);
    for name in ["a", "b", "c"] {
        assert_eq!(asking.named(entry(name)), name);
    }
    for (index, name) in [(62, "c"), (63, "b"), (64, "a"), (62, "c")] {
        assert_eq!(asking.named(packed::indexed(index)), name);
    }
    // Names of entries.
    let value = |first: u8, prefix: u32, index: usize, name: &str| {
        [packed::integer(first, prefix, index), packed::string(path(name).as_bytes())].concat()
    };
    assert_eq!(asking.named(value(0, 4, 64, "d")), "d");
    assert_eq!(asking.named(value(0x10, 4, 62, "e")), "e");
    assert_eq!(asking.named(packed::indexed(62)), "c", "those two were not indexed");
    assert_eq!(asking.named(value(0x40, 6, 63, "f")), "f");
    assert_eq!(asking.named(packed::indexed(62)), "f");
    assert_eq!(asking.named(packed::indexed(65)), "a");
    asking.expect_beyond(66);
}

/// Sections 4.1 and 4.4, to the byte.
#[test]
fn the_oldest_entries_are_evicted() {
    let server = Server::start(&[]);
    let fill = |asking: &mut Asking, bytes: usize| {
        let pad = packed::indexing("x-pad", "p".repeat(bytes - 32 - 5));
        let ready = packed::literal(":path", "/readyz");
        assert_eq!(asking.ask(Vec::new(), [ready, pad].concat()).status, 200);
    };
    let mut asking = Asking::new(&server);
    assert_eq!(asking.named(entry("kept")), "kept");
    fill(&mut asking, 4_096 - size("kept"));
    assert_eq!(asking.named(packed::indexed(63)), "kept", "the table is full");
    fill(&mut asking, 38);
    asking.expect_beyond(64);
    let mut asking = Asking::new(&server);
    assert_eq!(asking.named(entry("gone")), "gone");
    fill(&mut asking, 4_096 - size("gone") + 1);
    asking.expect_beyond(63);
    // An entry larger than the table empties it.
    let mut asking = Asking::new(&server);
    assert_eq!(asking.named(entry("gone")), "gone");
    fill(&mut asking, 4_097);
    asking.expect_beyond(62);
}

/// Section 4.4: the name of an entry that the new one evicts.
#[test]
fn a_name_may_be_of_the_entry_that_goes() {
    let server = Server::start(&[]);
    let mut asking = Asking::new(&server);
    let first = asking.ask(packed::resize(size("one") + 10), entry("one"));
    assert_eq!(first.json()["details"]["name"], "one");
    let second = [packed::integer(0x40, 6, 62), packed::string(path("two").as_bytes())].concat();
    assert_eq!(asking.named(second), "two");
    assert_eq!(asking.named(packed::indexed(62)), "two");
    asking.expect_beyond(63);
}

/// Sections 4.3 and 6.3.
#[test]
fn the_table_shrinks_and_grows() {
    let server = Server::start(&[]);
    let mut asking = Asking::new(&server);
    for name in ["a", "b", "c"] {
        asking.named(entry(name));
    }
    let reply = asking.ask(packed::resize(2 * size("a")), packed::indexed(63));
    assert_eq!(reply.json()["details"]["name"], "b");
    assert_eq!(asking.ask(packed::resize(0), entry("d")).json()["details"]["name"], "d", "not kept");
    assert_eq!(asking.ask(packed::resize(4_096), entry("e")).json()["details"]["name"], "e");
    assert_eq!(asking.named(packed::indexed(62)), "e");
    asking.expect_beyond(63);
    let mut asking = Asking::new(&server);
    asking.named(entry("a"));
    let both = [packed::resize(0), packed::resize(4_096)].concat();
    let stream = asking.send(both, packed::indexed(62));
    asking.0.expect_goaway(&[code::COMPRESSION_ERROR]);
    assert!(!asking.0.is_complete(stream), "the smaller size emptied it");
}

/// Section 4.3 of RFC 9113: each block changes the table, whatever becomes of its request.
#[test]
fn blocks_of_failed_requests_change_the_table() {
    let server = Server::start(&[]);
    let mut asking = Asking::new(&server);
    // Malformed.
    let stream = asking.send(packed::literal("X-Upper", "1"), entry("malformed"));
    let _ = asking.0.outcome(stream, std::time::Duration::from_secs(10));
    assert_eq!(asking.named(packed::indexed(62)), "malformed");
    // Reset at once.
    let stream = asking.send(Vec::new(), entry("reset"));
    asking.0.send(Frame::reset(stream, code::CANCEL));
    assert_eq!(asking.named(packed::indexed(62)), "reset");
    // Trailers.
    let stream = asking.0.next_stream();
    asking.0.send(post(stream));
    asking.0.send(Frame::data(stream, 0, object("with-trailers", "1")));
    asking.0.send(Frame::headers(stream, flag::WHOLE, packed::indexing("x-sum", "1")));
    assert_eq!(asking.0.response(stream).status, 201);
    assert_eq!(asking.named(packed::indexed(63)), "reset");
    // On a stream that is half-closed: an error of that stream, or of the connection.
    let stream = asking.0.next_stream();
    asking.0.send(get(stream, QUIET));
    assert_eq!(asking.0.head(stream).status, 200);
    asking.0.send(Frame::headers(stream, flag::WHOLE, entry("late")));
    let _ = asking.0.outcome(stream, std::time::Duration::from_secs(10));
    if asking.0.goaway().is_none() {
        assert_eq!(asking.named(packed::indexed(62)), "late");
    }
}
