//! `/api/v1/resources/{type}/{name}`: where a resource comes from, and who has which version of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chancery_catalog::{Catalog, Key, ListedEntry};
use chancery_core::server::{ResourceQuery, ResourceSelection, ResourceStatus};
use chancery_core::{ResourceName, TypeUrl};
use chancery_server::{Fleet, LookQuery, Looks, StatusBook, StreamStatus, TypeDetails};

use super::document::{HolderRow, ResourceDocument, ResourceState, VersionRow};
use super::rows;
use crate::admin::api::{self, ApiError, Asked};
use crate::admin::loaded_document::ResourceRow;
use crate::ask::Query;

/// The resource that is asked for.
pub(super) struct Wanted {
    type_url: TypeUrl,
    name: String,
    group: Option<String>,
    limit: usize,
}

impl Wanted {
    pub(super) fn of(asked: &Asked) -> Result<Self, ApiError> {
        let type_url = super::type_of(asked.text("type").unwrap_or_default())?;
        let Query { type_url, name } = Query::new(type_url, asked.text("name").unwrap_or_default());
        let group = asked.text("group").map(str::to_owned);
        Ok(Self { type_url, name, group, limit: api::limit(asked) })
    }

    /// The question to each stream.
    pub(super) fn query(&self) -> LookQuery {
        let selection = ResourceSelection::Named(Arc::from(&*self.name));
        let query = ResourceQuery { selection, after: None, limit: 1 };
        LookQuery::resources(Some(self.type_url.clone()), query)
    }

    /// Returns true for a stream that is asked.
    pub(super) fn is_of(&self, stream: &StreamStatus) -> bool {
        let Some(audience) = &stream.audience else { return false };
        let Some(group) = &self.group else { return true };
        rows::group_of(audience.as_str()).unwrap_or_default() == *group
    }
}

/// The document of a resource that streams were asked about.
pub(super) fn document(
    catalog: &Catalog,
    book: &StatusBook,
    (fleet, looks): (&Fleet, Looks),
    wanted: &Wanted,
) -> Result<ResourceDocument, ApiError> {
    let by_id: HashMap<u64, &StreamStatus> =
        fleet.streams.iter().map(|stream| (stream.id, stream)).collect();
    let mut held: Vec<(ResourceState, &StreamStatus, &ResourceStatus)> = Vec::new();
    for (id, details) in &looks.answers {
        let of_type = details.types.iter().find(|it| it.type_url == wanted.type_url);
        let found = of_type.and_then(|it| Some((it, it.resources.resources.first()?)));
        let found = found.filter(|(it, found)| is_about(it, found)).map(|(_, found)| found);
        if let Some((found, stream)) = found.zip(by_id.get(id)) {
            held.push((found.state.into(), stream, found));
        }
    }
    let origins = origins(catalog, wanted);
    if held.is_empty() && origins.is_empty() {
        return Err(unknown(catalog, wanted));
    }
    let versions = versions(&held);
    held.sort_by_key(|(state, stream, _)| (*state, stream.node.as_ref().map(|node| &node.id)));
    let nodes = held.iter().take(wanted.limit).map(|(state, stream, found)| {
        let rejections = match state {
            ResourceState::Rejected => book.rejections(stream.id),
            _ => Vec::new(),
        };
        let of_type = rejections.iter().find(|note| note.type_url == wanted.type_url);
        HolderRow {
            node: stream.node.as_ref().map(|node| rows::shown(&node.id)).unwrap_or_default(),
            audience: stream.audience.as_ref().map(rows::shown).unwrap_or_default(),
            peer: stream.peer.to_string(),
            state: *state,
            wanted: found.wanted.as_ref().map(|it| it.version().to_string()),
            held: found.given.as_ref().map(|it| it.version().to_string()),
            rejection: of_type.map(rows::rejection),
        }
    });
    Ok(ResourceDocument {
        r#type: rows::type_name(&wanted.type_url),
        name: rows::shown(&wanted.name),
        origins,
        wanted_by: held.len(),
        versions,
        count: held.len(),
        nodes: nodes.collect(),
        unanswered: looks.unanswered.len(),
    })
}

/// Returns false for a stream that has nothing to do with the resource: it did not ask for it by its name, and
/// there is none for it.
fn is_about(of_type: &TypeDetails, found: &ResourceStatus) -> bool {
    found.wanted.is_some()
        || found.given.is_some()
        || !of_type.everything
        || of_type.names.contains(&found.name)
}

fn versions(held: &[(ResourceState, &StreamStatus, &ResourceStatus)]) -> Vec<VersionRow> {
    let mut versions = BTreeMap::<Option<String>, VersionRow>::new();
    for (state, _, found) in held {
        let version = found.wanted.as_ref().map(|it| it.version().to_string());
        let row = versions.entry(version.clone()).or_default();
        row.version = version;
        row.wanted_by += 1;
        match state {
            ResourceState::Acknowledged => row.acknowledged += 1,
            ResourceState::Rejected => row.rejected += 1,
            _ => row.pending += 1,
        }
    }
    let mut versions: Vec<_> = versions.into_values().collect();
    versions.sort_by_key(|row| std::cmp::Reverse(row.wanted_by));
    versions.truncate(MOST_VERSIONS);
    versions
}

/// The layers that have the resource, as far as they are shown.
fn origins(catalog: &Catalog, wanted: &Wanted) -> Vec<ResourceRow> {
    let Ok(name) = ResourceName::read(&wanted.name) else { return Vec::new() };
    let key = Key { type_url: wanted.type_url.clone(), name };
    let of_layer = |layer: chancery_catalog::Layer| {
        let content = catalog.content(&layer)?;
        let entry = content.get(&key)?.clone();
        Some(ResourceRow::of(ListedEntry { layer, key: key.clone(), entry }))
    };
    catalog.layers().into_iter().filter_map(of_layer).take(MOST_ORIGINS).collect()
}

fn unknown(catalog: &Catalog, wanted: &Wanted) -> ApiError {
    let of_type = |listed: &ListedEntry| listed.key.type_url == wanted.type_url;
    let names: Vec<_> = catalog
        .entries()
        .filter(of_type)
        .take(MOST_COMPARED)
        .map(|listed| listed.key.name.to_string())
        .collect();
    let near = chancery_proto::syntax::closest(&wanted.name, names.iter().map(String::as_str));
    let (of, name) = (rows::type_name(&wanted.type_url), rows::shown(&wanted.name));
    let error =
        ApiError::unknown(UNKNOWN_RESOURCE, format!("nobody has a resource `{name}` of `{of}`"));
    match near {
        Some(near) => error.hint(format!("did you mean `{}`?", rows::shown(near))),
        None => error,
    }
}

/// The code for a resource that nobody has.
pub(crate) const UNKNOWN_RESOURCE: &str = "unknown-resource";

/// The number of layers that are shown.
const MOST_ORIGINS: usize = 1000;

/// The number of versions that are shown.
const MOST_VERSIONS: usize = 100;

/// The number of names that are compared with one that is unknown.
const MOST_COMPARED: usize = 10_000;
