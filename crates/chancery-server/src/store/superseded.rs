//! The bytes of superseded states: of each snapshot that streams still hold, the resources that the
//! newest one of their audience does not have.
//!
//! Nobody but those streams keeps them, so they are charged for them together. They are looked for
//! once for each snapshot and each newer one, and only if a stream asks. Not here: the charge itself
//! (`grpc::StreamBody`).

use std::sync::{Arc, Weak};

use chancery_core::{Snapshot, TypeUrl};

/// The sizes of the snapshots of one audience that are superseded.
#[derive(Default)]
pub(super) struct SupersededSizes(Vec<SupersededSize>);

/// The size of one snapshot beside a newer one.
struct SupersededSize {
    of: Weak<Snapshot>,
    beside: Weak<Snapshot>,
    types: Arc<[(TypeUrl, usize)]>,
}

impl SupersededSizes {
    /// The bytes that one of the streams that hold a snapshot is charged for, beside the newest.
    pub(super) fn share_of(&mut self, old: &Arc<Snapshot>, newest: &Arc<Snapshot>) -> usize {
        if Arc::ptr_eq(old, newest) {
            return 0;
        }
        // A stream has a reference to the snapshot, and two to each set that it is sent. Such a set may
        // be in the snapshots of other audiences as well, which have one each.
        let streams = Arc::strong_count(old);
        let share = |(type_url, bytes): &(TypeUrl, usize)| {
            bytes / streams.max(Arc::strong_count(old.set(type_url)) / 3).max(1)
        };
        self.sizes(old, newest).iter().map(share).sum()
    }

    /// The bytes of each type that only the older snapshot has.
    fn sizes(&mut self, old: &Arc<Snapshot>, newest: &Arc<Snapshot>) -> Arc<[(TypeUrl, usize)]> {
        let known = self.0.iter().find(|it| is(&it.of, old) && is(&it.beside, newest));
        if let Some(known) = known {
            return Arc::clone(&known.types);
        }
        self.0.retain(|it| it.of.strong_count() > 0 && is(&it.beside, newest));
        let types = old.types().map(|type_url| (type_url.clone(), gone(type_url, old, newest)));
        let types: Arc<[_]> = types.filter(|(_, bytes)| *bytes > 0).collect();
        let (of, beside) = (Arc::downgrade(old), Arc::downgrade(newest));
        self.0.push(SupersededSize { of, beside, types: Arc::clone(&types) });
        types
    }
}

fn is(known: &Weak<Snapshot>, snapshot: &Arc<Snapshot>) -> bool {
    std::ptr::eq(known.as_ptr(), Arc::as_ptr(snapshot))
}

/// The bytes of the resources of a type that only the older snapshot has. The body of each counts
/// twice, because its encoding for clients is kept with it.
fn gone(type_url: &TypeUrl, old: &Snapshot, newest: &Snapshot) -> usize {
    let (old, newest) = (old.set(type_url), newest.set(type_url));
    if Arc::ptr_eq(old, newest) {
        return 0;
    }
    let resources = old.diff(newest).filter_map(|change| change.old);
    resources.map(|resource| OF_RESOURCE + 2 * resource.body().len()).sum()
}

/// The bytes that a resource takes beside its body, with its place in the set and in the list of those that
/// are sent. Measured: 512 of 100,000 clusters with 20 bytes each.
const OF_RESOURCE: usize = 512;

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use chancery_core::Resource;

    use super::*;

    fn snapshot(parts: &[(&str, usize)]) -> Arc<Snapshot> {
        let mut snapshot = Snapshot::new();
        for (name, size) in parts {
            let body = Bytes::from(vec![7; *size]);
            let cds = TypeUrl::new("envoy.config.cluster.v3.Cluster");
            snapshot.insert(&cds, Resource::new(name.parse().unwrap(), body));
        }
        Arc::new(snapshot)
    }

    #[test]
    fn only_what_the_newest_does_not_have_counts() {
        let mut sizes = SupersededSizes::default();
        let (old, newest) = (snapshot(&[("a", 100), ("b", 10)]), snapshot(&[("a", 100), ("b", 9)]));
        assert_eq!(sizes.share_of(&newest, &newest), 0);
        assert_eq!(sizes.share_of(&old, &newest), OF_RESOURCE + 20);
        assert_eq!(sizes.share_of(&old, &snapshot(&[])), 2 * OF_RESOURCE + 220);
    }

    #[test]
    fn the_streams_that_hold_a_snapshot_are_charged_for_it_together() {
        let (mut sizes, old, newest) =
            (SupersededSizes::default(), snapshot(&[("a", 100)]), snapshot(&[]));
        let others: Vec<_> = (0..4).map(|_| Arc::clone(&old)).collect();
        assert_eq!(sizes.share_of(&old, &newest), (OF_RESOURCE + 200) / 5);
        drop(others);
        assert_eq!(sizes.share_of(&old, &newest), OF_RESOURCE + 200, "the last one has all of it");
    }

    #[test]
    fn sizes_are_forgotten_with_their_snapshots() {
        let (mut sizes, mut held) = (SupersededSizes::default(), Vec::new());
        for size in 1..10 {
            let (old, newest) = (snapshot(&[("a", size)]), snapshot(&[("a", size + 1)]));
            sizes.share_of(&old, &newest);
            held.push(newest);
        }
        assert_eq!(sizes.0.len(), 1);
    }
}
