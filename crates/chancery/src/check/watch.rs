//! `chancery check --watch`: checks again when the directory or `chancery.yaml` changes, and tells what is
//! new and what is gone.
//!
//! The directory is followed by the code of `serve`. A finding is the same one if a baseline would take it
//! for the same, so one whose line has moved is no news. Not here: the check itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use chancery_core::printable::{PrintForm, printable};
use chancery_sources::{Directory, Following};
use tokio::runtime;
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::{MissedTickBehavior, interval};

use super::baseline::Entry;
use super::codes::Severity;
use super::finding::Finding;
use super::findings::Findings;
use super::load::LoadedDirectory;
use super::options::CheckArgs;
use super::output;
use super::reports::sentence;
use crate::config::FileContent;
use crate::exit::Failure;
use crate::serve::Signals;
use crate::stdout;

/// Checks until a signal ends it. The end is that of the last check.
pub(super) fn run(
    flags: &CheckArgs,
    check: impl FnMut() -> Result<Findings, Failure>,
) -> Result<(), Failure> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start").map_err(Failure::broken)?;
    runtime.block_on(follow(flags, check))
}

async fn follow(
    flags: &CheckArgs,
    mut check: impl FnMut() -> Result<Findings, Failure>,
) -> Result<(), Failure> {
    let mut signals =
        Signals::new().context("cannot listen to signals").map_err(Failure::broken)?;
    let (_following, mut changes) = following(flags)?;
    let mut config = FileContent::read(&flags.dir);
    let mut looks = interval(CONFIG_LOOKS);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = check()?;
    let mut failed = String::new();
    stdout::write(output::text(flags.output, &last).as_bytes())?;
    loop {
        tokio::select! {
            () = signals.stop() => return output::verdict(&last),
            Some(()) = changes.recv() => {}
            _ = looks.tick() => {
                let now = FileContent::read(&flags.dir);
                if now == config {
                    continue;
                }
                config = now;
            }
        }
        match check() {
            Ok(now) => {
                let news = news(flags, &last, &now);
                stdout::write(printable(&news, PrintForm::Lines).as_bytes())?;
                (last, failed) = (now, String::new());
            }
            // It may be that somebody puts another directory there.
            Err(failure) if failure.to_string() != failed => {
                failed = failure.to_string();
                stdout::write(format!("{}\n", printable(&failed, PrintForm::Line)).as_bytes())?;
            }
            Err(_) => {}
        }
    }
}

/// Follows the directory, whatever is wrong with it. A message comes for each change.
fn following(flags: &CheckArgs) -> Result<(Following, Receiver<()>), Failure> {
    let (source, schema) = LoadedDirectory::source(&flags.resources.of_serve(&flags.dir))?;
    let directory = Directory::new(source, schema);
    // One message that waits is as good as many.
    let (sender, changes) = mpsc::channel(1);
    let following = directory.follow(move |_| {
        let _ = sender.try_send(());
    });
    Ok((following.context("cannot follow the directory").map_err(Failure::broken)?, changes))
}

/// The findings that are new, and those that are gone, with the counts; nothing if nothing is another.
fn news(flags: &CheckArgs, last: &Findings, now: &Findings) -> String {
    let mut known: BTreeMap<Entry, Vec<&Finding>> = BTreeMap::new();
    for finding in &last.all {
        known.entry(Entry::new(finding, &flags.dir)).or_default().push(finding);
    }
    let mut text = String::new();
    for finding in &now.all {
        let before = known.get_mut(&Entry::new(finding, &flags.dir)).and_then(Vec::pop);
        if before.is_none_or(|before| before.severity != finding.severity) {
            let _ = writeln!(text, "{}", finding.rendered());
        }
    }
    for gone in known.into_values().flatten() {
        let file = gone.file.as_deref().map(|file| format!("{file}: ")).unwrap_or_default();
        let _ = writeln!(text, "gone[{}]: {file}{}\n", gone.code, sentence(gone));
    }
    if text.is_empty() && last.count(Severity::Error) == now.count(Severity::Error) {
        return text;
    }
    text + &output::counts(now)
}

/// The time between two looks at `chancery.yaml`.
const CONFIG_LOOKS: Duration = Duration::from_millis(500);
