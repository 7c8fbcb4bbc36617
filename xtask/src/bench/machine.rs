//! The circumstances of the figures: the machine, the versions, the commit and the day.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::steps::{exists, program};

/// Fails with the list of everything that a measurement needs and that is missing.
pub(crate) fn require() -> Result<()> {
    let mut missing = Vec::new();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        missing
            .push("two cores, one for the server and one for the driver: there is one".to_owned());
    }
    for (name, words) in [("taskset", ["--version"]), ("sh", ["-c"])] {
        if !exists(&mut program(Path::new("/"), name, &words)) && name != "sh" {
            missing.push(format!("`{name}`, to bind programs to cores: it is not installed"));
        }
    }
    if !Path::new("/proc/self/schedstat").exists() {
        missing.push("the kernel's account of CPU time, `/proc/PID/schedstat`".to_owned());
    }
    if missing.is_empty() {
        return Ok(());
    }
    bail!("the benchmark needs more than is here: {}", missing.join("; "))
}

/// The machine and the versions.
pub(crate) fn described(root: &Path) -> Result<Value> {
    let lock = fs::read_to_string(root.join("Cargo.lock"))?;
    let modules = fs::read_to_string(root.join("bench/go-control-plane/go.mod"))?;
    let crates = ["bytes", "h2", "hyper", "imbl", "mio", "prost", "tokio", "tonic"];
    let go = ["github.com/envoyproxy/go-control-plane", "google.golang.org/grpc"];
    Ok(json!({
        "cpu": field("/proc/cpuinfo", "model name"),
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "memory": field("/proc/meminfo", "MemTotal"),
        "kernel": output("uname", &["-sr"]),
        "rustc": output("rustc", &["--version"]),
        "go": output("go", &["version"]),
        "crates": crates.map(|name| format!("{name} {}", locked(&lock, name))),
        "modules": go.map(|name| format!("{name} {}", required(&modules, name))),
    }))
}

/// The commit and the day.
pub(crate) fn now(root: &Path) -> Value {
    let dir = root.to_string_lossy();
    let changed = output("git", &["-C", &dir, "status", "--porcelain", "--", "crates", "bench"]);
    json!({
        "commit": output("git", &["-C", &dir, "rev-parse", "--short=12", "HEAD"]),
        "changed": !changed.is_empty(),
        "day": output("date", &["-u", "+%F"]),
    })
}

fn output(name: &str, words: &[&str]) -> String {
    let output = Command::new(name).args(words).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).trim().to_owned()
}

/// The value of a key in a file of `/proc`.
fn field(path: &str, key: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
    line.split_once(':').map_or("", |(_, value)| value).trim().to_owned()
}

/// The version of a crate in the lock file: the last, and so the newest, if there are several.
/// The older ones are of packages that are read as data and not compiled.
fn locked(lock: &str, name: &str) -> String {
    let after = lock.split(&format!("name = \"{name}\"\nversion = \"")).skip(1).last();
    after.and_then(|rest| rest.split('"').next()).unwrap_or("?").to_owned()
}

/// The version of a module in `go.mod`.
fn required(modules: &str, name: &str) -> String {
    let mut lines = modules.lines().map(str::trim);
    let version = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    version.unwrap_or("?").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found() {
        let package = |version| format!("[[package]]\nname = \"h2\"\nversion = \"{version}\"\n");
        let lock = &(package("0.3.27") + &package("0.4.20"));
        assert_eq!((locked(lock, "h2"), locked(lock, "h3")), ("0.4.20".into(), "?".into()));
        let modules = "require (\n\texample.org/a/b v1.0.0\n\texample.org/a v0.14.0\n)";
        assert_eq!(required(modules, "example.org/a"), "v0.14.0");
    }
}
