//! Assignments: which group a client belongs to.

use chancery_catalog::OverlayNames;

use crate::{Client, LoadReporting, Refusal};

/// Decides which group a client belongs to.
///
/// Any function of this form is one. Like a [`Policy`](crate::Policy) it must answer at once.
pub trait Assign: Send + Sync + 'static {
    /// The group of a client, or that it is in none. `groups` are those that have a layer: the nodes
    /// of any other group see base, and what is for them alone.
    ///
    /// # Errors
    /// To close the stream, with the reason for the client.
    fn group(&self, client: &Client<'_>, groups: &OverlayNames) -> Result<Option<String>, Refusal>;

    /// The load reports of the clients of a group, or of those in none
    /// ([`Policy::load_reporting`](crate::Policy::load_reporting)).
    fn load_reporting(&self, group: Option<&str>) -> Option<LoadReporting> {
        _ = group;
        Some(LoadReporting::default())
    }

    /// Returns true if the group of a client may depend on its dynamic parameters
    /// ([`Policy::reads_dynamic_parameters`](crate::Policy::reads_dynamic_parameters)).
    fn reads_dynamic_parameters(&self) -> bool {
        true
    }
}

impl<F> Assign for F
where
    F: Fn(&Client<'_>, &OverlayNames) -> Result<Option<String>, Refusal> + Send + Sync + 'static,
{
    fn group(&self, client: &Client<'_>, groups: &OverlayNames) -> Result<Option<String>, Refusal> {
        self(client, groups)
    }
}
