//! The reasons why a configuration that is in use may be older than what the control plane has: a version that was
//! rejected, or a server that cannot be reached. Not here: the reasons why there is no configuration.

use std::collections::BTreeSet;
use std::sync::Arc;

use chancery_client::resource::decoded;
use chancery_client::{Client, ResourceType};
use chancery_core::TypeUrl;
use chancery_core::client::{ResourceKey, WatchError, XdsConfig};

use crate::read::listeners::Listener;

/// Returns the errors of the listener, of its routes, and of what follows them on the way of a call. Each stands
/// there once, also where it is one of several resources, and there are only so many that people read them.
pub(super) fn errors(
    client: &Client,
    config: &XdsConfig,
    way: impl Iterator<Item = ResourceKey>,
) -> Vec<Arc<WatchError>> {
    let listener = (TypeUrl::new(Listener::TYPE_URL), config.listener.resource.name().clone());
    let read = decoded::<Listener>(&config.listener).ok();
    let routes = read.and_then(|listener| listener.routes_key().ok().flatten());
    let in_use = way.filter(|key| matches!(config.resources.get(key), Some(Ok(_))));
    let mut told = BTreeSet::new();
    let keys = [listener].into_iter().chain(routes).chain(in_use);
    let errors = keys.flat_map(|(kind, name)| client.errors_of(&kind, &name));
    errors.filter(|error| told.insert(Arc::clone(&error.text))).take(MAX_ERRORS).collect()
}

const MAX_ERRORS: usize = 16;
