//! The resources that clients run, as values: the same for Envoy and for CSDS.

use chancery_core::TypeUrl;
use chancery_core::printable::cut;
use serde::Serialize;

use super::compare::Verdict;

/// A client, in its own words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct RunningClient {
    /// The id of its node; empty if it does not state it.
    pub(super) node: String,
    /// The purpose of a gRPC client: a target, or `#server`; empty if it does not state it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) scope: String,
    /// Its resources, by type and name.
    pub(super) resources: Vec<RunningResource>,
    /// The targets for which it waits before it serves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) waiting: Vec<String>,
}

/// A resource, in the words of the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct RunningResource {
    /// Its type, as `cds`, or the type URL.
    pub(super) r#type: String,
    pub(super) name: String,
    /// The version that it has; empty if it has none or does not state it.
    pub(super) version: String,
    pub(super) state: RunningState,
    /// True if the version may be that of an earlier form: an Envoy that exchanges nothing but the filter chains of a
    /// listener goes on to state the version of before.
    #[serde(skip)]
    pub(super) keeps_version: bool,
    /// The last error, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<RunningError>,
    /// The state of it on the stream of the server that sent it, if the two were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sent: Option<&'static str>,
    /// The outcome of that comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verdict: Option<Verdict>,
}

/// The last error of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct RunningError {
    /// The version that could not be used; empty if the client does not state it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) version: String,
    pub(super) details: String,
}

/// The state of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RunningState {
    /// It is used.
    Running,
    /// It waits for what it needs, and is not used yet.
    Warming,
    /// It is on its way out.
    Draining,
    /// It is from the bootstrap, and from no server.
    Static,
    /// The client asked for it, and it did not come yet.
    Requested,
    /// The server said that there is none.
    Missing,
    /// The last version was rejected; an earlier one may be used.
    Rejected,
    /// The server sent an error in its place.
    ServerError,
    /// It did not come in time.
    TimedOut,
    /// The client does not have it, and does not speak of it.
    Absent,
    /// The client states nothing that is known.
    Unknown,
}

impl RunningClient {
    /// Returns true if anything that it asked for cannot be used.
    pub(super) fn has_errors(&self) -> bool {
        self.resources.iter().any(|it| {
            it.error.is_some() || it.state.is_bad() || it.verdict.is_some_and(Verdict::is_bad)
        })
    }

    /// Returns true if it was compared with what a server sent.
    pub(super) fn is_compared(&self) -> bool {
        self.resources.iter().any(|it| it.verdict.is_some())
    }

    /// The same with its resources in order.
    pub(super) fn sorted(mut self) -> Self {
        self.sort();
        self
    }

    /// Puts the resources in order.
    pub(super) fn sort(&mut self) {
        let key = |it: &RunningResource| (order_of(&it.r#type), it.r#type.clone(), it.name.clone());
        self.resources.sort_by_cached_key(key);
    }
}

impl RunningState {
    fn is_bad(self) -> bool {
        matches!(self, Self::Rejected | Self::ServerError | Self::TimedOut)
    }

    /// The name in tables, as in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Warming => "warming",
            Self::Draining => "draining",
            Self::Static => "static",
            Self::Requested => "requested",
            Self::Missing => "missing",
            Self::Rejected => "rejected",
            Self::ServerError => "server-error",
            Self::TimedOut => "timed-out",
            Self::Absent => "absent",
            Self::Unknown => "unknown",
        }
    }
}

/// A text of a client, as far as it is kept.
pub(super) fn kept(text: &str) -> String {
    cut(text, MAX_TEXT_BYTES).into_owned()
}

/// The short name of a type.
pub(super) fn type_name(type_url: &str) -> String {
    kept(TypeUrl::new(type_url).short())
}

/// The place of a type: that which others refer to comes later.
fn order_of(name: &str) -> usize {
    ORDER.iter().position(|known| *known == name).unwrap_or(ORDER.len())
}

const ORDER: [&str; 8] = ["lds", "rds", "srds", "vhds", "cds", "eds", "sds", "ecds"];

/// The bytes that are kept of a name or a reason.
const MAX_TEXT_BYTES: usize = 1024;
