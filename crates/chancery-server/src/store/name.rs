//! The name of an audience.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use chancery_catalog::{Audience, StatedValues};

use crate::audiences::{audience_of, without_values};

/// The name of an audience: the nodes that see the same snapshot.
#[derive(Clone)]
pub struct AudienceName(Arc<Named>);

/// A stream has several names, so a name is one pointer.
struct Named {
    text: String,
    /// The values that its nodes state, which are known for as long as somebody has the name.
    values: Option<Arc<StatedValues>>,
    /// The bytes that are kept because of them.
    bytes: usize,
}

impl AudienceName {
    /// The audience of a catalog that it means, if it is a name that [`Audiences`](crate::Audiences) give.
    pub fn audience(&self) -> Option<Audience> {
        audience_of(self)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// The name of nodes that state these values, because of which so many bytes are kept.
    pub(crate) fn new(text: String, values: Option<Arc<StatedValues>>, bytes: usize) -> Self {
        Self(Arc::new(Named { text, values, bytes }))
    }

    /// The name of the same layers, which keeps no values. Records have it, which are kept after a stream is gone.
    pub(crate) fn without_values(&self) -> Self {
        match &self.0.values {
            Some(_) => Self::from(without_values(&self.0.text)),
            None => self.clone(),
        }
    }

    /// The values that its nodes state.
    pub(crate) fn values(&self) -> Option<&Arc<StatedValues>> {
        self.0.values.as_ref()
    }

    /// The bytes that are kept because of its values.
    pub(crate) fn held_bytes(&self) -> usize {
        self.0.bytes
    }
}

impl Borrow<str> for AudienceName {
    fn borrow(&self) -> &str {
        &self.0.text
    }
}

impl AsRef<str> for AudienceName {
    fn as_ref(&self) -> &str {
        &self.0.text
    }
}

impl From<&str> for AudienceName {
    fn from(name: &str) -> Self {
        Self::new(name.into(), None, 0)
    }
}

impl From<String> for AudienceName {
    fn from(name: String) -> Self {
        Self::new(name, None, 0)
    }
}

impl From<&Self> for AudienceName {
    fn from(name: &Self) -> Self {
        name.clone()
    }
}

impl PartialEq for AudienceName {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl Eq for AudienceName {}

impl PartialOrd for AudienceName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for AudienceName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.text.cmp(&other.0.text)
    }
}

/// As a text has it, by which names are found.
impl Hash for AudienceName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for AudienceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl fmt::Debug for AudienceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0.text, f)
    }
}
