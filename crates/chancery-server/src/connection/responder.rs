//! The services, for the requests of one connection.

use std::sync::Arc;

use crate::activity::RequestContext;
use crate::policy::Peer;
use crate::service::Services;

/// Answers the requests of one connection.
#[derive(Clone)]
pub(super) struct Responder {
    pub(super) services: Arc<Services>,
    pub(super) context: Arc<RequestContext>,
}

impl Responder {
    pub(super) fn new(services: &Arc<Services>, peer: Arc<Peer>) -> Self {
        let context = Arc::new(RequestContext { peer, activity: Arc::default() });
        Self { services: Arc::clone(services), context }
    }
}
