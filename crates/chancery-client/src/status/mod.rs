//! What a client says of itself: the view of CSDS, as values (C-136, C-139).
//!
//! Secrets are not in it (S-138). Not here: bytes (`chancery_proto`), and who is answered
//! (`server`).

mod server;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use chancery_core::client::{CachedResource, Rejection, ResourceState, ResourceStatus, WatchError};
use chancery_core::{ResourceName, Time, TypeUrl};
use chancery_proto::schema::Schema;
use chancery_proto::show::Viewer;
use chancery_proto::wire::{ClientConfig, GenericXdsConfig, UpdateFailureState};

use crate::engine::Engine;
pub use server::StatusServer;

/// What is taken out of the machine while its lock is held.
struct CopiedStatus {
    type_url: TypeUrl,
    name: ResourceName,
    state: ResourceState,
    held: Option<CachedResource>,
    error: Option<Arc<WatchError>>,
    rejection: Option<Rejection>,
}

/// How all that is watched stands now.
pub(crate) fn of(engine: &Engine, scope: &str) -> ClientConfig {
    let (node, seen) = engine.look(|machine| {
        let seen: Vec<_> = machine.resources().map(|status| CopiedStatus::of(&status)).collect();
        (Arc::clone(&machine.setup().node), seen)
    });
    let viewer = Viewer::new(&Schema::bundled());
    // The clock of the machine began this long ago.
    let clock = Clock { now: SystemTime::now(), passed: engine.now().0 };
    let resources = seen.into_iter().map(|seen| seen.shown(&viewer, &clock));
    ClientConfig {
        node: Some(node),
        client_scope: scope.to_owned(),
        generic_xds_configs: resources.collect(),
    }
}

/// The time of the machine, as time of the day.
struct Clock {
    now: SystemTime,
    passed: Duration,
}

impl Clock {
    fn at(&self, time: Time) -> Option<SystemTime> {
        self.now.checked_sub(self.passed.saturating_sub(time.0))
    }
}

impl CopiedStatus {
    fn of(status: &ResourceStatus<'_>) -> Self {
        Self {
            type_url: status.type_url.clone(),
            name: status.name.clone(),
            state: status.state,
            held: status.cached.cloned(),
            error: status.error.cloned(),
            rejection: status.rejection.cloned(),
        }
    }

    fn shown(self, viewer: &Viewer, clock: &Clock) -> GenericXdsConfig {
        let error_state = self.failure(clock);
        let held = self.held.as_ref();
        let body = |held: &CachedResource| -> Option<Bytes> {
            viewer.without_secrets(&self.type_url, held.resource.body())
        };
        GenericXdsConfig {
            name: self.name.shared(),
            version_info: held.map_or_else(|| "".into(), |held| Arc::clone(&held.version)),
            xds_config: held.and_then(body),
            last_updated: held.and_then(|held| clock.at(held.last_updated)),
            client_status: Some(self.state),
            error_state,
            type_url: self.type_url,
        }
    }

    /// A rejection says when and what; other errors say why alone.
    fn failure(&self, clock: &Clock) -> Option<UpdateFailureState> {
        match &self.rejection {
            Some(rejection) if self.state == ResourceState::Nacked => Some(UpdateFailureState {
                last_update_attempt: clock.at(rejection.at),
                details: rejection.why.to_string(),
                version_info: rejection.version.to_string(),
            }),
            _ => self.error.as_ref().map(|error| UpdateFailureState {
                details: error.text.to_string(),
                ..UpdateFailureState::default()
            }),
        }
    }
}
