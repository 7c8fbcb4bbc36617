//! Tests of the client against servers, in one program, because each program links all of them.
//!
//! Not here: the tests that look at the log (`callbacks`, `logs`), as a process has one log, the
//! examples (`examples`), and what bytes of any kind do (`fuzz`).
#![allow(clippy::unwrap_used, clippy::unwrap_in_result, reason = "a test fails by a panic")]

mod answers;
mod common;
mod conduct;
mod disk_cache;
mod errors;
mod files;
mod follow;
mod hostile;
mod loads;
mod outage;
mod plugins;
mod rest;
mod stage;
mod stalls;
mod status;
mod tls;
#[cfg(feature = "envoy-types")]
mod typed;
mod watch;
mod watching;
mod within;
