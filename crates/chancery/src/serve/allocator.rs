//! The settings of glibc's allocator: memory that was freed goes back to the system.
//!
//! When a large block is freed, glibc raises the size from which blocks are given back, up to 32 MiB, and from
//! then on keeps twice as much in each of its arenas, of which there are eight for each core. So a server
//! that was sent a few large requests once would keep hundreds of megabytes for which nobody is charged.
//! With sizes of our own, none is raised.
//!
//! A process gets them from its environment when it starts; later only by unsafe code. So the daemon starts
//! once more, as the same process, unless its environment has settings for the allocator already.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A block of so many bytes or more goes back to the system as soon as it is free, and what is free at the
/// end of an arena when it is more than the second size.
const SETTINGS: [(&str, &str); 2] =
    [("MALLOC_MMAP_THRESHOLD_", "1048576"), ("MALLOC_TRIM_THRESHOLD_", "4194304")];

/// Starts this program once more with the settings, where they have an effect and there are none. If the
/// system does not allow it, the program goes on without them.
pub(super) fn set() {
    let are_there = env::vars_os().any(|(name, value)| sets_allocator(&name, &value));
    if !cfg!(all(target_os = "linux", target_env = "gnu")) || are_there {
        return;
    }
    let Ok(program) = env::current_exe() else { return };
    if program.file_name().is_none_or(is_dynamic_linker) {
        return;
    }
    let mut words = env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = words.next() {
        again.arg0(name);
    }
    // It returns only if it fails.
    drop(again.args(words).envs(SETTINGS).exec());
}

/// Returns true if the system takes the dynamic linker for the program, because that was told to run it.
fn is_dynamic_linker(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(b"ld") && name.windows(3).any(|part| part == b".so")
}

/// Returns true if this variable of the environment is a setting of glibc's allocator.
fn sets_allocator(name: &OsStr, value: &OsStr) -> bool {
    let (name, value) = (name.as_bytes(), value.as_bytes());
    let tunes = |name: &[u8]| name.windows(13).any(|part| part == b"glibc.malloc.");
    name.starts_with(b"MALLOC_") || (name == b"GLIBC_TUNABLES" && tunes(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_operator_are_known() {
        let sets = |name: &str, value: &str| sets_allocator(name.as_ref(), value.as_ref());
        assert!(SETTINGS.iter().all(|(name, value)| sets(name, value)));
        assert!(sets("MALLOC_ARENA_MAX", "2"));
        assert!(sets("GLIBC_TUNABLES", "glibc.rtld.nns=4:glibc.malloc.tcache_count=0"));
        assert!(!sets("GLIBC_TUNABLES", "glibc.rtld.nns=4"));
        assert!(!sets("PATH", "MALLOC_"));
    }

    #[test]
    fn the_dynamic_linker_is_known() {
        let is_one = |name: &str| is_dynamic_linker(name.as_ref());
        assert!(is_one("ld-linux-x86-64.so.2") && is_one("ld-2.31.so"));
        assert!(!is_one("chancery") && !is_one("chancery-1.2") && !is_one("ldx"));
    }
}
