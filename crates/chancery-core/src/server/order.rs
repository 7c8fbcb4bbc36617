//! The references between types, which decide the order of removals and which types wait for
//! clusters ([eventual consistency]).
//!
//! ```text
//!   LDS --> SRDS --> RDS --> VHDS          An arrow leads from a user to what it uses. Beside these,
//!    |        |       |        |           listeners use RDS, FCDS, ECDS and SDS directly, and FCDS
//!    +--------+-------+--------+--> CDS    and ECDS use CDS. RTDS is neither user nor used.
//!                                   |
//!                                   +----> EDS ----> LEDS
//!                                   +----> SDS
//! ```
//!
//! New and changed resources are sent in the order of [`TypeUrl`](crate::TypeUrl), in which clusters
//! come before the listeners and routes that use them (S-096). A removal waits until the client has
//! acknowledged the types that its arrows come from: a cluster is removed after the routes that do
//! not use it any more (S-098).
//!
//! [eventual consistency]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#eventual-consistency-considerations

use crate::Api;

/// The types whose resources refer to resources of `api`. A removal waits until the client has
/// acknowledged everything of these types (S-098).
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

/// Returns true if resources of this type send traffic to clusters, so that a change of them waits
/// until new clusters can be used (S-097).
pub(super) fn points_at_clusters(api: Api) -> bool {
    match api {
        Api::Lds | Api::Fcds | Api::Srds | Api::Rds | Api::Vhds => true,
        Api::Cds | Api::Eds | Api::Leds | Api::Sds | Api::Ecds | Api::Rtds | Api::Other => false,
    }
}
