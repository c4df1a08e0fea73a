//! Several members that form one store.

use std::path::Path;
use std::time::{Duration, Instant};

use super::control::{self, Control};
use super::folder::Folder;
use super::member::Member;
use super::options::Options;
use super::{Release, Token};

/// How long a cluster may have no leader while most of its members run.
const PATIENCE: Duration = Duration::from_secs(30);

/// A cluster. Members are identified by index, from 0. Killed, and its data removed, when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    release: Release,
    options: Options,
    /// How often the token was changed, so that the next one differs.
    tokens: u32,
    /// Before the folder that contains their data.
    members: Vec<Member>,
    folder: Folder,
}

impl Cluster {
    /// Starts some members, and waits until all of them serve.
    ///
    /// # Panics
    /// When they do not.
    #[must_use]
    pub fn start(release: Release, size: usize) -> Self {
        Self::start_with(release, size, Options::default())
    }

    /// As [`Cluster::start`], with more options.
    ///
    /// # Panics
    /// As [`Cluster::start`], and when ports are chosen for several members.
    #[must_use]
    pub fn start_with(release: Release, size: usize, options: Options) -> Self {
        assert!(size == 1 || options.ports.is_none(), "two members cannot have the same ports");
        let folder = Folder::new();
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let member = |index| Member::new(release, format!("m{index}"), options.ports, scheme, folder.path());
        let members = (0..size).map(member).collect();
        let mut cluster = Self { release, options, tokens: 0, members, folder };
        cluster.launch_all();
        cluster
    }

    /// Where clients connect: every member's endpoint, separated by commas.
    #[must_use]
    pub fn endpoints(&self) -> String {
        self.members.iter().map(Member::endpoint).collect::<Vec<_>>().join(",")
    }

    /// Where clients of one member connect.
    #[must_use]
    pub fn endpoint(&self, index: usize) -> String {
        self.members[index].endpoint()
    }

    /// The same without its scheme: `127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self, index: usize) -> String {
        self.members[index].address()
    }

    /// Its release.
    #[must_use]
    pub const fn release(&self) -> Release {
        self.release
    }

    /// A control for all of them.
    #[must_use]
    pub fn control(&self) -> Control {
        Control::new(self.release, self.endpoints(), self.options.tls.clone())
    }

    /// A control for one of them.
    #[must_use]
    pub fn control_of(&self, index: usize) -> Control {
        self.control().at(&self.endpoint(index))
    }

    /// The process id of a member.
    ///
    /// # Panics
    /// When it does not run.
    #[must_use]
    pub fn pid(&self, index: usize) -> u32 {
        self.members[index].pid()
    }

    /// Whether a member runs, even if paused.
    #[must_use]
    pub fn is_running(&self, index: usize) -> bool {
        self.members[index].is_running()
    }

    /// A metric of a member; `None` when it does not answer or has none of this name.
    #[must_use]
    pub fn metric(&self, index: usize, name: &str) -> Option<f64> {
        self.members[index].metric(name)
    }

    /// A folder that is removed with the cluster, for snapshots.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends a member at once, as a crash would. Its data stay.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self, index: usize) {
        self.members[index].kill();
    }

    /// Stops a member gracefully. Its data stay.
    ///
    /// # Panics
    /// When it does not run, or does not end.
    pub fn stop(&mut self, index: usize) {
        self.members[index].stop();
    }

    /// Starts a member on its ports and data, after stopping it gracefully if it runs; waits until it serves, unless
    /// too few members run for that.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart(&mut self, index: usize) {
        if self.members[index].is_running() {
            self.members[index].stop();
        }
        let arguments = self.arguments();
        self.members[index].launch(&arguments);
        let awake = self.members.iter().filter(|member| member.is_running() && !member.is_paused()).count();
        if awake * 2 > self.members.len() {
            self.members[index].await_health();
        }
    }

    /// Freezes a member: it keeps its connections and answers nothing.
    ///
    /// # Panics
    /// When it does not run.
    pub fn pause(&mut self, index: usize) {
        self.members[index].pause();
    }

    /// Lets it continue.
    ///
    /// # Panics
    /// When it does not run.
    pub fn resume(&mut self, index: usize) {
        self.members[index].resume();
    }

    /// The current leader; `None` during an election. A paused member is not asked.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        let leads = |member: &Member| {
            member.is_running()
                && !member.is_paused()
                && member.metric("etcd_server_is_leader").is_some_and(|value| value > 0.5)
        };
        self.members.iter().position(leads)
    }

    /// The leader, once there is one.
    ///
    /// # Panics
    /// When there is none in half a minute.
    #[must_use]
    pub fn await_leader(&self) -> usize {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(leader) = self.leader() {
                return leader;
            }
            assert!(Instant::now() < deadline, "no member leads");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Makes a member the leader. `control`: by which user; root if authentication is enabled.
    ///
    /// # Panics
    /// When it does not become the leader.
    pub fn move_leader(&self, control: &Control, to: usize) {
        let status = control.at(&self.endpoint(to)).status().expect("the member answers");
        let leader = self.await_leader();
        if leader != to {
            let moved = control.at(&self.endpoint(leader)).move_leader(status[0].member_id);
            moved.expect("the leader gives way");
        }
        let deadline = Instant::now() + PATIENCE;
        while self.leader() != Some(to) {
            assert!(Instant::now() < deadline, "{} does not lead", self.members[to].name());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Replaces this store by another one on the same ports: empty, with another id.
    ///
    /// # Panics
    /// When it does not start.
    pub fn swap(&mut self) {
        self.end_all();
        for member in &mut self.members {
            member.renew();
        }
        self.tokens += 1;
        self.launch_all();
    }

    /// Restores a snapshot. With the same token the cluster keeps its id.
    ///
    /// # Panics
    /// When that cannot be done.
    pub fn restore(&mut self, snapshot: &Path, token: Token) {
        self.end_all();
        self.tokens += u32::from(token == Token::Other);
        let (release, identity) = (self.release, self.identity());
        for member in &mut self.members {
            let data = member.renew();
            let own = ["--name", member.name(), "--initial-advertise-peer-urls", &member.peer_url()];
            let arguments: Vec<String> = own.into_iter().map(str::to_owned).chain(identity.clone()).collect();
            control::restore(release, snapshot, &data, &arguments).expect("the snapshot is whole");
        }
        self.launch_all();
    }

    pub(super) fn ask(&self, index: usize, path: &str) -> std::io::Result<String> {
        self.members[index].ask(path).map(|reply| reply.text())
    }

    fn end_all(&mut self) {
        for member in self.members.iter_mut().filter(|member| member.is_running()) {
            member.kill();
        }
    }

    fn launch_all(&mut self) {
        let arguments = self.arguments();
        for member in &mut self.members {
            member.launch(&arguments);
        }
        for member in &mut self.members {
            member.await_health();
        }
    }

    /// What makes the cluster's id.
    fn identity(&self) -> Vec<String> {
        let members = self.members.iter().map(|member| format!("{}={}", member.name(), member.peer_url()));
        let token = self.options.cluster_token.as_deref().unwrap_or("revcast-tests");
        let token = match self.tokens {
            0 => token.to_owned(),
            count => format!("{token}-{count}"),
        };
        let members = members.collect::<Vec<_>>().join(",");
        vec!["--initial-cluster".to_owned(), members, "--initial-cluster-token".to_owned(), token]
    }

    fn arguments(&self) -> Vec<String> {
        [self.identity(), self.options.arguments(self.members.len())].concat()
    }
}
