//! Request smuggling: whatever a client sends, the upstream sees well-formed requests, and as many as it answered.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use revcast_tests::upstream::Upstream;

use super::{Pair, rows, strict};

const PATIENCE: Duration = Duration::from_secs(10);
/// A header of the upstream's replies.
const MARK: &str = "X-Upstream: yes";

/// The bytes of a row with paths that are forwarded. They have the same lengths, so the lengths in the rows hold.
fn forwarded(piece: &[u8]) -> Vec<u8> {
    let mut piece = piece.to_vec();
    for (from, to) in [(&b"/api/v1/"[..], &b"/fwd/v1/"[..]), (b"/livez", b"/livid"), (b"/api//", b"/fwd//")] {
        while let Some(at) = piece.windows(from.len()).position(|window| window == from) {
            piece[at..at + to.len()].copy_from_slice(to);
        }
    }
    piece
}

fn marked() -> Pair {
    let upstream = Upstream::start();
    upstream.on("*", |exchange| exchange.reply("200 OK\nX-Upstream: yes", "answer"));
    Pair::before(upstream, &[])
}

/// Sends these pieces, each after something came, and returns everything until the server closes. A client that has sent all says
/// so after a moment.
fn exchange(pair: &Pair, pieces: &[Vec<u8>]) -> String {
    let mut stream = TcpStream::connect(&pair.server.address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let mut answer = Vec::new();
    let mut piece = vec![0; 1 << 16];
    for (number, bytes) in pieces.iter().enumerate() {
        if number > 0 {
            stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            let read = stream.read(&mut piece).unwrap_or(0);
            answer.extend_from_slice(&piece[..read]);
        }
        if stream.write_all(bytes).is_err() {
            break;
        }
    }
    let deadline = Instant::now() + PATIENCE;
    let mut is_done = false;
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    loop {
        assert!(Instant::now() < deadline, "the connection is still open");
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && !is_done => {
                is_done = true;
                let _ = stream.shutdown(Shutdown::Write);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// Whole requests that the upstream received so far. A request that is cut is no request.
fn seen(pair: &Pair) -> Result<Vec<strict::Message>, String> {
    let mut all = Vec::new();
    for received in pair.upstream.received() {
        all.extend(strict::requests(&received)?.0);
    }
    Ok(all)
}

/// What is wrong with a row, and how many requests of it the upstream answered.
fn judge(pair: &Pair, row: &rows::Row) -> (usize, Result<(), String>) {
    let before = pair.upstream.asked().len();
    let whole_before = seen(pair).map_or(0, |all| all.len());
    let pieces: Vec<Vec<u8>> = row.pieces.iter().map(|piece| forwarded(piece)).collect();
    let answer = exchange(pair, &pieces);
    let answered = answer.matches(MARK).count();
    let all = match seen(pair) {
        Ok(all) => all,
        Err(why) => return (answered, Err(why)),
    };
    let lines: Vec<String> = pair.upstream.asked()[before..].iter().map(|asked| asked.line()).collect();
    if all.len() != whole_before + answered {
        return (answered, Err(format!("{lines:?} seen, {answered} answered: {answer}")));
    }
    // What the server refuses by itself, it refuses here as well. A body has no limit of ours when it is the upstream's, and a path
    // that is decoded once is the upstream's to refuse.
    let is_bad = matches!(row.number, 1..=31 | 35 | 36 | 38) && !row.name.contains("%252e");
    let is_refused = row.answer.iter().flatten().all(|word| word.starts_with(['4', '5']) && word != "413");
    let is_answered = is_bad && is_refused && answered > 0;
    (answered, if is_answered { Err(format!("the upstream answered: {answer}")) } else { Ok(()) })
}

#[test]
fn every_row_of_the_catalogue() {
    // Most of the time is spent waiting for what does not come.
    const SERVERS: usize = 6;
    let rows = rows::rows();
    let share = &|number: usize| {
        let pair = marked();
        let (mut wrong, mut passed) = (Vec::new(), 0);
        for row in rows.iter().skip(number).step_by(SERVERS) {
            let (answered, judged) = judge(&pair, row);
            passed += answered;
            wrong.extend(judged.err().map(|why| format!("{}: {why}", row.name)));
        }
        assert_eq!(pair.client().get("/x").status, 200, "and it goes on");
        (wrong, passed)
    };
    let shares: Vec<_> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..SERVERS).map(|number| scope.spawn(move || share(number))).collect();
        started.into_iter().map(|share| share.join().unwrap()).collect()
    });
    let wrong: Vec<String> = shares.iter().flat_map(|(wrong, _)| wrong.clone()).collect();
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
    let passed: usize = shares.iter().map(|(_, passed)| passed).sum();
    assert!(passed > 20, "{passed} rows are good requests for an upstream");
}

/// Requests that try to be two for the upstream, and one here.
#[test]
fn one_request_is_one() {
    let inner = "GET /inner HTTP/1.1\r\nHost: test\r\n\r\n";
    let body = |head: &str, body: &str| format!("POST /outer HTTP/1.1\r\nHost: test\r\n{head}\r\n\r\n{body}");
    let length = inner.len();
    let pair = marked();
    for (request, whole) in [
        // Framing that is for one connection only.
        (body(&format!("Connection: Content-Length\r\nContent-Length: {length}"), inner), 1),
        (body("Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked", "2\r\nhi\r\n0\r\n\r\n"), 1),
        (body("Connection: Host, Content-Length, Via\r\nContent-Length: 2", "hi"), 1),
        (body(&format!("TE: trailers\r\nContent-Length: {length}"), inner), 1),
        (
            body(
                &format!(
                    "X: y\r\nTransfer-Encoding: chunked\r\nTransfer_Encoding: x\r\nContent_Length: {length}"
                ),
                "0\r\n\r\n",
            ),
            1,
        ),
        (format!("GET /outer HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n{inner}"), 1),
        (format!("HEAD /outer HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n{inner}"), 1),
        (
            format!(
                "GET /outer HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{inner}\r\n0\r\n\r\n"
            ),
            1,
        ),
        (
            format!(
                "GET /outer HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: x\r\nContent-Length: {length}\r\n\r\n{inner}"
            ),
            1,
        ),
        (format!("GET /outer HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n{inner}"), 1),
        (format!("POST /outer HTTP/1.0\r\nHost: test\r\nContent-Length: 0\r\n\r\n{inner}"), 1),
        // Trailers are no headers.
        (
            body(
                "Transfer-Encoding: chunked",
                "0\r\nContent-Length: 40\r\nHost: other\r\nX-Remote-User: a\r\n\r\n",
            ),
            1,
        ),
        // Two requests are two.
        (format!("{}{inner}", body("Content-Length: 2", "hi")), 2),
        // In a query they stay encoded, as in the command of an exec.
        ("GET /outer?a=%0d%0aX:%20b HTTP/1.1\r\nHost: test\r\n\r\n".to_owned(), 1),
        // Line ends where none may be.
        (body("X: a\r\n\tGET /inner HTTP/1.1", ""), 0),
        (body("X: a\nTransfer-Encoding: chunked", "0\r\n\r\n"), 0),
        (body("X: a\rTransfer-Encoding: chunked", "0\r\n\r\n"), 0),
        (body("X\r: a", ""), 0),
        (body("X:a\x0b\r\nTransfer-Encoding\x0b: chunked", "0\r\n\r\n"), 0),
        (body("\u{a0}Transfer-Encoding: chunked", "0\r\n\r\n"), 0),
        ("GET /outer%0d%0aHost:%20other HTTP/1.1\r\nHost: test\r\n\r\n".to_owned(), 0),
        ("GET /outer\tHTTP/1.1 HTTP/1.1\r\nHost: test\r\n\r\n".to_owned(), 0),
        ("GET /outer HTTP/1.1 HTTP/1.1\r\nHost: test\r\n\r\n".to_owned(), 0),
        ("GET http://test@other/outer HTTP/1.1\r\nHost: test\r\n\r\n".to_owned(), 0),
        ("GET\t/outer HTTP/1.1\r\nHost: test\r\n\r\n".to_owned(), 0),
        ("G\rET /outer HTTP/1.1\r\nHost: test\r\n\r\n".to_owned(), 0),
    ] {
        let before = pair.upstream.asked().len();
        let answer = exchange(&pair, &[request.clone().into_bytes()]);
        let lines: Vec<String> = pair.upstream.asked()[before..].iter().map(|asked| asked.line()).collect();
        assert_eq!(
            (lines.len(), answer.matches(MARK).count()),
            (whole, whole),
            "{request:?}: {lines:?}\n{answer}"
        );
        assert_eq!(lines.iter().any(|line| line.contains("/inner")), whole == 2, "{request:?}");
        let all = seen(&pair).unwrap_or_else(|why| panic!("{request:?}: {why}"));
        assert_eq!(all.len(), before + whole, "{request:?}");
    }
    assert!(seen(&pair).unwrap().iter().all(|message| message.names.contains(&"via".to_owned())));
}
