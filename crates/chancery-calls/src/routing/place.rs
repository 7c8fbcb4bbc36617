//! The route of a call, and where it stands.

use super::{Action, Call, Decision, Route, VirtualHost};
use crate::filters::OverrideScopes;
use crate::{Dice, Failure};

/// The route that matches a call.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The virtual host.
    pub host: &'a VirtualHost,
    /// The place of the virtual host in the configuration.
    pub host_index: usize,
    /// The place of the domain in the virtual host.
    pub domain_index: usize,
    /// The route.
    pub route: &'a Route,
    /// The place of the route in the virtual host.
    pub route_index: usize,
}

impl<'a> Place<'a> {
    /// Chooses a cluster, on a client.
    pub(super) fn forward(
        self,
        call: &Call<'_>,
        dice: &mut impl Dice,
    ) -> Result<Decision<'a>, Failure> {
        match &self.route.action {
            Action::Forward(action) => Ok(Decision::new(self, action, call, dice)),
            Action::NonForwarding | Action::Unsupported | Action::Ignored(_) => {
                Err(self.unusable("does not lead to a cluster"))
            }
        }
    }

    /// Checks that the call is for the program itself, on a server. It is asked after the filters, which
    /// see the call all the same (gRFC A36).
    pub fn serve(&self) -> Result<(), Failure> {
        match &self.route.action {
            Action::NonForwarding => Ok(()),
            Action::Forward(_) | Action::Unsupported | Action::Ignored(_) => {
                Err(self.unusable("is not a `non_forwarding_action`"))
            }
        }
    }

    /// The configurations of filters that count on a server's way.
    pub fn overrides(&self) -> OverrideScopes<'a> {
        let (route, host) = (&self.route.overrides, &self.host.overrides);
        OverrideScopes { cluster: None, route, host }
    }

    fn unusable(&self, why: &str) -> Failure {
        let host = super::config::quoted(&self.host.name);
        let route = self.route_index;
        Failure::unavailable(format!("route {route} of virtual host `{host}` {why}"))
    }
}
