//! All that a server gives to one node: what it gives unasked, and what this and the directory name.
//!
//! ```text
//!   listeners and clusters, all of them, in state of the world: the response says that it is whole
//!   all other types, all of them, as far as the server has an answer to that
//!   every name in what has come, or in the directory, that has not come: until there is none
//! ```
//!
//! The last are asked for in delta, which says of each name that there is no such resource.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::anyhow;
use chancery_catalog::{Audience, Key};
use chancery_client::Client;
use chancery_client::options::Variant;
use chancery_core::printable::Printable;
use chancery_core::{Api, Node, Resource, TypeUrl, Version};
use chancery_proto::Schema;
use chancery_proto::resource::links;

use crate::ask::{Answer, Query, QueryPlan, Row, ServerArgs, answers, plain};
use crate::exit::Failure;

/// The question of one node.
pub(super) struct Wanted {
    pub(super) server: Arc<ServerArgs>,
    pub(super) node: Node,
    pub(super) schema: Schema,
    /// Names that the server may not know.
    pub(super) names: BTreeSet<Key>,
    pub(super) read: Arc<ReadLinks>,
}

/// The references in resources that were read. Most audiences are given the same ones.
#[derive(Default)]
pub(super) struct ReadLinks(Mutex<BTreeMap<(Key, Version), SharedKeys>>);

type SharedKeys = Arc<Vec<Key>>;

/// All that a node is given, as far as it is told.
#[derive(Default)]
pub(in crate::diff) struct Contents {
    pub(in crate::diff) resources: BTreeMap<Key, Arc<Resource>>,
    /// The types that the server does not give to this client, with its words.
    withheld_types: BTreeMap<TypeUrl, String>,
    /// The resources that it does not give to this client.
    withheld: BTreeSet<Key>,
}

impl Wanted {
    pub(super) async fn ask(self) -> Result<Contents, Failure> {
        let mut contents = Contents::default();
        for key in self.names.iter().filter(|key| !has_service(&key.type_url)) {
            let why = "there is no service for the type alone".to_owned();
            contents.withheld_types.insert(key.type_url.clone(), why);
        }
        for (variant, api_is_whole) in [(Variant::Sotw, true), (Variant::Delta, false)] {
            let asked = Asked::new(&self, variant)?;
            let of_variant = |url: &TypeUrl| url.rules().full_state == api_is_whole;
            let types: Vec<_> = asked_types().filter(of_variant).collect();
            let queries: Vec<_> = types.iter().map(|url| Query::all(url.clone())).collect();
            for (query, of_type) in queries.iter().zip(asked.answers(&queries).await?) {
                for answer in of_type {
                    contents.take_of_type(&asked, &query.type_url, answer)?;
                }
            }
            if !api_is_whole {
                self.ask_names(&asked, &mut contents).await?;
            }
        }
        Ok(contents)
    }

    /// Asks for names until there are no others.
    async fn ask_names(&self, asked: &Asked, contents: &mut Contents) -> Result<(), Failure> {
        let mut known = BTreeSet::new();
        let mut next: Vec<Key> = self.names.iter().cloned().collect();
        for (key, found) in &contents.resources {
            next.extend(self.named_in(key, found).iter().cloned());
        }
        while !next.is_empty() {
            let later = next.split_off(next.len().min(AT_ONCE));
            let mut keys = std::mem::replace(&mut next, later);
            keys.retain(|key| contents.lacks(key) && known.insert(key.clone()));
            let query = |key: &Key| {
                let (type_url, name) = (key.type_url.clone(), key.name.to_string());
                Query { type_url, name }
            };
            let queries: Vec<_> = keys.iter().map(query).collect();
            for (key, found) in keys.iter().zip(asked.answers(&queries).await?) {
                for answer in found {
                    if let Some(resource) = contents.take(asked, key, answer)? {
                        next.extend(self.named_in(key, &resource).iter().cloned());
                    }
                }
            }
        }
        Ok(())
    }

    /// The resources that a resource refers to.
    fn named_in(&self, key: &Key, resource: &Resource) -> SharedKeys {
        let place = (key.clone(), resource.version().clone());
        let read = || self.read.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = read().get(&place) {
            return Arc::clone(known);
        }
        let links = links(&self.schema, &key.type_url, resource.body()).into_iter();
        let found = links.map(|link| Key { type_url: link.type_url, name: link.name });
        let found: SharedKeys = Arc::new(found.collect());
        read().insert(place, Arc::clone(&found));
        found
    }
}

/// A client that asks as the node.
struct Asked {
    plan: Arc<QueryPlan>,
    client: Client,
}

impl Asked {
    fn new(wanted: &Wanted, variant: Variant) -> Result<Self, Failure> {
        let node = wanted.node.clone();
        let plan =
            QueryPlan::of_node(&wanted.server, node, variant, &wanted.schema)?.only_looking();
        let client = plan.client()?;
        Ok(Self { plan: Arc::new(plan), client })
    }

    async fn answers(&self, queries: &[Query]) -> Result<Vec<Vec<Answer>>, Failure> {
        answers(&self.plan, &self.client, queries).await
    }

    fn failure(&self, text: &str) -> Failure {
        let failure = Failure::broken(anyhow!("{}", plain(text)));
        match self.plan.tls_hint(text) {
            Some(hint) => failure.hint(format!(
                "{hint}; `--server` is the address of discovery and not that of the admin interface"
            )),
            None => failure,
        }
    }
}

impl Contents {
    /// Takes an answer to a question for all resources of a type.
    fn take_of_type(
        &mut self,
        asked: &Asked,
        type_url: &TypeUrl,
        answer: Answer,
    ) -> Result<(), Failure> {
        let has_to_come = matches!(type_url.api(), Api::Lds | Api::Cds);
        match answer {
            Ok(row) => drop(self.add(&row)),
            Err(trouble) if trouble.is_denied => {
                self.withheld_types.insert(type_url.clone(), trouble.text);
            }
            Err(trouble) if has_to_come && trouble.is_failure => {
                return Err(asked.failure(&trouble.text));
            }
            // Names of these are not asked for later.
            Err(trouble) if trouble.is_failure && type_url.rules().full_state => {
                self.withheld_types.insert(type_url.clone(), trouble.text);
            }
            // Not every server has an answer to that.
            Err(_) => {}
        }
        Ok(())
    }

    /// Takes the answer to the question for a name, and returns the resource if it is one.
    fn take(
        &mut self,
        asked: &Asked,
        key: &Key,
        answer: Answer,
    ) -> Result<Option<Arc<Resource>>, Failure> {
        match answer {
            Ok(row) => Ok(Some(self.add(&row))),
            Err(trouble) if trouble.is_denied => {
                self.withheld.insert(key.clone());
                Ok(None)
            }
            Err(trouble) if trouble.is_failure => Err(asked.failure(&trouble.text)),
            Err(_) => Ok(None),
        }
    }

    fn add(&mut self, row: &Row) -> Arc<Resource> {
        let resource = &row.resource;
        let key = Key { type_url: row.type_url.clone(), name: resource.name().clone() };
        // The version is a hash of the content here, whatever the server calls it.
        let made = Resource::new(resource.name().clone(), resource.body().clone());
        let made = Arc::new(made);
        self.resources.insert(key, Arc::clone(&made));
        made
    }

    /// Returns true if a resource has not come, and may come.
    fn lacks(&self, key: &Key) -> bool {
        let is_asked_for = !key.type_url.rules().full_state && has_service(&key.type_url);
        is_asked_for && !self.resources.contains_key(key) && !self.is_withheld(key)
    }

    /// Returns true if nobody can know what the server has under a key.
    pub(in crate::diff) fn is_withheld(&self, key: &Key) -> bool {
        self.withheld_types.contains_key(&key.type_url)
            || self.withheld.contains(key)
            || !has_service(&key.type_url)
    }

    /// Returns true if the server does not serve this node at all.
    pub(super) fn is_refused(&self) -> bool {
        asked_types().all(|url| self.withheld_types.contains_key(&url))
    }

    /// The parts that are not compared, in words.
    pub(super) fn left_out(&self, shown: &Audience) -> Vec<String> {
        let shown = Printable(shown);
        if let (true, Some(why)) = (self.is_refused(), self.withheld_types.values().next()) {
            return vec![format!("{shown}: {}", plain(why))];
        }
        let types = self.withheld_types.iter();
        let types =
            types.map(|(url, why)| format!("{shown}, all of {}: {}", url.short(), plain(why)));
        let named = self.withheld.iter().take(MOST_NAMED);
        let named =
            named.map(|key| format!("{} `{}`", key.type_url.short(), plain(key.name.as_str())));
        let named = named.collect::<Vec<_>>().join(", ");
        let more = if self.withheld.len() > MOST_NAMED { ", …" } else { "" };
        let resources = (!self.withheld.is_empty()).then(|| {
            format!(
                "{shown}: the server withholds {} from this client: {named}{more}; over mutual TLS \
                 (`--cert`), or on its own machine, it gives them",
                self.withheld.len()
            )
        });
        types.chain(resources).collect()
    }
}

/// Shares resources that several audiences have.
#[derive(Default)]
pub(super) struct Interner(BTreeMap<Key, Vec<Arc<Resource>>>);

impl Interner {
    pub(super) fn share(&mut self, contents: &mut Contents) {
        for (key, resource) in &mut contents.resources {
            let known = self.0.entry(key.clone()).or_default();
            match known.iter().find(|it| it.version() == resource.version()) {
                Some(same) => *resource = Arc::clone(same),
                None => known.push(Arc::clone(resource)),
            }
        }
    }
}

/// The types that are asked for.
fn asked_types() -> impl Iterator<Item = TypeUrl> {
    Query::types().filter(has_service)
}

/// Returns true if there is a service for the type alone: one stream that the server ends takes nothing of
/// other types with it.
fn has_service(type_url: &TypeUrl) -> bool {
    !matches!(type_url.api(), Api::Fcds | Api::Other)
}

/// The number of names that are asked for at once.
const AT_ONCE: usize = 10_000;

/// The number of resources that are named of those that are withheld.
const MOST_NAMED: usize = 5;
