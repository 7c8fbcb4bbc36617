//! Endpoints to which nobody can connect, although Envoy takes them.
//!
//! Not here: load assignments that gRPC clients refuse (`grpc`).

use prost_reflect::DynamicMessage;

use super::{ENDPOINT_PORT, Warning};
use crate::walk::{message_in, messages_in, number_in, text_in};

/// Warns of endpoints with the port 0, which Envoy accepts and cannot connect to. `path` is that of the
/// assignment, with a dot at its end.
pub(super) fn lint_ports(path: &str, assignment: &DynamicMessage, warnings: &mut Vec<Warning>) {
    for (at, group) in messages_in(assignment, "endpoints").enumerate() {
        for (index, endpoint) in messages_in(group, "lb_endpoints").enumerate() {
            let address = message_in(endpoint, "endpoint").and_then(|it| message_in(it, "address"));
            let socket = address.and_then(|it| message_in(it, "socket_address"));
            let Some(socket) = socket.filter(|it| text_in(it, "named_port").is_empty()) else {
                continue;
            };
            if number_in(socket, "port_value") == 0 {
                let path = format!(
                    "{path}endpoints[{at}].lb_endpoints[{index}].endpoint.address.socket_address.port_value"
                );
                let text = "is 0, and nobody can connect to that: write the port of the endpoint";
                warnings.push(Warning::new(ENDPOINT_PORT, path, text));
                return;
            }
        }
    }
}
