//! The node that a command asks as, if it is connected to a server: then its cluster, locality, metadata
//! and client need not be typed again.
//!
//! With `--admin` the server has to know the node. Without, the server that is asked for resources may be one
//! of which the admin interface is known; and if that cannot say anything, the node is what the flags make of it. Not here: the flags themselves, which are
//! put over it (`bootstrap`).

use std::io::{self, Write};
use std::time::Duration;

use anyhow::anyhow;
use chancery_client::Bootstrap;
use chancery_core::Node;

use super::options::{NodeArgs, NodeDetails, ServerArgs};
use super::render::plain;
use crate::admin_client::{AdminAccess, AdminClient, AdminServer, ConnectedNode};
use crate::exit::Failure;

/// Makes the node what a server knows of it.
pub(super) fn take_over(
    bootstrap: &mut Bootstrap,
    servers: &ServerArgs,
    given: &NodeArgs,
) -> Result<(), Failure> {
    let Some(id) = &given.node else { return given.access.unused() };
    if let Some(admin) = &given.admin {
        bootstrap.states_user_agent |= !admin.is_off();
        return become_known_at(admin, &given.access, &mut bootstrap.node, id, &given.details);
    }
    let Some(admin) = AdminClient::beside(&servers.servers, &given.access)? else { return Ok(()) };
    let admin = admin.within(LITTLE_TIME);
    match known(&admin, id, &given.details) {
        Ok(found) => {
            bootstrap.states_user_agent = true;
            become_known(&mut bootstrap.node, &found);
            let cluster = plain(&found.node.cluster);
            let told = format!("node `{}` as {admin} knows it, of cluster `{cluster}`", plain(id));
            writeln!(io::stderr(), "{told}; `--admin off` does not ask").ok();
            Ok(())
        }
        Err(error) if given.access.is_given() => Err(error),
        // Nobody has asked for it.
        Err(_) => Ok(()),
    }
}

/// Makes the node what the server with this admin interface knows of the one with this id. It has to know it,
/// but at `off`.
pub(crate) fn become_known_at(
    admin: &AdminServer,
    access: &AdminAccess,
    node: &mut Node,
    id: &str,
    given: &NodeDetails,
) -> Result<(), Failure> {
    if admin.is_off() {
        return access.unused();
    }
    become_known(node, &known(&AdminClient::at(admin, access)?, id, given)?);
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

/// The time for the answer of a server that nobody has named.
const LITTLE_TIME: Duration = Duration::from_secs(2);
