//! Another attempt after one has failed (C-148): whether there is one, and when.
//!
//! ```text
//!   Retries::after(how an attempt ended)  -> again at once, again after a while, or the end
//!   Throttle                              one for all calls to a server: too many failures end retries
//! ```
//!
//! The cluster of a call does not change with an attempt (C-099), and its deadline is one for all attempts.
//! Not here: messages that are kept for another attempt, timers, and how pushback is read from trailers but
//! for its number.

mod policy;
mod pushback;
mod retries;
mod throttle;

pub use policy::{RetryBackoff, RetryConditions, RetryPolicy, RetryPolicyError};
pub use pushback::Pushback;
pub use retries::{AttemptEnd, NextAttempt, Retries, StopReason};
pub use throttle::{Throttle, ThrottleError};
