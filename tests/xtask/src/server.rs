//! A revcast for the time of a check: started on free ports, awaited, and ended with its owner.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::place;

/// What is served besides Kubernetes' own.
pub(crate) const WIDGETS: [&str; 2] = ["--resource", "example.com/v1/widgets/Widget/namespaced"];

/// How long a server may take to become ready.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// A running server; dropping it ends it. Its store is in memory, or a separate etcd, so nothing stays.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    admin: SocketAddr,
    /// After the server itself: it ends later.
    _etcd: Option<Etcd>,
}

/// An etcd of one member for the time of a check.
#[derive(Debug)]
struct Etcd {
    child: Child,
    folder: PathBuf,
    endpoint: String,
}

impl Etcd {
    fn start(program: &Path) -> Result<Self, String> {
        let (client, peer) = (free_address()?, free_address()?);
        // Several may run in parallel; the port distinguishes them.
        let name = format!("revcast-xtask-etcd-{}-{}", std::process::id(), client.port());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        let (endpoint, peer) = (format!("http://{client}"), format!("http://{peer}"));
        let child = Command::new(program)
            .arg("--data-dir")
            .arg(&folder)
            .args(["--listen-client-urls", &endpoint, "--advertise-client-urls", &endpoint])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                format!("{} does not start: {error}; run cargo xtask etcd", program.display())
            })?;
        Ok(Self { child, folder, endpoint })
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have ended already; what stays is temporary.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Server {
    /// Starts the release binary, or the one that `REVCAST_BIN` names, over the etcd of this program if one is given. It
    /// stores objects in the form of this name.
    ///
    /// # Errors
    /// One line: it does not start, it ended by itself, or it is not ready in time.
    pub(crate) fn start(etcd: Option<&Path>, form: &str, options: &[&str]) -> Result<Self, String> {
        let etcd = etcd.map(Etcd::start).transpose()?;
        let endpoint = etcd.as_ref().map(|etcd| ["--etcd-endpoints", &etcd.endpoint]);
        let program = place::binary("release", "revcast", "REVCAST_BIN");
        let (address, admin) = (free_address()?, free_address()?);
        let child = Command::new(&program)
            .args(["serve", "--listen", &address.to_string(), "--admin-listen", &admin.to_string()])
            .args(["--shards", "1"])
            .args(WIDGETS)
            .args(["--storage-media-type", form])
            .args(options)
            // For this program: the server refuses unknown variables with this prefix.
            .env_remove("REVCAST_BIN")
            .args(endpoint.iter().flatten())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", program.display()))?;
        let mut server = Self { child, address, admin, _etcd: etcd };
        server.await_ready()?;
        Ok(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where operators ask it.
    pub(crate) fn admin_url(&self) -> String {
        format!("http://{}", self.admin)
    }

    fn await_ready(&mut self) -> Result<(), String> {
        let began = Instant::now();
        while began.elapsed() < READY_WITHIN {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the server ended by itself ({status}) before it was ready"));
            }
            if ready(self.address).unwrap_or(false) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(format!("the server at {} was not ready within {} s", self.url(), READY_WITHIN.as_secs()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already, as intended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ready(address: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: revcast\r\nConnection: close\r\n\r\n")?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    Ok(&head == b"HTTP/1.1 200")
}

/// An address without a listener.
fn free_address() -> Result<SocketAddr, String> {
    let taken = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    taken.map_err(|error| format!("no free port on 127.0.0.1: {error}"))
}
