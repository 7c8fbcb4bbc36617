//! The comparisons: the runs of each, and the goals that its figures decide.

mod audiences;
mod calls;
mod changes;
mod channels;
mod cold;
mod events;
mod fan_out;
mod files;
mod guard;
mod latency;
mod load_reports;
mod memory;
mod reconnect;
mod start;
mod status;
mod streams;
mod whole_state;

use anyhow::Result;

use super::figures::{Comparison, Figure, Series};
use super::lab::Lab;
use super::side::Side;

/// The function that makes a comparison.
pub(crate) type Compare = fn(&Lab) -> Result<Comparison>;

/// Every comparison, with the goals it decides.
pub(crate) const COMPARISONS: [(&[&str], Compare); 21] = [
    (&["G1", "G2"], fan_out::compare),
    (&["G3", "G4", "G5"], whole_state::compare),
    (&["G6", "G7"], memory::idle),
    (&["G8"], memory::names),
    (&["G9", "G10"], changes::compare),
    (&["G11"], streams::compare),
    (&["G12"], latency::after_idle),
    (&["G13"], cold::compare),
    (&["G14"], files::compare),
    (&["G15"], reconnect::compare),
    (&["G16"], latency::stalled),
    (&["G17"], start::compare),
    (&["G18"], audiences::compare),
    (&["G19"], guard::compare),
    (&["G20"], status::compare),
    (&["G21"], events::compare),
    (&["G22"], load_reports::compare),
    (&["G23"], calls::compare),
    (&["G24"], channels::memory),
    (&["G25"], channels::updates),
    // Decides none.
    (&[], whole_state::small),
];

const CPU_PER_MESSAGE: Figure = Figure { name: "cpu_us_per_message", unit: "µs", per: 1.0 };
const CPU: Figure = Figure { name: "cpu_s", unit: "s", per: 1.0 };
const PEAK: Figure = Figure { name: "rss_peak", unit: "MB", per: 1e6 };

/// The index of the side with the smaller median: of two variants of a server, the better counts.
fn better(all: &[Series], among: &[usize], of: Figure) -> usize {
    let median = |index: usize| all[index].median(of).unwrap_or(f64::INFINITY);
    let better = |one: &&usize, other: &&usize| median(**one).total_cmp(&median(**other));
    among.iter().min_by(better).copied().unwrap_or(0)
}

/// Both caches of go-control-plane, if a goal was asked for that needs both.
fn go(lab: &Lab, goals: &[&str]) -> &'static [Side] {
    if lab.wants(goals) { &[Side::GoSnapshot, Side::GoLinear] } else { &[] }
}
