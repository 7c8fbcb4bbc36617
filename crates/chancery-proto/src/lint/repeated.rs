//! Things that are there twice, and that Envoy accepts: endpoints of a set, and names of virtual hosts.
//!
//! Envoy 1.40 was asked: of an endpoint that is there twice in a resource of EDS it uses the first alone,
//! whatever locality, priority or weight the second has, and of one in a cluster both.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use chancery_core::printable::Printable;
use prost_reflect::{DynamicMessage, Value};

use super::{DUPLICATE_ENDPOINT, DUPLICATE_HOST, Warning};
use crate::walk::{message_in, messages_in, text_in, value_in};

/// The number of endpoints and of hosts that are told.
const MOST_TOLD: usize = 10;

/// Warns of endpoints that are there twice. The prefix is put before the paths of the fields.
pub(super) fn lint_endpoints(
    prefix: &str,
    assignment: &DynamicMessage,
    says: &str,
    warnings: &mut Vec<Warning>,
) {
    let (mut seen, mut told) = (HashMap::new(), 0);
    for (locality, group) in messages_in(assignment, "endpoints").enumerate() {
        for (at, endpoint) in messages_in(group, "lb_endpoints").enumerate() {
            let Some(address) = message_in(endpoint, "endpoint").and_then(address) else {
                continue;
            };
            match seen.entry(address) {
                Entry::Vacant(free) => drop(free.insert((locality, at))),
                Entry::Occupied(known) if told < MOST_TOLD => {
                    told += 1;
                    let (name, port) = known.key();
                    let (of, first) = known.get();
                    let path = format!("{prefix}endpoints[{locality}].lb_endpoints[{at}].endpoint");
                    let text = format!(
                        "`{}:{port}` is `endpoints[{of}].lb_endpoints[{first}]` as well: {says}",
                        Printable(name)
                    );
                    warnings.push(Warning::new(DUPLICATE_ENDPOINT, path, text));
                }
                Entry::Occupied(_) => {}
            }
        }
    }
}

fn address(endpoint: &DynamicMessage) -> Option<(&str, u32)> {
    let socket = message_in(message_in(endpoint, "address")?, "socket_address")?;
    let port = value_in(socket, "port_value").and_then(Value::as_u32)?;
    Some((text_in(socket, "address"), port))
}

/// Warns of virtual hosts with one name.
pub(super) fn lint_hosts(routes: &DynamicMessage, warnings: &mut Vec<Warning>) {
    let (mut seen, mut told) = (HashMap::new(), 0);
    for (at, host) in messages_in(routes, "virtual_hosts").enumerate() {
        let first = *seen.entry(text_in(host, "name")).or_insert(at);
        if first != at && told < MOST_TOLD {
            told += 1;
            let text = format!(
                "`virtual_hosts[{first}]` has this name too: their statistics are one, and who reads \
                 a log cannot tell them apart"
            );
            let path = format!("virtual_hosts[{at}].name");
            warnings.push(Warning::new(DUPLICATE_HOST, path, text));
        }
    }
}
