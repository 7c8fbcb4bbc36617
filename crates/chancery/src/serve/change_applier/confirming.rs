//! Confirmations: what was held back goes live, if it is what somebody read.
//!
//! Not here: the judgement, and what the tokens are of (`gate`).

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::Duration;

use chancery_catalog::Layer;
use chancery_core::printable::Printable;
use chancery_sources::{Passer, Passing};
use tracing::{info, warn};

use super::super::held;
use super::ChangeApplier;
use crate::gate::{Held, NotConfirmed, Selection, Token};
use crate::state::ConfirmFile;

impl ChangeApplier {
    /// Lets what is held back from these audiences pass, if it has this token. Returns what passed.
    ///
    /// # Errors
    /// If nothing is held back there, or another content.
    pub(crate) fn confirm(&self, whom: &Selection, token: &str) -> Result<Vec<Held>, NotConfirmed> {
        // Marks are those of one confirmation.
        let _one_at_a_time = self.confirming.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.lock();
        let held_before: BTreeSet<Token> = self.gate.held().iter().map(|it| it.token).collect();
        let confirmed = self.gate.confirm(whom, token)?;
        // Rules come first: somebody has read of them beside the states that a load is about to replace.
        self.apply_rules(&mut state);
        self.judge_again("chancery confirm");
        // Those that wait on are told beside the states of now.
        self.apply_rules(&mut state);
        let behind = self.gate.behind_of(&confirmed);
        self.record(&mut state);
        drop(state);
        let is_new = |held: &Held| !behind.is_empty() && !held_before.contains(&held.token);
        let passing = self.pass(&behind);
        self.gate.end_confirmation();
        // Edits of other layers pass with those behind a fault, and the gate judges them then.
        let still_held = self.gate.still_held(&confirmed, is_new);
        // Whoever is told that it is live finds it so after a restart.
        self.settle(CONFIRM_WAIT);
        if still_held.is_empty() {
            return Ok(confirmed);
        }
        let token = Token::of_all(&still_held);
        let is_live = |one: &&Held| !still_held.iter().any(|held| one.leads_to(held));
        let live: Vec<_> = confirmed.iter().filter(is_live).map(|one| &one.audience).collect();
        Err(match live.is_empty() {
            true if passing == Passing::TakenBack => NotConfirmed::Busy,
            true if passing == Passing::Begun => NotConfirmed::Slow,
            true => match self.faulty_below(&still_held, &confirmed) {
                Some(layers) => NotConfirmed::Faulty { layers },
                None => NotConfirmed::Changed(token),
            },
            false => NotConfirmed::Partly { live: held::names(&live), token },
        })
    }

    /// The layers with faults that hold these back, in words, if they are what was confirmed.
    fn faulty_below(&self, still_held: &[Held], confirmed: &[Held]) -> Option<String> {
        let is_confirmed = |held: &Held| confirmed.iter().any(|it| it.token == held.token);
        if !still_held.iter().all(is_confirmed) {
            return None;
        }
        let catalog = self.audiences.catalog();
        let (lineage, held_back) = (catalog.lineage(), catalog.held_back());
        let held_back: BTreeSet<Layer> = held_back.into_iter().collect();
        let layers = still_held.iter().flat_map(|held| lineage.layers(&held.audience));
        let faulty: BTreeSet<_> = layers.filter(|layer| held_back.contains(layer)).collect();
        let named = faulty.iter().take(MOST_NAMED).map(|it| Printable(it).to_string());
        let named = named.collect::<Vec<_>>().join(", ");
        match faulty.len().saturating_sub(MOST_NAMED) {
            _ if faulty.is_empty() => None,
            0 => Some(named),
            more => Some(format!("{named} and {more} more")),
        }
    }

    /// Lets pass what waits behind faults in these layers. The report of that comes before it returns.
    fn pass(&self, behind: &[(Layer, u128)]) -> Passing {
        let passer = self.passer.get().filter(|_| !behind.is_empty());
        passer.map_or(Passing::Done, |passer| passer.pass(behind.to_vec(), PASS_WAIT))
    }

    /// States what lets edits pass that wait behind faults.
    pub(crate) fn pass_by(&self, passer: Passer) {
        self.passer.set(passer).ok();
    }

    /// Takes the file by which somebody confirms what is held back, if there is one.
    pub(crate) fn check_confirm_file(&self) {
        let keeper = self.lock().keeping.keeper();
        let file = keeper.map_or(ConfirmFile::None, |keeper| keeper.confirm_file());
        let why = match file {
            ConfirmFile::None => None,
            ConfirmFile::Unusable(why) => Some(why),
            ConfirmFile::Token(token) => match self.gate.with_token(&token) {
                None => Some("has no token of what is held back, and is removed".to_owned()),
                Some(whom) => match self.confirm(&whom, &token) {
                    Ok(passed) => {
                        info!(
                            audiences = passed.len(),
                            "the file `confirm` was taken, and is removed"
                        );
                        None
                    }
                    Err(error @ NotConfirmed::Partly { .. }) => {
                        Some(format!("was taken, and is removed: {error}"))
                    }
                    Err(error) => Some(format!("confirms nothing, and is removed: {error}")),
                },
            },
        };
        let mut state = self.lock();
        if let Some(why) =
            why.as_ref().filter(|why| state.keeping.told_of_file.as_ref() != Some(*why))
        {
            warn!(
                "the file `confirm` in the state directory {why}; `chancery confirm --list` shows the tokens"
            );
        }
        state.keeping.told_of_file = why;
    }
}

/// The number of layers with faults that are named.
const MOST_NAMED: usize = 5;
/// The time that a confirmation waits until it is kept.
const CONFIRM_WAIT: Duration = Duration::from_secs(2);
/// The time that it waits for the thread that follows the directory, which may read files meanwhile.
const PASS_WAIT: Duration = Duration::from_secs(10);
