//! The subscriptions of one stream, one for each type, in the order of one change (S-096, [eventual
//! consistency]).
//!
//! A stream has a handful of types, and an idle stream should cost little memory: so the
//! subscriptions are in a short list, each in a box of its own.
//!
//! [eventual consistency]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#eventual-consistency-considerations

use crate::server::subscription::Subscription;
use crate::{Api, TypeUrl};

/// The subscriptions of one stream, in sending order.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(
    #[expect(clippy::vec_box, reason = "a list grows by half a kilobyte")] Vec<Box<Subscription>>,
);

impl Subscriptions {
    /// The number of subscriptions.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The place of the subscription to a type URL.
    pub(super) fn find(&self, type_url: &str) -> Option<usize> {
        self.0.iter().position(|one| one.type_url().as_str() == type_url)
    }

    /// Adds the subscription to a type that has none yet. Returns its place.
    pub(super) fn insert(&mut self, subscription: Subscription) -> usize {
        let at = self.0.partition_point(|one| one.type_url() < subscription.type_url());
        self.0.insert(at, Box::new(subscription));
        at
    }

    pub(super) fn at(&self, at: usize) -> Option<&Subscription> {
        self.0.get(at).map(|one| &**one)
    }

    pub(super) fn at_mut(&mut self, at: usize) -> Option<&mut Subscription> {
        self.0.get_mut(at).map(|one| &mut **one)
    }

    pub(super) fn get(&self, type_url: &TypeUrl) -> Option<&Subscription> {
        let at = self.0.binary_search_by(|one| one.type_url().cmp(type_url)).ok()?;
        self.at(at)
    }

    pub(super) fn get_mut(&mut self, type_url: &TypeUrl) -> Option<&mut Subscription> {
        let at = self.0.binary_search_by(|one| one.type_url().cmp(type_url)).ok()?;
        self.at_mut(at)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Subscription> {
        self.0.iter().map(|one| &**one)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Subscription> {
        self.0.iter_mut().map(|one| &mut **one)
    }

    /// The subscriptions of one API: there may be one of v3 and one of v2.
    pub(super) fn of(&self, api: Api) -> impl Iterator<Item = &Subscription> {
        self.iter().filter(move |one| one.api() == api)
    }
}
