//! The state of a client: the resources it watches, as values, and in the form of CSDS (C-136,
//! C-139).
//!
//! The form of CSDS contains no secrets (S-138). Others tell of clients in it too, and [`fetch`] asks
//! them. Not here: bytes (`chancery_proto`), and calls (`server`).

mod fetch;
mod server;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use chancery_core::client::{AuthorityKey, CachedResource, ResourceStatus, WatchError};
pub use chancery_core::client::{Rejection, ResourceState};
use chancery_core::{ResourceName, Time, TypeUrl};
use chancery_proto::schema::Schema;
use chancery_proto::show::Viewer;
pub use chancery_proto::wire::{ClientConfig, ConfigStatus, GenericXdsConfig, UpdateFailureState};

use crate::engine::Engine;
pub use fetch::{FetchError, StatusQuestion, fetch};
pub use server::StatusServer;

/// A resource that is watched, as it stood when the client was asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WatchedResource {
    /// The authority that is responsible for it.
    pub authority: AuthorityKey,
    /// Its type.
    pub type_url: TypeUrl,
    /// Its name.
    pub name: ResourceName,
    /// Its state, by the names of CSDS.
    pub state: ResourceState,
    /// The value in the cache.
    pub cached: Option<CachedResource>,
    /// The last error that watches got, while it is true.
    pub error: Option<Arc<WatchError>>,
    /// The version that was rejected last.
    pub rejection: Option<Rejection>,
}

/// Returns all resources that are watched. They are copied, which is cheap, so that the caller does
/// not hold the lock.
pub(crate) fn resources(engine: &Engine) -> Vec<WatchedResource> {
    engine.inspect(|machine| machine.resources().map(WatchedResource::from).collect())
}

/// Returns the state of all that is watched, in the form of CSDS.
pub(crate) fn client_config(engine: &Engine, scope: &str) -> ClientConfig {
    let node = engine.inspect(|machine| Arc::clone(&machine.setup().node));
    let viewer = Viewer::new(&Schema::bundled());
    // The clock of the machine started this long ago.
    let clock = Clock { now: SystemTime::now(), passed: engine.now().0 };
    let resources = resources(engine).into_iter().map(|resource| resource.shown(&viewer, &clock));
    ClientConfig {
        node: Some(node),
        client_scope: scope.to_owned(),
        generic_xds_configs: resources.collect(),
    }
}

/// Converts the time of the machine to the time of day.
struct Clock {
    now: SystemTime,
    passed: Duration,
}

impl Clock {
    fn time_of_day(&self, time: Time) -> Option<SystemTime> {
        self.now.checked_sub(self.passed.saturating_sub(time.0))
    }
}

impl From<ResourceStatus<'_>> for WatchedResource {
    fn from(status: ResourceStatus<'_>) -> Self {
        Self {
            authority: status.authority.clone(),
            type_url: status.type_url.clone(),
            name: status.name.clone(),
            state: status.state,
            cached: status.cached.cloned(),
            error: status.error.cloned(),
            rejection: status.rejection.cloned(),
        }
    }
}

impl WatchedResource {
    fn shown(self, viewer: &Viewer, clock: &Clock) -> GenericXdsConfig {
        let error_state = self.failure(clock);
        let cached = self.cached.as_ref();
        let body = |cached: &CachedResource| -> Option<Bytes> {
            viewer.without_secrets(&self.type_url, cached.resource.body())
        };
        GenericXdsConfig {
            name: self.name.shared(),
            version_info: cached.map_or_else(|| "".into(), |cached| Arc::clone(&cached.version)),
            xds_config: cached.and_then(body),
            last_updated: cached.and_then(|cached| clock.time_of_day(cached.last_updated)),
            config_status: None,
            client_status: Some(self.state),
            error_state,
            type_url: self.type_url,
        }
    }

    /// Returns the error. A rejection has a time and a version; other errors only have a reason.
    fn failure(&self, clock: &Clock) -> Option<UpdateFailureState> {
        match &self.rejection {
            Some(rejection) if self.state == ResourceState::Nacked => Some(UpdateFailureState {
                last_update_attempt: clock.time_of_day(rejection.at),
                details: rejection.why.to_string(),
                version_info: rejection.version.to_string(),
                ..UpdateFailureState::default()
            }),
            _ => self.error.as_ref().map(|error| UpdateFailureState {
                details: error.text.to_string(),
                ..UpdateFailureState::default()
            }),
        }
    }
}
