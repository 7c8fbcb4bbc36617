//! A real Envoy beside the test: its admin port, its statistics, and traffic through it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::bootstrap::Bootstrap;
use super::clients::RealClients;
use super::http::{self, Reply};
use super::ports::Port;
use super::process::Process;
use super::wait;

/// The versions of the matrix.
pub(crate) const VERSIONS: [&str; 2] = ["1.40.0", "1.36.2"];

/// A running Envoy.
#[derive(Debug)]
pub(crate) struct Envoy {
    process: Process,
    admin: Port,
    listener: u16,
}

impl Envoy {
    /// Starts one version with a bootstrap; traffic to it goes to the port of its listener.
    pub(crate) fn start(
        clients: &RealClients,
        version: &str,
        test: &Path,
        bootstrap: &Bootstrap,
        listener: u16,
    ) -> Self {
        let admin = Port::reserve();
        let yaml = bootstrap.yaml("envoy-1", admin.number());
        Self::start_with(clients.envoy(version), test, &yaml, admin, listener)
    }

    /// Starts with a whole bootstrap, which names the admin port.
    pub(crate) fn start_with(
        mut command: Command,
        test: &Path,
        bootstrap: &str,
        admin: Port,
        listener: u16,
    ) -> Self {
        let name = format!("envoy-{}", admin.number());
        let file = test.join(format!("{name}.yaml"));
        fs::write(&file, bootstrap).expect("the directory is ours");
        command.arg("-c").arg(&file);
        command.args(["--disable-hot-restart", "--concurrency", "1", "-l", "warning"]);
        let process = Process::start(test, &name, &mut command);
        Self { process, admin, listener }
    }

    /// Waits until it says of itself that it has all it needs.
    #[track_caller]
    pub(crate) fn is_live(&mut self) {
        let Self { process, admin, .. } = self;
        wait::holds("Envoy to be LIVE", || {
            if let Some(status) = process.ended() {
                panic!("Envoy ended: {status}\n{}", process.output());
            }
            http::get(admin.number(), "/ready", &[]).is_some_and(|reply| reply.status == 200)
        });
    }

    /// Sends it a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// All that it has said.
    pub(crate) fn output(&self) -> String {
        self.process.output()
    }

    /// The number of its admin port.
    pub(crate) fn admin_port(&self) -> u16 {
        self.admin.number()
    }

    /// A page of its admin port.
    pub(crate) fn admin(&self, path: &str) -> Option<String> {
        http::get(self.admin.number(), path, &[]).map(|reply| reply.body)
    }

    /// All statistics whose name contains the words, as (name, value).
    pub(crate) fn stats(&self, words: &str) -> Vec<(String, u64)> {
        let page = self.admin(&format!("/stats?filter={words}")).unwrap_or_default();
        let line = |line: &str| {
            let (name, value) = line.rsplit_once(": ")?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        page.lines().filter_map(line).collect()
    }

    /// The sum of all statistics whose name contains the words.
    pub(crate) fn stat(&self, words: &str) -> u64 {
        self.stats(words).iter().map(|(_, value)| value).sum()
    }

    /// Waits for an answer to `/` that comes from the backend.
    #[track_caller]
    pub(crate) fn answers_from(&self, backend: &str) {
        self.answers_with(&[], &format!("from {backend}\n"));
    }

    /// Waits for a good answer to `/`, asked for with these headers, that has the words in it.
    #[track_caller]
    pub(crate) fn answers_with(&self, headers: &[&str], words: &str) {
        wait::holds(&format!("an answer with {words:?} through Envoy"), || {
            self.get(headers).is_some_and(|reply| reply.status == 200 && reply.body.contains(words))
        });
    }

    /// Waits for an answer to `/`, asked for with these headers, that has this status.
    #[track_caller]
    pub(crate) fn answers_at_last(&self, headers: &[&str], status: u16) {
        wait::holds(&format!("an answer with status {status} through Envoy"), || {
            self.get(headers).is_some_and(|reply| reply.status == status)
        });
    }

    /// Asks for `/` with these headers.
    pub(crate) fn get(&self, headers: &[&str]) -> Option<Reply> {
        self.get_path("/", headers)
    }

    /// Asks for a path with these headers.
    pub(crate) fn get_path(&self, path: &str, headers: &[&str]) -> Option<Reply> {
        http::get(self.listener, path, headers)
    }

    /// Nothing it was ever sent was refused, and nothing it asked for came too late.
    #[track_caller]
    pub(crate) fn refused_nothing(&self) {
        for words in ["update_rejected", "init_fetch_timeout"] {
            let mut stats = self.stats(words);
            assert!(!stats.is_empty(), "Envoy counts {words}");
            stats.retain(|(_, value)| *value > 0);
            assert!(stats.is_empty(), "{stats:?}");
        }
    }

    /// Returns true if a cluster of that name is there and warm.
    pub(crate) fn has_cluster(&self, name: &str) -> bool {
        let page = self.admin("/clusters").unwrap_or_default();
        page.lines().any(|line| line.starts_with(&format!("{name}::")))
    }

    /// An answer that came at once: in much less than any timeout of the on-demand filters.
    #[track_caller]
    pub(crate) fn answers_at_once(&self, headers: &[&str], status: u16) {
        let start = std::time::Instant::now();
        let reply = self.get(headers).expect("an answer");
        assert_eq!(reply.status, status, "{reply:?}");
        assert!(start.elapsed() < Duration::from_secs(2), "after {:?}", start.elapsed());
    }
}
