//! The lines of a listing for modules and for `pub use`, which say where an item is shown.

use super::conditions::prefix;
use super::listing::{ApiLine, Rank};
use super::names::{Mentions, NameReplacer};
use super::public::Public;
use super::scope::{CrateScope, PathTarget};

/// The lines of modules and of names that lead elsewhere.
pub(super) fn lines(
    public: &Public,
    scope: &CrateScope<'_>,
    mentions: &mut Mentions,
) -> Vec<ApiLine> {
    let mut lines = Vec::new();
    for place in public.modules.values().filter(|place| !place.path.is_empty()) {
        let text = format!("{}pub mod {}", prefix(&place.conditions), place.path.join("::"));
        lines.push(ApiLine::new(&place.path, Rank::Declaration, text));
    }
    for reexport in &public.reexports {
        let place = &reexport.place;
        let mut target = path_of(public, &reexport.target, scope, mentions);
        target.push_str(if reexport.is_glob { "::*" } else { "" });
        let start = prefix(&place.conditions);
        let name = place.path.join("::");
        let is_same = !reexport.is_glob && target.rsplit("::").next() == Some(&name);
        let rename = if is_same { String::new() } else { format!(" as {name}") };
        let text = format!("{start}pub use {target}{rename}");
        lines.push(ApiLine::new(&place.path, Rank::Declaration, text));
    }
    lines
}

/// The path at which the target of a `pub use` is shown.
fn path_of(
    public: &Public,
    target: &PathTarget,
    scope: &CrateScope<'_>,
    mentions: &mut Mentions,
) -> String {
    let item = |id, mentions| NameReplacer::new(scope, public, 0, mentions).path_of(id).join("::");
    match target {
        PathTarget::Module(id) => {
            public.modules.get(id).map_or_else(String::new, |place| place.path.join("::"))
        }
        PathTarget::Item(id) => item(*id, mentions),
        PathTarget::Variant(id, name) => format!("{}::{name}", item(*id, mentions)),
        PathTarget::Foreign(path) => {
            mentions.note_foreign(path);
            path.join("::")
        }
    }
}
