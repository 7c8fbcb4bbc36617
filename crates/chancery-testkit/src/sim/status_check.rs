//! The status of a stream, compared with what its client really holds.
//!
//! The two may differ by what is under way: by requests that the server has not read, and by nothing else.
//! A response that the server has sent and the client has not answered is in the status as that.

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_core::server::{
    Machine, ResourceQuery, ResourceSelection, ResourceState, ResourceStatus, TypeStatus,
};
use chancery_core::{TypeUrl, Variant};

use crate::client::{Client, Fault};

/// Compares the status of a stream with a client all of whose requests the server has read. `forgets` is true
/// if the client may have dropped what it acknowledged, because its TTL has passed.
pub(super) fn check(machine: &Machine, client: &Client, forgets: bool) -> Result<(), Fault> {
    for status in machine.status() {
        check_type(&status, client, forgets).map_err(|why| {
            let short = status.type_url.short();
            Fault(format!("the status of {short} is wrong: {why}"))
        })?;
    }
    Ok(())
}

fn check_type(status: &TypeStatus<'_>, client: &Client, forgets: bool) -> Result<(), String> {
    let told = resources(status, ResourceSelection::All)?;
    let held: BTreeMap<_, _> = client.held(status.type_url).collect();
    for (name, resource) in &told {
        let version = held.get(name).map(|held| held.resource.version());
        let wanted = resource.wanted.as_ref().map(|wanted| wanted.version());
        let is_held = version == wanted;
        match resource.state {
            ResourceState::Acknowledged if !is_held && !forgets => {
                return Err(format!("`{name}` is acknowledged, and the client has {version:?}"));
            }
            ResourceState::Missing if version.is_some() && says_absence(status, client) => {
                return Err(format!("`{name}` is missing, and the client has {version:?}"));
            }
            ResourceState::Unanswered if status.waits.is_empty() => {
                return Err(format!("`{name}` is not answered, and nothing waits for an answer"));
            }
            // Whoever rejects a response may hold a part of it from before (S-035).
            ResourceState::Rejected if status.rejection.is_none() => {
                return Err(format!("`{name}` is rejected, and the client rejected nothing"));
            }
            _ => {}
        }
    }
    let extra = held.keys().find(|name| !told.contains_key(**name));
    if let Some(name) = extra.filter(|_| says_absence(status, client)) {
        return Err(format!("the client has `{name}`, of which nothing is told"));
    }
    check_selections(status, &told)?;
    check_landed(status, &told)
}

/// Returns true if the server knows what the client has no more: it was told that a resource is gone (S-058),
/// and said what it has of an earlier stream, or was told of the whole state on this one.
fn says_absence(status: &TypeStatus<'_>, client: &Client) -> bool {
    match client.variant() {
        Variant::Delta => true,
        Variant::Sotw => status.type_url.rules().full_state && status.acknowledged.is_some(),
    }
}

/// Checks that other questions have the same answers.
fn check_selections(
    status: &TypeStatus<'_>,
    told: &BTreeMap<Arc<str>, ResourceStatus>,
) -> Result<(), String> {
    let is_settled = |it: &ResourceStatus| {
        matches!(
            it.state,
            ResourceState::Acknowledged | ResourceState::Missing | ResourceState::Undecided
        )
    };
    let unsettled = resources(status, ResourceSelection::Unsettled)?;
    let is_same = |(name, resource): (&Arc<str>, &ResourceStatus)| {
        is_settled(resource) || unsettled.get(name) == Some(resource)
    };
    if let Some((name, resource)) = told.iter().find(|it| !is_same(*it)) {
        return Err(format!("`{name}` is {:?}, and not among the unsettled", resource.state));
    }
    for (name, resource) in told {
        let named = resources(status, ResourceSelection::Named(Arc::clone(name)))?;
        if named.get(name) != Some(resource) {
            return Err(format!("asked for `{name}` alone it is {named:?}, and not {resource:?}"));
        }
    }
    Ok(())
}

fn check_landed(
    status: &TypeStatus<'_>,
    told: &BTreeMap<Arc<str>, ResourceStatus>,
) -> Result<(), String> {
    let lacks = |it: &&ResourceStatus| {
        !matches!(
            it.state,
            ResourceState::Acknowledged | ResourceState::Missing | ResourceState::Undecided
        )
    };
    match told.values().find(lacks).filter(|_| status.has_landed) {
        Some(it) => Err(format!("it has landed, and `{}` is {:?}", it.name, it.state)),
        None => Ok(()),
    }
}

/// The resources of a selection, asked for a few at a time.
fn resources(
    status: &TypeStatus<'_>,
    selection: ResourceSelection,
) -> Result<BTreeMap<Arc<str>, ResourceStatus>, String> {
    let mut query = ResourceQuery { selection, after: None, limit: 3 };
    let mut all = BTreeMap::new();
    loop {
        let page = status.resources(&query);
        let last = page.resources.last().map(|it| Arc::clone(&it.name));
        for resource in page.resources {
            let name = Arc::clone(&resource.name);
            if all.insert(Arc::clone(&name), resource).is_some() {
                return Err(format!("`{name}` is told twice"));
            }
        }
        if !page.is_cut {
            return Ok(all);
        }
        query.after = last;
    }
}

/// Checks that a stream which has landed owes the client nothing of what it subscribes to.
pub(super) fn check_has_landed(
    machine: &Machine,
    lacks_nothing: impl Fn(&TypeUrl) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if !machine.has_landed() {
        return Ok(());
    }
    machine.status().try_for_each(|status| {
        lacks_nothing(status.type_url)
            .map_err(|Fault(why)| Fault(format!("it was told to have landed, and {why}")))
    })
}
