//! The names for which the certificate of a peer has to be (C-123, C-126, gRFC A29, A101).

use std::borrow::Cow;
use std::sync::Arc;

use chancery_calls::matching::TextMatcher;
use chancery_tls::{AlternativeName, alternative_names};
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::server::ParsedCertificate;

use crate::read::listed_names::ListedNames;
use crate::read::quoted;

/// The names that are accepted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PeerNames {
    /// A name of the certificate has to match one of these. If there are none, each certificate is accepted.
    Listed(ListedNames),
    /// The name that was asked for has to be a name of DNS of the certificate. No other name counts.
    Asked(Arc<str>),
    /// The certificate has to be for this host, as in TLS without a control plane.
    Host(Arc<str>),
}

impl PeerNames {
    /// Returns the reason why a certificate is for no name that is accepted. Somebody trusted has signed it.
    pub(super) fn check(
        &self,
        certificate: &CertificateDer<'_>,
        parsed: &ParsedCertificate<'_>,
    ) -> Result<(), String> {
        let found = alternative_names(certificate, MAX_NAMES);
        match self {
            Self::Listed(names) => {
                let matchers = names.list();
                let is_accepted =
                    matchers.is_empty() || found.iter().any(|it| is_listed(matchers, it));
                check(is_accepted, &found, "no name that the cluster lists")
            }
            Self::Asked(name) => {
                let is_for = |it: &AlternativeName<'_>| match it {
                    AlternativeName::Dns(dns) => is_host(name, dns),
                    _ => false,
                };
                let asked =
                    format_args!("not for `{}`, which was asked for", quoted(name)).to_string();
                check(found.iter().any(is_for), &found, &asked)
            }
            Self::Host(host) => {
                let name = ServerName::try_from(&**host);
                let is_for = name.is_ok_and(|name| verify_server_name(parsed, &name).is_ok());
                let wanted = format_args!("not for the host `{}`", quoted(host)).to_string();
                check(is_for, &found, &wanted)
            }
        }
    }
}

fn check(is_accepted: bool, found: &[AlternativeName<'_>], wanted: &str) -> Result<(), String> {
    if is_accepted {
        return Ok(());
    }
    let shown: Vec<_> =
        found.iter().take(SHOWN).map(|name| format!("`{}`", quoted(&text(name)))).collect();
    let more = if found.len() > SHOWN { " and others" } else { "" };
    let names = if shown.is_empty() { "no name".to_owned() } else { shown.join(", ") };
    Err(format!("the certificate is for {names}{more}, and {wanted}"))
}

/// Returns a name as a text: an address in its usual form.
fn text<'a>(name: &AlternativeName<'a>) -> Cow<'a, str> {
    match *name {
        AlternativeName::Dns(text) | AlternativeName::Email(text) | AlternativeName::Uri(text) => {
            Cow::Borrowed(text)
        }
        AlternativeName::Ip(address) => Cow::Owned(address.to_canonical().to_string()),
        _ => Cow::Borrowed(""),
    }
}

/// Returns true if a matcher accepts a name. An exact text is compared with a name of DNS by the rules of such
/// names.
fn is_listed(matchers: &[TextMatcher], name: &AlternativeName<'_>) -> bool {
    let text = text(name);
    matchers.iter().any(|matcher| match (name, matcher.exact_text()) {
        (AlternativeName::Dns(dns), Some(exact)) => is_host(exact, dns),
        _ => matcher.matches(text.as_bytes()),
    })
}

/// Returns true if a name of DNS in a certificate covers a host. Its first label may be `*`, which stands for one
/// whole label.
fn is_host(host: &str, name: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let name = name.strip_suffix('.').unwrap_or(name);
    let Some(rest) = name.strip_prefix("*.") else {
        return !host.is_empty() && host.eq_ignore_ascii_case(name);
    };
    let covered = host.split_once('.');
    covered.is_some_and(|(label, domain)| {
        !label.is_empty() && !rest.contains('*') && domain.eq_ignore_ascii_case(rest)
    })
}

/// The number of names of a certificate that are looked at.
const MAX_NAMES: usize = 1000;
/// The number of them that a message has.
const SHOWN: usize = 4;

#[cfg(test)]
mod tests {
    use chancery_calls::matching::TextPattern;
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    /// A certificate with a name of every kind.
    fn certificate() -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.subject_alt_names = vec![
            SanType::DnsName("a.example".try_into().unwrap()),
            SanType::DnsName("*.b.example".try_into().unwrap()),
            SanType::URI("spiffe://c.example/d".try_into().unwrap()),
            SanType::Rfc822Name("me@d.example".try_into().unwrap()),
            SanType::IpAddress("10.0.0.1".parse().unwrap()),
            SanType::IpAddress("2001:db8:0:0::1".parse().unwrap()),
        ];
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    fn check(names: &PeerNames, certificate: &CertificateDer<'_>) -> Result<(), String> {
        let parsed = ParsedCertificate::try_from(certificate).map_err(|it| it.to_string())?;
        names.check(certificate, &parsed)
    }

    fn listed(matchers: impl IntoIterator<Item = TextMatcher>) -> PeerNames {
        PeerNames::Listed(ListedNames::new(matchers.into_iter().collect()))
    }

    #[test]
    fn one_name_of_any_kind_matches_one_of_the_list() {
        // C-123
        let certificate = certificate();
        let is_exact = |text| check(&listed([TextMatcher::exact(text)]), &certificate).is_ok();
        for text in [
            "a.example",
            "A.Example.",
            "x.b.example",
            "spiffe://c.example/d",
            "me@d.example",
            "10.0.0.1",
            "2001:db8::1",
        ] {
            assert!(is_exact(text), "{text}");
        }
        for text in [
            "b.example",
            ".b.example",
            "x.y.b.example",
            "*.a.example",
            "spiffe://c.example/D",
            "ME@d.example",
            "010.0.0.1",
            "2001:db8:0:0:0:0:0:1",
            "",
        ] {
            assert!(!is_exact(text), "{text}");
        }
        let matcher = |pattern| TextMatcher::new(pattern, false).unwrap();
        for pattern in [
            TextPattern::Prefix("spiffe://c.example/".to_owned()),
            TextPattern::Suffix("@d.example".to_owned()),
            TextPattern::Contains("0.0".to_owned()),
            TextPattern::Regex(r"2001:.*".to_owned()),
            TextPattern::Suffix("*.b.example".to_owned()),
        ] {
            let both = listed([TextMatcher::exact("other"), matcher(pattern)]);
            assert_eq!(check(&both, &certificate), Ok(()));
        }
        let none = listed([matcher(TextPattern::Suffix("x.b.example".to_owned()))]);
        let why = "the certificate is for `a.example`, `*.b.example`, `spiffe://c.example/d`, \
                   `me@d.example` and others, and no name that the cluster lists";
        assert_eq!(check(&none, &certificate), Err(why.to_owned()));
    }

    #[test]
    fn an_empty_list_accepts_and_a_certificate_without_names_matches_no_list() {
        // C-123
        let params = CertificateParams::new(vec![]).unwrap();
        let unnamed = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone();
        for certificate in [&unnamed, &certificate()] {
            assert_eq!(check(&listed([]), certificate), Ok(()));
        }
        let any = TextMatcher::new(TextPattern::Regex(".*".to_owned()), false).unwrap();
        let why = "the certificate is for no name, and no name that the cluster lists";
        assert_eq!(check(&listed([any]), &unnamed), Err(why.to_owned()));
    }

    #[test]
    fn the_name_that_was_asked_for_is_one_of_dns() {
        // C-126
        let certificate = certificate();
        let is_asked = |name: &str| check(&PeerNames::Asked(name.into()), &certificate).is_ok();
        assert!(is_asked("a.example") && is_asked("x.b.example"));
        assert!(!is_asked("c.example") && !is_asked("10.0.0.1") && !is_asked("me@d.example"));
    }

    #[test]
    fn a_host_is_checked_as_in_tls() {
        let certificate = certificate();
        let is_host = |name: &str| check(&PeerNames::Host(name.into()), &certificate).is_ok();
        assert!(is_host("a.example") && is_host("x.b.example") && is_host("10.0.0.1"));
        assert!(!is_host("b.example") && !is_host("10.0.0.2"));
    }
}
