//! The audiences of a catalog, shown to the clients that belong to them.
//!
//! ```text
//!   client --> [Assign] --> group --+--> Audience --> name in the Store: watched
//!                         node id --+                        |
//!   a source --> Catalog --------------- its snapshot <------+ the first watcher asks
//!                   |
//!                   +--Revision--> [Audiences::follow]: reassign who may move, update who sees more
//! ```
//!
//! A question changes nothing. What is watched is shown because it is watched: the store asks for
//! the snapshot of an audience when its first watcher comes, and a revision brings along those that
//! it changed and somebody watches.

mod assign;
mod name;
mod open_stream;

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use chancery_catalog::{
    Audience, AudienceSnapshot, Author, Catalog, ChangeSet, Key, Layer, Lineage, Reassigned,
    Revision, Unstated,
};
use chancery_core::printable::{MAX_NAME_BYTES, Printable, cut};
use chancery_core::{Node, TypeUrl};
use tokio::time::Instant;

pub use self::assign::Assign;
pub(crate) use self::name::{audience_of, without_values};
use self::name::{name_of, text_of};
pub use self::open_stream::OpenStream;
use crate::store::Supply;
use crate::{AudienceName, Client, LoadReporting, Policy, Refusal, Store};

/// The audiences of a catalog: a store of what is watched, and a policy that says who belongs where.
/// Clones are the same.
///
/// ```
/// use chancery_catalog::{Catalog, ChangeSet, Entry, Layer, OverlayNames, Origin};
/// use chancery_core::{Resource, TypeUrl};
/// use chancery_server::{Audiences, Client, Config, Listener, Refusal, Server};
/// use tokio_util::sync::CancellationToken;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // A client belongs to the group named as its cluster, if that has a layer.
/// let by_cluster = |client: &Client<'_>, groups: &OverlayNames| -> Result<_, Refusal> {
///     let node = client.node.ok_or_else(Refusal::anonymous)?;
///     Ok(groups.contains(&node.cluster).then(|| node.cluster.clone()))
/// };
/// let audiences = Audiences::new(Catalog::new(), by_cluster);
///
/// let clusters = TypeUrl::new("envoy.config.cluster.v3.Cluster");
/// let web = Resource::new("web".parse()?, b"\x0a\x03web"[..].into()); // a `Cluster` named `web`
/// let mut changes = ChangeSet::new("deployer");
/// changes.put(&Layer::Group("edge".into()), &clusters, Entry::new(web, Origin::program("main")));
/// audiences.commit(changes);
///
/// let listener = Listener::tcp("127.0.0.1:0".parse()?).await?;
/// let stop = CancellationToken::new();
/// # stop.cancel();
/// let server = Server::new(audiences.store(), audiences, Config::default());
/// server.serve(vec![listener], stop.cancelled_owned()).await?;
/// # Ok(())
/// # }
/// ```
pub struct Audiences<A>(Arc<Shared<A>>);

struct Shared<A> {
    catalog: Catalog,
    store: Arc<Store>,
    assign: ArcSwap<A>,
    /// The number of the revision that was followed last.
    followed: Mutex<u64>,
}

/// The catalog as the supply of a store.
struct FromCatalog(Catalog);

impl<A: Assign> Audiences<A> {
    /// The audiences of a catalog, with a store of their own.
    pub fn new(catalog: Catalog, assign: A) -> Self {
        let store = Store::supplied_by(FromCatalog(catalog.clone()));
        let revision = catalog.revision();
        let followed = revision.as_ref().map_or(0, |revision| revision.number);
        if let Some(revision) = revision {
            store.status.0.shown(Some((revision.number, revision.content)), Instant::now());
        }
        Self(Arc::new(Shared {
            store,
            catalog,
            assign: ArcSwap::from_pointee(assign),
            followed: Mutex::new(followed),
        }))
    }

    /// The store of what is watched, for a [`Server`](crate::Server).
    pub fn store(&self) -> Arc<Store> {
        Arc::clone(&self.0.store)
    }

    /// The catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    /// The assignment in force.
    pub fn assignment(&self) -> Arc<A> {
        self.0.assign.load_full()
    }

    /// Puts another assignment in force: all streams ask for their audience again. If it belongs to
    /// a revision, call this before that is followed.
    pub fn assign(&self, assign: A) {
        self.0.assign.store(Arc::new(assign));
        self.0.store.reassign();
    }

    /// The audiences that streams belong to at the moment. Polls over REST do not count.
    pub fn watched(&self) -> Vec<Audience> {
        self.0.store.watched().iter().filter_map(audience_of).collect()
    }

    /// The nodes that streams are of at the moment, each as often as it has streams. A poll over REST counts
    /// while it is answered.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.0.store.nodes()
    }

    /// The streams that are open at the moment, in no order. A poll over REST is one of them while it is
    /// answered.
    pub fn streams(&self) -> Vec<OpenStream> {
        let callers = self.0.store.callers().into_iter();
        callers
            .filter_map(|(name, caller)| Some(OpenStream::new(audience_of(&name)?, caller)))
            .collect()
    }

    /// Has groups extend others, and follows that. Returns what it changed; `None` if it is nothing.
    pub fn extend(&self, lineage: Lineage, author: impl Into<Author>) -> Option<Arc<Revision>> {
        let revision = self.0.catalog.extend(lineage, author);
        revision.inspect(|revision| self.follow(revision))
    }

    /// Commits a change to the catalog, and follows it. Returns what it changed; `None` if it is
    /// nothing.
    pub fn commit(&self, changes: ChangeSet) -> Option<Arc<Revision>> {
        let revision = self.0.catalog.commit(changes);
        revision.inspect(|revision| self.follow(revision))
    }

    /// Shows what a commit changed to those who see it.
    ///
    /// Streams that may move have to ask for their audience again before anything is shown: a
    /// node that moves must not be shown for a moment what its former audience sees from now on.
    /// Revisions may come from several sources in any order; after one that was skipped, everything
    /// that is watched is looked at.
    pub fn follow(&self, revision: &Revision) {
        let mut followed = self.0.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if revision.number <= *followed {
            return;
        }
        let (is_next, now) = (revision.number == *followed + 1, Instant::now());
        *followed = revision.number;
        self.0.store.status.0.before_load(now);
        if is_next {
            self.reassign(&revision.reassigned);
            let changed = self.0.catalog.changed(revision).into_iter();
            let changed = changed.map(|(audience, seen)| (text_of(audience), seen));
            self.0.store.update_now(changed, now);
            self.update_possible(&revision.reassigned, now);
        } else {
            self.0.store.reassign();
            self.update_possible(&Reassigned::Everybody, now);
        }
        self.0.store.status.0.shown(Some((revision.number, revision.content)), now);
    }

    fn reassign(&self, reassigned: &Reassigned) {
        let store = &self.0.store;
        let id = |layer: &'_ Layer| match layer {
            Layer::Node(id) => Some(Arc::clone(id)),
            // An assignment may make anything of a group that comes or goes.
            Layer::Base | Layer::Group(_) => None,
        };
        let ids: Option<Vec<Arc<str>>> = match reassigned {
            Reassigned::Overlays(overlays) => overlays.iter().map(id).collect(),
            Reassigned::Everybody => None,
        };
        match ids {
            Some(ids) if ids.is_empty() => {}
            Some(ids) => store.reassign_nodes(ids.iter().map(|id| &**id)),
            None => store.reassign(),
        }
    }

    /// Updates the audiences that came with their overlays. Streams may be in one of them still from
    /// when it was there before, which the catalog does not know.
    fn update_possible(&self, reassigned: &Reassigned, now: Instant) {
        if reassigned.is_nobody() {
            return;
        }
        let lineage = self.0.catalog.lineage();
        let concerns = |audience: &Audience| match reassigned {
            Reassigned::Everybody => true,
            Reassigned::Overlays(overlays) => {
                let layers = lineage.layers(audience);
                layers.iter().any(|layer| overlays.binary_search(layer).is_ok())
            }
        };
        let watched = self.0.store.watched().into_iter();
        let seen = watched.filter_map(|name| {
            let audience = audience_of(&name).filter(concerns)?;
            Some((name, self.0.catalog.seen_by(&audience)?))
        });
        self.0.store.update_now(seen, now);
    }

    /// The audience of a client, whether or not there is anything to see for it.
    fn audience_of(&self, client: &Client<'_>) -> Result<Audience, Refusal> {
        let group = self.0.assign.load().group(client, &self.0.catalog.groups())?;
        let found = self.0.catalog.audience_of(group.as_deref(), client.node);
        found.map_err(|unstated| refusal(client.node, &unstated))
    }
}

impl<A: Assign> Policy for Audiences<A> {
    fn audience(&self, client: &Client<'_>) -> Result<AudienceName, Refusal> {
        let audience = self.audience_of(client)?;
        let name = name_of(&audience, self.0.catalog.bytes_of_values(&audience));
        // A client that is let in and not answered waits for its timeout, and can go nowhere else
        // meanwhile (T-28).
        if !self.0.catalog.is_served(&audience) {
            return Err(Refusal::Unavailable(match self.0.catalog.revision() {
                Some(_) => format!("`{name}` is held back and has had no good state so far"),
                None => "there is no configuration so far".to_owned(),
            }));
        }
        Ok(name)
    }

    fn origin(&self, audience: &AudienceName, type_url: &TypeUrl, name: &str) -> Option<String> {
        let key = Key { type_url: type_url.clone(), name: name.parse().ok()? };
        let catalog = &self.0.catalog;
        let layers = catalog.lineage().layers(&audience_of(audience)?).into_iter().rev();
        let mut found =
            layers.filter_map(|layer| Some(catalog.content(&layer)?.get(&key)?.origin.to_string()));
        found.next()
    }

    /// A group without a layer is none of an audience, and may have load reports of its own.
    fn load_reporting(&self, client: &Client<'_>) -> Option<LoadReporting> {
        let assign = self.0.assign.load();
        let group = assign.group(client, &self.0.catalog.groups()).ok()?;
        assign.load_reporting(group.as_deref())
    }

    fn reads_dynamic_parameters(&self) -> bool {
        self.0.assign.load().reads_dynamic_parameters()
    }
}

/// The refusal of a client that does not state what it has to.
fn refusal(node: Option<&Node>, unstated: &Unstated) -> Refusal {
    let id = cut(node.map_or("", |node| &node.id), MAX_NAME_BYTES);
    let id = Printable(&*id);
    match unstated {
        Unstated::TooMany(_) => Refusal::Full(format!(
            "{unstated}: a larger `limits.max-node-values` would let in node `{id}`"
        )),
        unstated => Refusal::Unstated(format!(
            "node `{id}` cannot be served: {unstated}; set it in the `node` of its bootstrap, or change \
             `values` in the files of this server"
        )),
    }
}

impl Supply for FromCatalog {
    fn supply(&self, audience: &AudienceName) -> Option<AudienceSnapshot> {
        self.0.seen_by(&audience_of(audience)?)
    }
}

impl<A> Clone for Audiences<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A> std::fmt::Debug for Audiences<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audiences").field("store", &self.0.store).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
