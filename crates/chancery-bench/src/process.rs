//! What a process has used: the kernel's own figures, out of `/proc`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::error::Error;

/// A process that can be asked.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    number: u32,
    at: PathBuf,
}

impl Process {
    /// The server, by its number.
    ///
    /// # Errors
    /// There is no such process, or it may not be looked at.
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

    /// CPU time of all its threads.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        let mut nanoseconds = 0_u64;
        for task in fs::read_dir(self.at.join("task")).ok()? {
            // A thread that ended since the directory was read is passed over.
            let Ok(text) = fs::read_to_string(task.ok()?.path().join("schedstat")) else {
                continue;
            };
            nanoseconds += text.split(' ').next()?.parse::<u64>().ok()?;
        }
        Some(Duration::from_nanos(nanoseconds))
    }

    /// Resident memory in bytes.
    pub(crate) fn rss(&self) -> Option<u64> {
        let exact = fs::read_to_string(self.at.join("smaps_rollup")).ok();
        exact.and_then(|text| kilobytes(&text, "Rss:")).or_else(|| self.status("VmRSS:"))
    }

    /// The most resident memory since [`Self::forget_peak`].
    pub(crate) fn peak(&self) -> Option<u64> {
        self.status("VmHWM:")
    }

    /// Begins anew with the peak; says whether that was allowed.
    pub(crate) fn forget_peak(&self) -> bool {
        fs::write(self.at.join("clear_refs"), "5").is_ok()
    }

    /// How many files it may open.
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
    fn a_process_that_is_not_there_is_told() {
        assert!(Process::of(u32::MAX).unwrap_err().to_string().contains("4294967295"));
    }
}
