//! The readers of events of a daemon, in a process beside the driver that yields to it.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use anyhow::{Context, Result, bail};

use super::lab::words;
use super::server::{DRIVER_CORE, bound};

/// Readers that are connected.
pub(crate) struct Readers {
    child: Child,
    says: BufReader<ChildStdout>,
}

/// The numbers of all readers together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReadEvents {
    pub(crate) events: u64,
    pub(crate) missed: u64,
}

impl Readers {
    /// Connects that many.
    pub(crate) fn start(program: &Path, admin: SocketAddr, readers: u32) -> Result<Self> {
        let mut all = vec!["19".to_owned(), program.display().to_string()];
        all.extend(words(&format!("--admin {admin} --readers {readers}")));
        all.insert(0, "-n".to_owned());
        let mut command = bound(DRIVER_CORE, Path::new("nice"), &all);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let says = BufReader::new(child.stdout.take().context("it was asked for")?);
        let mut readers = Self { child, says };
        let mut line = String::new();
        readers.says.read_line(&mut line)?;
        match line.starts_with("ready ") {
            true => Ok(readers),
            false => bail!("the readers of events did not begin: `{}`", line.trim()),
        }
    }

    /// Ends them, and returns what they saw.
    pub(crate) fn end(mut self) -> Result<ReadEvents> {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.says.read_to_string(&mut text)?;
        read(&text).with_context(|| format!("the readers of events said `{}`", text.trim()))
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        // They may have ended already, and nothing can be done if they cannot be killed.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn read(text: &str) -> Option<ReadEvents> {
    let of = |key| text.split_whitespace().find_map(|word| word.strip_prefix(key)?.parse().ok());
    Some(ReadEvents { events: of("events=")?, missed: of("missed=")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_readers_say_is_read() {
        let found = ReadEvents { events: 12, missed: 3 };
        assert_eq!(read("events=12 missed=3\n"), Some(found));
        assert_eq!(read("events=12"), None);
    }
}
