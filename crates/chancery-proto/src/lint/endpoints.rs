//! Load assignments that gRPC clients refuse, or of which they use only a part
//! ([S-126](https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md)).
//!
//! gRPC clients skip localities without a weight before they look at anything else. So these
//! localities neither fill a gap between priorities nor count as duplicates.

use std::collections::{BTreeMap, BTreeSet};

use prost_reflect::{DynamicMessage, Value};

use super::{ENDPOINT_PORT, Warning};
use crate::walk::{message_in, messages_in, text_in, value_in};

/// Adds the warnings about a `ClusterLoadAssignment`.
pub(super) fn lint(assignment: &DynamicMessage, warnings: &mut Vec<Warning>) {
    let mut check = AssignmentCheck::default();
    for (at, group) in messages_in(assignment, "endpoints").enumerate() {
        let path = format!("endpoints[{at}]");
        match weight(group) {
            0 => check.skipped.push(path),
            weight => check.note_locality(&path, group, weight, warnings),
        }
    }
    check.finish(warnings);
}

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
                warnings.push(Warning { code: ENDPOINT_PORT, ..Warning::new(path, text) });
                return;
            }
        }
    }
}

#[derive(Default)]
struct AssignmentCheck<'a> {
    /// The paths of localities without a weight.
    skipped: Vec<String>,
    /// The sum of the weights of all localities, by priority.
    priorities: BTreeMap<u32, u64>,
    localities: BTreeSet<(u32, [&'a str; 3])>,
    addresses: BTreeSet<(&'a str, u32)>,
}

impl<'a> AssignmentCheck<'a> {
    fn note_locality(
        &mut self,
        path: &str,
        group: &'a DynamicMessage,
        weight: u32,
        warnings: &mut Vec<Warning>,
    ) {
        let priority = number_in(group, "priority");
        *self.priorities.entry(priority).or_default() += u64::from(weight);
        let part = |field| message_in(group, "locality").map_or("", |is| text_in(is, field));
        let locality = ["region", "zone", "sub_zone"].map(part);
        if !self.localities.insert((priority, locality)) {
            let text = format!(
                "locality `{}` is in priority {priority} twice, which gRPC clients refuse",
                locality.join("/")
            );
            warnings.push(Warning::new(format!("{path}.locality"), text));
        }
        let mut total = 0;
        for (at, endpoint) in messages_in(group, "lb_endpoints").enumerate() {
            total += u64::from(weight_of_endpoint(endpoint));
            self.note_addresses(&format!("{path}.lb_endpoints[{at}]"), endpoint, warnings);
        }
        if total > u64::from(u32::MAX) {
            let text =
                format!("the weights add up to {total}: gRPC clients refuse over {}", u32::MAX);
            warnings.push(Warning::new(format!("{path}.lb_endpoints"), text));
        }
    }

    fn note_addresses(
        &mut self,
        path: &str,
        endpoint: &'a DynamicMessage,
        warnings: &mut Vec<Warning>,
    ) {
        let Some(endpoint) = message_in(endpoint, "endpoint") else { return };
        let further = messages_in(endpoint, "additional_addresses");
        let holders = std::iter::once(endpoint).chain(further);
        let addresses = holders.filter_map(|holder| message_in(holder, "address"));
        for socket in addresses.filter_map(|address| message_in(address, "socket_address")) {
            let (host, port) = (text_in(socket, "address"), number_in(socket, "port_value"));
            if !self.addresses.insert((host, port)) {
                let text = format!("`{host}:{port}` is there twice, which gRPC clients refuse");
                warnings.push(Warning::new(format!("{path}.endpoint"), text));
            }
        }
    }

    fn finish(self, warnings: &mut Vec<Warning>) {
        // One warning stands for all: Envoy needs no weights, so an assignment may have none at
        // all.
        if let Some(first) = self.skipped.first() {
            let text = "gRPC clients skip a locality without `load_balancing_weight`";
            let others = match self.skipped.len() - 1 {
                0 => String::new(),
                others => format!(", and {others} more"),
            };
            warnings.push(Warning::new(first, format!("{text}{others}")));
        }
        for (expected, (&priority, &total)) in (0..).zip(&self.priorities) {
            if priority != expected {
                let text = format!("priority {expected} is missing, which gRPC clients refuse");
                warnings.push(Warning::new("endpoints", text));
                break;
            }
            if total > u64::from(u32::MAX) {
                let text = format!(
                    "the weights in priority {priority} add up to {total}: gRPC clients refuse over {}",
                    u32::MAX
                );
                warnings.push(Warning::new("endpoints", text));
            }
        }
    }
}

/// The weight of a locality. One without a weight counts as zero.
fn weight(group: &DynamicMessage) -> u32 {
    message_in(group, "load_balancing_weight").map_or(0, |weight| number_in(weight, "value"))
}

/// The weight of an endpoint. The default is one.
fn weight_of_endpoint(endpoint: &DynamicMessage) -> u32 {
    message_in(endpoint, "load_balancing_weight").map_or(1, |weight| number_in(weight, "value"))
}

fn number_in(message: &DynamicMessage, field: &str) -> u32 {
    value_in(message, field).and_then(Value::as_u32).unwrap_or_default()
}
