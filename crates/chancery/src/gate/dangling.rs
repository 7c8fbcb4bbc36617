//! References that a change makes lead nowhere, as a reason to hold it back.
//!
//! A reference that led nowhere before holds nothing back, nor does one to a name that the clients know from
//! elsewhere. Endpoints that a new cluster lacks may come later, and are filled in as none meanwhile; they
//! count if another set has nearly their name, if the change takes them away, or if requests went to endpoints
//! before: those of the cluster, or those of the one that a route named at the same place. Not here: which references
//! these are (`chancery_catalog`).

use chancery_catalog::{
    Audience, External, LostReference, Origin, Seen, SeenReferences, lost_references,
};
use chancery_core::printable::Printable;
use chancery_proto::complete::Dangling;
use chancery_proto::schema::Schema;

use super::allowing::Allowing;
use super::loss::{Listed, Reason};
use super::place::{FieldSteps, Places, of_field, text};
use super::switched::{ClusterPlaces, Switched};
use crate::serve::DANGLING_REFERENCE;

/// The reason, if a change makes references of this audience lead nowhere.
pub(super) fn reason(
    schema: &Schema,
    (external, allowing): (&External, &Allowing),
    (fields, clusters): (&FieldSteps, &ClusterPlaces),
    audience: &Audience,
    [before, after]: [&Seen; 2],
) -> Option<Reason> {
    if allowing.codes.allow(DANGLING_REFERENCE) {
        return None;
    }
    let (places, after_seen) = (Places::new(before, after), after);
    let is_allowed =
        |from: &Dangling| allowing.allows_in(DANGLING_REFERENCE, after, &from.type_url, &from.name);
    let [before, states] = [before, after]
        .map(|seen| SeenReferences { snapshot: seen.snapshot(), dangling: seen.dangling() });
    let switched = Switched::new((schema, clusters), [before.snapshot, states.snapshot]);
    let judge = (is_allowed, |one: &Dangling| matters(one, &switched));
    let (lost, count) =
        lost_references(schema, audience, external, Some(before), states, judge, MOST);
    let not_looked_at = count - lost.len();
    let at = |one: &LostReference| place_of(schema, fields, after_seen, one);
    let is_told = |one: &&LostReference| {
        let from = &one.reference;
        let may_pass = || {
            allowing.may_allow_inside(DANGLING_REFERENCE, after_seen, &from.type_url, &from.name)
        };
        (one.target_goes || one.near.is_some() || matters(from, &switched))
            && !(may_pass() && allowing.allows(DANGLING_REFERENCE, at(one).as_ref()))
    };
    let lost: Vec<_> = lost.iter().filter(is_told).collect();
    let sentences = lost.iter().take(MOST_NAMED).map(|one| {
        let name = after_seen.name_of_target(&one.reference);
        let at = at(one).map(|origin| format!("{}: ", text(&origin))).unwrap_or_default();
        format!("{at}{}", sentence(one, name.as_deref(), places))
    });
    let (first, count) = (sentences.collect(), lost.len() + not_looked_at);
    (count > 0).then_some(Reason::Dangling(Listed { count, first }))
}

/// The place of the field with a reference, or else of its resource.
fn place_of(
    schema: &Schema,
    fields: &FieldSteps,
    after: &Seen,
    lost: &LostReference,
) -> Option<Origin> {
    let from = &lost.reference;
    let field = after.field_of(schema, from);
    let (origin, field) = match field {
        Some((origin, field)) => (origin, Some(field)),
        None => (after.origin(&from.type_url, &from.name)?, lost.fields.first().cloned()),
    };
    Some(field.map_or_else(|| origin.clone(), |field| of_field(fields, origin, &field)))
}

/// Returns true if a reference that leads nowhere now is a reason, though nothing has nearly its name.
fn matters(lost: &Dangling, switched: &Switched<'_>) -> bool {
    !lost.is_filled() || switched.had_endpoints(&lost.type_url, &lost.name)
}

/// The sentence about a reference, whose target has this name, or its own.
fn sentence(lost: &LostReference, name: Option<&str>, places: Places<'_>) -> String {
    let (from, target) = (&lost.reference, &lost.reference.target);
    let fate = match lost.target_goes {
        true if name.is_some() => "this takes away from some nodes".to_owned(),
        true => format!("this takes away{}", places.in_brackets(&target.type_url, &target.name)),
        false if name.is_some() => "does not exist for some nodes".to_owned(),
        false => "does not exist".to_owned(),
    };
    let field = lost.fields.first().map(|field| format!(" ({field})")).unwrap_or_default();
    let question = match lost.question() {
        // It is near to a name that nobody is told.
        _ if name.is_some() => String::new(),
        none if none.is_empty() => none,
        question => format!("; {question}"),
    };
    format!(
        "{} `{}`{field} refers to {} `{}`, which {fate}{question}",
        from.type_url.short(),
        from.name,
        target.type_url.short(),
        Printable(name.unwrap_or(target.name.as_str()))
    )
}

/// The number of references that are looked at.
const MOST: usize = 100;

/// The number of references that are named.
const MOST_NAMED: usize = 3;
