//! A gRPC data plane for Rust: channels to `xds:///` targets, and to ordinary ones, and servers that a control
//! plane configures, for tonic.
//!
//! ```text
//!   certificates   what the certificate providers of the bootstrap have
//!   connect    connections to endpoints, shared in the process
//!   read       resources, checked as gRPC checks them  -->  values of chancery-calls
//!   channel    calls, and the driver that publishes what they see
//!   server     connections and calls that arrive, and the driver that says whose they are
//! ```
//!
//! Not here: the decisions of a call (`chancery-calls`), and the conversation with the control plane
//! (`chancery-client`).

mod certificates;
mod channel;
mod connect;
mod dice;
mod process;
mod read;
mod server;

pub use chancery_calls::balancing::{
    ChildName, Connectivity, DescribedChild, DescribedEndpoint, Description, EndpointLocality,
    TreePart, Turn,
};
pub use chancery_client::status::StatusServer;
pub use channel::{
    CallExplanation, CallPlace, Channel, ChannelBuilder, ChannelError, ChannelPolicy, Credentials,
    ExplainedCluster, ExplainedFilter, ExplainedOutcome, ExplainedPlace, ExplainedRoute,
    PassedRoute, ResponseBody, WaitForReady,
};
pub use connect::Keepalive;
pub use process::client_status;
pub use server::{ConnectionInfo, Server, ServerBuilder, ServerError, ServingState};
