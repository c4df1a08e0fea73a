//! A server with TLS and a user, and nothing beside it: clients choose their protocol by ALPN.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::client::Client;
use crate::secrets::Secrets;
use crate::server::Server;

/// How often its connections are counted.
const COUNTED_EVERY: Duration = Duration::from_millis(50);

/// The server, and who counts its connections.
#[derive(Debug)]
pub struct Alone {
    server: Server,
    secrets: Secrets,
    counter: Option<Counter>,
}

/// Counts connections of HTTP/2 until it is told to end.
#[derive(Debug)]
struct Counter {
    is_over: Arc<AtomicBool>,
    most: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Deref for Alone {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Alone {
    /// Starts one with more options.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start(options: &[&str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let secrets = Secrets::new(&format!("alone-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let all = [&secrets.options()[..], options].concat();
        let server = Server::start_with_tls(&secrets.trust(), &all).for_bearers_of(secrets.token());
        Self { server, secrets, counter: None }
    }

    /// The same, counting its connections of HTTP/2.
    #[must_use]
    pub fn counting(mut self) -> Self {
        let (is_over, most) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends, counts, admin) = (Arc::clone(&is_over), Arc::clone(&most), self.server.admin.clone());
        let token = self.secrets.token();
        let thread = thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                // It may have ended, as its clients wished.
                let Some(open) = connections(&admin, token) else { return };
                counts.fetch_max(open, Ordering::Relaxed);
                thread::sleep(COUNTED_EVERY);
            }
        });
        self.counter = Some(Counter { is_over, most, thread });
        self
    }

    /// Where clients connect.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.server.address)
    }

    /// What they need to know.
    #[must_use]
    pub const fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// A file with the same, in the form of kubectl.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.secrets.kubeconfig(&self.url())
    }

    /// In which protocol its clients spoke to it since [`Alone::counting`], in a line that begins with it.
    ///
    /// # Errors
    /// In a line: the counting failed.
    pub fn check(&mut self) -> Result<String, String> {
        let Counter { is_over, most, thread } = self.counter.take().ok_or("nothing was counted")?;
        is_over.store(true, Ordering::Relaxed);
        thread.join().map_err(|_| "counting the connections failed")?;
        Ok(match most.load(Ordering::Relaxed) {
            0 => "HTTP/1.1 alone".to_owned(),
            most => format!("HTTP/2 on at most {most} connections at once"),
        })
    }
}

/// Connections of HTTP/2 that are open; `None`: the server has ended.
fn connections(admin: &str, token: &str) -> Option<u64> {
    std::net::TcpStream::connect(admin).ok()?;
    let text = Client::new(admin).bearing(token).get("/metrics").text();
    let line =
        text.lines().find_map(|line| line.strip_prefix("revcast_connections_open{carries=\"http2\"} "));
    line?.parse().ok()
}
