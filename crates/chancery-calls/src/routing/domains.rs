//! The virtual host of an authority (C-094), found without a walk over all domains.

use std::borrow::Cow;
use std::collections::HashMap;
use std::error::Error;
use std::fmt::{self, Display, Formatter};

use chancery_core::printable::{MAX_NAME_BYTES, Printable, cut};

/// A domain of a virtual host: a whole authority, or one with a `*` at the end or the beginning.
///
/// A `*` stands for one character at least, unless it is all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainPattern {
    text: Box<str>,
    form: DomainForm,
}

/// The forms, from the one that counts most to the one that counts least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DomainForm {
    Exact,
    Suffix,
    Prefix,
    Any,
}

impl DomainPattern {
    /// Reads a domain, in any case.
    pub fn parse(text: &str) -> Result<Self, InvalidDomain> {
        let form = match text {
            "" => return Err(InvalidDomain(String::new())),
            "*" => DomainForm::Any,
            _ if text.starts_with('*') => DomainForm::Suffix,
            _ if text.ends_with('*') => DomainForm::Prefix,
            _ if text.contains('*') => return Err(InvalidDomain(text.to_owned())),
            _ => DomainForm::Exact,
        };
        Ok(Self { text: text.to_ascii_lowercase().into(), form })
    }

    /// The domain in lower case.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The part that is not `*`.
    fn fixed(&self) -> &str {
        match self.form {
            DomainForm::Exact => &self.text,
            DomainForm::Suffix | DomainForm::Any => &self.text[1..],
            DomainForm::Prefix => &self.text[..self.text.len() - 1],
        }
    }
}

impl Display for DomainPattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Printable(cut(&self.text, MAX_NAME_BYTES)))
    }
}

/// A domain that is empty, or has a `*` in its middle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidDomain(
    /// The text of the domain.
    pub String,
);

impl Display for InvalidDomain {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("a domain is empty");
        }
        let domain = Printable(cut(&self.0, MAX_NAME_BYTES));
        write!(f, "the domain `{domain}` has a `*` that is not at its end or beginning")
    }
}

impl Error for InvalidDomain {}

/// The place of a domain: the virtual host, and the domain within its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DomainPlace {
    pub(super) host: usize,
    pub(super) domain: usize,
}

/// The domains of all virtual hosts. Of several that are equal the first counts.
#[derive(Debug, Default)]
pub(super) struct DomainIndex {
    exact: HashMap<Box<str>, DomainPlace>,
    suffixes: Parts,
    prefixes: Parts,
    any: Option<DomainPlace>,
}

/// Beginnings or ends, and their lengths, the longest first.
#[derive(Debug, Default)]
struct Parts {
    places: HashMap<Box<str>, DomainPlace>,
    lengths: Vec<usize>,
}

impl DomainIndex {
    pub(super) fn insert(&mut self, pattern: &DomainPattern, place: DomainPlace) {
        match pattern.form {
            DomainForm::Exact => {
                self.exact.entry(pattern.fixed().into()).or_insert(place);
            }
            DomainForm::Suffix => self.suffixes.insert(pattern.fixed(), place),
            DomainForm::Prefix => self.prefixes.insert(pattern.fixed(), place),
            DomainForm::Any => {
                self.any.get_or_insert(place);
            }
        }
    }

    /// The domain that matches best. The work is that of the lengths of domains, and not of their number.
    pub(super) fn find(&self, authority: &str) -> Option<DomainPlace> {
        let authority = match authority.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => Cow::Owned(authority.to_ascii_lowercase()),
            false => Cow::Borrowed(authority),
        };
        let end = |length| authority.get(authority.len() - length..);
        let beginning = |length| authority.get(..length);
        let exact = self.exact.get(&*authority).copied();
        exact
            .or_else(|| self.suffixes.find(authority.len(), end))
            .or_else(|| self.prefixes.find(authority.len(), beginning))
            .or(self.any)
    }
}

impl Parts {
    fn insert(&mut self, part: &str, place: DomainPlace) {
        if let Err(at) = self.lengths.binary_search_by(|length| part.len().cmp(length)) {
            self.lengths.insert(at, part.len());
        }
        self.places.entry(part.into()).or_insert(place);
    }

    /// The longest part of an authority of so many bytes, which leaves one for the `*`.
    fn find<'a>(
        &self,
        bytes: usize,
        part: impl Fn(usize) -> Option<&'a str>,
    ) -> Option<DomainPlace> {
        let shorter = self.lengths.iter().filter(|length| **length < bytes);
        shorter.filter_map(|length| self.places.get(part(*length)?).copied()).next()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(domains: &[&str]) -> DomainIndex {
        let mut index = DomainIndex::default();
        for (host, domain) in domains.iter().enumerate() {
            let pattern = DomainPattern::parse(domain).unwrap();
            index.insert(&pattern, DomainPlace { host, domain: 0 });
        }
        index
    }

    fn find(domains: &[&str], authority: &str) -> Option<usize> {
        index(domains).find(authority).map(|place| place.host)
    }

    #[test]
    fn the_most_specific_domain_wins_whatever_its_place() {
        // C-094
        let domains =
            ["*", "foo.*", "*.com", "foo.bar.*", "*.bar.com", "foo.bar.com", "FOO.bar.com"];
        for (authority, host) in [
            ("foo.bar.com", Some(5)),
            ("Foo.BAR.com", Some(5)),
            ("x.bar.com", Some(4)),
            ("foo.com", Some(2)),
            ("foo.bar.org", Some(3)),
            ("foo.org", Some(1)),
            ("org", Some(0)),
        ] {
            assert_eq!(find(&domains, authority), host, "{authority}");
        }
    }

    #[test]
    fn without_a_match_there_is_no_host() {
        // C-094
        assert_eq!(find(&[], "a"), None);
        assert_eq!(find(&["b", "a.*", "*.a"], "a"), None);
        assert_eq!(find(&["a"], "a:80"), None);
        assert_eq!(find(&["*"], ""), Some(0));
    }

    #[test]
    fn a_star_stands_for_something() {
        // C-094: as Envoy's API says, `*-bar.foo.com` does not match `-bar.foo.com`.
        assert_eq!(find(&["*-bar.foo.com"], "-bar.foo.com"), None);
        assert_eq!(find(&["*-bar.foo.com"], "x-bar.foo.com"), Some(0));
        assert_eq!(find(&["foo.*"], "foo."), None);
    }

    #[test]
    fn a_domain_that_means_nothing_is_refused() {
        let refused = |text| DomainPattern::parse(text).unwrap_err().to_string();
        assert_eq!(refused(""), "a domain is empty");
        let text = "the domain `a*b` has a `*` that is not at its end or beginning";
        assert_eq!(refused("a*b"), text);
        assert_eq!(DomainPattern::parse("*B").unwrap().to_string(), "*b");
    }

    /// The rule as the gRFC has it: every domain is looked at.
    fn scanned(domains: &[String], authority: &str) -> Option<usize> {
        let authority = authority.to_ascii_lowercase();
        let rank = |domain: &str| {
            let domain = domain.to_ascii_lowercase();
            let long_enough = authority.len() >= domain.len();
            let (kind, matches) = if domain == "*" {
                (3, true)
            } else if let Some(suffix) = domain.strip_prefix('*') {
                (1, long_enough && authority.ends_with(suffix))
            } else if let Some(prefix) = domain.strip_suffix('*') {
                (2, long_enough && authority.starts_with(prefix))
            } else {
                (0, authority == domain)
            };
            matches.then_some((kind, usize::MAX - domain.len()))
        };
        let all = domains.iter().enumerate();
        let ranked = all.filter_map(|(at, domain)| Some((rank(domain)?, at)));
        ranked.min().map(|(_, at)| at)
    }

    proptest! {
        #[test]
        fn the_index_finds_what_a_scan_finds(
            domains in proptest::collection::vec(r"\*|\*?[abA]{1,4}|[abB]{1,4}\*", 0..12),
            authority in "[abAB]{0,5}",
        ) {
            // C-094
            let texts: Vec<&str> = domains.iter().map(String::as_str).collect();
            prop_assert_eq!(find(&texts, &authority), scanned(&domains, &authority));
        }
    }
}
