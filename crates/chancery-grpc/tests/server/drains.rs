//! Connections that are drained while a channel makes calls on them.

use bytes::Bytes;
use chancery_core::Snapshot;
use chancery_grpc::{Channel, ChannelBuilder};
use http::Request;
use http_body_util::{BodyExt, Full};
use tokio::task::JoinSet;
use tonic::{Code, Status};
use tower_service::Service;

use super::load::Load;
use super::support::{Peer, Resources, Running, SERVED, bootstrap, chain, inline, within};
use super::{OK, control};

/// The number of calls that last from before a drain until after it.
const LONG_CALLS: usize = 4;

/// The resources of a channel to these servers, and of the servers. Another number is another listener.
fn resources(servers: &[&Running], number: usize) -> Snapshot {
    let endpoints = servers.iter().map(|server| {
        let port = server.address.port();
        format!("{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}")
    });
    let endpoints = endpoints.collect::<Vec<_>>().join(", ");
    let client = format!(
        r#"
- "@type": type.googleapis.com/envoy.config.listener.v3.Listener
  name: service
  api_listener:
    api_listener:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: x
      route_config: {{name: r, virtual_hosts: [{{name: v, domains: ["*"], routes: [{{match: {{prefix: /}}, route: {{cluster: c}}}}]}}]}}
      http_filters: [{{name: router, typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}}}]
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: c
  type: EDS
  eds_cluster_config: {{eds_config: {{ads: {{}}}}}}
- "@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
  cluster_name: c
  endpoints: [{{locality: {{zone: z}}, load_balancing_weight: 1, lb_endpoints: [{endpoints}]}}]
"#
    );
    let fields = format!("default_filter_chain: {}", chain("", &inline(SERVED), ""));
    let fields = format!("{fields}\n  stat_prefix: listener-{number}");
    let all = servers.iter();
    let all = all.fold(Resources::default(), |all, it| all.listener(it.address, &fields));
    all.yaml(&client).snapshot()
}

async fn call(mut channel: Channel, path: &str) -> Result<(), Status> {
    let request = Request::post(format!("http://service{path}"));
    let request = request.header("content-type", "application/grpc").header("te", "trailers");
    let request = request.body(Full::new(Bytes::from_static(&[0; 5]))).expect("a request");
    let (head, body) = within(channel.call(request)).await?.into_parts();
    let body = within(body.collect()).await?;
    let status = body.trailers().and_then(Status::from_header_map);
    let status = status.or_else(|| Status::from_header_map(&head.headers)).expect("a status");
    if status.code() == Code::Ok { Ok(()) } else { Err(status) }
}

fn load_of(channel: &Channel) -> Load {
    let channel = channel.clone();
    Load::of(move || call(channel.clone(), "/t/echo"))
}

/// Begins calls that last until they are released.
fn long_calls(channel: &Channel) -> JoinSet<Result<(), Status>> {
    (0..LONG_CALLS).map(|_| call(channel.clone(), "/t/slow")).collect()
}

async fn end_well(calls: JoinSet<Result<(), Status>>) {
    for ended in within(calls.join_all()).await {
        assert!(ended.is_ok(), "{ended:?}");
    }
}

/// C-145: a listener changes over and over, and no call of a channel fails, whether it is short or long.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_listener_that_changes_fails_no_call() {
    let control = control().await;
    let mut server = Running::start(&control);
    control.publish(resources(&[&server], 0));
    server.serves().await;
    let builder = ChannelBuilder::new("xds:///service").bootstrap(bootstrap(control.address()));
    let channel = builder.build().expect("a channel");
    let long = long_calls(&channel);
    for _ in 0..LONG_CALLS {
        server.slow().await;
    }
    for number in 1..=20 {
        let mut load = load_of(&channel);
        load.goes_on(100).await;
        let mut peer = Peer::connect(server.address).await;
        assert_eq!(peer.call("service", "/t/echo").await.code, OK);
        control.publish(resources(&[&server], number));
        // It is drained, as the connection of the channel is.
        peer.ended().await;
        load.goes_on(100).await;
        // A call that two connections refuse fails, as with others (gRFC A6), so each lives through one drain.
        load.ends_well().await;
    }
    server.release();
    end_well(long).await;
}

/// C-145: a server shuts down, its calls end well, and others go to another server.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_server_that_shuts_down_fails_no_call() {
    let control = control().await;
    let (mut a, mut b) = (Running::start(&control), Running::start(&control));
    control.publish(resources(&[&a, &b], 0));
    a.serves().await;
    b.serves().await;
    let builder = ChannelBuilder::new("xds:///service").bootstrap(bootstrap(control.address()));
    let channel = builder.build().expect("a channel");
    let mut load = load_of(&channel);
    load.goes_on(200).await;
    // Long calls, until both servers have one.
    let (mut long, mut at_a, mut at_b) = (JoinSet::new(), 0, 0);
    while at_a == 0 || at_b == 0 {
        long.spawn(call(channel.clone(), "/t/slow"));
        tokio::select! {
            () = a.slow() => at_a += 1,
            () = b.slow() => at_b += 1,
        }
    }
    a.stop();
    load.goes_on(500).await;
    a.release();
    b.release();
    end_well(long).await;
    within(a.task).await.expect("no panic").expect("a good end");
    load.goes_on(200).await;
    load.ends_well().await;
}
