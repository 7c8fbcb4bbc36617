//! The `date` header of responses over HTTP/2, made once a second. Over HTTP/1.1 hyper sets it.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use http::HeaderValue;

thread_local! {
    /// The last value, and the second it is for.
    static LAST: RefCell<Option<(u64, HeaderValue)>> = const { RefCell::new(None) };
}

/// The value of `date` now.
pub(super) fn now() -> HeaderValue {
    let now = SystemTime::now();
    let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    LAST.with_borrow_mut(|last| match last {
        Some((of, value)) if *of == second => value.clone(),
        _ => {
            let value = value(now);
            *last = Some((second, value.clone()));
            value
        }
    })
}

fn value(time: SystemTime) -> HeaderValue {
    HeaderValue::try_from(httpdate::fmt_http_date(time)).expect("it is ASCII")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_date_is_as_http_has_it() {
        let time = UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(value(time), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(now().len(), 29);
    }
}
