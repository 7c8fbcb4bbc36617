//! The memory that the process may use: that of the machine, of its control group, or of its limit,
//! whichever is the least.
//!
//! All of them are read from files of Linux. Where one is not there, it limits nothing.

use std::fmt;
use std::fs;
use std::path::Path;

/// The number of bytes that is taken for the machine's if nobody says how many it has.
const UNKNOWN: u64 = 1 << 30;

/// The memory that the process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AvailableMemory {
    /// The number of bytes.
    pub bytes: u64,
    /// The limit that says so.
    pub bound: MemoryBound,
}

/// The limit of the memory of a process that is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryBound {
    /// The memory of the machine.
    Machine,
    /// The limit of the control group, as that of a container.
    ControlGroup,
    /// The limit of the address space (`ulimit -v`).
    AddressSpace,
    /// None is known, so 1 GiB is taken.
    Unknown,
}

impl AvailableMemory {
    /// The memory that this process may use: that of the machine, of the control group or of the
    /// address space, whichever is the least.
    pub fn of_this_process() -> Self {
        Self::below(Path::new("/"))
    }

    /// The share for clients, in whole MiB. It is a quarter: the allocator takes up to twice as much
    /// as is held, when many clients come and go, and the rest is for the resources.
    pub(crate) fn for_clients(self) -> usize {
        let bytes = (self.bytes / 4).next_multiple_of(1 << 20);
        usize::try_from(bytes).unwrap_or(usize::MAX / 2)
    }

    /// The least limit, from the files below `root`.
    fn below(root: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(root.join(path)).ok();
        let known = [
            (MemoryBound::Machine, read("proc/meminfo").and_then(|it| of_machine(&it))),
            (
                MemoryBound::ControlGroup,
                read("proc/self/cgroup").and_then(|it| of_group(root, &it)),
            ),
            (MemoryBound::AddressSpace, read("proc/self/limits").and_then(|it| of_process(&it))),
        ];
        let known =
            known.into_iter().filter_map(|(bound, bytes)| Some(Self { bytes: bytes?, bound }));
        let least = known.min_by_key(|it| it.bytes);
        least.unwrap_or(Self { bytes: UNKNOWN, bound: MemoryBound::Unknown })
    }
}

impl fmt::Display for MemoryBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Machine => "the memory of the machine",
            Self::ControlGroup => "the limit of the control group",
            Self::AddressSpace => "the limit of the address space (`ulimit -v`)",
            Self::Unknown => "a guess, because no limit is known",
        })
    }
}

/// `MemTotal` of `/proc/meminfo`, which is in KiB.
fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()?.saturating_mul(1024))
}

/// The soft limit of the address space in `/proc/self/limits`; `None` if it is unlimited.
fn of_process(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The least limit of the control group of the process and of those above it, in either version.
fn of_group(root: &Path, cgroup: &str) -> Option<u64> {
    cgroup.lines().filter_map(|line| of_hierarchy(root, line)).min()
}

/// The least limit in one hierarchy, as in `0::/system.slice/chancery.service`.
fn of_hierarchy(root: &Path, line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let (base, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|it| it == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let base = root.join(base);
    // In a container the path may be that of the host, and the group's own files are at the top.
    let group = base.join(path.trim_start_matches('/'));
    let groups = group.ancestors().take_while(|it| it.starts_with(&base));
    groups.filter_map(|it| fs::read_to_string(it.join(file)).ok()?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn available(root: &Path) -> (u64, MemoryBound) {
        let AvailableMemory { bytes, bound } = AvailableMemory::below(root);
        (bytes, bound)
    }

    #[test]
    fn the_least_limit_counts() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        assert_eq!(available(root), (UNKNOWN, MemoryBound::Unknown));
        write(root, "proc/meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\n");
        assert_eq!(available(root), (2 << 20, MemoryBound::Machine));
        write(root, "proc/self/cgroup", "0::/a/b\n");
        write(root, "sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(available(root), (2 << 20, MemoryBound::Machine));
        write(root, "sys/fs/cgroup/a/memory.max", "1048576\n");
        let above = (1 << 20, MemoryBound::ControlGroup);
        assert_eq!(available(root), above, "the limit of the group above");
        let limits = "Limit  Soft  Hard  Units\nMax address space   524288   unlimited   bytes\n";
        write(root, "proc/self/limits", limits);
        assert_eq!(available(root), (512 << 10, MemoryBound::AddressSpace));
    }

    #[test]
    fn a_group_of_the_first_version_counts_also_where_its_path_is_that_of_the_host() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(root, "proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/0123\n");
        write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "629145600\n");
        assert_eq!(available(root), (600 << 20, MemoryBound::ControlGroup));
    }

    #[test]
    fn what_is_unlimited_limits_nothing() {
        let limits = "Max address space         unlimited            unlimited            bytes\n";
        assert_eq!(of_process(limits), None);
        assert!(AvailableMemory::of_this_process().for_clients() > 0);
    }
}
