//! The target of a channel: `xds:NAME`, `xds:///NAME` or `xds://AUTHORITY/NAME`.
//!
//! Not here: which resource that is ([`Naming`](super::Naming)).

use std::fmt;
use std::str::FromStr;

use crate::percent;

/// A target, taken apart.
///
/// ```
/// use chancery_core::client::Target;
///
/// let target: Target = "xds://xds.example.com/prod/billing:8080".parse()?;
/// assert_eq!(target.authority(), Some("xds.example.com"));
/// assert_eq!(target.name(), "prod/billing:8080");
/// assert_eq!(target.data_plane_authority(), "billing:8080");
/// # Ok::<_, chancery_core::client::InvalidTarget>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    authority: Option<Box<str>>,
    name: Box<str>,
}

/// The reason why a text is no target: the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTarget {
    /// It is for another resolver, or has no scheme at all.
    #[error("`{0}` does not start with `xds:`; write `xds:///NAME`")]
    Scheme(Box<str>),
    /// It asks for nothing, or ends where the name of the service should be.
    #[error("`{0}` names no service; write `xds:///NAME` or `xds://AUTHORITY/NAME`")]
    NoName(Box<str>),
    /// A query or a fragment, which other clients would ignore.
    #[error("`{target}` has a `{character}`; write it as `{}` if it is part of the name", percent::path(&.character.to_string()))]
    Part {
        /// The whole target.
        target: Box<str>,
        /// The character that starts the part: `?` or `#`.
        character: char,
    },
    /// A `%` that is not followed by two hexadecimal digits, or they stand for no text.
    #[error("`{0}` is not well percent-encoded; write `%25` for a percent sign")]
    Escape(Box<str>),
}

impl Target {
    /// Reads a target (C-016).
    ///
    /// # Errors
    /// If it is none that can be resolved by xDS.
    pub fn parse(text: &str) -> Result<Self, InvalidTarget> {
        let rest = text.split_once(':').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("xds"));
        let (_, rest) = rest.ok_or_else(|| InvalidTarget::Scheme(text.into()))?;
        if let Some(character) = rest.chars().find(|char| matches!(char, '?' | '#')) {
            return Err(InvalidTarget::Part { target: text.into(), character });
        }
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        let decode = |part: &str| {
            let decoded = percent::decode(part).map_err(|_| InvalidTarget::Escape(text.into()))?;
            Ok(decoded.into_boxed_str())
        };
        // One slash ends the authority; a second one belongs to the name.
        let name: Box<str> = decode(path.strip_prefix('/').unwrap_or(path))?;
        if name.is_empty() || name.ends_with('/') {
            return Err(InvalidTarget::NoName(text.into()));
        }
        let authority = (!authority.is_empty()).then(|| decode(authority)).transpose()?;
        Ok(Self { authority, name })
    }

    /// Returns the authority to ask: a key of the bootstrap's `authorities`.
    pub fn authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    /// Returns the name to ask for, without the slash before it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the `:authority` of requests to the service, which also chooses its virtual host:
    /// the name after its last slash (C-017).
    pub fn data_plane_authority(&self) -> String {
        percent::authority(self.name.rsplit_once('/').map_or(&*self.name, |(_, last)| last))
    }
}

impl FromStr for Target {
    type Err = InvalidTarget;
    fn from_str(text: &str) -> Result<Self, InvalidTarget> {
        Self::parse(text)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.authority.as_deref().unwrap_or_default();
        write!(f, "xds://{}/{}", percent::authority(authority), percent::path(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Target {
        text.parse().unwrap()
    }

    fn parts(text: &str) -> (Option<String>, String) {
        let target = target(text);
        (target.authority().map(str::to_owned), target.name().to_owned())
    }

    /// C-016.
    #[test]
    fn a_target_has_an_authority_or_none_and_a_name() {
        for text in ["xds:a", "xds:/a", "xds:///a", "XDS:a"] {
            assert_eq!(parts(text), (None, "a".to_owned()), "{text}");
        }
        assert_eq!(parts("xds://b/a"), (Some("b".to_owned()), "a".to_owned()));
        assert_eq!(parts("xds://b/a/c:80"), (Some("b".to_owned()), "a/c:80".to_owned()));
        assert_eq!(parts("xds:a:80"), (None, "a:80".to_owned()));
    }

    /// C-016.
    #[test]
    fn one_slash_is_stripped_and_no_more() {
        assert_eq!(target("xds:////a").name(), "/a");
        assert_eq!(target("xds://b//a").name(), "/a");
        assert_eq!(target("xds:/a//b").name(), "a//b");
    }

    #[test]
    fn a_target_is_percent_encoded_and_its_name_is_not() {
        assert_eq!(target("xds:///a%20b%3Fc").name(), "a b?c");
        assert_eq!(target("xds:///100%25").name(), "100%");
        assert_eq!(parts("xds://b%20c/a"), (Some("b c".to_owned()), "a".to_owned()));
        assert_eq!(target("xds:[::1]:80").name(), "[::1]:80");
    }

    /// C-017.
    #[test]
    fn the_data_plane_authority_is_what_follows_the_last_slash() {
        assert_eq!(target("xds://auth/a/b/svc:80").data_plane_authority(), "svc:80");
        assert_eq!(target("xds:svc").data_plane_authority(), "svc");
        assert_eq!(target("xds:///a/[::1]:80").data_plane_authority(), "[::1]:80");
        assert_eq!(target("xds:///a%20b").data_plane_authority(), "a%20b");
    }

    #[test]
    fn what_is_no_target_says_what_to_write() {
        for text in ["", "a", "dns:///a", "a:80", "xdss:a"] {
            assert_eq!(Target::parse(text), Err(InvalidTarget::Scheme(text.into())));
        }
        for text in ["xds:", "xds:/", "xds://", "xds:///", "xds://a", "xds://a/", "xds:///a/"] {
            assert_eq!(Target::parse(text), Err(InvalidTarget::NoName(text.into())));
        }
        for text in ["xds:%", "xds:a%2", "xds:///%zz", "xds://%ff/a"] {
            assert_eq!(Target::parse(text), Err(InvalidTarget::Escape(text.into())));
        }
        assert_eq!(
            Target::parse("xds:///a?b").unwrap_err().to_string(),
            "`xds:///a?b` has a `?`; write it as `%3F` if it is part of the name"
        );
    }

    #[test]
    fn what_is_printed_reads_back() {
        for text in ["xds:a", "xds:////a", "xds://b/a%20%25/c:80", "xds:[::1]:80"] {
            assert_eq!(Target::parse(&target(text).to_string()), Ok(target(text)));
        }
        assert_eq!(target("xds:a").to_string(), "xds:///a");
    }
}
