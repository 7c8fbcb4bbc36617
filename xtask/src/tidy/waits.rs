//! The check that tests which run programs or play peers have no wait without a bound.
//!
//! A wait is recognised by a name on one line, in `crates/*/tests`. Directories there hold code
//! that tests share, such as `daemon::Program` and the `within` of each crate. The bounds are made
//! there, and reviewers look after them.

use crate::findings::Finding;
use crate::lexer::code;
use crate::repository::{RepositoryFile, RepositoryTree};

/// Calls that wait for ever for a program or a peer.
const WAITS: [&str; 4] = ["Command::new(", ".wait_with_output(", ".recv()", ".accept()"];

/// Words of a bounded wait, or of a server of the test that waits for as long as it lives.
const BOUNDS: [&str; 3] = ["within(", "timeout(", "while let "];

/// The directories in which the bounds are made.
const SHARED: [&str; 4] = ["common", "daemon", "stage", "support"];

pub(crate) fn check(tree: &RepositoryTree) -> Vec<Finding> {
    tree.files.iter().filter(|file| is_test(&file.path)).flat_map(of_file).collect()
}

fn is_test(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').collect();
    let ["crates", _, "tests", below @ ..] = &parts[..] else { return false };
    path.ends_with(".rs") && !below.iter().any(|part| SHARED.contains(part))
}

fn of_file(file: &RepositoryFile) -> Vec<Finding> {
    let code = code(file.text().unwrap_or_default());
    let mut findings = Vec::new();
    for (line, number) in code.lines().zip(1..) {
        let waits = WAITS.iter().find(|name| line.contains(**name));
        let is_bound = BOUNDS.iter().any(|name| line.contains(name));
        if let Some(name) = waits.filter(|_| !is_bound) {
            findings.push(Finding::Fault(format!(
                "{}:{number}: `{name}` waits without a bound: `within(…)`, or what tests share",
                file.path
            )));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> usize {
        check(&RepositoryTree::of(&[(path, text)])).len()
    }

    #[test]
    fn waits_without_a_bound_are_faults() {
        let text = "let (io, _) = listener.accept().await;\nlet call = calls.recv().await;\n\
                    Command::new(\"kill\").status();\n";
        assert_eq!(faults("crates/chancery/tests/get.rs", text), 3);
        assert_eq!(faults("crates/chancery/tests/real/peers/go.rs", text), 3);
    }

    #[test]
    fn waits_with_a_bound_servers_and_comments_are_none() {
        let text = "// .recv()\nlet call = within(calls.recv()).await;\n\
                    let call = timeout(PATIENCE, calls.recv());\n\
                    while let Ok(io) = listener.accept().await {}\n";
        assert_eq!(faults("crates/chancery/tests/get.rs", text), 0);
    }

    #[test]
    fn shared_code_and_what_is_no_test_is_left_alone() {
        for path in ["crates/chancery/tests/daemon/mod.rs", "crates/chancery/src/get.rs", "x.rs"] {
            assert_eq!(faults(path, "calls.recv();\n"), 0, "{path}");
        }
    }
}
