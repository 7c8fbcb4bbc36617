//! The reasons for which streams end, in words: from trailers, resets and the codes of HTTP/2 and
//! gRPC.

use chancery_core::ErrorDetail;
use chancery_core::printable::{MAX_MESSAGE_BYTES, PrintForm, cut, printable};

use crate::http2::Field;

/// The reason in a header block for which the stream ends; nothing if the stream goes on.
pub(crate) fn reason(fields: Option<&[Field]>, end: bool) -> Option<String> {
    let Some(fields) = fields else {
        let unread = "the server ended the stream, with headers that cannot be read";
        return end.then(|| unread.to_owned());
    };
    let of = |name| fields.iter().find(|field| field.name == name).map(|field| &*field.value);
    if let Some(code) = of("grpc-status") {
        let name = grpc(code);
        return Some(match of("grpc-message").filter(|text| !text.is_empty()) {
            Some(text) => format!("the server ended the stream: {name}: {}", decoded(text)),
            None => format!("the server ended the stream: {name}"),
        });
    }
    if let Some(status) = of(":status").filter(|status| *status != "200") {
        return Some(format!("the server answered HTTP status {status}"));
    }
    end.then(|| "the server ended the stream without a status".to_owned())
}

/// The reason for which a stream ends that was reset.
pub(crate) fn reset(code: u32) -> String {
    format!("the server reset the stream: {}", http2(code))
}

/// The reason for which streams end whose connection is closed by the server.
pub(crate) fn goaway(code: u32, text: &str) -> String {
    let because = if text.is_empty() { String::new() } else { format!(": {text}") };
    format!("the server ended the connection: {}{because}", http2(code))
}

fn grpc(code: &str) -> String {
    let name = code.parse().ok().and_then(ErrorDetail::name_of);
    name.map_or_else(|| format!("status {code}"), str::to_owned)
}

fn http2(code: u32) -> String {
    let at = usize::try_from(code).ok();
    at.and_then(|at| HTTP2.get(at)).map_or_else(|| format!("code {code}"), |&name| name.into())
}

/// Decodes the percent-encoding of `grpc-message`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let coded = after.get(..2).filter(|_| *first == b'%');
        let byte =
            coded.and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    let text = String::from_utf8_lossy(&bytes);
    printable(&cut(&text, MAX_MESSAGE_BYTES), PrintForm::Line).into_owned()
}

/// The names of the error codes of HTTP/2 (RFC 9113, section 7).
const HTTP2: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> Vec<Field> {
        let field =
            |&(name, value): &(&str, &str)| Field { name: name.into(), value: value.into() };
        pairs.iter().map(field).collect()
    }

    #[test]
    fn trailers_become_words() {
        let trailers = fields(&[("grpc-status", "8"), ("grpc-message", "too%20many%0a%")]);
        let text = reason(Some(&trailers), true).unwrap();
        assert_eq!(text, "the server ended the stream: RESOURCE_EXHAUSTED: too many\\n%");
        assert!(
            reason(Some(&fields(&[("grpc-status", "99")])), true).unwrap().ends_with("status 99")
        );
    }

    #[test]
    fn headers_that_begin_an_answer_are_no_end() {
        assert_eq!(reason(Some(&fields(&[(":status", "200")])), false), None);
        assert_eq!(reason(None, false), None);
        assert!(reason(None, true).is_some());
        assert!(reason(Some(&fields(&[(":status", "404")])), true).unwrap().contains("404"));
    }

    #[test]
    fn codes_have_names() {
        assert!(reset(7).ends_with("REFUSED_STREAM"));
        assert!(goaway(11, "slower").ends_with("ENHANCE_YOUR_CALM: slower"));
        assert!(reset(77).ends_with("code 77"));
    }
}
