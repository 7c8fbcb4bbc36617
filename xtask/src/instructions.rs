//! The number of instructions of a program that is made for counting them: a benchmark of a crate,
//! which lists its parts when it has no words, and runs one of them under valgrind.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

use crate::steps::{cargo, exists, program, run};
use crate::supervise::collect;

/// A program whose instructions are counted.
pub(crate) struct CountedProgram {
    root: PathBuf,
    path: PathBuf,
}

impl CountedProgram {
    /// Builds a benchmark of a package, and makes sure that valgrind is there.
    pub(crate) fn build(root: &Path, package: &str, name: &str) -> Result<Self> {
        valgrind(root)?;
        let path = build(root, package, name)?;
        Ok(Self { root: root.to_path_buf(), path })
    }

    /// The parts that the program lists.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let output = collect(&mut program(&self.root, &self.path, &[]));
        let names = String::from_utf8(output.context("the counted program")?.stdout)?;
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// All instructions of one run.
    pub(crate) fn instructions(&self, words: &[&str]) -> Result<u64> {
        let options = ["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"];
        let mut command = program(&self.root, "valgrind", &options);
        let output = collect(command.arg(&self.path).args(words))?;
        let text = String::from_utf8_lossy(&output.stderr);
        let words = words.join(" ");
        if !output.status.success() {
            bail!("`{words}` fails under valgrind: {text}");
        }
        refs(&text).ok_or_else(|| anyhow!("valgrind tells no instructions of `{words}`: {text}"))
    }
}

/// Builds the program, and returns its path.
fn build(root: &Path, package: &str, name: &str) -> Result<PathBuf> {
    let words = ["bench", "-p", package, "--bench", name, "--no-run", "--quiet"];
    let mut command = cargo(root, &words);
    let output = collect(command.args(["--message-format", "json"])).context("`cargo bench`")?;
    if !output.status.success() {
        bail!("`{name}` does not build: {}", String::from_utf8_lossy(&output.stderr));
    }
    let lines = String::from_utf8(output.stdout)?;
    let messages = lines.lines().filter_map(|line| serde_json::from_str(line).ok());
    messages
        .filter(|message: &serde_json::Value| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .with_context(|| format!("cargo does not say where `{name}` is"))
}

/// The number in a line such as `==7== I   refs:      1,234`.
fn refs(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("refs:"))?;
    line.rsplit(':').next()?.trim().replace(',', "").parse().ok()
}

/// Makes sure that valgrind is there.
fn valgrind(root: &Path) -> Result<()> {
    if exists(&mut program(root, "valgrind", &["--version"])) {
        return Ok(());
    }
    println!("installing valgrind");
    run(&mut program(root, "apt-get", &["install", "-y", "-q", "valgrind"])).context(
        "instructions are counted by `valgrind`, which is not here and could not be installed: \
         install it, or run this as root on Debian",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_instructions_is_found() {
        let text = "==7== Cachegrind\n==7== \n==7== I   refs:      1,234,567\n";
        assert_eq!(refs(text), Some(1_234_567));
        assert_eq!(refs("==7== killed"), None);
    }
}
