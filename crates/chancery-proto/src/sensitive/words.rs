//! The words by which a text is known to hold secrets although it cannot be read: the names of
//! fields with rules, and all that names a secret.
//!
//! A text with a fault is shown to people, and a part of it that is no message has no rules. So any
//! such word, wherever it stands, makes the whole text confidential. That is a guess, and costs the
//! author the sight of a line. Not here: the values in messages (`fields`, `private_keys`).

use std::collections::{BTreeSet, HashSet};
use std::sync::LazyLock;

use prost_reflect::{Kind, MessageDescriptor};

use super::fields::{is_bundled, ruled_fields};
use super::names::{ends_as_secret, has_private_key, snake};
use crate::schema::Schema;

/// The names of fields with rules that other things are called too. In their place the names of
/// their messages count, and of the fields with these messages.
const VAGUE: [&str; 5] = ["config", "key", "keys", "typed_config", "users"];

/// Words that end like those for secrets and are none: the field of CORS.
const HARMLESS: [&str; 1] = ["allow_credentials"];

/// The words for the bundled messages.
static BUNDLED: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let all: Vec<_> = Schema::bundled().pool().all_messages().collect();
    words_for(&all, &all)
});

/// Returns true if a text may hold secrets, so that nothing of it must be shown
/// ([S-138](https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/status/v3/csds.proto)).
pub(crate) fn may_hold_secrets(schema: &Schema, text: &str) -> bool {
    let own = words_of_user(schema);
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    // A text says the same words again and again.
    let mut seen = HashSet::new();
    let mut words = text.split(|c| !is_part(c)).filter(|word| seen.insert(*word)).map(snake);
    has_private_key(text.as_bytes())
        || words.any(|word| {
            let is_secret = ends_as_secret(&word) || BUNDLED.contains(&word) || own.contains(&word);
            is_secret && !HARMLESS.contains(&&*word)
        })
}

/// The words for the messages that a user added. There are as many texts with faults as somebody
/// writes, so the messages are not looked through for each.
fn words_of_user(schema: &Schema) -> &BTreeSet<String> {
    schema.secret_words(|| {
        if schema.pool() == Schema::bundled().pool() {
            return BTreeSet::new();
        }
        let all: Vec<_> = schema.pool().all_messages().collect();
        let own: Vec<_> = all.iter().filter(|message| !is_bundled(message)).cloned().collect();
        words_for(&all, &own)
    })
}

/// The words for these messages, which may contain some of `all`.
fn words_for(all: &[MessageDescriptor], messages: &[MessageDescriptor]) -> BTreeSet<String> {
    let vague = |message: &MessageDescriptor| {
        ruled_fields(message).iter().any(|field| VAGUE.contains(&field.name()))
    };
    let vague: BTreeSet<_> = all.iter().filter(|message| vague(message)).map(full_name).collect();
    let mut words = BTreeSet::new();
    for message in messages {
        let ruled = ruled_fields(message);
        let ruled = ruled.iter().map(|field| field.name());
        words.extend(ruled.filter(|name| !VAGUE.contains(name)).map(str::to_owned));
        if vague.contains(message.full_name()) {
            words.insert(snake(message.name()));
        }
        for field in message.fields() {
            if let Kind::Message(inner) = field.kind()
                && vague.contains(inner.full_name())
            {
                words.insert(field.name().to_owned());
            }
        }
    }
    words
}

fn full_name(message: &MessageDescriptor) -> String {
    message.full_name().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str) -> bool {
        may_hold_secrets(&Schema::bundled(), text)
    }

    #[test]
    fn the_words_of_a_schema_are_worked_out_once() {
        let bundled = Schema::bundled();
        let wider = bundled.with_descriptor_set(b"").unwrap();
        let words = words_of_user(&wider);
        assert!(std::ptr::eq(words, words_of_user(&wider.clone())));
        assert!(!std::ptr::eq(words, words_of_user(&bundled)), "another schema has its own");
    }

    #[test]
    fn a_field_with_a_rule_makes_its_text_confidential() {
        for message in Schema::bundled().pool().all_messages() {
            for field in ruled_fields(&message) {
                let word =
                    if VAGUE.contains(&field.name()) { message.name() } else { field.name() };
                assert!(holds(&format!("a:\n- {word}: x")), "{}", field.full_name());
                assert!(
                    holds(&format!("{{\"{}\":", field.json_name()))
                        || VAGUE.contains(&field.name())
                );
            }
        }
        for text in [
            "session_ticket_keys: {keys: [",
            "\"sessionTicketKeys\"",
            "private_key_provider {",
            "credentials: [{key: x",
            "[type.googleapis.com/envoy.filters.http.v3.BasicAuth] { users {",
        ] {
            assert!(holds(text), "{text}");
        }
    }

    #[test]
    fn what_names_a_secret_makes_its_text_confidential() {
        for text in [
            "key: Authorization",
            "x-api-key",
            "clientSecret:",
            "passwords: [x]",
            "a: -----BEGIN PRIVATE KEY-----",
            "'@type': a/envoy.extensions.tls.v3.Secret",
        ] {
            assert!(holds(text), "{text}");
        }
        for text in [
            "token_bucket: {max_tokens: 1}",
            "allow_credentials: true",
            "name: users",
            "tls_certificate_sds_secret_configs: [{name: a, sds_config: {}}]",
            "typed_config: {key: a}",
        ] {
            assert!(!holds(text), "{text}");
        }
    }
}
