//! Why a call fails: a status code of gRPC with a message for the caller.

use std::fmt;
use std::sync::Arc;

use chancery_core::ErrorDetail;

/// A status code of gRPC, other than OK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "the codes are those of gRPC, by their names")]
pub enum Code {
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl Code {
    /// The code of a number; `None` for 0, which is OK, and for those that gRPC does not have.
    pub fn from_number(number: u32) -> Option<Self> {
        CODES.into_iter().find(|code| *code as u32 == number)
    }
}

/// The name of the code, as gRPC writes it.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ErrorDetail::name_of(*self as i32).unwrap_or("UNKNOWN"))
    }
}

const CODES: [Code; 16] = [
    Code::Cancelled,
    Code::Unknown,
    Code::InvalidArgument,
    Code::DeadlineExceeded,
    Code::NotFound,
    Code::AlreadyExists,
    Code::PermissionDenied,
    Code::ResourceExhausted,
    Code::FailedPrecondition,
    Code::Aborted,
    Code::OutOfRange,
    Code::Unimplemented,
    Code::Internal,
    Code::Unavailable,
    Code::DataLoss,
    Code::Unauthenticated,
];

/// A call that fails by a decision here, before a server has answered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code that the caller gets.
    pub code: Code,
    /// The message that the caller gets.
    pub message: Arc<str>,
}

impl Failure {
    /// Returns a failure with this code and message.
    pub fn new(code: Code, message: impl Into<Arc<str>>) -> Self {
        Self { code, message: message.into() }
    }

    /// Returns a failure with the code UNAVAILABLE.
    pub fn unavailable(message: impl Into<Arc<str>>) -> Self {
        Self::new(Code::Unavailable, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Failure {}
