//! etcd's own watch behind the face that the generator knows: so `compare` can put etcd beside a cache, with the same
//! watchers, writes and accounts. Each watch of the generator is a watch on etcd over a connection of its own, as a client
//! without a cache in between has it. What is measured of etcd is its CPU time and memory; the bridge's are the
//! generator's, and its time is part of the latency.
//!
//! It runs in a process of its own (`revcast-perf etcd-bridge`), on the generator's CPUs, and ends with its input.

mod face;
mod store;

use crate::child::Helper;
use crate::endpoint::Server;
use crate::process::raise_nofile;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write, stdin, stdout};
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::rc::Rc;
use store::Store;
use tokio::net::TcpListener;
use tokio::task::{LocalSet, spawn_local};

/// After so many watches connections are shared: both ends of each watch are descriptors of one process.
const SPARE_DESCRIPTORS: u64 = 256;

/// The bridge, from the side of `compare`. Dropped, it ends.
#[derive(Debug)]
pub(crate) struct Bridge {
    port: u16,
    _process: Helper,
}

impl Bridge {
    /// Starts it in front of an etcd that answers.
    pub(crate) fn start(etcd: &Server) -> Result<Self, String> {
        let url = format!("http://{}", etcd.authority());
        let (process, output) = Helper::start(&["etcd-bridge", &url])
            .map_err(|fault| format!("the bridge to etcd cannot be started: {fault}"))?;
        let line = BufReader::new(output).lines().next().and_then(Result::ok).unwrap_or_default();
        let port = line.trim().parse().map_err(|_| format!("no etcd answers at {url}: {}", line.trim()))?;
        Ok(Self { port, _process: process })
    }

    pub(crate) fn server(&self) -> Server {
        Server { host: Ipv4Addr::LOCALHOST.to_string(), port: self.port }
    }
}

/// The bridge itself. Its first line is its port, or why there is none.
pub(crate) fn run(endpoint: &str) -> ExitCode {
    let limit = raise_nofile();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(fault) => return tell(&fault.to_string(), ExitCode::FAILURE),
    };
    std::thread::spawn(|| {
        let _end = stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let tasks = LocalSet::new();
    let connections = limit.saturating_sub(SPARE_DESCRIPTORS) / 2;
    match tasks.block_on(&runtime, serve(endpoint, connections)) {
        Ok(never) => match never {},
        Err(why) => tell(&why, ExitCode::FAILURE),
    }
}

fn tell(line: &str, code: ExitCode) -> ExitCode {
    let mut out = stdout();
    // Nobody may be there to be told.
    let _gone = writeln!(out, "{line}").and_then(|()| out.flush());
    code
}

async fn serve(endpoint: &str, connections: u64) -> Result<Infallible, String> {
    let store = Rc::new(Store::connect(endpoint, usize::try_from(connections).unwrap_or(1)).await?);
    let wrong = |fault: std::io::Error| fault.to_string();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(wrong)?;
    tell(&listener.local_addr().map_err(wrong)?.port().to_string(), ExitCode::SUCCESS);
    loop {
        let (stream, _) = listener.accept().await.map_err(wrong)?;
        stream.set_nodelay(true).map_err(wrong)?;
        let store = Rc::clone(&store);
        spawn_local(async move {
            let service = service_fn(move |request| face::answer(Rc::clone(&store), request));
            // A client that goes away is the end of its connection.
            let _gone = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
