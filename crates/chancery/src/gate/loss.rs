//! The judgement: the reasons for which a change of what an audience sees is a loss.
//!
//! The remaining resources are counted; which they are does not matter, so that another set of names in
//! place of all (blue and green) is no loss. Numbers come in, reasons go out. Not here: the snapshots
//! (`change`), the time (`window`), and what follows from a reason (`gate`).

use std::fmt::{self, Display, Formatter};

use chancery_core::printable::Printable;
use serde::{Deserialize, Serialize};

use super::moves::name_nodes;

/// A thing of which an audience has a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Clusters.
    Clusters,
    /// Listeners.
    Listeners,
    /// Route configurations.
    RouteConfigurations,
    /// Routes, in route configurations, virtual hosts and listeners.
    Routes,
    /// Endpoints, in load assignments and clusters, and those of LEDS.
    Endpoints,
}

impl Measure {
    /// All of them, in the order in which a [`Counts`] has them.
    pub(crate) const ALL: [Self; 5] =
        [Self::Clusters, Self::Listeners, Self::RouteConfigurations, Self::Routes, Self::Endpoints];
}

impl Display for Measure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clusters => "clusters",
            Self::Listeners => "listeners",
            Self::RouteConfigurations => "route configurations",
            Self::Routes => "routes",
            Self::Endpoints => "endpoints",
        })
    }
}

/// The number of each that an audience has.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Counts([u64; Measure::ALL.len()]);

impl Counts {
    /// The number of one thing.
    pub(crate) fn get(&self, measure: Measure) -> u64 {
        self.0[measure as usize]
    }

    /// Adds to the number of one thing.
    pub(crate) fn add(&mut self, measure: Measure, more: u64) {
        self.0[measure as usize] += more;
    }

    /// Takes from the number of one thing, down to none.
    pub(crate) fn take(&mut self, measure: Measure, less: u64) {
        let count = &mut self.0[measure as usize];
        *count = count.saturating_sub(less);
    }

    /// The larger number of each.
    #[must_use]
    pub(crate) fn largest(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at].max(other.0[at])))
    }

    /// Returns true if there is less of anything in `other`.
    pub(crate) fn exceeds(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).any(|(one, other)| *one > other)
    }
}

/// The difference between what an audience sees and what it would see, as far as it can be a loss.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    /// The numbers of the state that it sees.
    pub(crate) before: Counts,
    /// The numbers of the state that it would see.
    pub(crate) after: Counts,
    /// The types of which all resources are gone.
    pub(crate) gone: Vec<Gone>,
    /// The endpoint sets and clusters that had endpoints and have none, but for those that may be empty.
    pub(crate) emptied: Listed,
    /// The route configurations and virtual hosts that had routes and have none.
    pub(crate) unrouted: Listed,
    /// The number of endpoints that sets lose which may be empty.
    pub(crate) forgiven: u64,
    /// The group whose directory is gone, if nodes use it.
    pub(crate) group_gone: Option<String>,
}

/// A type of which all resources are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    /// The short name of the type.
    pub(crate) type_name: String,
    /// The number of resources before.
    pub(crate) count: u64,
    /// The files in which they were, in words.
    pub(crate) files: String,
}

/// Things of which the first are named.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listed {
    /// Their number.
    pub(crate) count: usize,
    /// The first ones, in words.
    pub(crate) first: Vec<String>,
}

impl Listed {
    /// Returns true if there are none.
    pub(super) fn is_nothing(&self) -> bool {
        self.count == 0
    }

    /// Counts one more, and describes it if it is among the first.
    pub(super) fn add_words(&mut self, words: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < MOST_NAMED {
            self.first.push(words());
        }
    }
}

/// A reason to hold a change back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// All resources of a type are gone.
    TypeGone(Gone),
    /// Too few of something are left.
    Loss {
        /// The thing.
        measure: Measure,
        /// The largest number of the last ten minutes.
        largest: u64,
        /// The number that would be left.
        after: u64,
        /// The files from which they go, in words.
        files: String,
    },
    /// Endpoint sets or clusters lose all their endpoints.
    Emptied(Listed),
    /// Route configurations or virtual hosts lose all their routes.
    Unrouted(Listed),
    /// Files are gone with listeners that nodes use, each in a sentence.
    FileGone(Listed),
    /// Listeners come that answer no request, each in a sentence.
    Unanswered(Listed),
    /// The directory of a group is gone, and nodes use it.
    GroupGone {
        /// The name of the group.
        group: String,
    },
    /// References lead nowhere that did not before, each in a sentence.
    Dangling(Listed),
    /// Resources come that a client does not take beside others, each in a sentence.
    Clash(Listed),
    /// An Envoy that runs refuses or loses something that one which starts would take, each in a sentence.
    InPlace(Listed),
    /// Clusters aggregate each other, so that clients find no endpoint, and did not before, each in a sentence.
    Cycle(Listed),
    /// Patches and removals are not applied that were before, or are new, each in a sentence.
    Unapplied(Listed),
    /// Nodes do not state a value that is asked for, or it does not fit, each in a sentence.
    Unstated(Listed),
    /// Fields are filled for nodes no more, and keep what stands in the place of a value, each in a sentence.
    Unfilled(Listed),
    /// Domains or addresses are served no more, each in a sentence. It holds nothing back.
    Narrowed(Listed),
    /// Certificates are replaced by ones that cannot be used, each in a sentence.
    Expired(Listed),
    /// Files of a layer have faults, and edits of its other files wait for them, each file in words.
    Faults(Listed),
    /// Nodes would move to another audience, and lose something.
    Moved {
        /// The ids of the nodes.
        nodes: Listed,
        /// The audience that they belong to, in words.
        from: String,
        /// The audience that they would belong to, in words; `None` if they would be refused.
        to: Option<String>,
        /// The losses, in words.
        lost: String,
        /// The number of other moves that nobody describes.
        more: usize,
    },
    /// A reason from before a restart, for what could not be judged since.
    Before {
        /// Its kind.
        kind: &'static str,
        /// Its words.
        words: String,
    },
}

impl Reason {
    /// The name of the kind of reason, for metrics.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::TypeGone(_) => "type-gone",
            Self::Loss { .. } => "loss",
            Self::Emptied(_) | Self::Unrouted(_) => "emptied",
            Self::FileGone(_) => "file-gone",
            Self::Unanswered(_) => "unanswered",
            Self::GroupGone { .. } => "group-gone",
            Self::Dangling(_) => "dangling",
            Self::Clash(_) => "clash",
            Self::InPlace(_) => "in-place",
            Self::Cycle(_) => "cycle",
            Self::Unapplied(_) => "unapplied",
            Self::Unstated(_) => "unstated",
            Self::Unfilled(_) => "unfilled",
            Self::Narrowed(_) => "narrowed",
            Self::Expired(_) => "expired",
            Self::Faults(_) => "faults",
            Self::Moved { .. } => "moved",
            Self::Before { kind, .. } => kind,
        }
    }

    /// The names of all kinds.
    pub(crate) const KINDS: [&str; 16] = [
        "type-gone",
        "loss",
        "emptied",
        "file-gone",
        "group-gone",
        "dangling",
        "clash",
        "in-place",
        "cycle",
        "unanswered",
        "unapplied",
        "unstated",
        "unfilled",
        "expired",
        "faults",
        "moved",
    ];
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::TypeGone(Gone { type_name, count, files }) => {
                let plural = if *count == 1 { "" } else { "s" };
                write!(f, "0 of {count} resource{plural} of type `{}` left", Printable(type_name))?;
                write_files(f, files)
            }
            Self::Loss { measure, largest, after, files } => {
                write!(f, "{after} of {largest} {measure} left")?;
                write_files(f, files)
            }
            Self::Emptied(listed) => {
                let plural = if listed.count == 1 { "" } else { "s" };
                write!(f, "no endpoints left in {} endpoint set{plural}: ", listed.count)?;
                write_names(f, listed)
            }
            Self::Unrouted(listed) => {
                let plural = if listed.count == 1 { "" } else { "s" };
                write!(f, "no routes left in {} route configuration{plural}: ", listed.count)?;
                write_names(f, listed)
            }
            Self::FileGone(listed)
            | Self::Unanswered(listed)
            | Self::InPlace(listed)
            | Self::Cycle(listed)
            | Self::Unfilled(listed)
            | Self::Narrowed(listed) => write_sentences(f, listed),
            Self::Faults(files) => write_faulty(f, files),
            Self::Before { words, .. } => f.write_str(words),
            Self::GroupGone { group } => {
                let group = Printable(group);
                write!(f, "the directory of group `{group}` is gone, and nodes use it")
            }
            Self::Moved { nodes, from, to, lost, more } => {
                let (nodes, from) = (name_nodes(nodes), Printable(from));
                match to {
                    Some(to) => {
                        let to = Printable(to);
                        write!(f, "chancery.yaml moves {nodes} from {from} to {to}: {lost}")?;
                    }
                    None => write!(f, "chancery.yaml refuses {nodes} of {from}")?,
                }
                if *more > 0 {
                    let plural = if *more == 1 { "" } else { "s" };
                    write!(f, "; and {more} move{plural} more")?;
                }
                Ok(())
            }
            Self::Clash(listed) => {
                write_sentences(f, listed)?;
                f.write_str(": Envoy refuses the second one")
            }
            Self::Expired(listed) => {
                write_sentences(f, listed)?;
                f.write_str(" (what stood there before was good)")
            }
            Self::Unapplied(listed) => write_sentences(f, listed),
            Self::Unstated(listed) => {
                let (plural, count) = (if listed.count == 1 { "" } else { "s" }, listed.count);
                write!(f, "{count} connected node{plural} would be refused: ")?;
                write_sentences(f, listed)
            }
            Self::Dangling(Listed { count, first }) => {
                f.write_str(&first.join("; "))?;
                match count - first.len() {
                    0 => {}
                    1 => f.write_str("; and another reference leads nowhere")?,
                    more => write!(f, "; and {more} more references lead nowhere")?,
                }
                f.write_str(" (names that the clients know from elsewhere belong into `external`)")
            }
        }
    }
}

/// The faulty files, and that they stay.
fn write_faulty(f: &mut Formatter<'_>, files: &Listed) -> fmt::Result {
    f.write_str("faults in ")?;
    write_names(f, files)?;
    f.write_str(match files.count {
        1 => ", which stays as it was when the rest passes",
        _ => ", which stay as they were when the rest passes",
    })
}

/// The files in which something was, as the end of a sentence.
fn write_files(f: &mut Formatter<'_>, files: &str) -> fmt::Result {
    if files.is_empty() {
        return Ok(());
    }
    write!(f, " (lost from {files})")
}

fn write_names(f: &mut Formatter<'_>, Listed { count, first }: &Listed) -> fmt::Result {
    f.write_str(&first.join(", "))?;
    match count - first.len() {
        0 => Ok(()),
        more => write!(f, " and {more} more"),
    }
}

fn write_sentences(f: &mut Formatter<'_>, Listed { count, first }: &Listed) -> fmt::Result {
    f.write_str(&first.join("; "))?;
    match count - first.len() {
        0 => Ok(()),
        more => write!(f, "; and {more} more"),
    }
}

/// The reasons to hold a change back; none, if it is no loss. `largest` is the most that the audience
/// had of late, and `percent` the share of it whose loss is accepted. `lost_from` names files.
pub(crate) fn reasons(
    change: &Change,
    largest: &Counts,
    percent: u64,
    lost_from: impl Fn(Measure) -> String,
) -> Vec<Reason> {
    let group = change.group_gone.iter().map(|group| Reason::GroupGone { group: group.clone() });
    let gone = change.gone.iter().cloned().map(Reason::TypeGone);
    let losses = Measure::ALL.into_iter().filter_map(|measure| {
        let (largest, after) = (largest.get(measure), change.after.get(measure));
        let forgiven = if measure == Measure::Endpoints { change.forgiven } else { 0 };
        let lost = largest.saturating_sub(after).saturating_sub(forgiven);
        let is_loss = lost >= FEWEST_LOST
            && u128::from(lost) * 100 > u128::from(largest) * u128::from(percent);
        is_loss.then(|| Reason::Loss { measure, largest, after, files: lost_from(measure) })
    });
    let some = |listed: &Listed| (listed.count > 0).then(|| listed.clone());
    let emptied = some(&change.emptied).map(Reason::Emptied);
    let unrouted = some(&change.unrouted).map(Reason::Unrouted);
    group.chain(gone).chain(losses).chain(emptied).chain(unrouted).collect()
}

/// The number of things that are named.
const MOST_NAMED: usize = 5;

/// The number that must be lost where a share decides: half of four is no disaster.
const FEWEST_LOST: u64 = 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts(all: [u64; 5]) -> Counts {
        Counts(all)
    }

    fn change(before: [u64; 5], after: [u64; 5]) -> Change {
        Change { before: counts(before), after: counts(after), ..Change::default() }
    }

    fn told(change: &Change, percent: u64) -> Vec<String> {
        reasons(change, &change.before, percent, |_| String::new())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn more_than_the_share_and_at_least_ten_are_a_loss() {
        let clusters = |before, after| told(&change([before, 0, 0, 0, 0], [after, 0, 0, 0, 0]), 50);
        assert_eq!(clusters(20, 9), ["9 of 20 clusters left"]);
        assert_eq!(clusters(20, 10), [""; 0], "the half is not more than half");
        assert_eq!(clusters(10, 1), [""; 0], "nine are few");
        assert_eq!(clusters(10, 0), ["0 of 10 clusters left"]);
        assert_eq!(clusters(10, 200), [""; 0]);
    }

    #[test]
    fn what_sets_lose_that_may_be_empty_is_no_loss() {
        let mut change = change([0, 0, 0, 0, 40], [0, 0, 0, 0, 10]);
        assert_eq!(told(&change, 50), ["10 of 40 endpoints left"]);
        change.forgiven = 20;
        assert_eq!(told(&change, 50), [""; 0]);
    }

    #[test]
    fn every_reason_says_what_is_left_of_what() {
        let mut change = change([0; 5], [0; 5]);
        change.group_gone = Some("edge".to_owned());
        let files = "a.yaml and others".to_owned();
        change.gone = vec![Gone { type_name: "lds".to_owned(), count: 1, files }];
        change.emptied = Listed { count: 7, first: vec!["`a`".to_owned(), "`b`".to_owned()] };
        change.unrouted = Listed { count: 1, first: vec!["`r` (a.yaml:3)".to_owned()] };
        assert_eq!(
            told(&change, 50),
            [
                "the directory of group `edge` is gone, and nodes use it",
                "0 of 1 resource of type `lds` left (lost from a.yaml and others)",
                "no endpoints left in 7 endpoint sets: `a`, `b` and 5 more",
                "no routes left in 1 route configuration: `r` (a.yaml:3)"
            ]
        );
        let kinds = reasons(&change, &change.before, 50, |_| String::new());
        assert!(kinds.iter().all(|reason| Reason::KINDS.contains(&reason.kind())));
    }

    proptest! {
        #[test]
        fn who_keeps_the_share_loses_nothing(
            before in prop::array::uniform5(0_u64..10_000),
            kept in prop::array::uniform5(50_u64..300),
        ) {
            let after = std::array::from_fn(|at| (before[at] * kept[at]).div_ceil(100));
            prop_assert_eq!(told(&change(before, after), 50), [""; 0]);
        }

        #[test]
        fn a_larger_loss_is_no_better_than_a_smaller_one(
            before in prop::array::uniform5(0_u64..1000),
            after in prop::array::uniform5(0_u64..1000),
            less in prop::array::uniform5(0_u64..1000),
            percent in 0_u64..=100,
        ) {
            let smaller = std::array::from_fn(|at| after[at].saturating_sub(less[at]));
            let (few, many) = (change(before, after), change(before, smaller));
            prop_assert!(told(&few, percent).len() <= told(&many, percent).len());
        }

        #[test]
        fn no_number_overflows(before in any::<[u64; 5]>(), after in any::<[u64; 5]>(), percent in 0_u64..=100) {
            told(&change(before, after), percent);
        }
    }
}
