//! Configurations of filters that belong to a virtual host, a route, or a cluster of one (C-093).

use std::sync::Arc;

use super::FilterConfig;

/// Configurations by the names of filters.
///
/// A name that no filter of the listener has is fine: routes do not know who uses them.
#[derive(Clone, Debug, Default)]
pub struct Overrides(Option<Arc<[Override]>>);

/// The configuration of the filter with a name.
type Override = (Arc<str>, FilterConfig);

impl Overrides {
    /// Takes configurations by name. Of several with one name the last counts.
    pub fn new(configs: impl IntoIterator<Item = (Arc<str>, FilterConfig)>) -> Self {
        let configs: std::collections::BTreeMap<_, _> = configs.into_iter().collect();
        Self((!configs.is_empty()).then(|| configs.into_iter().collect()))
    }

    /// The configuration of the filter with this name.
    pub fn get(&self, name: &str) -> Option<&FilterConfig> {
        let configs = self.0.as_deref()?;
        let at = configs.binary_search_by(|(other, _)| (**other).cmp(name)).ok()?;
        Some(&configs[at].1)
    }

    /// The configurations, by the names of their filters.
    pub fn configs(&self) -> impl Iterator<Item = &FilterConfig> {
        self.0.iter().flat_map(|configs| configs.iter()).map(|(_, config)| config)
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// All that a call's way says of filters, from the most specific to the least.
#[derive(Clone, Copy, Debug)]
pub struct OverrideScopes<'a> {
    /// Those of the weighted cluster that was chosen, if the route has several.
    pub cluster: Option<&'a Overrides>,
    /// Those of the route.
    pub route: &'a Overrides,
    /// Those of the virtual host.
    pub host: &'a Overrides,
}

impl<'a> OverrideScopes<'a> {
    /// The configuration that counts for the filter with this name. It replaces the listener's as a whole.
    pub fn get(&self, name: &str) -> Option<&'a FilterConfig> {
        let cluster = self.cluster.and_then(|cluster| cluster.get(name));
        cluster.or_else(|| self.route.get(name)).or_else(|| self.host.get(name))
    }

    /// Returns true if nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.cluster.is_none_or(Overrides::is_empty)
            && self.route.is_empty()
            && self.host.is_empty()
    }
}
