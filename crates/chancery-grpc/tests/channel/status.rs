//! The state of channels, for tools that ask by CSDS.

use chancery_client::Options;
use chancery_client::bootstrap::XdsServer;
use chancery_client::credentials::ChannelCredentials;
use chancery_client::status::{ClientConfig, ResourceState, StatusQuestion, StatusServer, fetch};
use chancery_testkit::TestServer;

use super::one_route;
use super::support::ports::Port;
use super::support::{Backend, Resources, call, channel, within};

/// C-136: a server of CSDS tells of all channels of the process, each by its target, and of no channel that is gone.
#[tokio::test]
async fn the_state_of_channels_is_told_by_csds() {
    let backend = Backend::start("a").await;
    let resources = Resources::default().routes(&one_route("told")).cluster("told", "");
    let server = TestServer::start(resources.endpoints("told", &[&[&backend]]).snapshot());
    let server = server.await.expect("a server");
    let channel = channel(&server);
    call(&channel).await.expect("an answer");
    let port = Port::reserve();
    let address = port.address().parse().expect("an address");
    let status = StatusServer::start(address, chancery_grpc::client_status).await.expect("a port");
    let told = asked(&status).await;
    let is_ours = |client: &&ClientConfig| {
        let mut configs = client.generic_xds_configs.iter();
        client.client_scope == "xds:///service" && configs.any(|it| &*it.name == "told")
    };
    let ours = told.iter().find(is_ours).expect("it is told of");
    let states = ours.generic_xds_configs.iter().map(|it| (it.type_url.short(), it.client_status));
    let acked = Some(ResourceState::Acked);
    let expected = [("lds", acked), ("cds", acked), ("eds", acked)];
    assert!(expected.iter().all(|state| states.clone().any(|it| it == *state)), "{ours:?}");
    drop(channel);
    assert!(!asked(&status).await.iter().any(|client| is_ours(&client)));
}

async fn asked(server: &StatusServer) -> Vec<ClientConfig> {
    let uri = server.address().to_string();
    let at = XdsServer { uri, channel: ChannelCredentials::Insecure, ..XdsServer::default() };
    let (question, options) = (StatusQuestion::default(), Options::default());
    let asking = fetch(&at, &question, &options);
    within(asking).await.expect("an answer")
}
