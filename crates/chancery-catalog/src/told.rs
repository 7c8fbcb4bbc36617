//! The flaws of what nodes with values see, told without these values: a name that a node chose stands as the
//! template by which its files have it.
//!
//! Values of metadata are never printed (S-138), and one may be a part of the name that a reference has. Not here:
//! who is told (`references`, and the gate).

use chancery_core::ResourceName;
use chancery_proto::complete::{Clash, Dangling};
use chancery_proto::values::Stated;

use crate::entry::Key;
use crate::filled::template_of;
use crate::flaws::Flaws;
use crate::view::View;

/// The flaws of a view that is filled with what nodes state. `is_known` says of the real name of a target that
/// clients have it from elsewhere.
pub(crate) fn without_values(
    view: &View,
    stated: &Stated,
    is_known: impl Fn(&ResourceName) -> bool,
) -> Flaws {
    let shown = |one: &Dangling| {
        (!is_known(&one.target.name)).then(|| told_of(view, stated, one)).flatten()
    };
    let mut dangling: Vec<_> = view.flaws.dangling.iter().filter_map(shown).collect();
    dangling.dedup();
    let below = view.parent().map(|parent| &parent.flaws);
    let of_clash = |clash: &Clash| match below.is_some_and(|it| it.clashes.contains(clash)) {
        true => clash.clone(),
        false => Clash { address: FILLED.into(), ..clash.clone() },
    };
    let clashes = view.flaws.clashes.iter().map(of_clash).collect();
    Flaws { dangling: dangling.into(), clashes, ..view.flaws.clone() }
}

/// The reference as its files have it; `None` if that is no name.
fn told_of(view: &View, stated: &Stated, one: &Dangling) -> Option<Dangling> {
    let mut told = one.clone();
    if let Some(template) = name_of_target(view, stated, one) {
        told.target.name = template.parse().ok()?;
    }
    Some(told)
}

/// The words for the target of a reference of a view that is filled with what nodes state; `None` if the name is
/// that of the files.
pub(crate) fn name_of_target(view: &View, stated: &Stated, one: &Dangling) -> Option<String> {
    let key = Key { type_url: one.type_url.clone(), name: one.name.clone() };
    let is_filled = view.own().as_ref().is_some_and(|own| own.get(&key).is_some());
    let below = view.parent().filter(|_| is_filled)?;
    if below.flaws.dangling.contains(one) {
        return None;
    }
    let template = template_of(&below.layers(), stated, &key, one.target.name.as_str());
    Some(template.unwrap_or_else(|| FILLED.to_owned()))
}

/// Words in place of something that no single value makes.
const FILLED: &str = "[filled for a node]";
