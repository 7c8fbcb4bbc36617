//! The node that a command asks as, if it is connected to a server: then its cluster, locality, metadata
//! and client need not be typed again.
//!
//! With `--admin` the server has to know the node. Without, a server on this machine is asked, and if it
//! cannot say anything, the node is what the flags make of it. Not here: the flags themselves, which are
//! put over it (`bootstrap`).

use std::io::{self, Write};
use std::net::IpAddr;
use std::time::Duration;

use anyhow::anyhow;
use chancery_client::Bootstrap;
use chancery_core::Node;

use super::options::{NodeArgs, NodeDetails, ServerArgs};
use super::render::plain;
use crate::admin_client::{AdminClient, ConnectedNode};
use crate::config::AdminAddress;
use crate::exit::Failure;

/// Makes the node what a server knows of it.
pub(super) fn take_over(
    bootstrap: &mut Bootstrap,
    servers: &ServerArgs,
    given: &NodeArgs,
) -> Result<(), Failure> {
    let Some(id) = &given.node else { return Ok(()) };
    if let Some(admin) = given.admin {
        bootstrap.states_user_agent |= matches!(admin, AdminAddress::On(_));
        return become_known_at(admin, &mut bootstrap.node, id, &given.details);
    }
    if !servers.servers.iter().any(|uri| is_on_this_machine(uri)) {
        return Ok(());
    }
    // Whatever goes wrong here, nobody has asked for it.
    let Ok(admin) = AdminClient::new(usual_admin()) else { return Ok(()) };
    let admin = admin.within(LITTLE_TIME);
    if let Ok(found) = known(&admin, id, &given.details) {
        bootstrap.states_user_agent = true;
        become_known(&mut bootstrap.node, &found);
        let cluster = plain(&found.node.cluster);
        let told = format!("node `{}` as {admin} knows it, of cluster `{cluster}`", plain(id));
        writeln!(io::stderr(), "{told}; `--admin off` does not ask").ok();
    }
    Ok(())
}

/// Makes the node what the server with this admin interface knows of the one with this id. It has to know it,
/// but at `off`.
pub(crate) fn become_known_at(
    admin: AdminAddress,
    node: &mut Node,
    id: &str,
    given: &NodeDetails,
) -> Result<(), Failure> {
    if matches!(admin, AdminAddress::On(_)) {
        become_known(node, &known(&AdminClient::new(admin)?, id, given)?);
    }
    Ok(())
}

/// The one node with this id, and with the cluster of the flags if there is one.
fn known(admin: &AdminClient, id: &str, given: &NodeDetails) -> Result<ConnectedNode, Failure> {
    let mut found = admin.nodes(Some(id))?.nodes;
    if let Some(cluster) = &given.cluster {
        found.retain(|it| it.node.cluster == *cluster);
    }
    // One that moves is in two audiences for a moment.
    found.dedup_by(|one, other| one.node == other.node);
    let shown = plain(id);
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            let error = anyhow!("no node `{shown}` is connected to the server at `{admin}`");
            Err(Failure::broken(error).hint(
                "`--admin off` asks as a node of which nothing is known but `--cluster`, `--locality` and \
                 `--metadata`",
            ))
        }
        many => {
            let error = anyhow!("{many} nodes that are connected call themselves `{shown}`");
            Err(Failure::broken(error).hint("`--cluster` says which one"))
        }
    }
}

fn become_known(node: &mut Node, found: &ConnectedNode) {
    let known = found.node.clone();
    node.cluster = known.cluster;
    node.locality = known.locality;
    node.metadata = known.metadata;
    node.user_agent_name = known.user_agent_name;
    node.user_agent_version = known.user_agent_version;
    if !found.left_out.is_empty() {
        let parts = found.left_out.join(", ");
        let told = format!("the server does not tell these parts of the node: {}", plain(&parts));
        writeln!(io::stderr(), "{told}; `--metadata` can set them").ok();
    }
}

/// The address at which `serve` has the admin interface.
pub(crate) fn usual_admin() -> AdminAddress {
    let set = std::env::var("CHANCERY_ADMIN").ok().and_then(|text| text.parse().ok());
    set.unwrap_or_default()
}

/// Returns true for an address of a server on this machine.
pub(crate) fn is_on_this_machine(uri: &str) -> bool {
    if uri.starts_with("unix:") {
        return true;
    }
    let authority = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or_default();
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// The time for the answer of a server that nobody has named.
const LITTLE_TIME: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_loopback_or_a_socket_is_on_this_machine() {
        for uri in ["127.0.0.1:1", "localhost:1", "[::1]:1", "http://127.1.2.3:1/x", "unix:/a"] {
            assert!(is_on_this_machine(uri), "{uri}");
        }
        for uri in ["10.0.0.1:1", "example:1", "https://example/127.0.0.1", "file:/a", "[::2]:1"] {
            assert!(!is_on_this_machine(uri), "{uri}");
        }
    }
}
