//! Attacks on the daemon: short programs that do what a hostile peer, file or pipe does.
//!
//! ```text
//!   attacks/*  a name, a server, the hostile program, what must hold
//!      |
//!      v
//!   attack --> stage: the process, its directory and log     innocent: clients that count waits
//!      |       memory: what the kernel counts                wire: HTTP, gRPC, TLS, raw frames
//!      v
//!   report   a table, or JSON             soak: mixed clients, random edits, a curve of memory
//! ```
//!
//! An attacker comes from 127.0.0.2 and innocent clients from 127.0.0.1, so they are different peers.
//! The memory and the time of an attack are bounded, and it uses nothing but loopback. Not here:
//! building the daemon, which is xtask's.

#![expect(clippy::print_stdout, reason = "a command line tool speaks on stdout")]
#![expect(clippy::print_stderr, reason = "and says what went wrong on stderr")]

mod attack;
mod attacks;
mod descriptors;
mod innocent;
mod log;
mod memory;
mod numbers;
mod options;
mod report;
mod setup;
mod soak;
mod stage;
mod wire;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Result, anyhow, bail};

use attack::{Attack, Outcome};
use options::{HELP, Options};

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("attack: {fault:#}");
            ExitCode::from(2)
        }
    }
}

/// The names of the attacks that the server does not hold yet, with a reason each.
const OPEN: &str = include_str!("../open.txt");

/// Returns true if an attack is known not to be held.
fn is_open(name: &str) -> bool {
    OPEN.lines().any(|line| line.split_whitespace().next() == Some(name))
}

/// Makes the attacks that were asked for; returns true if all are held.
fn run(options: &Options) -> Result<bool> {
    if options.helps {
        println!("{HELP}");
        return Ok(true);
    }
    if !options.lists {
        descriptors::raise()?;
    }
    if let Some(minutes) = options.soak {
        println!("{}", soak::soak(&options.circumstances, minutes)?);
        return Ok(true);
    }
    let is_bounded = options.circumstances.is_bounded;
    let is_due = |attack: &Attack| !is_bounded || (attack.in_ci && !is_open(attack.name));
    let wanted: Vec<_> =
        attacks::all().filter(|attack| options.wants(attack.name) && is_due(attack)).collect();
    if wanted.is_empty() {
        bail!("no attack has such a name; `--list` lists them");
    }
    if options.lists {
        for attack in wanted {
            let place = match (attack.in_ci, is_open(attack.name)) {
                (true, false) => "ci",
                (_, true) => "open",
                (false, false) => "",
            };
            println!("{:<26} {place:<4} {}", attack.name, attack.about);
        }
        return Ok(true);
    }
    if !options.prints_json {
        println!("{}", report::head());
    }
    let outcomes = make_all(&wanted, options)?;
    match options.prints_json {
        true => println!("{:#}", report::json(&outcomes)),
        false => println!("{}", report::summary(&outcomes)),
    }
    let late = match is_bounded {
        true => Vec::new(),
        false => report::too_late(&outcomes),
    };
    late.iter().for_each(|fault| eprintln!("attack: {fault}"));
    Ok(late.is_empty() && outcomes.iter().all(|outcome| outcome.faults.is_empty()))
}

/// Makes the attacks one after the other, or three at a time where no time is judged. Tells each
/// outcome when it is known.
fn make_all(wanted: &[Attack], options: &Options) -> Result<Vec<Outcome>> {
    let next = AtomicUsize::new(0);
    let jobs = if options.circumstances.is_bounded { 3 } else { 1 };
    let work = || -> Result<Vec<(usize, Outcome)>> {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(attack) = wanted.get(at) else { return Ok(done) };
            let outcome = attack::make(attack, &options.circumstances)?;
            match options.prints_json {
                true => eprintln!("{}", report::line(&outcome)),
                false => println!("{}", report::line(&outcome)),
            }
            done.push((at, outcome));
        }
    };
    let mut all = Vec::new();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            all.extend(worker.join().map_err(|_| anyhow!("an attack panicked"))??);
        }
        anyhow::Ok(())
    })?;
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, outcome)| outcome).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn open_attacks_are_attacks() {
        let names: BTreeSet<_> = attacks::all().map(|attack| attack.name).collect();
        assert_eq!(names.len(), attacks::all().count(), "a name twice");
        let lines = OPEN.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        for name in lines.filter_map(|line| line.split_whitespace().next()) {
            assert!(names.contains(name), "`open.txt` names `{name}`, which is no attack");
        }
    }
}
