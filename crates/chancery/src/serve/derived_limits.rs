//! `--print-limits`: the limits that follow from the machine, and what one client can have of each.
//!
//! An operator sees here what the server takes before it takes it. Limits that are plain numbers are
//! printed by `--print-config`.

use std::fmt::Display;

use chancery_server::AvailableMemory;

use super::descriptors;
use crate::config::{Config, Size};
use crate::exit::Failure;
use crate::stdout;

/// Prints the limits.
pub(super) fn print(config: &Config) -> Result<(), Failure> {
    let text = text(config, AvailableMemory::of_this_process(), descriptors::connections());
    stdout::write(text.as_bytes()).map(drop)
}

/// The limits as text.
fn text(config: &Config, memory: AvailableMemory, connections: Option<usize>) -> String {
    let mut limits = config.limits.server();
    let available = usize::try_from(memory.bytes).unwrap_or(usize::MAX);
    limits.max_connections = descriptors::taken(limits.max_connections, connections);
    let of_one = limits.of_one_peer();
    let files = match connections {
        Some(possible) => format!("there are open files for {possible} (`ulimit -n`)"),
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
            &mebibytes(usize::try_from(config.limits.file_bytes(memory)).unwrap_or(usize::MAX)),
            "one file; it takes sixty times its size in memory while it is read",
        ),
        row(
            "limits.max-directory-bytes",
            &mebibytes(
                usize::try_from(config.limits.directory_bytes(memory)).unwrap_or(usize::MAX),
            ),
            "all files; they take two to eight times that in memory",
        ),
    ]
    .concat()
}

/// A size in whole MiB, or in KiB below one.
fn mebibytes(bytes: usize) -> String {
    let unit = if bytes < 1 << 20 { 10 } else { 20 };
    Size(bytes >> unit << unit).to_string()
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
            "limits.max-file-bytes 9MiB one file; it takes sixty times its size in memory while it is read",
        );
        has(
            "limits.max-directory-bytes 37MiB all files; they take two to eight times that in memory",
        );
        has("limits.max-connections 768 there are open files for 768 (`ulimit -n`)");
        has("one client 384 at most, beside no others");
    }
}
