//! Warnings about resources that gRPC clients and servers would refuse, about virtual hosts that
//! Envoy would not remove, about connection managers, filter chains and endpoints that answer nothing, about routes that never match,
//! about what is there twice, and about secrets outside of SDS.
//!
//! A warning is not an error, because the same text may be meant for other clients; [`is_for_grpc`] helps
//! to tell. Not here: what gRPC rejects and ignores (`grpc`).
//!
//! A virtual host of VHDS has a name in its body as well, and Envoy uses that name to find a host
//! that was removed.

use std::fmt;

use chancery_core::{Api, Resource, ResourceName, TypeUrl};
use prost_reflect::{DynamicMessage, ReflectMessage};

use crate::facts::is_v2;
use crate::schema::Schema;
use crate::sensitive;
use crate::syntax::Position;
use crate::walk::{message_in, walk};

mod chains;
mod grpc;
mod managers;
mod ports;
mod repeated;
mod shadowed;

pub(crate) use self::grpc::{
    check_sources, findings as grpc_findings, is_only_for_grpc, may_name_sources,
};

/// A part of a resource that some client would refuse, or would handle wrongly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The path of the field, as in `endpoints[1].priority`.
    pub path: String,
    /// The message.
    pub text: String,
    /// The code of warnings of this kind, which is stable.
    pub code: &'static str,
    /// The position of the field in its file, if it comes from one that has positions.
    pub position: Option<Position>,
}

/// The codes of warnings.
const HOST_NAME: &str = "vhds/host-name";
const NO_HTTP_FILTER: &str = "no-http-filter";
const ENDPOINT_PORT: &str = "endpoint-port";
const NO_FILTERS: &str = "no-filters";
const NO_INSPECTOR: &str = "no-tls-inspector";
const NO_ROUTES: &str = "no-route-name";
const NO_SERVER: &str = "no-authorization-server";
const SHADOWED_ROUTE: &str = "shadowed-route";
const DUPLICATE_ENDPOINT: &str = "duplicate-endpoint";
const DUPLICATE_HOST: &str = "duplicate-host";
const SECRET: &str = "secret/outside-sds";

/// The messages that are judged wherever they stand in a listener.
const MANAGER: &str =
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const VIRTUAL_HOST: &str = "envoy.config.route.v3.VirtualHost";
const AUTHORIZATION: &str = "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz";

impl Warning {
    fn new(code: &'static str, path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into(), code, position: None }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.text);
        }
        write!(f, "{}: {}", self.path, self.text)
    }
}

/// All warnings about gRPC for a resource of this type with this body.
pub fn lint(type_url: &TypeUrl, message: &DynamicMessage) -> Vec<Warning> {
    grpc::findings(type_url, message).into_iter().map(|finding| finding.warning).collect()
}

/// Warns of connection managers and endpoints that answer nothing, of routes that can never match, and of
/// what is there twice.
pub(crate) fn lint_traffic(type_url: &TypeUrl, body: &DynamicMessage) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if is_v2(type_url) {
        return warnings;
    }
    match type_url.api() {
        Api::Cds => {
            if let Some(assignment) = message_in(body, "load_assignment") {
                ports::lint_ports("load_assignment.", assignment, &mut warnings);
                let says = "it gets the requests of both";
                repeated::lint_endpoints("load_assignment.", assignment, says, &mut warnings);
            }
        }
        Api::Eds => {
            ports::lint_ports("", body, &mut warnings);
            let says = "Envoy uses the first alone, whatever this one says";
            repeated::lint_endpoints("", body, says, &mut warnings);
        }
        Api::Rds => repeated::lint_hosts(body, &mut warnings),
        _ => {}
    }
    if type_url.api() != Api::Lds {
        shadowed::lint_routes(type_url, body, &mut warnings);
        return warnings;
    }
    let is_of_client = message_in(body, "api_listener").is_some();
    chains::lint_listener(body, &mut warnings);
    walk(body, &mut |path, message| match message.descriptor().full_name() {
        MANAGER if !is_of_client => {
            managers::lint_manager(path, message, &mut warnings);
            chains::lint_routes(path, message, &mut warnings);
        }
        AUTHORIZATION => chains::lint_authorization(path, message, &mut warnings),
        VIRTUAL_HOST => shadowed::lint_host(&format!("{path}."), message, &mut warnings),
        _ => {}
    });
    warnings
}

/// The warnings of connection managers, filter chains and endpoints that answer nothing.
pub(crate) fn unanswering(type_url: &TypeUrl, body: &DynamicMessage) -> Vec<Warning> {
    let mut warnings = lint_traffic(type_url, body);
    warnings.retain(|warning| UNANSWERING.contains(&warning.code));
    warnings
}

/// The codes of what answers nothing.
const UNANSWERING: [&str; 6] =
    [NO_HTTP_FILTER, ENDPOINT_PORT, NO_FILTERS, NO_INSPECTOR, NO_ROUTES, NO_SERVER];

/// Warns of a virtual host whose body has another name than the resource. Envoy 1.40 compares the
/// names of removed resources with those in the bodies, so it serves such a host for ever.
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
    Some(Warning::new(HOST_NAME, "resource.name", text))
}

/// Warns of a secret outside of SDS: the whole resource follows the rule of SDS then
/// ([S-137](https://www.envoyproxy.io/docs/envoy/latest/configuration/security/secret)), which its
/// author may not expect.
pub(crate) fn lint_secret(
    type_url: &TypeUrl,
    resource: &Resource,
    message: &DynamicMessage,
) -> Option<Warning> {
    if !resource.facts().sensitive || type_url.api() == Api::Sds {
        return None;
    }
    let text = "holds a secret, so the resource is served only over mutual TLS, a Unix socket or \
                loopback; move the secret into a resource of SDS, or set `secrets-anywhere`";
    let path = sensitive::withheld_path(message).unwrap_or_default();
    Some(Warning::new(SECRET, path, text))
}

/// Returns true for a listener of a gRPC client or server. If an audience has no such listener,
/// warnings about its other resources concern nobody.
pub fn is_for_grpc(schema: &Schema, type_url: &TypeUrl, resource: &Resource) -> bool {
    if type_url.api() != Api::Lds || is_v2(type_url) {
        return false;
    }
    let descriptor = schema.message(type_url.as_str());
    let listener = descriptor.map(|is| DynamicMessage::decode(is, resource.body().clone()));
    listener.and_then(Result::ok).is_some_and(|listener| is_grpc_listener(type_url, &listener))
}

/// The same for a message.
fn is_grpc_listener(type_url: &TypeUrl, message: &DynamicMessage) -> bool {
    let is_listener = type_url.api() == Api::Lds && !is_v2(type_url);
    is_listener && (message_in(message, "api_listener").is_some() || grpc::is_server(message))
}

#[cfg(test)]
mod tests;
