//! Certificates for tests: authorities, what they sign, and the folder of a provider.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use chancery_client::bootstrap::CertificateProvider;
use chancery_core::{Value, base64};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use tempfile::TempDir;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// An authority that signs certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

/// A certificate with its key.
pub(crate) struct Signed {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// Signs a certificate for hosts or URIs.
    pub(crate) fn sign(&self, names: &[&str]) -> Signed {
        let mut params = CertificateParams::new(vec![]).expect("no names");
        let name = |name: &&str| match name.contains("://") {
            true => SanType::URI((*name).try_into().expect("a URI")),
            false => match name.parse() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName((*name).try_into().expect("a host")),
            },
        };
        params.subject_alt_names = names.iter().map(name).collect();
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Signed { certificate, key }
    }

    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// The configuration of a server that shows a certificate.
    pub(crate) fn server(&self, names: &[&str]) -> ServerConfig {
        self.config(names, false)
    }

    /// The same that wants a certificate of the client.
    pub(crate) fn mutual_server(&self, names: &[&str]) -> ServerConfig {
        self.config(names, true)
    }

    fn config(&self, names: &[&str], is_mutual: bool) -> ServerConfig {
        let signed = self.sign(names);
        let crypto = chancery_tls::provider();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&crypto));
        let builder = builder.with_safe_default_protocol_versions().expect("versions");
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).expect("an authority");
        let builder = match is_mutual {
            false => builder.with_no_client_auth(),
            true => {
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), crypto);
                builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
            }
        };
        let chain: Vec<CertificateDer<'static>> = vec![signed.certificate.der().clone()];
        let key = PrivateKeyDer::try_from(signed.key.serialize_der()).expect("a key");
        let mut config = builder.with_single_cert(chain, key).expect("a pair");
        config.alpn_protocols = vec![b"h2".to_vec()];
        config
    }
}

/// The folder of a provider `p`, with the authorities in `ca.pem`, and a certificate and its key in `cert.pem`
/// and `key.pem`.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().expect("a folder"))
    }

    /// With the certificate of an authority.
    pub(crate) fn trusting(authority: &Authority) -> Self {
        let folder = Self::new();
        folder.trust(authority);
        folder
    }

    pub(crate) fn trust(&self, authority: &Authority) {
        fs::write(self.path("ca.pem"), authority.pem()).expect("a file");
    }

    pub(crate) fn identify(&self, signed: &Signed) {
        fs::write(self.path("cert.pem"), signed.certificate.pem()).expect("a file");
        fs::write(self.path("key.pem"), signed.key.serialize_pem()).expect("a file");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Trusts an authority in a trust domain of SPIFFE alone.
    pub(crate) fn trust_domain(&self, domain: &str, authority: &Authority) {
        let certificate = base64::encode(authority.certificate.der());
        let key = format!(r#"{{"kty": "EC", "use": "x509-svid", "x5c": ["{certificate}"]}}"#);
        let map = format!(r#"{{"trust_domains": {{"{domain}": {{"keys": [{key}]}}}}}}"#);
        fs::write(self.path("map.json"), map).expect("a file");
    }

    /// The providers of a bootstrap: `roots`, `identity` and `spiffe`, which read their files at each handshake.
    pub(crate) fn providers(&self) -> [(String, CertificateProvider); 3] {
        let provider = |name: &str, files: &[(&str, &str)]| {
            let path = |name: &str| self.path(name).to_str().expect("a text").to_owned();
            let files = files.iter().map(|(field, file)| ((*field).to_owned(), path(file)));
            let interval = ("refresh_interval".to_owned(), "0s".to_owned());
            let fields = files.chain([interval]).map(|(key, text)| (key, Value::Text(text)));
            let config = Value::Map(fields.collect());
            (name.to_owned(), CertificateProvider { plugin: "file_watcher".to_owned(), config })
        };
        [
            provider("roots", &[("ca_certificate_file", "ca.pem")]),
            provider(
                "identity",
                &[("certificate_file", "cert.pem"), ("private_key_file", "key.pem")],
            ),
            provider("spiffe", &[("spiffe_trust_bundle_map_file", "map.json")]),
        ]
    }
}
