//! What gRPC clients and servers would refuse in a resource, and what Envoy would not let go.
//!
//! gRPC reads the same resources as Envoy, but accepts less of them, and says so only in a NACK.
//! Nothing here is an error: the same text may be meant for Envoys alone, which [`is_for_grpc`]
//! helps to tell. Resources of v2 are not looked at, because no gRPC client speaks it.
//!
//! A virtual host of VHDS has a name in its body too, and Envoy looks for what was removed by that
//! one.
//!
//! Implements S-125, S-126 and S-127, from gRFC A27, A36 and A47.

use std::fmt;

use chancery_core::{Api, Resource, ResourceName, TypeUrl};
use prost_reflect::{DynamicMessage, ReflectMessage};

use crate::facts::{ConfigSource, is_v2};
use crate::schema::Schema;
use crate::walk::{message_in, walk};

mod endpoints;
mod server;

/// Something that a client would refuse, or would do wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The fields that lead there, as in `endpoints[1].priority`.
    pub path: String,
    /// What is wrong with it.
    pub text: String,
}

impl Warning {
    fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.text)
    }
}

/// All that gRPC would refuse in a resource of this type with this body.
pub fn lint(type_url: &TypeUrl, message: &DynamicMessage) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if is_v2(type_url) {
        return warnings;
    }
    match type_url.api() {
        Api::Cds => lint_cluster(message, &mut warnings),
        Api::Eds => endpoints::lint(message, &mut warnings),
        Api::Lds if server::is_server(message) => {
            server::lint(message, &mut warnings);
            lint_sources("", message, &mut warnings);
        }
        Api::Lds => {
            if let Some(listener) = message_in(message, "api_listener") {
                lint_sources("api_listener.", listener, &mut warnings);
            }
        }
        _ => {}
    }
    warnings
}

/// Warns of a virtual host whose body has another name than the resource: Envoy 1.40 takes the names
/// of removed resources for those of bodies, so it serves such a host for ever.
pub(crate) fn lint_host(
    type_url: &TypeUrl,
    name: &ResourceName,
    message: &DynamicMessage,
) -> Option<Warning> {
    let host = message.get_field_by_name("name").filter(|_| type_url.api() == Api::Vhds)?;
    let host = host.as_str().filter(|host| *host != name.as_str())?;
    let text = format!(
        "Envoy goes on serving the host when it is removed: it looks for the name in the body, \
         which is `{host}` and not `{name}`"
    );
    Some(Warning::new("resource.name", text))
}

/// Whether this is a listener of a gRPC client or server. Where there is none of these among the
/// resources of an audience, what gRPC would refuse in the others concerns nobody.
pub fn is_for_grpc(schema: &Schema, type_url: &TypeUrl, resource: &Resource) -> bool {
    if type_url.api() != Api::Lds || is_v2(type_url) {
        return false;
    }
    let descriptor = schema.message(type_url.as_str());
    let listener = descriptor.map(|is| DynamicMessage::decode(is, resource.body().clone()));
    listener.and_then(Result::ok).is_some_and(|listener| {
        message_in(&listener, "api_listener").is_some() || server::is_server(&listener)
    })
}

/// S-125: endpoints come from the server that sent the cluster, and load is reported to it.
fn lint_cluster(cluster: &DynamicMessage, warnings: &mut Vec<Warning>) {
    let endpoints = message_in(cluster, "eds_cluster_config");
    if let Some(source) = endpoints.and_then(|config| message_in(config, "eds_config")) {
        warnings.extend(refused("eds_cluster_config.eds_config", source));
    }
    if let Some(source) = message_in(cluster, "lrs_server")
        && ConfigSource::of(source) != ConfigSource::OwnServer
    {
        warnings.push(Warning::new("lrs_server", "gRPC clients accept only `self` here"));
    }
}

/// S-125: so do the routes of a listener, and whatever else it names.
fn lint_sources(prefix: &str, message: &DynamicMessage, warnings: &mut Vec<Warning>) {
    walk(message, &mut |path, message| {
        if message.descriptor().full_name() == "envoy.config.core.v3.ConfigSource" {
            warnings.extend(refused(&format!("{prefix}{path}"), message));
        }
    });
}

fn refused(path: &str, source: &DynamicMessage) -> Option<Warning> {
    match ConfigSource::of(source) {
        ConfigSource::Aggregated | ConfigSource::OwnServer => None,
        ConfigSource::OtherServer | ConfigSource::Elsewhere => {
            Some(Warning::new(path, "gRPC accepts only `ads` or `self` here"))
        }
    }
}

#[cfg(test)]
mod tests;
