//! Directories of clusters, and the daemon that serves them.
//!
//! They are the same in each run, so that runs can be compared. Not here: the goals that they are
//! for (`goals::files`, `goals::start`), and the servers of the other goals (`server`, `side`).

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::server::ServerProcess;
use super::usage::Usage;

/// The distribution of resources over files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    FileEach,
    HundredFiles,
}

impl Layout {
    pub(crate) fn name(self) -> String {
        match self {
            Self::FileEach => "one file for each resource",
            Self::HundredFiles => "100 files",
        }
        .to_owned()
    }

    /// The path of the file of a cluster, below the root. Both layouts have a hundred directories.
    fn file(self, index: usize) -> String {
        match self {
            Self::FileEach => format!("team-{:02}/cluster-{index:06}.yaml", index % 100),
            Self::HundredFiles => format!("team-{:02}/clusters.yaml", index % 100),
        }
    }
}

/// Writes that many clusters into an empty directory, and returns the file of one in the middle.
pub(crate) fn write(dir: &Path, layout: Layout, clusters: usize) -> Result<PathBuf> {
    crate::parts::clear(dir)?;
    for team in 0..100 {
        fs::create_dir_all(dir.join(format!("team-{team:02}")))?;
    }
    for index in 0..clusters {
        let mut file =
            fs::OpenOptions::new().create(true).append(true).open(dir.join(layout.file(index)))?;
        file.write_all(cluster(index).as_bytes())?;
    }
    Ok(dir.join(layout.file(clusters / 2)))
}

fn cluster(index: usize) -> String {
    format!(
        "---
\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: bench-{index:06}
type: STRICT_DNS
connect_timeout: 1s
alt_stat_name: before
lb_policy: ROUND_ROBIN
load_assignment:
  cluster_name: bench-{index:06}
  endpoints:
  - lb_endpoints:
    - endpoint:
        address:
          socket_address: {{address: web-{index}.example.com, port_value: 8080}}
"
    )
}

/// A running `chancery serve` with default settings, except for its addresses.
pub(crate) struct Daemon {
    pub(crate) server: ServerProcess,
    admin: SocketAddr,
    begin: Instant,
}

/// The longest time for a load: more than any directory here takes.
const PATIENCE: Duration = Duration::from_secs(60);

impl Daemon {
    pub(crate) fn start(chancery: &Path, dir: &Path) -> Result<Self> {
        let [xds, admin] = free()?;
        let words = [
            "serve".to_owned(),
            dir.display().to_string(),
            "--listen".to_owned(),
            xds.to_string(),
            "--admin".to_owned(),
            admin.to_string(),
        ];
        let begin = Instant::now();
        let server = ServerProcess::silent(chancery, &words, xds.to_string())?;
        Ok(Self { server, admin, begin })
    }

    /// Waits until it is ready, and returns the time since its start.
    pub(crate) fn ready(&mut self) -> Result<Duration> {
        while self.begin.elapsed() < PATIENCE {
            if self.server.has_ended() {
                bail!("`chancery serve` ended before it was ready");
            }
            if asked(self.admin, "/ready").is_ok_and(|answer| answer.starts_with(OK)) {
                return Ok(self.begin.elapsed());
            }
            sleep(Duration::from_millis(1));
        }
        bail!("`chancery serve` was not ready after {} s", PATIENCE.as_secs())
    }

    /// The body of a page of its admin interface.
    pub(crate) fn page(&self, path: &str) -> Result<String> {
        let answer = asked(self.admin, path).with_context(|| path.to_owned())?;
        match answer.split_once("\r\n\r\n").filter(|_| answer.starts_with(OK)) {
            Some((_, body)) => Ok(body.to_owned()),
            None => bail!("`{path}` answers `{}`", answer.lines().next().unwrap_or_default()),
        }
    }

    /// The sum of a metric over its labels.
    pub(crate) fn metric(&self, name: &str) -> Result<f64> {
        let page = self.page("/metrics")?;
        let of_name = |line: &&str| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
        };
        let values = page.lines().filter(of_name).filter_map(|line| line.rsplit(' ').next());
        Ok(values.filter_map(|value| value.parse::<f64>().ok()).sum())
    }

    /// Waits until that many streams are open, and what follows from that is done.
    pub(crate) fn wait_streams(&self, streams: u32) -> Result<()> {
        let begin = Instant::now();
        while self.metric("chancery_streams")? < f64::from(streams) {
            if begin.elapsed() > PATIENCE {
                bail!("{streams} streams were not open after {} s", PATIENCE.as_secs());
            }
            sleep(Duration::from_millis(100));
        }
        Usage(self.server.pid()).wait_idle()
    }

    /// The address of its admin interface.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.admin
    }
}

const OK: &str = "HTTP/1.1 200";

fn asked(admin: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&admin, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Two free ports, below those that the kernel gives to clients.
fn free() -> Result<[SocketAddr; 2]> {
    let begin = 20_000 + std::process::id() % 5_000;
    let mut found = (begin..32_000).filter_map(|port| {
        let address = SocketAddr::from(([127, 0, 0, 1], u16::try_from(port).ok()?));
        TcpListener::bind(address).ok().map(|_| address)
    });
    let two = found.next().zip(found.next()).context("no free ports")?;
    Ok(two.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_hold_all_clusters() {
        let dir = std::env::temp_dir().join(format!("xtask-directory-{}", std::process::id()));
        for (layout, files) in [(Layout::FileEach, 300), (Layout::HundredFiles, 100)] {
            let changed = write(&dir, layout, 300).unwrap();
            let teams = fs::read_dir(&dir).unwrap().map(|team| team.unwrap().path());
            let found: Vec<_> = teams
                .flat_map(|team| fs::read_dir(team).unwrap())
                .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
                .collect();
            assert_eq!(found.len(), files);
            assert_eq!(found.concat().matches("\nname: bench-").count(), 300);
            assert!(fs::read_to_string(changed).unwrap().contains("name: bench-000150\n"));
        }
        crate::parts::clear(&dir).unwrap();
    }
}
