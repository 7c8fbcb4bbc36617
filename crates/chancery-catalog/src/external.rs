//! The names that clients know and no source has: a cluster in their bootstrap, as an operator states.

use std::fmt;
use std::sync::Arc;

use crate::audience::Audience;

/// Says which names an audience knows from elsewhere. A reference to one does not lead nowhere. Clones
/// are the same statement.
#[derive(Clone)]
pub struct External(Arc<Knows>);

type Knows = dyn Fn(&Audience, &str) -> bool + Send + Sync;

impl External {
    /// The names for which `knows` returns true. It has to say the same each time.
    pub fn new(knows: impl Fn(&Audience, &str) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(knows))
    }

    /// Returns true if the audience knows the name from elsewhere.
    pub fn knows(&self, audience: &Audience, name: &str) -> bool {
        (self.0)(audience, name)
    }

    /// Returns true if both are the same statement.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Nobody knows anything from elsewhere.
impl Default for External {
    fn default() -> Self {
        Self::new(|_, _| false)
    }
}

impl fmt::Debug for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("External").finish_non_exhaustive()
    }
}
