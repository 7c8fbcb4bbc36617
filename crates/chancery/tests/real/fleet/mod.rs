//! One daemon before real clients of several kinds at once, each in a group of its own: what it tells of them, and
//! what they tell of themselves.

mod hundreds;
mod rejected;
mod simulated;

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::grpc;
use crate::support::backend::Backend;
use crate::support::bootstrap::{Bootstrap, Transport};
use crate::support::chancery::{Chancery, Directory};
use crate::support::clients::RealClients;
use crate::support::envoy::{Envoy, VERSIONS};
use crate::support::ports::Port;
use crate::support::process::Process;
use crate::support::resources::{Source, cluster, endpoints, listener, rds, routes};

/// A kind of real clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    EnvoyDelta,
    EnvoySotw,
    Python,
    Node,
    Go,
    Java,
}

impl Kind {
    /// The name of its group. The id of its node begins with it.
    const fn group(self) -> &'static str {
        match self {
            Self::EnvoyDelta => "delta",
            Self::EnvoySotw => "sotw",
            Self::Python => "python",
            Self::Node => "node",
            Self::Go => "go",
            Self::Java => "java",
        }
    }

    fn id(self) -> String {
        format!("{}-1", self.group())
    }

    const fn is_envoy(self) -> bool {
        matches!(self, Self::EnvoyDelta | Self::EnvoySotw)
    }

    /// The type and the name of the resource that it is made to reject.
    const fn at_fault(self) -> (&'static str, &'static str) {
        if self.is_envoy() { ("lds", "l1") } else { ("cds", "hello-cluster") }
    }

    /// The file with the resources of its group.
    fn file(self) -> String {
        format!("groups/{}/service.yaml", self.group())
    }
}

/// The states of the resources of a group.
#[derive(Clone, Copy, Debug)]
enum Content {
    Good,
    /// It loads, and its clients reject it.
    Bad,
    /// Another good one.
    Mended,
}

/// The end of a filter chain whose certificate no Envoy can read.
const NO_CERTIFICATE: &str = "    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        '@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
        common_tls_context:
          tls_certificates:
          - certificate_chain: {filename: /nowhere/cert.pem}
            private_key: {filename: /nowhere/key.pem}
";

/// The resources of a group of Envoys.
fn of_envoy(content: Content, edge: u16, backend: u16) -> String {
    let good = listener("l1", edge, &rds("r1", Source::Ads), "");
    let listener = match content {
        Content::Good => good,
        Content::Bad => good + NO_CERTIFICATE,
        Content::Mended => good.replace("stat_prefix: edge", "stat_prefix: mended"),
    };
    let clusters = cluster("svc-a", Source::Ads) + &endpoints("svc-a", &[backend]);
    listener + &routes("r1", "svc-a") + &clusters
}

/// The resources of a group of gRPC clients.
fn of_grpc(content: Content, greeter: u16) -> String {
    let good = grpc::service(grpc::plain, "");
    let service = match content {
        Content::Good => good,
        Content::Bad => good.replace("lb_policy: ROUND_ROBIN", "lb_policy: MAGLEV"),
        Content::Mended => {
            let limit = "type: EDS\n  circuit_breakers: {thresholds: [{max_requests: 77}]}";
            good.replace("type: EDS", limit)
        }
    };
    service + &endpoints("hello-endpoint", &[greeter])
}

/// A real client in a group of its own.
#[derive(Debug)]
struct Member {
    kind: Kind,
    program: Program,
    /// The port of an Envoy's listener.
    edge: Port,
}

#[derive(Debug)]
enum Program {
    Envoy(Envoy),
    Grpc(Process),
}

impl Member {
    fn start(clients: &RealClients, kind: Kind, dir: &Path, edge: Port, port: u16) -> Self {
        let admin = Port::reserve();
        let envoy = |protocol: &str, admin: Port, edge: u16| {
            let bootstrap = Bootstrap::ads(protocol).server("xds", port, Transport::H2c);
            let yaml = bootstrap.yaml(&kind.id(), admin.number());
            let command = clients.envoy(VERSIONS[0]);
            Program::Envoy(Envoy::start_with(command, dir, &yaml, admin, edge))
        };
        let command = match kind {
            Kind::EnvoyDelta | Kind::EnvoySotw => None,
            Kind::Python => Some(clients.python("client.py")),
            Kind::Node => Some(clients.node("client.js")),
            Kind::Go => Some(clients.grpc_go("client")),
            Kind::Java => Some(clients.grpc_java("client")),
        };
        let program = match command {
            Some(mut command) => {
                let mut bootstrap = grpc::bootstrap(&[grpc::server(&format!("127.0.0.1:{port}"))]);
                bootstrap["node"]["id"] = json!(kind.id());
                command.env("GRPC_XDS_BOOTSTRAP_CONFIG", bootstrap.to_string());
                command.arg("xds:///hello.test");
                Program::Grpc(Process::start(dir, kind.group(), &mut command))
            }
            None if kind == Kind::EnvoySotw => envoy("GRPC", admin, edge.number()),
            None => envoy("DELTA_GRPC", admin, edge.number()),
        };
        Self { kind, program, edge }
    }

    /// Sends the program a signal by its name.
    fn signal(&self, name: &str) {
        match &self.program {
            Program::Envoy(envoy) => envoy.signal(name),
            Program::Grpc(process) => process.signal(name),
        }
    }

    /// Waits until a call succeeds that begins after this.
    #[track_caller]
    fn goes_on(&self) {
        match &self.program {
            Program::Envoy(envoy) => envoy.answers_from("one"),
            Program::Grpc(process) => process.says_after(process.mark(), "from one"),
        }
    }
}

/// The daemon and its real clients.
#[derive(Debug)]
struct Fleet {
    members: Vec<Member>,
    chancery: Chancery,
    directory: Directory,
    /// The server that gRPC clients call.
    _greeter: Process,
    greeter_port: Port,
    /// The server behind the Envoys.
    backend: Backend,
    dir: TempDir,
}

impl Fleet {
    /// Starts a daemon with these flags and a client of each of these kinds, and waits until all have landed. `rules`
    /// are the lines of `chancery.yaml` before the groups of the kinds.
    fn start(clients: &RealClients, kinds: &[Kind], rules: &str, flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("there is a temporary directory");
        let directory = Directory::new(dir.path(), "config");
        let (backend, greeter_port) = (Backend::start("one"), Port::reserve());
        let mut command = clients.python("server.py");
        command.args([&greeter_port.number().to_string(), "one"]);
        let greeter = Process::start(dir.path(), "greeter", &mut command);
        let group = |kind: &Kind| format!("- {{name: {0}, match: {{id: {0}-*}}}}\n", kind.group());
        let groups: String = kinds.iter().map(group).collect();
        directory.write("chancery.yaml", &format!("{rules}{groups}"));
        let edges: Vec<_> = kinds.iter().map(|kind| (*kind, Port::reserve())).collect();
        for (kind, edge) in &edges {
            let content = match kind.is_envoy() {
                true => of_envoy(Content::Good, edge.number(), backend.port()),
                false => of_grpc(Content::Good, greeter_port.number()),
            };
            directory.write(&kind.file(), &content);
        }
        let chancery = Chancery::serve_with(&directory, flags);
        greeter.says("started");
        let member = |(kind, edge)| Member::start(clients, kind, dir.path(), edge, chancery.port());
        let members = edges.into_iter().map(member).collect();
        let fleet =
            Self { members, chancery, directory, _greeter: greeter, greeter_port, backend, dir };
        fleet.members.iter().for_each(Member::goes_on);
        fleet
    }

    /// Writes the resources of a group.
    fn write(&self, member: &Member, content: Content) {
        let text = match member.kind.is_envoy() {
            true => of_envoy(content, member.edge.number(), self.backend.port()),
            false => of_grpc(content, self.greeter_port.number()),
        };
        self.directory.write(&member.kind.file(), &text);
    }

    /// Waits for what the file has, and returns the code and the output of that.
    fn wait_for(&self, file: &str) -> (Option<i32>, String) {
        let path = self.directory.path().join(file);
        self.chancery.told_by(&["wait", "--for", &format!("file={}", path.display())])
    }

    /// The row of a group in the summary of all nodes.
    fn group(&self, name: &str) -> Value {
        let summary = self.chancery.api("status");
        let rows = summary["groups"].as_array().expect("a list");
        rows.iter().find(|row| row["group"] == name).cloned().unwrap_or_default()
    }

    /// `TYPE NAME STATUS` of each resource of a node, as the server tells it by CSDS.
    fn told_by_csds(&self, node: &str) -> Vec<String> {
        let question = json!({"node_matchers": [{"node_id": {"exact": node}}]});
        let answer = self.chancery.client_status(&question);
        let rows = answer["config"][0]["genericXdsConfigs"].as_array().cloned();
        let word = |row: &Value, key: &str| row[key].as_str().unwrap_or("-").to_owned();
        let line = |row: &Value| {
            let url = word(row, "typeUrl");
            let kind = url.rsplit('.').next().unwrap_or_default();
            format!("{kind} {} {}", word(row, "name"), word(row, "configStatus"))
        };
        rows.unwrap_or_default().iter().map(line).collect()
    }
}
