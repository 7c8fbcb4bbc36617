//! The parts of a certificate that are read from its DER, and the way to them.
//!
//! Not here: the check of a certificate, which rustls does.

use rustls::pki_types::CertificateDer;

/// The name of the subject of a certificate, as DER. `None` if the bytes are no certificate.
///
/// Certificates with the same subject have the same bytes here, because those that sign each other are
/// found by these bytes.
pub fn subject<'a>(certificate: &'a CertificateDer<'_>) -> Option<&'a [u8]> {
    let (_, rest) = element(from_validity(certificate)?, SEQUENCE)?;
    element(rest, SEQUENCE).map(|(subject, _)| subject)
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
    use rcgen::{CertificateParams, DnType, KeyPair};

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
