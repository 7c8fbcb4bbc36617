//! Tests of the catalog, its audiences and its gate, in one program.
#![allow(clippy::unwrap_used, clippy::unwrap_in_result, reason = "a test fails by a panic")]

mod commits;
mod gate;
mod memory;
mod overlays;
mod references;
mod values;
