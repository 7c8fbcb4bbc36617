//! Clients and servers of every implementation that prove themselves to each other, and servers that permit.

use std::convert::Infallible;
use std::pin::Pin;
use std::process::Command;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::json;
use tonic::body::Body;
use tonic::codegen::Service;

use super::Batch;
use super::backends::{Answer, message};
use super::clients::Client;
use super::resources::Service as Resources;
use super::servers::{ours, program};
use crate::grpc::{CLIENT_TLS, SERVER_TLS, bootstrap, file_watcher, server};
use crate::support::chancery::{Chancery, Directory};
use crate::support::clients::clients;
use crate::support::ports::Port;
use crate::support::tls::CertificateAuthority;

const PERMISSION_DENIED: u32 = 7;
const PATH: &str = "/hello.Greeter/SayHello";
const SERVERS: [&str; 3] = ["chancery", "python", "go"];

/// The service of all servers here: `hello BODY from NAME`.
#[derive(Clone, Copy)]
struct Greeter(&'static str);

impl Service<Request<Body>> for Greeter {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let name = self.0;
        Box::pin(async move {
            let body = request.into_body().collect().await.map(|body| body.to_bytes());
            let body = body.unwrap_or_default();
            let text = String::from_utf8_lossy(body.get(5..).unwrap_or_default()).into_owned();
            Ok(message(&format!("hello {text} from {name}")))
        })
    }
}

/// The listener of a server that asks for certificates, and denies calls with a header.
fn listener(port: &Port) -> String {
    let number = port.number();
    let extensions = "type.googleapis.com/envoy.extensions.filters";
    format!(
        r#"
- "@type": type.googleapis.com/envoy.config.listener.v3.Listener
  name: grpc/server?xds.resource.listening_address=127.0.0.1:{number}
  address: {{socket_address: {{address: 127.0.0.1, port_value: {number}}}}}
  filter_chains:
  - name: chain
    filters:
    - name: hcm
      typed_config:
        "@type": {extensions}.network.http_connection_manager.v3.HttpConnectionManager
        stat_prefix: server
        route_config:
          name: inline
          virtual_hosts:
          - name: vh
            domains: ["*"]
            routes: [{{match: {{prefix: ""}}, non_forwarding_action: {{}}}}]
        http_filters:
        - name: rbac
          typed_config:
            "@type": {extensions}.http.rbac.v3.RBAC
            rules:
              action: ALLOW
              policies:
                known:
                  permissions: [{{not_rule: {{header: {{name: forbidden, string_match: {{exact: "yes"}}}}}}}}]
                  principals: [{{authenticated: {{principal_name: {{exact: "spiffe://td.example/client"}}}}}}]
        - name: router
          typed_config: {{"@type": {extensions}.http.router.v3.Router}}
{SERVER_TLS}"#
    )
}

/// The resources of a client of one server.
fn service(name: &str, port: &Port) -> String {
    let routes = format!("[{{match: {{prefix: /}}, route: {{cluster: {name}}}}}]");
    let fields = CLIENT_TLS.trim_start();
    let service = Resources::new(name, &routes).cluster(name, fields);
    service.endpoints(name, &[(0, 1, &[port.number()])], "").0
}

/// C-121 to C-124, C-129, C-140 to C-146: every client calls every server over mutual TLS, with certificates that the
/// resources name; and every server denies what RBAC denies, and whoever has no certificate.
#[test]
fn every_client_and_every_server_prove_themselves() {
    let Some(programs) = clients() else { return };
    let dir = tempfile::tempdir().expect("there is a temporary directory");
    let authority = CertificateAuthority::new(&dir.path().join("tls"));
    authority.issue("client");
    authority.issue("server");
    let ports = SERVERS.map(|_| Port::reserve());
    let directory = Directory::new(dir.path(), "config");
    for (name, port) in SERVERS.iter().zip(&ports) {
        directory.write(&format!("{name}-server.yaml"), &listener(port));
        directory.write(&format!("{name}-client.yaml"), &service(name, port));
    }
    let chancery = Chancery::serve(&directory);
    let plain = bootstrap(&[server(&format!("127.0.0.1:{}", chancery.port()))]);
    let with_files = |name: &str| {
        let mut bootstrap = plain.clone();
        let config = file_watcher(&authority, name);
        bootstrap["certificate_providers"] =
            json!({"files": {"plugin_name": "file_watcher", "config": config}});
        bootstrap
    };
    let (of_servers, of_clients) = (with_files("server"), with_files("client"));
    let greets = |name: &str, mut command: Command, port: &Port| {
        command.args([&port.number().to_string(), name, "xds"]);
        program(dir.path(), name, command, &of_servers)
    };
    let _servers = [
        ours(&ports[0], &of_servers, Greeter("chancery")),
        greets("python", programs.python("server.py"), &ports[1]),
        greets("go", programs.grpc_go("server"), &ports[2]),
    ];
    let secured = |mut command: Command| {
        command.arg("--xds-credentials");
        command
    };
    let (python, go) = (secured(programs.python("calls.py")), secured(programs.grpc_go("calls")));
    let clients = [
        Client::ours(&of_clients),
        Client::program("C-core", dir.path(), python, &of_clients),
        Client::program("Go", dir.path(), go, &of_clients),
    ];
    for mut client in clients {
        for name in SERVERS {
            let waits = Batch { timeout: 30.0, ..Batch::one(name, PATH) };
            let outcome = client.until(&waits.json("permitted"), |outcome| outcome.code == 0);
            assert_eq!(outcome.text, format!("hello call from {name}"), "{}", client.name);
            let denied = waits.with(&[("forbidden", "yes")]);
            let outcome = client.calls(&denied.json("denied")).remove(0);
            assert_eq!(outcome.code, PERMISSION_DENIED, "{} {name}: {outcome:?}", client.name);
        }
    }
    // A client of the same authority that is not the one whom RBAC knows, and one without a certificate.
    let mut other = Client::ours(&of_servers);
    for name in SERVERS {
        let outcome = other.calls(&Batch::one(name, PATH).json("other")).remove(0);
        assert_eq!(outcome.code, PERMISSION_DENIED, "{name}: {outcome:?}");
    }
}
