//! kubectl's `exec` and `logs` against a small API server behind the one that forwards, if there is a kubectl on the PATH.
#![allow(clippy::print_stderr)]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use revcast_tests::server::{Scratch, Server, embedded_only};
use revcast_tests::upstream::{Exchange, Next, Outcome, Upstream};
use serde_json::json;
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role, WebSocket};
use tungstenite::{Error, Message};

use super::Pair;

const POD: &str = "/api/v1/namespaces/t/pods/p";
const PROTOCOL: &str = "v5.channel.k8s.io";

/// Channels of Kubernetes' remote commands.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const ERROR: u8 = 3;
/// What closes a channel, in version 5.
const CLOSE: u8 = 255;

/// Sends back in upper case what comes on stdin, and ends with success.
fn remote_command(exchange: &mut Exchange<'_>) -> Outcome {
    let asked = &exchange.asked;
    let offered = asked.headers("sec-websocket-protocol").join(", ");
    if !offered.split(", ").any(|one| one == PROTOCOL) {
        return exchange.reply("400 Bad Request", format!("no {PROTOCOL} in {offered}"));
    }
    let key = asked.header("sec-websocket-key").unwrap_or_default();
    let accept = derive_accept_key(key.as_bytes());
    exchange.send(format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\
         Sec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n"
    ))?;
    let (ahead, link) = exchange.raw();
    let mut socket = WebSocket::from_partially_read(link, ahead, Role::Server, None);
    let broken = |error: Error| std::io::Error::other(error.to_string());
    let send = |socket: &mut WebSocket<_>, channel: u8, bytes: &[u8]| {
        socket.send(Message::binary([&[channel], bytes].concat())).map_err(broken)
    };
    loop {
        let message = socket.read().map_err(broken)?;
        let Message::Binary(bytes) = message else { continue };
        match bytes.split_first() {
            Some((&STDIN, input)) => send(&mut socket, STDOUT, &input.to_ascii_uppercase())?,
            Some((&CLOSE, [STDIN])) => break,
            Some(_) | None => {}
        }
    }
    let status = json!({"metadata": {}, "status": "Success"}).to_string();
    send(&mut socket, ERROR, status.as_bytes())?;
    let normal = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    socket.close(Some(normal)).map_err(broken)?;
    while socket.read().is_ok() {}
    Ok(Next::Close)
}

fn kubectl(server: &Server, home: &Scratch, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new("kubectl")
        .env("HOME", home.path())
        .env("KUBECONFIG", "/dev/null")
        .args(["--server", &format!("http://{}", server.address), "--namespace", "t"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn kubectl_runs_a_command() {
    let found = Command::new("kubectl").args(["version", "--client"]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: no kubectl on the PATH, so that exec is not tried");
        return;
    }
    if !embedded_only("it has a data folder") {
        return;
    }
    let (scratch, home) = (Scratch::new("upstream-exec"), Scratch::new("upstream-exec-home"));
    let data = ["--data-dir", scratch.path()];
    let before = Server::start(&data);
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running"},
    });
    assert_eq!(before.client().send("POST", "/api/v1/namespaces/t/pods", &pod).status, 201);
    assert_eq!(before.terminate(), Some(0));
    let upstream = Upstream::start();
    // Discovery is this server's own, since the upstream gives none.
    for path in ["/api", "/apis", "/openapi/v2", "/openapi/v3"] {
        upstream.on(path, |_| Ok(Next::Close));
    }
    upstream.on(&format!("{POD}/exec"), remote_command);
    upstream.on(&format!("{POD}/log"), |exchange| {
        exchange.reply("200 OK\nContent-Type: text/plain", "one line\nand another\n")
    });
    let pair = Pair::before(upstream, &data);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ran = kubectl(&pair.server, &home, &["exec", "-i", "p", "--", "upper"], "what is said\n");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(text(&ran.stdout), "WHAT IS SAID\n");
    let asked = pair.upstream.last();
    assert!(asked.target().starts_with(&format!("{POD}/exec?")), "{}", asked.line());
    assert!(
        asked.target().contains("command=upper") && asked.target().contains("stdin=true"),
        "{}",
        asked.line()
    );
    let logs = kubectl(&pair.server, &home, &["logs", "p"], "");
    assert_eq!(text(&logs.stdout), "one line\nand another\n", "{}", text(&logs.stderr));
}
