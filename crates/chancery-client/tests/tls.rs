//! TLS to a real server, with files that are replaced while the client runs (C-003, C-008).
//!
//! Time stands still unless a test moves it.

use std::time::Duration;

use chancery_client::bootstrap::XdsServer;
use chancery_client::credentials::{Alpn, ChannelCredentials, CredentialsError, TlsFiles};
use tokio::time::advance;

use crate::common::{
    CertificateAuthority, ClientFiles, Echo, chain, credentials, der, echoed, shown, tls,
};

const INTERVAL: Duration = Duration::from_secs(600);
const MOMENT: Duration = Duration::from_millis(1);

/// C-008.
#[tokio::test(start_paused = true)]
async fn new_connections_use_what_is_in_the_files_after_ten_minutes() {
    let authority = CertificateAuthority::new();
    let mut server = Echo::start(&authority, Some(&authority)).await;
    let (one, two) = (authority.sign(), authority.sign());
    let files = ClientFiles::new(&authority, &one);
    let credentials = files.credentials();
    let mut first = server.connect(tls(&credentials).await).await.unwrap();
    assert_eq!(server.saw().await, Some(der(&one.cert)));
    files.write("cert", &two.cert);
    files.write("key", &two.key);
    advance(INTERVAL - MOMENT).await;
    server.connect(tls(&credentials).await).await.unwrap();
    assert_eq!(server.saw().await, Some(der(&one.cert)), "read again too early");
    advance(MOMENT).await;
    server.connect(tls(&credentials).await).await.unwrap();
    assert_eq!(server.saw().await, Some(der(&two.cert)));
    // A connection that is open has nothing to do with it.
    echoed(&mut first).await.unwrap();
}

/// C-008.
#[tokio::test(start_paused = true)]
async fn a_certificate_and_its_key_are_replaced_together_or_not_at_all() {
    let authority = CertificateAuthority::new();
    let mut server = Echo::start(&authority, Some(&authority)).await;
    let (one, two) = (authority.sign(), authority.sign());
    let files = ClientFiles::new(&authority, &one);
    let credentials = files.credentials();
    tls(&credentials).await;
    files.write("cert", &two.cert);
    advance(INTERVAL).await;
    server.connect(tls(&credentials).await).await.unwrap();
    assert_eq!(server.saw().await, Some(der(&one.cert)));
    // The next connection looks again, and does not wait for another ten minutes.
    files.write("key", &two.key);
    server.connect(tls(&credentials).await).await.unwrap();
    assert_eq!(server.saw().await, Some(der(&two.cert)));
}

/// C-008.
#[tokio::test(start_paused = true)]
async fn files_that_cannot_be_used_leave_the_last_good_ones_in_use() {
    let authority = CertificateAuthority::new();
    let mut server = Echo::start(&authority, Some(&authority)).await;
    let one = authority.sign();
    for (broken, content) in
        [("ca", "nothing"), ("ca", ""), ("cert", "nothing"), ("key", "nothing"), ("key", &one.cert)]
    {
        let files = ClientFiles::new(&authority, &one);
        let credentials = files.credentials();
        tls(&credentials).await;
        files.write(broken, content);
        advance(INTERVAL).await;
        server.connect(tls(&credentials).await).await.unwrap();
        assert_eq!(server.saw().await, Some(der(&one.cert)), "{broken}");
        std::fs::remove_file(files.path(broken)).unwrap();
        server.connect(tls(&credentials).await).await.unwrap();
        assert_eq!(server.saw().await, Some(der(&one.cert)), "{broken}");
    }
}

/// C-008: one part that is broken does not hold up the other.
#[tokio::test(start_paused = true)]
async fn authorities_are_replaced_like_certificates() {
    let (old, new) = (CertificateAuthority::new(), CertificateAuthority::new());
    let mut server = Echo::start(&new, Some(&old)).await;
    let pair = old.sign();
    let files = ClientFiles::new(&old, &pair);
    let credentials = files.credentials();
    let refused = server.connect(tls(&credentials).await).await.unwrap_err().to_string();
    assert!(refused.contains("invalid peer certificate"), "{refused}");
    files.write("ca", &new.pem);
    files.write("key", "broken");
    advance(INTERVAL).await;
    server.connect(tls(&credentials).await).await.unwrap();
    assert_eq!(server.saw().await, Some(der(&pair.cert)));
}

/// C-008: what is not there yet is no reason not to start.
#[tokio::test(start_paused = true)]
async fn files_that_are_not_there_yet_are_looked_for_at_each_connection() {
    let authority = CertificateAuthority::new();
    let mut server = Echo::start(&authority, Some(&authority)).await;
    let (one, two) = (authority.sign(), authority.sign());
    let files = ClientFiles::new(&authority, &one);
    let credentials = files.credentials();
    for name in ["ca", "cert", "key"] {
        let (path, beside) = (files.path(name), files.path("beside"));
        std::fs::rename(&path, &beside).unwrap();
        let error = credentials.tls().await.unwrap_err();
        assert_eq!(error.code(), 14, "UNAVAILABLE");
        assert_eq!(error.to_string(), format!("cannot read {}", shown(&path)));
        std::fs::write(&path, "").unwrap();
        let error = chain(&credentials.tls().await.unwrap_err());
        assert!(error.contains(&shown(&path)), "{error}");
        std::fs::rename(&beside, &path).unwrap();
    }
    files.write("key", &two.key);
    let error = chain(&credentials.tls().await.unwrap_err());
    assert!(error.contains("with key") && error.contains("KeyMismatch"), "{error}");
    files.write("key", &one.key);
    server.connect(tls(&credentials).await).await.unwrap();
    assert_eq!(server.saw().await, Some(der(&one.cert)));
}

/// C-008.
#[tokio::test]
async fn a_client_without_an_identity_shows_none() {
    let authority = CertificateAuthority::new();
    let mut open = Echo::start(&authority, None).await;
    let strict = Echo::start(&authority, Some(&authority)).await;
    let files = ClientFiles::new(&authority, &authority.sign());
    let anonymous = TlsFiles { identity: None, ..files.tls() };
    let anonymous = credentials(ChannelCredentials::Tls(anonymous));
    open.connect(tls(&anonymous).await).await.unwrap();
    assert_eq!(open.saw().await, None);
    assert!(strict.connect(tls(&anonymous).await).await.is_err());
    strict.connect(tls(&files.credentials()).await).await.unwrap();
}

/// C-008: the authorities of the system do not know the one of this test.
#[tokio::test]
async fn without_a_file_the_system_says_whom_to_trust() {
    let server = Echo::start(&CertificateAuthority::new(), None).await;
    match credentials(ChannelCredentials::default()).tls().await {
        Ok(config) => {
            let refused = server.connect(config.unwrap()).await.unwrap_err().to_string();
            assert!(refused.contains("UnknownIssuer"), "{refused}");
        }
        // A container may have none at all.
        Err(error) => assert!(error.to_string().contains("the system has no certificates")),
    }
}

#[tokio::test]
async fn grpc_is_offered_http2_alone_and_rest_both_versions() {
    let authority = CertificateAuthority::new();
    let server = Echo::start(&authority, None).await;
    let files = ClientFiles::new(&authority, &authority.sign());
    let asked = XdsServer { channel: ChannelCredentials::Tls(files.tls()), ..XdsServer::default() };
    for (alpn, chosen) in [(Alpn::Http2, &b"h2"[..]), (Alpn::Any, b"http/1.1")] {
        let io = server.connect(tls(&asked.credentials(alpn)).await).await.unwrap();
        assert_eq!(io.get_ref().1.alpn_protocol(), Some(chosen), "{alpn:?}");
    }
}

/// C-003.
#[tokio::test]
async fn an_insecure_channel_has_no_tls() {
    assert!(credentials(ChannelCredentials::Insecure).tls().await.unwrap().is_none());
}

#[tokio::test]
async fn keys_are_never_printed() {
    let authority = CertificateAuthority::new();
    let pair = authority.sign();
    let files = ClientFiles::new(&authority, &pair);
    let credentials = files.credentials();
    tls(&credentials).await;
    let secret = pair.key.lines().nth(1).unwrap();
    assert!(!format!("{credentials:?}").contains(secret));
    files.write("cert", "broken");
    let error = files.credentials().tls().await.unwrap_err();
    assert!(matches!(error, CredentialsError::Tls(_)));
    assert!(!format!("{error:?} {}", chain(&error)).contains(secret));
}
