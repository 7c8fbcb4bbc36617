//! The name of an audience.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use chancery_catalog::Audience;

use crate::audiences::audience_of;

/// The name of an audience: the nodes that see the same snapshot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AudienceName(Arc<str>);

impl AudienceName {
    /// The audience of a catalog that it means, if it is a name that [`Audiences`](crate::Audiences) give.
    pub fn audience(&self) -> Option<Audience> {
        audience_of(self)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for AudienceName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for AudienceName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for AudienceName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for AudienceName {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl From<&Self> for AudienceName {
    fn from(name: &Self) -> Self {
        name.clone()
    }
}

impl fmt::Display for AudienceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for AudienceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
