//! The licence of each package: an expression that the allowed licences satisfy.
//!
//! The licence is the one that the manifest declares; its text is not looked at.

use super::rules::Rules;
use super::{Package, spdx};
use crate::findings::Finding;

pub(super) fn check(rules: &Rules, packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let foreign: Vec<_> = packages.iter().filter(|package| package.is_published).collect();
    for package in &foreign {
        if let Err(fault) = judge(rules, package) {
            let Package { name, version, .. } = package;
            findings.push(Finding::Fault(format!("`{name}` {version}: {fault}")));
        }
    }
    let expressions = || foreign.iter().filter_map(|package| package.license.as_deref());
    for license in &rules.licenses {
        if !expressions().any(|expression| expression.contains(license.as_str())) {
            findings.push(Finding::Note(format!("licence `{license}` is allowed and nobody's")));
        }
    }
    findings
}

fn judge(rules: &Rules, package: &Package) -> Result<(), String> {
    let Some(expression) = &package.license else {
        return Err("has no `license` in its manifest".to_owned());
    };
    let is_allowed = |license: &str| rules.licenses.iter().any(|allowed| allowed == license);
    match spdx::satisfied(expression, is_allowed) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("licence `{expression}` is not allowed")),
        Err(fault) => Err(format!("licence `{expression}`: {fault}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{faults, ours, published};
    use super::*;

    fn rules() -> Rules {
        Rules { licenses: vec!["MIT".to_owned()], ..Rules::default() }
    }

    fn licensed(license: Option<&str>) -> [Package; 2] {
        let license = license.map(str::to_owned);
        [published("a", "1.0.0"), Package { license, ..published("b", "2.0.0") }]
    }

    #[test]
    fn a_licence_that_is_not_listed_is_refused() {
        assert_eq!(check(&rules(), &licensed(Some("MIT OR GPL-3.0-only"))), []);
        let found = faults(check(&rules(), &licensed(Some("GPL-3.0-only"))));
        assert_eq!(found, ["`b` 2.0.0: licence `GPL-3.0-only` is not allowed"]);
    }

    #[test]
    fn a_package_without_a_licence_is_refused() {
        let found = faults(check(&rules(), &licensed(None)));
        assert_eq!(found, ["`b` 2.0.0: has no `license` in its manifest"]);
    }

    #[test]
    fn an_expression_that_cannot_be_read_is_refused() {
        let found = faults(check(&rules(), &licensed(Some("MIT AND"))));
        assert_eq!(found, ["`b` 2.0.0: licence `MIT AND`: a licence is expected at the end"]);
    }

    #[test]
    fn packages_of_this_repository_are_exempt() {
        let ours = ours(&json!({"name": "b", "req": "1"}));
        let found = check(&Rules::default(), &[ours]);
        assert_eq!(found, []);
    }

    #[test]
    fn a_licence_that_nobody_has_is_worth_a_look() {
        let rules = Rules { licenses: vec!["MIT".to_owned(), "ISC".to_owned()], ..rules() };
        let found = check(&rules, &licensed(Some("MIT")));
        assert!(matches!(&found[..], [Finding::Note(text)] if text.contains("`ISC`")), "{found:?}");
    }
}
