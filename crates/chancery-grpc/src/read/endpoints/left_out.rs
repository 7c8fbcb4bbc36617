//! The part of a set that takes no calls, in words, for people who ask why calls do not go there. Not here: the
//! endpoints that cannot be reached, which the control plane has not left out.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use chancery_calls::balancing::{Endpoint, Health};

use super::known::ReadSet;

/// The endpoints and localities of a set that take no calls.
#[derive(Debug)]
pub(crate) struct LeftOut {
    /// Endpoints that are not healthy, as the control plane says.
    unhealthy: Vec<Arc<Endpoint>>,
    /// Endpoints that take the calls of sessions alone.
    draining: Vec<Arc<Endpoint>>,
    /// The number of localities without a weight.
    localities: usize,
}

/// The endpoints of a kind of which each is told.
const MAX_TOLD: usize = 4;

impl LeftOut {
    /// Returns what a set leaves out, if there is anything.
    pub(super) fn of(read: &ReadSet) -> Option<Self> {
        let (mut unhealthy, mut draining) = (Vec::new(), Vec::new());
        for value in read.endpoints() {
            if !value.takes_calls {
                unhealthy.push(Arc::clone(&value.endpoint));
            } else if value.endpoint.health == Health::Draining {
                draining.push(Arc::clone(&value.endpoint));
            }
        }
        let left_out = Self { unhealthy, draining, localities: read.skipped() };
        let is_any = !left_out.unhealthy.is_empty()
            || !left_out.draining.is_empty()
            || left_out.localities > 0;
        is_any.then_some(left_out)
    }
}

/// As in `127.0.0.1:80 is not healthy, and 1 locality has no load_balancing_weight`.
impl Display for LeftOut {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kinds = [(&self.unhealthy, "not healthy"), (&self.draining, "draining")];
        let kinds = kinds.into_iter().filter(|(endpoints, _)| !endpoints.is_empty());
        let mut told: Vec<_> = kinds.map(|(endpoints, how)| sentence(endpoints, how)).collect();
        match self.localities {
            0 => {}
            1 => told.push("1 locality has no `load_balancing_weight`".to_owned()),
            more => told.push(format!("{more} localities have no `load_balancing_weight`")),
        }
        f.write_str(&told.join(", and "))
    }
}

fn sentence(endpoints: &[Arc<Endpoint>], how: &str) -> String {
    let address = |it: &Arc<Endpoint>| it.addresses.first().map(|address| it.shown(*address));
    let mut told: Vec<_> = endpoints.iter().take(MAX_TOLD).filter_map(address).collect();
    let more = endpoints.len() - told.len();
    if more > 0 {
        told.push(format!("{more} more"));
    }
    let verb = if endpoints.len() == 1 { "is" } else { "are" };
    format!("{} {verb} {how}", told.join(", "))
}
