//! Logs of the verdicts of RBAC (gRFC A59), by the names that resources have for them: the one of gRPC, which
//! writes to stdout, and those of the program. Not here: which verdicts they hear of (`chancery_calls`).

mod stdout;

use std::fmt;
use std::sync::Arc;

pub use chancery_calls::filters::rbac::{AuditEvent, AuditLogger};

use crate::extend::{FilterMessage, Registry};
pub(crate) use stdout::written;

/// Makes the audit loggers of one type, each of a configuration.
pub trait AuditLoggerFactory: fmt::Debug + Send + Sync + 'static {
    /// Returns the name of the message that configures it, or of the type that a `TypedStruct` stands for, as
    /// `example.com.AuditLog` without what is before the `/` of a type URL.
    fn type_name(&self) -> &str;

    /// Reads a configuration.
    ///
    /// # Errors
    ///
    /// If it is not valid: the resource is rejected for this reason.
    fn read(&self, config: FilterMessage<'_>) -> Result<Arc<dyn AuditLogger>, String>;
}

/// Adds audit loggers to all servers of the process, by the name of their type. Loggers of this name that were added
/// before are replaced, for resources that are read from now on.
pub fn register_audit_logger(factory: impl AuditLoggerFactory) {
    // The program's own code does not run under the lock.
    let name = factory.type_name().to_owned();
    FACTORIES.insert(name, Arc::new(factory));
}

/// Reads the configuration of a logger of this type; `None` if there is none.
pub(crate) fn read(
    type_name: &str,
    config: FilterMessage<'_>,
) -> Option<Result<Arc<dyn AuditLogger>, String>> {
    if let Some(factory) = FACTORIES.get(type_name) {
        return Some(factory.read(config));
    }
    // Its message has no fields.
    (type_name == stdout::TYPE_NAME).then(|| Ok(stdout::logger()))
}

static FACTORIES: Registry<dyn AuditLoggerFactory> = Registry::new();
