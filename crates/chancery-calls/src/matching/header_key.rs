//! The name of a header that a matcher or a policy looks at, and the value of one in metadata.
//!
//! The name is looked up once, when the configuration is read, and not for each call.

use std::borrow::Cow;

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName};

/// The name of a header, in lower case.
///
/// A name that no header can have is not refused, as no gRPC implementation refuses one: such a header is
/// never there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderKey {
    text: Box<str>,
    class: KeyClass,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyClass {
    Plain(HeaderName),
    Binary(HeaderName),
    ContentType,
    /// A header of gRPC itself, which no application sets.
    Transport(HeaderName),
    /// A pseudo-header, or no name at all.
    Other,
}

impl HeaderKey {
    /// Takes a name in any case.
    pub fn new(name: &str) -> Self {
        let text = name.to_ascii_lowercase();
        let class = match HeaderName::from_bytes(text.as_bytes()) {
            Ok(name) if name == CONTENT_TYPE => KeyClass::ContentType,
            Ok(name) if is_of_transport(&text) => KeyClass::Transport(name),
            Ok(name) if text.ends_with("-bin") => KeyClass::Binary(name),
            Ok(name) => KeyClass::Plain(name),
            Err(_) => KeyClass::Other,
        };
        Self { text: text.into(), class }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The value that a route or a hash policy sees (C-096, C-104): several are joined by commas, binary
    /// headers count as absent, and the content type is that of every call. Routes are about what the
    /// application sets, so headers of gRPC itself count as absent too, also where they are there already.
    pub fn routed_value<'h>(&self, headers: &'h HeaderMap) -> Option<Cow<'h, [u8]>> {
        match &self.class {
            KeyClass::Plain(name) => joined(headers, name),
            KeyClass::ContentType => Some(Cow::Borrowed(b"application/grpc")),
            KeyClass::Binary(_) | KeyClass::Transport(_) | KeyClass::Other => None,
        }
    }

    /// The value as it arrived, several joined by commas.
    pub fn received_value<'h>(&self, headers: &'h HeaderMap) -> Option<Cow<'h, [u8]>> {
        match &self.class {
            KeyClass::Plain(name) | KeyClass::Binary(name) | KeyClass::Transport(name) => {
                joined(headers, name)
            }
            KeyClass::ContentType => joined(headers, &CONTENT_TYPE),
            KeyClass::Other => None,
        }
    }
}

/// Returns true if gRPC writes the header, and not the application.
fn is_of_transport(name: &str) -> bool {
    name.starts_with("grpc-") || name == "te" || name == "user-agent"
}

/// The values of a header, joined by commas. One value is not copied.
fn joined<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<Cow<'h, [u8]>> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.as_bytes();
    let Some(second) = values.next() else { return Some(Cow::Borrowed(first)) };
    let mut all = first.to_vec();
    for value in std::iter::once(second).chain(values) {
        all.push(b',');
        all.extend_from_slice(value.as_bytes());
    }
    Some(Cow::Owned(all))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_route_sees_joined_values_and_no_binary_ones() {
        // C-096
        let mut headers = HeaderMap::new();
        for (name, value) in [("a", "1"), ("a", "2"), ("b", ""), ("c-bin", "x"), ("a", "3")] {
            headers.append(name, HeaderValue::from_static(value));
        }
        for (name, value) in [
            ("content-type", "application/grpc+proto"),
            ("te", "trailers"),
            ("user-agent", "tonic"),
            ("grpc-timeout", "1S"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let routed = |name| HeaderKey::new(name).routed_value(&headers).map(Cow::into_owned);
        assert_eq!(routed("A").as_deref(), Some(&b"1,2,3"[..]));
        assert_eq!(routed("b").as_deref(), Some(&b""[..]));
        assert_eq!(routed("Content-Type").as_deref(), Some(&b"application/grpc"[..]));
        let of_grpc = ["te", "User-Agent", "grpc-timeout"];
        for absent in ["c-bin", "d", ":path", "", "no header"].into_iter().chain(of_grpc) {
            assert_eq!(routed(absent), None, "{absent}");
        }
        let received = |name| HeaderKey::new(name).received_value(&headers).map(Cow::into_owned);
        assert_eq!(received("content-type").as_deref(), Some(&b"application/grpc+proto"[..]));
        assert_eq!(received("c-bin").as_deref(), Some(&b"x"[..]));
        assert_eq!(received("user-agent").as_deref(), Some(&b"tonic"[..]));
        assert_eq!(received(":path"), None);
    }
}
