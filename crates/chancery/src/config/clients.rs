//! The `clients` keys: which clients get a group, or everything that says nothing else.
//!
//! Not here: what these clients make of a resource (`chancery_proto`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use chancery_proto::clients::{Clients, UnknownClient};
use chancery_proto::document::Checks;
use chancery_sources::LayerChecks;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Config, Decision, list};

/// The clients that somebody declared, or none at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct DeclaredClients(Vec<Client>);

/// One of them: `envoy`, `envoy=1.36` or `grpc`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "String", into = "String")]
struct Client(Clients);

impl DeclaredClients {
    /// Returns true if nothing is declared.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The clients, if any are declared.
    fn all(&self) -> Option<Clients> {
        self.0.iter().map(|client| client.0).reduce(Clients::and)
    }
}

/// One client, or a list of them.
impl<'de> Deserialize<'de> for DeclaredClients {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        list::texts(deserializer).map(Self)
    }
}

impl FromStr for Client {
    type Err = UnknownClient;
    fn from_str(text: &str) -> Result<Self, UnknownClient> {
        text.parse().map(Self)
    }
}

impl TryFrom<String> for Client {
    type Error = UnknownClient;
    fn try_from(text: String) -> Result<Self, UnknownClient> {
        text.parse()
    }
}

impl From<Client> for String {
    fn from(client: Client) -> Self {
        client.to_string()
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Config {
    /// The checks of each layer, for the clients that get it.
    pub(crate) fn checks(&self) -> LayerChecks {
        self.checks_seeing(&SeenGroups::new())
    }

    /// The same, if clients of gRPC are seen in these groups. That counts where nothing is declared.
    pub(crate) fn checks_seeing(&self, seen: &SeenGroups) -> LayerChecks {
        let rules = self.gate.rules();
        let others = self.clients.all().unwrap_or_default();
        let with = |clients| Checks { rules, clients };
        let seen = Some(seen).filter(|_| self.clients.is_empty());
        let groups = self.clients_of_groups(others, seen);
        let has_others = [&self.unmatched, &self.anonymous].contains(&&Decision::Base);
        let of_others = seeing(others, seen, None);
        let everybody = groups.values().copied().chain(has_others.then_some(of_others));
        let shared = everybody.reduce(Clients::and).unwrap_or(others);
        let lineage = self.groups.lineage();
        // A group gets the layers of those that it extends.
        let mut layers: BTreeMap<_, Clients> = BTreeMap::new();
        for (group, clients) in &groups {
            for layer in lineage.chain(group) {
                let of_layer = layers.entry(layer.clone()).or_insert(Clients::NONE);
                *of_layer = of_layer.and(*clients);
            }
        }
        let groups = layers.into_iter().map(|(layer, clients)| (layer, with(clients))).collect();
        let allowed = self.allow.codes().map(str::to_owned).collect();
        LayerChecks { shared: with(shared), groups, other_groups: with(others), allowed }
    }

    /// The clients of each group that a node may be in.
    fn clients_of_groups(
        &self,
        others: Clients,
        seen: Option<&SeenGroups>,
    ) -> BTreeMap<Arc<str>, Clients> {
        let mut declared: BTreeMap<&str, Option<Clients>> = BTreeMap::new();
        for rule in self.groups.iter() {
            let of_group = declared.entry(rule.name.as_str()).or_default();
            let both = of_group.take().into_iter().chain(rule.clients.all());
            *of_group = both.reduce(|one, other| one.and(other));
        }
        for decision in [&self.unmatched, &self.anonymous] {
            if let Decision::Group(name) = decision {
                declared.entry(name.as_str()).or_default();
            }
        }
        for group in seen.into_iter().flatten().flatten() {
            declared.entry(group).or_default();
        }
        let of = |group: &Arc<str>| {
            let mut chain = self.groups.lineage().chain(group);
            let declared = chain.find_map(|group| declared.get(&**group).copied().flatten());
            declared.unwrap_or_else(|| seeing(others, seen, Some(group)))
        };
        let names = declared.keys().map(|name| Arc::from(*name));
        names.map(|group| (Arc::clone(&group), of(&group))).collect()
    }
}

/// Groups with clients of gRPC; `None` stands for the nodes in no group.
pub(crate) type SeenGroups = BTreeSet<Option<Arc<str>>>;

/// These clients, and those of gRPC if they are seen in a group.
fn seeing(clients: Clients, seen: Option<&SeenGroups>, group: Option<&Arc<str>>) -> Clients {
    match seen.is_some_and(|seen| seen.contains(&group.cloned())) {
        true => clients.and(Clients::SEEN_GRPC),
        false => clients,
    }
}

#[cfg(test)]
mod tests {
    use chancery_catalog::Layer;
    use chancery_proto::syntax;

    use super::*;

    fn checks(text: &str) -> LayerChecks {
        syntax::from_yaml::<Config>(text).unwrap().checks()
    }

    fn clients(checks: &LayerChecks, group: &str) -> String {
        checks.of(&Layer::Group(group.into())).clients.to_string()
    }

    #[test]
    fn clients_that_are_seen_count_where_none_are_declared() {
        let seen = |text: &str, groups: &[Option<&str>]| {
            let config = syntax::from_yaml::<Config>(text).unwrap();
            config.checks_seeing(&groups.iter().map(|it| it.map(Arc::from)).collect())
        };
        let with_seen = Clients::ENVOY.and(Clients::SEEN_GRPC);
        let text =
            "groups:\n- {name: a, match: {id: a}, clients: envoy}\n- {name: b, match: {id: b}}\n";
        let of = |checks: &LayerChecks, group: &str| checks.of(&Layer::Group(group.into())).clients;
        let some = seen(text, &[Some("a"), Some("b"), Some("c")]);
        assert_eq!((of(&some, "a"), of(&some, "b")), (Clients::ENVOY, with_seen));
        assert_eq!((of(&some, "c"), of(&some, "d")), (with_seen, Clients::ENVOY));
        assert_eq!(some.shared.clients, with_seen);
        let none = seen(text, &[None]);
        assert_eq!((of(&none, "b"), none.shared.clients), (Clients::ENVOY, with_seen));
        let declared = seen("clients: envoy\n", &[None, Some("c")]);
        assert_eq!((of(&declared, "c"), declared.shared.clients), (Clients::ENVOY, Clients::ENVOY));
    }

    #[test]
    fn clients_are_declared_for_all_and_for_groups() {
        let all = checks("clients: [envoy=1.36, grpc]\n");
        assert_eq!(all.shared.clients.to_string(), "envoy=1.36, grpc");
        assert_eq!(clients(&all, "any"), "envoy=1.36, grpc");
        let none = checks("{}");
        assert_eq!((none.shared.clients, none.other_groups.clients), Default::default());
        let some = checks(
            "clients: envoy\ngroups:\n- {name: a, match: {id: a}, clients: grpc}\n\
             - {name: a, match: {id: b}, clients: [envoy=1.40]}\n- {name: c, match: {id: c}}\n",
        );
        assert_eq!(clients(&some, "a"), "envoy=1.40, grpc");
        assert_eq!(clients(&some, "c"), "envoy");
        assert_eq!(some.shared.clients.to_string(), "envoy=1.40, grpc");
    }

    #[test]
    fn a_group_has_the_clients_of_the_one_that_it_extends() {
        let some = checks(
            "unmatched: refuse\nanonymous: refuse\ngroups:\n\
             - {name: a, match: {id: a}, clients: grpc}\n- {name: b, match: {id: b}, extends: a}\n\
             - {name: c, match: {id: c}, extends: a, clients: envoy=1.36}\n",
        );
        assert_eq!(clients(&some, "b"), "grpc");
        assert_eq!(clients(&some, "c"), "envoy=1.36");
        // Those of `c` get the layer of `a` as well.
        assert_eq!(clients(&some, "a"), "envoy=1.36, grpc");
        let abstract_one = checks(
            "unmatched: refuse\nanonymous: refuse\n\
             groups: [{name: b, match: {id: b}, extends: a, clients: grpc}]\n",
        );
        assert_eq!(clients(&abstract_one, "a"), "grpc");
        assert_eq!(abstract_one.shared.clients.to_string(), "grpc");
    }

    #[test]
    fn a_slip_is_told() {
        let fault = |text: &str| syntax::from_yaml::<Config>(text).unwrap_err().to_string();
        assert!(fault("clients: [envoi]\n").contains("`envoi` is no client"));
        assert!(fault("clients: envoy=1.20\n").contains("known are 1.32, 1.35"));
    }
}
