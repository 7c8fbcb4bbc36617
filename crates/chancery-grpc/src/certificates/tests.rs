//! Providers with real files, which are replaced.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use chancery_core::{Value, base64};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use tempfile::TempDir;
use tokio::time::advance;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use super::*;

/// A folder with the files of a provider.
struct Folder(TempDir);

/// A certificate and its key, as PEM.
struct Pair {
    certificate: String,
    key: String,
}

fn pair(name: &str) -> Pair {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    Pair { certificate: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
}

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn write_pair(&self, pair: &Pair) {
        self.write("cert.pem", &pair.certificate);
        self.write("key.pem", &pair.key);
    }

    /// The provider `p` of files with these fields, of a bootstrap of its own.
    fn provider(&self, fields: &[(&str, &str)]) -> Provider {
        let value = |key: &str, name: &str| match key {
            "refresh_interval" => Value::Text(name.to_owned()),
            _ => Value::Text(self.path(name).to_str().unwrap().to_owned()),
        };
        let fields = fields.iter().map(|(key, name)| ((*key).to_owned(), value(key, name)));
        certificates("file_watcher", Value::Map(fields.collect())).provider("p")
    }

    fn pair_and_authorities(&self) -> Provider {
        self.provider(&[
            ("certificate_file", "cert.pem"),
            ("private_key_file", "key.pem"),
            ("ca_certificate_file", "ca.pem"),
        ])
    }
}

fn certificates(plugin: &str, config: Value) -> Certificates {
    let provider = CertificateProvider { plugin: plugin.to_owned(), config };
    let certificate_providers = [("p".to_owned(), provider)].into();
    Certificates::new(&Bootstrap { certificate_providers, ..Bootstrap::default() })
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

async fn shown(provider: &Provider) -> CertificateDer<'static> {
    provider.identity().await.unwrap().cert[0].clone()
}

/// C-124: what is read is kept for ten minutes, and for as long as it stays the same.
#[tokio::test(start_paused = true)]
async fn files_are_read_again_after_the_interval() {
    let folder = Folder::new();
    let (first, second) = (pair("a"), pair("b"));
    folder.write_pair(&first);
    folder.write("ca.pem", &first.certificate);
    let provider = folder.pair_and_authorities();
    let before = provider.identity().await.unwrap();
    advance(Duration::from_secs(600)).await;
    assert!(Arc::ptr_eq(&before, &provider.identity().await.unwrap()), "it is the same");
    folder.write_pair(&second);
    advance(Duration::from_secs(599)).await;
    assert_eq!(shown(&provider).await, der(&first.certificate));
    advance(Duration::from_secs(1)).await;
    assert_eq!(shown(&provider).await, der(&second.certificate));
}

/// C-124: a certificate that is replaced before its key is used when the key is there; authorities that come
/// with them do not wait for it.
#[tokio::test(start_paused = true)]
async fn a_certificate_and_its_key_are_replaced_together() {
    let folder = Folder::new();
    let (first, second) = (pair("a"), pair("b"));
    folder.write_pair(&first);
    folder.write("ca.pem", &first.certificate);
    let provider = folder.pair_and_authorities();
    let trusted = async || match provider.trust().await.unwrap() {
        Trust::Authorities(authorities) => authorities.len(),
        Trust::Bundles(_) => panic!("there are none"),
    };
    assert_eq!((shown(&provider).await, trusted().await), (der(&first.certificate), 1));
    folder.write("cert.pem", &second.certificate);
    folder.write("ca.pem", &format!("{}{}", first.certificate, second.certificate));
    advance(Duration::from_secs(600)).await;
    assert_eq!((shown(&provider).await, trusted().await), (der(&first.certificate), 2));
    folder.write("key.pem", &second.key);
    assert_eq!(shown(&provider).await, der(&first.certificate));
    advance(Duration::from_secs(1)).await;
    assert_eq!(shown(&provider).await, der(&second.certificate));
}

/// C-124: a file that breaks leaves what was read in use, and one that never was whole is an error.
#[tokio::test(start_paused = true)]
async fn a_file_that_breaks_leaves_the_last_good_one_in_use() {
    let folder = Folder::new();
    let pair = pair("a");
    folder.write("ca.pem", &pair.certificate);
    let provider = folder.pair_and_authorities();
    let missing = provider.identity().await.unwrap_err().to_string();
    assert!(missing.contains("key.pem"), "{missing}");
    provider.trust().await.unwrap();
    folder.write_pair(&pair);
    advance(Duration::from_secs(1)).await;
    assert_eq!(shown(&provider).await, der(&pair.certificate));
    for text in ["", "no PEM", "-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n"] {
        folder.write("cert.pem", text);
        folder.write("ca.pem", text);
        advance(Duration::from_secs(600)).await;
        assert_eq!(shown(&provider).await, der(&pair.certificate), "{text}");
        provider.trust().await.unwrap();
    }
}

/// C-124: providers with the same files are one, and the interval is that of the configuration.
#[tokio::test(start_paused = true)]
async fn providers_with_the_same_files_are_one() {
    let folder = Folder::new();
    let (first, second) = (pair("a"), pair("b"));
    folder.write("ca.pem", &first.certificate);
    let fields = [("ca_certificate_file", "ca.pem"), ("refresh_interval", "0.5s")];
    let (one, same) = (folder.provider(&fields), folder.provider(&fields));
    assert_eq!(one, same);
    assert_ne!(one, folder.provider(&fields[..1]));
    let before = same.trust().await.unwrap();
    folder.write("ca.pem", &second.certificate);
    advance(Duration::from_millis(500)).await;
    assert!(!one.trust().await.unwrap().is_same(&before));
    let none = one.identity().await.unwrap_err().to_string();
    assert_eq!(none, "the provider has no `certificate_file`, and a certificate is needed");
}

/// C-124: without an interval each handshake reads the files.
#[tokio::test(start_paused = true)]
async fn an_interval_of_nothing_reads_each_time() {
    let folder = Folder::new();
    let fields = [("ca_certificate_file", "ca.pem"), ("refresh_interval", "0s")];
    let provider = folder.provider(&fields);
    provider.trust().await.unwrap_err();
    for name in ["a", "b"] {
        folder.write("ca.pem", &pair(name).certificate);
        provider.trust().await.unwrap();
    }
}

/// C-124: many who ask at the same time get one answer.
#[tokio::test(start_paused = true)]
async fn many_who_ask_at_once_get_the_same_certificate() {
    let folder = Folder::new();
    let pair = pair("a");
    folder.write_pair(&pair);
    folder.write("ca.pem", &pair.certificate);
    let provider = folder.pair_and_authorities();
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let provider = provider.clone();
        asking.spawn(async move { provider.identity().await.unwrap() });
    }
    let all = asking.join_all().await;
    assert!(all.iter().all(|one| Arc::ptr_eq(one, &all[0])));
}

/// C-124: a provider that cannot be used is an error of its own.
#[tokio::test]
async fn a_provider_that_is_not_known_fails_by_itself() {
    let fault = async |certificates: Certificates, name: &str| {
        certificates.provider(name).trust().await.unwrap_err().to_string()
    };
    let place = "`certificate_providers[\"p\"]` of the bootstrap";
    assert_eq!(
        fault(certificates("mesh_ca", Value::Null), "p").await,
        format!("{place}: the plugin `mesh_ca` is not known, only `file_watcher`")
    );
    assert_eq!(
        fault(certificates("mesh_ca", Value::Null), "q").await,
        "`certificate_providers` of the bootstrap has no `q`"
    );
    let text = |text: &str| Value::Text(text.to_owned());
    for (config, why) in [
        (Value::Null, "`config` names no file"),
        (Value::Bool(true), "`config` is no object"),
        (
            Value::Map([("certificate_file".to_owned(), text("/c"))].into()),
            "`config.private_key_file` is missing",
        ),
        (
            Value::Map(
                [
                    ("ca_certificate_file".to_owned(), text("/c")),
                    ("refresh_interval".to_owned(), text("-1s")),
                ]
                .into(),
            ),
            "`config.refresh_interval` is no duration: `-1s`",
        ),
    ] {
        assert_eq!(
            fault(certificates("file_watcher", config), "p").await,
            format!("{place}: {why}")
        );
    }
}

/// C-125: the trust domain of a certificate chooses its authorities, and one that is not listed has none. A map
/// that breaks leaves the one before in use.
#[tokio::test(start_paused = true)]
async fn a_trust_domain_chooses_the_authorities() {
    let authority = || {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        (certificate, Issuer::new(params, key))
    };
    let ((one, issuer), (other, _)) = (authority(), authority());
    let leaf = |uris: &[&str]| {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        let uris = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap()));
        params.subject_alt_names.extend(uris);
        params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap().der().clone()
    };
    let key = |der: &[u8]| {
        let text = base64::encode(der);
        format!(r#"{{"keys": [{{"kty": "EC", "use": "x509-svid", "x5c": ["{text}"]}}]}}"#)
    };
    let folder = Folder::new();
    let map = format!(
        r#"{{"trust_domains": {{"one.example": {}, "other.example": {}}}}}"#,
        key(&one),
        key(&other)
    );
    folder.write("map.json", &map);
    let fields =
        [("spiffe_trust_bundle_map_file", "map.json"), ("ca_certificate_file", "none.pem")];
    let provider = folder.provider(&fields);
    let trust = provider.trust().await.unwrap();
    let subject_of = |uri: &str| {
        let store = Arc::clone(trust.of(&leaf(&[uri])).unwrap());
        assert_eq!(store.len(), 1);
        store.roots[0].subject_public_key_info.clone()
    };
    let (first, second) =
        (subject_of("spiffe://one.example/a"), subject_of("spiffe://other.example"));
    assert_ne!(first, second);
    let fault = |uris: &[&str]| trust.of(&leaf(uris)).unwrap_err().to_string();
    assert_eq!(fault(&["spiffe://c.example/a"]), "the trust domain `c.example` is not trusted");
    assert_eq!(fault(&["https://one.example/"]), "`https://one.example/` is no identity of SPIFFE");
    let not_one = "the certificate has not one URI, and trust is by SPIFFE";
    assert_eq!(fault(&[]), not_one);
    assert_eq!(fault(&["spiffe://one.example", "spiffe://other.example"]), not_one);
    folder.write("map.json", "{");
    advance(Duration::from_secs(600)).await;
    assert!(provider.trust().await.unwrap().is_same(&trust));
}
