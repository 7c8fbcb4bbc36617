//! The descriptors of this program: attacks hold thousands of connections, and a low limit would make
//! them attacks of a few.

use anyhow::{Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The number of descriptors that the attacks need, two of them at the same time.
const NEEDED: u64 = 16_384;

/// Raises the limit as far as it may be, and fails if that is too low.
pub(crate) fn raise() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    // No maximum means that there is no limit.
    let most = limit.maximum.unwrap_or(u64::MAX);
    ensure!(
        most >= NEEDED,
        "the attacks need {NEEDED} open files, and {most} are allowed: raise `ulimit -Hn`"
    );
    Ok(())
}
