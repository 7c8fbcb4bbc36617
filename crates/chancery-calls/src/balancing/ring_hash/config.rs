//! The configuration of `ring_hash`, as it was checked (C-114).

use std::fmt;

use chancery_core::printable::{Printable, cut};
use http::HeaderName;

/// The sizes of a ring without another configuration, and those that may be configured.
const DEFAULT_MIN: u32 = 1024;
const LIMIT: u32 = 8 * 1024 * 1024;
/// The number of entries above which a client makes no ring, whatever is configured, unless it is told
/// to: a ring of 8M entries has 100 MB.
const DEFAULT_CAP: u32 = 4096;

/// The configuration of `ring_hash`.
///
/// ```
/// use chancery_calls::balancing::RingHashConfig;
///
/// let config = RingHashConfig::new(Some(1024), None)?.with_request_hash_header("x-user")?;
/// # Ok::<(), chancery_calls::balancing::RingHashError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingHashConfig {
    pub(super) sizes: RingSizes,
    pub(super) request_hash_header: Option<HeaderName>,
}

/// The least and the greatest number of entries of a ring; both are at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingSizes {
    pub(super) min: u32,
    pub(super) max: u32,
    cap: u32,
}

/// Why there cannot be such a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RingHashError {
    /// A size is greater than any client makes.
    TooLarge {
        /// The size.
        size: u64,
    },
    /// The least size is greater than the greatest.
    MinAboveMax {
        /// The least size.
        min: u64,
        /// The greatest size.
        max: u64,
    },
    /// The header cannot be in a call as text.
    Header {
        /// The name of the header.
        name: String,
    },
}

impl RingHashConfig {
    /// Returns a configuration for rings of at least `min` and at most `max` entries. A size that is 0
    /// or not given is that of xDS: 1024, and 8M. Rings have no more than 4096 entries nevertheless,
    /// unless there is [another cap](Self::with_cap).
    ///
    /// # Errors
    ///
    /// If a size is greater than 8M, or the least one than the greatest one.
    pub fn new(min: Option<u64>, max: Option<u64>) -> Result<Self, RingHashError> {
        let or_default = |size: Option<u64>, default| match size {
            None | Some(0) => Ok(default),
            Some(size) => match u32::try_from(size) {
                Ok(size) if size <= LIMIT => Ok(size),
                _ => Err(RingHashError::TooLarge { size }),
            },
        };
        let (min, max) = (or_default(min, DEFAULT_MIN)?, or_default(max, LIMIT)?);
        if min > max {
            return Err(RingHashError::MinAboveMax { min: min.into(), max: max.into() });
        }
        let sizes = RingSizes { min, max, cap: DEFAULT_CAP };
        Ok(Self { sizes, request_hash_header: None })
    }

    /// Sets the number of entries that rings of this client have at most, whatever is configured.
    #[must_use]
    pub fn with_cap(mut self, cap: u32) -> Self {
        self.sizes.cap = cap.clamp(1, LIMIT);
        self
    }

    /// The hash of a call is that of this header, and not that of its route (gRFC A76). An empty name
    /// means no header.
    ///
    /// # Errors
    ///
    /// If calls cannot have such a header, or it is binary.
    pub fn with_request_hash_header(mut self, name: &str) -> Result<Self, RingHashError> {
        let bad = || RingHashError::Header { name: name.to_owned() };
        self.request_hash_header = match name {
            "" => None,
            _ if name.to_ascii_lowercase().ends_with("-bin") => return Err(bad()),
            _ => Some(HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?),
        };
        Ok(self)
    }
}

impl RingSizes {
    /// Returns the least and the greatest size that rings of this client have.
    pub(super) fn capped(self) -> (u32, u32) {
        (self.min.min(self.cap), self.max.min(self.cap))
    }
}

impl Default for RingSizes {
    fn default() -> Self {
        Self { min: DEFAULT_MIN, max: LIMIT, cap: DEFAULT_CAP }
    }
}

impl fmt::Display for RingHashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { size } => write!(f, "ring size {size} is greater than {LIMIT}"),
            Self::MinAboveMax { min, max } => {
                write!(f, "minimum ring size {min} is greater than the maximum, {max}")
            }
            Self::Header { name } => {
                let name = cut(name, 100);
                write!(f, "`{}` is not the name of a text header", Printable(name))
            }
        }
    }
}

impl std::error::Error for RingHashError {}
