//! The state of a tree of policies as a value, for people and programs that ask why calls go where they
//! go. It is made when somebody asks, without I/O. Not here: the choice for one call (`Picker::preview`).

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::sync::Arc;

use chancery_core::printable::{MAX_MESSAGE_BYTES, MAX_NAME_BYTES, Printable, cut};

use super::cluster::DropCategory;
use super::connectivity::Connectivity;
use super::context::EndpointId;
use super::endpoint::{Endpoint, EndpointLocality, Health};

/// The state of a part that nobody has needed.
const SPARE: &str = "not connected, as a better one takes the calls";
/// The endpoints of a policy of which each is told in words.
const MAX_TOLD_ENDPOINTS: usize = 32;
/// The localities of a policy, or the priorities of a cluster, of which each is told in words.
const MAX_TOLD_CHILDREN: usize = 32;

/// A part of a tree, as it was when somebody asked.
#[derive(Clone, Debug)]
pub struct Description {
    /// The kind of the part, with what belongs to it alone.
    pub part: TreePart,
    /// Its state.
    pub state: Connectivity,
    /// The parts below it, in the order in which they are preferred, if there is one.
    pub children: Vec<DescribedChild>,
    /// The endpoints that it chooses among itself.
    pub endpoints: Vec<DescribedEndpoint>,
}

/// The kinds of parts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TreePart {
    /// The first child that works has the calls: the clusters of an aggregate, or the priorities of a cluster.
    Priorities,
    /// A cluster.
    Cluster {
        /// Its name.
        name: Arc<str>,
        /// The reason why it has no priorities, if the control plane gave one.
        problem: Option<Arc<str>>,
        /// The parts of its calls that are dropped.
        drops: Arc<[DropCategory]>,
        /// Its calls that are under way in this process.
        in_flight: u32,
        /// The number of them that is allowed.
        max_requests: u32,
    },
    /// A policy for endpoints, by its name in gRPC, as `round_robin`, or in the program that has added it.
    Policy(Arc<str>),
}

/// A part with its place below another one.
#[derive(Clone, Debug)]
pub struct DescribedChild {
    /// Its name there.
    pub name: ChildName,
    /// Its part of the calls.
    pub turn: Turn,
    /// Its description; `None` if it was not made, because nobody has needed it.
    pub description: Option<Description>,
}

/// The name of a child.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ChildName {
    /// One of an order; 0 is the best.
    Priority {
        /// Its place in the order.
        place: usize,
        /// The name of the cluster, or a name that its priority keeps when it moves.
        name: Arc<str>,
    },
    /// A locality.
    Locality(Arc<EndpointLocality>),
    /// The only one.
    Only,
    /// The policy that takes over when it is ready.
    Successor,
    /// The endpoints that sessions keep connected.
    Sessions,
}

/// The part of the calls that a child takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Turn {
    /// It takes calls.
    Taken,
    /// It was asked before the one that takes the calls, and does not work.
    PassedOver,
    /// It takes none while a better one works.
    Spare,
}

/// An endpoint of a policy.
#[derive(Clone, Debug)]
pub struct DescribedEndpoint {
    /// Its id, by which a picker asks for its connection; `None` below `pick_first`, where no picker does.
    pub id: Option<EndpointId>,
    /// The endpoint.
    pub endpoint: Arc<Endpoint>,
    /// The state of its connection. One that was taken out counts as failed.
    pub state: Connectivity,
    /// The address that is connected.
    pub connected: Option<SocketAddr>,
    /// True if outlier detection has taken it out.
    pub is_ejected: bool,
    /// The reason why it takes no calls, if it has failed.
    pub error: Option<Arc<str>>,
}

impl Description {
    /// Describes a part of which no more is known than its state.
    pub fn of_state(state: Connectivity) -> Self {
        let part = TreePart::Policy("".into());
        Self { part, state, children: Vec::new(), endpoints: Vec::new() }
    }

    /// Returns the children on the way to an endpoint, outermost first; `None` if it is not here.
    pub fn way_to(&self, endpoint: &Arc<Endpoint>) -> Option<Vec<&DescribedChild>> {
        if self.endpoints.iter().any(|it| Arc::ptr_eq(&it.endpoint, endpoint)) {
            return Some(Vec::new());
        }
        let taken = self.children.iter().filter(|child| child.turn == Turn::Taken);
        let mut found = taken.filter_map(|child| {
            let mut way = child.description.as_ref()?.way_to(endpoint)?;
            way.insert(0, child);
            Some(way)
        });
        found.next()
    }

    /// Returns the endpoint of this id.
    pub fn endpoint(&self, id: EndpointId) -> Option<&DescribedEndpoint> {
        let own = self.endpoints.iter().find(|endpoint| endpoint.id == Some(id));
        let below = || {
            let mut children = self.children.iter().filter_map(|it| it.description.as_ref());
            children.find_map(|description| description.endpoint(id))
        };
        own.or_else(below)
    }

    fn write(&self, depth: usize, f: &mut Formatter<'_>) -> fmt::Result {
        for endpoint in self.endpoints.iter().take(MAX_TOLD_ENDPOINTS) {
            write!(f, "\n{}{endpoint}", Indent(depth))?;
        }
        more(self.endpoints.len(), MAX_TOLD_ENDPOINTS, "endpoints", depth, f)?;
        let total = self.total_weight();
        for child in self.children.iter().take(MAX_TOLD_CHILDREN) {
            match (&self.part, &child.description) {
                (TreePart::Priorities, None) => child.write_spare_cluster(depth, f)?,
                _ => child.write(total, depth, f)?,
            }
        }
        more(self.children.len(), MAX_TOLD_CHILDREN, "parts", depth, f)
    }

    /// The sum of the weights of the localities that take calls.
    fn total_weight(&self) -> u64 {
        let taken = self.children.iter().filter(|child| child.turn == Turn::Taken);
        let weights = taken.filter_map(|child| match &child.name {
            ChildName::Locality(locality) => Some(u64::from(locality.weight)),
            _ => None,
        });
        weights.sum()
    }

    /// Writes the line of the part itself.
    fn title(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let state = self.state;
        match &self.part {
            TreePart::Priorities => write!(f, "in this order, {state}"),
            TreePart::Policy(name) if name.is_empty() => write!(f, "{state}"),
            TreePart::Policy(name) => write!(f, "{}, {state}", quoted(name)),
            TreePart::Cluster { name, problem, drops, in_flight, max_requests } => {
                write!(f, "cluster `{}` is {state}", quoted(name))?;
                match *max_requests {
                    u32::MAX => write!(f, ", {in_flight} calls under way")?,
                    most => write!(f, ", {in_flight} of {most} calls under way")?,
                }
                for DropCategory { name, per_million } in &**drops {
                    let percent = f64::from(*per_million) / 10_000.0;
                    write!(f, ", drops {percent}% of its calls for `{}`", quoted(name))?;
                }
                match problem {
                    Some(problem) => write!(f, ": {}", quoted(problem)),
                    None => Ok(()),
                }
            }
        }
    }
}

impl DescribedChild {
    /// Writes a cluster of an aggregate that nobody has needed.
    fn write_spare_cluster(&self, depth: usize, f: &mut Formatter<'_>) -> fmt::Result {
        let indent = Indent(depth);
        match &self.name {
            ChildName::Priority { place, name } => {
                write!(f, "\n{indent}priority {place}: cluster `{}` is {SPARE}", quoted(name))
            }
            other => write!(f, "\n{indent}{other}: {SPARE}"),
        }
    }

    fn write(&self, total: u64, depth: usize, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(description) = &self.description else {
            let (name, indent) = (&self.name, Indent(depth));
            return write!(f, "\n{indent}{name}: {SPARE}");
        };
        // A list of one says nothing.
        if matches!(self.name, ChildName::Only) && self.turn == Turn::Taken {
            write!(f, "\n{}", Indent(depth))?;
        } else {
            write!(f, "\n{}{}", Indent(depth), self.name)?;
            if matches!(self.name, ChildName::Locality(_)) && self.turn == Turn::Taken {
                write!(f, " of {total}")?;
            }
            write!(f, "{}: ", self.turn)?;
        }
        description.title(f)?;
        description.write(depth + 1, f)
    }
}

/// A tree on several lines, without a line feed at the end.
impl Display for Description {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.title(f)?;
        self.write(1, f)
    }
}

impl Display for ChildName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Priority { place, .. } => write!(f, "priority {place}"),
            Self::Locality(locality) => {
                write!(f, "locality {locality}, weight {}", locality.weight)
            }
            Self::Only => f.write_str("all"),
            Self::Successor => f.write_str("next policy"),
            Self::Sessions => f.write_str("sessions"),
        }
    }
}

impl Display for Turn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Taken => "",
            Self::PassedOver => " is passed over",
            Self::Spare => " is spare",
        })
    }
}

impl Display for DescribedEndpoint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let address = self.connected.or_else(|| self.endpoint.addresses.first().copied());
        let address = address.map(|address| self.endpoint.shown(address));
        match &address {
            Some(address) => write!(f, "{address} {}", self.state)?,
            None => write!(f, "an endpoint without addresses {}", self.state)?,
        }
        if self.endpoint.weight != 1 {
            write!(f, ", weight {}", self.endpoint.weight)?;
        }
        if self.endpoint.health == Health::Draining {
            f.write_str(", draining")?;
        }
        match &self.error {
            Some(error) => {
                // An error of a connection begins with the address, which is above.
                let address = address.map(|it| format!("{it}: ")).unwrap_or_default();
                let error = error.strip_prefix(&address).unwrap_or(error);
                write!(f, ": {}", Printable(cut(error, MAX_MESSAGE_BYTES)))
            }
            None => Ok(()),
        }
    }
}

/// The locality as `region/zone/sub-zone`, as far as it is known.
impl Display for EndpointLocality {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let parts = [&self.name.region, &self.name.zone, &self.name.sub_zone];
        let known = parts.iter().rposition(|part| !part.is_empty()).map_or(0, |last| last + 1);
        if known == 0 {
            return f.write_str("-");
        }
        for (place, part) in parts[..known].iter().enumerate() {
            write!(f, "{}{}", if place == 0 { "" } else { "/" }, quoted(part))?;
        }
        Ok(())
    }
}

struct Indent(usize);

impl Display for Indent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:1$}", "", 2 * self.0)
    }
}

fn more(all: usize, told: usize, of: &str, depth: usize, f: &mut Formatter<'_>) -> fmt::Result {
    match all.saturating_sub(told) {
        0 => Ok(()),
        more => write!(f, "\n{}and {more} more {of}", Indent(depth)),
    }
}

/// A text of the configuration, as messages have it.
fn quoted(text: &str) -> impl Display + use<'_> {
    Printable(cut(text, MAX_NAME_BYTES))
}
