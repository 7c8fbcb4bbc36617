//! The growth of what a message costs with its size: no faster than n log n, for each kind of message
//! that a client can send.
//!
//! ```text
//!   chancery-proto/benches/message_growth.rs KIND SIZE 0 or 1     under valgrind, for three sizes
//!   (sent - prepared)                    what the message takes, for n, 2n and 4n
//!   (4n - 2n) / (2n - n)                 2 if it is linear, 4 if it is a square; what is fixed falls out
//! ```
//!
//! A message that costs the square of its size lets one client stop all others, and no limit of bytes
//! helps against that. Not here: what messages of a usual size cost (`counts`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Result, bail};

use crate::instructions::CountedProgram;

/// The sizes of a message: each twice the one before.
const SIZES: Sizes = [500, 1000, 2000];
/// The sizes of messages that seem to grow too fast. A step of the allocator, as when it puts freed
/// pieces together, is at one size; a square is at all of them.
const LARGER_SIZES: Sizes = [3000, 6000, 12000];
/// The most that the second doubling may add, in percent of what the first one adds. With n log n it
/// is 220.
const MOST_GROWTH: u64 = 270;
/// The number of instructions that a doubling may add in any case: they are the noise of allocation.
const NOISE: u64 = 50_000;

type Sizes = [u64; 3];

/// The instructions of a message, for each size.
type MessageCosts = [u64; 3];

/// Counts the instructions of all kinds of messages, and fails if some grow too fast.
pub(crate) fn growth(root: &Path) -> Result<()> {
    let program = CountedProgram::build(root, "chancery-proto", "message_growth")?;
    let kinds = program.names()?;
    let costs = count_all(&program, &kinds)?;
    let [one, two, four] = SIZES;
    println!("{:<34} {one:>12} {two:>12} {four:>12} growth", "kind of message");
    for (kind, costs) in kinds.iter().zip(&costs) {
        let [one, two, four] = costs;
        println!("{kind:<34} {one:>12} {two:>12} {four:>12} {:>4} %", growth_of(costs));
    }
    let faults = kinds.iter().zip(&costs).filter(|(_, costs)| grows_too_fast(costs));
    let faults: Vec<_> = faults.map(|(kind, _)| format!("`{kind}`")).collect();
    if !faults.is_empty() {
        bail!("what these messages cost grows faster than n log n: {}", faults.join(", "));
    }
    Ok(())
}

/// Counts the instructions of all kinds, on all cores.
fn count_all(program: &CountedProgram, kinds: &[String]) -> Result<Vec<MessageCosts>> {
    let next = AtomicUsize::new(0);
    let count_some = || {
        let next = || kinds.get(next.fetch_add(1, Ordering::Relaxed));
        let kinds = std::iter::from_fn(next);
        kinds.map(|kind| Ok((kind, count(program, kind)?))).collect::<Result<Vec<_>>>()
    };
    let counted = thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(count_some)).collect();
        let joined = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
        joined.collect::<Result<Vec<_>>>()
    })?;
    let counted: BTreeMap<_, _> = counted.into_iter().flatten().collect();
    Ok(kinds.iter().filter_map(|kind| counted.get(kind)).copied().collect())
}

/// Counts the instructions of a kind; if they seem to grow too fast, with larger sizes.
fn count(program: &CountedProgram, kind: &str) -> Result<MessageCosts> {
    let costs = count_sizes(program, kind, SIZES)?;
    if grows_too_fast(&costs) { count_sizes(program, kind, LARGER_SIZES) } else { Ok(costs) }
}

fn count_sizes(program: &CountedProgram, kind: &str, sizes: Sizes) -> Result<MessageCosts> {
    let mut costs = [0; 3];
    for (cost, size) in costs.iter_mut().zip(sizes) {
        let run = |times: &str| program.instructions(&[kind, &size.to_string(), times]);
        *cost = run("1")?.saturating_sub(run("0")?);
    }
    Ok(costs)
}

/// The growth by the second doubling, in percent of that by the first one.
fn growth_of([one, two, four]: &MessageCosts) -> u64 {
    four.saturating_sub(*two) * 100 / two.saturating_sub(*one).max(1)
}

fn grows_too_fast(costs: &MessageCosts) -> bool {
    costs[2].saturating_sub(costs[1]) > NOISE && growth_of(costs) > MOST_GROWTH
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The costs of a message that takes `of` a size, and a fixed part.
    fn costs(of: fn(f64) -> f64) -> MessageCosts {
        SIZES.map(|size| 1_000_000 + of(size as f64) as u64)
    }

    #[test]
    fn what_is_linear_or_has_a_logarithm_may_grow_and_a_square_may_not() {
        assert!(!grows_too_fast(&costs(|size| 1000.0 * size)));
        assert!(!grows_too_fast(&costs(|size| 1000.0 * size * size.log2())));
        assert!(grows_too_fast(&costs(|size| size * size)));
        assert!(grows_too_fast(&costs(|size| 1000.0 * size.powf(1.5))));
    }

    #[test]
    fn noise_is_no_growth() {
        assert!(!grows_too_fast(&[1_000_000, 1_000_000, 1_040_000]));
    }
}
