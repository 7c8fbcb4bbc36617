//! A reason for which a resource is rejected, with the field that it is about.
//!
//! The reader of a field says why; each that it was called by adds where the field is.

use std::fmt::{self, Display, Formatter};

use chancery_calls::matching::MatcherError;
use chancery_calls::retrying::RetryPolicyError;
use chancery_calls::routing::{ActionError, InvalidDomain};

/// The reason, and the path of the field, as `virtual_hosts[0].routes[1].match`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    path: String,
    why: String,
}

/// Adds a part in front of the path of a fault.
pub(super) trait At<T> {
    /// The field, or a part of the way to it.
    fn at(self, part: impl Display) -> Result<T, Fault>;
}

impl<T, E: Into<Fault>> At<T> for Result<T, E> {
    fn at(self, part: impl Display) -> Result<T, Fault> {
        self.map_err(|fault| {
            let Fault { path, why } = fault.into();
            let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
            let path = format!("{part}{dot}{path}");
            Fault { path, why }
        })
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.why);
        }
        write!(f, "{}: {}", self.path, self.why)
    }
}

impl From<String> for Fault {
    fn from(why: String) -> Self {
        Self { path: String::new(), why }
    }
}

impl From<&str> for Fault {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}

impl From<Fault> for String {
    fn from(fault: Fault) -> Self {
        fault.to_string()
    }
}

impl From<MatcherError> for Fault {
    fn from(error: MatcherError) -> Self {
        error.to_string().into()
    }
}

impl From<InvalidDomain> for Fault {
    fn from(error: InvalidDomain) -> Self {
        error.to_string().into()
    }
}

impl From<ActionError> for Fault {
    fn from(error: ActionError) -> Self {
        error.to_string().into()
    }
}

impl From<RetryPolicyError> for Fault {
    fn from(error: RetryPolicyError) -> Self {
        error.to_string().into()
    }
}
