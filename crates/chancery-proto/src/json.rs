//! The discovery messages as proto3 JSON.

mod request;
pub use request::request_from_json;

/// Why a message cannot be read from or written as JSON.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// The client's fault: the body of a request.
    #[error("the body is no `DiscoveryRequest` in JSON")]
    Request(#[source] serde_json::Error),
}
