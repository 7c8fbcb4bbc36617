//! The members of glob collections in a set (S-117, [xRFC TP1]).
//!
//! A client may ask for thousands of globs that differ in their context parameters alone. So the
//! resources below a path are looked at once for all globs of the path, and not once for each.
//!
//! [xRFC TP1]: https://github.com/cncf/xds/blob/main/proposals/TP1-xds-transport-next.md

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ResourceSet;
use crate::{Resource, ResourceName};

/// Globs by the path that their members are in, and then by their context parameters.
struct GlobsByPath<'g>(BTreeMap<&'g str, BTreeMap<&'g str, &'g ResourceName>>);

impl ResourceSet {
    /// The members of a glob collection.
    pub fn members<'a>(
        &'a self,
        glob: &'a ResourceName,
    ) -> impl Iterator<Item = &'a Arc<Resource>> {
        let prefix = glob.glob_prefix().unwrap_or("\u{10ffff}");
        let parameters = parameters(glob);
        self.with_prefix(prefix)
            .filter(move |member| parameters_below(prefix, member.name()) == Some(parameters))
    }

    /// The members of any of these glob collections.
    pub(crate) fn members_of_any<'a>(
        &'a self,
        globs: impl Iterator<Item = &'a ResourceName>,
    ) -> Vec<&'a Arc<Resource>> {
        let mut members = Vec::new();
        for (prefix, globs) in GlobsByPath::new(globs).0 {
            members.extend(self.with_prefix(prefix).filter(|member| {
                parameters_below(prefix, member.name()).is_some_and(|it| globs.contains_key(it))
            }));
        }
        members
    }

    /// Those of these glob collections that have members.
    pub(crate) fn inhabited<'a>(
        &self,
        globs: impl Iterator<Item = &'a ResourceName>,
    ) -> BTreeSet<&'a ResourceName> {
        let mut inhabited = BTreeSet::new();
        for (prefix, mut left) in GlobsByPath::new(globs).0 {
            for member in self.with_prefix(prefix) {
                if left.is_empty() {
                    break;
                }
                let parameters = parameters_below(prefix, member.name());
                inhabited.extend(parameters.and_then(|it| left.remove(it)));
            }
        }
        inhabited
    }
}

impl<'g> GlobsByPath<'g> {
    fn new(globs: impl Iterator<Item = &'g ResourceName>) -> Self {
        let mut by_path: BTreeMap<&str, BTreeMap<&str, &ResourceName>> = BTreeMap::new();
        for glob in globs {
            if let Some(prefix) = glob.glob_prefix() {
                by_path.entry(prefix).or_default().insert(parameters(glob), glob);
            }
        }
        Self(by_path)
    }
}

/// The context parameters of a name.
fn parameters(name: &ResourceName) -> &str {
    name.as_str().split_once('?').map_or("", |(_, query)| query)
}

/// The context parameters of a name that starts with the path of a collection, if it is in this
/// collection and not in one below.
fn parameters_below<'n>(prefix: &str, name: &'n ResourceName) -> Option<&'n str> {
    let rest = name.as_str().get(prefix.len()..)?;
    let (id, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    (!id.contains('/')).then_some(parameters)
}
