//! Templates of names: how a bootstrap makes the name of a listener from a service or an address.

use std::fmt;

use crate::percent;

/// A text in which every `%s` stands for a service or an address (C-021).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Box<str>);

impl Template {
    /// Any text is a template; one without `%s` always makes the same name.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the template of an authority without one: its listeners, by their plain names
    /// (C-012).
    pub fn of_authority(authority: &str) -> Self {
        let authority = percent::segment(authority);
        Self(format!("xdstp://{authority}/envoy.config.listener.v3.Listener/%s").into())
    }

    /// The name for a service or an address.
    ///
    /// In an `xdstp:` template it is percent-encoded as a path; elsewhere it is taken as it is
    /// (C-022).
    pub fn fill(&self, text: &str) -> String {
        if self.is_xdstp() {
            self.0.replace("%s", &percent::path(text))
        } else {
            self.0.replace("%s", text)
        }
    }

    /// Returns true if its names are `xdstp:` names, which have an authority.
    pub fn is_xdstp(&self) -> bool {
        self.0.starts_with("xdstp:")
    }

    /// Returns true if all its names are under this authority, as those of the authority's own
    /// template have to be (C-012).
    pub fn is_under(&self, authority: &str) -> bool {
        let rest = self.0.strip_prefix("xdstp://");
        let path = |name: &str| rest.and_then(|rest| rest.strip_prefix(name));
        let path = path(authority).or_else(|| path(&percent::segment(authority)));
        path.is_some_and(|path| path.starts_with('/'))
    }

    /// The template as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The service itself (C-013).
impl Default for Template {
    fn default() -> Self {
        Self::new("%s")
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P1 to P8, C-022, C-023: what is inserted, and what becomes of it in an `xdstp:` name.
    const VECTORS: [(&str, &str, &str); 8] = [
        ("P1", "server.example.com", "server.example.com"),
        ("P2", "0.0.0.0:8080", "0.0.0.0:8080"),
        ("P3", "[::1]:8080", "%5B::1%5D:8080"),
        ("P4", "my/service/region", "my/service/region"),
        ("P5", "a b?c#d", "a%20b%3Fc%23d"),
        ("P6", "a!$&'()*+,;=:@b", "a!$&'()*+,;=:@b"),
        ("P7", "100%25", "100%2525"),
        ("P8", "\u{e9}", "%C3%A9"),
    ];

    #[test]
    fn p1_to_p8_what_is_inserted_is_encoded_in_xdstp_names_alone() {
        // P1 to P8, C-022, C-023
        let new = Template::new("xdstp://a/L/%s");
        let old = Template::new("a/%s?x");
        for (vector, inserted, encoded) in VECTORS {
            assert_eq!(new.fill(inserted), format!("xdstp://a/L/{encoded}"), "{vector}");
            assert_eq!(old.fill(inserted), format!("a/{inserted}?x"), "{vector}");
        }
    }

    /// C-021.
    #[test]
    fn every_place_is_filled_and_none_is_needed() {
        assert_eq!(Template::new("fixed").fill("a"), "fixed");
        assert_eq!(Template::new("x/%s").fill("a"), "x/a");
        assert_eq!(Template::new("%s/%s").fill("a"), "a/a");
        assert_eq!(Template::new("%s").fill("%s%s"), "%s%s", "what is inserted is no template");
        assert_eq!(Template::new("100%25s").fill("a"), "100%25s");
    }

    /// C-012.
    #[test]
    fn a_template_is_under_one_authority() {
        let under = |template: &str, authority| Template::new(template).is_under(authority);
        assert!(under("xdstp://a/L/%s", "a"));
        assert!(under("xdstp:///L/%s", ""));
        assert!(under("xdstp://a%20b/L/%s", "a b"));
        for wrong in
            ["xdstp://b/L/%s", "xdstp://ab/L/%s", "xds://a/L/%s", "xdstp://a", "xdstp:a/%s", "%s"]
        {
            assert!(!under(wrong, "a"), "{wrong}");
        }
    }

    /// C-012.
    #[test]
    fn an_authority_without_a_template_has_its_listeners_by_their_names() {
        let template = |authority| Template::of_authority(authority).fill("s");
        assert_eq!(template("a.com"), "xdstp://a.com/envoy.config.listener.v3.Listener/s");
        assert_eq!(template(""), "xdstp:///envoy.config.listener.v3.Listener/s");
        assert_eq!(template("a b/c"), "xdstp://a%20b%2Fc/envoy.config.listener.v3.Listener/s");
        assert!(Template::of_authority("a b/c").is_under("a b/c"));
    }
}
