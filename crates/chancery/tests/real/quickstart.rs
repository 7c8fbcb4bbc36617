//! The tour of the README: the quickstart, followed by an Envoy and by a gRPC client.
//!
//! The files are those of `examples/quickstart`, with ports of the test's own in place of theirs.

use std::fs;
use std::path::Path;

use crate::support::chancery::{Chancery, Directory, program};
use crate::support::clients::clients;
use crate::support::envoy::{Envoy, VERSIONS};
use crate::support::ports::Port;
use crate::support::process::Process;

/// The ports the example is written with, and those of this test.
struct Ports {
    listen: Port,
    admin: Port,
    edge: Port,
    envoy: Port,
}

impl Ports {
    /// A file of the example, on our ports.
    fn file(&self, name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/quickstart");
        let text = fs::read_to_string(path.join(name)).expect("it is part of the example");
        let ours = [
            ("18000", &self.listen),
            ("18080", &self.admin),
            ("10000", &self.edge),
            ("19000", &self.envoy),
        ];
        ours.iter()
            .fold(text, |text, (theirs, ours)| text.replace(theirs, &ours.number().to_string()))
    }
}

#[test]
fn the_tour_goes_as_it_is_told() {
    let Some(clients) = clients() else { return };
    let dir = tempfile::tempdir().expect("there is a temporary directory");
    let directory = Directory::new(dir.path(), "quickstart");
    let [listen, admin, edge, envoy] = [(); 4].map(|()| Port::reserve());
    let ports = Ports { listen, admin, edge, envoy };
    let names = ["chancery", "clusters", "endpoints", "listeners", "routes", "groups/grpc/hello"];
    for name in names.map(|name| format!("{name}.yaml")) {
        directory.write(&name, &ports.file(&name));
    }
    let (routes, bootstrap) = (ports.file("routes.yaml"), ports.file("envoy.yaml"));
    let grpc = dir.path().join("grpc.json");
    fs::write(&grpc, ports.file("grpc.json")).expect("the directory is ours");
    let Ports { listen, admin, edge, envoy } = ports;
    let _chancery = Chancery::serve_on([listen, admin], &directory, &[] as &[&str]);

    let command = clients.envoy(VERSIONS[0]);
    let mut envoy = Envoy::start_with(command, dir.path(), &bootstrap, envoy, edge.number());
    envoy.is_live();
    envoy.answers_with(&[], "hello from the quickstart");
    let ready = envoy.get_path("/chancery/ready", &[]).expect("an answer");
    assert_eq!((ready.status, ready.body.trim()), (200, "ready"));

    let confirm = envoy.get_path("/chancery/api/v1/confirm", &[]).expect("an answer");
    assert_eq!(confirm.status, 403, "a proxy on the same machine is not the operator");

    let again = routes.replace("hello from the quickstart", "hello again");
    directory.write("routes.yaml", &again);
    envoy.answers_with(&[], "hello again");

    directory.write("routes.yaml", &again.replace("direct_response", "direct_respnse"));
    let faulty = || envoy.get_path("/chancery/ready", &[]).expect("an answer").body;
    crate::support::wait::holds("the fault to show", || faulty().contains("with faults: 1"));
    envoy.answers_with(&[], "hello again");
    directory.write("routes.yaml", &again);

    let personal = again.replace("hello again", "hello envoy-1");
    directory.write("nodes/envoy-1/routes.yaml", &personal);
    envoy.answers_with(&[], "hello envoy-1");
    envoy.refused_nothing();

    // A channel of this project is a client of gRPC like others.
    let mut command = program();
    command.env("GRPC_XDS_BOOTSTRAP", &grpc);
    command.args(["call", "xds:///hello.test", "grpc.health.v1.Health/Check"]);
    let caller = Process::start(dir.path(), "call", &mut command);
    caller.says("SERVING");

    let mut command = clients.python("client.py");
    command.env("GRPC_XDS_BOOTSTRAP", grpc).arg("xds:///hello.test");
    let client = Process::start(dir.path(), "client", &mut command);
    // The backend is the daemon itself, which knows no greetings.
    client.says("error UNIMPLEMENTED");
}
