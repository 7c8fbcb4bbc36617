//! References to secrets of another kind than their place takes, as reasons to hold a change back.
//!
//! One that was there before holds nothing back. Not here: secrets whose own kind changes, and filters of ECDS
//! (`in_place`).

use std::sync::Arc;

use chancery_catalog::Seen;
use chancery_core::printable::{Printable, cut};
use chancery_core::{Api, Resource, Snapshot, TypeUrl};
use chancery_proto::resource::{WantedSecret, secret_kind, wanted_secrets};
use chancery_proto::schema::Schema;

use super::allowing::Allowing;
use super::fresh::fresh;
use super::loss::Listed;
use super::place::Places;
use super::steps::Steps;
use crate::serve::SECRET_KIND;

/// Adds the references of edited resources that are wrong after a change, and were not before.
pub(super) fn add(
    (schema, known): (&Schema, &Steps<Vec<WantedSecret>>),
    allowing: &Allowing,
    [before, after]: [&Seen; 2],
    listed: &mut Listed,
) {
    let (places, [old, new]) = (Places::new(before, after), [before.snapshot(), after.snapshot()]);
    for type_url in new.types().filter(|it| may_refer(it)) {
        for change in old.set(type_url).diff(new.set(type_url)).take(MOST_LOOKED_AT) {
            let Some(resource) = change.new.filter(|it| has_secrets(it)) else { continue };
            let wanted = |it: &Arc<Resource>| {
                known.of_one(it, || wanted_secrets(schema, type_url, it.body()))
            };
            let Some(now) = wanted(&resource) else { return };
            let kind = |of: &TypeUrl, it: &Arc<Resource>| secret_kind(schema, of, it.body());
            let now = mismatches(new, &now, kind);
            let was = change.old.as_ref().filter(|_| !now.is_empty()).and_then(wanted);
            let was = was.map(|was| mismatches(old, &was, kind)).unwrap_or_default();
            let key =
                |(it, is): &Mismatch| (it.type_url.clone(), it.name.clone(), it.kind, is.clone());
            for mismatch in fresh(&was, now, key, |(it, _)| &it.path) {
                if allowing.allows_inside(SECRET_KIND, after, type_url, &change.name) {
                    continue;
                }
                listed.add_words(|| {
                    let (secret, at) = (&mismatch.0, places.leading(type_url, &change.name));
                    let of = places.in_brackets(&secret.type_url, &secret.name);
                    format!("{at}{} `{}`: {}{of}", type_url.short(), change.name, told(&mismatch))
                });
            }
        }
    }
}

/// A reference to a secret of another kind, and that kind.
pub(crate) type Mismatch = (WantedSecret, String);

/// The references of these whose targets are of another kind, as `kind` says.
pub(crate) fn mismatches(
    snapshot: &Snapshot,
    wanted: &[WantedSecret],
    mut kind: impl FnMut(&TypeUrl, &Arc<Resource>) -> Option<String>,
) -> Vec<Mismatch> {
    let wrong = wanted.iter().filter_map(|it| {
        let target = snapshot.set(&it.type_url).get_aliased(it.name.as_str())?;
        let is = kind(&it.type_url, target)?;
        (is != it.kind).then(|| (it.clone(), is))
    });
    wrong.collect()
}

/// The sentence about a reference: `PATH: needs a `tls_certificate`, and sds `ca` is a `validation_context``.
pub(crate) fn told((wanted, is): &Mismatch) -> String {
    let WantedSecret { name, path, kind, .. } = wanted;
    let (path, is) = (Printable(cut(path, LONGEST)), Printable(cut(is, LONGEST)));
    format!("{path}: needs a secret with `{kind}`, and sds `{name}` has `{is}`")
}

/// Returns true for types with references to secrets.
pub(crate) fn may_refer(type_url: &TypeUrl) -> bool {
    matches!(type_url.api(), Api::Lds | Api::Cds)
}

/// Returns true for a resource that refers to a secret.
pub(crate) fn has_secrets(resource: &Resource) -> bool {
    resource.facts().links.iter().any(|it| it.type_url.api() == Api::Sds)
}

/// The bytes of a path that are shown.
const LONGEST: usize = 512;
/// The changed resources of a type that are looked at.
const MOST_LOOKED_AT: usize = 100;
