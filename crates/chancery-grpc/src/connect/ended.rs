//! The end of a connection, and its reason in the words that gRPC has for metrics (gRFC A94). Not here: the text of
//! an error for people (`broken`).

use std::error::Error;
use std::io;

use h2::Reason;

/// The end of a connection that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// The reason, as `grpc.disconnect_error` has it.
    pub(super) reason: &'static str,
    /// The peer has closed it because it has to do too much, as where it is asked too often whether it is there
    /// (gRFC A8).
    pub(super) has_too_many_pings: bool,
}

/// The reason for the end of a connection that nobody needs any more.
pub(super) const SHUTDOWN: &str = "subchannel shutdown";

impl Ended {
    /// The end of a connection without an error. `was_told` says that the peer has announced it.
    pub(super) fn well(was_told: bool) -> Self {
        let reason = if was_told { named(Reason::NO_ERROR) } else { "unknown" };
        Self { reason, has_too_many_pings: false }
    }

    /// The end of a connection by an error. `was_told` says that the peer has announced the end, and `is_asked` that
    /// it is asked whether it is there.
    ///
    /// A text of the peer beside its code is not looked at: whatever it minds, fewer questions help.
    pub(super) fn by(error: &hyper::Error, was_told: bool, is_asked: bool) -> Self {
        let cause = error.source();
        let of_http = cause.and_then(|cause| cause.downcast_ref::<h2::Error>());
        let told = of_http.filter(|cause| cause.is_go_away() && cause.is_remote());
        if let Some(reason) = told.and_then(h2::Error::reason) {
            let has_too_many_pings = is_asked && reason == Reason::ENHANCE_YOUR_CALM;
            return Self { reason: named(reason), has_too_many_pings };
        }
        if was_told {
            return Self::well(was_told);
        }
        let reason = match cause.and_then(|cause| cause.downcast_ref::<io::Error>()) {
            _ if error.is_timeout() => TIMED_OUT,
            Some(broken) => of_socket(broken),
            None => "unknown",
        };
        Self { reason, has_too_many_pings: false }
    }
}

fn of_socket(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionReset => "connection reset",
        io::ErrorKind::TimedOut => TIMED_OUT,
        io::ErrorKind::ConnectionAborted => "connection aborted",
        _ if error.raw_os_error().is_some() => "socket error",
        _ => "unknown",
    }
}

/// The reason that a peer has given. A code that HTTP/2 does not have counts as an error of its own, so that there
/// are only so many.
fn named(reason: Reason) -> &'static str {
    match reason {
        Reason::NO_ERROR => "GOAWAY NO_ERROR",
        Reason::PROTOCOL_ERROR => "GOAWAY PROTOCOL_ERROR",
        Reason::FLOW_CONTROL_ERROR => "GOAWAY FLOW_CONTROL_ERROR",
        Reason::SETTINGS_TIMEOUT => "GOAWAY SETTINGS_TIMEOUT",
        Reason::STREAM_CLOSED => "GOAWAY STREAM_CLOSED",
        Reason::FRAME_SIZE_ERROR => "GOAWAY FRAME_SIZE_ERROR",
        Reason::REFUSED_STREAM => "GOAWAY REFUSED_STREAM",
        Reason::CANCEL => "GOAWAY CANCEL",
        Reason::COMPRESSION_ERROR => "GOAWAY COMPRESSION_ERROR",
        Reason::CONNECT_ERROR => "GOAWAY CONNECT_ERROR",
        Reason::ENHANCE_YOUR_CALM => "GOAWAY ENHANCE_YOUR_CALM",
        Reason::INADEQUATE_SECURITY => "GOAWAY INADEQUATE_SECURITY",
        Reason::HTTP_1_1_REQUIRED => "GOAWAY HTTP_1_1_REQUIRED",
        _ => "GOAWAY INTERNAL_ERROR",
    }
}

const TIMED_OUT: &str = "connection timed out";
