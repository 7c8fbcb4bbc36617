//! Edits that wait behind faults in other files of their layer, as changes that are held back.
//!
//! A fault holds its layer whole, so that clients get no half of an edit. Whoever needs the rest, as in an emergency,
//! confirms that the files with faults stay as they were. Not here: what the layer is then (`chancery_sources`), and
//! the judgement of that, which is made when it passes.

use std::path::Path;
use std::time::SystemTime;

use chancery_catalog::{Audience, Layer, UnseenEdit};
use chancery_core::printable::{Printable, cut};
use chancery_sources::BehindFaults;

use super::held::{Held, Token};
use super::loss::{Counts, Listed, Reason};
use super::{LoadGate, Outcome, State, place};

/// The edits that wait in a layer, as they are held back.
pub(super) struct WaitingLayer {
    held: Held,
    layer: Layer,
    digest: u128,
}

impl LoadGate {
    /// Takes what waits behind faults now.
    pub(crate) fn set_behind(&self, layers: &[BehindFaults]) {
        let now = (self.0.clock)();
        let mut state = self.lock();
        let mut before = std::mem::take(&mut state.behind);
        for one in layers.iter().filter(|one| !one.is_passed && one.count > 0) {
            let audience = audience_of(&one.layer);
            let token = Token::of_faults(one);
            let known = before.remove(&audience);
            let same = known.as_ref().filter(|known| known.held.token == token);
            let (since, at) = same
                .map_or_else(|| (now, SystemTime::now()), |same| (same.held.since, same.held.at));
            let reasons = vec![Reason::Faults(files(one))];
            let (edits, largest) = (edits(one), Counts::default());
            let held =
                Held { audience: audience.clone(), reasons, edits, token, largest, since, at };
            if same.is_none() {
                state.news.add(Outcome::HeldBack, held.clone());
            }
            let (layer, digest) = (one.layer.clone(), one.digest);
            state.behind.insert(audience, WaitingLayer { held, layer, digest });
        }
        for (audience, gone) in before {
            let passed =
                layers.iter().any(|one| one.is_passed && audience_of(&one.layer) == audience);
            let outcome = if passed { Outcome::Confirmed } else { Outcome::Mended };
            state.news.add(outcome, gone.held);
        }
    }

    /// The layers in which these wait behind faults, each with the digest of what waits.
    pub(crate) fn behind_of(&self, confirmed: &[Held]) -> Vec<(Layer, u128)> {
        let state = self.lock();
        let is_confirmed =
            |one: &&WaitingLayer| confirmed.iter().any(|it| it.token == one.held.token);
        let layers = state.behind.values().filter(is_confirmed);
        layers.map(|one| (one.layer.clone(), one.digest)).collect()
    }
}

impl State {
    pub(super) fn behind(&self) -> impl Iterator<Item = &Held> {
        self.behind.values().map(|one| &one.held)
    }
}

/// The audience whose strongest layer this is.
pub(crate) fn audience_of(layer: &Layer) -> Audience {
    match layer {
        Layer::Base => Audience::default(),
        Layer::Group(name) => Audience::of(Some(name.clone()), None),
        Layer::Node(id) => Audience::of(None, Some(id.clone())),
    }
}

fn files(one: &BehindFaults) -> Listed {
    let mut files = Listed::default();
    one.files.iter().for_each(|file| files.add_words(|| format!("`{}`", shown(file))));
    files
}

fn edits(one: &BehindFaults) -> Listed {
    Listed { count: one.count, first: one.first.iter().map(words).collect() }
}

/// The words for an edit: `+cds `shop` (a.yaml:1)`.
fn words(edit: &UnseenEdit) -> String {
    let UnseenEdit { key, before, after } = edit;
    let (sign, place) = match (before, after) {
        (None, Some(after)) => ('+', format!(" ({})", place::text(after))),
        (Some(_), Some(after)) => ('~', format!(" ({})", place::text(after))),
        (Some(before), None) => ('-', format!(" (it was at {})", place::text(before))),
        (None, None) => ('-', String::new()),
    };
    format!("{sign}{} `{}`{place}", key.type_url.short(), key.name)
}

fn shown(file: &Path) -> String {
    let file = file.display().to_string();
    Printable(cut(&file, LONGEST_PATH)).to_string()
}

/// The bytes of a path that are shown.
const LONGEST_PATH: usize = 512;
