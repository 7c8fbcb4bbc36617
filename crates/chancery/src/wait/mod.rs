//! `chancery wait`: waits until a load has landed on nodes, for scripts that deploy.
//!
//! It asks the API of the server again and again, each time for a few seconds. Not here: what landed means
//! (docs/status.md), and who counts (`admin::status`).

mod options;
mod output;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use chancery_core::printable::Printable;

pub(crate) use self::options::WaitArgs;
use self::options::{Target, WaitFormat};
use crate::admin::{BUSY, TOO_EARLY, WAIT, WaitDocument, WaitOutcome};
use crate::admin_client::{AdminClient, Unanswered, encoded};
use crate::exit::Failure;
use crate::stdout;

/// Runs the command.
pub(crate) fn run(args: &WaitArgs) -> Result<(), Failure> {
    let client = args.admin.client()?;
    let waiting = Waiting { args, client, began: Instant::now() };
    let found = waiting.wait()?;
    let text = match args.output {
        WaitFormat::Text => output::text(&found),
        WaitFormat::Json => crate::admin::line(&found),
    };
    stdout::write(text.as_bytes())?;
    ended(&found, args)
}

/// A wait.
struct Waiting<'a> {
    args: &'a WaitArgs,
    client: AdminClient,
    began: Instant,
}

impl Waiting<'_> {
    /// The outcome, or how it stood when the time was over.
    fn wait(&self) -> Result<WaitDocument, Failure> {
        let mut target = match &self.args.target {
            Some(Target::File(path)) => Some(Target::File(absolute(path)?)),
            other => other.clone(),
        };
        let mut progress = Progress::default();
        let mut restart = Restart::default();
        loop {
            let left = self.args.timeout.0.saturating_sub(self.began.elapsed());
            let found = match self.ask(target.as_ref(), restart.least(), left)? {
                Answer::Found(found) => found,
                Answer::Busy if left.is_zero() => return Err(no_answer("too many others wait")),
                Answer::None(failure) if left.is_zero() || !restart.may_be_one(&failure) => {
                    return Err(failure);
                }
                answer => {
                    if matches!(answer, Answer::None(_)) {
                        progress.show("waiting for the server, which does not answer any more");
                        restart.begin();
                    }
                    thread::sleep(BUSY_TIME.min(left));
                    continue;
                }
            };
            restart.answered(&found);
            let is_newer = found.outcome == WaitOutcome::Superseded && self.args.latest;
            if is_newer && !left.is_zero() {
                target = None;
                continue;
            }
            if found.outcome != WaitOutcome::Waiting || left.is_zero() {
                progress.end();
                return Ok(found);
            }
            progress.show(&output::progress(&found));
            if let Some(load) = found.load.filter(|_| !self.args.latest) {
                target = Some(Target::Pinned(load, found.hash));
            }
        }
    }

    /// Asks once.
    fn ask(
        &self,
        target: Option<&Target>,
        least: Option<u64>,
        left: Duration,
    ) -> Result<Answer, Failure> {
        // A part of a second is a whole one: the end of the time is looked at by the clock of this side.
        let seconds = if left.is_zero() { 0 } else { left.as_secs().clamp(1, LONGEST) };
        let mut path = format!("{WAIT}?timeout={seconds}&limit={ROWS}");
        for group in &self.args.group {
            path += &format!("&group={}", encoded(group));
        }
        for node in &self.args.node {
            path += &format!("&node={}", encoded(node));
        }
        if let Some(count) = self.args.min_nodes.max(least) {
            path += &format!("&min_nodes={count}");
        }
        path += &match target {
            None => String::new(),
            Some(Target::Revision(number)) => format!("&revision={number}"),
            Some(Target::Pinned(number, hash)) => {
                let hash = hash.as_ref().map(|hash| format!("&hash={}", encoded(hash)));
                format!("&revision={number}{}", hash.unwrap_or_default())
            }
            Some(Target::Hash(hash)) => format!("&hash={}", encoded(hash)),
            Some(Target::File(path)) => format!("&file={}", encoded(&path.to_string_lossy())),
        };
        let reply = match self.client.get(&path) {
            Ok(reply) => reply,
            Err(failure) => return Ok(Answer::None(failure)),
        };
        match reply.error() {
            Some(error) if error.code == BUSY => Ok(Answer::Busy),
            Some(error) if error.code == TOO_EARLY => Ok(Answer::None(self.client.refused(&reply))),
            _ => self.client.document(&reply).map(Answer::Found),
        }
    }
}

/// The answer to one question.
enum Answer {
    Found(WaitDocument),
    /// Others have all the places of those who wait.
    Busy,
    /// The server cannot be asked, or has not loaded anything yet.
    None(Failure),
}

/// A restart of the server while the command waits. Nodes need a moment to come back after it, so as many
/// as counted before have to be there, for a time.
#[derive(Default)]
struct Restart {
    /// The number of nodes that counted in the last answer; `None` before the first one.
    counted: Option<u64>,
    /// The time at which the server was first missed, if it was.
    at: Option<Instant>,
}

impl Restart {
    /// Returns true if the server was there before. Otherwise the address may be wrong.
    fn may_be_one(&self, failure: &Failure) -> bool {
        self.counted.is_some() || self.at.is_some() || failure.is_by::<Unanswered>()
    }

    fn begin(&mut self) {
        self.at = Some(Instant::now());
    }

    fn answered(&mut self, found: &WaitDocument) {
        if self.least().is_none() {
            self.counted = u64::try_from(found.counted).ok();
        }
    }

    /// Returns the number of nodes that have to have the load because they were there before.
    fn least(&self) -> Option<u64> {
        let at = self.at?;
        let counted = self.counted?;
        // After that time some may be gone for good, and not all of them.
        Some(if at.elapsed() < RETURN_TIME { counted } else { counted.min(1) })
    }
}

/// The path of a file as the server, on the same machine, knows it.
fn absolute(path: &PathBuf) -> Result<PathBuf, Failure> {
    let shown = Printable(path.display()).to_string();
    let absolute = std::path::absolute(path)
        .map_err(|error| Failure::misuse(format!("`{shown}` is no path: {error}")))?;
    if absolute.to_str().is_none() {
        return Err(Failure::misuse(format!("`{shown}` is no UTF-8")));
    }
    Ok(absolute)
}

/// The end of the command: 0 if it has landed.
fn ended(found: &WaitDocument, args: &WaitArgs) -> Result<(), Failure> {
    let told = output::verdict(found);
    match found.outcome {
        WaitOutcome::Landed => Ok(()),
        WaitOutcome::Never => Err(Failure::negative(anyhow!(told))
            .hint("`chancery status NODE` shows what a node holds and rejected")),
        WaitOutcome::Superseded => {
            Err(Failure::negative(anyhow!(told)).hint("with `--latest`, the newest load counts"))
        }
        WaitOutcome::Refused => Err(Failure::negative(anyhow!(told))),
        WaitOutcome::Waiting => Err(no_answer(&format!("{told} within {}", args.timeout))),
    }
}

fn no_answer(told: &str) -> Failure {
    Failure::broken(anyhow!("{told}"))
}

/// A line on a terminal that says how it stands.
#[derive(Default)]
struct Progress {
    is_shown: bool,
}

impl Progress {
    fn show(&mut self, line: &str) {
        let mut stderr = io::stderr();
        if stderr.is_terminal() {
            // The rest of the line before is erased.
            write!(stderr, "\r{}\u{1b}[K", Printable(line)).ok();
            stderr.flush().ok();
            self.is_shown = true;
        }
    }

    fn end(&self) {
        if self.is_shown {
            write!(io::stderr(), "\r\u{1b}[K").ok();
        }
    }
}

/// The seconds that one question may take.
const LONGEST: u64 = 5;

/// The time to wait where others have all places.
const BUSY_TIME: Duration = Duration::from_secs(1);

/// The time in which nodes come back after a restart of the server.
const RETURN_TIME: Duration = Duration::from_secs(30);

/// The number of nodes that are named.
const ROWS: usize = 50;
