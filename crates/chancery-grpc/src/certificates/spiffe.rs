//! The authorities of trust domains of SPIFFE (gRFC A87): a file in JSON, and the domain of a certificate.

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_core::base64;
use chancery_tls::{AlternativeName, alternative_names};
use serde_json::Value;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::reader;
use crate::read::quoted;

/// The authorities of each trust domain.
#[derive(Debug)]
pub(crate) struct Bundles(BTreeMap<String, Arc<RootCertStore>>);

impl Bundles {
    /// Reads a map of bundles. One that is malformed fails the whole file, because a part of it would be
    /// another decision than the one that somebody wrote down.
    pub(super) fn read(text: &[u8]) -> Result<Self, String> {
        let root: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let domains = root.get("trust_domains").and_then(Value::as_object);
        let domains = domains.ok_or("`trust_domains` is missing, or no object")?;
        let mut bundles = BTreeMap::new();
        for (domain, bundle) in domains {
            if !is_domain(domain) {
                return Err(format!("`{}` is no trust domain", quoted(domain)));
            }
            let store = bundle_of(bundle);
            let store =
                store.map_err(|why| format!("the trust domain `{}`: {why}", quoted(domain)))?;
            bundles.insert(domain.clone(), Arc::new(store));
        }
        Ok(Self(bundles))
    }

    /// Returns the authorities that may have signed this certificate: those of the trust domain that it is in.
    pub(super) fn of(
        &self,
        certificate: &CertificateDer<'_>,
    ) -> Result<&Arc<RootCertStore>, String> {
        let domain = domain_of(certificate)?;
        let bundle = self.0.get(domain);
        bundle.ok_or_else(|| format!("the trust domain `{}` is not trusted", quoted(domain)))
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        self.0.len() == other.0.len()
            && pairs.all(|(one, other)| one.0 == other.0 && one.1.roots == other.1.roots)
    }
}

/// Reads the keys of a bundle that are certificates. Those for other uses, as for tokens, are left out.
fn bundle_of(bundle: &Value) -> Result<RootCertStore, String> {
    let keys = bundle.get("keys").and_then(Value::as_array);
    let keys = keys.ok_or("`keys` is missing, or no list")?.iter().enumerate();
    let keys = keys.filter(|(_, key)| key.get("use").and_then(Value::as_str) == Some(USE));
    let certificates = keys.map(|(at, key)| {
        let chain = key.get("x5c").and_then(Value::as_array).map(Vec::as_slice);
        let Some([Value::String(text)]) = chain else {
            return Err(format!("`keys[{at}].x5c` has not one certificate"));
        };
        base64::decode(text).ok_or_else(|| format!("`keys[{at}].x5c` is no base64"))
    });
    reader::store(certificates.collect::<Result<Vec<_>, _>>()?)
}

/// Returns the trust domain of a certificate. It has one URI, which is an identity of SPIFFE.
fn domain_of<'a>(certificate: &'a CertificateDer<'_>) -> Result<&'a str, String> {
    let names = alternative_names(certificate, usize::MAX);
    let mut uris = names.into_iter().filter_map(|name| match name {
        AlternativeName::Uri(uri) => Some(uri),
        _ => None,
    });
    let (Some(uri), None) = (uris.next(), uris.next()) else {
        return Err("the certificate has not one URI, and trust is by SPIFFE".to_owned());
    };
    domain_in(uri).ok_or_else(|| format!("`{}` is no identity of SPIFFE", quoted(uri)))
}

fn domain_in(uri: &str) -> Option<&str> {
    let rest = uri.strip_prefix("spiffe://").filter(|_| uri.len() <= MAX_ID_BYTES)?;
    let (domain, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_path = rest.len() == domain.len() || path.split('/').all(is_segment);
    (is_path && is_domain(domain)).then_some(domain)
}

fn is_segment(segment: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    !matches!(segment, "" | "." | "..") && segment.bytes().all(is_allowed)
}

fn is_domain(domain: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9') || b".-_".contains(&byte);
    (1..=MAX_DOMAIN_BYTES).contains(&domain.len()) && domain.bytes().all(is_allowed)
}

/// The use of a key that is the certificate of an authority.
const USE: &str = "x509-svid";
const MAX_ID_BYTES: usize = 2048;
const MAX_DOMAIN_BYTES: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_of_spiffe_has_a_domain() {
        // gRFC A87
        for uri in ["spiffe://a.example", "spiffe://a.example/b", "spiffe://a.example/b/C_d-.e"] {
            assert_eq!(domain_in(uri), Some("a.example"), "{uri}");
        }
        let long = format!("spiffe://a/{}", "b".repeat(MAX_ID_BYTES));
        for uri in [
            "spiffe://",
            "spiffe:///b",
            "SPIFFE://a",
            "https://a/b",
            "spiffe://A/b",
            "spiffe://a/",
            "spiffe://a//b",
            "spiffe://a/../b",
            "spiffe://a/b?c",
            "spiffe://a:1/b",
            &long,
        ] {
            assert_eq!(domain_in(uri), None, "{uri}");
        }
    }

    #[test]
    fn a_map_that_is_malformed_is_no_map() {
        // C-125
        let fault = |text: &str| Bundles::read(text.as_bytes()).unwrap_err();
        assert_eq!(fault("{}"), "`trust_domains` is missing, or no object");
        assert_eq!(fault(r#"{"trust_domains": {"A": {"keys": []}}}"#), "`A` is no trust domain");
        let bundle = |keys: &str| fault(&format!(r#"{{"trust_domains": {{"a": {keys}}}}}"#));
        assert_eq!(bundle("{}"), "the trust domain `a`: `keys` is missing, or no list");
        for (chain, why) in [
            ("[]", "`keys[0].x5c` has not one certificate"),
            (r#"["", ""]"#, "`keys[0].x5c` has not one certificate"),
            (r#"["?"]"#, "`keys[0].x5c` is no base64"),
        ] {
            let keys = format!(r#"{{"keys": [{{"use": "x509-svid", "x5c": {chain}}}]}}"#);
            assert_eq!(bundle(&keys), format!("the trust domain `a`: {why}"));
        }
        bundle(r#"{"keys": [{"use": "x509-svid", "x5c": ["eA=="]}]}"#);
        let other = r#"{"trust_domains": {"a": {"keys": [{"use": "jwt-svid"}, {}]}}}"#;
        assert!(Bundles::read(other.as_bytes()).unwrap().0["a"].is_empty());
    }
}
