//! The names of status codes, as the specification of gRPC has them.

use chancery_core::ErrorDetail;
use tonic::Code;

/// Returns the name of a code.
pub(super) fn name(code: Code) -> &'static str {
    ErrorDetail::name_of(code.into()).unwrap_or("UNKNOWN")
}
