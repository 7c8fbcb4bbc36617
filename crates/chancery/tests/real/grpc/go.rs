//! gRPC for Go.

use super::{
    LOOPBACK, falls_back_to_the_second_server, federation, follows_endpoints, follows_its_listener,
    rejection, with_clients,
};

// S-124
#[test]
fn go_follows_endpoints() {
    with_clients(|rig| follows_endpoints(rig, rig.clients.grpc_go("client"), ""));
}

// S-127
#[test]
fn a_go_server_follows_its_listener() {
    with_clients(|rig| {
        follows_its_listener(rig, rig.clients.grpc_go("server"), LOOPBACK, ["same", "same"]);
    });
}

// S-116
#[test]
fn go_federation() {
    with_clients(|rig| federation(rig, rig.clients.grpc_go("client"), "go"));
}

// S-129
#[test]
fn go_falls_back_to_the_second_server() {
    with_clients(|rig| falls_back_to_the_second_server(rig, rig.clients.grpc_go("client")));
}

// S-034
#[test]
fn a_rejection_of_go_is_logged_and_repaired() {
    with_clients(|rig| rejection::is_logged_and_repaired(rig, rig.clients.grpc_go("client")));
}
