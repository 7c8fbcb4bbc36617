//! The things that a task needs to speak to one server.

use chancery_core::Variant;
use chancery_core::client::ServerId;
use chancery_proto::reply::Reader;

use crate::bootstrap::XdsServer;
use crate::options::Options;
use crate::service_paths::ServicePaths;

/// The parameters for speaking to one server.
#[derive(Clone)]
pub(crate) struct ServerContext {
    /// The id of the server in the machine.
    pub(crate) id: ServerId,
    /// Its address and its credentials.
    pub(crate) server: XdsServer,
    /// The form of its messages.
    pub(crate) variant: Variant,
    /// Reads its responses.
    pub(crate) reader: Reader,
    /// The paths of the services.
    pub(crate) paths: ServicePaths,
    /// The limits and waits that the program has set.
    pub(crate) options: Options,
}
