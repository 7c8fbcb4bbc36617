//! The table of what versions of Envoy know, as `cargo xtask client-table` wrote it.
//!
//! It has what some of the versions lack, and all extensions that any of them has. What it does not have,
//! all of them know, or it is no part of Envoy's API. Not here: where something of it is used.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The parts of Envoy's API that its versions know.
#[derive(Debug, Default)]
pub(crate) struct Table {
    names: Vec<&'static str>,
    /// The versions of which the extensions are known.
    asked: Versions,
    types: HashMap<&'static str, Versions>,
    /// The fields of a message, and the values of an enum, by its name.
    parts: HashMap<&'static str, Vec<(&'static str, Versions)>>,
    extensions: HashMap<&'static str, Versions>,
}

/// Some of the versions of a table, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Versions(u32);

impl Versions {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    fn of_both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Table {
    /// The table.
    pub(crate) fn known() -> &'static Self {
        static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(include_str!("table.txt")));
        &TABLE
    }

    fn read(text: &'static str) -> Self {
        let mut table = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
            match kind {
                "versions" => table.names = rest.split(' ').collect(),
                "extensions-of" => table.asked = table.all_of(rest),
                // These are for `build.rs`.
                "define" | "undefine" => {}
                _ => {
                    let Some((name, range)) = rest.split_once(' ') else { continue };
                    let versions = table.range(range);
                    match (kind, name.rsplit_once('.')) {
                        ("type", _) => drop(table.types.insert(name, versions)),
                        ("extension", _) => drop(table.extensions.insert(name, versions)),
                        (_, Some((around, part))) => {
                            table.parts.entry(around).or_default().push((part, versions));
                        }
                        (_, None) => {}
                    }
                }
            }
        }
        table
    }

    fn all_of(&self, names: &str) -> Versions {
        names.split(' ').filter_map(|name| self.version(name)).fold(Versions::NONE, Versions::and)
    }

    /// The versions from the first one to the last one of a range, as in `1.36-`.
    fn range(&self, range: &str) -> Versions {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let at = |name: &str| self.names.iter().position(|known| *known == name);
        let from = at(first).unwrap_or(0);
        let to = at(last).unwrap_or_else(|| self.names.len().saturating_sub(1));
        (from..=to).fold(Versions::NONE, |all, at| all.and(Versions(1 << at)))
    }

    fn version(&self, name: &str) -> Option<Versions> {
        let at = self.names.iter().position(|known| *known == name)?;
        Some(Versions(1 << at))
    }

    /// The names of all versions.
    pub(crate) fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// The version of this name, which may have the number of a patch release.
    pub(crate) fn versions_of(&self, name: &str) -> Option<Versions> {
        let minor = match name.split('.').collect::<Vec<_>>().as_slice() {
            [_, _] => name,
            [_, _, patch] if patch.parse::<u16>().is_ok() => name.rsplit_once('.')?.0,
            _ => return None,
        };
        self.version(minor)
    }

    /// The names of these versions.
    pub(crate) fn listed(&self, versions: Versions) -> impl Iterator<Item = &'static str> {
        let named = self.names.iter().enumerate();
        named.filter(move |(at, _)| versions.0 & (1 << at) != 0).map(|(_, name)| *name)
    }

    /// The versions that know a type of messages.
    pub(crate) fn of_type(&self, name: &str) -> Versions {
        self.types.get(name).copied().unwrap_or(Versions(u32::MAX))
    }

    /// The parts of a message or an enum that some versions lack, and those that have each.
    pub(crate) fn parts_of(&self, name: &str) -> &[(&'static str, Versions)] {
        self.parts.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// The versions that have the extension which is found by this type, or may have it. `None` if no Envoy
    /// has it that was asked.
    pub(crate) fn of_extension(&self, name: &str) -> Option<Versions> {
        let has = self.extensions.get(name)?;
        Some(self.of_type(name).of_both(has.and(Versions(u32::MAX).without(self.asked))))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::schema::Schema;

    #[test]
    fn a_table_is_read() {
        let table = Table::read(
            "# note\nversions 1.1 1.2 1.3\nextensions-of 1.2 1.3\ntype a.B 1.2-\nfield a.B.c 1.3-\n\
             field a.B.d -1.2\nvalue a.E.X 1.2-1.2\nextension a.B 1.3-\nextension a.C -\n",
        );
        let listed = |versions| table.listed(versions).collect::<Vec<_>>();
        assert_eq!(listed(table.of_type("a.B")), ["1.2", "1.3"]);
        assert_eq!(listed(table.of_type("a.Z")), ["1.1", "1.2", "1.3"]);
        let [(_, c), (_, d)] = table.parts_of("a.B") else { panic!("two fields") };
        assert_eq!((listed(*c), listed(*d)), (vec!["1.3"], vec!["1.1", "1.2"]));
        assert_eq!(listed(table.parts_of("a.E")[0].1), ["1.2"]);
        assert_eq!(listed(table.of_extension("a.B").unwrap()), ["1.3"]);
        assert_eq!(listed(table.of_extension("a.C").unwrap()), ["1.1", "1.2", "1.3"]);
        assert_eq!(table.of_extension("a.Z"), None);
    }

    #[test]
    fn everything_in_the_table_is_in_the_descriptors() {
        let (table, schema) = (Table::known(), Schema::bundled());
        let pool = schema.message("envoy.config.cluster.v3.Cluster").unwrap();
        let pool = pool.parent_pool();
        assert!(table.names.len() >= 5 && table.parts.len() > 100 && table.extensions.len() > 300);
        let is_type = |name: &&str| pool.get_message_by_name(name).is_some();
        assert_eq!(table.types.keys().find(|name| !is_type(name)), None);
        let parts: BTreeMap<_, _> = table.parts.iter().collect();
        for (around, parts) in parts {
            for (part, _) in parts {
                let message = pool.get_message_by_name(around);
                let field = message.and_then(|it| it.get_field_by_name(part)).is_some();
                let of = pool.get_enum_by_name(around);
                let value = of.and_then(|it| it.get_value_by_name(part)).is_some();
                assert!(field || value, "{around}.{part}");
            }
        }
    }
}
