//! Confirmations: whoever sends the token of what is held back lets it pass.
//!
//! Not here: who may confirm (`admin`), and how it goes live (`serve::change_applier`).

use std::collections::BTreeSet;

use chancery_catalog::Audience;

use super::{Held, LoadGate, Reason, Token};

/// The audiences that somebody confirms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// All.
    All,
    /// Those of these groups, with the nodes in them.
    Groups(Vec<String>),
}

/// The error for a confirmation that lets nothing pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotConfirmed {
    /// Nothing is held back from these audiences.
    #[error("nothing is held back there")]
    Nothing,
    /// The content is another one than the token is of.
    #[error("what is held back has changed: its token is {0}")]
    Changed(Token),
    /// It is what was read, and layers below it are held back by faults.
    #[error(
        "faults in {layers} hold it back too: repair them, or confirm them as well (`chancery confirm --list`)"
    )]
    Faulty {
        /// The layers, in words.
        layers: String,
    },
    /// The directory is being read for too long.
    #[error("the directory is being read, which takes long, so nothing has passed; try again")]
    Busy,
    /// It has begun to pass, and that takes too long.
    #[error("it was begun and takes long, so it may pass yet; look with `chancery confirm --list`")]
    Slow,
    /// A part is live, and the content of the rest changed meanwhile.
    #[error("{live}: that is live; what is still held back has changed: its token is {token}")]
    Partly {
        /// The audiences for which it is live, in words.
        live: String,
        /// The token of the rest.
        token: Token,
    },
}

impl LoadGate {
    /// The changes that are held back, by audience.
    pub(crate) fn held(&self) -> Vec<Held> {
        self.held_from(&Selection::All)
    }

    /// The changes that are held back from these, by audience.
    pub(crate) fn held_from(&self, whom: &Selection) -> Vec<Held> {
        let state = self.lock();
        let held = state.held.values().chain(state.held_before());
        let held = held.chain(&state.moves).chain(state.behind());
        let mut held: Vec<_> = held.filter(|held| whom.has(&held.audience)).cloned().collect();
        held.sort_by(|one, other| one.audience.cmp(&other.audience));
        held
    }

    /// The audiences from which this token is what is held back: all, those of a group, or none.
    pub(crate) fn with_token(&self, token: &str) -> Option<Selection> {
        let held = self.held();
        let groups: BTreeSet<_> =
            held.iter().filter_map(|held| held.audience.group.as_deref()).collect();
        let of_groups = groups.into_iter().map(|group| Selection::Groups(vec![group.to_owned()]));
        let mut all = std::iter::once(Selection::All).chain(of_groups);
        all.find(|whom| {
            let selected = held.iter().filter(|held| whom.has(&held.audience));
            !held.is_empty() && Token::of_all(selected).to_string() == token
        })
    }

    /// Notes that these may pass, if what is held back from them has this token. Returns them. They
    /// pass when the catalog has them judged again, and until [`end_confirmation`](Self::end_confirmation).
    ///
    /// # Errors
    /// If there are none, or what is held back is another content.
    pub(crate) fn confirm(&self, whom: &Selection, token: &str) -> Result<Vec<Held>, NotConfirmed> {
        let selected = self.held_from(whom);
        if selected.is_empty() {
            return Err(NotConfirmed::Nothing);
        }
        let present = Token::of_all(&selected);
        if present.to_string() != token {
            return Err(NotConfirmed::Changed(present));
        }
        let mut state = self.lock();
        let marks = selected.iter().map(|held| (held.audience.clone(), held.token));
        state.confirmed.extend(marks);
        Ok(selected)
    }

    /// Forgets what was confirmed.
    pub(crate) fn end_confirmation(&self) {
        self.lock().confirmed.clear();
    }

    /// The changes that are held back in spite of these confirmations, because their content changed meanwhile, or
    /// is a loss beside files that stay as they were, and those that are new.
    pub(crate) fn still_held(
        &self,
        confirmed: &[Held],
        is_new: impl Fn(&Held) -> bool,
    ) -> Vec<Held> {
        let mut held = self.held();
        held.retain(|held| confirmed.iter().any(|one| one.leads_to(held)) || is_new(held));
        held
    }
}

impl Selection {
    pub(super) fn has(&self, audience: &Audience) -> bool {
        match self {
            Self::All => true,
            Self::Groups(groups) => {
                audience.group.as_deref().is_some_and(|group| groups.iter().any(|it| it == group))
            }
        }
    }
}

impl Held {
    /// Returns true if both are of the same audience, and of loads, of rules or of faults alike.
    fn takes_place_of(&self, other: &Self) -> bool {
        self.audience == other.audience && self.matter() == other.matter()
    }

    /// Returns true if the other one is held back although this one was confirmed.
    pub(crate) fn leads_to(&self, held: &Self) -> bool {
        let is_its_load = held.matter() == Matter::Load && self.audience == held.audience;
        held.takes_place_of(self) || (self.is_of_faults() && is_its_load)
    }

    /// Returns true if it is of edits that wait behind faults.
    pub(crate) fn is_of_faults(&self) -> bool {
        self.matter() == Matter::Faults
    }

    fn matter(&self) -> Matter {
        match self.reasons.first() {
            Some(Reason::Moved { .. }) => Matter::Rules,
            Some(Reason::Faults(_)) => Matter::Faults,
            _ => Matter::Load,
        }
    }
}

/// The things of which an audience may have one each that is held back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Matter {
    Load,
    Rules,
    Faults,
}
