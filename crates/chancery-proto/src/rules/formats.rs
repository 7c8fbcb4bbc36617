//! The formats of texts that rules name: addresses, hosts, URIs, UUIDs, mail, and HTTP headers.
//!
//! Each accepts what the Go code of protoc-gen-validate accepts, but for `email` and `uri`, which are
//! the parsers of Go's library there and their main rules here.

use std::net::IpAddr;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Email,
    Hostname,
    Ip,
    Ipv4,
    Ipv6,
    Uri,
    UriRef,
    Address,
    Uuid,
}

/// The characters that a header may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderForm {
    /// A name, as HTTP defines it, also of a pseudo header.
    Name,
    /// A value, as HTTP defines it.
    Value,
    /// A name or a value without the bytes that end one.
    Loose,
}

impl Format {
    /// Returns true if the text has this format.
    pub(super) fn matches(self, text: &str) -> bool {
        match self {
            Self::Email => is_email(text),
            Self::Hostname => is_hostname(text),
            Self::Ip => ip(text).is_some(),
            Self::Ipv4 => ip(text).is_some_and(is_v4),
            Self::Ipv6 => ip(text).is_some_and(|ip| !is_v4(ip)),
            Self::Uri => is_uri(text, true),
            Self::UriRef => is_uri(text, false),
            Self::Address => is_hostname(text) || ip(text).is_some(),
            Self::Uuid => is_uuid(text),
        }
    }

    /// Returns true if these bytes are an address of this format; the others are formats of texts.
    pub(super) fn matches_bytes(self, bytes: &[u8]) -> bool {
        let address = match bytes.len() {
            4 => <[u8; 4]>::try_from(bytes).map(IpAddr::from).ok(),
            16 => <[u8; 16]>::try_from(bytes).map(IpAddr::from).ok(),
            _ => None,
        };
        match self {
            Self::Ipv4 => address.is_some_and(is_v4),
            Self::Ipv6 => address.is_some_and(|ip| !is_v4(ip)),
            _ => address.is_some(),
        }
    }

    /// The format as it is told.
    pub(super) fn described(self) -> &'static str {
        match self {
            Self::Email => "an email address",
            Self::Hostname => "a host name",
            Self::Ip => "an IP address",
            Self::Ipv4 => "an IPv4 address",
            Self::Ipv6 => "an IPv6 address",
            Self::Uri => "an absolute URI",
            Self::UriRef => "a URI or a part of one",
            Self::Address => "a host name or an IP address",
            Self::Uuid => "a UUID",
        }
    }
}

impl HeaderForm {
    /// Returns true if the text has this form.
    pub(super) fn matches(self, text: &str) -> bool {
        let bytes = text.as_bytes();
        match self {
            Self::Name => {
                let name = bytes.strip_prefix(b":").unwrap_or(bytes);
                !name.is_empty() && name.iter().all(|byte| is_name_byte(*byte))
            }
            Self::Value => bytes.iter().all(|byte| !byte.is_ascii_control() || *byte == b'\t'),
            Self::Loose => !bytes.iter().any(|byte| matches!(byte, 0 | b'\n' | b'\r')),
        }
    }

    /// The form as it is told.
    pub(super) fn described(self) -> &'static str {
        match self {
            Self::Name => {
                "must be the name of an HTTP header: letters, digits and !#$%&'*+,-.^_|~`, after a \
                 `:` for a pseudo header"
            }
            Self::Value => "must be the value of an HTTP header: no control characters but tabs",
            Self::Loose => "must have no line break and no NUL",
        }
    }
}

/// The comma is in the pattern of protoc-gen-validate, as one of the characters from `+` to `.`.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+,-.^_|~`".contains(&byte)
}

fn ip(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

/// An IPv4 address in the form of an IPv6 address is one too.
fn is_v4(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => ip.to_ipv4_mapped().is_some(),
    }
}

fn is_hostname(host: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.len() <= 63
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    host.len() <= 253 && host.strip_suffix('.').unwrap_or(host).split('.').all(is_part)
}

fn is_uuid(text: &str) -> bool {
    let lengths = [8, 4, 4, 4, 12];
    let parts: Vec<_> = text.split('-').collect();
    parts.len() == lengths.len()
        && parts.iter().zip(lengths).all(|(part, length)| {
            part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
}

/// An address, alone or after a name: `a@b.example` or `A <a@b.example>`.
fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let address = match text.strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
        Some((_, address)) => address,
        None => text,
    };
    let Some((local, host)) = address.rsplit_once('@') else { return false };
    let is_atom = |atom: &str| {
        !atom.is_empty()
            && atom.chars().all(|character| {
                !character.is_ascii()
                    || character.is_ascii_alphanumeric()
                    || "!#$%&'*+-/=?^_`{|}~".contains(character)
            })
    };
    let is_quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let is_local = is_quoted || local.split('.').all(is_atom);
    address.len() <= 254 && local.len() <= 64 && is_local && is_hostname(host)
}

/// A URI as Go's library reads it: it refuses control characters, escapes that are none, a scheme
/// that is none, and a port that is no number.
fn is_uri(text: &str, absolute: bool) -> bool {
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return false;
    }
    let text = text.split_once('#').map_or(text, |(before, _)| before);
    let (scheme, rest) = match text.split_once(':') {
        Some(("", _)) => return false,
        Some((scheme, rest)) if is_scheme(scheme) => (scheme, rest),
        // A colon behind the first segment belongs to the path.
        Some((first, _)) if first.contains(['/', '?']) => ("", text),
        Some(_) => return false,
        None => ("", text),
    };
    if scheme.is_empty() && (absolute || text.is_empty()) {
        return !absolute;
    }
    let rest = rest.split_once('?').map_or(rest, |(before, _)| before);
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    is_authority(authority) && has_whole_escapes(path)
}

fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn is_authority(authority: &str) -> bool {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) => (name, port),
            None => return false,
        },
        None => host.split_at(host.rfind(':').unwrap_or(host.len())),
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    is_port && !name.contains([' ', '<', '>', '"', '`', '{', '}', '\\', '^']) && !name.contains('%')
}

fn has_whole_escapes(path: &str) -> bool {
    path.split('%')
        .skip(1)
        .all(|rest| rest.len() >= 2 && rest.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(format: Format, good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(format.matches(text), "{text:?} is {}", format.described());
        }
        for text in bad {
            assert!(!format.matches(text), "{text:?} is not {}", format.described());
        }
    }

    #[test]
    fn addresses() {
        let mapped = "::ffff:1.2.3.4";
        all(Format::Ip, &["1.2.3.4", "::1", mapped], &["", "1.2.3", "01.2.3.4", "fe80::1%eth0"]);
        all(Format::Ipv4, &["1.2.3.4", mapped], &["::1"]);
        all(Format::Ipv6, &["::1"], &["1.2.3.4", mapped]);
        all(Format::Address, &["a.example", "::1", "A.example."], &["a_b", "", "a..b"]);
        assert!(Format::Ip.matches_bytes(&[1, 2, 3, 4]) && !Format::Ip.matches_bytes(&[1, 2, 3]));
        assert!(Format::Ipv6.matches_bytes(&[1; 16]) && !Format::Ipv6.matches_bytes(&[1; 4]));
    }

    #[test]
    fn hosts() {
        let long = ["a"; 130].join(".");
        all(Format::Hostname, &["a", "A-1.b", "a."], &["", "-a", "a-", "a_b", "ä", &long]);
        assert!(!Format::Hostname.matches(&"a".repeat(64)));
    }

    #[test]
    fn uris() {
        let good = ["http://a", "http://a:1/b?c#d", "urn:a:b", "http://[::1]:80/%20"];
        all(Format::Uri, &good, &["", "/a", "a", "http://a:b", ":a", "1a:b", "http://a/%2", "a\n"]);
        all(Format::UriRef, &["", "/a", "a/b:c", "http://a"], &["a b:c", ":"]);
    }

    #[test]
    fn mail_and_uuids() {
        all(
            Format::Email,
            &["a@b", "a.b@c.d", "A B <a@b>"],
            &["", "a", "@b", "a@", "a b@c", "a@_"],
        );
        let uuid = "01234567-89ab-cdef-0123-456789ABCDEF";
        all(Format::Uuid, &[uuid], &["", "0", &uuid[1..], &uuid.replace('c', "g")]);
    }

    #[test]
    fn headers() {
        for (form, good, bad) in [
            (HeaderForm::Name, &[":path", "x-a", "a,b"][..], &["", ":", "a b", "a:b", "é"][..]),
            (HeaderForm::Value, &["", "a b\t", "é"], &["a\n", "a\u{7f}", "\0"]),
            (HeaderForm::Loose, &["", "a b:\u{1}"], &["a\n", "a\r", "\0"]),
        ] {
            assert!(good.iter().all(|text| form.matches(text)), "{form:?}");
            assert!(!bad.iter().any(|text| form.matches(text)), "{form:?}");
        }
    }
}
