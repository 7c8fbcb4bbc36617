//! The time at which a certificate expires, read from its DER.
//!
//! Not here: the way to the validity (`der`), and the check of a certificate, which rustls does.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;

use crate::der::{SEQUENCE, element, from_validity};

/// The end of the validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expiry(SystemTime);

impl Expiry {
    /// Reads the expiry of a certificate. `None` if the bytes are no certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (validity, _) = element(from_validity(certificate)?, SEQUENCE)?;
        let (_, not_before) =
            [UTC_TIME, GENERAL_TIME].iter().find_map(|it| element(validity, *it))?;
        let short = element(not_before, UTC_TIME).and_then(|(text, _)| seconds(text, 2));
        let long = || element(not_before, GENERAL_TIME).and_then(|(text, _)| seconds(text, 4));
        let seconds = short.or_else(long)?;
        Some(Self(UNIX_EPOCH + Duration::from_secs(seconds)))
    }

    /// Returns true if this time is over.
    pub fn is_past(self) -> bool {
        self.0 < SystemTime::now()
    }

    /// The time.
    pub fn time(self) -> SystemTime {
        self.0
    }
}

/// The date and time in UTC.
impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let (days, of_day) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = date(days);
        let (hour, minute) = (of_day / 3_600, of_day % 3_600 / 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
    }
}

const UTC_TIME: u8 = 0x17;
const GENERAL_TIME: u8 = 0x18;

/// The seconds since 1970 of a time whose year has so many digits. Years before 1970 are none.
fn seconds(text: &[u8], year_digits: usize) -> Option<u64> {
    let text = str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if text.len() != year_digits + 10 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = |at: usize, digits: usize| text.get(at..at + digits)?.parse::<u64>().ok();
    let year = match number(0, year_digits)? {
        short @ 0..50 if year_digits == 2 => 2000 + short,
        short if year_digits == 2 => 1900 + short,
        long => long,
    };
    let part = |index: usize| number(year_digits + 2 * index, 2);
    let days = days(year, part(0)?, part(1)?)?;
    Some(days * 86_400 + part(2)? * 3_600 + part(3)? * 60 + part(4)?)
}

/// The days since 1970 of a date. A year begins in March here, so that its odd day is the last.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let before = year * 365 + year / 4 - year / 100 + year / 400;
    (before + (month * 153 + 2) / 5 + day - 1).checked_sub(BEFORE_1970)
}

/// The date of a day since 1970.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + BEFORE_1970;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (year_of_era * 365 + year_of_era / 4 - year_of_era / 100);
    let month = (of_year * 5 + 2) / 153;
    let day = of_year - (month * 153 + 2) / 5 + 1;
    let year = era * 400 + year_of_era;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

/// The days from March of the year 0 to January 1970.
const BEFORE_1970: u64 = 719_468;

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn certificate(year: i32, month: u8, day: u8) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec!["a".to_owned()]).unwrap();
        params.not_before = date_time_ymd(1990, 1, 1);
        params.not_after = date_time_ymd(year, month, day);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn the_end_of_a_certificate_is_read_in_both_forms() {
        for (year, month, day) in
            [(2000, 2, 29), (2024, 12, 31), (2049, 3, 1), (2050, 1, 1), (4096, 1, 1)]
        {
            let expiry = Expiry::of(&certificate(year, month, day)).unwrap();
            assert_eq!(expiry.to_string(), format!("{year:04}-{month:02}-{day:02} 00:00 UTC"));
            assert_eq!(expiry.is_past(), year < 2026);
        }
    }

    #[test]
    fn bytes_that_are_no_certificate_have_no_end() {
        let whole = certificate(2030, 1, 1);
        for end in 0..whole.len() {
            let part = CertificateDer::from(whole[..end].to_vec());
            assert_eq!(Expiry::of(&part), None, "{end}");
        }
        for odd in 0..whole.len() {
            let mut bytes = whole.to_vec();
            bytes[odd] ^= 0xff;
            let _whatever = Expiry::of(&CertificateDer::from(bytes));
        }
    }
}
