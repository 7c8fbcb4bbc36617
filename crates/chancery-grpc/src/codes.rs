//! Codes and failures of decisions as those of tonic, and back. Not here: which failure a call has.

use chancery_calls::{Code, Failure};
use tonic::Status;

/// The code of a call that has failed, as decisions take it.
pub(crate) fn code(of: tonic::Code) -> Code {
    u32::try_from(of as i32).ok().and_then(Code::from_number).unwrap_or(Code::Unknown)
}

/// The status of a call that a decision fails.
pub(crate) fn status(failure: &Failure) -> Status {
    Status::new(tonic::Code::from_i32(failure.code as i32), &*failure.message)
}
