//! Calls that have arrived: their routes, their filters, and what the program sees.

use std::sync::Arc;

use chancery_grpc::{
    AuditEvent, AuditLogger, AuditLoggerFactory, CallSide, FilterFuture, FilterMessage,
    FilteredCall, HttpFilter, HttpFilterFactory, register_audit_logger, register_filter,
};
use http::Request;
use http_body_util::Full;
use tokio::sync::mpsc;
use tonic::Status;

use super::support::{Answer, Peer, Resources, Running, SERVED, chain, inline};
use super::{DEADLINE_EXCEEDED, OK, PERMISSION_DENIED, UNAVAILABLE, control, serving};

/// C-144: the virtual host is that of the authority, and a route is for the program if it says so.
#[tokio::test]
async fn a_call_needs_a_route_to_the_program() {
    let control = control().await;
    let mut server = Running::start(&control);
    let routes = "route_config: {name: r, virtual_hosts: [\
        {name: a, domains: [a.example], routes: [\
            {match: {path: /t/forwarded}, route: {cluster: x}}, \
            {match: {path: /t/redirected}, redirect: {host_redirect: b}}, \
            {match: {path: /t/echo, headers: [{name: tenant, string_match: {exact: one}}]}, non_forwarding_action: {}}]}, \
        {name: b, domains: [\"*.example\"], routes: [{match: {prefix: /t/}, non_forwarding_action: {}}]}]}";
    control.publish(Resources::default().simple(server.address, routes).snapshot());
    server.serves().await;
    let mut peer = Peer::connect(server.address).await;
    assert_eq!(peer.call("b.example", "/t/forwarded").await.code, OK);
    for (authority, path, why) in [
        ("a.example", "/t/forwarded", "is not a `non_forwarding_action`"),
        ("a.example", "/t/redirected", "is not a `non_forwarding_action`"),
        ("a.example", "/t/echo", "no route of virtual host"),
        ("b.example", "/u/echo", "no route of virtual host"),
        ("elsewhere", "/t/echo", "no virtual host"),
    ] {
        let answer = peer.call(authority, path).await;
        assert_eq!(answer.code, UNAVAILABLE, "{authority}{path} {answer:?}");
        assert!(answer.text.contains(why), "{authority}{path} {answer:?}");
    }
    let request = Request::post("http://a.example/t/echo").header("tenant", "one");
    let answer = peer.send(request.body(Full::default()).expect("a request"));
    assert_eq!(answer.await.expect("no panic").code, OK);
}

/// C-129: RBAC refuses calls, and routes have rules of their own.
#[tokio::test]
async fn a_call_needs_permission() {
    let control = control().await;
    let mut server = Running::start(&control);
    const RBAC: &str = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC";
    let deny = |path: &str| {
        format!(
            "rules: {{action: DENY, policies: {{p: {{permissions: [{{url_path: {{path: {{exact: {path}}}}}}}], \
             principals: [{{direct_remote_ip: {{address_prefix: 127.0.0.0, prefix_len: 8}}}}]}}}}}}"
        )
    };
    let filter =
        format!("{{name: rbac, typed_config: {{\"@type\": {RBAC}, {}}}}},", deny("/t/secret"));
    let own = format!(
        "typed_per_filter_config: {{rbac: {{\"@type\": {RBAC}PerRoute, rbac: {{{}}}}}}}",
        deny("/t/own/secret")
    );
    let routes = format!(
        "[{{match: {{prefix: /t/own/}}, non_forwarding_action: {{}}, {own}}}, \
          {{match: {{prefix: /t/}}, non_forwarding_action: {{}}}}]"
    );
    let fields = format!("default_filter_chain: {}", chain("", &inline(&routes), &filter));
    control.publish(Resources::default().listener(server.address, &fields).snapshot());
    server.serves().await;
    let mut peer = Peer::connect(server.address).await;
    for (path, code) in [
        ("/t/echo", OK),
        ("/t/secret", PERMISSION_DENIED),
        ("/t/own/echo", OK),
        ("/t/own/secret", PERMISSION_DENIED),
    ] {
        let answer = peer.call("service", path).await;
        assert_eq!(answer.code, code, "{path} {answer:?}");
        // The peer does not hear which policy it was.
        assert!(code == OK || answer.text == "the server's policy does not permit the call");
    }
}

/// A log that passes on what it hears.
#[derive(Debug)]
struct Passing(mpsc::Sender<(String, String, bool)>);

impl AuditLogger for Passing {
    fn log(&self, event: &AuditEvent<'_>) {
        let told = (event.method.to_owned(), event.policy.to_owned(), event.is_permitted);
        self.0.try_send(told).expect("room for it");
    }
}

impl AuditLoggerFactory for Passing {
    fn type_name(&self) -> &str {
        "examples.Passing"
    }

    fn read(&self, config: FilterMessage<'_>) -> Result<Arc<dyn AuditLogger>, String> {
        match config {
            FilterMessage::Json("{}") => Ok(Arc::new(Self(self.0.clone()))),
            other => Err(format!("it has no fields: {other:?}")),
        }
    }
}

/// C-129, gRFC A59: a log of the program hears of the verdicts that it is to hear of.
#[tokio::test]
async fn verdicts_are_logged() {
    let (told, mut heard) = mpsc::channel(8);
    register_audit_logger(Passing(told));
    let control = control().await;
    let mut server = Running::start(&control);
    const RBAC: &str = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC";
    let listener = |condition: &str, value: &str| {
        let logger = format!(
            "{{audit_logger: {{name: log, typed_config: {{\"@type\": type.googleapis.com/xds.type.v3.TypedStruct, \
             type_url: type.googleapis.com/examples.Passing, value: {value}}}}}}}"
        );
        let filter = format!(
            "{{name: rbac, typed_config: {{\"@type\": {RBAC}, rules: {{action: DENY, policies: {{p: \
             {{permissions: [{{url_path: {{path: {{exact: /t/secret}}}}}}], principals: [{{any: true}}]}}}}, \
             audit_logging_options: {{audit_condition: {condition}, logger_configs: [{logger}]}}}}}}}},"
        );
        let fields = format!("default_filter_chain: {}", chain("", &inline(SERVED), &filter));
        Resources::default().listener(server.address, &fields).snapshot()
    };
    let snapshots = [listener("ON_DENY_AND_ALLOW", "{a: 1}"), listener("ON_DENY", "{}")];
    let [bad, good] = snapshots;
    control.publish(bad);
    let why = super::rejection(&control, super::LDS).await;
    assert!(why.contains("audit_logging_options.logger_configs[0]: it has no fields"), "{why}");
    control.publish(good);
    server.serves().await;
    let mut peer = Peer::connect(server.address).await;
    assert_eq!(peer.call("service", "/t/echo").await.code, OK);
    assert_eq!(peer.call("service", "/t/secret").await.code, PERMISSION_DENIED);
    assert_eq!(heard.try_recv(), Ok(("/t/secret".to_owned(), "p".to_owned(), false)));
    assert!(heard.try_recv().is_err(), "nobody is to hear of the others");
}

/// C-144, C-129: `host` stands for the authority where that is missing, and only there.
#[tokio::test]
async fn host_stands_for_the_authority() {
    let control = control().await;
    let mut server = Running::start(&control);
    let routes = "route_config: {name: r, virtual_hosts: [{name: a, domains: [a.example], routes: [\
        {match: {prefix: /, headers: [{name: host, present_match: true}]}, route: {cluster: x}}, \
        {match: {prefix: /}, non_forwarding_action: {}}]}]}";
    control.publish(Resources::default().simple(server.address, routes).snapshot());
    server.serves().await;
    let mut peer = Peer::connect(server.address).await;
    let mut send = async |uri: &str, hosts: &[&str]| -> Answer {
        let mut request = Request::post(uri);
        for host in hosts {
            request = request.header("host", *host);
        }
        peer.send(request.body(Full::default()).expect("a request")).await.expect("no panic")
    };
    assert_eq!(send("http://a.example/t/echo", &[]).await.code, OK);
    assert_eq!(send("http://a.example/t/echo", &["b.example"]).await.code, OK);
    assert_eq!(send("http://b.example/t/echo", &["a.example"]).await.code, UNAVAILABLE);
    assert_eq!(send("/t/echo", &["a.example"]).await.code, OK);
    let several = send("http://a.example/t/echo", &["a.example", "a.example"]).await;
    assert_eq!(several.text, "the call has several `host` headers");
    assert_eq!(send("/t/echo", &[]).await.text, "the call has no authority");
}

/// A call ends at its deadline.
#[tokio::test]
async fn a_call_has_the_deadline_that_it_states() {
    let (_control, mut server) = serving().await;
    let mut peer = Peer::connect(server.address).await;
    let request = Request::post("http://service/t/slow").header("grpc-timeout", "20m");
    let answer = peer.send(request.body(Full::default()).expect("a request"));
    server.slow().await;
    assert_eq!(answer.await.expect("no panic").code, DEADLINE_EXCEEDED);
    let request = Request::post("http://service/t/endless").header("grpc-timeout", "20m");
    let answer = peer.send(request.body(Full::default()).expect("a request"));
    let answer = answer.await.expect("no panic");
    assert_eq!((answer.code, answer.text.as_str()), (DEADLINE_EXCEEDED, "a"));
}

/// C-142: a filter that servers do not have is rejected, and left out if calls may do without it.
#[tokio::test]
async fn filters_of_clients_are_unknown() {
    let control = control().await;
    let mut server = Running::start(&control);
    const FAULT: &str = "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault";
    let listener = |is_optional: bool| {
        let filter = format!(
            "{{name: f, is_optional: {is_optional}, typed_config: {{\"@type\": {FAULT}, \
             abort: {{grpc_status: 5, percentage: {{numerator: 100}}}}}}}},"
        );
        let fields = format!("default_filter_chain: {}", chain("", &inline(SERVED), &filter));
        Resources::default().listener(server.address, &fields).snapshot()
    };
    control.publish(listener(false));
    let why = super::rejection(&control, super::LDS).await;
    assert!(why.contains("the HTTP filter `f` is of the unknown type"), "{why}");
    control.publish(listener(true));
    server.serves().await;
    assert_eq!(super::call(server.address, "/t/echo").await.code, OK);
}

/// Denies calls without a header.
#[derive(Debug)]
struct NeedsTicket;

impl HttpFilterFactory for NeedsTicket {
    fn type_name(&self) -> &str {
        "examples.NeedsTicket"
    }

    fn is_for(&self, side: CallSide) -> bool {
        side == CallSide::Server
    }

    fn read(&self, _: FilterMessage<'_>) -> Result<Arc<dyn HttpFilter>, String> {
        Ok(Arc::new(Self))
    }
}

impl HttpFilter for NeedsTicket {
    fn before<'a>(&'a self, call: &'a mut FilteredCall<'_>) -> FilterFuture<'a> {
        let has_ticket = call.headers.contains_key("ticket");
        Box::pin(async move {
            has_ticket.then_some(()).ok_or_else(|| Status::permission_denied("no ticket"))
        })
    }
}

/// C-093: a call passes the filters of the program, and those after them.
#[tokio::test]
async fn a_filter_of_the_program_sees_calls() {
    register_filter(NeedsTicket);
    let control = control().await;
    let mut server = Running::start(&control);
    const STRUCT: &str = "\"@type\": type.googleapis.com/xds.type.v3.TypedStruct, value: {}";
    const RBAC: &str = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC";
    let filters = format!(
        "{{name: ticket, typed_config: {{{STRUCT}, type_url: type.googleapis.com/examples.NeedsTicket}}}}, \
         {{name: rbac, typed_config: {{\"@type\": {RBAC}, rules: {{action: DENY, policies: {{p: \
         {{permissions: [{{url_path: {{path: {{exact: /t/secret}}}}}}], principals: [{{any: true}}]}}}}}}}}}},"
    );
    let fields = format!("default_filter_chain: {}", chain("", &inline(SERVED), &filters));
    control.publish(Resources::default().listener(server.address, &fields).snapshot());
    server.serves().await;
    let mut peer = Peer::connect(server.address).await;
    for (path, ticket, code, text) in [
        ("/t/echo", true, OK, None),
        ("/t/echo", false, PERMISSION_DENIED, Some("no ticket")),
        (
            "/t/secret",
            true,
            PERMISSION_DENIED,
            Some("the server's policy does not permit the call"),
        ),
    ] {
        let mut request = Request::post(format!("http://service{path}"));
        if ticket {
            request = request.header("ticket", "1");
        }
        let answer = peer.send(request.body(Full::default()).expect("a request"));
        let answer = answer.await.expect("no panic");
        assert_eq!(answer.code, code, "{path} {answer:?}");
        assert!(text.is_none_or(|text| answer.text == text), "{path} {answer:?}");
    }
}
