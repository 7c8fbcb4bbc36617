//! The CPU time and memory of a process, as the kernel reports them in `/proc`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::error::Error;

/// A process whose CPU time and memory can be read.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    number: u32,
    /// Its directory in `/proc`.
    at: PathBuf,
}

impl Process {
    /// The process with this number.
    ///
    /// # Errors
    /// There is no such process, or its figures may not be read.
    pub(crate) fn of(pid: u32) -> Result<Self, Error> {
        let process = Self { number: pid, at: format!("/proc/{pid}").into() };
        match process.cpu().zip(process.rss()) {
            Some(_) => Ok(process),
            None => Err(Error::Process(pid)),
        }
    }

    /// This process.
    pub(crate) fn own() -> Self {
        Self { number: std::process::id(), at: "/proc/self".into() }
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The CPU time of all its threads.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        let mut nanoseconds = 0_u64;
        for task in fs::read_dir(self.at.join("task")).ok()? {
            // A thread that has ended since the directory was read is left out.
            let Ok(text) = fs::read_to_string(task.ok()?.path().join("schedstat")) else {
                continue;
            };
            nanoseconds += text.split(' ').next()?.parse::<u64>().ok()?;
        }
        Some(Duration::from_nanos(nanoseconds))
    }

    /// The resident memory in bytes.
    pub(crate) fn rss(&self) -> Option<u64> {
        let exact = fs::read_to_string(self.at.join("smaps_rollup")).ok();
        exact.and_then(|text| kilobytes(&text, "Rss:")).or_else(|| self.status("VmRSS:"))
    }

    /// The most resident memory since [`Self::reset_peak`].
    pub(crate) fn peak(&self) -> Option<u64> {
        self.status("VmHWM:")
    }

    /// Resets the peak of resident memory; returns true if that is allowed.
    pub(crate) fn reset_peak(&self) -> bool {
        fs::write(self.at.join("clear_refs"), "5").is_ok()
    }

    /// The number of files it may open.
    pub(crate) fn files(&self) -> Option<usize> {
        let text = fs::read_to_string(self.at.join("limits")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        line.split_whitespace().next()?.parse().ok()
    }

    fn status(&self, key: &str) -> Option<u64> {
        kilobytes(&fs::read_to_string(self.at.join("status")).ok()?, key)
    }
}

fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_looked_at() {
        let own = Process::of(std::process::id()).unwrap();
        assert!(own.cpu().unwrap() > Duration::ZERO);
        assert!(own.rss().unwrap() > 100_000 && own.peak().unwrap() >= 100_000);
        assert!(own.files().unwrap() > 2);
    }

    #[test]
    fn a_process_that_does_not_exist_is_an_error() {
        assert!(Process::of(u32::MAX).unwrap_err().to_string().contains("4294967295"));
    }
}
