//! The words of a client by CSDS, or of an xDS server about its clients.

use anyhow::Context;
use chancery_client::Options;
use chancery_client::bootstrap::XdsServer;
use chancery_client::status::{
    ClientConfig, ConfigStatus, GenericXdsConfig, ResourceState, StatusQuestion, fetch,
};

use super::options::Limits;
use super::report::{RunningClient, RunningError, RunningResource, RunningState, kept, type_name};

/// Asks a server of CSDS.
pub(super) async fn ask(server: &XdsServer, limits: &Limits) -> anyhow::Result<Vec<RunningClient>> {
    let options = Options {
        connect_timeout: limits.time,
        max_response_bytes: limits.bytes,
        ..Options::default()
    };
    let question = StatusQuestion { exclude_contents: true, ..StatusQuestion::default() };
    let answer = fetch(server, &question, &options).await;
    let clients = answer.with_context(|| format!("cannot ask `{}` for its CSDS", server.uri))?;
    Ok(clients.into_iter().map(client).collect())
}

fn client(config: ClientConfig) -> RunningClient {
    let node = config.node.as_ref().map(|node| kept(&node.id)).unwrap_or_default();
    let resources = config.generic_xds_configs.iter().map(resource).collect();
    let scope = kept(&config.client_scope);
    RunningClient { node, scope, resources, waiting: Vec::new() }.sorted()
}

fn resource(config: &GenericXdsConfig) -> RunningResource {
    let error = config.error_state.as_ref().map(|error| RunningError {
        version: kept(&error.version_info),
        details: kept(&error.details),
    });
    RunningResource {
        r#type: type_name(config.type_url.as_str()),
        name: kept(&config.name),
        version: kept(&config.version_info),
        state: state(config),
        error,
        keeps_version: false,
        sent: None,
        verdict: None,
    }
}

/// The state in the words of the client, or else in those of a server.
fn state(config: &GenericXdsConfig) -> RunningState {
    match (config.client_status, config.config_status) {
        (Some(ResourceState::Requested), _) => RunningState::Requested,
        (Some(ResourceState::DoesNotExist), _) => RunningState::Missing,
        (Some(ResourceState::Acked), _) => RunningState::Running,
        (Some(ResourceState::Nacked), _) => RunningState::Rejected,
        (Some(ResourceState::ReceivedError), _) => RunningState::ServerError,
        (Some(ResourceState::Timeout), _) => RunningState::TimedOut,
        (None, Some(ConfigStatus::Synced)) => RunningState::Running,
        (None, Some(ConfigStatus::NotSent | ConfigStatus::Stale)) => RunningState::Requested,
        (None, Some(ConfigStatus::Error)) => RunningState::Rejected,
        (None, None) => RunningState::Unknown,
    }
}
