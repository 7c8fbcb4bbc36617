//! Slips of careful operators on a fleet of real Envoys under load: none cuts traffic, none reaches another
//! node, and each is told with its place and what to do. And right changes, of which none is held.
//!
//! Each slip is an edit of the directory. When the log has told of it, requests have to go on through each
//! Envoy, answered as its node should; then the directory is what it was. Some Envoys start again meanwhile.

mod cases;
mod changes;
mod fleet;
mod load;
mod tree;

use self::changes::RightChange;
use self::fleet::Fleet;
use self::tree::Tree;
use crate::support::clients::clients;
use crate::support::wait;

/// A slip, and the words of the log that tell of it.
pub(super) struct Slip {
    name: &'static str,
    edit: fn(&Tree),
    /// Each in one of the lines.
    told: &'static [&'static str],
    /// True if nobody can tell it from a right change: it goes live, and is told.
    is_live: bool,
}

const fn slip(name: &'static str, edit: fn(&Tree), told: &'static [&'static str]) -> Slip {
    Slip { name, edit, told, is_live: false }
}

const fn live(name: &'static str, edit: fn(&Tree), told: &'static [&'static str]) -> Slip {
    Slip { name, edit, told, is_live: true }
}

/// The slips between two starts of an Envoy.
const UNTIL_RESTART: usize = 3;
/// The time within which a slip is told.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// Makes each slip, and returns what was not as it should be.
fn make(fleet: &mut Fleet, slips: &[Slip]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, slip) in slips.iter().enumerate() {
        let mark = fleet.chancery.mark();
        (slip.edit)(&fleet.tree);
        let is_told = |lines: &[String], words: &str| lines.iter().any(|line| line.contains(words));
        let told = wait::within(PATIENCE, || {
            let lines = fleet.chancery.said_since(mark);
            slip.told.iter().all(|words| is_told(&lines, words)).then_some(())
        });
        fleet.loads.iter().for_each(load::Load::goes_on);
        if number % UNTIL_RESTART == 0 && !slip.is_live {
            fleet.restart(number / UNTIL_RESTART % fleet.envoys.len());
        }
        let lines = fleet.chancery.said_since(mark);
        println!("--- {}", slip.name);
        lines.iter().for_each(|line| println!("{line}"));
        println!("ready: {}", fleet.chancery.page("/ready"));
        if told.is_none() {
            let missing = slip.told.iter().filter(|words| !is_told(&lines, words));
            wrong.push(format!("{}: not told: {:?}", slip.name, missing.collect::<Vec<_>>()));
        }
        fleet.restore();
        let failures = fleet.take_failures();
        if !slip.is_live {
            wrong.extend(failures.iter().map(|it| format!("{}: {it}", slip.name)));
        }
    }
    wrong
}

fn none_cuts_traffic(slips: &[Slip]) {
    let Some(clients) = clients() else { return };
    let mut fleet = Fleet::start(&clients);
    let wrong = make(&mut fleet, slips);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn slips_in_files_cut_no_traffic_and_are_told() {
    none_cuts_traffic(cases::FILES);
}

#[test]
fn slips_in_messages_cut_no_traffic_and_are_told() {
    none_cuts_traffic(cases::MESSAGES);
}

#[test]
fn slips_that_only_a_running_envoy_refuses_cut_no_traffic_and_are_told() {
    none_cuts_traffic(cases::IN_PLACE);
}

#[test]
fn slips_in_names_cut_no_traffic_and_are_told() {
    none_cuts_traffic(cases::NAMES);
}

#[test]
fn slips_like_right_changes_are_told() {
    none_cuts_traffic(cases::LIVE);
}

#[test]
fn slips_in_groups_cut_no_traffic_and_are_told() {
    none_cuts_traffic(cases::GROUPS);
}

/// Makes each right change, and waits until it has arrived.
fn none_is_held(changes: &[RightChange]) {
    let Some(clients) = clients() else { return };
    let mut fleet = Fleet::start(&clients);
    let mut wrong = Vec::new();
    for change in changes {
        let mark = fleet.chancery.mark();
        (change.make)(&fleet);
        let has_arrived = wait::within(PATIENCE, || (change.has_arrived)(&fleet).then_some(()));
        let (lines, ready) = (fleet.chancery.said_since(mark), fleet.chancery.page("/ready"));
        println!("--- {}", change.name);
        lines.iter().for_each(|line| println!("{line}"));
        let is_held =
            ready != "ready\n" || lines.iter().any(|line| line.contains("held back from"));
        if has_arrived.is_none() || is_held {
            let told = lines.join("\n");
            wrong.push(format!("{}: {has_arrived:?}, {ready}: {told}", change.name));
        }
        fleet.restore();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn right_changes_of_traffic_are_not_held() {
    none_is_held(changes::TRAFFIC);
}

#[test]
fn right_changes_of_files_and_groups_are_not_held() {
    none_is_held(changes::SHAPE);
}
