//! Tests of the server over real connections, in one program, because each program links all of it.
//!
//! Not here: the tests that read the log (`logs`, `refusals`), as a process has one log.
#![allow(clippy::unwrap_used, clippy::unwrap_in_result, reason = "a test fails by a panic")]

mod budget;
mod catalog;
mod common;
mod csds;
mod frames;
mod limits;
mod load;
mod operation;
mod rest;
mod secrets;
mod services;
mod status;
mod streams;
mod tls;
mod transport;
