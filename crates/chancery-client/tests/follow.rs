//! A listener and all it leads to, from the server of this project.

use std::time::Duration;

use chancery_client::bootstrap::{Node, XdsServer};
use chancery_client::credentials::ChannelCredentials;
use chancery_client::options::Variant;
use chancery_client::watch::{XdsConfigResult, XdsConfigWatch};
use chancery_client::{Bootstrap, Client, Options};
use chancery_core::Snapshot;
use chancery_proto::document::{Format, parse};
use chancery_proto::schema::Schema;
use chancery_testkit::TestServer;

/// The resources of a text in YAML.
fn snapshot(yaml: &str) -> Snapshot {
    let parsed = parse(&Schema::bundled(), Format::Yaml, yaml.as_bytes());
    assert!(parsed.faults.is_empty(), "{:?}", parsed.faults);
    let mut snapshot = Snapshot::new();
    for one in parsed.resources {
        snapshot.insert(&one.type_url, (*one.resource).clone());
    }
    snapshot
}

const LISTENER: &str = r#"
- "@type": type.googleapis.com/envoy.config.listener.v3.Listener
  name: service
  api_listener:
    api_listener:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: x
      rds: {route_config_name: routes, config_source: {ads: {}}}
"#;

/// Routes to these clusters.
fn routes(clusters: &[&str]) -> String {
    let routes = clusters
        .iter()
        .map(|name| format!("    - {{match: {{prefix: /{name}}}, route: {{cluster: {name}}}}}\n"));
    format!(
        r#"
- "@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
  name: routes
  virtual_hosts:
  - name: all
    domains: ["*"]
    routes:
{}"#,
        routes.collect::<String>()
    )
}

/// A cluster of type EDS.
fn cluster(name: &str) -> String {
    format!(
        r#"
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: {name}
  type: EDS
  eds_cluster_config: {{eds_config: {{ads: {{}}}}}}
"#
    )
}

fn endpoints(name: &str, port: u16) -> String {
    format!(
        r#"
- "@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
  cluster_name: {name}
  endpoints:
  - lb_endpoints:
    - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}
"#
    )
}

fn client(server: &TestServer, variant: Variant) -> Client {
    let uri = server.address().to_string();
    let channel = ChannelCredentials::Insecure;
    let bootstrap = Bootstrap {
        servers: vec![XdsServer { uri, channel, ..XdsServer::default() }],
        node: Node { id: "test".to_owned(), ..Node::default() },
        ..Bootstrap::default()
    };
    Client::new(&bootstrap, Options { variant, ..Options::default() }).expect("a bootstrap")
}

/// The next config, in short.
async fn next(follow: &mut XdsConfigWatch) -> String {
    let waiting = tokio::time::timeout(Duration::from_secs(60), follow.next());
    let published: XdsConfigResult =
        waiting.await.expect("it is published").expect("the client lives");
    match published {
        Err(error) => format!("error {:?}", error.kind),
        Ok(assembly) => {
            let parts = assembly.resources.iter().map(|((of, name), part)| {
                let without = if part.is_ok() { "" } else { "!" };
                format!("{without}{} {name}", of.short())
            });
            parts.collect::<Vec<_>>().join(", ")
        }
    }
}

/// C-057, C-059, C-060
#[tokio::test]
async fn a_listener_is_followed_to_its_endpoints() {
    for variant in [Variant::Sotw, Variant::Delta] {
        let before = [LISTENER, &routes(&["a"]), &cluster("a"), &endpoints("a", 1)].concat();
        let server = TestServer::start(snapshot(&before)).await.expect("a server");
        let client = client(&server, variant);
        let mut follow = client.follow("service".parse().expect("a name"));
        assert_eq!(next(&mut follow).await, "cds a, eds a, rds routes");
        let after = [LISTENER, &routes(&["b"]), &cluster("b"), &endpoints("b", 2)].concat();
        server.publish(snapshot(&after));
        let mut published = next(&mut follow).await;
        while published != "cds b, eds b, rds routes" {
            // The old ones may be told to be gone before the new ones are there, never in between.
            assert!(published.contains("cds a") && !published.contains("cds b"), "{published}");
            published = next(&mut follow).await;
        }
        let watched: Vec<_> =
            follow.watched().map(|(of, name)| format!("{} {name}", of.short())).collect();
        assert_eq!(watched.len(), 4, "{watched:?}");
    }
}

/// C-060: thousands of clusters, one of them without endpoints.
#[tokio::test]
async fn thousands_of_clusters_are_followed_and_fail_for_themselves() {
    let names: Vec<_> = (0..2000).map(|number| format!("c{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut all = [LISTENER.to_owned(), routes(&names)].concat();
    for (port, name) in (1..).zip(&names) {
        all += &cluster(name);
        if *name != "c7" {
            all += &endpoints(name, port);
        }
    }
    let server = TestServer::start(snapshot(&all)).await.expect("a server");
    let client = client(&server, Variant::Delta);
    let mut follow = client.follow("service".parse().expect("a name"));
    let published = next(&mut follow).await;
    assert_eq!(published.split(", ").count(), 4001);
    let failed: Vec<_> = published.split(", ").filter(|part| part.starts_with('!')).collect();
    assert_eq!(failed, ["!eds c7"]);
}
