//! Sensitive values that are known by a name beside them, or by their own form.
//!
//! A header, an entry of a map and a field of a `Struct` have names that their author chose. Not
//! here: the fields of messages (`fields`).

use serde_json::Value as Json;

/// The ends of names of secrets. A name is compared in small letters, with `_` between words.
const ENDS: [&str; 20] = [
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "secret",
    "secrets",
    "private_key",
    "secret_key",
    "access_key",
    "signing_key",
    "encryption_key",
    "api_key",
    "apikey",
    "json_key",
    "subscription_key",
    "token",
    "authorization",
    "cookie",
    "credentials",
    "hmac",
];

/// Returns true for the name of a secret: `authorization`, `X-Api-Key`, `clientSecret`.
pub(super) fn names_secret(name: &str) -> bool {
    ends_as_secret(&snake(name))
}

/// Returns true for the name of a secret in small letters.
pub(super) fn ends_as_secret(name: &str) -> bool {
    let mut before = ENDS.iter().filter_map(|end| name.strip_suffix(end));
    before.any(|before| before.is_empty() || before.ends_with('_'))
}

/// The name in small letters, with `_` where another word begins.
pub(super) fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    let mut after_small = false;
    for character in name.chars() {
        if character.is_ascii_uppercase() && after_small {
            out.push('_');
        }
        after_small = character.is_ascii_lowercase() || character.is_ascii_digit();
        let other = !character.is_ascii_alphanumeric();
        out.push(if other { '_' } else { character.to_ascii_lowercase() });
    }
    out
}

/// Returns true for an entry of a `Struct` with a sensitive value: a name of a secret with a text or
/// a `DataSource`, or a private key.
pub(crate) fn is_sensitive_json(name: &str, value: &Json) -> bool {
    match value {
        Json::String(text) => is_secret_text(name, text),
        Json::Object(_) => names_secret(name) && has_inline(value),
        _ => false,
    }
}

/// Returns true for a text under the name of a secret, as `password`, and for one with a private key.
pub fn is_secret_text(name: &str, text: &str) -> bool {
    !text.is_empty() && names_secret(name) || has_private_key(text.as_bytes())
}

/// Returns true for the JSON form of a `DataSource` that has its value in it.
fn has_inline(value: &Json) -> bool {
    INLINE.iter().any(|name| value[*name].as_str().is_some_and(|text| !text.is_empty()))
}

/// The fields of a `DataSource` with a value, in both spellings of JSON.
pub(super) const INLINE: [&str; 4] =
    ["inline_string", "inlineString", "inline_bytes", "inlineBytes"];

/// Returns true for bytes that contain a private key in PEM.
pub(crate) fn has_private_key(bytes: &[u8]) -> bool {
    // The end of its first line, `PRIVATE KEY-----`, has five hyphens, of which one is met in steps
    // of five bytes.
    let mut at = 4;
    while let Some(&byte) = bytes.get(at) {
        if byte == b'-' {
            let hyphens = |byte: &&u8| **byte == b'-';
            let before = bytes[..at].iter().rev().take_while(hyphens).count();
            let from_here = bytes[at..].iter().take_while(hyphens).count();
            if before + from_here >= 5 && bytes[..at - before].ends_with(b"PRIVATE KEY") {
                return true;
            }
            at += from_here;
        }
        at += 5;
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_known_by_the_end_of_their_name() {
        let secrets = [
            "authorization",
            "Proxy-Authorization",
            "x-api-key",
            "X-Auth-Token",
            "cookie",
            "set-cookie",
            "clientSecret",
            "AWS_SECRET_ACCESS_KEY",
            "db.password",
        ];
        for name in secrets {
            assert!(names_secret(name), "{name}");
        }
        for name in ["x-request-id", "tokenizer", "secret_name", "broken", "key", "keystone", ""] {
            assert!(!names_secret(name), "{name}");
        }
    }

    #[test]
    fn a_private_key_is_known_by_its_first_line() {
        for key in ["-----BEGIN PRIVATE KEY-----\nx", "cert\n-----BEGIN EC PRIVATE KEY-----"] {
            assert!(has_private_key(key.as_bytes()), "{key}");
        }
        for other in ["-----BEGIN CERTIFICATE-----", "PRIVATE KEY", "-----------------", ""] {
            assert!(!has_private_key(other.as_bytes()), "{other}");
        }
        for shift in 0..20 {
            for hyphens in 0..12 {
                let text = format!("{}PRIVATE KEY{}x", "y".repeat(shift), "-".repeat(hyphens));
                assert_eq!(has_private_key(text.as_bytes()), hyphens >= 5, "{text}");
            }
        }
    }

    #[test]
    fn an_entry_of_a_struct_is_a_text_or_a_source_with_its_value() {
        assert!(is_sensitive_json("password", &json!("x")));
        assert!(is_sensitive_json("private_key", &json!({"inline_string": "x"})));
        assert!(!is_sensitive_json("private_key", &json!({"filename": "x"})));
        assert!(!is_sensitive_json("token", &json!(1)));
        assert!(is_sensitive_json("note", &json!("-----BEGIN PRIVATE KEY-----")));
    }
}
