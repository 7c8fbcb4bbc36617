//! The parts of a certificate that are read from its DER, and the way to them.
//!
//! Not here: the check of a certificate, which rustls does.

use std::net::IpAddr;

use rustls::pki_types::CertificateDer;

/// The name of the subject of a certificate, as DER. `None` if the bytes are no certificate.
///
/// Certificates with the same subject have the same bytes here, because those that sign each other are
/// found by these bytes.
pub fn subject<'a>(certificate: &'a CertificateDer<'_>) -> Option<&'a [u8]> {
    let (_, rest) = element(from_validity(certificate)?, SEQUENCE)?;
    element(rest, SEQUENCE).map(|(subject, _)| subject)
}

/// A name for which a certificate is, of the kinds that are compared with names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AlternativeName<'a> {
    /// A name of DNS, as in `a.example` or `*.a.example`.
    Dns(&'a str),
    /// An address of mail.
    Email(&'a str),
    /// A URI, as in `spiffe://a.example/b`.
    Uri(&'a str),
    /// An IP address.
    Ip(IpAddr),
}

/// Returns the names for which a certificate is, in their order, so many at most. There are none if the bytes are
/// no certificate. Names of other kinds, and those that are malformed, are left out.
pub fn alternative_names<'a>(
    certificate: &'a CertificateDer<'_>,
    most: usize,
) -> Vec<AlternativeName<'a>> {
    let Some(mut names) = names_of(certificate) else { return Vec::new() };
    let mut found = Vec::new();
    while let Some((tag, content, rest)) = any_element(names) {
        if found.len() == most {
            break;
        }
        found.extend(AlternativeName::read(tag, content));
        names = rest;
    }
    found
}

/// The DNS names for which a certificate is, so many at most: `a.example`, `*.a.example`. None if the bytes are no
/// certificate.
pub fn dns_names(certificate: &CertificateDer<'_>, most: usize) -> Vec<String> {
    let names = alternative_names(certificate, usize::MAX).into_iter();
    let names = names.filter_map(|name| match name {
        AlternativeName::Dns(name) => Some(name.to_owned()),
        _ => None,
    });
    names.take(most).collect()
}

impl<'a> AlternativeName<'a> {
    fn read(tag: u8, content: &'a [u8]) -> Option<Self> {
        let text = || str::from_utf8(content).ok();
        match tag {
            RFC822_NAME => text().map(Self::Email),
            DNS_NAME => text().map(Self::Dns),
            RESOURCE_IDENTIFIER => text().map(Self::Uri),
            IP_ADDRESS => {
                let v4 = <[u8; 4]>::try_from(content).map(IpAddr::from);
                let v6 = || <[u8; 16]>::try_from(content).map(IpAddr::from);
                v4.or_else(|_| v6()).ok().map(Self::Ip)
            }
            _ => None,
        }
    }
}

/// The content of the extension with the names of a subject.
fn names_of(certificate: &[u8]) -> Option<&[u8]> {
    let mut rest = from_validity(certificate)?;
    loop {
        let (tag, content, next) = any_element(rest)?;
        if tag == EXTENSIONS {
            rest = element(content, SEQUENCE)?.0;
            break;
        }
        rest = next;
    }
    while let Some((extension, next)) = element(rest, SEQUENCE) {
        let (id, value) = element(extension, OBJECT_ID)?;
        // It may say first that it is critical.
        let value = element(value, BOOLEAN).map_or(value, |(_, value)| value);
        if id == ALTERNATIVE_NAMES {
            let (names, _) = element(value, OCTETS)?;
            return element(names, SEQUENCE).map(|(names, _)| names);
        }
        rest = next;
    }
    None
}

/// The tag and the content of the first element, and the bytes after it.
pub(crate) fn any_element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let tag = *bytes.first()?;
    element(bytes, tag).map(|(content, rest)| (tag, content, rest))
}

/// The content of a certificate from its validity on, after which its subject comes.
pub(crate) fn from_validity(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (mut rest, _) = element(certificate, SEQUENCE)?;
    if let Some((_, after)) = element(rest, VERSION) {
        rest = after;
    }
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        (_, rest) = element(rest, tag)?;
    }
    Some(rest)
}

const INTEGER: u8 = 0x02;
pub(crate) const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
pub(crate) const OBJECT_ID: u8 = 0x06;
const BOOLEAN: u8 = 0x01;
const OCTETS: u8 = 0x04;
/// The kinds of names of a subject (RFC 5280, `GeneralName`).
const RFC822_NAME: u8 = 0x81;
const DNS_NAME: u8 = 0x82;
const RESOURCE_IDENTIFIER: u8 = 0x86;
const IP_ADDRESS: u8 = 0x87;
/// `2.5.29.17`.
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

/// The content of the first element, if it has this tag, and the bytes after it.
pub(crate) fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    (found == tag).then(|| rest.split_at_checked(length)).flatten()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn certificate(name: &str) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec!["a".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn certificates_of_one_name_have_the_same_subject() {
        let (one, same, other) = (certificate("one"), certificate("one"), certificate("other"));
        assert_ne!(one, same);
        assert_eq!(subject(&one).unwrap(), subject(&same).unwrap());
        assert!(subject(&one).unwrap().ends_with(b"one"));
        assert_ne!(subject(&one), subject(&other));
    }

    #[test]
    fn the_names_of_a_certificate_are_those_of_dns() {
        let names = ["a.example", "*.b.example", "10.0.0.1"].map(str::to_owned);
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone();
        assert_eq!(dns_names(&certificate, 9), ["a.example", "*.b.example"]);
        assert_eq!(dns_names(&certificate, 1), ["a.example"]);
        for odd in 0..certificate.len() {
            let mut bytes = certificate.to_vec();
            bytes[odd] ^= 0xff;
            let _whatever = dns_names(&CertificateDer::from(bytes), 9);
        }
        assert_eq!(dns_names(&CertificateDer::from(vec![]), 9), [""; 0]);
    }

    #[test]
    fn a_certificate_has_names_of_several_kinds() {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.subject_alt_names.extend([
            SanType::Rfc822Name("me@b.example".try_into().unwrap()),
            SanType::URI("spiffe://c.example/d".try_into().unwrap()),
            SanType::OtherName((vec![1, 2, 3], "e".into())),
            SanType::IpAddress("10.0.0.1".parse().unwrap()),
            SanType::IpAddress("2001:db8::1".parse().unwrap()),
        ]);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone();
        let names = alternative_names(&certificate, 9);
        let expected = [
            AlternativeName::Dns("a.example"),
            AlternativeName::Email("me@b.example"),
            AlternativeName::Uri("spiffe://c.example/d"),
            AlternativeName::Ip("10.0.0.1".parse().unwrap()),
            AlternativeName::Ip("2001:db8::1".parse().unwrap()),
        ];
        assert_eq!(names, expected);
        assert_eq!(alternative_names(&certificate, 2), expected[..2]);
    }

    #[test]
    fn bytes_that_are_no_certificate_have_no_subject() {
        let whole = certificate("one");
        for end in 0..whole.len() {
            assert_eq!(subject(&CertificateDer::from(whole[..end].to_vec())), None, "{end}");
        }
        for odd in 0..whole.len() {
            let mut bytes = whole.to_vec();
            bytes[odd] ^= 0xff;
            let _whatever = subject(&CertificateDer::from(bytes));
        }
    }
}
