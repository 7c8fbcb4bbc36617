//! The names of peers that a cluster lists (C-123). Not here: their comparison with those of a certificate.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};

use chancery_calls::matching::TextMatcher;

/// Names, one of which has to match one of a certificate; any, if there are none.
///
/// A list may be long, and is a part of the settings of each of many endpoints: two lists are compared by a digest with
/// a key of this process.
#[derive(Clone, Debug)]
pub(crate) struct ListedNames {
    list: Arc<[TextMatcher]>,
    digest: u64,
}

impl ListedNames {
    pub(crate) fn new(list: Arc<[TextMatcher]>) -> Self {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let digest = KEY.hash_one(&list);
        Self { list, digest }
    }

    pub(crate) fn list(&self) -> &[TextMatcher] {
        &self.list
    }
}

impl Default for ListedNames {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl PartialEq for ListedNames {
    fn eq(&self, other: &Self) -> bool {
        (self.digest, self.list.len()) == (other.digest, other.list.len())
    }
}

impl Eq for ListedNames {}

impl Hash for ListedNames {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}
