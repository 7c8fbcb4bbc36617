//! The table of what each version of Envoy knows: made of published descriptors and of running Envoys,
//! and compared with the one that is committed.
//!
//! ```text
//!   go-control-plane's module, by version   generated code ---> fields, types, values of enums
//!   Envoy, by version                       node.extensions --> extensions
//! ```
//!
//! The daemon must build with Rust alone, so the table is a file of `chancery-proto`. Nobody edits it.
//! Not here: the program that reads generated code (`xtask/client-table`), and the use of the table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::fetch;
use crate::parts::PartsDirectory;
use crate::peers;
use crate::steps::{cargo, output, program};

const TABLE: &str = "crates/chancery-proto/src/clients/table.txt";

/// The Go module with the code that is generated from Envoy's API.
const MODULE: &str = "github.com/envoyproxy/go-control-plane/envoy";

/// The program that reads it.
const PROGRAM: &str = "xtask/client-table";

/// The message types in our descriptors.
const PACKAGE: &str = "envoy-types";

/// A version of Envoy.
struct Version {
    name: &'static str,
    /// The version of the Go module. Those of 1.32 follow Envoy's main branch after that release, so the
    /// first one is the nearest.
    module: &'static str,
    /// The Envoy that is asked for its extensions, if there is a package with one.
    envoy: Option<&'static str>,
}

const VERSIONS: [Version; 7] = [
    Version { name: "1.32", module: "1.32.2", envoy: None },
    Version { name: "1.35", module: "1.35.0", envoy: None },
    Version { name: "1.36", module: "1.36.0", envoy: Some("1.36.2") },
    Version { name: "1.37", module: "1.37.0", envoy: Some("1.37.0") },
    Version { name: "1.38", module: "1.38.0", envoy: Some("1.38.3") },
    Version { name: "1.39", module: "1.39.0", envoy: Some("1.39.3") },
    Version { name: "1.40", module: "1.40.0", envoy: Some("1.40.0") },
];

/// Writes the table.
pub(crate) fn write(root: &Path) -> Result<()> {
    fs::write(root.join(TABLE), table(root)?).context(TABLE)
}

/// Compares the committed table with what the sources say.
pub(crate) fn compare(root: &Path) -> Result<()> {
    let committed = fs::read_to_string(root.join(TABLE)).context(TABLE)?;
    same(&committed, &table(root)?)
}

/// Fails if the committed table is not the one that the sources make.
fn same(committed: &str, made: &str) -> Result<()> {
    let differs = committed.lines().zip(made.lines()).find(|(one, other)| one != other);
    match differs {
        Some((one, other)) => bail!(
            "`{TABLE}` has `{one}` where the sources have `{other}`; run `cargo xtask client-table`"
        ),
        None if committed != made => {
            bail!(
                "`{TABLE}` and the sources end at different lines; run `cargo xtask client-table`"
            )
        }
        None => Ok(()),
    }
}

fn table(root: &Path) -> Result<String> {
    let parts = PartsDirectory { root: root.to_path_buf(), below: "target/client-table" };
    let names: Vec<_> = VERSIONS.iter().map(|version| version.name).collect();
    let known: Vec<_> =
        VERSIONS.iter().filter(|version| version.envoy.is_some()).map(|it| it.name).collect();
    let mut table = format!(
        "# What versions of Envoy know: the first and the last one of those below, where not all do.\n\
         # Written by `cargo xtask client-table` from published descriptors and running Envoys, compared\n\
         # by `cargo xtask ci`, never edited. After `define` stands what the last version knows and the crate\n\
         # of our descriptors lacks: the rest of the descriptor of a file, a message or an enum, for `build.rs`.\n\
         versions {}\nextensions-of {}\n",
        names.join(" "),
        known.join(" "),
    );
    for line in api(root, &parts)?.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let &[kind, name, digits] = words.as_slice() else { bail!("an odd line: `{line}`") };
        if ["define", "undefine"].contains(&kind) {
            writeln!(table, "{line}")?;
            continue;
        }
        let has: Vec<_> = digits.bytes().map(|digit| digit == b'1').collect();
        writeln!(table, "{kind} {name} {}", range(&names, &has).context(name.to_owned())?)?;
    }
    for (name, has) in extensions(root, &parts)? {
        writeln!(table, "extension {name} {}", range(&known, &has).context(name.clone())?)?;
    }
    Ok(table)
}

/// The first and the last version that has something, as in `1.36-`, `-1.38` or `-`.
fn range(names: &[&str], has: &[bool]) -> Result<String> {
    let first = has.iter().position(|it| *it).context("no version has it")?;
    let last = has.iter().rposition(|it| *it).unwrap_or(first);
    if has[first..=last].contains(&false) {
        bail!("it went and came again");
    }
    let first = if first == 0 { "" } else { names[first] };
    let last = if last + 1 == names.len() { "" } else { names[last] };
    Ok(format!("{first}-{last}"))
}

/// The lines of the program that reads generated code.
fn api(root: &Path, parts: &PartsDirectory) -> Result<String> {
    let made_from = parts.sources(PROGRAM, &["main.go", "rest.go", "go.mod", "go.sum"])?;
    parts.part("descriptors", &made_from, |target| peers::go(&root.join(PROGRAM), target))?;
    let words = ["metadata", "--locked", "--format-version", "1"];
    let metadata: Value = serde_json::from_str(&output(&mut cargo(root, &words))?)?;
    let packages = metadata["packages"].as_array().context("`cargo metadata` has no packages")?;
    let package = packages.iter().find(|it| it["name"] == PACKAGE).context(PACKAGE)?;
    let manifest = package["manifest_path"].as_str().context("a package without a path")?;
    let types = Path::new(manifest).with_file_name("src").join("generated/types.bin");
    let mut command = program(root, parts.dir()?.join("descriptors"), &[]);
    command.arg(types);
    for version in &VERSIONS {
        command.arg(module(parts, version.module)?);
    }
    output(&mut command)
}

/// The directory of a version of the Go module.
fn module(parts: &PartsDirectory, version: &str) -> Result<PathBuf> {
    let name = format!("{MODULE}@v{version}");
    let words = ["mod", "download", "-json", name.as_str()];
    let answer = output(&mut program(&parts.dir()?, "go", &words))?;
    let answer: Value = serde_json::from_str(&answer).context("`go mod download`")?;
    let dir = answer["Dir"].as_str().with_context(|| format!("`{name}` has no directory"))?;
    Ok(PathBuf::from(dir))
}

/// The types by which Envoys find their extensions, and which of the Envoys have each.
fn extensions(root: &Path, parts: &PartsDirectory) -> Result<BTreeMap<String, Vec<bool>>> {
    let envoys: Vec<_> = VERSIONS.iter().filter_map(|version| version.envoy).collect();
    let mut all: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    for (index, version) in envoys.iter().enumerate() {
        let info = server_info(parts, &fetch::envoy(root, parts, version)?)
            .with_context(|| format!("Envoy {version}"))?;
        let listed = info["node"]["extensions"].as_array().context("no extensions")?;
        let urls = listed.iter().filter_map(|it| it["type_urls"].as_array()).flatten();
        for url in urls.filter_map(Value::as_str) {
            all.entry(url.to_owned()).or_insert_with(|| vec![false; envoys.len()])[index] = true;
        }
    }
    Ok(all)
}

/// The answer of an Envoy about itself.
fn server_info(parts: &PartsDirectory, envoy: &Path) -> Result<Value> {
    let dir = parts.dir()?;
    let (config, address) = (dir.join("envoy.yaml"), dir.join("admin-address"));
    let admin = "admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}\n";
    fs::write(&config, admin)?;
    let _ = fs::remove_file(&address);
    let words = ["--use-dynamic-base-id", "--concurrency", "1", "-l", "error", "-c"];
    let mut command = program(&dir, envoy, &words);
    command.arg(&config).arg("--admin-address-path").arg(&address).stdin(Stdio::null());
    let mut child = command.spawn().context("it does not start")?;
    let answer = ask(&address, "/server_info");
    child.kill()?;
    child.wait()?;
    Ok(serde_json::from_str(&answer?)?)
}

/// Asks the admin interface whose address is written into this file.
fn ask(file: &Path, path: &str) -> Result<String> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        let address = fs::read_to_string(file).unwrap_or_default();
        if let Ok(mut stream) = TcpStream::connect(address.trim()) {
            stream.set_read_timeout(Some(Duration::from_secs(60)))?;
            write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            return body(&answer);
        }
        thread::sleep(Duration::from_millis(50));
    }
    bail!("its admin interface does not answer")
}

/// The body of an answer in chunks, as Envoy writes it.
fn body(answer: &[u8]) -> Result<String> {
    let answer = str::from_utf8(answer)?;
    let (head, mut rest) = answer.split_once("\r\n\r\n").context("no answer")?;
    if !head.contains("chunked") {
        return Ok(rest.to_owned());
    }
    let mut body = String::new();
    loop {
        let (size, more) = rest.split_once("\r\n").context("a chunk without a size")?;
        let size = usize::from_str_radix(size, 16)?;
        if size == 0 {
            return Ok(body);
        }
        body += more.get(..size).context("a short chunk")?;
        rest = more.get(size + 2..).context("a short chunk")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_put_together() {
        let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\na\r\n";
        let whole = format!("{answer}0123456789\r\n0\r\n\r\n");
        assert_eq!(body(whole.as_bytes()).unwrap(), "abc0123456789");
        assert!(body(answer.as_bytes()).is_err());
        assert_eq!(body(b"HTTP/1.1 200 OK\r\n\r\nabc").unwrap(), "abc");
    }

    #[test]
    fn a_table_that_somebody_edited_is_an_error() {
        let committed = include_str!("../../crates/chancery-proto/src/clients/table.txt");
        assert!(same(committed, committed).is_ok());
        let lines: Vec<_> = committed.lines().collect();
        for at in [0, 3, 10, lines.len() / 2, lines.len() - 1] {
            let edited = |edit: &[&str]| {
                let lines = [&lines[..at], edit, &lines[at + 1..]].concat();
                same(&(lines.join("\n") + "\n"), committed)
            };
            let changed = format!("{}x", lines[at]);
            assert!(edited(&[lines[at]]).is_ok());
            assert!(edited(&[&changed]).unwrap_err().to_string().contains(&changed), "{changed}");
            assert!(edited(&[]).is_err(), "without `{}`", lines[at]);
            assert!(edited(&[lines[at], lines[at]]).is_err(), "with `{}` twice", lines[at]);
        }
        assert!(same(committed.trim_end(), committed).is_err());
        assert!(same("", committed).is_err() && same(committed, "").is_err());
    }

    #[test]
    fn a_range_names_the_versions_that_begin_and_end_it() {
        let range = |has: [u8; 3]| range(&["1.1", "1.2", "1.3"], &has.map(|it| it == 1));
        assert_eq!(range([1, 1, 1]).unwrap(), "-");
        assert_eq!(range([0, 1, 1]).unwrap(), "1.2-");
        assert_eq!(range([1, 1, 0]).unwrap(), "-1.2");
        assert_eq!(range([0, 1, 0]).unwrap(), "1.2-1.2");
        assert!(range([1, 0, 1]).is_err() && range([0, 0, 0]).is_err());
    }
}
