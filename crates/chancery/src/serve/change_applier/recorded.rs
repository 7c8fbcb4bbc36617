//! The present faults and warnings, and what is held back, as the admin interface shows them after each change.
//!
//! Not here: the lines of a load (`told`).

use std::sync::Arc;

use tracing::{info, warn};

use super::super::audiences::{say_without_files, without_files};
use super::super::{held, unruled};
use super::{ApplierState, ChangeApplier};
use crate::admin::LoadFindings;
use crate::check::codes::GROUP_WITHOUT_FILES;

impl ChangeApplier {
    /// Records the present faults and warnings, and what is held back, for the admin interface.
    pub(super) fn record(&self, state: &mut ApplierState) {
        let (held, news) = (Arc::new(self.gate.held()), self.gate.take_news());
        let mut without_files = without_files(&self.audiences);
        if state.allowed.allow(GROUP_WITHOUT_FILES) {
            without_files.clear();
        }
        let known = self.audiences.catalog().groups();
        for name in without_files.difference(&state.without_files) {
            warn!("{}", say_without_files(name, &known));
        }
        state.without_files = without_files;
        if std::mem::take(&mut state.is_unruled_stale) {
            let unruled = unruled::unruled(&self.audiences);
            // One slip is told in one line.
            let strays = std::mem::take(&mut state.strays);
            let new = unruled.difference(&state.unruled);
            if let Some(line) = unruled::say(new.filter(|it| !strays.contains_key(*it))) {
                info!("{line}");
            }
            state.nearly_clusters.extend(strays);
            state.unruled = unruled;
        }
        let faults = state.config_fault.iter().chain(&state.faults).cloned().collect();
        let (mut warnings, mut warning_count) = state.warnings.clone();
        let (of_references, more) = state.references.present();
        let of_certificates = state.certificates.present();
        let more = more + of_certificates.len();
        if more > 0 {
            let all =
                warnings.iter().chain(of_certificates).chain(of_references).take(MOST_PRESENT);
            (warnings, warning_count) = (Arc::new(all.cloned().collect()), warning_count + more);
        }
        let more_faults = state.more_faults.clone();
        self.admin.loaded.record(LoadFindings {
            faults,
            more_faults,
            warnings,
            warning_count,
            everything_held_back: state.directory_fault.clone(),
            held: Arc::clone(&held),
            faulty: state.faulty.rows(),
        });
        self.keep(state);
        // Whoever reads of it in the log finds it in `/api/v1/config` and `/metrics`.
        held::tell(&news, &held, &self.metrics);
    }
}

/// The number of warnings that `/api/v1/config` lists.
const MOST_PRESENT: usize = 1000;
