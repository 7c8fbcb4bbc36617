//! TLS material from PEM files: certificates with their keys, authorities, and whether the files
//! changed since they were read.
//!
//! Server and client make their configurations of it, and decide when to read again. Nothing here
//! keeps what was read, waits, or logs.

mod error;
mod material;
mod stamps;

pub use error::TlsError;
pub use material::{authorities, identity, provider, system_authorities};
pub use stamps::FileStamps;
