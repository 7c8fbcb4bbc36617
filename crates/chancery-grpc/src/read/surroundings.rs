//! The things beside a resource that its reader looks at: the bootstrap, and what the program has added.

use std::collections::BTreeSet;
use std::sync::Arc;

use chancery_calls::balancing::CustomPolicies;
use chancery_client::{Bootstrap, Client};
use prost::Message;

use super::clusters::{self, Cluster};
use super::endpoints::{Endpoints, KnownSets};
use super::fault::Fault;
use super::listeners::{self, Listener};
use super::quoted;
use super::routes::Routes;
use super::server_listeners::{self, ServerListener};
use super::transport::Provider;

/// The knowledge of a reader beside the resource. By default it does not know which providers there are, and
/// takes any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    providers: Option<BTreeSet<String>>,
    pub(super) policies: CustomPolicies,
}

impl Surroundings {
    /// With the certificate providers of a bootstrap, and the policies that the program has added.
    pub(crate) fn new(bootstrap: &Bootstrap, policies: CustomPolicies) -> Self {
        let providers = bootstrap.certificate_providers.keys().cloned().collect();
        Self { providers: Some(providers), policies }
    }

    /// Checks that a provider is one of the bootstrap (C-122).
    pub(super) fn check(&self, provider: &Provider) -> Result<(), Fault> {
        let instance = &provider.instance;
        match &self.providers {
            Some(known) if !known.contains(instance) => {
                let instance = quoted(instance);
                let why = "`certificate_providers` of the bootstrap has none of the name";
                Err(format!("{why} `{instance}`").into())
            }
            _ => Ok(()),
        }
    }
}

/// Lets a client decode the resources of channels. The first channel of a client says by what.
pub(crate) fn decode_for(client: &Client, surroundings: Surroundings) {
    let surroundings = Arc::new(surroundings);
    client.decode_with::<Listener>(listeners::connectable);
    client.decode_as::<Routes>();
    let known = KnownSets::default();
    client.decode_with::<Endpoints>(move |name, body| known.decode(name, body));
    client.decode_with::<Cluster>(move |name, body| {
        let cluster = Message::decode(body.clone()).map_err(|error| error.to_string())?;
        Ok(clusters::read(name, &cluster, &surroundings)?)
    });
}

/// Lets a client decode the resources of servers. The first server of a client says by what.
pub(crate) fn decode_for_servers(client: &Client, surroundings: Surroundings) {
    client.decode_as::<Routes>();
    client.decode_with::<ServerListener>(move |_, body| {
        server_listeners::decode(body, &surroundings)
    });
}
