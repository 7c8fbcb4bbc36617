//! Names of resources: opaque strings, and `xdstp:` names in canonical form ([xRFC TP1], [gRFC A47]).
//!
//! Two `xdstp:` names are equal if all their parts are, with the context parameters in any order
//! (S-114). So a [`ResourceName`] is parsed once and kept with its parameters sorted. The client's
//! own spelling is not kept here: a subscription remembers it, because it has to answer in it.
//!
//! A server refuses malformed names ([`ResourceName::parse`]), because its operator can correct
//! them. A client meets names that others wrote, and reads them as other clients do
//! ([`ResourceName::read`]).
//!
//! Directives (`#alt=`, `#entry=`) are for clients and never part of a name on the wire (S-119).
//!
//! [xRFC TP1]: https://github.com/cncf/xds/blob/main/proposals/TP1-xds-transport-next.md
//! [gRFC A47]: https://github.com/grpc/proposal/blob/master/A47-xds-federation.md

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::{TypeUrl, percent};

/// The name of a resource: an opaque string, or an `xdstp:` name in canonical form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName(Arc<str>);

/// The reason why a text is no resource name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidName {
    /// The text has no type or no id.
    #[error("`{0}` is not of the form `xdstp://AUTHORITY/TYPE/ID`")]
    TooShort(Box<str>),
    /// A character is not allowed in a URI, or a `%` has not two digits.
    #[error("`{character}` in `{name}` has to be percent-encoded")]
    Character {
        /// The whole name.
        name: Box<str>,
        /// The first character at fault.
        character: char,
    },
    /// The name is of another type than the one that is asked for.
    #[error("`{name}` names a `{found}`, and a `{expected}` is asked for")]
    Type {
        /// The whole name.
        name: Box<str>,
        /// The type in the name.
        found: Box<str>,
        /// The type that is asked for.
        expected: Box<str>,
    },
    /// A context parameter has no value, or is given twice.
    #[error("context parameter `{parameter}` of `{name}` is not a unique `KEY=VALUE`")]
    Parameter {
        /// The whole name.
        name: Box<str>,
        /// The parameter at fault.
        parameter: Box<str>,
    },
    /// The name has more than 32 context parameters.
    #[error("`{0}` has more than {MAX_PARAMETERS} context parameters")]
    TooManyParameters(Box<str>),
    /// The name has a `#` directive, which is for clients and not for servers to look up.
    #[error("`{0}` has a `#` directive, which is never part of a name on the wire")]
    Directive(Box<str>),
    /// The text is empty.
    #[error("a resource name is empty")]
    Empty,
}

/// The parts of an `xdstp:` name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct XdstpParts<'a> {
    /// The authority that is responsible for the name; it may be empty.
    pub authority: &'a str,
    /// The full name of the resource's message, without a type URL prefix.
    pub type_name: &'a str,
    /// The path below the type.
    pub id: &'a str,
    /// The context parameters, sorted, without the question mark.
    pub query: &'a str,
}

impl ResourceName {
    /// Parses a name as it stands on the wire or in a file.
    ///
    /// # Errors
    /// Only `xdstp:` names can be malformed; every other non-empty text is a name.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        if text.is_empty() {
            return Err(InvalidName::Empty);
        }
        if !text.starts_with(SCHEME) {
            return Ok(Self(text.into()));
        }
        if text.contains('#') {
            return Err(InvalidName::Directive(text.into()));
        }
        Self::canonical(text, OnDuplicate::Refused)
    }

    /// Reads a name as a client meets it: in a target to watch, in a resource that refers to
    /// another, in a response.
    ///
    /// If a context parameter is given twice, the last value counts (C-025). A `#` directive is
    /// dropped (C-027). Other clients do the same, and a mixed fleet has to agree on the meaning of
    /// a name.
    ///
    /// # Errors
    /// Only names that start with `xdstp:` can be malformed (C-026). Those have to be URIs with a type
    /// and an id (C-024).
    pub fn read(text: &str) -> Result<Self, InvalidName> {
        if !text.starts_with("xdstp:") {
            return Self::parse(text);
        }
        let text = text.split_once('#').map_or(text, |(name, _)| name);
        match percent::first_invalid_char(text) {
            Some(character) => Err(InvalidName::Character { name: text.into(), character }),
            None => Self::canonical(text, OnDuplicate::LastCounts),
        }
    }

    /// Reads a name as a client meets it, where a resource of this type is asked for.
    ///
    /// # Errors
    /// As [`ResourceName::read`], and if an `xdstp:` name is of another type (C-024).
    pub fn read_of(text: &str, type_url: &TypeUrl) -> Result<Self, InvalidName> {
        let name = Self::read(text)?;
        let expected = type_url.message_name();
        match name.xdstp() {
            Some(parts) if parts.type_name != expected => Err(InvalidName::Type {
                name: text.into(),
                found: parts.type_name.into(),
                expected: expected.into(),
            }),
            _ => Ok(name),
        }
    }

    /// Makes the canonical name of an `xdstp:` name without a directive.
    fn canonical(text: &str, on_duplicate: OnDuplicate) -> Result<Self, InvalidName> {
        let too_short = || InvalidName::TooShort(text.into());
        let rest = text.strip_prefix(SCHEME).ok_or_else(too_short)?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut parts = path.splitn(3, '/').skip(1);
        match (parts.next(), parts.next()) {
            (Some(type_name), Some(id)) if !type_name.is_empty() && !id.is_empty() => {}
            _ => return Err(too_short()),
        }
        let mut canonical = String::with_capacity(text.len());
        canonical.push_str(SCHEME);
        canonical.push_str(path);
        push_sorted(&mut canonical, text, query, on_duplicate)?;
        Ok(Self(canonical.into()))
    }

    /// Returns true if a text is a name that has one spelling only.
    pub(crate) fn is_opaque(text: &str) -> bool {
        !text.is_empty() && !text.starts_with(SCHEME)
    }

    /// The canonical spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The canonical spelling, shared.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// The parts of an `xdstp:` name; `None` for an opaque one.
    pub fn xdstp(&self) -> Option<XdstpParts<'_>> {
        let rest = self.0.strip_prefix(SCHEME)?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = path.split_once('/')?;
        let (type_name, id) = path.split_once('/')?;
        Some(XdstpParts { authority, type_name, id, query })
    }

    /// Returns true if this names a glob collection: an `xdstp:` name whose id ends in `*` (S-117).
    pub fn is_glob(&self) -> bool {
        self.xdstp().is_some_and(|parts| parts.id == "*" || parts.id.ends_with("/*"))
    }

    /// The glob collection this name is a member of; opaque names are in none.
    ///
    /// Context parameters match exactly (S-115), so they are kept as they are.
    pub fn collection(&self) -> Option<Self> {
        let XdstpParts { authority, type_name, id, query } = self.xdstp()?;
        let parent = id.rfind('/').map_or("", |slash| &id[..=slash]);
        let mark = if query.is_empty() { "" } else { "?" };
        Some(Self(format!("{SCHEME}{authority}/{type_name}/{parent}*{mark}{query}").into()))
    }

    /// The text that all members of this glob collection start with; `None` if this is no glob.
    pub fn glob_prefix(&self) -> Option<&str> {
        if !self.is_glob() {
            return None;
        }
        let path_end = self.0.find('?').unwrap_or(self.0.len());
        Some(&self.0[..path_end - 1])
    }
}

impl FromStr for ResourceName {
    type Err = InvalidName;
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Self::parse(text)
    }
}

impl Borrow<str> for ResourceName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The treatment of a context parameter that is given twice, on which the protocol is silent.
#[derive(Clone, Copy)]
enum OnDuplicate {
    Refused,
    LastCounts,
}

/// Adds the context parameters in their order. They are a map, so two orders spell one name.
fn push_sorted(
    out: &mut String,
    name: &str,
    query: &str,
    on_duplicate: OnDuplicate,
) -> Result<(), InvalidName> {
    let fault =
        |parameter: &str| InvalidName::Parameter { name: name.into(), parameter: parameter.into() };
    let is_refused = matches!(on_duplicate, OnDuplicate::Refused);
    let mut pairs = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        if is_refused && pairs.len() == MAX_PARAMETERS {
            return Err(InvalidName::TooManyParameters(name.into()));
        }
        pairs.push(pair.split_once('=').ok_or_else(|| fault(pair))?);
    }
    // Of a key that comes twice, the values stay in their order.
    pairs.sort_by_key(|(key, _)| *key);
    let mut mark = '?';
    for (at, (key, value)) in pairs.iter().enumerate() {
        if pairs.get(at + 1).is_some_and(|(next, _)| next == key) {
            if is_refused {
                return Err(fault(key));
            }
            continue;
        }
        out.push(mark);
        out.push_str(key);
        out.push('=');
        out.push_str(value);
        mark = '&';
    }
    Ok(())
}

/// The most context parameters of a name that a server takes. Each is sorted in each request with the
/// name, and a name of 4 KiB has room for a thousand.
const MAX_PARAMETERS: usize = 32;

const SCHEME: &str = "xdstp://";

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ResourceName {
        text.parse().unwrap()
    }

    #[test]
    fn parameters_in_any_order_spell_one_name() {
        // S-114
        let stored = name("xdstp://auth/T/id?a=1&b=2");
        assert_eq!(name("xdstp://auth/T/id?b=2&a=1"), stored);
        assert_eq!(stored.as_str(), "xdstp://auth/T/id?a=1&b=2");
        assert_ne!(name("xdstp://auth/T/id?a=1"), stored);
    }

    #[test]
    fn an_opaque_name_is_kept_byte_for_byte() {
        // S-062
        for text in ["a", "outbound|80||x", "a%2Fb?z=1&a=2", "[::]:80", "grpc/server?x=1:2", "#"] {
            assert_eq!(name(text).as_str(), text);
            assert_eq!(name(text).xdstp(), None);
            assert!(!name("a/*").is_glob(), "old-style names have no globs (S-117)");
        }
    }

    #[test]
    fn malformed_names_say_what_is_wrong() {
        for text in ["xdstp://", "xdstp://a", "xdstp://a/T", "xdstp://a/T/", "xdstp://a//id"] {
            assert_eq!(ResourceName::parse(text), Err(InvalidName::TooShort(text.into())));
        }
        // S-119
        let directive = ResourceName::parse("xdstp://a/T/id#entry=x").unwrap_err();
        assert!(directive.to_string().contains("directive"), "{directive}");
        for text in ["xdstp://a/T/id?x", "xdstp://a/T/id?x=1&x=2"] {
            let fault = ResourceName::parse(text).unwrap_err();
            assert!(fault.to_string().contains("`x`"), "{fault}");
        }
        assert_eq!(ResourceName::parse(""), Err(InvalidName::Empty));
    }

    #[test]
    fn a_server_takes_a_name_with_some_parameters_and_not_with_many() {
        // S-110: at the limit, and one past it
        let text = |count: usize| {
            let all: Vec<_> = (0..count).rev().map(|at| format!("k{at:02}=v")).collect();
            format!("xdstp://auth/T/id?{}", all.join("&"))
        };
        let sorted: Vec<_> = (0..32).map(|at| format!("k{at:02}=v")).collect();
        assert_eq!(name(&text(32)).as_str(), format!("xdstp://auth/T/id?{}", sorted.join("&")));
        let refused = ResourceName::parse(&text(33)).unwrap_err();
        assert_eq!(refused, InvalidName::TooManyParameters(text(33).into()));
        assert!(refused.to_string().ends_with("has more than 32 context parameters"), "{refused}");
        assert!(ResourceName::read(&text(33)).is_ok(), "a client takes the names of others");
    }

    #[test]
    fn the_authority_may_be_empty() {
        let name = name("xdstp:///T/id");
        assert_eq!(name.xdstp().unwrap().authority, "");
        assert_eq!(name.xdstp().unwrap().id, "id");
    }

    #[test]
    fn a_glob_matches_exactly_its_own_context() {
        // S-115
        let glob = name("xdstp://auth/T/foo/*?x=1");
        assert!(glob.is_glob());
        assert_eq!(glob.glob_prefix(), Some("xdstp://auth/T/foo/"));
        assert_eq!(name("xdstp://auth/T/foo/a?x=1").collection(), Some(glob.clone()));
        assert_ne!(name("xdstp://auth/T/foo/a").collection(), Some(glob.clone()));
        assert_ne!(name("xdstp://auth/T/foo/a?x=1&y=2").collection(), Some(glob.clone()));
        assert_ne!(name("xdstp://auth/T/foo/deep/a?x=1").collection(), Some(glob));
        assert_eq!(name("xdstp://auth/T/a").collection(), Some(name("xdstp://auth/T/*")));
        assert_eq!(name("a").collection(), None);
    }

    fn listener() -> TypeUrl {
        TypeUrl::new("envoy.config.listener.v3.Listener")
    }

    /// K1, C-025.
    #[test]
    fn k1_the_order_of_parameters_does_not_matter_to_a_client() {
        let one = ResourceName::read("xdstp://a/L/id?b=2&a=1").unwrap();
        assert_eq!(one, ResourceName::read("xdstp://a/L/id?a=1&b=2").unwrap());
        assert_eq!(one.as_str(), "xdstp://a/L/id?a=1&b=2");
    }

    /// K2, C-025.
    #[test]
    fn k2_the_last_of_two_parameters_counts_for_a_client_and_a_server_refuses_both() {
        let twice = "xdstp://a/L/id?a=1&a=2";
        assert_eq!(ResourceName::read(twice).unwrap().as_str(), "xdstp://a/L/id?a=2");
        assert!(matches!(ResourceName::parse(twice), Err(InvalidName::Parameter { .. })));
    }

    /// K5, C-024.
    #[test]
    fn k5_a_name_of_another_type_than_the_one_asked_for_is_refused() {
        let text = "xdstp://a/envoy.config.listener.v3.Listener/id";
        assert!(ResourceName::read_of(text, &listener()).is_ok());
        let routes = TypeUrl::new("envoy.config.route.v3.RouteConfiguration");
        assert_eq!(
            ResourceName::read_of(text, &routes).unwrap_err().to_string(),
            "`xdstp://a/envoy.config.listener.v3.Listener/id` names a \
             `envoy.config.listener.v3.Listener`, and a \
             `envoy.config.route.v3.RouteConfiguration` is asked for"
        );
        assert!(ResourceName::read_of("old/style", &routes).is_ok(), "old names have no type");
    }

    /// C-024.
    #[test]
    fn what_a_client_meets_as_an_xdstp_name_has_to_be_one() {
        for text in
            ["xdstp:", "xdstp:a", "xdstp:/L/id", "xdstp://a/x", "xdstp://a/L/", "xdstp:////id"]
        {
            assert_eq!(ResourceName::read(text), Err(InvalidName::TooShort(text.into())), "{text}");
        }
        for (text, character) in [
            ("xdstp://a/L/a b", ' '),
            ("xdstp://a/L/[::1]:80", '['),
            ("xdstp://a/L/\u{e9}", '\u{e9}'),
            ("xdstp://a/L/100%", '%'),
            ("xdstp://a/L/%2", '%'),
            ("xdstp://a/L/%zz", '%'),
            ("xdstp://a/L/id?x=\n", '\n'),
        ] {
            let fault = InvalidName::Character { name: text.into(), character };
            assert_eq!(ResourceName::read(text), Err(fault));
        }
        assert!(ResourceName::read("xdstp://[::1]:80/L/a%20b!$&'()*+,;=:@~?x=/?").is_ok());
    }

    /// C-026.
    #[test]
    fn a_client_leaves_every_other_name_alone() {
        for text in ["http://x?b&a", "a b", "xds://a/L/id", "XDSTP://a", "#", "a%"] {
            assert_eq!(ResourceName::read(text).unwrap().as_str(), text);
        }
        assert_eq!(ResourceName::read(""), Err(InvalidName::Empty));
    }

    /// C-027.
    #[test]
    fn a_client_drops_directives() {
        let plain = ResourceName::read("xdstp://a/L/id?x=1").unwrap();
        for directive in ["#", "#alt=xdstp://b/L/id", "#entry=a", "#%"] {
            let text = format!("xdstp://a/L/id?x=1{directive}");
            assert_eq!(ResourceName::read(&text), Ok(plain.clone()));
        }
    }
}
