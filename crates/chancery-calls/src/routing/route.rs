//! One route: its conditions and its action.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use super::{Action, Call, IgnoredRoute, PathMatcher};
use crate::Dice;
use crate::filters::Overrides;
use crate::matching::{Fraction, HeaderMatcher};

/// The conditions on headers of which each is told.
const MAX_HEADERS: usize = 16;

/// A route of a virtual host. The first one that matches counts.
#[derive(Clone, Debug)]
pub struct Route {
    /// The name, which may be empty.
    pub name: Arc<str>,
    /// The conditions.
    pub matcher: RouteMatcher,
    /// The fate of a call that matches.
    pub action: Action,
    /// Configurations of filters for its calls.
    pub overrides: Overrides,
}

/// The conditions of a route, all of which have to hold.
#[derive(Clone, Debug)]
pub struct RouteMatcher {
    /// The condition on the path.
    pub path: PathMatcher,
    /// The conditions on headers.
    pub headers: Arc<[HeaderMatcher]>,
    /// The part of the calls that match; all if it is not set.
    pub fraction: Option<Fraction>,
}

/// The first condition of a route that does not hold for a call.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Mismatch<'a> {
    /// The route is as if it were not there.
    Ignored(IgnoredRoute),
    /// The path is another one.
    Path(&'a PathMatcher),
    /// A header does not match.
    Header(&'a HeaderMatcher),
    /// The dice decided so.
    Fraction(Fraction),
}

impl Route {
    /// Returns the condition that does not hold, if the route does not match. Dice are rolled last.
    pub(super) fn mismatch(&self, call: &Call<'_>, dice: &mut impl Dice) -> Option<Mismatch<'_>> {
        if let Action::Ignored(reason) = self.action {
            return Some(Mismatch::Ignored(reason));
        }
        if !self.matcher.path.matches(call.path) {
            return Some(Mismatch::Path(&self.matcher.path));
        }
        for header in &*self.matcher.headers {
            let value = header.key.routed_value(call.headers);
            if !header.matches(value.as_deref()) {
                return Some(Mismatch::Header(header));
            }
        }
        let fraction = self.matcher.fraction?;
        (!fraction.happens(dice)).then_some(Mismatch::Fraction(fraction))
    }
}

/// A sentence about a call that matches.
impl Display for RouteMatcher {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        for header in self.headers.iter().take(MAX_HEADERS) {
            write!(f, ", {header}")?;
        }
        if let Some(more) = self.headers.len().checked_sub(MAX_HEADERS).filter(|more| *more > 0) {
            write!(f, ", {more} more conditions on headers")?;
        }
        match self.fraction {
            Some(fraction) => write!(f, ", {fraction} calls"),
            None => Ok(()),
        }
    }
}

/// The rest of a sentence: "it does not match, because it wants ...".
impl Display for Mismatch<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ignored(reason) => write!(f, "is ignored: {reason}"),
            Self::Path(path) => write!(f, "wants: {path}"),
            Self::Header(header) => write!(f, "wants: {header}"),
            Self::Fraction(fraction) => write!(f, "takes {fraction} calls, and not this one"),
        }
    }
}
