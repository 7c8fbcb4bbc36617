//! The daemon before real clients: Envoy, gRPC in several languages, and others' xDS clients. And our
//! client before real servers ([`peers`]).
//!
//! `cargo xtask fetch` installs both below `target/real`. Without them the tests here say so and
//! pass; under `cargo xtask ci` they fail. Every test runs its own programs in a directory of its
//! own, on ports of its own, so all of them may run at once.

#![expect(clippy::print_stdout, reason = "what a program said is shown when its test fails")]

mod envoy;
mod envoy_rules;
mod fleet;
mod gate;
mod grpc;
mod layers;
mod mesh;
mod mutants;
mod node_values;
mod nodes;
mod peers;
mod quickstart;
mod rate_limit;
mod running;
mod slips;
mod state;
mod support;
mod versions;
mod zero_drop;
