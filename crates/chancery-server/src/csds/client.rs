//! The status of one client, as CSDS tells it.
//!
//! CSDS knows four states of a resource, and `docs/status.md` eight: a removal that waits is of what the
//! client has, and a resource that there is not was not sent. The state in the eyes of the client
//! (`client_status`) says what it has told the server, which tools show that know clients only.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use chancery_core::client::ResourceState as ClientState;
use chancery_core::server::{ResourceState, ResourceStatus};
use chancery_core::{Resource, TypeUrl, Variant};
use chancery_proto::sensitive::node_without_secrets;
use chancery_proto::show::Viewer;
use chancery_proto::wire::{ClientConfig, ConfigStatus, GenericXdsConfig, UpdateFailureState};

use super::matched::MatchedClient;
use super::{CsdsRefused, too_large};
use crate::status::{RejectionNote, StatusBook, StreamDetails, TypeDetails};

/// Bodies as they are told: without secrets (S-138), or not at all.
pub(super) struct Bodies {
    viewer: Viewer,
    are_told: bool,
    /// Those that were looked at. Clients share their resources.
    known: HashMap<usize, (Arc<Resource>, Option<Bytes>)>,
}

/// The status of a client by what its streams told.
///
/// # Errors
/// If it has more bytes than there is room for.
pub(super) fn config(
    book: &StatusBook,
    client: MatchedClient,
    details: Vec<(u64, StreamDetails)>,
    bodies: &mut Bodies,
    mut room: usize,
) -> Result<ClientConfig, CsdsRefused> {
    let mut resources = Vec::new();
    for (id, details) in details {
        let of_stream = client.streams.iter().find(|(stream, _)| *stream == id);
        let variant = of_stream.map_or(Variant::Sotw, |(_, variant)| *variant);
        let rejections = book.rejections(id);
        for of_type in &details.types {
            let rejection = rejections.iter().find(|it| it.type_url == of_type.type_url);
            let all = &of_type.resources.resources;
            let rejected_at = rejection.and_then(|note| SystemTime::now().checked_sub(note.age));
            let told = TypeTeller { of_type, rejection, rejected_at, variant };
            for resource in all {
                // The bodies of one client alone can be too large, so it ends at the first that has no room.
                let told = told.resource(resource, bodies);
                room = room.checked_sub(least_bytes(&told)).ok_or_else(too_large)?;
                resources.push(told);
            }
        }
    }
    Ok(ClientConfig {
        node: Some(node_without_secrets(&client.node)),
        client_scope: String::new(),
        generic_xds_configs: resources,
    })
}

/// The bytes that a resource has in an answer at least.
fn least_bytes(resource: &GenericXdsConfig) -> usize {
    let body = resource.xds_config.as_ref().map_or(0, Bytes::len);
    let failed = resource.error_state.as_ref().and_then(|it| it.failed_configuration.as_ref());
    body + failed.map_or(0, Bytes::len) + resource.name.len() + resource.type_url.as_str().len()
}

/// Tells of the resources of one type on one stream.
struct TypeTeller<'a> {
    of_type: &'a TypeDetails,
    rejection: Option<&'a RejectionNote>,
    rejected_at: Option<SystemTime>,
    variant: Variant,
}

impl TypeTeller<'_> {
    fn resource(&self, resource: &ResourceStatus, bodies: &mut Bodies) -> GenericXdsConfig {
        let type_url = &self.of_type.type_url;
        let (config_status, client_status) = states(resource.state);
        // ERROR has what was refused, which is what the server has (S-135).
        let shown = resource.wanted.as_ref().or(resource.given.as_ref());
        let body = shown.and_then(|shown| bodies.told(type_url, shown));
        let version = shown.map(|shown| self.version(resource, shown)).unwrap_or_default();
        let is_refused = config_status == ConfigStatus::Error;
        let error_state = self.rejection.filter(|_| is_refused).map(|note| UpdateFailureState {
            failed_configuration: body.clone(),
            last_update_attempt: self.rejected_at,
            details: note.error.message.clone(),
            version_info: note.version.to_string(),
        });
        GenericXdsConfig {
            type_url: type_url.clone(),
            name: Arc::clone(&resource.name),
            version_info: version,
            xds_config: body,
            last_updated: self.updated(resource),
            config_status: Some(config_status),
            client_status: Some(client_status),
            error_state,
        }
    }

    /// The time at which the client acknowledged or rejected the version that is told, where it is known. On a
    /// delta stream nobody keeps the time of each resource, and that of a response is not that of a resource
    /// which came in an earlier one.
    fn updated(&self, resource: &ResourceStatus) -> Option<SystemTime> {
        match (resource.state, self.variant) {
            (ResourceState::Acknowledged | ResourceState::RemovalWaits, Variant::Sotw) => {
                self.of_type.acknowledged_at
            }
            (ResourceState::Rejected, _) => {
                let suspects = self.rejection.map(|note| &note.suspects);
                let is_of_it = self.variant == Variant::Sotw
                    || suspects.is_some_and(|suspects| suspects.contains(&resource.name));
                self.rejected_at.filter(|_| is_of_it)
            }
            _ => None,
        }
    }

    /// The version of what is shown, as the client sees it: its own on a delta stream, and otherwise that of
    /// the response that had it.
    fn version(&self, resource: &ResourceStatus, shown: &Resource) -> Arc<str> {
        let of_response = match (self.variant, resource.state) {
            (Variant::Delta, _) => return shown.version().to_string().into(),
            (_, ResourceState::Rejected) => self.of_type.rejected.as_ref(),
            (_, ResourceState::Unanswered) => self.of_type.sent.as_ref(),
            (_, ResourceState::NotSent | ResourceState::Missing | ResourceState::Undecided) => None,
            _ => self.of_type.acknowledged.as_ref(),
        };
        of_response.cloned().unwrap_or_default()
    }
}

/// The state in the eyes of the server, and in those of the client by what it said.
fn states(state: ResourceState) -> (ConfigStatus, ClientState) {
    match state {
        ResourceState::Acknowledged | ResourceState::RemovalWaits => {
            (ConfigStatus::Synced, ClientState::Acked)
        }
        ResourceState::Rejected => (ConfigStatus::Error, ClientState::Nacked),
        ResourceState::Unanswered | ResourceState::PassedOver => {
            (ConfigStatus::Stale, ClientState::Requested)
        }
        ResourceState::Missing => (ConfigStatus::NotSent, ClientState::DoesNotExist),
        // A state of a newer core was not heard of here.
        _ => (ConfigStatus::NotSent, ClientState::Requested),
    }
}

impl Bodies {
    pub(super) fn new(viewer: Viewer, are_told: bool) -> Self {
        Self { viewer, are_told, known: HashMap::new() }
    }

    fn told(&mut self, type_url: &TypeUrl, resource: &Arc<Resource>) -> Option<Bytes> {
        if !self.are_told {
            return None;
        }
        let address = Arc::as_ptr(resource) as usize;
        if let Some((_, body)) = self.known.get(&address) {
            return body.clone();
        }
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        let body = self.viewer.without_secrets(type_url, resource.body());
        // The resource is kept, so that its address is that of no other one.
        self.known.insert(address, (Arc::clone(resource), body.clone()));
        body
    }
}

/// The bodies that are remembered.
const MOST_KNOWN: usize = 50_000;
