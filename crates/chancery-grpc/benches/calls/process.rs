//! Processes of the bench, and what one of them has used.

use std::ffi::OsStr;
use std::process::Command;

use crate::Result;

/// This program with other words.
pub(crate) fn own(words: &[&str]) -> Result<Command> {
    let mut command = bounded(std::env::current_exe()?);
    command.args(words);
    Ok(command)
}

/// A program with room for many connections, which ends after five minutes if it has not before: all wait for it.
pub(crate) fn bounded(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 8192 || exit 1; exec timeout 300 \"$@\"", "sh"]);
    command.arg(program);
    command
}

/// The CPU time of this process in seconds.
pub(crate) fn cpu() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let fields = text.rsplit_once(')').ok_or("no stat")?.1;
    let field = |at: usize| fields.split_whitespace().nth(at).and_then(|it| it.parse::<f64>().ok());
    Ok((field(11).unwrap_or_default() + field(12).unwrap_or_default()) / 100.0)
}

/// The memory of this process in bytes.
pub(crate) fn memory() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024.0)
}
