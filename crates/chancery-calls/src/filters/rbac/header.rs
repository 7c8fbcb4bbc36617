//! A condition on a header, as far as RBAC allows one.

use std::error::Error;
use std::fmt::{self, Display, Formatter};

use chancery_core::printable::{MAX_NAME_BYTES, Printable, cut};

use super::ArrivedCall;
use crate::matching::{HeaderKey, HeaderMatcher};

/// A condition on a header of a call that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RbacHeader(HeaderMatcher);

impl RbacHeader {
    /// Takes a condition. `:scheme` and headers of gRPC itself are refused, and `host` means `:authority`.
    pub fn new(matcher: HeaderMatcher) -> Result<Self, ForbiddenHeader> {
        let name = matcher.key.as_str();
        if name == ":scheme" || name.starts_with("grpc-") {
            return Err(ForbiddenHeader(name.to_owned()));
        }
        if name == "host" {
            return Ok(Self(HeaderMatcher { key: HeaderKey::new(":authority"), ..matcher }));
        }
        Ok(Self(matcher))
    }

    pub(super) fn matches(&self, call: &ArrivedCall<'_>) -> bool {
        self.0.matches(call.header(&self.0.key).as_deref())
    }
}

/// A header that no policy may ask about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForbiddenHeader(
    /// The name.
    pub String,
);

impl Display for ForbiddenHeader {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = Printable(cut(&self.0, MAX_NAME_BYTES));
        write!(f, "an RBAC policy has a matcher of the header `{name}`, and gRPC allows none")
    }
}

impl Error for ForbiddenHeader {}
