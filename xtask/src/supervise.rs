//! The supervision of a program that CI runs and that may hang: its output is passed on, and a long
//! silence ends it.
//!
//! The processes that the program started are ended with it, as far as `/proc` shows which process
//! started which. A process group of its own would be simpler, but Ctrl-C and a bound on the whole
//! run would not reach it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The time that a program may take, and the time that it may be silent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) silence: Duration,
    pub(crate) whole: Duration,
}

/// The bounds for a step of CI: more than any step takes on two busy cores.
pub(crate) const BOUNDS: Bounds =
    Bounds { silence: Duration::from_secs(10 * 60), whole: Duration::from_secs(90 * 60) };

/// The output that a line was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputStream {
    Stdout,
    Stderr,
}

/// The pause between two checks for the end of a program without piped output.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs a program to its end, and passes each line to `hear`, the beginning of a last line too.
/// Returns an error if the program exceeds a bound; then it is killed, and all that it started.
pub(crate) fn run_with_lines(
    command: &mut Command,
    bounds: Bounds,
    mut hear: impl FnMut(OutputStream, &str),
) -> Result<ExitStatus> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| shown(command))?;
    let said = listen(&mut child);
    let mut begun = [String::new(), String::new()];
    let fault = loop {
        let left = bounds.whole.saturating_sub(start.elapsed()).min(bounds.silence);
        match said.recv_timeout(left) {
            Ok((from, chunk)) => {
                pass_on(from, &chunk)?;
                let begun = &mut begun[usize::from(from == OutputStream::Stderr)];
                begun.push_str(&String::from_utf8_lossy(&chunk));
                while let Some((line, rest)) = begun.split_once('\n') {
                    hear(from, line);
                    *begun = rest.to_owned();
                }
            }
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) if start.elapsed() >= bounds.whole => {
                break Some(format!("has not ended in {:?}", bounds.whole));
            }
            Err(RecvTimeoutError::Timeout) => {
                break Some(format!("has said nothing for {:?}", bounds.silence));
            }
        }
    };
    for (from, begun) in [OutputStream::Stdout, OutputStream::Stderr].into_iter().zip(&begun) {
        if !begun.is_empty() {
            hear(from, begun);
        }
    }
    match fault {
        None => wait(&mut child, command, bounds.silence),
        Some(fault) => {
            kill(&mut child);
            let rest = if is_closed(&said) { "" } else { "; something that it started lives on" };
            bail!("`{}` {fault}{rest}", shown(command))
        }
    }
}

/// Runs a program to its end, within bounds, and collects its output.
pub(crate) fn collect(command: &mut Command) -> Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn()?;
    let said = listen(&mut child);
    let mut outputs = [Vec::new(), Vec::new()];
    loop {
        match said.recv_timeout(BOUNDS.whole.saturating_sub(start.elapsed())) {
            Ok((from, chunk)) => outputs[usize::from(from == OutputStream::Stderr)].extend(chunk),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                kill(&mut child);
                bail!("`{}` has not ended in {:?}", shown(command), BOUNDS.whole);
            }
        }
    }
    let [stdout, stderr] = outputs;
    Ok(Output { status: wait(&mut child, command, BOUNDS.silence)?, stdout, stderr })
}

/// Waits for the end of a program whose output is not piped.
pub(crate) fn wait(child: &mut Child, command: &Command, bound: Duration) -> Result<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().with_context(|| shown(command))? {
            return Ok(status);
        }
        if start.elapsed() >= bound {
            kill(child);
            bail!("`{}` has not ended in {bound:?}", shown(command));
        }
        thread::park_timeout(PAUSE);
    }
}

/// Kills a program and all processes it started.
fn kill(child: &mut Child) {
    let started = descendants(child.id(), &parents());
    child.kill().ok();
    child.wait().ok();
    for id in started {
        let id = id.to_string();
        Command::new("kill").args(["-KILL", &id]).stderr(Stdio::null()).status().ok();
    }
}

/// Every process with its parent; empty if there is no `/proc`.
fn parents() -> BTreeMap<u32, u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // `1 (name) state parent …`, where the name may hold anything.
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((id, parent))
        })
        .collect()
}

fn descendants(of: u32, parents: &BTreeMap<u32, u32>) -> Vec<u32> {
    let children = parents.iter().filter(|(_, parent)| **parent == of);
    children.flat_map(|(id, _)| [vec![*id], descendants(*id, parents)].concat()).collect()
}

/// Waits until both outputs are closed, for at most ten seconds, and returns true if they are. They
/// close at once if all processes are dead.
fn is_closed(said: &Receiver<(OutputStream, Vec<u8>)>) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match said.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(_) => {}
            Err(fault) => return fault == RecvTimeoutError::Disconnected,
        }
    }
}

/// The lines of both outputs of the program, as they come, until both are closed.
fn listen(child: &mut Child) -> Receiver<(OutputStream, Vec<u8>)> {
    let (send, said) = sync_channel(16);
    let stdout = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    let stderr = child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    for (from, pipe) in [(OutputStream::Stdout, stdout), (OutputStream::Stderr, stderr)] {
        let send = send.clone();
        // It ends when the output is closed, or with its next chunk after nobody listens any more.
        thread::spawn(move || pipe.map(|pipe| read(pipe, from, &send)));
    }
    said
}

fn read(
    mut pipe: Box<dyn Read + Send>,
    from: OutputStream,
    send: &SyncSender<(OutputStream, Vec<u8>)>,
) {
    let mut chunk = [0; 4096];
    loop {
        let size = match pipe.read(&mut chunk) {
            Err(fault) if fault.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => return,
            Ok(size) => size,
        };
        if send.send((from, chunk[..size].to_vec())).is_err() {
            return;
        }
    }
}

fn pass_on(from: OutputStream, chunk: &[u8]) -> io::Result<()> {
    match from {
        OutputStream::Stdout => {
            io::stdout().write_all(chunk)?;
            io::stdout().flush()
        }
        OutputStream::Stderr => io::stderr().write_all(chunk),
    }
}

/// The command line of a program, for messages.
pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a script for at most so long; what it said, and how it ended.
    fn run_script(script: &str, bounds: Bounds) -> (Vec<String>, Result<ExitStatus>) {
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let ended = run_with_lines(&mut command, bounds, |_, line| lines.push(line.to_owned()));
        (lines, ended)
    }

    const QUICK: Bounds = Bounds { silence: Duration::from_secs(3), ..BOUNDS };

    #[test]
    fn every_line_is_heard_and_the_status_told() {
        let (mut lines, ended) = run_script("echo one; echo two >&2; printf three; exit 3", BOUNDS);
        lines.sort();
        assert_eq!(lines, ["one", "three", "two"]);
        assert_eq!(ended.unwrap().code(), Some(3));
    }

    #[test]
    fn silence_ends_a_program_and_all_it_started() {
        let (lines, ended) =
            run_script("echo begun; sh -c 'sleep 600; :' & printf 'test it ... '; wait", QUICK);
        assert_eq!(lines, ["begun", "test it ... "]);
        let fault = ended.unwrap_err().to_string();
        assert!(fault.ends_with("has said nothing for 3s"), "{fault}");
    }

    #[test]
    fn descendants_are_found_at_any_depth() {
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 3), (5, 1), (6, 3)]);
        assert_eq!(descendants(2, &parents), [3, 4, 6]);
        assert_eq!(descendants(5, &parents), [0; 0]);
    }

    #[test]
    fn a_program_that_never_ends_is_ended() {
        let bounds = Bounds { whole: Duration::from_secs(1), ..BOUNDS };
        let (lines, ended) = run_script("while :; do echo again; sleep 0.05; done", bounds);
        assert!(lines.iter().all(|line| line == "again"), "{lines:?}");
        let fault = ended.unwrap_err().to_string();
        assert!(fault.contains("has not ended in 1s"), "{fault}");
    }

    #[test]
    fn outputs_are_collected_apart() {
        let mut command = Command::new("sh");
        let output = collect(command.args(["-c", "echo one; echo two >&2; exit 3"])).unwrap();
        assert_eq!((&*output.stdout, &*output.stderr), (&b"one\n"[..], &b"two\n"[..]));
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn a_quiet_program_is_waited_for_up_to_a_bound() {
        let mut command = Command::new("sleep");
        command.arg("600");
        let mut child = command.spawn().unwrap();
        let fault = wait(&mut child, &command, Duration::from_millis(200)).unwrap_err().to_string();
        assert_eq!(fault, "`sleep 600` has not ended in 200ms");
        assert!(!child.wait().unwrap().success(), "it was killed");
    }
}
