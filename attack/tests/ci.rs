//! The part of the attacks that CI makes, and a soak of a minute, on the daemon of the same build.
//!
//! Nothing here judges a time. The attacks that the server does not hold yet are in `open.txt` and
//! are left out; `cargo xtask attack` makes them too. The program prints a line when an attack ends,
//! past the test, so that a reader of CI sees how far it is.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The daemon that was built with these tests.
fn daemon() -> PathBuf {
    let daemon = Path::new(env!("CARGO_BIN_EXE_chancery-attack")).with_file_name("chancery");
    assert!(daemon.is_file(), "build it first: cargo build -p chancery");
    daemon
}

#[track_caller]
fn succeeds(words: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chancery-attack"));
    let status = command.args(words).arg("--program").arg(daemon()).status().expect("it runs");
    assert!(status.success(), "`{}` does not hold: see its lines above", words.join(" "));
}

#[test]
fn the_server_holds_what_it_is_known_to_hold() {
    succeeds(&["--bounded", "--seconds", "2"]);
}

#[test]
fn memory_is_flat_after_a_minute_of_mixed_clients_and_edits() {
    succeeds(&["soak", "--bounded", "--minutes", "1"]);
}
