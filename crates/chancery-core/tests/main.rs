//! Scripts and simulations of the protocol, in one program: linking takes longer than most of them.
//!
//! Not here: `held_bytes`, which measures the memory of the process and must be alone in it.
#![allow(clippy::unwrap_used, clippy::unwrap_in_result, reason = "a test fails by a panic")]

mod ads;
mod ads_overlap;
mod ads_warming;
mod client_answers;
mod client_cache;
mod client_corners;
mod client_errors;
mod client_federation;
mod client_groups;
mod client_load;
mod client_nameless;
mod client_polls;
mod client_status;
mod client_stock;
mod client_streams;
mod delta;
mod federation;
mod landing;
mod load;
mod pending;
mod rejected;
mod resource_states;
mod secrets;
mod simulation;
mod sotw;
mod status;
mod stream;
mod variants;
