//! A channel and a server of this crate, both configured by one control plane, with generated code of tonic.

use chancery_grpc::ChannelBuilder;
use tonic::{Code, Request, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::control;
use super::support::{Resources, Running, SERVED, bootstrap, inline, within};

/// C-140, C-144: calls of a generated client reach a generated server.
#[tokio::test]
async fn a_channel_calls_a_server() {
    let control = control().await;
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("orders", ServingStatus::NotServing).await;
    let mut server = Running::with(control.address(), "127.0.0.1", |builder| builder, |_| health);
    let port = server.address.port();
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
  endpoints: [{{locality: {{zone: z}}, load_balancing_weight: 1, lb_endpoints: [
    {{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}]}}]
"#
    );
    let resources = Resources::default().simple(server.address, &inline(SERVED)).yaml(&client);
    control.publish(resources.snapshot());
    server.serves().await;
    let builder = ChannelBuilder::new("xds:///service").bootstrap(bootstrap(control.address()));
    let channel = builder.build().expect("a channel");
    let request = || HealthCheckRequest { service: "orders".to_owned() };
    let mut client = HealthClient::new(channel.clone());
    let answer = within(client.check(request())).await.expect("an answer").into_inner();
    assert_eq!(answer.status, ServingStatus::NotServing as i32);
    // An interceptor lets a call pass, or answers it itself.
    let mut is_first = true;
    let interceptor = move |call: Request<()>| match std::mem::take(&mut is_first) {
        true => Err(Status::permission_denied("not today")),
        false => Ok(call),
    };
    let mut client = HealthClient::with_interceptor(channel, interceptor);
    let refused = within(client.check(request())).await.expect_err("it is refused");
    assert_eq!(refused.code(), Code::PermissionDenied);
    let answer = within(client.check(request())).await.expect("an answer").into_inner();
    assert_eq!(answer.status, ServingStatus::NotServing as i32);
}

/// C-136: the state of a server is told as that of channels is, also with a bootstrap of its own.
#[tokio::test]
async fn the_state_of_servers_is_told() {
    let control = control().await;
    let mut server = Running::start(&control);
    let address = server.address;
    control.publish(Resources::default().simple(address, &inline(SERVED)).snapshot());
    server.serves().await;
    let told = chancery_grpc::client_status();
    let mut resources = told.iter().flat_map(|client| &client.generic_xds_configs);
    assert!(resources.any(|it| *it.name == format!("server/{address}")), "{told:?}");
}

/// C-140: the bootstrap and the resources of docs/server.md are enough for a server.
#[tokio::test]
async fn the_documentation_has_all_that_a_server_needs() {
    const PAGE: &str = include_str!("../../../../docs/server.md");
    let block = |language: &str| {
        let (_, rest) = PAGE.split_once(&format!("```{language}\n")).expect("a block");
        rest.split_once("```").expect("its end").0
    };
    let documented: chancery_client::Bootstrap = block("json").parse().expect("a bootstrap");
    let control = control().await;
    let mut server = Running::set(&control, |builder| {
        let server_template = documented.server_template.clone();
        let own = bootstrap(control.address());
        builder.bootstrap(chancery_client::Bootstrap { server_template, ..own })
    });
    let (ip, port) = (server.address.ip(), server.address.port());
    let resources = block("yaml").replace("0.0.0.0", &ip.to_string());
    let resources = resources.replace("50051", &port.to_string());
    control.publish(Resources::default().yaml(&resources).snapshot());
    server.serves().await;
    assert_eq!(super::call(server.address, "/t/echo").await.code, super::OK);
}
