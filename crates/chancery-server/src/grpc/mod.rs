//! Discovery streams over gRPC.
//!
//! ```text
//!   request body --> [framing] --> [session]: machine, audience, metrics --> [framing] --> response body
//!                                     ^
//!                                     +-- snapshots of the audience (a watch), deadlines (a timer)
//! ```
//!
//! A stream has no task and no channel. The connection polls the body of its response when all of its
//! chunks but one are on their way, and that poll drives the machine. A response that cannot be sent
//! is therefore not made, and a slow client costs nothing but its own time (S-108).

mod account;
mod away;
mod body;
mod framing;
#[cfg(test)]
mod landing_tests;
mod load;
mod parts;
mod rejection;
mod send_permits;
mod session;
mod status;
mod stream_service;

pub(crate) use body::StreamBody;
pub(crate) use framing::{NextMessage, RequestMessages, frame_message};
pub(crate) use load::LoadBody;
pub(crate) use status::{
    asked_back, draining, draining_trailers, from_a_page, no_such_method, out_of_memory,
    status_response, too_slow, trailers,
};
pub(crate) use stream_service::{StreamService, grpc_response};
