//! `/api/v1/nodes/{id}`: one node, its streams, and what each of them wants and holds.
//!
//! The streams are asked, and answer on their own threads; one that does not in time is shown without its
//! types. What is shown has a bound in streams, resources and texts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::TypeUrl;
use chancery_core::server::{ResourceQuery, ResourceSelection, WaitReason};
use chancery_server::{
    Audiences, Fleet, LookQuery, Looks, StatusBook, StreamDetails, StreamStatus, TypeDetails,
    WaitDetails,
};

use super::document::{GoneRow, HeldResource, NodeDocument, StreamRow, TypeRow};
use super::events::EventRows;
use super::rows;
use super::views::{Groups, view};
use crate::admin::api::{self, ApiError, Asked};
use crate::serve::Grouping;

/// The node that is asked for.
pub(super) struct Wanted {
    pub(super) id: String,
    pub(super) query: LookQuery,
}

impl Wanted {
    pub(super) fn of(asked: &Asked) -> Result<Self, ApiError> {
        let type_url = asked.text("type").map(super::type_of).transpose()?;
        let selection = match asked.text("resources") {
            Some("all") => Some(ResourceSelection::All),
            Some("none") => None,
            _ => Some(ResourceSelection::Unsettled),
        };
        let limit = api::limit(asked);
        let query = match selection {
            Some(selection) => {
                let resources = ResourceQuery { selection, after: None, limit };
                LookQuery::resources(type_url, resources)
            }
            None => of_type(type_url),
        };
        Ok(Self { id: asked.text("id").unwrap_or_default().to_owned(), query })
    }
}

fn of_type(type_url: Option<TypeUrl>) -> LookQuery {
    let mut query = LookQuery::types();
    query.type_url = type_url;
    query
}

/// The open streams in the fleet of a node, as many as are shown.
pub(super) fn streams(fleet: &Fleet) -> Vec<u64> {
    fleet.streams.iter().map(|stream| stream.id).take(MOST_STREAMS).collect()
}

/// The document of a node whose streams were asked.
pub(super) fn document(
    audiences: &Audiences<Grouping>,
    book: &StatusBook,
    (fleet, looks): (&Fleet, Looks),
    id: &str,
    events: &EventRows,
) -> Result<NodeDocument, ApiError> {
    let groups = Groups::of(audiences);
    let Some(view) = view(fleet, &groups).filter(|_| !id.is_empty()) else {
        let all = book.fleet();
        let nodes = all.nodes();
        let known = nodes.iter().map(|node| node.id).take(MOST_COMPARED);
        let near = chancery_proto::syntax::closest(id, known);
        let shown = rows::shown(id);
        let error = ApiError::unknown("unknown-node", format!("no node `{shown}` is connected"));
        return Err(match near {
            Some(near) => error.hint(format!("did you mean `{}`?", rows::shown(near))),
            None => error.hint("`chancery status` lists the nodes that are"),
        });
    };
    let answers: HashMap<u64, Arc<StreamDetails>> = looks.answers.into_iter().collect();
    let stream = |stream: &&StreamStatus| stream_row(stream, answers.get(&stream.id), book);
    let gone = view.gone.iter().take(MOST_STREAMS).map(|gone| GoneRow {
        number: gone.id,
        peer: gone.peer.to_string(),
        r#type: gone.type_url.as_ref().map(rows::type_name),
        audience: rows::shown(gone.audience.as_str()),
        at: rows::seconds(gone.at),
        code: gone.code.map(i64::from),
        landed: gone.landed,
        rejections: gone.rejections.iter().map(rows::rejection).collect(),
    });
    Ok(NodeDocument {
        load: fleet.load,
        node: view.row(book, fleet, fleet.load),
        streams: view.streams.iter().take(MOST_STREAMS).map(stream).collect(),
        gone: gone.collect(),
        not_live: Vec::new(),
        history: events.of_node(book, id, MOST_EVENTS),
    })
}

fn stream_row(
    stream: &StreamStatus,
    answer: Option<&Arc<StreamDetails>>,
    book: &StatusBook,
) -> StreamRow {
    let rejections = match stream.rejected_types {
        0 => Vec::new(),
        _ => book.rejections(stream.id),
    };
    let types = answer.map(|details| details.types.iter().map(type_row).collect());
    StreamRow {
        number: stream.id,
        peer: stream.peer.to_string(),
        protocol: format!("{:?}", stream.variant).to_lowercase(),
        r#type: stream.type_url.as_ref().map(rows::type_name),
        audience: stream.audience.as_ref().map(|audience| rows::shown(audience.as_str())),
        state: stream.state.into(),
        since: rows::before(stream.since),
        opened: rows::before(stream.age),
        heard: stream.heard.map(rows::before),
        acknowledged: stream.acknowledged.map(rows::before),
        unanswered_since: stream.unanswered.map(rows::before),
        seen: stream.seen,
        landed: stream.landed,
        rejections: rejections.iter().map(rows::rejection).collect(),
        answered: types.is_some(),
        types: types.unwrap_or_default(),
    }
}

fn type_row(details: &TypeDetails) -> TypeRow {
    let resources = details.resources.resources.iter().map(|resource| HeldResource {
        name: rows::shown(&resource.name),
        state: resource.state.into(),
        wanted: resource.wanted.as_ref().map(|it| it.version().to_string()),
        held: resource.given.as_ref().map(|it| it.version().to_string()),
    });
    let some = |names: &[Arc<str>]| names.iter().take(MOST_NAMES).map(rows::shown).collect();
    TypeRow {
        r#type: rows::type_name(&details.type_url),
        everything: details.everything,
        name_count: details.name_count,
        names: some(&details.names),
        sent: rows::version(details.sent.as_ref()),
        acknowledged: rows::version(details.acknowledged.as_ref()),
        acknowledged_at: details.acknowledged_at.map(rows::seconds),
        rejected: rows::version(details.rejected.as_ref()),
        suspects: some(&details.suspects),
        waits: details.waits.iter().map(|it| wait(it, details)).collect(),
        not_sent: details.unsettled.not_sent,
        removals: details.unsettled.removals,
        landed: details.has_landed,
        resources: resources.collect(),
        more: details.resources.is_cut,
    }
}

/// A wait in words.
fn wait(wait: &WaitDetails, of: &TypeDetails) -> String {
    // Resources are sent again where what refers to them has changed.
    let is_same = of.sent == of.acknowledged && of.sent.is_some();
    let why = match wait.reason {
        WaitReason::Snapshot => "for a snapshot of its audience".to_owned(),
        WaitReason::Answer if is_same => {
            "for the answer of the client, which was sent the same version again".to_owned()
        }
        WaitReason::Answer => "for the answer of the client".to_owned(),
        WaitReason::Clusters => "until the client can use new clusters".to_owned(),
        WaitReason::Removals(count) => {
            format!("until nothing uses {count} resources that are to be removed")
        }
        WaitReason::Source(0) => "until the source knows all members".to_owned(),
        WaitReason::Source(count) => format!("until the source knows of {count} names"),
        _ => "for something else".to_owned(),
    };
    match (wait.left, wait.reason) {
        // The client may be silent for any time.
        (Some(Duration::ZERO), WaitReason::Answer) => {
            format!("{why}; what is newer is sent without it")
        }
        (Some(Duration::ZERO), _) => format!("{why}; the time for that is over"),
        (Some(left), WaitReason::Answer) => {
            format!("{why}; what is newer is sent without it in {} s", left.as_secs() + 1)
        }
        (Some(left), _) => format!("{why}, {} s at most", left.as_secs() + 1),
        (None, _) => why,
    }
}

/// The number of streams that are shown of a node.
const MOST_STREAMS: usize = 20;

/// The number of names that are shown of a type.
const MOST_NAMES: usize = 100;

/// The number of events that are shown of a node.
const MOST_EVENTS: usize = 100;

/// The number of ids that are compared with one that is unknown.
const MOST_COMPARED: usize = 1000;
