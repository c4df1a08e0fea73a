//! A case: what a client does on a new connection, and what the server must do.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use revcast_tests::http2::{Connection, Frame, Outcome, code, setting};
use revcast_tests::server::Server;

/// How many cases run at a time.
const WORKERS: usize = 4;
/// How long a server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a client does.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Sends a frame.
    Send(Frame),
    /// Sends any bytes.
    Raw(Vec<u8>),
    /// Waits for the complete answer.
    Answered(u32),
    /// Waits for the head of the answer.
    Head(u32),
    /// Waits until the server has processed everything.
    Processed,
}

impl From<Frame> for Step {
    fn from(frame: Frame) -> Self {
        Self::Send(frame)
    }
}

/// What the server does.
#[derive(Clone, Debug)]
pub(crate) enum Expect {
    /// GOAWAY with one of these codes, and the end of the connection.
    Ends(&'static [u32]),
    /// RST_STREAM with one of these codes; the connection goes on.
    Resets(u32, &'static [u32]),
    /// A malformed request: RST_STREAM of code PROTOCOL_ERROR or an answer of code 400; the connection goes on.
    Malformed(u32),
    /// As above, or another answer of a code from 400 on.
    Refuses(u32),
    /// RST_STREAM, or any answer; the connection goes on.
    Settles(u32),
    /// A complete answer; the connection goes on.
    Answers(u32, u16),
    /// Nothing: the stream has no error, nor has the connection.
    Ignores,
    /// An error of the stream or of the connection, with one of these codes.
    Fails(u32, &'static [u32]),
    /// As above, or nothing.
    MayFail(u32, &'static [u32]),
}

/// One case.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    id: &'static str,
    says: &'static str,
    steps: Vec<Step>,
    expect: Expect,
}

/// A case of any steps.
pub(crate) fn case(id: &'static str, says: &'static str, steps: Vec<Step>, expect: Expect) -> Case {
    Case { id, says, steps, expect }
}

/// A case of frames alone.
pub(crate) fn frames(id: &'static str, says: &'static str, frames: Vec<Frame>, expect: Expect) -> Case {
    case(id, says, frames.into_iter().map(Step::Send).collect(), expect)
}

impl Case {
    fn run(&self, server: &Server) {
        let mut connection = Connection::dial(&server.address);
        // So that the table for field blocks has 4,096 bytes, whatever the server announces.
        connection.acknowledges = false;
        connection.preface(&[]);
        connection.settle();
        for step in &self.steps {
            match step {
                Step::Send(frame) => connection.send(frame.clone()),
                // A server that closed already is found out below.
                Step::Raw(bytes) => drop(connection.send_raw(bytes)),
                Step::Answered(stream) => drop(connection.response(*stream)),
                Step::Head(stream) => drop(connection.head(*stream)),
                Step::Processed => connection.ping(),
            }
        }
        self.expect.check(&mut connection);
    }
}

impl Expect {
    fn check(&self, connection: &mut Connection) {
        match *self {
            Self::Ends(codes) => {
                let _ = connection.expect_goaway(codes);
                return;
            }
            Self::Resets(stream, codes) => connection.expect_rst(stream, codes),
            Self::Answers(stream, status) => {
                let response = connection.response(stream);
                assert_eq!(response.status, status, "{}", response.text());
            }
            Self::Malformed(stream) => {
                let outcome = connection.outcome(stream, PATIENCE);
                let right = matches!(outcome, Outcome::Reset(code::PROTOCOL_ERROR) | Outcome::Answered(400));
                assert!(right, "not refused as malformed: {outcome:?}");
            }
            Self::Refuses(stream) => {
                let outcome = connection.outcome(stream, PATIENCE);
                let right =
                    matches!(outcome, Outcome::Reset(code::PROTOCOL_ERROR) | Outcome::Answered(400..));
                assert!(right, "not refused: {outcome:?}");
            }
            Self::Settles(stream) => {
                let outcome = connection.outcome(stream, PATIENCE);
                assert!(matches!(outcome, Outcome::Reset(_) | Outcome::Answered(_)), "{outcome:?}");
            }
            Self::Ignores => {}
            Self::Fails(stream, codes) => {
                if fails(connection, stream, codes, PATIENCE) {
                    return;
                }
            }
            Self::MayFail(stream, codes) => {
                // The answer to a request after it shows that the server goes on.
                connection.send(Frame::ping(*b"may fail"));
                let next = connection.request("GET", "/readyz", &[], true);
                match connection.outcome(next, PATIENCE) {
                    Outcome::Answered(200) if connection.reset_of(stream).is_none() => {}
                    Outcome::Answered(200) => drop(fails(connection, stream, codes, PATIENCE)),
                    _ => {
                        assert!(fails(connection, stream, codes, PATIENCE), "neither an error nor a success");
                        return;
                    }
                }
            }
        }
        connection.expect_alive();
        let reset = match *self {
            Self::Ignores => (1..100).find_map(|stream| connection.reset_of(stream)),
            _ => None,
        };
        assert_eq!(reset, None, "a stream was reset");
    }
}

/// The stream or the connection fails with one of these codes. Whether the connection did.
fn fails(connection: &mut Connection, stream: u32, codes: &[u32], patience: Duration) -> bool {
    let outcome = match connection.reset_of(stream) {
        Some(code) => Outcome::Reset(code),
        None => connection.outcome(stream, patience),
    };
    match outcome {
        Outcome::Reset(code) => {
            assert!(codes.contains(&code), "reset with code {code}, not {codes:?}");
            false
        }
        Outcome::GoneAway(code) => {
            assert!(codes.contains(&code), "GOAWAY with code {code}, not {codes:?}");
            connection.expect_end();
            true
        }
        other => panic!("no error: {other:?}"),
    }
}

/// Runs a table, each case on its own connection to one server. All cases run; those that fail are listed.
pub(crate) fn run(cases: &[Case]) {
    let ids: BTreeSet<&str> = cases.iter().map(|case| case.id).collect();
    assert_eq!(ids.len(), cases.len(), "an id names one case");
    let server = Server::start(&[]);
    let (queue, failed) = (Mutex::new(cases.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap().next();
                    let Some(case) = next else { return };
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| case.run(&server))) {
                        let line = format!("{}: {}: {}", case.id, case.says, message(panic.as_ref()));
                        failed.lock().unwrap().push(line);
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap();
    failed.sort();
    assert!(failed.is_empty(), "{} of {} cases fail:\n{}", failed.len(), cases.len(), failed.join("\n"));
    super::is_well(&server);
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// One of the server's settings.
pub(crate) fn setting_of(server: &Server, name: u16) -> Option<u32> {
    Connection::open(&server.address).setting(name)
}

/// What the server takes as a payload.
pub(crate) fn frame_max(server: &Server) -> usize {
    setting_of(server, setting::MAX_FRAME_SIZE).unwrap_or(16_384) as usize
}
