//! The report of a load.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use chancery_catalog::{Audience, Layer, Revision};

use crate::allowed_places::AllowedPlaces;
use crate::behind::BehindFaults;
use crate::fault::{Fault, Warning};

/// The report of a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadReport {
    /// The first thousand of the present faults, by file and place, and at most a hundred of one
    /// file.
    pub faults: Vec<Fault>,
    /// The number of the other faults, by file.
    pub more_faults: BTreeMap<PathBuf, usize>,
    /// The first thousand of the present violations of the rules of messages, by file and place, if
    /// they are to be listed and hold nothing back
    /// ([`Options::hold_violations`](crate::Options::hold_violations)).
    pub violations: Vec<Fault>,
    /// The number of the other violations, by file.
    pub more_violations: BTreeMap<PathBuf, usize>,
    /// The warnings that the load before did not have.
    pub warnings: Vec<Warning>,
    /// The first thousand of the present warnings, and at most a hundred of one file.
    pub present_warnings: Arc<Vec<Warning>>,
    /// The number of all present warnings.
    pub warning_count: usize,
    /// True if [`Following::reload`](crate::Following::reload) asked for the load. It is reported then
    /// even if it has no news.
    pub is_requested: bool,
    /// The comments in files that let findings pass.
    pub allowances: Arc<AllowedPlaces>,
    /// The first thousand layers in which edits may wait behind faults in other files, or were let pass.
    pub behind_faults: Arc<Vec<BehindFaults>>,
    /// The number of files.
    pub files: usize,
    /// The number of resources in the files without a fault.
    pub resources: usize,
    /// The revision of the catalog that the load made; `None` if the load changed nothing.
    pub revision: Option<Arc<Revision>>,
}

impl LoadReport {
    /// The number of all present faults.
    pub fn fault_count(&self) -> usize {
        self.faults.len() + self.more_faults.values().sum::<usize>()
    }

    /// The layers that were added, removed, changed or repaired.
    pub fn layers(&self) -> &[Layer] {
        self.revision.as_ref().map_or(&[], |revision| &revision.layers)
    }

    /// The audiences that see something else now, of those that were asked for.
    pub fn changed(&self) -> &[Audience] {
        self.revision.as_ref().map_or(&[], |revision| &revision.changed)
    }
}
