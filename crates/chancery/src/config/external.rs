//! The `external` keys: names that clients know and no file has, as of a cluster in their bootstrap.
//!
//! Not here: which references lead nowhere (`chancery_catalog`), and what is said of them
//! (`serve/reference_warnings.rs`).

use std::collections::BTreeMap;

use chancery_catalog::{Audience, External, Lineage};

use super::Config;
use super::pattern::Patterns;

/// The external names of a configuration: those for all clients, and those of each group with a rule. The
/// clients of a group know those of the groups that it extends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExternalNames {
    all: Patterns,
    /// The groups with rules; one without such names has no patterns.
    groups: BTreeMap<String, Vec<Patterns>>,
    lineage: Lineage,
}

impl ExternalNames {
    /// The external names of a configuration.
    pub(crate) fn new(config: &Config) -> Self {
        let mut groups: BTreeMap<String, Vec<Patterns>> = BTreeMap::new();
        for rule in config.groups.iter() {
            let of_group = groups.entry(rule.name.as_str().to_owned()).or_default();
            of_group.extend((!rule.external.is_empty()).then(|| rule.external.clone()));
        }
        Self { all: config.external.clone(), groups, lineage: config.groups.lineage().clone() }
    }

    /// The names as the catalog asks for them.
    pub(crate) fn for_catalog(&self) -> External {
        let names = self.clone();
        External::new(move |audience, name| names.knows(audience, name))
    }

    /// Returns true if the clients of an audience know the name.
    fn knows(&self, audience: &Audience, name: &str) -> bool {
        let groups = audience.group.iter().flat_map(|group| self.lineage.chain(group));
        let mut of_groups = groups.filter_map(|group| self.groups.get(&**group)).flatten();
        self.all.matches(name) || of_groups.any(|patterns| patterns.matches(name))
    }

    /// The words for whoever has to declare a name: what to write, and where. `group` is the only
    /// group whose clients know it, if it is only one.
    pub(crate) fn advice(&self, name: &str, group: Option<&str>) -> String {
        let name = in_yaml(name);
        let rule = group.and_then(|group| Some((group, self.groups.get(group)?)));
        match rule {
            Some((group, names)) if names.is_empty() => {
                format!(
                    "write `external: [{name}]` at the rule of group `{group}` in chancery.yaml"
                )
            }
            Some((group, _)) => {
                format!("add `{name}` to `external` of group `{group}` in chancery.yaml")
            }
            None if self.all.is_empty() => format!("write `external: [{name}]` in chancery.yaml"),
            None => format!("add `{name}` to `external` in chancery.yaml"),
        }
    }
}

/// A text as an element of a list in YAML.
fn in_yaml(text: &str) -> String {
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|it| it.is_ascii_alphanumeric() || "-_./".contains(it));
    let is_word = ["null", "true", "false"].contains(&text.to_ascii_lowercase().as_str());
    match is_plain && !is_word {
        true => text.to_owned(),
        false => serde_json::Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use chancery_proto::syntax;

    use super::*;

    fn names(text: &str) -> ExternalNames {
        ExternalNames::new(&syntax::from_yaml(text).unwrap())
    }

    #[test]
    fn names_are_known_to_all_or_to_a_group() {
        let names = names(
            "external: [\"xds_*\"]\ngroups:\n- {name: edge, match: {id: a}, external: local}\n\
             - {name: edge, match: {id: b}, external: [more, most]}\n- {name: core, match: {id: c}}\n\
             - {name: canary, extends: edge, match: {id: d}}\n",
        );
        let knows = |group: Option<&str>, name: &str| {
            names.knows(&Audience::of(group.map(Into::into), None), name)
        };
        assert!(knows(None, "xds_cluster") && knows(Some("edge"), "xds_cluster"));
        assert!(knows(Some("edge"), "local") && knows(Some("edge"), "most"));
        assert!(!knows(Some("core"), "local") && !knows(None, "local"));
        assert!(knows(Some("canary"), "local") && !knows(Some("canary"), "other"));
        assert!(!knows(Some("none"), "local"));
    }

    #[test]
    fn what_is_to_be_written_can_be_pasted() {
        for name in ["a", "a-b/c.d_e", "outbound|80||a.b", "*", "-", "9", "null", "a: \"b\", c"] {
            let advice = names("{}").advice(name, None);
            let line = advice.split('`').nth(1).unwrap();
            let read: Config = syntax::from_yaml(line).unwrap();
            assert!(read.external.matches(name), "{advice}");
        }
        let some = names("external: [x]\ngroups: [{name: g, match: {id: a}}]\n");
        assert_eq!(some.advice("y", None), "add `y` to `external` in chancery.yaml");
        let of_group = some.advice("y", Some("g"));
        assert_eq!(of_group, "write `external: [y]` at the rule of group `g` in chancery.yaml");
        let some = names("groups: [{name: g, match: {id: a}, external: x}]\n");
        let of_group = some.advice("y", Some("g"));
        assert_eq!(of_group, "add `y` to `external` of group `g` in chancery.yaml");
        assert_eq!(some.advice("y", Some("h")), "write `external: [y]` in chancery.yaml");
    }
}
