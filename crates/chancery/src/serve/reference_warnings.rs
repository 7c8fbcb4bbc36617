//! The warnings about references that lead nowhere for somebody, about resources that nothing refers to,
//! listeners with one address, circles of clusters, and edits that are not applied, each with its place and what to do. Each is
//! told as new once.
//!
//! Not here: which references these are (`chancery_catalog`).

use std::collections::BTreeSet;
use std::sync::Arc;

use chancery_catalog::{
    Audience, Catalog, Entry, EntryContent, External, Key, Layer, MissingTarget, Origin,
    UnappliedEdit, WhyUnapplied,
};
use chancery_core::printable::Printable;
use chancery_core::{Api, Facts, ResourceName, TypeUrl};
use chancery_proto::Schema;
use chancery_proto::complete::{Clash, Cycle, CycleShape};
use chancery_sources::{LayerChecks, NeededAllowances, Warning};

use super::referring::{FieldLines, Referring};
use crate::config::{AllowedCodes, Config, ExternalNames};

/// The code of a warning about a reference that leads nowhere.
pub(crate) const DANGLING_REFERENCE: &str = "dangling-reference";
/// The code of a warning about a resource that nothing refers to.
pub(crate) const UNUSED_RESOURCE: &str = "unused-resource";
/// The code of a warning about a listener with an address of another one.
const DUPLICATE_ADDRESS: &str = "envoy/duplicate-address";
/// The code of a warning about a scope of routes with the key of another one.
const DUPLICATE_SCOPE: &str = "envoy/duplicate-scope";
/// The codes of clashes.
pub(crate) const DUPLICATES: [&str; 2] = [DUPLICATE_ADDRESS, DUPLICATE_SCOPE];
/// The code of a warning about clusters that aggregate each other.
const AGGREGATE_CYCLE: &str = "aggregate-cycle";
/// The code of a warning about a cluster that aggregates nothing but such clusters.
const AGGREGATE_NESTED: &str = "aggregate-nested";
/// The code of an error about a secret of another kind than its place takes.
pub(crate) const SECRET_KIND: &str = "secret-kind";
/// The code of an error about a filter of ECDS of another type than is asked for.
pub(crate) const FILTER_TYPE: &str = "filter-type";
/// The code of a warning about a patch that is not applied.
pub(crate) const UNAPPLIED: &str = "layer/unapplied";
/// The code of a warning about a removal of what is not there.
pub(crate) const NOTHING_TO_REMOVE: &str = "layer/nothing-to-remove";

/// The warnings about references, as of the last look.
pub(crate) struct ReferenceWarnings {
    catalog: Catalog,
    names: ExternalNames,
    external: External,
    allowed: AllowedCodes,
    /// The clients of each layer.
    checks: LayerChecks,
    present: Vec<Warning>,
    /// For each of them, the reference that it is about, if it is about one.
    referring: Vec<Option<Referring>>,
    /// The number of all, with those that are not described.
    count: usize,
    /// True if all were looked at.
    is_whole: bool,
    /// The lines of fields, if they are looked up.
    lines: Option<FieldLines>,
    told: BTreeSet<Identity>,
}

/// The resource that a warning is about, and the groups for which it is missing, or the file and the sentence of
/// an edit: what makes a warning another one. The lines, the number of references and the advice may change.
type Identity = (TypeUrl, ResourceName, BTreeSet<Option<Arc<str>>>);

impl ReferenceWarnings {
    /// No warnings yet, for a catalog whose clients know these names.
    pub(crate) fn new(catalog: Catalog, names: ExternalNames) -> Self {
        Self {
            catalog,
            external: names.for_catalog(),
            names,
            allowed: AllowedCodes::default(),
            checks: LayerChecks::default(),
            present: Vec::new(),
            referring: Vec::new(),
            count: 0,
            is_whole: true,
            lines: None,
            told: BTreeSet::new(),
        }
    }

    /// The same warnings at the lines of the fields that refer, as far as files are small.
    pub(super) fn at_fields(mut self, schema: &Schema) -> Self {
        self.lines = Some(FieldLines::new(schema));
        self
    }

    /// Takes other names that clients know.
    pub(super) fn set_external(&mut self, names: ExternalNames) {
        if names != self.names {
            self.external = names.for_catalog();
            self.names = names;
        }
    }

    /// Takes the clients of each layer.
    pub(crate) fn set_clients(&mut self, config: &Config) {
        self.checks = config.checks();
    }

    /// Takes the codes of which nobody wants to hear.
    pub(super) fn set_allowed(&mut self, allowed: &AllowedCodes) {
        self.allowed = allowed.clone();
    }

    /// Looks at the catalog. Returns the warnings that are new. The places are looked up each time, because
    /// an edit may move a resource and change nothing else.
    pub(crate) fn look(&mut self, comments: &mut NeededAllowances) -> Vec<Warning> {
        let references = self.catalog.references(&self.external);
        let missing = references.missing.iter().take(MOST);
        let unused = references.unused.iter().take(MOST - missing.len());
        let missing = missing.map(|it| {
            let identity = (it.type_url.clone(), it.name.clone(), groups(it));
            let (warning, referring) = self.of_missing(it);
            (identity, warning, referring)
        });
        let unused = unused.map(|(type_url, name)| {
            let identity = (type_url.clone(), name.clone(), BTreeSet::new());
            (identity, self.of_unused(type_url, name), None)
        });
        let clashes = references.clashes.iter().map(|(clash, audiences)| {
            let groups = audiences.iter().map(|audience| audience.group.clone()).collect();
            let identity = (clash.type_url.clone(), clash.name.clone(), groups);
            (identity, self.of_clash(clash, audiences), None)
        });
        let cycles = references.cycles.iter().filter_map(|(cycle, audiences)| {
            let concerned = |it: &&Audience| concerns(&self.checks, cycle, it);
            let audiences: Vec<_> = audiences.iter().filter(concerned).cloned().collect();
            let groups = audiences.iter().map(|audience| audience.group.clone()).collect();
            let identity = (cycle.type_url.clone(), cycle.name.clone(), groups);
            let warning = self.of_cycle(cycle, &audiences);
            (!audiences.is_empty()).then_some((identity, warning, None))
        });
        let cycles: Vec<_> = cycles.collect();
        let cycle_count = cycles.len();
        // Of nodes that nobody has seen, only some edits are known to have no effect.
        let mut of_nodes = self.catalog.edits_of_nothing();
        let is_known = |it: &UnappliedEdit| {
            references.unapplied.iter().any(|known| known.edit.origin == it.edit.origin)
        };
        of_nodes.retain(|it| !is_known(it));
        let unapplied = references.unapplied.iter().chain(of_nodes.iter().take(MOST));
        let unapplied = unapplied.map(|unapplied| {
            let (key, edit) = (&unapplied.edit.key, &unapplied.edit);
            let file = match &edit.origin {
                Origin::File { path, .. } => path.display().to_string(),
                elsewhere => elsewhere.to_string(),
            };
            let what = [file, edit.to_string()].map(|text| Some(text.into()));
            let identity = (key.type_url.clone(), key.name.clone(), what.into());
            (identity, of_unapplied(unapplied), None)
        });
        let all = unapplied.chain(clashes).chain(cycles).chain(missing).chain(unused);
        let mut all: Vec<_> = all.collect();
        let referring = all.iter().map(|(_, _, referring)| referring.as_ref());
        let lines = self.lines.as_mut().map(|lines| lines.look(referring)).unwrap_or_default();
        let mut passes = Vec::new();
        for (at, (_, warning, _)) in all.iter_mut().enumerate() {
            let mut is_let_pass =
                is_let_pass(comments, warning) || self.allowed.allow(warning.code);
            if let Some(place) = lines.get(at).copied().flatten() {
                (warning.line, warning.column) = (Some(place.line), Some(place.column));
                is_let_pass |= self::is_let_pass(comments, warning);
            }
            passes.push(is_let_pass);
        }
        let (passed, now): (Vec<_>, Vec<_>) = all.into_iter().zip(passes).partition(|(_, it)| *it);
        let now: Vec<_> = now.into_iter().map(|(warning, _)| warning).collect();
        let new = now.iter().filter(|(identity, ..)| !self.told.contains(identity));
        let new = new.map(|(_, warning, _)| warning.clone()).collect();
        let (mut told, mut present, mut referring) = (BTreeSet::new(), Vec::new(), Vec::new());
        for (identity, warning, of) in now {
            told.insert(identity);
            present.push(warning);
            referring.push(of);
        }
        self.count = references.missing.len() + references.unused.len() + references.more_unused;
        self.count += references.clashes.len() + cycle_count;
        self.count += references.unapplied.len() + of_nodes.len();
        self.is_whole = self.count <= MOST;
        self.count -= passed.len();
        (self.told, self.present, self.referring) = (told, present, referring);
        new
    }

    /// Returns true if all of them were looked at.
    pub(super) fn are_all(&self) -> bool {
        self.is_whole
    }

    /// The first of the present warnings, and the number of all.
    pub(crate) fn present(&self) -> (&[Warning], usize) {
        (&self.present, self.count)
    }

    /// The present warnings, each with the reference that it is about, if it is about one.
    pub(crate) fn described(&self) -> impl Iterator<Item = (&Warning, Option<&Referring>)> {
        self.present.iter().zip(self.referring.iter().map(Option::as_ref))
    }

    fn of_missing(&self, target: &MissingTarget) -> (Warning, Option<Referring>) {
        let who = who(&target.audiences);
        let groups = groups(target);
        let group = groups.first().filter(|_| groups.len() == 1).and_then(Option::as_deref);
        let remedy = match target.reference.is_filled() {
            true => "if it is to have none, write one without endpoints".to_owned(),
            false => {
                let advice = self.names.advice(target.name.as_str(), group);
                format!("if the clients have it from elsewhere, {advice}")
            }
        };
        let remedy = match target.question() {
            none if none.is_empty() => remedy,
            question => format!("{question} {}", capitalized(&remedy)),
        };
        let from = &target.reference;
        let refers = |facts: &Facts| facts.links.contains(&from.target);
        let entry = self.entry_for(target.audiences.first(), &from.type_url, &from.name, refers);
        let origin = entry.as_ref().map(|entry| entry.origin.clone());
        let resource = (from.type_url.clone(), from.name.clone());
        let message = format!("{who}{target}; {remedy}");
        let referring = entry.map(|entry| Referring { entry, reference: from.clone() });
        (warning(DANGLING_REFERENCE, resource, origin, message), referring)
    }

    fn of_clash(&self, clash: &Clash, audiences: &[Audience]) -> Warning {
        let (code, what) = code_of_clash(clash);
        let has_address = |facts: &Facts| !facts.addresses.is_empty();
        let origin = |name| self.origin_for(audiences.first(), &clash.type_url, name, has_address);
        let other =
            origin(&clash.other).map(|other| format!(" ({})", Printable(&other.to_string())));
        let message = format!(
            "{}{clash}{}: Envoy refuses the one that comes second; give it another {what}",
            who(audiences),
            other.unwrap_or_default()
        );
        let resource = (clash.type_url.clone(), clash.name.clone());
        warning(code, resource, origin(&clash.name), message)
    }

    fn of_cycle(&self, cycle: &Cycle, audiences: &[Audience]) -> Warning {
        let remedy = match cycle.shape {
            CycleShape::Circle => "take a member out",
            CycleShape::Nested => "let it aggregate the members of these",
        };
        let message = format!("{}{cycle}: {}; {remedy}", who(audiences), outcome_of(cycle));
        let is_aggregate = |facts: &Facts| facts.is_aggregate;
        let origin = self.origin_for(audiences.first(), &cycle.type_url, &cycle.name, is_aggregate);
        let resource = (cycle.type_url.clone(), cycle.name.clone());
        warning(code_of_cycle(cycle), resource, origin, message)
    }

    fn of_unused(&self, type_url: &TypeUrl, name: &ResourceName) -> Warning {
        let advice = self.names.advice(name.as_str(), None);
        let groups = self.catalog.groups();
        let groups = groups.iter().map(|group| Layer::Group(Arc::clone(group)));
        let nodes = self.catalog.nodes();
        let nodes = nodes.iter().map(|id| Layer::Node(Arc::clone(id)));
        let layers = std::iter::once(Layer::Base).chain(groups).chain(nodes);
        let origin = self.entry(type_url, name, layers, |_| false).map(|entry| entry.origin);
        let message = format!(
            "nothing refers to {} `{name}`; remove it, or, if the clients refer to it themselves, \
             {advice}",
            type_url.short()
        );
        warning(UNUSED_RESOURCE, (type_url.clone(), name.clone()), origin, message)
    }

    /// The origin of what an audience sees of a resource.
    fn origin_for(
        &self,
        audience: Option<&Audience>,
        type_url: &TypeUrl,
        name: &ResourceName,
        patches: impl Fn(&Facts) -> bool,
    ) -> Option<Origin> {
        Some(self.entry_for(audience, type_url, name, patches)?.origin)
    }

    /// The entry of what an audience sees of a resource: of its strongest layer that has it whole, or with a
    /// patch in which such facts are.
    fn entry_for(
        &self,
        audience: Option<&Audience>,
        type_url: &TypeUrl,
        name: &ResourceName,
        patches: impl Fn(&Facts) -> bool,
    ) -> Option<Entry> {
        let layers = audience.map(|it| self.catalog.lineage().layers(it)).unwrap_or_default();
        self.entry(type_url, name, layers.into_iter().rev(), patches)
    }

    /// The entry of a resource in the first of these layers that has it.
    fn entry(
        &self,
        type_url: &TypeUrl,
        name: &ResourceName,
        mut layers: impl Iterator<Item = Layer>,
        patches: impl Fn(&Facts) -> bool,
    ) -> Option<Entry> {
        let key = Key { type_url: type_url.clone(), name: name.clone() };
        let has_it = |entry: &Entry| match &entry.content {
            EntryContent::Whole(_) => true,
            EntryContent::Patch(patch) => patches(&patch.facts()),
            EntryContent::Removal(_) => false,
        };
        layers.find_map(|layer| {
            let content = self.catalog.content(&layer)?;
            content.get(&key).filter(|entry| has_it(entry)).cloned()
        })
    }
}

/// Returns true if a comment at the place of a warning lets it pass.
pub(super) fn is_let_pass(comments: &mut NeededAllowances, warning: &Warning) -> bool {
    let place = warning.file.as_deref().zip(warning.line);
    place.is_some_and(|(file, line)| comments.let_pass(file, line, warning.code))
}

/// Returns true if those who see clusters that aggregate each other have a fault by that: gRPC takes nested ones.
pub(crate) fn concerns(checks: &LayerChecks, cycle: &Cycle, audience: &Audience) -> bool {
    let layer = audience.group.clone().map_or(Layer::Base, Layer::Group);
    cycle.shape == CycleShape::Circle || checks.of(&layer).clients.has_envoy()
}

/// The code of a warning about clusters that aggregate each other.
pub(crate) fn code_of_cycle(cycle: &Cycle) -> &'static str {
    match cycle.shape {
        CycleShape::Circle => AGGREGATE_CYCLE,
        CycleShape::Nested => AGGREGATE_NESTED,
    }
}

/// The words for what clients do with clusters that aggregate each other.
pub(crate) fn outcome_of(cycle: &Cycle) -> &'static str {
    match cycle.shape {
        CycleShape::Circle => {
            "Envoy finds no endpoint behind such a member, and gRPC Java and Node fail all calls"
        }
        CycleShape::Nested => "Envoy finds no endpoint behind such members, and answers 503",
    }
}

/// The code of a warning about two resources with one thing, and the word for that.
pub(crate) fn code_of_clash(clash: &Clash) -> (&'static str, &'static str) {
    match clash.type_url.api() {
        Api::Srds => (DUPLICATE_SCOPE, "key"),
        _ => (DUPLICATE_ADDRESS, "address"),
    }
}

/// The warning about an edit that is not applied.
fn of_unapplied(unapplied: &UnappliedEdit) -> Warning {
    let UnappliedEdit { edit, audiences, near } = unapplied;
    let remedy = match (&edit.why, near) {
        (WhyUnapplied::NotPatched(_) | WhyUnapplied::NotFilled(_), _) => {
            "; it stays as it is below"
        }
        (_, Some(_)) => "",
        (WhyUnapplied::NothingToPatch, None) => "; write it whole, or take the patch out",
        (_, None) => "; that can be taken out",
    };
    let code = if edit.is_harmless() { NOTHING_TO_REMOVE } else { UNAPPLIED };
    let resource = (edit.key.type_url.clone(), edit.key.name.clone());
    let message = format!("{}{unapplied}{remedy}", who(audiences));
    warning(code, resource, Some(edit.origin.clone()), message)
}

pub(crate) fn warning(
    code: &'static str,
    resource: (TypeUrl, ResourceName),
    origin: Option<Origin>,
    message: String,
) -> Warning {
    let place = match origin {
        Some(Origin::File { path, position }) => Some((path.to_path_buf(), position)),
        _ => None,
    };
    Warning {
        file: place.as_ref().map(|(path, _)| path.clone()),
        line: place.as_ref().map(|(_, position)| position.line),
        column: place.as_ref().map(|(_, position)| position.column),
        message,
        code,
        resource: Some(resource),
    }
}

/// The groups of those who lack a target. `None` stands for the nodes of no group.
fn groups(target: &MissingTarget) -> BTreeSet<Option<Arc<str>>> {
    target.audiences.iter().map(|audience| audience.group.clone()).collect()
}

/// The beginning of a warning: those it is about.
fn who(audiences: &[Audience]) -> String {
    match audiences {
        [one] if *one == Audience::default() => String::new(),
        few if few.len() <= FEW => {
            let names: Vec<_> = few.iter().map(ToString::to_string).collect();
            format!("for {}: ", names.join(", "))
        }
        [first, others @ ..] => format!("for {first} and {} other audiences: ", others.len()),
        [] => String::new(),
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// The number of audiences that a warning names.
const FEW: usize = 3;

/// The number of warnings that are described.
const MOST: usize = 1000;
