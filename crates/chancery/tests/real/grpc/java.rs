//! gRPC for Java.

use super::{
    falls_back_to_the_second_server, federation, follows_endpoints, follows_its_listener,
    rejection, with_clients,
};

// S-124
#[test]
fn java_follows_endpoints() {
    with_clients(|rig| follows_endpoints(rig, rig.clients.grpc_java("client"), ""));
}

// S-127
#[test]
fn a_java_server_follows_its_listener() {
    with_clients(|rig| {
        // It fills its template with this address, whichever one it listens on.
        follows_its_listener(rig, rig.clients.grpc_java("server"), "0.0.0.0", ["same", "same"]);
    });
}

// S-116
#[test]
fn java_federation() {
    with_clients(|rig| federation(rig, rig.clients.grpc_java("client"), "java"));
}

// S-129
#[test]
fn java_falls_back_to_the_second_server() {
    with_clients(|rig| falls_back_to_the_second_server(rig, rig.clients.grpc_java("client")));
}

// S-034
#[test]
fn a_rejection_of_java_is_logged_and_repaired() {
    with_clients(|rig| rejection::is_logged_and_repaired(rig, rig.clients.grpc_java("client")));
}
