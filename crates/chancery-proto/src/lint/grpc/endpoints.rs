//! Load assignments that gRPC clients refuse, or of which they use only a part
//! ([S-126](https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md)).
//!
//! gRPC clients skip localities without a weight before they look at anything else. So these
//! localities neither fill a gap between priorities nor count as duplicates.

use std::collections::{BTreeMap, BTreeSet};

use prost_reflect::DynamicMessage;

use super::{ALL, CORE, Findings, GO, JAVA, NODE};
use crate::walk::{message_in, messages_in, number_in, text_in};

/// Adds the warnings about a `ClusterLoadAssignment`.
pub(super) fn lint(assignment: &DynamicMessage, found: &mut Findings) {
    let mut check = AssignmentCheck::default();
    for (at, group) in messages_in(assignment, "endpoints").enumerate() {
        let path = format!("endpoints[{at}]");
        match weight(group) {
            0 => {
                if message_in(group, "locality").is_none() {
                    found.rejected(GO.and(NODE), &path, "`locality` must be set");
                }
                check.skipped.push(path);
            }
            weight => check.note_locality(&path, group, weight, found),
        }
    }
    check.finish(found);
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
        found: &mut Findings,
    ) {
        let priority = number_in(group, "priority");
        *self.priorities.entry(priority).or_default() += u64::from(weight);
        let part = |field| message_in(group, "locality").map_or("", |is| text_in(is, field));
        let locality = ["region", "zone", "sub_zone"].map(part);
        if !self.localities.insert((priority, locality)) {
            let why = format!("locality `{}` is in priority {priority} twice", locality.join("/"));
            found.rejected(ALL, format!("{path}.locality"), &why);
        }
        if message_in(group, "locality").is_none() {
            found.rejected(GO.and(CORE).and(NODE), path, "`locality` must be set");
        }
        let mut total = 0;
        for (at, endpoint) in messages_in(group, "lb_endpoints").enumerate() {
            let path = format!("{path}.lb_endpoints[{at}]");
            let weight = weight_of_endpoint(endpoint);
            if weight == 0 {
                let path = format!("{path}.load_balancing_weight");
                found.rejected(GO.and(CORE), path, "must be at least 1");
            }
            total += u64::from(weight);
            self.note_addresses(&path, endpoint, found);
        }
        if total > u64::from(u32::MAX) {
            let why = format!("the weights add up to {total}, and to more than {}", u32::MAX);
            found.rejected(ALL, format!("{path}.lb_endpoints"), &why);
        }
    }

    fn note_addresses(&mut self, path: &str, endpoint: &'a DynamicMessage, found: &mut Findings) {
        let strict = CORE.and(JAVA).and(NODE);
        let Some(endpoint) = message_in(endpoint, "endpoint") else {
            return found.rejected(strict, path, "must have an `endpoint`");
        };
        let further = messages_in(endpoint, "additional_addresses");
        let holders = std::iter::once(endpoint).chain(further);
        let addresses = holders.filter_map(|holder| message_in(holder, "address"));
        let path = format!("{path}.endpoint");
        if message_in(endpoint, "address").is_none() {
            found.rejected(strict, &path, "must have an `address`");
        }
        for address in addresses {
            let Some(socket) = message_in(address, "socket_address") else {
                let why = "an address must be a `socket_address`";
                found.rejected(strict, &path, why);
                continue;
            };
            let (host, port) = (text_in(socket, "address"), number_in(socket, "port_value"));
            if host.parse::<std::net::IpAddr>().is_err() {
                let why = "an address must be that of a host, and no name";
                found.rejected(strict, &path, why);
            }
            if port > u32::from(u16::MAX) {
                found.rejected(CORE.and(JAVA), &path, "a port must be at most 65535");
            }
            if !text_in(socket, "named_port").is_empty() {
                found.rejected(NODE, &path, "a port must be a number");
            }
            if !self.addresses.insert((host, port)) {
                let why = format!("`{host}:{port}` is there twice");
                found.rejected(GO.and(CORE).and(NODE), &path, &why);
            }
        }
    }

    fn finish(self, found: &mut Findings) {
        // One warning stands for all: Envoy needs no weights, so an assignment may have none at
        // all.
        if let Some(first) = self.skipped.first() {
            let others = match self.skipped.len() - 1 {
                0 => String::new(),
                others => format!(", and {others} more"),
            };
            let why = format!("a locality without `load_balancing_weight`{others}");
            found.ignored(ALL, first, &why);
        }
        for (expected, (&priority, &total)) in (0..).zip(&self.priorities) {
            if priority != expected {
                found.rejected(ALL, "endpoints", &format!("priority {expected} is missing"));
                break;
            }
            if total > u64::from(u32::MAX) {
                let why = format!(
                    "the weights in priority {priority} add up to {total}, and to more than {}",
                    u32::MAX
                );
                found.rejected(ALL, "endpoints", &why);
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
