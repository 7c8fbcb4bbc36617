//! Two real Envoys whose listeners differ by what they say of themselves.

use crate::support::backend::Backend;
use crate::support::bootstrap::{Bootstrap, Transport};
use crate::support::chancery::{Chancery, Directory};
use crate::support::clients::{RealClients, clients};
use crate::support::envoy::{Envoy, VERSIONS};
use crate::support::ports::Port;
use crate::support::resources::{Source, cluster, endpoints, listener, rds, routes};
use crate::support::wait;

const VALUES: &str = "---
values:
- type: lds
  name: l1
  set:
    address.socket_address.port_value: ${node.metadata.port}
    filter_chains[0].filters[0].typed_config.stat_prefix: in-${node.id}
";

/// An Envoy with an id and metadata of its own, whose traffic goes to that port.
fn start(
    clients: &RealClients,
    test: &std::path::Path,
    bootstrap: &Bootstrap,
    (id, metadata): (&str, &str),
    listener: u16,
) -> Envoy {
    let admin = Port::reserve();
    let yaml = bootstrap.yaml(id, admin.number());
    let yaml = yaml.replace("{purpose: test}", metadata);
    Envoy::start_with(clients.envoy(VERSIONS[0]), test, &yaml, admin, listener)
}

fn two_nodes_have_their_own_ports(kind: &str) {
    let Some(clients) = clients() else { return };
    let dir = tempfile::tempdir().expect("there is a temporary directory");
    let (first, second) = (Backend::start("first"), Backend::start("second"));
    let ports = [Port::reserve(), Port::reserve()];
    let directory = Directory::new(dir.path(), "config");
    let text = listener("l1", 1, &rds("r1", Source::Ads), "");
    directory.write("lds.yaml", &format!("{text}{VALUES}"));
    directory.write("rds.yaml", &routes("r1", "web"));
    let web =
        |backend: &Backend| cluster("web", Source::Ads) + &endpoints("web", &[backend.port()]);
    directory.write("clusters.yaml", &web(&first));
    let chancery = Chancery::serve(&directory);
    let bootstrap = Bootstrap::ads(kind).server("xds", chancery.port(), Transport::H2c);
    let [a, b] = ports.each_ref().map(Port::number);
    let metadata = [format!("{{port: {a}}}"), format!("{{port: \"{b}\"}}")];
    let mut one = start(&clients, dir.path(), &bootstrap, ("a", &metadata[0]), a);
    let mut other = start(&clients, dir.path(), &bootstrap, ("b", &metadata[1]), b);
    for envoy in [&mut one, &mut other] {
        envoy.is_live();
        envoy.answers_from("first");
    }
    assert!(one.stat("http.in-a.downstream_rq_total") > 0, "{:?}", one.stats("http.in-"));
    assert!(other.stat("http.in-b.downstream_rq_total") > 0, "{:?}", other.stats("http.in-"));

    // A node that does not say its port gets nothing, and says so; the others go on.
    let mark = chancery.mark();
    let third = start(&clients, dir.path(), &bootstrap, ("c", "{}"), a);
    chancery.says_after(mark, "node `c` cannot be served: `node.metadata.port` is not stated");
    wait::holds("Envoy to tell why it is refused", || {
        // As gRPC encodes it.
        third
            .output()
            .replace("%20", " ")
            .contains("%60node.metadata.port%60 is not stated, and lds")
    });
    drop(third);

    // Changes reach both, and each keeps its port.
    directory.write("clusters.yaml", &web(&second));
    one.answers_from("second");
    other.answers_from("second");
    let text = text.replace("  address:\n", "  stat_prefix: new\n  address:\n");
    directory.write("lds.yaml", &format!("{text}{VALUES}"));
    for (envoy, port) in [(&one, a), (&other, b)] {
        wait::holds("the new listener", || {
            envoy
                .admin("/config_dump")
                .is_some_and(|dump| dump.contains("\"stat_prefix\": \"new\""))
        });
        let address = envoy.admin("/listeners").unwrap_or_default();
        assert!(address.contains(&format!("127.0.0.1:{port}")), "{address}");
        envoy.answers_from("second");
    }

    // A load that asks both for more is held, and names them.
    let more = VALUES.replace("    filter", "    stat_prefix: ${node.metadata.team}\n    filter");
    directory.write("lds.yaml", &format!("{text}{more}"));
    chancery
        .says("2 connected nodes would be refused: node `a`: `node.metadata.team` is not stated");
    one.answers_from("second");
    one.refused_nothing();
    other.refused_nothing();
}

#[test]
fn two_nodes_have_their_own_ports_over_sotw() {
    two_nodes_have_their_own_ports("GRPC");
}

#[test]
fn two_nodes_have_their_own_ports_over_delta() {
    two_nodes_have_their_own_ports("DELTA_GRPC");
}
