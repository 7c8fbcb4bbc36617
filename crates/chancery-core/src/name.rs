//! Names of resources: opaque strings, and `xdstp:` names in canonical form.
//!
//! Two `xdstp:` names are equal when all their parts match, with the context parameters in any
//! order (S-114), so a [`ResourceName`] is parsed once and kept with its parameters sorted. What a
//! client typed is not kept here: a subscription remembers the spelling it has to answer in.
//!
//! Directives (`#alt=`, `#entry=`) are for clients and never part of a name on the wire (S-119).

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The name of a resource: an opaque string, or an `xdstp:` name in canonical form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName(Arc<str>);

/// Why a text is no resource name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidName {
    /// Neither a type nor an id can be found in it.
    #[error("`{0}` is not of the form `xdstp://AUTHORITY/TYPE/ID`")]
    TooShort(Box<str>),
    /// A context parameter without a value, or the same one twice.
    #[error("context parameter `{parameter}` of `{name}` is not a unique `KEY=VALUE`")]
    Parameter {
        /// The whole name.
        name: Box<str>,
        /// The parameter at fault.
        parameter: Box<str>,
    },
    /// A `#` directive: these are for clients to act on, not for servers to look up.
    #[error("`{0}` has a `#` directive, which is never part of a name on the wire")]
    Directive(Box<str>),
    /// The empty string names nothing.
    #[error("a resource name is empty")]
    Empty,
}

/// The parts of an `xdstp:` name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdstpParts<'a> {
    /// Who is responsible for the name; may be empty.
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
        let Some(rest) = text.strip_prefix(SCHEME) else { return Ok(Self(text.into())) };
        if text.contains('#') {
            return Err(InvalidName::Directive(text.into()));
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut parts = path.splitn(3, '/').skip(1);
        match (parts.next(), parts.next()) {
            (Some(type_name), Some(id)) if !type_name.is_empty() && !id.is_empty() => {}
            _ => return Err(InvalidName::TooShort(text.into())),
        }
        let query = sorted_query(text, query)?;
        let mark = if query.is_empty() { "" } else { "?" };
        Ok(Self(format!("{SCHEME}{path}{mark}{query}").into()))
    }

    /// Whether a text is a name in the only spelling it can have.
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

    /// Whether this names a glob collection: an `xdstp:` name whose id ends in `*` (S-117).
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

    /// What all members of this glob collection start with; `None` if this is no glob.
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

/// Context parameters are a map: two orders spell one name.
fn sorted_query(name: &str, query: &str) -> Result<String, InvalidName> {
    let fault =
        |parameter: &str| InvalidName::Parameter { name: name.into(), parameter: parameter.into() };
    let mut pairs = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| fault(pair))?;
        pairs.push((key, value));
    }
    pairs.sort_unstable();
    if let Some(twice) = pairs.windows(2).find(|two| two[0].0 == two[1].0) {
        return Err(fault(twice[1].0));
    }
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    Ok(pairs.join("&"))
}

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
}
