//! File descriptors: each connection is one, and some are kept for files and the admin interface.
//!
//! Most systems start a process with a soft limit of 1,024, because some old programs cannot take
//! more, and let it raise that to a hard limit. A server that has none left can neither answer a
//! probe nor read its directory, so connections take no more than all but the reserve.

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::admin::MAX_CONNECTIONS;

/// The number of descriptors that are kept for files, watches, listeners and the admin interface.
const RESERVE: u64 = 256;

/// Raises the soft limit to the hard limit. It stays as it is where the system does not allow that.
pub(super) fn raise() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit).ok();
    }
}

/// The number of connections for which there are descriptors; `None` if there is no limit.
pub(super) fn connections() -> Option<usize> {
    let descriptors = getrlimit(Resource::Nofile).current?;
    usize::try_from(beside_reserve(descriptors)).ok()
}

/// The number of connections that are taken where `wanted` are configured and `possible` have a
/// descriptor.
pub(super) fn taken(wanted: usize, possible: Option<usize>) -> usize {
    possible.map_or(wanted, |possible| wanted.min(possible))
}

/// The number of connections of the admin interface: so few that files find descriptors too.
pub(super) fn for_admin() -> usize {
    getrlimit(Resource::Nofile).current.map_or(MAX_CONNECTIONS, of_reserve)
}

/// A small limit is shared by halves.
fn beside_reserve(descriptors: u64) -> u64 {
    descriptors.saturating_sub(RESERVE).max(descriptors / 2).max(1)
}

/// The admin interface has a quarter of what connections leave.
fn of_reserve(descriptors: u64) -> usize {
    let reserve = descriptors.saturating_sub(beside_reserve(descriptors));
    usize::try_from(reserve / 4).unwrap_or(usize::MAX).clamp(1, MAX_CONNECTIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_rest() {
        assert_eq!(beside_reserve(1_024), 768);
        assert_eq!(beside_reserve(400), 200);
        assert_eq!(beside_reserve(0), 1);
    }

    #[test]
    fn the_admin_interface_leaves_descriptors_for_files() {
        assert_eq!([0, 10, 64, 200, 1_024].map(of_reserve), [1, 1, 8, 25, 64]);
        assert_eq!(of_reserve(u64::MAX), 64);
    }
}
