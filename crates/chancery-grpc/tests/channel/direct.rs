//! Channels without a control plane: names of DNS, addresses and URLs.

use chancery_client::credentials::{Identity, TlsFiles};
use chancery_grpc::{
    Channel, ChannelBuilder, ChannelError, ChannelPolicy, Credentials, ExplainedOutcome,
    WaitForReady,
};
use http::HeaderMap;
use tokio::net::UnixListener;
use tokio::task::JoinSet;
use tonic::Code;

use super::certificates::{Authority, Folder};
use super::support::{Backend, PATIENCE, answer_on, call, call_to, name, spread, until, with};

/// A builder whose channel is not that of a machine that has a proxy.
fn insecure(target: &str) -> ChannelBuilder {
    ChannelBuilder::new(target).credentials(Credentials::insecure()).without_proxy()
}

fn channel(builder: ChannelBuilder) -> Channel {
    builder.build().expect("a channel")
}

async fn scheme(channel: &Channel) -> String {
    call_to(channel, "/t/scheme", with("k", "v")).await.expect("an answer")
}

/// C-117: the first address of a name that answers takes the calls, under the name in the target.
#[tokio::test]
async fn a_name_of_dns_leads_to_its_addresses() {
    let a = Backend::start("a").await;
    let port = a.address.port();
    for target in [format!("dns:///localhost:{port}"), format!("localhost:{port}")] {
        let channel = channel(insecure(&target));
        let answer = call_to(&channel, "/t/echo", with("k", "v")).await.expect("an answer");
        assert_eq!(answer, format!("a localhost:{port} -"), "{target}");
    }
    let url = channel(ChannelBuilder::new(&format!("http://localhost:{port}")).authority("b"));
    let answer = call_to(&url, "/t/echo", with("k", "v")).await.expect("an answer");
    assert_eq!(answer, "a b -");
    assert_eq!(scheme(&url).await, "http");
}

/// C-113, C-117: addresses are tried in their order, or used in turn; what fails is left.
#[tokio::test]
async fn addresses_are_used_by_the_policy() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let target = format!("ipv4:{},{}", a.address, b.address);
    let first = channel(insecure(&target));
    assert_eq!(spread(&first, 10).await, [("a".to_owned(), 10)].into());
    let turn = channel(insecure(&target).policy(ChannelPolicy::RoundRobin));
    until(&turn, "the second", |result| name(result) == Some("b")).await;
    until(&turn, "the first", |result| name(result) == Some("a")).await;
    assert_eq!(spread(&turn, 10).await, [("a".to_owned(), 5), ("b".to_owned(), 5)].into());
    assert_eq!((a.connections(), b.connections()), (1, 1), "channels share them");
    drop(a);
    until(&first, "the second", |result| name(result) == Some("b")).await;
    until(&turn, "the second alone", |result| name(result) == Some("b")).await;
}

/// C-117: a socket of Unix takes the calls, at a path or with an abstract name, and people see its name where others have
/// an address.
#[tokio::test]
async fn a_socket_of_unix_takes_calls() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("socket");
    let path = path.to_str().expect("a text");
    let absent = channel(insecure(&format!("unix://{path}-absent")));
    let failed = call(&absent).await.expect_err("nobody is there");
    assert_eq!(failed.code(), Code::Unavailable);
    assert!(failed.message().contains(&format!("unix:{path}-absent: ")), "{failed}");
    let name = format!("\0{path}");
    let mut servers = JoinSet::new();
    for (address, name) in [(path, "a"), (name.as_str(), "b")] {
        let listener = UnixListener::bind(address).expect("a socket");
        servers.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.spawn(answer_on(name, stream));
            }
        });
    }
    for (target, shown, name) in [
        (format!("unix:{path}"), format!("unix:{path}"), "a"),
        (format!("unix-abstract:{path}"), format!("unix-abstract:{path}"), "b"),
    ] {
        let channel = channel(insecure(&target));
        let answer = call_to(&channel, "/t/echo", with("k", "v")).await.expect("an answer");
        assert_eq!(answer, format!("{name} localhost -"));
        let explained = channel.explain("/t/echo", &HeaderMap::new(), PATIENCE).await;
        let ExplainedOutcome::Sent(place) = &explained.outcome else { panic!("{explained}") };
        assert_eq!(place.endpoint, shown);
        assert!(explained.to_string().contains(&format!("{shown} READY")), "{explained}");
    }
}

/// The way of a call is explained as that of a call by xDS.
#[tokio::test]
async fn a_call_without_a_control_plane_is_explained() {
    let a = Backend::start("a").await;
    let channel = channel(insecure(&format!("ipv4:{}", a.address)));
    assert_eq!(name(&call(&channel).await), Some("a"));
    let explained = channel.explain("/t/echo", &HeaderMap::new(), PATIENCE).await;
    let ExplainedOutcome::Sent(told) = &explained.outcome else { panic!("{explained}") };
    assert_eq!(told.address, a.address);
    assert!(explained.balancing.is_some(), "{explained}");
}

/// C-127: a certificate has to be for the host in the target, or for the authority that replaces it.
#[tokio::test]
async fn a_certificate_is_for_the_host_of_the_target() {
    let authority = Authority::new();
    let folder = Folder::trusting(&authority);
    let credentials = || {
        let ca = Some(folder.path("ca.pem"));
        Credentials::tls(TlsFiles { ca, ..TlsFiles::default() })
    };
    let a = Backend::secured("a", authority.server(&["localhost", "b.example"])).await;
    let port = a.address.port();
    let to = |target: String| ChannelBuilder::new(&target).credentials(credentials());
    let by_name = [format!("https://localhost:{port}/"), format!("dns:///localhost:{port}")];
    for target in by_name {
        assert_eq!(scheme(&channel(to(target))).await, "https");
    }
    let by_address = || to(format!("ipv4:{}", a.address));
    assert_eq!(scheme(&channel(by_address().authority("b.example"))).await, "https");
    let asked = a.asked.lock().expect("no panic").last().cloned();
    assert_eq!(asked, Some(Some("b.example".to_owned())));
    for (builder, host) in
        [(by_address(), "127.0.0.1"), (by_address().authority("c.example"), "c.example")]
    {
        let refused = call(&channel(builder)).await.expect_err("it is refused");
        assert_eq!(refused.code(), Code::Unavailable);
        let why = format!("not for the host `{host}`");
        assert!(refused.message().contains(&why), "{refused}");
    }
}

/// C-121: files of the program make mutual TLS. A server that wants a certificate refuses a client without one.
#[tokio::test]
async fn a_program_has_its_own_certificate() {
    let authority = Authority::new();
    let folder = Folder::trusting(&authority);
    folder.identify(&authority.sign(&["client.example"]));
    let a = Backend::secured("a", authority.mutual_server(&["localhost"])).await;
    let files = TlsFiles { ca: Some(folder.path("ca.pem")), ..TlsFiles::default() };
    let (cert, key) = (folder.path("cert.pem"), folder.path("key.pem"));
    let with_identity = TlsFiles { identity: Some(Identity { cert, key }), ..files.clone() };
    let target = format!("https://localhost:{}", a.address.port());
    let to = |files| channel(ChannelBuilder::new(&target).credentials(Credentials::tls(files)));
    assert_eq!(name(&call(&to(with_identity)).await), Some("a"));
    let refused = call(&to(files)).await.expect_err("it is refused");
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("CertificateRequired"), "{refused}");
}

/// A name without an address fails calls with the reason, and those that wait do so until their deadline.
#[tokio::test]
async fn a_name_that_is_not_found_fails_calls() {
    let channel = channel(insecure("dns:///a..b:80"));
    let failed = call(&channel).await.expect_err("there is no such name");
    assert_eq!(failed.code(), Code::Unavailable);
    assert!(failed.message().contains("cluster `dns:///a..b:80`: `a..b`"), "{failed}");
    let mut request = with("k", "v");
    request.extensions_mut().insert(WaitForReady);
    request.set_timeout(std::time::Duration::from_millis(50));
    let waited = call_to(&channel, "/t/echo", request).await.expect_err("nobody comes");
    assert_eq!(waited.code(), Code::DeadlineExceeded);
}

/// The program has to say how connections are secured, once.
#[tokio::test]
async fn a_channel_without_security_is_no_channel() {
    let fault = |builder: ChannelBuilder| builder.build().expect_err("it is no channel");
    let tls = || Credentials::tls(TlsFiles::default());
    for target in ["dns:///a:80", "a:80", "ipv4:10.0.0.1:80"] {
        assert!(matches!(fault(ChannelBuilder::new(target)), ChannelError::NoCredentials(_)));
    }
    for (target, credentials) in [("http://a", tls()), ("https://a", Credentials::insecure())] {
        let fault = fault(ChannelBuilder::new(target).credentials(credentials));
        assert!(matches!(fault, ChannelError::Credentials(_)), "{fault}");
    }
    let policy = ChannelBuilder::new("xds:///a").policy(ChannelPolicy::RoundRobin);
    assert!(matches!(fault(policy), ChannelError::Policy(_)));
    for target in ["vsock:2:1", "etcd:///a", "a:b", ""] {
        let fault = fault(insecure(target));
        assert!(matches!(fault, ChannelError::OrdinaryTarget { .. }), "{fault}");
    }
    // The fallback counts where there is no control plane.
    let xds = Credentials::xds(Credentials::insecure());
    channel(ChannelBuilder::new("a:80").credentials(xds));
}
