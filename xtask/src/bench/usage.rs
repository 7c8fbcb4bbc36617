//! The CPU time and the memory of a process that the kernel tells of.
//!
//! Not here: the figures that the driver takes of the server itself (`driver`).

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// A process whose usage is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage(pub(crate) u32);

impl Usage {
    /// The CPU time of all its threads, in seconds.
    pub(crate) fn cpu(self) -> Result<f64> {
        let mut nanoseconds = 0_u64;
        for task in fs::read_dir(format!("/proc/{}/task", self.0)).context("the process ended")? {
            // A thread that has ended since the directory was read is left out.
            let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
            let first = text.split(' ').next().context("an empty `schedstat`")?;
            nanoseconds += first.parse::<u64>().context("`schedstat`")?;
        }
        Ok(nanoseconds as f64 / 1e9)
    }

    /// The resident memory, and the most of it since the last call, in bytes.
    pub(crate) fn memory(self) -> Result<(u64, u64)> {
        let path = format!("/proc/{}", self.0);
        let text = fs::read_to_string(format!("{path}/status")).context("the process ended")?;
        let found = bytes(&text, "VmRSS:").zip(bytes(&text, "VmHWM:"));
        fs::write(format!("{path}/clear_refs"), "5").context("the peak cannot be reset")?;
        found.context("no memory in `status`")
    }

    /// Waits until it has used next to nothing for a while.
    pub(crate) fn wait_idle(self) -> Result<()> {
        let (begin, mut before, mut idle) = (Instant::now(), self.cpu()?, 0);
        while idle < IDLE_LOOKS {
            if begin.elapsed() > PATIENCE {
                bail!("the server was still busy after {} s", PATIENCE.as_secs());
            }
            sleep(LOOK);
            let now = self.cpu()?;
            idle = if now - before < IDLE_S { idle + 1 } else { 0 };
            before = now;
        }
        Ok(())
    }
}

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(200);
const IDLE_LOOKS: u32 = 5;

/// The CPU time that an idle server may use between two looks.
const IDLE_S: f64 = 0.004;

fn bytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let own = Usage(std::process::id());
        let (now, peak) = own.memory().unwrap();
        assert!(own.cpu().unwrap() > 0.0 && now > 100_000 && peak >= 100_000);
        assert!(Usage(u32::MAX).cpu().is_err());
    }
}
