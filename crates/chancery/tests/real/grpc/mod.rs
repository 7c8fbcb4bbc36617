//! gRPC's own xDS clients and servers: the C core in Python, gRPC for Go ([`go`]) and for Java
//! ([`java`]), grpc-js, tonic-xds, and go-control-plane's client.
//!
//! The clients are small programs that call a target over and over and print one line per call
//! (`python/`, `grpc-go/`, `grpc-java/`, `node/`, `tonic-xds/`, `go-client/`); the tests read those
//! lines.

mod clusters;
mod cycles;
mod fallback;
mod go;
mod java;
mod judged;
mod load;
mod nameless;
mod rejection;
mod seen;
mod servers;
mod status;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::chancery::{Chancery, Directory};
use crate::support::clients::{RealClients, clients};
use crate::support::ports::Port;
use crate::support::process::Process;
use crate::support::resources::endpoints;
use crate::support::tls::CertificateAuthority;

/// A directory to work in, and the programs.
struct Rig {
    clients: RealClients,
    dir: tempfile::TempDir,
}

/// Runs a test if the real clients are there.
fn with_clients(test: impl FnOnce(&Rig)) {
    let Some(clients) = clients() else { return };
    let dir = tempfile::tempdir().expect("there is a temporary directory");
    test(&Rig { clients, dir });
}

impl Rig {
    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A gRPC server that greets with the name.
    fn greeter(&self, name: &str) -> Greeter {
        let port = Port::reserve();
        let mut command = self.clients.python("server.py");
        command.args([&port.number().to_string(), name]);
        let process = Process::start(self.path(), &format!("greeter-{name}"), &mut command);
        process.says("started");
        Greeter { port, _process: process }
    }

    /// Writes a bootstrap and returns its path.
    fn bootstrap(&self, name: &str, bootstrap: &Value) -> PathBuf {
        let path = self.path().join(format!("{name}.json"));
        fs::write(&path, bootstrap.to_string()).expect("the directory is ours");
        path
    }

    /// Starts a client or server with a bootstrap.
    fn start(
        &self,
        name: &str,
        mut command: Command,
        bootstrap: &Value,
        words: &[&str],
    ) -> Process {
        command.env("GRPC_XDS_BOOTSTRAP", self.bootstrap(name, bootstrap)).args(words);
        Process::start(self.path(), name, &mut command)
    }
}

/// A plain gRPC server.
struct Greeter {
    port: Port,
    _process: Process,
}

/// A management server as a bootstrap names it.
pub(crate) fn server(uri: &str) -> Value {
    json!({
        "server_uri": uri,
        "channel_creds": [{"type": "insecure"}],
        "server_features": ["xds_v3"],
    })
}

/// A bootstrap with these management servers, the first one first.
pub(crate) fn bootstrap(servers: &[Value]) -> Value {
    json!({
        "xds_servers": servers,
        "node": {"id": "grpc-1", "cluster": "test", "locality": {"region": "r1", "zone": "z1"}},
        "server_listener_resource_name_template":
            "grpc/server?xds.resource.listening_address=%s",
    })
}

/// The bootstrap of a client of one server.
fn bootstrap_for(chancery: &Chancery) -> Value {
    bootstrap(&[server(&format!("127.0.0.1:{}", chancery.port()))])
}

/// The resources of a service: listener, routes and cluster, each under a name of the service.
///
/// `name` makes the name of a resource of a type, as in [`plain`] and [`xdstp`].
pub(crate) fn service(name: impl Fn(&str) -> String, security: &str) -> String {
    let routes = name("route.v3.RouteConfiguration");
    let cluster = name("cluster.v3.Cluster");
    let endpoints = name("endpoint.v3.ClusterLoadAssignment");
    client_listener(&name("listener.v3.Listener"), &routes)
        + &routes_by_prefix(&routes, [(String::new(), cluster.clone())])
        + &eds_cluster(&cluster, &endpoints)
        + security
}

/// The listener of a client, which leads to routes.
fn client_listener(name: &str, routes: &str) -> String {
    format!(
        "\
- '@type': type.googleapis.com/envoy.config.listener.v3.Listener
  name: {name}
  api_listener:
    api_listener:
      '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      rds: {{route_config_name: '{routes}', config_source: {{self: {{}}}}}}
      http_filters:
      - name: router
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
"
    )
}

/// Routes from the prefix of a path to a cluster.
fn routes_by_prefix(name: &str, routes: impl IntoIterator<Item = (String, String)>) -> String {
    let mut text = format!(
        "\
- '@type': type.googleapis.com/envoy.config.route.v3.RouteConfiguration
  name: {name}
  virtual_hosts:
  - name: vh
    domains: ['*']
    routes:
"
    );
    for (prefix, cluster) in routes {
        text += &format!("    - match: {{prefix: '{prefix}'}}\n");
        text += &format!("      route: {{cluster: '{cluster}'}}\n");
    }
    text
}

/// A cluster that gets its endpoints under a name of their own.
fn eds_cluster(name: &str, endpoints: &str) -> String {
    format!(
        "\
- '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: {name}
  type: EDS
  lb_policy: ROUND_ROBIN
  eds_cluster_config: {{eds_config: {{self: {{}}}}, service_name: '{endpoints}'}}
"
    )
}

/// The listener has the name the client asks for, the others one of their type.
pub(crate) fn plain(kind: &str) -> String {
    match kind {
        "listener.v3.Listener" => "hello.test".to_owned(),
        _ => format!("hello-{}", kind.split('.').next().expect("a word")),
    }
}

/// Every name in an authority, with the same path and parameters.
fn xdstp(authority: &'static str, path: &'static str) -> impl Fn(&str) -> String {
    move |kind| format!("xdstp://{authority}/envoy.config.{kind}/{path}")
}

/// The plain service in a directory, with endpoints.
fn hello(rig: &Rig, ports: &[u16]) -> Directory {
    let directory = Directory::new(rig.path(), "config");
    directory.write("service.yaml", &service(plain, ""));
    directory.write("eds.yaml", &endpoints("hello-endpoint", ports));
    directory
}

/// A client calls through xDS and follows when the endpoints move.
fn follows_endpoints(rig: &Rig, command: Command, scheme: &str) {
    let (one, two) = (rig.greeter("one"), rig.greeter("two"));
    let directory = hello(rig, &[one.port.number()]);
    let chancery = Chancery::serve(&directory);
    let bootstrap = bootstrap(&[server(&format!("{scheme}127.0.0.1:{}", chancery.port()))]);
    let client = rig.start("client", command, &bootstrap, &["xds:///hello.test"]);
    client.says("from one");
    directory.write("eds.yaml", &endpoints("hello-endpoint", &[two.port.number()]));
    client.says("from two");
    let both = [one.port.number(), two.port.number()];
    directory.write("eds.yaml", &endpoints("hello-endpoint", &both));
    let mark = client.mark();
    client.says_after(mark, "from one");
    client.says_after(mark, "from two");
}

// S-124
#[test]
fn python_follows_endpoints() {
    with_clients(|rig| follows_endpoints(rig, rig.clients.python("client.py"), ""));
}

#[test]
fn node_follows_endpoints() {
    with_clients(|rig| follows_endpoints(rig, rig.clients.node("client.js"), ""));
}

#[test]
fn tonic_follows_endpoints() {
    with_clients(|rig| follows_endpoints(rig, rig.clients.tonic(), "http://"));
}

/// The address that xDS-enabled servers listen on, but for one of them.
pub(crate) const LOOPBACK: &str = "127.0.0.1";

/// The listener of an xDS-enabled server, by the name that its template makes of an address.
///
/// The prefix of its statistics matters to nobody, and makes two listeners differ.
pub(crate) fn server_listener(address: &str, port: &Port, prefix: &str, security: &str) -> String {
    format!(
        "\
- '@type': type.googleapis.com/envoy.config.listener.v3.Listener
  name: grpc/server?xds.resource.listening_address={address}:{number}
  address:
    socket_address: {{address: {address}, port_value: {number}}}
  filter_chains:
  - name: chain
    filters:
    - name: hcm
      typed_config:
        '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
        stat_prefix: {prefix}
        route_config:
          name: inline
          virtual_hosts:
          - name: vh
            domains: ['*']
            routes:
            - match: {{prefix: ''}}
              non_forwarding_action: {{}}
        http_filters:
        - name: router
          typed_config:
            '@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
{security}",
        number = port.number()
    )
}

/// An xDS-enabled server serves while it has a listener, and only then.
fn follows_its_listener(rig: &Rig, command: Command, address: &str, prefixes: [&str; 2]) {
    let port = Port::reserve();
    let directory = hello(rig, &[port.number()]);
    let chancery = Chancery::serve(&directory);
    let number = port.number().to_string();
    let bootstrap = bootstrap_for(&chancery);
    let _server = rig.start("server", command, &bootstrap, &[&number, "the-server", "xds"]);
    let client = rig.clients.python("client.py");
    let client = rig.start("client", client, &bootstrap, &["xds:///hello.test"]);
    client.says("error UNAVAILABLE");
    for prefix in prefixes {
        directory.write("server.yaml", &server_listener(address, &port, prefix, ""));
        client.says_after(client.mark(), "from the-server");
        // A file goes with a listener that is in use, which somebody has to mean.
        directory.remove("server.yaml");
        chancery.confirm_once_held();
        client.says_after(client.mark(), "error UNAVAILABLE");
    }
}

// S-127
#[test]
fn a_python_server_follows_its_listener() {
    with_clients(|rig| {
        follows_its_listener(rig, rig.clients.python("server.py"), LOOPBACK, ["same", "same"]);
    });
}

// S-127
#[test]
fn a_node_server_follows_its_listener() {
    // grpc-js-xds 1.14.1 keeps a deleted listener in its cache and takes the same one coming back
    // for no news, though it acknowledges it. So another one comes back.
    with_clients(|rig| {
        follows_its_listener(rig, rig.clients.node("server.js"), LOOPBACK, ["first", "second"]);
    });
}

/// Two daemons, each the authority of its own names, and one client of both.
fn federation(rig: &Rig, command: Command, greeting: &str) {
    let (one, two) = (rig.greeter("one"), rig.greeter("two"));
    let first = Directory::new(rig.path(), "first");
    let second = Directory::new(rig.path(), "second");
    let by_default = xdstp("auth-a", "client/hello.test");
    let by_name = xdstp("auth-b", "grpc/client/hello.test?project_id=1234");
    let assignment = "endpoint.v3.ClusterLoadAssignment";
    let put = |directory: &Directory, name: &dyn Fn(&str) -> String, greeter: &Greeter| {
        directory.write("service.yaml", &service(name, ""));
        directory.write("eds.yaml", &endpoints(&name(assignment), &[greeter.port.number()]));
    };
    put(&first, &by_default, &one);
    put(&second, &by_name, &two);
    let (server_a, server_b) = (Chancery::serve(&first), Chancery::serve(&second));
    let mut bootstrap = bootstrap_for(&server_a);
    bootstrap["client_default_listener_resource_name_template"] =
        json!("xdstp://auth-a/envoy.config.listener.v3.Listener/client/%s");
    bootstrap["authorities"] = json!({
        "auth-a": {},
        "auth-b": {
            "client_listener_resource_name_template":
                "xdstp://auth-b/envoy.config.listener.v3.Listener/grpc/client/%s?project_id=1234",
            "xds_servers": [server(&format!("127.0.0.1:{}", server_b.port()))],
        },
    });
    let targets = ["xds:///hello.test", "xds://auth-b/hello.test"];
    let client = rig.start("client", command, &bootstrap, &targets);
    client.says(&format!("{}: hello {greeting} from one", targets[0]));
    client.says(&format!("{}: hello {greeting} from two", targets[1]));
    put(&second, &by_name, &one);
    client.says(&format!("{}: hello {greeting} from one", targets[1]));
}

// S-116
#[test]
fn python_federation() {
    with_clients(|rig| federation(rig, rig.clients.python("client.py"), "python"));
}

// S-116
#[test]
fn node_federation() {
    with_clients(|rig| federation(rig, rig.clients.node("client.js"), "node"));
}

/// The configuration of certificates in files, as a bootstrap has it.
pub(crate) fn file_watcher(authority: &CertificateAuthority, name: &str) -> Value {
    json!({
        "certificate_file": authority.file(&format!("{name}.pem")),
        "private_key_file": authority.file(&format!("{name}.key")),
        "ca_certificate_file": authority.file("ca.pem"),
        "refresh_interval": "600s",
    })
}

/// Client and server prove themselves to each other with certificates that the resources name.
#[test]
fn python_mutual_tls_between_client_and_server() {
    with_clients(|rig| {
        let authority = CertificateAuthority::new(&rig.path().join("tls"));
        authority.issue("client");
        authority.issue("server");
        let port = Port::reserve();
        let directory = hello(rig, &[port.number()]);
        directory.write("service.yaml", &service(plain, CLIENT_TLS));
        directory.write("server.yaml", &server_listener(LOOPBACK, &port, "server", SERVER_TLS));
        let chancery = Chancery::serve(&directory);
        let with_files = |name: &str| {
            let mut bootstrap = bootstrap_for(&chancery);
            let config = file_watcher(&authority, name);
            bootstrap["certificate_providers"] =
                json!({"files": {"plugin_name": "file_watcher", "config": config}});
            bootstrap
        };
        let number = port.number().to_string();
        let server = rig.clients.python("server.py");
        let _server =
            rig.start("server", server, &with_files("server"), &[&number, "the-server", "xds"]);
        let words = ["--xds-credentials", "xds:///hello.test"];
        let client = rig.clients.python("client.py");
        let client = rig.start("client", client, &with_files("client"), &words);
        client.says("from the-server");
        // Without a certificate the same server refuses.
        let stranger = rig.clients.python("client.py");
        let address = port.address();
        let stranger = rig.start("stranger", stranger, &bootstrap_for(&chancery), &[&address]);
        stranger.says("error UNAVAILABLE");
    });
}

/// The transport socket of a cluster whose server must be `spiffe://td.example/server`.
pub(crate) const CLIENT_TLS: &str = "  transport_socket:
    name: envoy.transport_sockets.tls
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
      common_tls_context:
        tls_certificate_provider_instance: {instance_name: files}
        combined_validation_context:
          default_validation_context:
            ca_certificate_provider_instance: {instance_name: files}
            match_subject_alt_names:
            - exact: spiffe://td.example/server
";

/// The transport socket of a listener that asks for a certificate.
pub(crate) const SERVER_TLS: &str = "    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        '@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
        require_client_certificate: true
        common_tls_context:
          tls_certificate_provider_instance: {instance_name: files}
          validation_context:
            ca_certificate_provider_instance: {instance_name: files}
";

/// The management server asks for a certificate, and gets one.
#[test]
fn python_mutual_tls_to_the_management_server() {
    with_clients(|rig| {
        let authority = CertificateAuthority::new(&rig.path().join("tls"));
        authority.issue("client");
        authority.issue("server");
        let one = rig.greeter("one");
        let directory = hello(rig, &[one.port.number()]);
        let flags = [
            ["--tls-cert".into(), authority.file("server.pem")],
            ["--tls-key".into(), authority.file("server.key")],
            ["--tls-client-ca".into(), authority.file("ca.pem")],
        ];
        let chancery = Chancery::serve_with(&directory, flags.as_flattened());
        let mut tls = server(&format!("localhost:{}", chancery.port()));
        tls["channel_creds"] =
            json!([{"type": "tls", "config": file_watcher(&authority, "client")}]);
        let client = rig.clients.python("client.py");
        let client = rig.start("client", client, &bootstrap(&[tls]), &["xds:///hello.test"]);
        client.says("from one");
    });
}

/// A client that cannot reach the first server of its bootstrap follows the second one.
fn falls_back_to_the_second_server(rig: &Rig, command: Command) {
    let (one, two) = (rig.greeter("one"), rig.greeter("two"));
    let nobody = Port::reserve();
    let directory = hello(rig, &[one.port.number()]);
    let chancery = Chancery::serve(&directory);
    let servers = [server(&nobody.address()), server(&chancery.address())];
    let client = rig.start("client", command, &bootstrap(&servers), &["xds:///hello.test"]);
    client.says("from one");
    directory.write("eds.yaml", &endpoints("hello-endpoint", &[two.port.number()]));
    client.says("from two");
}

// S-129
#[test]
fn python_falls_back_to_the_second_server() {
    with_clients(|rig| falls_back_to_the_second_server(rig, rig.clients.python("client.py")));
}

// S-032, S-033, S-040, S-041
#[test]
fn go_fetches_acknowledges_and_refuses() {
    with_clients(|rig| {
        let directory = Directory::new(rig.path(), "config");
        let cluster = |name: &str| {
            format!(
                "\
- '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: {name}
  type: STATIC
"
            )
        };
        directory.write("cds.yaml", &cluster("first"));
        let chancery = Chancery::serve(&directory);
        let address = format!("127.0.0.1:{}", chancery.port());
        let mut command = rig.clients.go();
        command.args([&address, "go-1", "cds", "3", "refuse-the-second"]);
        let mut client = Process::start(rig.path(), "client", &mut command);
        client.says("answer 1: first");
        directory.write("cds.yaml", &(cluster("first") + &cluster("second")));
        client.says("rejected 2");
        directory.write("cds.yaml", &(cluster("first") + &cluster("third")));
        client.says("answer 3: first,third");
        let ended = crate::support::wait::until("the client to end", || client.ended());
        assert!(ended.success(), "{ended}");
    });
}
