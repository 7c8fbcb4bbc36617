//! Which types use which: the order of removals, and who waits for clusters.

use crate::Api;

/// The types whose resources refer to resources of `api`. A removal waits until the client has
/// acknowledged all of these (S-098).
pub(super) fn users(api: Api) -> &'static [Api] {
    match api {
        Api::Cds => &[Api::Lds, Api::Fcds, Api::Srds, Api::Rds, Api::Vhds, Api::Ecds],
        Api::Eds => &[Api::Cds],
        Api::Leds => &[Api::Eds],
        Api::Rds => &[Api::Lds, Api::Srds],
        Api::Vhds => &[Api::Rds],
        Api::Sds => &[Api::Lds, Api::Cds],
        Api::Ecds | Api::Fcds => &[Api::Lds],
        Api::Lds | Api::Srds | Api::Rtds | Api::Other => &[],
    }
}

/// Whether resources of this type point traffic at clusters, so that a change of them waits until
/// new clusters are ready (S-097).
pub(super) fn points_at_clusters(api: Api) -> bool {
    match api {
        Api::Lds | Api::Fcds | Api::Srds | Api::Rds | Api::Vhds => true,
        Api::Cds | Api::Eds | Api::Leds | Api::Sds | Api::Ecds | Api::Rtds | Api::Other => false,
    }
}
