//! The services, for the requests of one connection.

use std::sync::Arc;

use super::send_gate::SendGate;
use crate::activity::RequestContext;
use crate::policy::Peer;
use crate::service::Services;

/// Answers the requests of one connection.
#[derive(Clone)]
pub(super) struct Responder {
    pub(super) services: Arc<Services>,
    pub(super) context: Arc<RequestContext>,
    /// The way of responses to HTTP/2.
    pub(super) gate: SendGate,
}

impl Responder {
    pub(super) fn new(services: &Arc<Services>, peer: Arc<Peer>) -> Self {
        let share = services.shared.budget.share_of(&peer);
        let context = RequestContext { peer, activity: Arc::default(), share };
        let (services, context) = (Arc::clone(services), Arc::new(context));
        Self { services, context, gate: SendGate::default() }
    }
}
