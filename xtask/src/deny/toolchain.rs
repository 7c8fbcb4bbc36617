//! The oldest Rust that every package can be built with.
//!
//! The packages of this repository say which Rust they need, and so do most others. One that needs
//! a later Rust would raise that of its users unseen. A package that does not say is not checked.

use super::Package;
use crate::findings::Finding;

/// A version of Rust, as numbers that compare.
type Rust = Vec<u32>;

pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    let needs = |package: &&Package| package.rust_version.as_deref().and_then(numbers);
    let (others, ours): (Vec<&Package>, Vec<&Package>) =
        packages.iter().partition(|package| package.is_published);
    let Some(oldest) = ours.iter().filter_map(needs).min() else { return Vec::new() };
    let is_later = |package: &&&Package| needs(package).is_some_and(|rust| rust > oldest);
    let fault = |package: &&Package| {
        let Package { name, version, rust_version, .. } = package;
        Finding::Fault(format!(
            "`{name}` {version} needs Rust {}, our `rust-version` is older",
            rust_version.as_deref().unwrap_or_default()
        ))
    };
    others.iter().filter(is_later).map(fault).collect()
}

/// The three numbers of a version, of which the last may be left out.
fn numbers(text: &str) -> Option<Rust> {
    let mut numbers: Rust = text.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    numbers.resize(3, 0);
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{faults, ours, published};
    use super::*;

    fn check_of(rust_version: Option<&str>) -> Vec<String> {
        let needing = |rust: Option<&str>, package| Package {
            rust_version: rust.map(str::to_owned),
            ..package
        };
        let own = needing(Some("1.91"), ours(&json!({"name": "a", "req": "^1"})));
        faults(check(&[own, needing(rust_version, published("a", "1.0.0"))]))
    }

    #[test]
    fn a_package_may_need_our_rust_or_an_older_one_or_not_say() {
        for rust_version in [Some("1.91"), Some("1.91.0"), Some("1.9"), Some("1.63.2"), None] {
            assert_eq!(check_of(rust_version), [""; 0], "{rust_version:?}");
        }
    }

    #[test]
    fn a_package_that_needs_a_later_rust_is_refused() {
        for rust_version in ["1.92", "1.91.1", "1.100.0"] {
            let expected =
                format!("`a` 1.0.0 needs Rust {rust_version}, our `rust-version` is older");
            assert_eq!(check_of(Some(rust_version)), [expected]);
        }
    }
}
