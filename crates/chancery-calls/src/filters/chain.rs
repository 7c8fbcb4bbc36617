//! The filters that a call passes, in their order, the router last.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use chancery_core::printable::{MAX_NAME_BYTES, Printable, cut};

use super::{FilterConfig, OverrideScopes};

/// A filter as a resource lists it.
#[derive(Clone, Debug)]
pub struct FilterEntry {
    /// The name of this use of the filter.
    pub name: Arc<str>,
    /// The filter.
    pub filter: ListedFilter,
    /// True if it is off, unless a route configures it.
    pub is_disabled: bool,
}

/// A filter that is known, or not.
#[derive(Clone, Debug)]
pub enum ListedFilter {
    /// A known filter with its configuration.
    Known(FilterConfig),
    /// A filter that nobody here knows.
    Unknown {
        /// The type of its configuration.
        type_url: String,
        /// True if calls may do without it.
        is_optional: bool,
    },
}

/// A filter in a chain.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The name of this use of the filter.
    pub name: Arc<str>,
    /// Its configuration on this way.
    pub config: FilterConfig,
    /// The configuration that the listener has for it, even if it is off there.
    listed: FilterConfig,
}

/// The filters that a call passes. The last one ends the chain, and no other does.
#[derive(Clone, Debug)]
pub struct FilterChain(Arc<[Filter]>);

impl FilterChain {
    /// Checks a list of filters, and leaves out unknown ones that are optional. All faults are told.
    pub fn new(entries: Vec<FilterEntry>) -> Result<Self, Vec<FilterFault>> {
        let mut faults = Vec::new();
        if entries.is_empty() {
            faults.push(FilterFault::NoFilters);
        }
        let (mut names, mut filters) = (BTreeSet::new(), Vec::new());
        for FilterEntry { name, filter, is_disabled } in entries {
            if !names.insert(name.clone()) {
                faults.push(FilterFault::Duplicate { name: name.to_string() });
            }
            match filter {
                ListedFilter::Known(listed) => {
                    if is_disabled && listed.is_terminal() {
                        faults.push(FilterFault::Off { name: name.to_string() });
                    }
                    let config = if is_disabled { FilterConfig::Disabled } else { listed.clone() };
                    filters.push(Filter { name, config, listed });
                }
                ListedFilter::Unknown { is_optional: true, .. } => {}
                ListedFilter::Unknown { type_url, is_optional: false } => {
                    faults.push(FilterFault::Unknown { name: name.to_string(), type_url });
                }
            }
        }
        match filters.split_last() {
            Some((last, before)) => {
                let early = before.iter().filter(|filter| filter.listed.is_terminal());
                faults.extend(
                    early.map(|filter| FilterFault::Early { name: filter.name.to_string() }),
                );
                if !last.listed.is_terminal() {
                    faults.push(FilterFault::NoEnd { name: last.name.to_string() });
                }
            }
            None if faults.is_empty() => faults.push(FilterFault::NoFilters),
            None => {}
        }
        if faults.is_empty() { Ok(Self(filters.into())) } else { Err(faults) }
    }

    /// The end alone, for calls of which nothing says that they pass filters.
    pub fn without_filters() -> Self {
        let config = FilterConfig::Router;
        Self(Arc::from([Filter { name: "router".into(), listed: config.clone(), config }]))
    }

    /// The filters in their order.
    pub fn filters(&self) -> &[Filter] {
        &self.0
    }

    /// The chain on a way that says something of filters. If nothing changes, it is this one.
    pub fn with(&self, scopes: &OverrideScopes<'_>) -> Result<Self, OverrideMismatch> {
        if self.0.iter().all(|filter| scopes.get(&filter.name).is_none()) {
            return Ok(self.clone());
        }
        let merged = self.0.iter().map(|filter| {
            let config = match scopes.get(&filter.name) {
                Some(config) if config.replaces(&filter.listed) => config.clone(),
                None => filter.config.clone(),
                Some(config) => {
                    let (wanted, found) = (filter.listed.kind(), config.kind());
                    let (wanted, found) = (wanted.to_owned(), found.to_owned());
                    return Err(OverrideMismatch { name: filter.name.clone(), wanted, found });
                }
            };
            let (name, listed) = (filter.name.clone(), filter.listed.clone());
            Ok(Filter { name, config, listed })
        });
        Ok(Self(merged.collect::<Result<_, _>>()?))
    }
}

/// A fault of a list of filters. It is that of whoever wrote the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the name of the filter and its type")]
#[non_exhaustive]
pub enum FilterFault {
    /// The list is empty.
    NoFilters,
    /// A name is there twice.
    Duplicate { name: String },
    /// A filter is not known, and not optional.
    Unknown { name: String, type_url: String },
    /// A filter that ends the chain is not the last one.
    Early { name: String },
    /// The last filter does not end the chain.
    NoEnd { name: String },
    /// A filter that ends the chain is off.
    Off { name: String },
}

impl Display for FilterFault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let quoted = |text| Printable(cut(text, MAX_NAME_BYTES).to_string());
        match self {
            Self::NoFilters => f.write_str("there are no HTTP filters"),
            Self::Duplicate { name } => {
                write!(f, "two HTTP filters have the name `{}`", quoted(name))
            }
            Self::Unknown { name, type_url } => {
                let (name, type_url) = (quoted(name), quoted(type_url));
                write!(f, "the HTTP filter `{name}` is of the unknown type `{type_url}`")
            }
            Self::Early { name } => {
                write!(f, "the HTTP filter `{}` has to be the last one", quoted(name))
            }
            Self::NoEnd { name } => {
                let name = quoted(name);
                write!(f, "the last HTTP filter, `{name}`, has to be one that ends the chain")
            }
            Self::Off { name } => {
                write!(
                    f,
                    "the HTTP filter `{}` ends the chain, and cannot be disabled",
                    quoted(name)
                )
            }
        }
    }
}

impl Error for FilterFault {}

/// A route has a configuration for a filter of another kind.
///
/// Routes and listeners are different resources, so neither can be rejected for it. The calls of that way
/// fail, as they would pass without a filter that was meant for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideMismatch {
    /// The name of the filter.
    pub name: Arc<str>,
    /// The kind that the listener has.
    pub wanted: String,
    /// The kind that the route has.
    pub found: String,
}

impl Display for OverrideMismatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let quoted = |text| Printable(cut(text, MAX_NAME_BYTES).to_string());
        let (name, wanted, found) = (quoted(&self.name), quoted(&self.wanted), quoted(&self.found));
        write!(f, "the HTTP filter `{name}` is a `{wanted}`, and the route configures a `{found}`")
    }
}

impl Error for OverrideMismatch {}

#[cfg(test)]
mod tests {
    use super::super::{CustomFilter, Overrides};
    use super::*;

    #[derive(Debug)]
    struct Toy(&'static str, u32);

    impl CustomFilter for Toy {
        fn kind(&self) -> &str {
            self.0
        }
    }

    fn toy(kind: &'static str, number: u32) -> FilterConfig {
        FilterConfig::Custom(Arc::new(Toy(kind, number)))
    }

    fn known(name: &str, config: FilterConfig) -> FilterEntry {
        let filter = ListedFilter::Known(config);
        FilterEntry { name: name.into(), filter, is_disabled: false }
    }

    fn unknown(name: &str, is_optional: bool) -> FilterEntry {
        let filter = ListedFilter::Unknown { type_url: "t/x".to_owned(), is_optional };
        FilterEntry { name: name.into(), filter, is_disabled: false }
    }

    fn router() -> FilterEntry {
        known("router", FilterConfig::Router)
    }

    #[test]
    fn a_chain_is_checked_and_all_faults_are_told() {
        // C-093
        let faults = |entries| {
            let found = FilterChain::new(entries).err().unwrap_or_default();
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(faults(vec![]), ["there are no HTTP filters"]);
        assert_eq!(faults(vec![unknown("a", true)]), ["there are no HTTP filters"]);
        assert_eq!(faults(vec![known("a", toy("t", 1)), unknown("b", true), router()]), [""; 0]);
        assert_eq!(
            faults(vec![router(), known("router", toy("t", 1)), unknown("b", false)]),
            [
                "two HTTP filters have the name `router`",
                "the HTTP filter `b` is of the unknown type `t/x`",
                "the HTTP filter `router` has to be the last one",
                "the last HTTP filter, `router`, has to be one that ends the chain",
            ]
        );
    }

    #[test]
    fn a_filter_that_is_there_twice_under_two_names_has_two_configurations() {
        // C-093
        let entries = vec![known("a", toy("t", 1)), known("b", toy("t", 2)), router()];
        let chain = FilterChain::new(entries).unwrap();
        let numbers: Vec<_> =
            chain.filters().iter().map(|it| it.config.custom::<Toy>().map(|toy| toy.1)).collect();
        assert_eq!(numbers, [Some(1), Some(2), None]);
    }

    #[test]
    fn a_filter_that_is_disabled_is_on_where_a_route_configures_it() {
        // C-093
        let off = |entry: FilterEntry| FilterEntry { is_disabled: true, ..entry };
        let chain = FilterChain::new(vec![off(known("a", toy("t", 1))), router()]).unwrap();
        assert!(matches!(chain.filters()[0].config, FilterConfig::Disabled));
        let of_route = |overrides: &Overrides| {
            let host = &Overrides::default();
            chain.with(&OverrideScopes { cluster: None, route: overrides, host })
        };
        let on = of_route(&Overrides::new([("a".into(), toy("t", 2))])).unwrap();
        assert_eq!(on.filters()[0].config.custom::<Toy>().map(|toy| toy.1), Some(2));
        let other = of_route(&Overrides::new([("a".into(), toy("u", 2))]));
        assert!(other.is_err(), "it is of another kind");
        let faults = FilterChain::new(vec![off(router())]).unwrap_err();
        let why = "the HTTP filter `router` ends the chain, and cannot be disabled";
        assert_eq!(faults[0].to_string(), why);
    }

    #[test]
    fn the_most_specific_override_counts() {
        // C-093
        let entries = ["a", "b", "c", "d"].map(|name| known(name, toy("t", 0)));
        let chain = FilterChain::new(entries.into_iter().chain([router()]).collect()).unwrap();
        let overrides = |names: &[&str], number| {
            Overrides::new(names.iter().map(|&name| (name.into(), toy("t", number))))
        };
        let host = overrides(&["a", "b", "c", "no such filter"], 1);
        let (route, cluster) = (overrides(&["b", "c"], 2), overrides(&["c"], 3));
        let scopes = OverrideScopes { cluster: Some(&cluster), route: &route, host: &host };
        let merged = chain.with(&scopes).unwrap();
        let numbers: Vec<_> = merged
            .filters()
            .iter()
            .filter_map(|it| it.config.custom::<Toy>())
            .map(|it| it.1)
            .collect();
        assert_eq!(numbers, [1, 2, 3, 0]);
        // A chain that nothing changes is not copied.
        let none = Overrides::default();
        let scopes = OverrideScopes { cluster: None, route: &none, host: &none };
        assert!(scopes.is_empty());
        assert!(Arc::ptr_eq(&chain.with(&scopes).unwrap().0, &chain.0));
    }

    #[test]
    fn an_override_of_another_kind_is_found() {
        let chain = FilterChain::new(vec![known("a", toy("t", 0)), router()]).unwrap();
        let none = Overrides::default();
        let with = |name: &str, config| {
            let route = Overrides::new([(name.into(), config)]);
            chain.with(&OverrideScopes { cluster: None, route: &route, host: &none })
        };
        let fault = with("a", toy("u", 1)).unwrap_err();
        let text = "the HTTP filter `a` is a `t`, and the route configures a `u`";
        assert_eq!(fault.to_string(), text);
        assert!(with("a", FilterConfig::Router).is_err());
        assert!(with("router", FilterConfig::Disabled).is_err());
        let off = with("a", FilterConfig::Disabled).unwrap();
        assert_eq!(off.filters()[0].config.kind(), "disabled");
        // gRFC A55: a filter that is off can be on for a route.
        let entries = vec![known("a", FilterConfig::Disabled), router()];
        let route = Overrides::new([("a".into(), toy("t", 1))]);
        let scopes = OverrideScopes { cluster: None, route: &route, host: &none };
        let on = FilterChain::new(entries).unwrap().with(&scopes).unwrap();
        assert_eq!(on.filters()[0].config.kind(), "t");
    }
}
