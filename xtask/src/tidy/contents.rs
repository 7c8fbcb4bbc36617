//! The check of contents that no file may have: binaries, keys and certificates, registry hosts.
//!
//! Lock files of cargo are exempt from the last: cargo writes the name of its index there.

use crate::findings::Finding;
use crate::repository::{RepositoryFile, RepositoryTree};

/// Registry hosts, in two parts so that this file does not name them.
const HOSTS: [(&str, &str); 8] = [
    ("crates", "io"),
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("npmjs", "org"),
    ("npmjs", "com"),
    ("proxy.golang", "org"),
    ("sum.golang", "org"),
    ("yarnpkg", "com"),
];

/// Endings of files that hold keys, certificates or stores of them.
const SECRET_ENDINGS: [&str; 8] = [".pem", ".key", ".crt", ".cer", ".der", ".p12", ".pfx", ".jks"];

pub(crate) fn check(tree: &RepositoryTree) -> Vec<Finding> {
    tree.files.iter().flat_map(of_file).collect()
}

fn of_file(file: &RepositoryFile) -> Vec<Finding> {
    let path = &file.path;
    if SECRET_ENDINGS.iter().any(|ending| path.ends_with(ending)) {
        return vec![Finding::Fault(format!(
            "{path}: keys and certificates are made by the tests"
        ))];
    }
    let Some(text) = file.text() else {
        return vec![Finding::Fault(format!("{path}: is not UTF-8 text"))];
    };
    let mut findings = Vec::new();
    if let Some(line) = armoured(text) {
        findings.push(Finding::Fault(format!("{path}:{line}: a key or a certificate")));
    }
    if !path.ends_with("Cargo.lock") {
        findings.extend(hosts(path, text));
    }
    findings
}

/// The line of a PEM header that is followed by what looks like its content.
fn armoured(text: &str) -> Option<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let header = |pair: &[&str]| pair[0].contains("-----BEGIN ") && is_base64(pair[1]);
    lines.windows(2).position(header).map(|index| index + 1)
}

fn is_base64(line: &str) -> bool {
    let content = line.trim().trim_matches(['"', '\\', '|', ' ']);
    let plain = |char: char| char.is_ascii_alphanumeric() || "+/=".contains(char);
    content.len() >= 40 && content.chars().all(plain)
}

fn hosts(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (name, domain) in HOSTS {
            let host = format!("{name}.{domain}");
            if line.contains(&host) {
                let line = index + 1;
                findings
                    .push(Finding::Fault(format!("{path}:{line}: names the registry `{host}`")));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&RepositoryTree::of(&[(path, text)])).len()
    }

    #[test]
    fn a_binary_is_found() {
        assert_eq!(findings("a.bin", "a\0b"), 1);
        let bytes = vec![0xff, 0xfe];
        assert_eq!(of_file(&RepositoryFile { path: "a".to_owned(), bytes }).len(), 1);
    }

    #[test]
    fn a_key_is_found_and_a_mention_of_one_is_not() {
        let header = format!("-----BEGIN {}-----", "PRIVATE KEY");
        let body = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg";
        assert_eq!(findings("a.yaml", &format!("key: |\n  {header}\n  {body}\n")), 1);
        assert_eq!(
            findings("a.rs", &format!("assert!(!log.contains(\"{header}\"));\nnext();\n")),
            0
        );
        assert_eq!(findings("tls/ca.pem", ""), 1);
    }

    #[test]
    fn a_registry_host_is_found_outside_of_lock_files() {
        let text = format!("see https://{}.{}/x", "crates", "io");
        assert_eq!(findings("README.md", &text), 1);
        assert_eq!(findings("a/Cargo.lock", &text), 0);
        assert_eq!(findings("go.mod", "require golang.org/x/net v0.42.0"), 0);
    }
}
