//! HTTP filters and balancing policies that a program adds.

use std::any::Any;
use std::sync::{Arc, Once};

use chancery_calls::balancing::{
    Balancer, Choose, ConnectAll, Context, Member, Observers, Pick, PickArgs, Picked, Picker,
    PolicyConfig, PolicyFactory,
};
use chancery_grpc::{
    FilterFuture, FilterMessage, FilteredCall, HttpFilter, HttpFilterFactory, register_filter,
    register_policy,
};
use chancery_testkit::TestServer;
use http::HeaderValue;
use tonic::{Code, Status};

use super::one_route;
use super::support::{Backend, Resources, call, call_to, channel, code, spread, until, with};

/// Adds everything here to the process, once.
fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        register_filter(StampFactory);
        register_policy(LastFactory);
    });
}

/// Sets a header to what its configuration says, and denies calls that ask for it.
#[derive(Debug)]
struct StampFactory;

#[derive(Debug)]
struct Stamp(HeaderValue);

impl HttpFilterFactory for StampFactory {
    fn type_name(&self) -> &str {
        "examples.Stamp"
    }

    fn read(&self, config: FilterMessage<'_>) -> Result<Arc<dyn HttpFilter>, String> {
        let FilterMessage::Json(json) = config else { return Err("a struct is needed".into()) };
        let fields: serde_json::Value =
            serde_json::from_str(json).map_err(|error| error.to_string())?;
        let value = fields["stamp"].as_str().ok_or("`stamp` is not a text")?;
        Ok(Arc::new(Stamp(HeaderValue::from_str(value).map_err(|error| error.to_string())?)))
    }
}

impl HttpFilter for Stamp {
    fn before<'a>(&'a self, call: &'a mut FilteredCall<'_>) -> FilterFuture<'a> {
        Box::pin(async move {
            if call.headers.contains_key("deny") {
                return Err(Status::permission_denied("a stamp was denied"));
            }
            call.headers.insert("to", self.0.clone());
            Ok(())
        })
    }
}

/// Sends all calls to the last endpoint that is ready.
#[derive(Debug)]
struct LastFactory;

#[derive(Debug, Default)]
struct Last;

#[derive(Debug)]
struct LastPicker(Option<Picked>);

impl PolicyFactory for LastFactory {
    fn name(&self) -> &str {
        "examples.Last"
    }

    fn read(&self, _: &str) -> Result<Arc<dyn Any + Send + Sync>, String> {
        Ok(Arc::new(()))
    }

    fn policy(&self) -> Box<dyn Balancer> {
        Box::new(ConnectAll::<Last>::default())
    }
}

impl Choose for Last {
    type Kept = ();

    fn update(&mut self, _: &PolicyConfig, _: &mut [Member], _: &mut Context<'_>) {}

    fn picker(&mut self, endpoints: &[Member]) -> Arc<dyn Picker> {
        let last = endpoints.iter().rev().find_map(|it| it.picked(Observers::new()));
        Arc::new(LastPicker(last))
    }
}

impl Picker for LastPicker {
    fn pick(&self, _: &mut PickArgs<'_>) -> Pick {
        self.0.clone().map_or(Pick::Queue, Pick::To)
    }
}

fn typed_struct(type_name: &str, fields: &str) -> String {
    format!(
        "{{\"@type\": type.googleapis.com/xds.type.v3.TypedStruct, type_url: type.googleapis.com/{type_name}, \
         value: {fields}}}"
    )
}

/// C-093: a call passes the filter before it is sent, with the configuration of its route.
#[tokio::test]
async fn a_filter_of_the_program_sees_calls() {
    register();
    let backend = Backend::serve(|request| async move {
        let stamp = request.headers().get("to").and_then(|it| it.to_str().ok()).unwrap_or("-");
        Ok(super::support::message(stamp, "0"))
    });
    let backend = backend.await;
    let stamp = |text: &str| typed_struct("examples.Stamp", &format!("{{stamp: {text}}}"));
    let filters = format!("- {{name: stamp, typed_config: {}}}", stamp("all"));
    let routes = format!(
        "[{{match: {{path: /t/one}}, route: {{cluster: x}}, typed_per_filter_config: {{stamp: {}}}}}, \
          {{match: {{prefix: /}}, route: {{cluster: x}}}}]",
        stamp("one")
    );
    let resources = Resources::default().filtered_routes(&filters, &routes).cluster("x", "");
    let server = TestServer::start(resources.endpoints("x", &[&[&backend]]).snapshot());
    let server = server.await.expect("a server");
    let channel = channel(&server);
    for (path, expected) in [("/t/all", "all"), ("/t/one", "one")] {
        let answer = call_to(&channel, path, with("k", "v")).await;
        assert_eq!(answer.as_deref().ok(), Some(expected), "{answer:?}");
    }
    let denied = call_to(&channel, "/t/all", with("deny", "v")).await;
    assert_eq!((code(&denied), backend.calls()), (Code::PermissionDenied, 2), "{denied:?}");
}

/// C-093: a listener with a configuration that the filter does not take is rejected.
#[tokio::test]
async fn a_configuration_that_a_filter_refuses_is_rejected() {
    register();
    let backend = Backend::start("a").await;
    let config = typed_struct("examples.Stamp", "{stamp: 1}");
    let filters = format!("- {{name: stamp, typed_config: {config}}}");
    let resources = Resources::default().filtered_routes(&filters, &one_route("x"));
    let resources = resources.cluster("x", "").endpoints("x", &[&[&backend]]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let answer = call(&channel(&server)).await.expect_err("no configuration");
    assert_eq!(answer.code(), Code::Unavailable);
    assert!(answer.message().contains("`stamp` is not a text"), "{answer}");
}

/// C-112: a cluster is balanced by the policy that its configuration names.
#[tokio::test]
async fn a_policy_of_the_program_chooses() {
    register();
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let config = typed_struct("examples.Last", "{}");
    let policy = format!(
        "load_balancing_policy: {{policies: [{{typed_extension_config: {{name: x, typed_config: {config}}}}}]}}"
    );
    let resources = Resources::default().routes(&one_route("x")).cluster("x", &policy);
    let server = TestServer::start(resources.endpoints("x", &[&[&a, &b]]).snapshot());
    let server = server.await.expect("a server");
    let channel = channel(&server);
    until(&channel, "the last", |result| result.as_deref().ok() == Some("b")).await;
    assert_eq!(spread(&channel, 20).await, [("b".to_owned(), 20)].into());
}
