//! The support of the tests with real clients and servers: processes, ports, TLS files, backends,
//! directories.
//!
//! Nothing here sleeps for a fixed time: tests wait for something they can observe, up to a bound
//! ([`wait`]). Everything that is started ends with the value that stands for it.

pub(crate) mod ask;
pub(crate) mod backend;
pub(crate) mod bootstrap;
pub(crate) mod chancery;
pub(crate) mod clients;
pub(crate) mod envoy;
pub(crate) mod go_server;
pub(crate) mod http;
#[path = "../../ports/mod.rs"]
pub(crate) mod ports;
pub(crate) mod process;
pub(crate) mod resources;
pub(crate) mod rust_server;
pub(crate) mod tls;
pub(crate) mod wait;
