//! The deadlines of calls: what the application allows is in `grpc-timeout`, and what the route
//! allows may be less (C-102).

use std::fmt::Write;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};

/// The name of the header.
const TIMEOUT: &str = "grpc-timeout";
/// The longest time that eight digits can say in one unit.
const MOST: u128 = 99_999_999;

/// Returns the time that the application allows, if the header is there and well-formed.
pub(crate) fn stated(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(TIMEOUT)?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if number.len() > 8 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// States the time that is left, rounded up to what the header can say.
pub(super) fn state(headers: &mut HeaderMap, left: Duration) {
    let units = [("n", 1), ("u", 1_000), ("m", 1_000_000), ("S", 1_000_000_000)];
    let fits = units.into_iter().map(|(unit, nanos)| (unit, left.as_nanos().div_ceil(nanos)));
    let (unit, number) = fits.into_iter().find(|(_, it)| *it <= MOST).unwrap_or(("S", MOST));
    let mut text = String::with_capacity(9);
    // A `String` takes all that is written to it.
    let _ = write!(text, "{number}{unit}");
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(TIMEOUT, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(TIMEOUT, HeaderValue::from_str(text).expect("a value"));
        stated(&headers)
    }

    #[test]
    fn what_is_stated_is_read_and_never_less() {
        for nanos in [1, 999, 99_999_999, 100_000_000, 1_234_567_891, u64::MAX] {
            let time = Duration::from_nanos(nanos);
            let mut headers = HeaderMap::new();
            state(&mut headers, time);
            let read = stated(&headers).expect("it was stated");
            assert!(read >= time || nanos == u64::MAX, "{read:?} for {time:?}");
        }
        assert_eq!(read("2H"), Some(Duration::from_secs(7_200)));
        assert_eq!(read("100m"), Some(Duration::from_millis(100)));
        for wrong in ["", "S", "1", "1s", "123456789S", "-1S", "1.5S"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
