//! The reason for which a client rejects a response, as logs and observers may have it.
//!
//! Clients quote what they reject, keys and passwords with it. What the sensitive fields of the
//! response hold is left out, however the client writes it (S-138). The work has a bound: where there
//! is more to look for, the reason is withheld as a whole. So is that about a secret of SDS with anything of PEM in it:
//! the others say which file or which part cannot be used. Not here: the finding of such values
//! (`chancery_proto::sensitive`), and which resources the client may quote (the core).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::printable::{MAX_MESSAGE_BYTES, MAX_NAME_BYTES, cut};
use chancery_core::server::{Machine, RejectedResources, TypeStatus};
use chancery_core::{Api, ErrorDetail, Resource, TypeUrl};
use chancery_proto::schema::Schema;
use chancery_proto::sensitive;

/// The bytes of a reason that are read. It is shorter when secrets are left out, and is cut then.
const MAX_READ_BYTES: usize = 4 * MAX_MESSAGE_BYTES;

/// The number of words of a reason that are looked up.
const MOST_WORDS: usize = 64;

/// The number of resources that are named.
const MOST_NAMED: usize = 3;

/// The number of resources of a rejected response that are looked at, and that are told.
const MOST_SUSPECTS: usize = 10_000;
const MOST_TOLD: usize = 8;

/// The text in place of a reason that may quote a secret of SDS.
const WITHHELD: &str = "[withheld]";

/// The text in place of a reason that may quote more than is looked for.
const TOO_MANY: &str = "[withheld: the rejected response has too many secrets to find them in it]";

/// The reason without the secrets of the response, cut to the length of a message in a log.
pub(super) fn reason(
    schema: &Schema,
    type_url: &TypeUrl,
    error: &ErrorDetail,
    rejected: &RejectedResources,
) -> ErrorDetail {
    let shown = text_without(schema, type_url, &error.message, rejected);
    let message = match shown {
        Some(_) if may_show_more(schema, type_url, &error.message, rejected) => WITHHELD.to_owned(),
        Some(text) => text,
        None => TOO_MANY.to_owned(),
    };
    ErrorDetail { code: error.code, message }
}

/// Returns true for a text about a secret of SDS that may show more of it than is found in it: a part of a key
/// in another form than it was sent in, or a value that is too short to be told from other words.
fn may_show_more(
    schema: &Schema,
    type_url: &TypeUrl,
    text: &str,
    rejected: &RejectedResources,
) -> bool {
    let is_short = |value: &Bytes| (1..sensitive::WINDOW).contains(&value.len());
    let values = rejected.resources.iter().flat_map(|it| hidden_values(schema, type_url, it));
    type_url.api() == Api::Sds && (has_pem(text) || values.into_iter().any(|it| is_short(&it)))
}

/// Returns true for a text in which keys or certificates may be.
fn has_pem(text: &str) -> bool {
    let shows = |words: &str| text.contains(words);
    ["-----", "BEGIN", "PRIVATE KEY", "CERTIFICATE-"].into_iter().any(shows)
}

/// The resources that a reason names, so many at most, each with the place that it comes from. The reason may
/// be withheld, and names are no secrets.
pub(super) fn named(error: &ErrorDetail, origin: impl Fn(&str) -> Option<String>) -> String {
    let read = &error.message[..error.message.floor_char_boundary(MAX_READ_BYTES)];
    let (mut known, mut named) = (BTreeSet::new(), Vec::new());
    for word in words(read).filter(|word| known.insert(*word)).take(MOST_WORDS) {
        let place = origin(word);
        named.extend(place.map(|place| format!("{} ({place})", cut(word, MAX_NAME_BYTES))));
        if named.len() == MOST_NAMED {
            break;
        }
    }
    named.join(", ")
}

/// Resources that a rejection may be about although its reason names none, so many at most, each with the place that
/// it comes from.
pub(super) fn placed(suspects: &[Arc<str>], origin: impl Fn(&str) -> Option<String>) -> String {
    let placed = suspects.iter().filter_map(|name| {
        let place = origin(name)?;
        Some(format!("{} ({place})", cut(name, MAX_NAME_BYTES)))
    });
    placed.take(MOST_NAMED).collect::<Vec<_>>().join(", ")
}

/// The names among the words of a reason, so many at most.
pub(super) fn names(error: &ErrorDetail, is_name: impl Fn(&str) -> bool) -> Vec<Arc<str>> {
    let read = &error.message[..error.message.floor_char_boundary(MAX_READ_BYTES)];
    let mut known = BTreeSet::new();
    let words = words(read).filter(|word| known.insert(*word)).take(MOST_WORDS);
    let names = words.filter(|word| word.len() <= MAX_NAME_BYTES && is_name(word));
    names.take(MOST_NAMED).map(Arc::from).collect()
}

/// The resources that a rejection may be about: those of the rejected response that the client had not accepted
/// like that before, first those that the reason names; so many at most.
pub(super) fn suspects(
    machine: &Machine,
    type_url: &TypeUrl,
    error: &ErrorDetail,
) -> Vec<Arc<str>> {
    let read = &error.message[..error.message.floor_char_boundary(MAX_READ_BYTES)];
    let named: BTreeSet<&str> = words(read).take(MOST_WORDS).collect();
    let status = machine.status().find(|status| status.type_url == type_url);
    let all = || status.iter().flat_map(TypeStatus::suspects).take(MOST_SUSPECTS);
    let is_told = |name: &&str| name.len() <= MAX_NAME_BYTES;
    let first = all().filter(|name| named.contains(name));
    let others = all().filter(|name| !named.contains(name));
    first.chain(others).filter(is_told).take(MOST_TOLD).map(Arc::from).collect()
}

/// A mark by which a rejection is known that says the same of as many resources as another one.
pub(super) fn mark(machine: &Machine, type_url: &TypeUrl, error: &ErrorDetail) -> u64 {
    let status = machine.status().find(|status| status.type_url == type_url);
    let read = &error.message[..error.message.floor_char_boundary(MAX_READ_BYTES)];
    let mut hasher = DefaultHasher::new();
    (error.code, read, error.message.len()).hash(&mut hasher);
    status.map_or(0, |status| status.unsettled.rejected).hash(&mut hasher);
    hasher.finish()
}

/// The words of a text that may be names.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let ends = |sign: char| sign.is_whitespace() || "\"'`,;()[]{}<>".contains(sign);
    let words = text.split(ends).map(|word| word.trim_end_matches([':', '.']));
    words.filter(|word| !word.is_empty())
}

fn text_without(
    schema: &Schema,
    type_url: &TypeUrl,
    text: &str,
    rejected: &RejectedResources,
) -> Option<String> {
    if rejected.is_cut {
        return None;
    }
    let values = rejected.resources.iter();
    let values: Vec<_> =
        values.flat_map(|resource| hidden_values(schema, type_url, resource)).collect();
    let read = &text[..text.floor_char_boundary(MAX_READ_BYTES)];
    let shown = sensitive::without_values(read, &values)?;
    Some(match cut(&shown, MAX_MESSAGE_BYTES) {
        Cow::Borrowed(whole) if read.len() == text.len() => whole.to_owned(),
        _ => {
            let shown = &shown[..shown.floor_char_boundary(MAX_MESSAGE_BYTES)];
            format!("{shown}… ({} bytes)", text.len())
        }
    })
}

/// The hidden values of a resource. Of one with a secret that is in none of its fields, as a field of
/// v3 in a body of v2, that is the whole body.
fn hidden_values(schema: &Schema, type_url: &TypeUrl, resource: &Resource) -> Vec<Bytes> {
    let found = sensitive::values(schema, type_url, resource.body());
    let is_elsewhere = found.is_empty() && resource.facts().sensitive;
    if is_elsewhere { vec![resource.body().clone()] } else { found }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chancery_core::Facts;

    use super::*;

    const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";

    fn reason_for(text: &str, rejected: &RejectedResources) -> String {
        let error = ErrorDetail { code: 3, message: text.to_owned() };
        reason(&Schema::bundled(), &TypeUrl::new(CLUSTER), &error, rejected).message
    }

    #[test]
    fn resources_that_may_be_meant_have_their_places() {
        let all: Vec<Arc<str>> = ["a", "gone", "b"].map(Arc::from).into();
        let told = placed(&all, |name| (name != "gone").then(|| format!("{name}.yaml:1")));
        assert_eq!(told, "a (a.yaml:1), b (b.yaml:1)");
    }

    #[test]
    fn the_resources_that_a_reason_names_have_their_places() {
        let told = |text: &str| {
            let error = ErrorDetail { code: 13, message: text.to_owned() };
            let known = ["shop", "a:80", "xdstp://b/c?x=y", "o'neil"];
            named(&error, |word| known.contains(&word).then(|| "a.yaml:3".to_owned()))
        };
        assert_eq!(told("Error adding/updating cluster(s) shop: no"), "shop (a.yaml:3)");
        assert_eq!(told("listener 'a:80': shop, \"shop\"."), "a:80 (a.yaml:3), shop (a.yaml:3)");
        assert_eq!(told("[xdstp://b/c?x=y]: no"), "xdstp://b/c?x=y (a.yaml:3)");
        assert_eq!(told("shopping"), "");
        let many: String = (0..1000).map(|number| format!("w{number} ")).collect();
        assert_eq!(told(&format!("{many} shop")), "");
    }

    #[test]
    fn a_reason_is_cut_and_says_how_long_it_was() {
        let rejected = RejectedResources::default();
        assert_eq!(reason_for("no", &rejected), "no");
        for length in [MAX_MESSAGE_BYTES + 1, MAX_READ_BYTES + 1] {
            let reason = reason_for(&"x".repeat(length), &rejected);
            assert!(reason.starts_with("xxx") && reason.ends_with(&format!("… ({length} bytes)")));
            assert!(reason.len() < MAX_MESSAGE_BYTES + 30, "{}", reason.len());
        }
    }

    #[test]
    fn a_reason_about_a_secret_is_shown_without_what_the_secret_holds() {
        // S-138
        const SECRET: &str = "envoy.extensions.transport_sockets.tls.v3.Secret";
        let schema = Schema::bundled();
        // A generic secret with a text.
        let body = Bytes::from_static(b"\x0a\x01s\x2a\x14\x0a\x12\x1a\x10hunter2-and-more");
        let mut rejected = RejectedResources::default();
        rejected.resources = vec![Arc::new(Resource::new("s".parse().unwrap(), body))];
        let told = |text: &str| {
            let error = ErrorDetail { code: 3, message: text.to_owned() };
            reason(&schema, &TypeUrl::new(SECRET), &error, &rejected).message
        };
        assert_eq!(told("Unexpected SDS secret"), "Unexpected SDS secret");
        assert_eq!(told("no: hunter2-and-more!"), "no: [redacted]!");
        assert_eq!(told("no: -----BEGIN PRIVATE KEY-----\nMII"), WITHHELD);
        assert_eq!(told("no: MII\n-----END"), WITHHELD);
        // A value that is too short to be found keeps the whole text back.
        let body = Bytes::from_static(b"\x0a\x01s\x2a\x0b\x0a\x09\x1a\x07hunter2");
        rejected.resources = vec![Arc::new(Resource::new("s".parse().unwrap(), body))];
        let error = ErrorDetail { code: 3, message: "no: \"hunter2\"".to_owned() };
        assert_eq!(reason(&schema, &TypeUrl::new(SECRET), &error, &rejected).message, WITHHELD);
    }

    #[test]
    fn a_reason_is_withheld_if_not_all_secrets_are_known() {
        let mut rejected = RejectedResources::default();
        rejected.is_cut = true;
        assert_eq!(reason_for("no", &rejected), TOO_MANY);
    }

    #[test]
    fn a_secret_in_a_field_that_nobody_knows_is_not_quoted() {
        // S-138
        let body = b"\x0a\x01c\xfa\xff\x0f\x12very-secret-bundle";
        let resource = |sensitive| {
            let facts = Facts { sensitive, ..Facts::default() };
            let resource = Resource::new("c".parse().unwrap(), Bytes::from_static(body));
            Arc::new(resource.with_facts(facts))
        };
        let mut rejected = RejectedResources::default();
        rejected.resources = vec![resource(false)];
        assert_eq!(reason_for("no very-secret-bundle", &rejected), "no very-secret-bundle");
        rejected.resources = vec![resource(true)];
        assert_eq!(reason_for("no very-secret-bundle", &rejected), "no [redacted]");
    }
}
