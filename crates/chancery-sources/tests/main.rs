//! Tests of the directory as a source of resources, in one program.
#![allow(clippy::unwrap_used, clippy::unwrap_in_result, reason = "a test fails by a panic")]

mod behind;
mod converge;
mod documents;
mod faults;
mod follow;
mod layers;
mod past;
mod support;
