//! The status of a call that is aborted.

use crate::{Code, Failure};

/// The status that an aborted call ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortStatus {
    /// The call ends as if the server had sent OK and nothing else.
    Ok,
    /// The call fails.
    Code(Code),
}

impl AbortStatus {
    /// The status for a status of HTTP, if that is one: 200 to 599. A success of HTTP without a status of
    /// gRPC is no success.
    pub fn from_http(status: u32) -> Option<Self> {
        let code = match status {
            400 => Code::Internal,
            401 => Code::Unauthenticated,
            403 => Code::PermissionDenied,
            404 => Code::Unimplemented,
            429 | 502 | 503 | 504 => Code::Unavailable,
            200..600 => Code::Unknown,
            _ => return None,
        };
        Some(Self::Code(code))
    }

    /// The status for a number of gRPC. Numbers that gRPC does not have mean UNKNOWN.
    pub fn from_grpc(number: u32) -> Self {
        match number {
            0 => Self::Ok,
            number => Self::Code(Code::from_number(number).unwrap_or(Code::Unknown)),
        }
    }

    /// The failure of the call, if it is one.
    pub fn failure(self) -> Option<Failure> {
        match self {
            Self::Ok => None,
            Self::Code(code) => Some(Failure::new(code, "the call is aborted by fault injection")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_of_http_have_a_code() {
        // gRFC A33: 200 is UNKNOWN, as a response without a status of gRPC is.
        for (status, code) in [
            (200, Code::Unknown),
            (204, Code::Unknown),
            (400, Code::Internal),
            (401, Code::Unauthenticated),
            (403, Code::PermissionDenied),
            (404, Code::Unimplemented),
            (418, Code::Unknown),
            (429, Code::Unavailable),
            (500, Code::Unknown),
            (502, Code::Unavailable),
            (503, Code::Unavailable),
            (504, Code::Unavailable),
            (599, Code::Unknown),
        ] {
            assert_eq!(AbortStatus::from_http(status), Some(AbortStatus::Code(code)), "{status}");
        }
        for status in [0, 100, 199, 600, u32::MAX] {
            assert_eq!(AbortStatus::from_http(status), None, "{status}");
        }
    }

    #[test]
    fn numbers_of_grpc_are_codes_and_0_is_ok() {
        // gRFC A33.
        assert_eq!(AbortStatus::from_grpc(0), AbortStatus::Ok);
        assert_eq!(AbortStatus::from_grpc(0).failure(), None);
        for number in 1..=16 {
            let AbortStatus::Code(code) = AbortStatus::from_grpc(number) else {
                panic!("{number}")
            };
            assert_eq!(code as u32, number);
        }
        assert_eq!(AbortStatus::from_grpc(17), AbortStatus::Code(Code::Unknown));
    }
}
