//! The values that nodes state, of which a catalog shares one set each and knows a bounded number.
//!
//! Not here: which fields are filled with them (`filled`), and the table of them (`stated`).

use std::sync::Arc;

use chancery_core::Node;
use chancery_proto::values::Stated;

use super::Catalog;
use crate::audience::Audience;
use crate::entry::{Entry, Key};
use crate::filled::{FilledValue, Needs, UnfitResource, Unstated, fill, filled_values};
use crate::state::CatalogState;
use crate::stated::StatedValues;
use crate::view::View;

impl Catalog {
    /// The audience that a node of this group belongs to, with the values that it states, if its layers need any.
    /// Makes what it sees, if nobody asked for that so far.
    ///
    /// # Errors
    /// If the node does not state what is needed, or it does not fit.
    pub fn audience_of(
        &self,
        group: Option<&str>,
        node: Option<&Node>,
    ) -> Result<Audience, Unstated> {
        let id = node.map(|node| node.id.as_str());
        loop {
            let (mut audience, state) = self.served_by(group, id);
            let Some(state) = state.filter(|state| state.has_values()) else { return Ok(audience) };
            let needs = state.needs(&audience);
            if needs.is_nothing() {
                return Ok(audience);
            }
            audience.values = Some(self.share(needs.stated_by(node)?)?);
            let view = self.view(&audience).0;
            let Some(unfit) = view.as_deref().and_then(View::unfit) else { return Ok(audience) };
            // A commit meanwhile may ask for something else.
            let now = self.served_by(group, id).1;
            if now.is_some_and(|now| Arc::ptr_eq(&now, &state)) {
                return Err(Unstated::Unfit(Box::new(UnfitResource::clone(unfit))));
            }
        }
    }

    /// The audience that a node of this group belongs to without its values, and the state that serves it, or else
    /// the newest.
    fn served_by(
        &self,
        group: Option<&str>,
        node: Option<&str>,
    ) -> (Audience, Option<Arc<CatalogState>>) {
        let inner = self.lock();
        let audience = inner.history.audience(group, node);
        let state = inner.history.serving(&audience).or_else(|| inner.history.newest()).cloned();
        (audience, state)
    }

    /// The one set with these values.
    fn share(&self, stated: Stated) -> Result<Arc<StatedValues>, Unstated> {
        let mut inner = self.lock();
        if let Some(values) = inner.stated.get_or_add(stated.clone()) {
            return Ok(values);
        }
        let most = inner.stated.most;
        if inner.stated.may_sweep() {
            // The views of nodes that are gone may be all that has some of them.
            inner.views.forget_values();
            if let Some(values) = inner.stated.get_or_add(stated) {
                return Ok(values);
            }
            inner.stated.is_swept();
        }
        Err(Unstated::TooMany(most))
    }

    /// The most sets of values that nodes may state at a time, unless [`limit_values`](Self::limit_values) says
    /// otherwise.
    pub const MOST_VALUES: usize = 20_000;

    /// Sets the most sets of values that nodes may state at a time.
    pub fn limit_values(&self, most: usize) {
        self.lock().stated.most = most;
    }

    /// The variables that the nodes of an audience have to state.
    pub fn needs(&self, audience: &Audience) -> Arc<Needs> {
        let newest = self.lock().history.newest().cloned();
        newest.map(|newest| newest.needs(audience)).unwrap_or_default()
    }

    /// Looks if values that a node states fit what the layers of an audience need.
    ///
    /// # Errors
    /// If they do not.
    pub fn fits(&self, audience: &Audience, stated: &Stated) -> Result<(), Unstated> {
        let Some(newest) = self.lock().history.newest().cloned() else { return Ok(()) };
        match fill(&newest.slots(audience), stated, None).unfit() {
            Some(unfit) => Err(Unstated::Unfit(Box::new(UnfitResource::clone(unfit)))),
            None => Ok(()),
        }
    }

    /// The fields that the layers of an audience fill with what nodes state.
    pub fn filled_values(&self, audience: &Audience) -> Vec<FilledValue> {
        let newest = self.lock().history.newest().cloned();
        newest.map(|newest| filled_values(&newest.slots(audience))).unwrap_or_default()
    }

    /// The bytes that are kept for the values of an audience: of the resources that are filled with them.
    pub fn bytes_of_values(&self, audience: &Audience) -> usize {
        let Some(stated) = &audience.values else { return 0 };
        let view = self.lock().views.get(audience);
        let own = view.as_ref().and_then(|view| view.own().as_ref());
        let entries = own.iter().flat_map(|content| content.iter());
        let body = |(_, entry): (&Key, &Entry)| entry.resource().map_or(0, |it| it.body().len());
        stated.held_bytes() + entries.map(body).sum::<usize>()
    }
}
