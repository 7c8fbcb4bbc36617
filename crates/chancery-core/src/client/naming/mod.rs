//! The resource that a target means, and the authority that is responsible for it ([gRFC A47]).
//!
//! ```text
//!   target with an authority      that authority's template, its servers
//!   target without one            the default template; if that makes an `xdstp:` name, the servers
//!   address of a server           the server template;  of the authority in the name
//!   a name in a resource          itself;               else the servers at the top
//! ```
//!
//! An authority that the bootstrap does not have is always an error, and nothing is asked of
//! anybody (C-018, C-020). Not here: the servers (`chancery-client`), which nothing learnt from a
//! resource can add to (C-084).
//!
//! [gRFC A47]: https://github.com/grpc/proposal/blob/master/A47-xds-federation.md

mod target;
mod template;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use self::target::{InvalidTarget, Target};
pub use self::template::Template;
use super::authority_key::AuthorityKey;
use crate::{InvalidName, ResourceName, TypeUrl};

/// The part of a bootstrap that decides about names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Naming {
    /// For targets without an authority: `client_default_listener_resource_name_template`.
    pub client: Template,
    /// For servers: `server_listener_resource_name_template`. Clients need none (C-013).
    pub server: Option<Template>,
    /// The authorities there are, with their `client_listener_resource_name_template`.
    pub authorities: BTreeMap<Arc<str>, Option<Template>>,
}

/// A resource, and the authority that is responsible for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResolvedName {
    /// The name to ask for.
    pub name: ResourceName,
    /// The authority to ask.
    pub authority: AuthorityKey,
}

/// The reason why nobody can be asked: a fault of the bootstrap, of the target or of the name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamingError {
    /// The bootstrap does not know who is responsible.
    #[error("`{input}` is under authority `{authority}`, which `authorities` of the bootstrap lacks{}", among(.known))]
    UnknownAuthority {
        /// The target, or the name.
        input: Box<str>,
        /// The authority that would be responsible.
        authority: Arc<str>,
        /// Those the bootstrap has.
        known: Vec<Arc<str>>,
    },
    /// A server was to be started with a bootstrap for clients alone.
    #[error(
        "the bootstrap has no `server_listener_resource_name_template`, which a server needs to name its listener"
    )]
    NoServerTemplate,
    /// The template and what was put into it make no name.
    #[error("template `{template}` makes no name of `{text}`")]
    Template {
        /// The template.
        template: Template,
        /// The text that was put into it.
        text: Box<str>,
        /// The reason.
        source: InvalidName,
    },
    /// A name in a resource, or from the application, is none.
    #[error(transparent)]
    Name(#[from] InvalidName),
}

impl Naming {
    /// Returns the listener that a channel to this target starts from.
    ///
    /// # Errors
    /// If it is under an authority that is not there, or the template makes no name of a listener.
    pub fn target(&self, target: &Target) -> Result<ResolvedName, NamingError> {
        let Some(authority) = target.authority() else {
            return self.filled(&self.client, target.name());
        };
        match self.authorities.get(authority) {
            Some(Some(template)) => self.filled(template, target.name()),
            Some(None) => self.filled(&Template::of_authority(authority), target.name()),
            None => Err(self.unknown(&target.to_string(), authority.into())),
        }
    }

    /// Returns the listener of a server that is bound to this address, written `0.0.0.0:80` or
    /// `[::1]:80`.
    ///
    /// # Errors
    /// As for a target, and if the bootstrap has no template for servers (C-013, C-085).
    pub fn server(&self, address: &str) -> Result<ResolvedName, NamingError> {
        let template = self.server.as_ref().ok_or(NamingError::NoServerTemplate)?;
        self.filled(template, address)
    }

    /// Returns a resource of this type, by its name: one that another resource refers to, or that
    /// an application asks for. References may cross from one authority to another (C-079).
    ///
    /// # Errors
    /// If the name is malformed, of another type, or under an authority that is not there.
    pub fn resource(&self, name: &str, type_url: &TypeUrl) -> Result<ResolvedName, NamingError> {
        self.place(ResourceName::read_of(name, type_url)?)
    }

    fn filled(&self, template: &Template, text: &str) -> Result<ResolvedName, NamingError> {
        let listener = TypeUrl::new("envoy.config.listener.v3.Listener");
        let name = ResourceName::read_of(&template.fill(text), &listener);
        let template = || template.clone();
        let name = name.map_err(|source| NamingError::Template {
            template: template(),
            text: text.into(),
            source,
        })?;
        self.place(name)
    }

    /// The authority's own template plays no part here: the name is complete (C-020).
    fn place(&self, name: ResourceName) -> Result<ResolvedName, NamingError> {
        let authority = AuthorityKey::of(&name);
        match &authority {
            AuthorityKey::Named(key) if !self.authorities.contains_key(key) => {
                Err(self.unknown(name.as_str(), Arc::clone(key)))
            }
            AuthorityKey::Old | AuthorityKey::Named(_) => Ok(ResolvedName { name, authority }),
        }
    }

    fn unknown(&self, input: &str, authority: Arc<str>) -> NamingError {
        let known = self.authorities.keys().cloned().collect();
        NamingError::UnknownAuthority { input: input.into(), authority, known }
    }
}

/// The tail of a sentence: what is there instead.
fn among(authorities: &[Arc<str>]) -> String {
    if authorities.is_empty() {
        return String::new();
    }
    let names: Vec<_> = authorities.iter().map(|name| format!("`{name}`")).collect();
    format!("; it has {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const XDSTP: &str = "xdstp://xds.authority.com/envoy.config.listener.v3.Listener";

    fn naming(client: &str, authorities: &[(&str, Option<&str>)]) -> Naming {
        let entry = |(name, template): &(&str, Option<&str>)| {
            (Arc::from(*name), template.map(Template::new))
        };
        Naming {
            client: Template::new(client),
            server: None,
            authorities: authorities.iter().map(entry).collect(),
        }
    }

    /// The bootstrap of V4 to V6.
    fn simple() -> Naming {
        let server = Some(Template::new(&format!("{XDSTP}/grpc/server/%s")));
        Naming { server, ..naming(&format!("{XDSTP}/%s"), &[("xds.authority.com", None)]) }
    }

    /// The bootstrap of V7 to V10.
    fn multi() -> Naming {
        let client = format!("{XDSTP}/grpc/client/%s?project_id=1234");
        let authorities = [("xds.authority.com", Some(client.as_str())), ("xds.other.com", None)];
        let server = Template::new(&format!("{XDSTP}/grpc/server/%s?project_id=1234"));
        Naming { server: Some(server), ..naming(&client, &authorities) }
    }

    /// Name and authority, as text.
    fn client(naming: &Naming, target: &str) -> (String, String) {
        text(naming.target(&target.parse().unwrap()))
    }

    fn text(place: Result<ResolvedName, NamingError>) -> (String, String) {
        match place {
            Ok(place) => (place.name.to_string(), place.authority.to_string()),
            Err(fault) => ("error".to_owned(), fault.to_string()),
        }
    }

    fn is(name: &str, authority: &str) -> (String, String) {
        (name.to_owned(), authority.to_owned())
    }

    /// V1, C-020: the authorities are a decoy.
    #[test]
    fn v1_a_plain_target_is_an_old_name() {
        let decoy =
            naming("%s", &[("server.example.com", Some("xdstp://server.example.com/x/%s"))]);
        assert_eq!(client(&decoy, "xds:server.example.com"), is("server.example.com", "#old"));
        assert_eq!(client(&Naming::default(), "xds:///a/b"), is("a/b", "#old"));
    }

    /// V2, C-018.
    #[test]
    fn v2_a_target_of_an_unknown_authority_is_invalid() {
        let target = "xds://xds.authority.com/server.example.com";
        let why = "`xds://xds.authority.com/server.example.com` is under authority \
                   `xds.authority.com`, which `authorities` of the bootstrap lacks";
        assert_eq!(client(&Naming::default(), target), is("error", why));
        let (_, why) = client(&naming("%s", &[("a", None), ("", None)]), target);
        assert!(why.ends_with("lacks; it has ``, `a`"), "{why}");
    }

    /// V3, C-021.
    #[test]
    fn v3_an_old_server_template_takes_the_address_as_it_is() {
        let server = Some(Template::new("grpc/server?addr=%s"));
        let naming = Naming { server, ..Naming::default() };
        let found = text(naming.server("0.0.0.0:8080"));
        assert_eq!(found, is("grpc/server?addr=0.0.0.0:8080", "#old"));
        assert_eq!(text(naming.server("[::1]:80")), is("grpc/server?addr=[::1]:80", "#old"));
    }

    /// V4, C-020.
    #[test]
    fn v4_an_xdstp_default_template_chooses_the_authority_by_the_name() {
        let expected = is(&format!("{XDSTP}/server.example.com"), "xds.authority.com");
        assert_eq!(client(&simple(), "xds:server.example.com"), expected);
        // The template of the authority is not used.
        let mut own = simple();
        own.authorities.insert("xds.authority.com".into(), Some(Template::new("xdstp://x/y")));
        assert_eq!(client(&own, "xds:server.example.com"), expected);
    }

    /// V5, C-019.
    #[test]
    fn v5_an_authority_without_a_template_has_a_default() {
        let found = client(&simple(), "xds://xds.authority.com/server.example.com");
        assert_eq!(found, is(&format!("{XDSTP}/server.example.com"), "xds.authority.com"));
    }

    /// V6, C-085.
    #[test]
    fn v6_an_xdstp_server_template_chooses_the_authority_by_the_name() {
        let expected = is(&format!("{XDSTP}/grpc/server/0.0.0.0:8080"), "xds.authority.com");
        assert_eq!(text(simple().server("0.0.0.0:8080")), expected);
        let expected = is(&format!("{XDSTP}/grpc/server/%5B::1%5D:80"), "xds.authority.com");
        assert_eq!(text(simple().server("[::1]:80")), expected);
    }

    /// V7, C-020.
    #[test]
    fn v7_a_default_template_may_have_parameters() {
        let name = format!("{XDSTP}/grpc/client/server.example.com?project_id=1234");
        assert_eq!(client(&multi(), "xds:server.example.com"), is(&name, "xds.authority.com"));
    }

    /// V8, C-019.
    #[test]
    fn v8_an_authority_has_a_template_of_its_own() {
        let name = format!("{XDSTP}/grpc/client/server.example.com?project_id=1234");
        let found = client(&multi(), "xds://xds.authority.com/server.example.com");
        assert_eq!(found, is(&name, "xds.authority.com"));
    }

    /// V9, C-019: by the definition, which A47's worked example contradicts.
    #[test]
    fn v9_another_authority_does_not_borrow_a_template() {
        let found = client(&multi(), "xds://xds.other.com/server.other.com");
        let name = "xdstp://xds.other.com/envoy.config.listener.v3.Listener/server.other.com";
        assert_eq!(found, is(name, "xds.other.com"));
    }

    /// V10, C-085.
    #[test]
    fn v10_a_server_template_may_have_parameters() {
        let name = format!("{XDSTP}/grpc/server/0.0.0.0:8080?project_id=1234");
        assert_eq!(text(multi().server("0.0.0.0:8080")), is(&name, "xds.authority.com"));
    }

    /// V11, C-020.
    #[test]
    fn v11_a_template_of_an_unknown_authority_is_an_error() {
        let template = Template::new("xdstp://gone/envoy.config.listener.v3.Listener/%s");
        let gone = Naming {
            client: template.clone(),
            server: Some(template),
            ..naming("", &[("here", None)])
        };
        let why = |listener: &str| {
            format!(
                "`xdstp://gone/envoy.config.listener.v3.Listener/{listener}` is under authority \
                 `gone`, which `authorities` of the bootstrap lacks; it has `here`"
            )
        };
        assert_eq!(client(&gone, "xds:svc"), is("error", &why("svc")));
        assert_eq!(text(gone.server("1.2.3.4:5")), is("error", &why("1.2.3.4:5")));
    }

    /// C-013.
    #[test]
    fn a_server_needs_a_template_and_a_client_does_not() {
        assert_eq!(Naming::default().server("0.0.0.0:80"), Err(NamingError::NoServerTemplate));
        assert_eq!(Naming::default(), naming("%s", &[]));
    }

    /// C-024.
    #[test]
    fn a_template_that_makes_no_name_of_a_listener_is_an_error() {
        for template in ["xdstp://a/L/%s", "xdstp://a/%s", "xdstp:%s", ""] {
            let found = client(&naming(template, &[("a", None)]), "xds:svc");
            assert_eq!(
                found,
                is("error", &format!("template `{template}` makes no name of `svc`"))
            );
        }
    }

    /// K3, C-051.
    #[test]
    fn k3_the_empty_authority_is_not_the_one_of_old_names() {
        let key = |name| AuthorityKey::of(&ResourceName::read(name).unwrap());
        assert_eq!(key("xdstp:///L/id"), AuthorityKey::Named("".into()));
        assert_eq!(key("id"), AuthorityKey::Old);
        assert_ne!(key("xdstp:///L/id"), key("id"));
        // Nor is one that is called as old names are in metrics.
        assert_ne!(key("xdstp://%23old/L/id"), key("id"));
    }

    /// K4, C-051.
    #[test]
    fn k4_one_id_under_three_authorities_is_three_places() {
        let routes = TypeUrl::new("envoy.config.route.v3.RouteConfiguration");
        let naming = naming("%s", &[("a", None), ("b", None)]);
        let place = |name| naming.resource(name, &routes).unwrap();
        let old = place("id");
        let a = place("xdstp://a/envoy.config.route.v3.RouteConfiguration/id");
        let b = place("xdstp://b/envoy.config.route.v3.RouteConfiguration/id");
        assert!(old != a && old != b && a != b);
        assert_eq!(a.authority, AuthorityKey::Named("a".into()));
    }

    /// C-079, K5.
    #[test]
    fn a_reference_is_placed_by_its_own_authority() {
        let clusters = TypeUrl::new("envoy.config.cluster.v3.Cluster");
        let naming = naming("%s", &[("a b", None)]);
        let name = "xdstp://a%20b/envoy.config.cluster.v3.Cluster/id?y=2&x=1#alt=z";
        let place = naming.resource(name, &clusters).unwrap();
        assert_eq!(place.authority, AuthorityKey::Named("a b".into()));
        assert!(place.name.as_str().ends_with("/id?x=1&y=2"));
        for wrong in ["xdstp://c/envoy.config.cluster.v3.Cluster/id", "xdstp://a%20b/L/id", ""] {
            assert!(naming.resource(wrong, &clusters).is_err(), "{wrong}");
        }
    }
}
