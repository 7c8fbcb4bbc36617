//! A cluster that the server has no fault to find with, and that gRPC rejects.

use std::process::Command;

use super::{Rig, bootstrap_for, hello, plain, service, with_clients};
use crate::support::chancery::Chancery;
use crate::support::resources::endpoints;

/// The log says which node rejects which type; the client keeps what it had, and takes what is put
/// in the place of the bad resource.
pub(super) fn is_logged_and_repaired(rig: &Rig, command: Command) {
    let (one, two) = (rig.greeter("one"), rig.greeter("two"));
    let directory = hello(rig, &[one.port.number()]);
    let chancery = Chancery::serve(&directory);
    let client = rig.start("client", command, &bootstrap_for(&chancery), &["xds:///hello.test"]);
    client.says("from one");
    let good = service(plain, "");
    let bad = good.replace("lb_policy: ROUND_ROBIN", "lb_policy: MAGLEV");
    assert_ne!(bad, good);
    directory.write("service.yaml", &bad);
    chancery.says("rejected stream=1 node=\"grpc-1\" type=\"cds\"");
    client.says_after(client.mark(), "from one");
    let moved = good.replace("hello-endpoint", "moved-endpoint");
    directory.write("service.yaml", &moved);
    directory.write("eds.yaml", &endpoints("moved-endpoint", &[two.port.number()]));
    client.says("from two");
}

// S-034
#[test]
fn a_rejection_of_python_is_logged_and_repaired() {
    with_clients(|rig| is_logged_and_repaired(rig, rig.clients.python("client.py")));
}
