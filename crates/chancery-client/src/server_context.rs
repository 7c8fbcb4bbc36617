//! One server, as the tasks know it that speak to it.

use chancery_core::Variant;
use chancery_core::client::ServerId;
use chancery_proto::reply::Reader;

use crate::bootstrap::XdsServer;
use crate::options::Options;
use crate::service_paths::ServicePaths;

/// All that a task needs to speak to one server.
#[derive(Clone)]
pub(crate) struct ServerContext {
    /// The server, as the machine calls it.
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
