//! The memory and the CPU time of a process as the kernel counts them, and a bound on the memory.
//!
//! The bound is a cgroup below that of this process, where one can be made and entered. With one or
//! without, a sample of the memory that is over the bound is a failure. `RLIMIT_AS` would be no
//! substitute: it counts addresses, of which a runtime with arenas reserves many times what it uses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// The time between two samples.
const PAUSE: Duration = Duration::from_millis(20);

/// The resident memory of a process in bytes.
pub(crate) fn rss(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// The CPU time of a process so far.
pub(crate) fn cpu(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after) = stat.rsplit_once(')')?;
    let mut words = after.split_whitespace().skip(11);
    let user: u64 = words.next()?.parse().ok()?;
    let system: u64 = words.next()?.parse().ok()?;
    // The kernel shows a hundredth of a second to programs as one tick.
    Some(Duration::from_millis((user + system) * 10))
}

/// Samples the memory of a process until this is dropped.
pub(crate) struct Sampler {
    peak: Arc<AtomicU64>,
    curve: Arc<Mutex<Vec<(Duration, u64)>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    pub(crate) fn start(pid: u32) -> Self {
        let (peak, curve) = (Arc::new(AtomicU64::new(0)), Arc::default());
        let stop = Arc::new(AtomicBool::new(false));
        let of = (Arc::clone(&peak), Arc::clone(&curve), Arc::clone(&stop));
        let thread = thread::spawn(move || sample(pid, &of.0, &of.1, &of.2));
        Self { peak, curve, stop, thread: Some(thread) }
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// One sample a second so far.
    pub(crate) fn curve(&self) -> Vec<(Duration, u64)> {
        self.curve.lock().map(|curve| curve.clone()).unwrap_or_default()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A sampler cannot panic, and there is nothing to say of its end.
            thread.join().ok();
        }
    }
}

fn sample(pid: u32, peak: &AtomicU64, curve: &Mutex<Vec<(Duration, u64)>>, stop: &AtomicBool) {
    let begin = Instant::now();
    let mut next = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let Some(now) = rss(pid) else { return };
        peak.fetch_max(now, Ordering::Relaxed);
        if begin.elapsed() >= next {
            next += Duration::from_secs(1);
            if let Ok(mut curve) = curve.lock() {
                curve.push((begin.elapsed(), now));
            }
        }
        thread::sleep(PAUSE);
    }
}

/// A cgroup with a bound on its memory. It is removed when this is dropped.
pub(crate) struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Makes one below the cgroup of this process: version 2, or version 1 of the memory controller.
    pub(crate) fn make(bytes: u64) -> Result<Self> {
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let below = |prefix: &str| own.lines().find_map(|line| line.strip_prefix(prefix));
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let at = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("chancery-attack-{}-{at}", std::process::id());
        let version1 = own.lines().find_map(|line| line.split_once(":memory:"));
        let (root, limit, with_swap) = match (version1, below("0::")) {
            (Some((_, path)), _) => {
                let with_swap = ("memory.memsw.limit_in_bytes", bytes);
                (format!("/sys/fs/cgroup/memory{path}"), "memory.limit_in_bytes", with_swap)
            }
            (None, Some(path)) => {
                (format!("/sys/fs/cgroup{path}"), "memory.max", ("memory.swap.max", 0))
            }
            (None, None) => anyhow::bail!("this process is in no cgroup"),
        };
        let path = Path::new(&root).join(name);
        if !path.is_dir() {
            fs::create_dir(&path).with_context(|| path.display().to_string())?;
        }
        let cgroup = Self { path };
        fs::write(cgroup.path.join(limit), bytes.to_string()).context("its bound")?;
        // Kernels that do not count swap have no such file.
        let swap = cgroup.path.join(with_swap.0);
        if swap.exists() {
            fs::write(swap, with_swap.1.to_string()).context("its bound on swap")?;
        }
        let tried = Command::new("sh").args(["-c", &cgroup.enter()]).stderr(Stdio::null()).status();
        ensure!(tried?.success(), "no process can enter it");
        Ok(cgroup)
    }

    /// The command by which a shell enters it. The shell ends if it cannot.
    pub(crate) fn enter(&self) -> String {
        format!("echo $$ > '{}' || exit 97; ", self.processes().display())
    }

    /// The file that takes the ids of its processes.
    fn processes(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Its process has been waited for; the kernel may take a moment to forget it.
        for _ in 0..50 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            thread::sleep(PAUSE);
        }
    }
}
