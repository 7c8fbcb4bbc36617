//! The headers of streams: tokens, and credentials of the program's own (C-003, C-009).

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chancery_client::Bootstrap;
use chancery_client::bootstrap::{BootstrapReader, Value, XdsServer};
use chancery_client::credentials::{
    Alpn, CallCredentials, CallPlugin, ChannelCredentials, ChannelPlugin, Credentials,
    CredentialsError, PluginCredentials, PluginFuture, Plugins,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio_rustls::rustls::ClientConfig;

use crate::common;
use crate::common::{CertificateAuthority, ClientFiles, Echo, chain, tls};

const NOW: SystemTime = UNIX_EPOCH;

/// `e30.{"exp":4000000000}.secret`
const TOKEN: &str = "e30.eyJleHAiOjQwMDAwMDAwMDB9.secret";

/// The credentials of another program: TLS as `files` has it, and a header on each stream.
struct Own {
    tls: Credentials,
    header: &'static str,
}

impl ChannelPlugin for Own {
    fn tls(&self) -> PluginFuture<'_, Arc<ClientConfig>> {
        Box::pin(async { Ok(self.tls.tls().await?.ok_or("insecure")?) })
    }

    fn metadata(&self, _: SystemTime) -> PluginFuture<'_, HeaderMap> {
        Box::pin(async { Ok(headers("x-channel", self.header)) })
    }
}

/// A header that says what time it is.
struct Clock;

impl CallPlugin for Clock {
    fn metadata(&self, now: SystemTime) -> PluginFuture<'_, HeaderMap> {
        Box::pin(async move {
            let seconds = now.duration_since(UNIX_EPOCH)?.as_secs().to_string();
            Ok(headers("x-clock", &seconds))
        })
    }
}

fn headers(name: &'static str, value: &str) -> HeaderMap {
    [(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())].into_iter().collect()
}

/// A reader that knows `google_default` and `clock`.
fn reader(files: &ClientFiles) -> BootstrapReader {
    let (channel, mut plugins) = (ChannelCredentials::Tls(files.tls()), Plugins::default());
    plugins.channel("google_default", move |config| match config {
        Value::Null => {
            let tls = common::credentials(channel.clone());
            Ok(Arc::new(Own { tls, header: "own" }))
        }
        _ => Err("it takes no config".into()),
    });
    plugins.call("clock", |_| Ok(Arc::new(Clock)));
    BootstrapReader { plugins, ..BootstrapReader::default() }
}

fn entry(channel: &str, call: &str) -> String {
    format!(r#"{{"server_uri": "a", "channel_creds": [{channel}], "call_creds": [{call}]}}"#)
}

const GOOGLE: &str = r#"{"type": "google_default"}"#;
const INSECURE: &str = r#"{"type": "insecure"}"#;
const CLOCK: &str = r#"{"type": "clock", "config": {"key": "secret"}}"#;

/// C-003, C-009.
#[tokio::test]
async fn what_a_program_brings_with_it_is_known_by_its_type() {
    let authority = CertificateAuthority::new();
    let files = ClientFiles::new(&authority, &authority.sign());
    let server = reader(&files).server(&entry(GOOGLE, CLOCK)).unwrap();
    let credentials = server.credentials(Alpn::Http2);
    let echo = Echo::start(&authority, Some(&authority)).await;
    let io = echo.connect(tls(&credentials).await).await.unwrap();
    assert_eq!(io.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let headers = credentials.metadata(NOW + Duration::from_secs(7)).await.unwrap();
    assert_eq!(
        (&headers["x-channel"], &headers["x-clock"]),
        (&"own".parse().unwrap(), &"7".parse().unwrap())
    );
    assert!(headers.values().all(HeaderValue::is_sensitive));
}

/// C-003.
#[test]
fn what_nobody_brings_is_unknown() {
    let plain = BootstrapReader::default();
    let server = plain.server(&entry(&format!("{GOOGLE}, {INSECURE}"), CLOCK)).unwrap();
    assert_eq!((server.channel, server.calls), (ChannelCredentials::Insecure, Vec::new()));
    let error = plain.server(&entry(GOOGLE, "")).unwrap_err().to_string();
    assert!(error.contains("only `google_default`; known are `insecure`, `tls`"), "{error}");
    let authority = CertificateAuthority::new();
    let reader = reader(&ClientFiles::new(&authority, &authority.sign()));
    let error = reader.server(&entry(r#"{"type": "other"}"#, "")).unwrap_err().to_string();
    assert!(error.contains("known are `insecure`, `tls`, `google_default`"), "{error}");
}

/// C-009.
#[test]
fn a_bad_config_of_a_known_type_fails_the_bootstrap() {
    let authority = CertificateAuthority::new();
    let reader = reader(&ClientFiles::new(&authority, &authority.sign()));
    let error =
        reader.server(&entry(r#"{"type": "google_default", "config": 1}"#, "")).unwrap_err();
    let fault = "`channel_creds[0].config` cannot be used: it takes no config";
    assert_eq!(error.faults()[0].to_string(), fault);
    assert_eq!(error.faults().len(), 1);
}

/// C-075: of two plugins that are told different things, neither is the other.
#[test]
fn plugins_are_told_apart_by_type_and_configuration() {
    let plug = |kind, config: &str| XdsServer {
        calls: vec![CallCredentials::Plugin(PluginCredentials::<dyn CallPlugin>::new(
            kind,
            Value::Text(config.to_owned()),
            Arc::new(Clock),
        ))],
        ..XdsServer::default()
    };
    assert_eq!(plug("a", "1"), plug("a", "1"));
    assert_eq!(plug("a", "1").key(), plug("a", "1").key());
    for other in [plug("a", "2"), plug("b", "1"), XdsServer::default()] {
        assert_ne!(other, plug("a", "1"));
        assert_ne!(other.key(), plug("a", "1").key());
    }
    let server = plug("a", "secret");
    let credentials = server.credentials(Alpn::Http2);
    assert!(!format!("{server:?} {:?} {credentials:?}", server.key()).contains("secret"));
}

fn with_token(channel: ChannelCredentials, path: &std::path::Path) -> Credentials {
    let calls = vec![CallCredentials::JwtTokenFile(path.to_owned())];
    let server = XdsServer { uri: "a:80".to_owned(), channel, calls, ..XdsServer::default() };
    server.credentials(Alpn::Http2)
}

/// C-009.
#[tokio::test]
async fn a_token_goes_over_tls_and_never_in_the_clear() {
    let authority = CertificateAuthority::new();
    let files = ClientFiles::new(&authority, &authority.sign());
    files.write("token", TOKEN);
    let path = files.path("token");
    let credentials = with_token(ChannelCredentials::Tls(files.tls()), &path);
    let headers = credentials.metadata(NOW).await.unwrap();
    assert_eq!(headers["authorization"], format!("Bearer {TOKEN}"));
    assert!(!format!("{headers:?} {credentials:?}").contains("secret"));
    let insecure = with_token(ChannelCredentials::Insecure, &path);
    let error = insecure.metadata(NOW).await.unwrap_err();
    assert_eq!(error.code(), 16, "UNAUTHENTICATED");
    assert!(error.to_string().starts_with("`a:80` is spoken to in the clear"), "{error}");
    assert!(
        common::credentials(ChannelCredentials::Insecure).metadata(NOW).await.unwrap().is_empty()
    );
}

/// C-009: all of them are applied.
#[tokio::test]
async fn two_tokens_are_two_headers() {
    let authority = CertificateAuthority::new();
    let files = ClientFiles::new(&authority, &authority.sign());
    files.write("token", TOKEN);
    let calls = vec![CallCredentials::JwtTokenFile(files.path("token")); 2];
    let server = XdsServer { calls, ..XdsServer::default() };
    let headers = server.credentials(Alpn::Http2).metadata(NOW).await.unwrap();
    assert_eq!(headers.get_all("authorization").iter().count(), 2);
}

#[tokio::test]
async fn a_plugin_that_fails_is_named() {
    struct Broken;
    impl CallPlugin for Broken {
        fn metadata(&self, _: SystemTime) -> PluginFuture<'_, HeaderMap> {
            Box::pin(async { Err("the agent is gone".into()) })
        }
    }
    let plugged = PluginCredentials::<dyn CallPlugin>::new("mesh", Value::Null, Arc::new(Broken));
    let calls = vec![CallCredentials::Plugin(plugged)];
    let server = XdsServer { calls, ..XdsServer::default() };
    let error = server.credentials(Alpn::Http2).metadata(NOW).await.unwrap_err();
    assert!(matches!(error, CredentialsError::Plugin { .. }));
    assert_eq!(error.code(), 14, "UNAVAILABLE");
    assert_eq!(chain(&error), "`mesh` credentials cannot be had: the agent is gone");
}

/// The bootstrap in the documents of the daemon, which has the shape of Istio's.
#[test]
fn a_whole_bootstrap_names_its_credentials() {
    let bootstrap: Bootstrap = r#"{
        "xds_servers": [{
            "server_uri": "istiod.istio-system.svc:15012",
            "channel_creds": [{"type": "tls", "config": {"ca_certificate_file": "/ca.pem"}}],
            "call_creds": [{"type": "jwt_token_file", "config": {"jwt_token_file": "/token"}}]
        }]
    }"#
    .parse()
    .unwrap();
    let key = bootstrap.servers[0].key();
    assert!(key.credentials.contains("/ca.pem") && key.credentials.contains("/token"));
}
