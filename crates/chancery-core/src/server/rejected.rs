//! The resources that a client may quote in the reason for which it rejects a response, so that a
//! driver can take their secrets out of it.
//!
//! Not here: the finding of secrets in bodies, and in texts (`chancery-proto`).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::Resource;

/// The resources of a rejected response, as far as they may hold something secret.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RejectedResources {
    /// The resources that hold a secret, as their facts say, and some others.
    pub resources: Vec<Arc<Resource>>,
    /// True if resources with secrets are left out, because there are too many.
    pub is_cut: bool,
    sensitive_bytes: usize,
    other_bytes: usize,
    /// The addresses of the resources with secrets, until all are added.
    known: BTreeSet<usize>,
}

/// The bytes of the bodies with secrets: what is read of them in a few milliseconds.
const MAX_SENSITIVE_BYTES: usize = 128 * 1024;

/// The bytes of the other bodies. They have values at most that are no secret to strangers.
const MAX_OTHER_BYTES: usize = 64 * 1024;

/// The bytes that a resource counts for besides those of its body, so that there are not too many.
const RESOURCE_BYTES: usize = 256;

impl RejectedResources {
    /// Those of a response of which every resource is a secret: they are left out.
    pub(crate) fn left_out() -> Self {
        Self { is_cut: true, ..Self::default() }
    }

    /// The same in the order of their names, which does not depend on what streams share.
    pub(crate) fn sorted(mut self) -> Self {
        self.known = BTreeSet::new();
        self.resources.sort_by(|one, other| one.name().cmp(other.name()));
        self
    }

    /// Adds a resource, if there is room for it.
    pub(crate) fn add(&mut self, resource: &Arc<Resource>) {
        let sensitive = resource.facts().sensitive;
        let (bytes, most) = match sensitive {
            true => (&mut self.sensitive_bytes, MAX_SENSITIVE_BYTES),
            false => (&mut self.other_bytes, MAX_OTHER_BYTES),
        };
        let cost = resource.body().len() + RESOURCE_BYTES;
        let fits = *bytes + cost <= most;
        if sensitive {
            let address = Arc::as_ptr(resource).addr();
            if self.is_cut || self.known.contains(&address) {
                return;
            }
            if fits {
                self.known.insert(address);
            } else {
                self.is_cut = true;
            }
        }
        if fits {
            *bytes += cost;
            self.resources.push(Arc::clone(resource));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Facts;

    fn resource(size: usize, sensitive: bool) -> Arc<Resource> {
        let facts = Facts { sensitive, ..Facts::default() };
        let resource = Resource::new("a".parse().unwrap(), vec![0; size].into());
        Arc::new(resource.with_facts(facts))
    }

    #[test]
    fn resources_with_secrets_are_there_or_it_is_said_that_they_are_not() {
        let mut rejected = RejectedResources::default();
        let secret = resource(MAX_SENSITIVE_BYTES - RESOURCE_BYTES, true);
        rejected.add(&secret);
        rejected.add(&resource(MAX_OTHER_BYTES - RESOURCE_BYTES, false));
        rejected.add(&resource(1, false));
        assert_eq!((rejected.resources.len(), rejected.is_cut), (2, false));
        rejected.add(&secret);
        assert!(!rejected.is_cut);
        rejected.add(&resource(1, true));
        assert_eq!((rejected.resources.len(), rejected.is_cut), (2, true));
    }

    #[test]
    fn a_resource_counts_once() {
        let mut rejected = RejectedResources::default();
        let secret = resource(10, true);
        rejected.add(&secret);
        rejected.add(&secret);
        assert_eq!(rejected.resources, [secret]);
    }
}
