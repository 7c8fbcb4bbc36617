//! Tests of the binary: one program for all of them, because each program links the whole server.
//!
//! Not here: the tests with real clients (`real`), which need what `cargo xtask fetch` brings.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]

mod access;
mod admin;
mod api;
mod bench;
mod call;
mod certificates;
mod check;
mod cli;
mod daemon;
mod descriptors;
mod diff;
mod diff_server;
mod explain;
mod files;
mod gate;
mod get;
mod layers;
mod load;
mod logs;
mod mesh;
mod messages;
mod monitoring;
mod node_values;
mod nodes;
mod orders;
mod page;
mod patches;
mod printed;
mod promql;
mod raw;
mod references;
mod running;
mod secrets;
mod stalled;
mod state;
mod status;
mod streams;
#[path = "real/support/tls.rs"]
#[expect(dead_code, reason = "it has more than is needed here")]
mod tls;
mod trouble;
mod wait;
mod watch;
