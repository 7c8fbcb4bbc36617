//! Session affinity by cookie (C-106; gRFCs A55, A60, A61): a call goes where the one before it went.
//!
//! ```text
//!   SessionCookie::request   the cookies of a call    -> the endpoint and the cluster of its session
//!   SessionCookie::response  where the call has gone  -> a cookie for the next call, if it is another one
//! ```
//!
//! The endpoint is a wish: load balancing takes it if it may, and chooses as ever otherwise. Not here: the
//! cookies that a caller keeps between calls.

mod cookie;
mod value;

pub use cookie::{SessionCookie, SessionCookieError, SessionRequest};
pub use value::SessionTarget;
