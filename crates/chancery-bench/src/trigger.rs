//! The trigger, which makes the changes of a run in the server's configuration.
//!
//! The time of a change begins as late as the method allows; for a file, that is right before the
//! rename. Not here: when a change is made (`scenarios`), and the times until clients receive it
//! (`measurements`).

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use std::{fs, io};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::error::Error;
use super::measurements::Measurements;
use super::options::Change;

/// A trigger that is ready to make changes.
#[derive(Debug)]
pub(crate) struct Trigger {
    method: Method,
    timeout: Duration,
    /// The number of changes so far.
    changes: u64,
}

#[derive(Debug)]
enum Method {
    Tcp(BufReader<TcpStream>),
    Exec(String),
    File { path: PathBuf, template: String },
}

impl Trigger {
    /// Connects, or reads the template.
    ///
    /// # Errors
    /// The control port cannot be connected to, or the template cannot be read.
    pub(crate) async fn ready(change: &Change, timeout: Duration) -> Result<Self, Error> {
        let method = match change {
            Change::Tcp(address) => {
                let io = TcpStream::connect(address).await;
                let io = io
                    .and_then(|io| io.set_nodelay(true).map(|()| io))
                    .map_err(|source| Error::Trigger { address: address.clone(), source })?;
                Method::Tcp(BufReader::new(io))
            }
            Change::Exec(command) => Method::Exec(command.clone()),
            Change::File { path, template } => {
                let read = fs::read_to_string(template);
                let template = read.map_err(|source| Error::Template {
                    path: template.display().to_string(),
                    source,
                })?;
                Method::File { path: path.clone(), template }
            }
        };
        Ok(Self { method, timeout, changes: 0 })
    }

    /// Makes one change; the measurements note the moment at which it begins.
    ///
    /// # Errors
    /// The change could not be made, in words.
    pub(crate) async fn make_change(&mut self, measurements: &Measurements) -> Result<(), String> {
        self.changes += 1;
        let (timeout, round) = (self.timeout, self.changes);
        let pulled = match &mut self.method {
            Method::Tcp(io) => {
                tokio::time::timeout(timeout, change_over_tcp(io, measurements)).await
            }
            Method::Exec(command) => {
                tokio::time::timeout(timeout, execute(command, measurements)).await
            }
            Method::File { path, template } => Ok(replace(path, template, round, measurements)),
        };
        pulled.map_err(|_| format!("the trigger of round {round} did not end in time"))?
    }
}

async fn change_over_tcp(
    io: &mut BufReader<TcpStream>,
    measurements: &Measurements,
) -> Result<(), String> {
    let failed = |error| format!("the trigger's connection failed: {error}");
    measurements.start_change();
    io.write_all(b"change\n").await.map_err(failed)?;
    let mut answer = String::new();
    io.read_line(&mut answer).await.map_err(failed)?;
    match answer.trim_end() {
        "ok" => Ok(()),
        "" => Err("the trigger's connection was closed".to_owned()),
        other => Err(format!("the trigger answered `{other}` instead of `ok`")),
    }
}

async fn execute(command: &str, measurements: &Measurements) -> Result<(), String> {
    let mut shell = Command::new("sh");
    // The output of the command must not mix with our own, and the command must not live on when
    // it is not waited for any more.
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(io::stderr()).kill_on_drop(true);
    measurements.start_change();
    let ended = shell.status().await.map_err(|error| format!("cannot run `{command}`: {error}"))?;
    if !ended.success() {
        return Err(format!("the trigger `{command}` ended with {ended}"));
    }
    Ok(())
}

/// Replaces a file. All that is slow is done before the change begins, which is the rename.
fn replace(
    path: &Path,
    template: &str,
    round: u64,
    measurements: &Measurements,
) -> Result<(), String> {
    let fresh = beside(path)?;
    let write = || -> io::Result<()> {
        fs::write(&fresh, template.replace("{n}", &round.to_string()))?;
        measurements.start_change();
        fs::rename(&fresh, path)
    };
    write().map_err(|error| format!("cannot replace `{}`: {error}", path.display()))
}

/// The path of a hidden file with another ending, which is not read as configuration.
fn beside(path: &Path) -> Result<PathBuf, String> {
    let name = path.file_name().ok_or_else(|| format!("`{}` is no file", path.display()))?;
    Ok(path.with_file_name(format!(".{}.bench", name.to_string_lossy())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Readers;

    #[test]
    fn a_file_is_replaced_by_the_template_of_the_round() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        replace(&path, "round: {n}\n", 7, &Measurements::new(Readers::default(), 1, 1)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "round: 7\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
