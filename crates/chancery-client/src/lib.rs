//! An xDS client: whom it asks, who it is, and how it proves that.
//!
//! A [`Bootstrap`] says all a client knows before it asks anybody. It is read from JSON, as other
//! xDS clients read it, or built in code; nothing that arrives later can add a server to it.
//!
//! ```
//! use chancery_client::Bootstrap;
//!
//! let bootstrap: Bootstrap = r#"{
//!     "xds_servers": [{
//!         "server_uri": "xds.example.com:443",
//!         "channel_creds": [{"type": "tls"}]
//!     }],
//!     "node": {"id": "billing-7"}
//! }"#
//! .parse()?;
//! let found = bootstrap.target(&"xds:///orders:8080".parse()?)?;
//! assert_eq!(found.place.name.as_str(), "orders:8080");
//! assert_eq!(found.servers[0].uri, "xds.example.com:443");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Not here: the protocol (`chancery-core`), which this crate gives its servers and names.

mod bootstrap;
mod credentials;

// The public interface.
pub use bootstrap::{
    Authority, Bootstrap, BootstrapError, CertificateProvider, Fault, Plan, Reader, Resolved,
    Service, XdsServer,
};
pub use chancery_core::client::{InvalidPlace, InvalidTarget, Place, Target, Template};
pub use chancery_core::{Locality, Node, Value};
pub use credentials::{
    Alpn, CallCredentials, CallPlugin, ChannelCredentials, ChannelPlugin, Credentials,
    CredentialsError, Identity, Pending, Plugged, Plugins, TlsError, TlsFiles,
};
