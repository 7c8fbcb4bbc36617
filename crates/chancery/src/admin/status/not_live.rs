//! Edits of the directory that are not live: layers with faults, and what the gate holds back, in words.
//!
//! A load is what is served. Somebody who has edited a file asks about the file, so whoever asks about the
//! present is told of edits that no load has. Not here: the faults (`serve::faulty`), and the judgement (`gate`).

use chancery_catalog::{Audience, Layer};

use super::rows;
use super::views::Groups;
use crate::admin::load_status::HeldLoads;
use crate::gate::Held;

/// The edits that are not live.
pub(super) struct NotLive<'a> {
    held: &'a HeldLoads,
    groups: &'a Groups,
}

impl<'a> NotLive<'a> {
    pub(super) fn new(held: &'a HeldLoads, groups: &'a Groups) -> Self {
        Self { held, groups }
    }

    /// Returns the reason why a layer that concerns somebody keeps its last good state.
    pub(super) fn fault(&self, concerns: impl Fn(Option<&Layer>) -> bool) -> Option<String> {
        let faulty = self.held.faulty().into_iter();
        faulty.filter(|edits| concerns(edits.layer.as_ref())).map(|edits| edits.why).next()
    }

    /// All of them in a line each, and at most so many lines.
    pub(super) fn all(&self) -> Vec<String> {
        self.lines(|_| true, |_| true)
    }

    /// Those that concern a node in this group.
    pub(super) fn of_node(&self, id: &str, group: Option<&str>) -> Vec<String> {
        let is_seen = |layer: Option<&Layer>| self.is_seen(layer, Some(id), group);
        let is_of = |held: &Held| {
            let Audience { group: of, node, .. } = &held.audience;
            of.as_deref() == group && node.as_deref().is_none_or(|node| node == id)
        };
        self.lines(is_seen, is_of)
    }

    /// Returns true if a node in this group sees the layer. `None` is all of them.
    pub(super) fn is_seen(
        &self,
        layer: Option<&Layer>,
        id: Option<&str>,
        group: Option<&str>,
    ) -> bool {
        match layer {
            None | Some(Layer::Base) => true,
            Some(Layer::Group(name)) => group.is_some_and(|it| self.groups.is_seen_in(name, it)),
            Some(Layer::Node(name)) => id == Some(&**name),
        }
    }

    fn lines(
        &self,
        is_seen: impl Fn(Option<&Layer>) -> bool,
        is_of: impl Fn(&Held) -> bool,
    ) -> Vec<String> {
        let faulty = self.held.faulty().into_iter();
        let faulty = faulty.filter(|edits| is_seen(edits.layer.as_ref())).map(|edits| edits.why);
        let held = self.held.list().into_iter().map(|(held, _)| held).filter(|held| is_of(held));
        let held = held.map(|held| self::held(&held));
        faulty.chain(held).take(MOST_LINES).map(|line| rows::shown(&line)).collect()
    }
}

/// Says what the gate holds back.
pub(super) fn held(held: &Held) -> String {
    let audience = rows::shown(held.audience.to_string());
    format!("held back from {audience} until it is confirmed: {}", held.why())
}

/// The number of lines.
const MOST_LINES: usize = 20;
