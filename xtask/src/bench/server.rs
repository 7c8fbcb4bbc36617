//! One server under test, which runs on the first core and says its addresses.
//!
//! The server is killed when this value is dropped. If `setpriv` is installed, the kernel kills it
//! when this process ends in any other way. Ctrl-C reaches the whole process group by itself.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

/// The core of the server, and the one of the driver.
pub(crate) const SERVER_CORE: usize = 0;
pub(crate) const DRIVER_CORE: usize = 1;

/// A running server.
pub(crate) struct ServerProcess {
    child: Child,
    /// The address for clients.
    pub(crate) xds: String,
    /// The address for the commands to publish; empty if the server takes none.
    pub(crate) control: String,
    /// The payload of a change in bytes, if the server knows it.
    pub(crate) payload: Option<u64>,
}

impl ServerProcess {
    /// Starts a server that prints `ready …` when it serves.
    pub(crate) fn start(program: &Path, words: &[String]) -> Result<Self> {
        let mut command = bound(SERVER_CORE, program, words);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("it was asked for")?;
        let mut server = Self { child, xds: String::new(), control: String::new(), payload: None };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let Some(addresses) = line.strip_prefix("ready ") else {
            bail!("`{}` did not start: `{}`", program.display(), line.trim());
        };
        for (key, value) in addresses.split_whitespace().filter_map(|word| word.split_once('=')) {
            match key {
                "xds" => server.xds = value.to_owned(),
                "control" => server.control = value.to_owned(),
                "payload" => server.payload = value.parse().ok(),
                _ => {}
            }
        }
        Ok(server)
    }

    /// Starts a server that prints nothing.
    pub(crate) fn silent(program: &Path, words: &[String], xds: String) -> Result<Self> {
        let mut command = bound(SERVER_CORE, program, words);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { child: child.spawn()?, xds, control: String::new(), payload: None })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if the server ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended already, and nothing can be done if it cannot be killed.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The command for a program on one core, with the largest number of open files, which the kernel
/// ends together with this process.
pub(crate) fn bound(core: usize, program: &Path, words: &[String]) -> Command {
    let mut command = if Path::new("/usr/bin/setpriv").exists() {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--pdeathsig", "KILL", "sh"]);
        setpriv
    } else {
        Command::new("sh")
    };
    let script = "ulimit -n \"$(ulimit -Hn)\"; exec taskset -c \"$@\"";
    command.args(["-c", script, "sh", &core.to_string()]).arg(program).args(words);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<ServerProcess> {
        ServerProcess::start(Path::new("sh"), &["-c".to_owned(), script.to_owned()])
    }

    #[test]
    fn a_server_tells_its_addresses() {
        let server =
            shell("echo ready xds=127.0.0.1:1 control=127.0.0.1:2 payload=3; exec cat").unwrap();
        assert_eq!((server.xds.as_str(), server.control.as_str()), ("127.0.0.1:1", "127.0.0.1:2"));
        assert_eq!(server.payload, Some(3));
    }

    #[test]
    fn a_server_that_does_not_start_is_told() {
        let Err(fault) = shell("echo no such flag") else { panic!("it started") };
        assert_eq!(fault.to_string(), "`sh` did not start: `no such flag`");
    }
}
