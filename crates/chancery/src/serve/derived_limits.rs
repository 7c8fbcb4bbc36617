//! `--print-limits`: the limits that follow from the machine, and what one client can have of each.
//!
//! An operator sees here what the server takes before it takes it. Limits that are plain numbers are
//! printed by `--print-config`.

use std::fmt::Display;
use std::io::{self, Write};

use anyhow::Context;
use chancery_server::AvailableMemory;

use super::descriptors;
use crate::config::{Config, Size};
use crate::exit::Failure;

/// Prints the limits.
pub(super) fn print(config: &Config) -> Result<(), Failure> {
    let text = text(config, AvailableMemory::of_this_process(), descriptors::connections());
    io::stdout().write_all(text.as_bytes()).context("cannot write to stdout")?;
    Ok(())
}

/// The limits as text.
fn text(config: &Config, memory: AvailableMemory, connections: Option<usize>) -> String {
    let mut limits = config.limits.server();
    let available = usize::try_from(memory.bytes).unwrap_or(usize::MAX);
    limits.max_connections = descriptors::taken(limits.max_connections, connections);
    let of_one = limits.of_one_peer();
    let files = match connections {
        Some(possible) => format!("{possible} have an open file (`ulimit -n`)"),
        None => "open files have no limit".to_owned(),
    };
    let row = |key: &str, value: &dyn Display, why: &str| format!("{key:<28} {value:<12} {why}\n");
    [
        row("available memory", &mebibytes(available), &memory.bound.to_string()),
        row("limits.memory", &mebibytes(limits.memory), "held for all clients together"),
        row("  one client", &mebibytes(of_one.memory), "at most, beside no others"),
        row("limits.max-connections", &limits.max_connections, &files),
        row("  one client", &of_one.connections, "at most, beside no others"),
        row("limits.max-streams", &limits.max_streams, "streams and polls"),
        row("  one client", &of_one.streams, "at most, beside no others"),
        row(
            "limits.max-big-responses",
            &limits.max_big_responses,
            "at the same time; clients take turns",
        ),
        row(
            "limits.max-file-bytes",
            &Size(usize::try_from(config.limits.file_bytes(memory)).unwrap_or(usize::MAX)),
            "of memory, sixty times that is used while a file is read",
        ),
        row(
            "limits.max-directory-bytes",
            &Size(usize::try_from(config.limits.directory_bytes(memory)).unwrap_or(usize::MAX)),
            "of all files; of memory, two to eight times that is used",
        ),
    ]
    .concat()
}

fn mebibytes(bytes: usize) -> String {
    Size(bytes >> 20 << 20).to_string()
}

#[cfg(test)]
mod tests {
    use chancery_server::MemoryBound;

    use super::*;

    #[test]
    fn limits_are_told_with_their_reasons() {
        let mut config = Config::default();
        config.limits.memory = Some(Size(300 << 20));
        let memory = AvailableMemory { bytes: 600 << 20, bound: MemoryBound::ControlGroup };
        let text = text(&config, memory, Some(768));
        let has = |line: &str| {
            let words = |it: &str| it.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.lines().any(|it| words(it) == line), "{line} is not in\n{text}");
        };
        has("available memory 600MiB the limit of the control group");
        has("limits.memory 300MiB held for all clients together");
        has(
            "limits.max-file-bytes 9600KiB of memory, sixty times that is used while a file is read",
        );
        has(
            "limits.max-directory-bytes 38400KiB of all files; of memory, two to eight times that is used",
        );
        has("limits.max-connections 768 768 have an open file (`ulimit -n`)");
        has("one client 384 at most, beside no others");
    }
}
