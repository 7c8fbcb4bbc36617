//! One attack: what is done to which server, and what must hold.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Error, Result, anyhow};
use tokio_rustls::TlsConnector;

use crate::innocent::{Innocents, Known, Waits};
use crate::memory::Sampler;
use crate::setup::Setup;
use crate::stage::{Circumstances, Stage};
use crate::wire::tls::{LONG, authority};

/// The longest that an innocent client may wait, where times are judged.
pub(crate) const LONGEST: Duration = Duration::from_secs(1);

/// The longest that an attack goes on.
const MOST: Duration = Duration::from_secs(120);

/// An attack under way; it says how the attacker was answered, or what does not hold.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = Result<String>> + 'a>>;

/// An attack.
#[derive(Clone, Copy)]
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// One sentence that says what the attacker does, and to what end.
    pub(crate) about: &'static str,
    /// Makes the directory and the flags of the server.
    pub(crate) setup: fn(&mut Setup),
    pub(crate) run: for<'a> fn(&'a Stage) -> Running<'a>,
    /// The megabytes that the server may use more than before the attack.
    pub(crate) growth: u64,
    /// True if it is a part of CI.
    pub(crate) in_ci: bool,
}

/// The outcome of an attack.
pub(crate) struct Outcome {
    pub(crate) name: &'static str,
    /// The reasons why it was not held.
    pub(crate) faults: Vec<String>,
    /// The answer that the attacker had.
    pub(crate) answer: String,
    pub(crate) waits: BTreeMap<&'static str, Waits>,
    /// Memory before the attack and at its peak.
    pub(crate) before: u64,
    pub(crate) peak: u64,
    pub(crate) took: Duration,
    pub(crate) has_cgroup: bool,
}

impl Outcome {
    /// The kind of question that waited longest, and its longest wait.
    pub(crate) fn longest(&self) -> Option<(&'static str, Duration)> {
        let each = self.waits.iter().map(|(kind, waits)| (*kind, waits.longest()));
        each.max_by_key(|(_, wait)| *wait)
    }
}

/// Makes one attack.
pub(crate) fn make(attack: &Attack, circumstances: &Circumstances) -> Result<Outcome> {
    let begin = Instant::now();
    let mut setup = Setup::new(circumstances.is_bounded);
    (attack.setup)(&mut setup);
    let (asks_large, edits, is_alone) = (setup.asks_large, !setup.edits_wait, setup.is_alone);
    let tls = setup.speaks_tls.then(client_of_ours).transpose()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let stage = Stage::start(circumstances, setup)?;
    let dir = stage.dir().to_path_buf();
    let known = Known { xds: stage.xds(), admin: stage.admin(), dir, asks_large, edits, tls };
    let begun = match is_alone {
        true => Ok(None),
        false => runtime
            .block_on(stage.is_ready())
            .and_then(|()| Innocents::start(known, Arc::clone(&stage.served)).map(Some)),
    };
    let innocents = match begun {
        Ok(innocents) => innocents,
        Err(fault) => return Ok(not_begun(attack, &stage, begin, &fault)),
    };
    let sampler = Sampler::start(stage.pid());
    let before = stage.rss();
    let from = Instant::now();
    let answer = runtime.block_on(async {
        let made = tokio::time::timeout(MOST, (attack.run)(&stage)).await;
        made.unwrap_or_else(|_| Err(anyhow!("the attack has not ended in {MOST:?}")))
    });
    let (half, to) = (from + from.elapsed() / 2, Instant::now());
    let is_gone = stage.ended().is_some();
    let waits = innocents.map(|them| them.stop(is_gone)).transpose()?.unwrap_or_default();
    let peak = sampler.peak().max(before);
    let mut faults = Vec::new();
    match stage.ended().filter(|_| !is_alone) {
        Some(status) => faults.push(format!("the process ended with {status}")),
        None if circumstances.is_bounded => faults.extend(shut_out(&waits, half, to)),
        None => faults.extend(too_long(&waits)),
    }
    if peak > circumstances.memory {
        let (peak, most) = (peak >> 20, circumstances.memory >> 20);
        faults.push(format!("it had {peak} MB, and {most} are the bound"));
    }
    let growth = peak.saturating_sub(before) >> 20;
    if growth > attack.growth {
        faults.push(format!("it grew by {growth} MB, and {} are allowed", attack.growth));
    }
    let answer = answer.unwrap_or_else(|fault| {
        faults.push(format!("{fault:#}"));
        String::new()
    });
    runtime.shutdown_background();
    let has_cgroup = stage.has_cgroup();
    let took = begin.elapsed();
    Ok(Outcome { name: attack.name, faults, answer, waits, before, peak, took, has_cgroup })
}

/// The outcome of an attack on a server that serves nobody before it.
fn not_begun(attack: &Attack, stage: &Stage, begin: Instant, fault: &Error) -> Outcome {
    Outcome {
        name: attack.name,
        faults: vec![format!("before the attack: {fault:#}")],
        answer: String::new(),
        waits: BTreeMap::new(),
        before: 0,
        peak: 0,
        took: begin.elapsed(),
        has_cgroup: stage.has_cgroup(),
    }
}

/// The way of a client with a certificate of our authority.
fn client_of_ours() -> Result<TlsConnector> {
    let ours = authority()?;
    ours.client(Some(&ours.sign(LONG)?))
}

/// The questions of innocent clients that wait too long, or are not answered.
fn too_long(waits: &BTreeMap<&'static str, Waits>) -> Vec<String> {
    let mut faults = unanswered(waits);
    for (kind, waits) in waits {
        if waits.unanswered == 0 && waits.longest() > LONGEST {
            faults.push(format!("`{kind}` waited {:.1} s", waits.longest().as_secs_f64()));
        }
    }
    faults
}

/// The time that a half of an attack takes at least, if there have to be answers in it. A shorter
/// attack asks for answers itself while it holds what it has (`Stage::serves_others`).
const HALF: Duration = Duration::from_secs(1);

/// The questions of innocent clients that had no answer in the second half of the attack, where no
/// time is judged. In the first half the attack may still be under preparation.
fn shut_out(waits: &BTreeMap<&'static str, Waits>, half: Instant, to: Instant) -> Vec<String> {
    let mut faults = unanswered(waits);
    for (kind, waits) in waits {
        if to - half >= HALF && waits.unanswered == 0 && !waits.is_answered(half, to) {
            faults.push(format!("no `{kind}` was answered in {:?}", to - half));
        }
    }
    faults
}

/// The questions of innocent clients that were refused, or not answered at all.
fn unanswered(waits: &BTreeMap<&'static str, Waits>) -> Vec<String> {
    let mut faults = Vec::new();
    for (kind, waits) in waits {
        if waits.unanswered > 0 {
            faults.push(format!("{} × `{kind}` unanswered", waits.unanswered));
        }
        if waits.refused > 0 {
            faults.push(format!("{} × `{kind}` refused: {}", waits.refused, waits.refusal));
        }
    }
    faults
}
