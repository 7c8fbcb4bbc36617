//! The server under attack: its process, its directory, its log, and the ways to it.
//!
//! The process is killed when this is dropped, and by the kernel when this program ends in another
//! way, if `setpriv` is installed.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use tempfile::TempDir;

use crate::innocent::{Served, UNANSWERED};
use crate::log::Log;
use crate::memory::{self, Cgroup};
use crate::setup::Setup;
use crate::wire::grpc::Http2;
use crate::wire::http1::{Http1Answer, exchange};
use crate::wire::raw::Raw;
use crate::wire::{ATTACKER, INNOCENT};

/// Far more than anything that is waited for takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Far more than whatever is set to a second or two takes, and less than the defaults of a minute.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// The pause between two looks at something that is waited for.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// The circumstances of all attacks of one run.
#[derive(Clone, Debug)]
pub(crate) struct Circumstances {
    pub(crate) program: PathBuf,
    /// The time that an attack goes on if it has no end of its own.
    pub(crate) seconds: u64,
    /// True if no time is judged, and attacks do what is enough to see a bound.
    pub(crate) is_bounded: bool,
    /// The bound on the memory of the server.
    pub(crate) memory: u64,
}

/// A server that runs.
pub(crate) struct Stage {
    pub(crate) circumstances: Circumstances,
    /// The innocent clients that have been served.
    pub(crate) served: Arc<Served>,
    /// All that the server printed.
    pub(crate) log: Log,
    dir: TempDir,
    flags: Vec<String>,
    descriptors: Option<u32>,
    is_log_unread: bool,
    process: Mutex<Child>,
    xds: SocketAddr,
    admin: SocketAddr,
    cgroup: Option<Cgroup>,
}

impl Stage {
    /// Starts a server, which may never be ready.
    pub(crate) fn start(circumstances: &Circumstances, setup: Setup) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("chancery-attack-").tempdir()?;
        for (path, content) in &setup.files {
            write(dir.path(), path, content)?;
        }
        if let Some(config) = setup.config() {
            write(dir.path(), "chancery.yaml", config.as_bytes())?;
        }
        let (xds, admin) = (free_port()?, free_port()?);
        let cgroup = Cgroup::make(circumstances.memory).ok();
        let mut flags = vec!["serve".to_owned(), dir.path().join("").display().to_string()];
        flags.extend(["--listen".to_owned(), xds.to_string()]);
        flags.extend(["--admin".to_owned(), admin.to_string()]);
        let place = dir.path().display().to_string();
        let port = xds.port().to_string();
        let filled = |flag: &String| flag.replace("DIR", &place).replace("PORT", &port);
        flags.extend(setup.flags.iter().map(filled));
        for (path, target) in &setup.links {
            std::os::unix::fs::symlink(target, dir.path().join(path))?;
        }
        let log = Log::default();
        let command = (circumstances.program.as_path(), flags.as_slice(), setup.descriptors);
        let process = spawn(command, cgroup.as_ref(), setup.is_log_unread, &log)?;
        Ok(Self {
            circumstances: circumstances.clone(),
            served: Arc::default(),
            dir,
            flags,
            descriptors: setup.descriptors,
            is_log_unread: setup.is_log_unread,
            process: Mutex::new(process),
            log,
            xds,
            admin,
            cgroup,
        })
    }

    /// Waits until it is ready for clients.
    pub(crate) async fn is_ready(&self) -> Result<()> {
        let most = Duration::from_secs(5);
        until(PATIENCE, "the server is ready", async || {
            if let Some(status) = self.ended() {
                bail!("the server ended with {status}: {}", self.log.tail());
            }
            let answer = exchange(INNOCENT, self.admin, "GET /ready", &[], "", most).await;
            Ok(answer.is_ok_and(|answer| answer.status == 200))
        })
        .await
        .with_context(|| self.log.tail())
    }

    /// Kills the process as a crash would, and starts another one in its place.
    pub(crate) async fn crash_and_restart(&self) -> Result<()> {
        self.signal("KILL")?;
        self.wait_for_end(PATIENCE).await?;
        let command =
            (self.circumstances.program.as_path(), self.flags.as_slice(), self.descriptors);
        let next = spawn(command, self.cgroup.as_ref(), self.is_log_unread, &self.log)?;
        *self.child()? = next;
        self.is_ready().await
    }

    fn child(&self) -> Result<MutexGuard<'_, Child>> {
        self.process.lock().map_err(|_| anyhow!("a thread panicked"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child().map(|child| child.id()).unwrap_or_default()
    }

    /// The status of the process, if it has ended.
    pub(crate) fn ended(&self) -> Option<ExitStatus> {
        self.child().ok()?.try_wait().ok()?
    }

    /// Waits for the end of the process: its status and the time that it took.
    pub(crate) async fn wait_for_end(&self, most: Duration) -> Result<(ExitStatus, Duration)> {
        let begin = Instant::now();
        until(most, "the process has ended", async || Ok(self.ended().is_some())).await?;
        Ok((self.ended().context("it has ended")?, begin.elapsed()))
    }

    /// Waits until each kind of innocent client has had an answer to a question that it asked from
    /// now on, while the attacker holds what it has.
    pub(crate) async fn serves_others(&self) -> Result<()> {
        let from = Instant::now();
        let served = until(2 * UNANSWERED, "others are served", async || {
            ensure!(self.ended().is_none(), "the process has ended");
            Ok(self.served.all_since(from))
        });
        served.await
    }

    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        let status =
            Command::new("kill").args([format!("-{name}"), self.pid().to_string()]).status()?;
        ensure!(status.success(), "`kill -{name}` failed");
        Ok(())
    }

    pub(crate) const fn xds(&self) -> SocketAddr {
        self.xds
    }

    pub(crate) const fn admin(&self) -> SocketAddr {
        self.admin
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) const fn has_cgroup(&self) -> bool {
        self.cgroup.is_some()
    }

    pub(crate) const fn seconds(&self) -> Duration {
        Duration::from_secs(self.circumstances.seconds)
    }

    /// The larger number, or the smaller one where it is enough to see a bound.
    pub(crate) const fn scale(&self, whole: usize, bounded: usize) -> usize {
        if self.circumstances.is_bounded { bounded } else { whole }
    }

    /// Fails if something came before a time, or, where times are judged, not before another one.
    pub(crate) fn came(&self, took: Duration, within: Range<Duration>) -> Result<()> {
        ensure!(took >= within.start, "it came after {took:?}, and not after {:?}", within.start);
        let is_early = self.circumstances.is_bounded || took < within.end;
        ensure!(is_early, "it came after {took:?}, and not before {:?}", within.end);
        Ok(())
    }

    pub(crate) fn rss(&self) -> u64 {
        memory::rss(self.pid()).unwrap_or(0)
    }

    /// Writes a file below the directory, in place.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> Result<()> {
        write(self.dir(), path, content.as_ref())
    }

    /// A connection of the attacker, with this window for each stream.
    pub(crate) async fn http2(&self, window: u32) -> Result<Http2> {
        Http2::connect(ATTACKER, self.xds, window).await
    }

    pub(crate) async fn raw(&self) -> Result<Raw> {
        Ok(Raw::dial(self.xds).await?)
    }

    /// A page of the admin interface.
    pub(crate) async fn page(&self, path: &str) -> Result<Http1Answer> {
        exchange(INNOCENT, self.admin, &format!("GET {path}"), &[], "", PATIENCE).await
    }

    /// The sum of the series of a metric.
    pub(crate) async fn metric(&self, name: &str) -> Result<f64> {
        let page = self.page("/metrics").await?.body;
        let values = page.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            let (_, value) = rest.rsplit_once(' ').filter(|_| rest.starts_with([' ', '{']))?;
            value.parse::<f64>().ok()
        });
        Ok(values.sum())
    }

    /// Waits until a metric is at least this.
    pub(crate) async fn metric_reaches(
        &self,
        name: &str,
        value: f64,
        most: Duration,
    ) -> Result<()> {
        let what = format!("`{name}` is {value}");
        until(most, &what, async || Ok(self.metric(name).await? >= value)).await
    }

    /// Waits until the server holds so many megabytes for clients, or has refused a client some.
    pub(crate) async fn is_charged(&self, megabytes: u32) -> Result<()> {
        let least = f64::from(megabytes) * f64::from(1 << 20);
        until(PATIENCE, "the server holds much, or has refused it", async || {
            let refused = self.metric("chancery_cut_off_total").await?
                + self.metric("chancery_streams_refused_total").await?;
            Ok(refused > 0.0 || self.metric("chancery_memory_held_bytes").await? >= least)
        })
        .await
    }

    /// The page of the admin interface about the configuration.
    pub(crate) async fn config(&self) -> Result<serde_json::Value> {
        Ok(serde_json::from_str(&self.page("/api/v1/config").await?.body)?)
    }
}

/// Waits until something holds. An error says what has not come about.
pub(crate) async fn until(
    most: Duration,
    what: &str,
    mut holds: impl AsyncFnMut() -> Result<bool>,
) -> Result<()> {
    let begin = Instant::now();
    while !holds().await? {
        ensure!(begin.elapsed() < most, "it is not so after {most:?} that {what}");
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Ok(mut child) = self.process.lock() {
            // It may have ended already, and nothing can be done if it cannot be killed.
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Writes a file and the directories above it.
fn write(dir: &Path, path: &str, content: &[u8]) -> Result<()> {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().context("a file has a directory")?)?;
    fs::write(&path, content).with_context(|| path.display().to_string())
}

fn spawn(
    (program, flags, descriptors): (&Path, &[String], Option<u32>),
    cgroup: Option<&Cgroup>,
    is_log_unread: bool,
    log: &Log,
) -> Result<Child> {
    let mut command = Command::new("sh");
    if Path::new("/usr/bin/setpriv").exists() {
        command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "sh"]);
    }
    let enter = cgroup.map(Cgroup::enter).unwrap_or_default();
    let limit = descriptors.map_or_else(|| "$(ulimit -Hn)".to_owned(), |count| count.to_string());
    let script = format!("{enter}ulimit -n {limit}; exec \"$@\"");
    command.args(["-c", &script, "sh"]).arg(program).args(flags).env("NO_COLOR", "1");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CHANCERY_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(stdout) = child.stdout.take() {
        log.collect(stdout);
    }
    if !is_log_unread && let Some(stderr) = child.stderr.take() {
        log.collect(stderr);
    }
    Ok(child)
}

/// A port of loopback below the range of outgoing connections, which no other server of this
/// program has had and of which nobody listens on any address.
fn free_port() -> Result<SocketAddr> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..12_000 {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(
            20_000 + (std::process::id().wrapping_mul(131).wrapping_add(step)) % 12_000,
        )?;
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return Ok((Ipv4Addr::LOCALHOST, port).into());
        }
    }
    bail!("every port from 20000 on is taken")
}
