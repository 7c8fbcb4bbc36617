//! The certificates that stand in a resource: those of a server or client with their keys, and those of
//! authorities.
//!
//! Not here: what is in a certificate, and files that a resource names.

use bytes::Bytes;
use chancery_core::TypeUrl;
use prost_reflect::{DynamicMessage, ReflectMessage, Value};

use crate::schema::Schema;
use crate::walk::{message_in, value_in, walk};

/// Certificates in a resource, as PEM. There is no debug output, because a key is a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Certificates {
    /// Those that somebody shows, the own one first.
    Shown {
        /// The path of the field, as in `tls_certificate`.
        path: String,
        /// The certificates.
        chain: Bytes,
        /// The private key, if it stands in the resource too. It is a secret.
        key: Option<Bytes>,
    },
    /// Those of authorities.
    Authorities {
        /// The path of the field.
        path: String,
        /// The certificates.
        authorities: Bytes,
    },
}

/// Finds all certificates in a resource. The result is empty for a body that cannot be decoded.
pub fn certificates(schema: &Schema, type_url: &TypeUrl, body: &Bytes) -> Vec<Certificates> {
    const BEGIN: &[u8] = b"-----BEGIN ";
    // Most resources have none, and a look at the bytes is cheaper than reading them.
    if !body.windows(BEGIN.len()).any(|part| part == BEGIN) {
        return Vec::new();
    }
    let Some(of) = schema.message(type_url.as_str()) else { return Vec::new() };
    let Ok(message) = DynamicMessage::decode(of, body.clone()) else { return Vec::new() };
    let mut found = Vec::new();
    walk(&message, &mut |path, message| match message.descriptor().full_name() {
        CERTIFICATE => {
            let Some(chain) = inline(message, "certificate_chain") else { return };
            let (path, key) = (path.to_owned(), inline(message, "private_key"));
            found.push(Certificates::Shown { path, chain, key });
        }
        VALIDATION => {
            let Some(authorities) = inline(message, "trusted_ca") else { return };
            found.push(Certificates::Authorities { path: path.to_owned(), authorities });
        }
        _ => {}
    });
    found
}

const CERTIFICATE: &str = "envoy.extensions.transport_sockets.tls.v3.TlsCertificate";
const VALIDATION: &str = "envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext";

/// The text or the bytes that stand in a field for data.
fn inline(message: &DynamicMessage, field: &str) -> Option<Bytes> {
    let source = message_in(message, field)?;
    let text = value_in(source, "inline_string").and_then(Value::as_str);
    let bytes = || value_in(source, "inline_bytes").and_then(Value::as_bytes).cloned();
    text.map(|text| Bytes::copy_from_slice(text.as_bytes())).or_else(bytes)
}
