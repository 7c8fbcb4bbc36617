//! TLS material from PEM files: certificates with their keys, their expiry and their subjects, authorities,
//! the certificates that they revoked, and whether the files changed since they were read.
//!
//! Server and client make their configurations of it, and decide when to read again. Nothing here
//! keeps what was read, waits, or logs.

mod client_chain;
mod der;
mod error;
mod material;
mod stamps;
mod subject_text;
mod validity;

pub use client_chain::BoundedVerifier;
pub use der::{AlternativeName, alternative_names, dns_names, subject};
pub use error::TlsError;
pub use material::{authorities, identity, provider, revocation_list, system_authorities};
pub use stamps::FileStamps;
pub use subject_text::subject_text;
pub use validity::Expiry;
