//! Resources that only gRPC can use.
//!
//! gRPC does not know the rules of Envoy's API, so a rule that such a resource breaks is worth no more
//! than a warning. A resource that an Envoy may use as well is none of them: a listener that is named
//! after its address alone, for example. Not here: what gRPC refuses (the other files).

use chancery_core::{Api, TypeUrl};
use prost_reflect::{DynamicMessage, ReflectMessage};

use super::server;
use crate::facts::is_v2;
use crate::walk::{message_in, text_in, walk};

/// Returns true if only gRPC can use this resource.
pub(crate) fn is_only_for_grpc(type_url: &TypeUrl, message: &DynamicMessage) -> bool {
    match type_url.api() {
        _ if is_v2(type_url) => false,
        Api::Lds => message_in(message, "api_listener").is_some() || is_server(message),
        Api::Cds => names_certificate_provider(message),
        _ => false,
    }
}

/// Returns true for a listener with an address in its name, and more than that.
pub(super) fn is_server(listener: &DynamicMessage) -> bool {
    let is_address = text_in(listener, "name").parse::<std::net::SocketAddr>().is_ok();
    !is_address && server::is_server(listener)
}

/// Returns true for a cluster whose certificates come from providers in the bootstrap
/// ([A29](https://github.com/grpc/proposal/blob/master/A29-xds-tls-security.md)), which Envoy has none
/// of.
fn names_certificate_provider(cluster: &DynamicMessage) -> bool {
    let mut found = false;
    if let Some(socket) = message_in(cluster, "transport_socket") {
        walk(socket, &mut |_, message| {
            found |= PROVIDERS.contains(&message.descriptor().full_name());
        });
    }
    found
}

const PROVIDERS: [&str; 2] = [
    "envoy.extensions.transport_sockets.tls.v3.CertificateProviderPluginInstance",
    "envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.CertificateProviderInstance",
];
