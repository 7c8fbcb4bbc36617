//! The metadata of a request, as flags state it.

use chancery_core::base64;
use chancery_core::printable::Printable;
use http::{HeaderMap, HeaderName, HeaderValue};

/// One entry of metadata.
#[derive(Clone, Debug)]
pub(super) struct Header(HeaderName, HeaderValue);

/// Reads `NAME: VALUE`.
pub(super) fn header(text: &str) -> Result<Header, String> {
    let (name, value) = text.split_once(':').ok_or("write `NAME: VALUE`")?;
    let read = HeaderName::try_from(name.trim());
    let name = read.map_err(|_| format!("`{}` is no name of metadata", Printable(name)))?;
    if RESERVED.contains(&name.as_str()) || name.as_str().starts_with("grpc-") {
        return Err(format!("gRPC itself sets `{name}`"));
    }
    let mut value = value.trim().to_owned();
    if name.as_str().ends_with("-bin") {
        let bytes = base64::decode(&value);
        let bytes = bytes.ok_or_else(|| format!("the value of `{name}` is no base64"))?;
        // Without padding, as gRPC sends it.
        value = base64::encode(&bytes).trim_end_matches('=').to_owned();
    }
    let is_ascii = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let value = HeaderValue::try_from(value).ok().filter(|_| is_ascii);
    let value = value.ok_or_else(|| {
        format!("the value of `{name}` is not printable ASCII; other bytes need a name with `-bin`")
    })?;
    Ok(Header(name, value))
}

/// Returns all entries, in their order.
pub(super) fn headers(entries: &[Header]) -> HeaderMap {
    entries.iter().map(|Header(name, value)| (name.clone(), value.clone())).collect()
}

/// The headers that belong to the protocol, but for those that begin with `grpc-`.
const RESERVED: [&str; 4] = ["te", "content-type", "connection", "host"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_a_name_and_a_value() {
        let read = |text: &str| {
            header(text).map(|Header(name, value)| format!("{name}={}", value.to_str().unwrap()))
        };
        assert_eq!(read("Tier: gold"), Ok("tier=gold".to_owned()));
        assert_eq!(read("url:http://a"), Ok("url=http://a".to_owned()));
        assert_eq!(read("empty:"), Ok("empty=".to_owned()));
        assert_eq!(read("trace-bin: AAE="), Ok("trace-bin=AAE".to_owned()));
        for (wrong, why) in [
            ("tier", "write `NAME: VALUE`"),
            ("a b: c", "is no name"),
            ("trace-bin: ?", "is no base64"),
            ("grpc-timeout: 1S", "gRPC itself sets"),
            ("te: x", "gRPC itself sets"),
            ("k: \u{e9}", "is not printable ASCII"),
        ] {
            let told = read(wrong).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        let both = headers(&[header("a: 1").unwrap(), header("a: 2").unwrap()]);
        assert_eq!(both.get_all("a").iter().count(), 2);
    }
}
