//! `cargo xtask`: builds, checks and tests of this repository.
fn main() {}
