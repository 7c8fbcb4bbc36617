//! The name of a subject as text, in the form of RFC 2253.

use std::fmt::Write;

use rustls::pki_types::CertificateDer;

use crate::der::{OBJECT_ID, SEQUENCE, any_element, element, subject};

const SET: u8 = 0x31;
const UTF8: u8 = 0x0c;
const PRINTABLE: u8 = 0x13;
const LATIN_1: u8 = 0x14;
const ASCII: u8 = 0x16;
const UTF_32: u8 = 0x1c;
const UTF_16: u8 = 0x1e;

/// The types that have a name (RFC 2253, 2.3), by their object ids.
const TYPES: [(&[u8], &str); 9] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
];

/// The name of the subject of a certificate as RFC 2253 writes it, as in `CN=orders,O=Example`. `None` if the
/// bytes are no certificate.
pub fn subject_text(certificate: &CertificateDer<'_>) -> Option<String> {
    let mut names = subject(certificate)?;
    let mut parts = Vec::new();
    while !names.is_empty() {
        let (mut name, rest) = element(names, SET)?;
        let mut attributes = Vec::new();
        while !name.is_empty() {
            let (pair, rest) = element(name, SEQUENCE)?;
            attributes.push(attribute(pair)?);
            name = rest;
        }
        parts.push(attributes.join("+"));
        names = rest;
    }
    // The last name comes first.
    parts.reverse();
    Some(parts.join(","))
}

fn attribute(pair: &[u8]) -> Option<String> {
    let (id, value) = element(pair, OBJECT_ID)?;
    let (tag, content, _) = any_element(value)?;
    let known = TYPES.iter().find(|(known, _)| *known == id).map(|(_, name)| *name);
    Some(match known.zip(string(tag, content)) {
        Some((name, text)) => format!("{name}={}", escaped(&text)),
        None => {
            let name = known.map_or_else(|| dotted(id), str::to_owned);
            let mut text = format!("{name}=#");
            // A `String` takes all that is written to it.
            value.iter().for_each(|byte| _ = write!(text, "{byte:02x}"));
            text
        }
    })
}

/// The text of a value, if it is one.
fn string(tag: u8, content: &[u8]) -> Option<String> {
    match tag {
        UTF8 | PRINTABLE | ASCII => str::from_utf8(content).ok().map(str::to_owned),
        LATIN_1 => Some(content.iter().copied().map(char::from).collect()),
        UTF_16 => {
            let (units, []) = content.as_chunks() else { return None };
            let units: Vec<_> = units.iter().map(|unit| u16::from_be_bytes(*unit)).collect();
            String::from_utf16(&units).ok()
        }
        UTF_32 => {
            let (units, []) = content.as_chunks() else { return None };
            units.iter().map(|unit| char::from_u32(u32::from_be_bytes(*unit))).collect()
        }
        _ => None,
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let last = text.chars().count().saturating_sub(1);
    for (at, char) in text.chars().enumerate() {
        let is_special = matches!(char, ',' | '+' | '"' | '\\' | '<' | '>' | ';')
            || (at == 0 && matches!(char, ' ' | '#'))
            || (at == last && char == ' ');
        if is_special {
            escaped.push('\\');
        }
        escaped.push(char);
    }
    escaped
}

/// An object id in dots.
fn dotted(id: &[u8]) -> String {
    let mut numbers = Vec::new();
    let mut number = 0_u128;
    for byte in id {
        number = number.wrapping_shl(7) | u128::from(byte & 0x7f);
        if byte & 0x80 != 0 {
            continue;
        }
        match numbers.is_empty() {
            true => numbers.extend([(number / 40).min(2), number - (number / 40).min(2) * 40]),
            false => numbers.push(number),
        }
        number = 0;
    }
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};

    use super::*;

    fn text(names: Vec<(DnType, DnValue)>) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in names {
            params.distinguished_name.push(kind, value);
        }
        let key = KeyPair::generate().unwrap();
        subject_text(params.self_signed(&key).unwrap().der()).unwrap()
    }

    #[test]
    fn the_last_name_comes_first() {
        // gRFC A41
        let names = vec![
            (DnType::CountryName, DnValue::PrintableString("CH".try_into().unwrap())),
            (DnType::OrganizationName, DnValue::from("Example")),
            (DnType::CommonName, DnValue::from("orders")),
        ];
        assert_eq!(text(names), "CN=orders,O=Example,C=CH");
        assert_eq!(text(vec![]), "");
    }

    #[test]
    fn characters_of_the_form_are_escaped() {
        let common = |text: &str| (DnType::CommonName, DnValue::from(text));
        for (name, expected) in [
            ("a,b+c\"d\\e<f>g;h", "CN=a\\,b\\+c\\\"d\\\\e\\<f\\>g\\;h"),
            ("#a#", "CN=\\#a#"),
            (" a b ", "CN=\\ a b\\ "),
            (" ", "CN=\\ "),
            ("é", "CN=é"),
        ] {
            assert_eq!(text(vec![common(name)]), expected);
        }
    }

    #[test]
    fn strings_have_several_encodings() {
        let common = |value: DnValue| text(vec![(DnType::CommonName, value)]);
        assert_eq!(common(DnValue::BmpString("aé".try_into().unwrap())), "CN=aé");
        assert_eq!(common(DnValue::UniversalString("aé".try_into().unwrap())), "CN=aé");
        assert_eq!(common(DnValue::Ia5String("a".try_into().unwrap())), "CN=a");
        assert_eq!(common(DnValue::TeletexString("a".try_into().unwrap())), "CN=a");
    }

    #[test]
    fn types_without_a_name_are_numbers_and_bytes() {
        let custom = DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]);
        let value = DnValue::Ia5String("a".try_into().unwrap());
        assert_eq!(text(vec![(custom, value)]), "1.2.840.113549.1.9.1=#160161");
        assert_eq!(dotted(&[0x88, 0x37]), "2.999");
        assert_eq!(subject_text(&CertificateDer::from(vec![])), None);
    }
}
