//! The trailer `grpc-retry-pushback-ms`: a server says when it wants to see the call again, if ever.

use std::time::Duration;

use http::HeaderMap;

/// An answer of the server about another attempt (C-148).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushback {
    /// Another attempt may come after exactly this long.
    After(Duration),
    /// No other attempt is wanted.
    Never,
}

impl Pushback {
    /// Reads trailers. A number that is negative or none, and more than one, mean never.
    pub fn read(trailers: &HeaderMap) -> Option<Self> {
        let mut values = trailers.get_all("grpc-retry-pushback-ms").iter();
        let value = values.next()?;
        let number = value.to_str().ok().and_then(|text| text.parse::<i32>().ok());
        let millis = number.and_then(|number| u64::try_from(number).ok());
        Some(match (millis, values.next()) {
            (Some(millis), None) => Self::After(Duration::from_millis(millis)),
            _ => Self::Never,
        })
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_number_is_a_wait_and_all_else_is_never() {
        // gRFC A6.
        let read = |values: &[&'static str]| {
            let mut trailers = HeaderMap::new();
            for value in values {
                trailers.append("grpc-retry-pushback-ms", HeaderValue::from_static(value));
            }
            Pushback::read(&trailers)
        };
        assert_eq!(read(&[]), None);
        assert_eq!(read(&["0"]), Some(Pushback::After(Duration::ZERO)));
        assert_eq!(read(&["1500"]), Some(Pushback::After(Duration::from_millis(1_500))));
        for never in [&["-1"][..], &["x"], &[""], &["1.5"], &["2147483648"], &["1", "1"]] {
            assert_eq!(read(never), Some(Pushback::Never), "{never:?}");
        }
    }
}
