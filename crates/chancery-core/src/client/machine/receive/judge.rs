//! The parts of a response: what it says of which name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::client::event::Event;
use crate::client::ids::StreamId;
use crate::client::response::{InvalidResource, Response, ResponseItem};
use crate::{ErrorDetail, NameError, PART_SUFFIX, ResourceName, TypeUrl, Variant};

/// A response, by names.
pub(super) struct Judged {
    pub(super) type_url: TypeUrl,
    pub(super) version: Arc<str>,
    pub(super) nonce: Arc<str>,
    /// The resources, in their order.
    pub(super) items: Vec<Result<ResponseItem, InvalidResource>>,
    pub(super) removed: BTreeSet<ResourceName>,
    pub(super) errors: BTreeMap<ResourceName, ErrorDetail>,
    /// All names that it speaks of.
    pub(super) present: BTreeSet<ResourceName>,
    variant: Variant,
}

impl Judged {
    pub(super) fn of(response: Response) -> Self {
        let errors: BTreeMap<_, _> = response.errors.iter().filter_map(named).collect();
        let removed = response.removed.iter().filter_map(|name| ResourceName::read(name).ok());
        let removed: BTreeSet<_> = removed.collect();
        let mut present: BTreeSet<_> = removed.iter().chain(errors.keys()).cloned().collect();
        for item in &response.resources {
            match item {
                Ok(item) => present.extend(item.names().cloned()),
                Err(invalid) => present.extend(invalid.name.clone()),
            }
        }
        Self {
            type_url: response.type_url,
            version: response.version,
            nonce: response.nonce,
            items: response.resources,
            removed,
            errors,
            present,
            variant: response.variant,
        }
    }

    /// Returns the resources that cannot be used.
    pub(super) fn invalid(&self) -> impl Iterator<Item = &InvalidResource> {
        self.items.iter().filter_map(|item| item.as_ref().err())
    }

    /// Returns the resources that cannot be used, and that nobody can name.
    pub(super) fn nameless(&self) -> impl Iterator<Item = &InvalidResource> {
        self.invalid().filter(|invalid| invalid.name.is_none())
    }

    /// Returns true if every resource has a name.
    fn is_named(&self) -> bool {
        self.nameless().next().is_none()
    }

    /// Returns true if the server says that more of a collection comes (S-110).
    pub(super) fn is_part(&self) -> bool {
        self.version.ends_with(PART_SUFFIX)
    }

    /// Returns true if a resource that is not in it is no more (C-056). One that cannot be named
    /// may be any of those that are missing.
    pub(super) fn is_whole_state(&self) -> bool {
        self.variant == Variant::Sotw && self.type_url.rules().full_state && self.is_named()
    }

    pub(super) fn into_event(self, stream: StreamId) -> Event {
        let accepted = self.items.iter().filter(|item| item.is_ok()).count();
        Event::Received {
            stream,
            type_url: self.type_url,
            version: self.version,
            nonce: self.nonce,
            accepted,
            invalid: self.items.into_iter().filter_map(Result::err).collect(),
        }
    }
}

fn named(error: &NameError) -> Option<(ResourceName, ErrorDetail)> {
    Some((ResourceName::read(&error.name).ok()?, error.error.clone()))
}
