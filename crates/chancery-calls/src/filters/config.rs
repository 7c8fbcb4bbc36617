//! The configuration of one filter, or that of a route which replaces it.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use super::faults::FaultPolicy;
use super::rbac::Rbac;
use super::session::SessionCookie;

/// The configuration of a filter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FilterConfig {
    /// The end of the chain: the call goes its way. It has no settings.
    Router,
    /// The filter does nothing here. A route says so.
    Disabled,
    /// Fault injection.
    Faults(Arc<FaultPolicy>),
    /// Permission by what a call is about and who makes it.
    Rbac(Arc<Rbac>),
    /// Session affinity by cookie.
    Session(Arc<SessionCookie>),
    /// A filter of somebody else.
    Custom(Arc<dyn CustomFilter>),
}

/// The configuration of a filter that is not built in.
///
/// Whoever runs the filters takes their own type back out by [`Any`].
pub trait CustomFilter: Any + Debug + Send + Sync {
    /// The kind of filter, the same text for all configurations of one. A configuration of a route replaces
    /// one of its own kind alone.
    fn kind(&self) -> &str;

    /// Returns true if nothing follows the filter, as nothing follows the router.
    fn is_terminal(&self) -> bool {
        false
    }
}

impl FilterConfig {
    /// The kind of filter.
    pub fn kind(&self) -> &str {
        match self {
            Self::Router => "router",
            Self::Disabled => "disabled",
            Self::Faults(_) => "fault",
            Self::Rbac(_) => "rbac",
            Self::Session(_) => "stateful_session",
            Self::Custom(custom) => custom.kind(),
        }
    }

    /// Returns true if nothing follows the filter.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Router => true,
            Self::Custom(custom) => custom.is_terminal(),
            Self::Disabled | Self::Faults(_) | Self::Rbac(_) | Self::Session(_) => false,
        }
    }

    /// The configuration as one's own type, if it is that of a filter of somebody else and of this type.
    pub fn custom<T: CustomFilter>(&self) -> Option<&T> {
        match self {
            Self::Custom(custom) => (&**custom as &dyn Any).downcast_ref(),
            _ => None,
        }
    }

    /// Returns true if this may take the place of another configuration. A filter that is off has no kind
    /// by which a mistake could be found.
    pub(super) fn replaces(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Disabled, other) | (other, Self::Disabled) => !other.is_terminal(),
            _ => self.kind() == other.kind(),
        }
    }
}
