//! The status of a call of gRPC, as headers and trailers hold it.

use chancery_core::ErrorDetail;
use http::{HeaderMap, HeaderValue, StatusCode};

/// Returns the status that headers hold, if they hold one.
pub(crate) fn of(headers: &HeaderMap) -> Option<ErrorDetail> {
    let code = headers.get("grpc-status")?.to_str().ok().and_then(|code| code.parse().ok());
    let message = headers.get("grpc-message").map(|text| decoded(text.as_bytes()));
    Some(ErrorDetail {
        code: code.unwrap_or(ErrorDetail::UNKNOWN),
        message: message.unwrap_or_default(),
    })
}

/// Returns the status that stands for an HTTP response without a gRPC status; `None` for 200.
pub(crate) fn of_http(status: StatusCode) -> Option<ErrorDetail> {
    let code = match status {
        StatusCode::OK => return None,
        StatusCode::BAD_REQUEST => ErrorDetail::INTERNAL,
        StatusCode::UNAUTHORIZED => ErrorDetail::UNAUTHENTICATED,
        StatusCode::FORBIDDEN => ErrorDetail::PERMISSION_DENIED,
        StatusCode::NOT_FOUND => ErrorDetail::UNIMPLEMENTED,
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => ErrorDetail::UNAVAILABLE,
        _ => ErrorDetail::UNKNOWN,
    };
    Some(ErrorDetail { code, message: format!("the server answered with HTTP status {status}") })
}

/// Returns the trailers that end a call with this status.
pub(crate) fn trailers(status: &ErrorDetail) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", status.code.into());
    if !status.message.is_empty()
        && let Ok(message) = HeaderValue::from_str(&status.message)
    {
        trailers.insert("grpc-message", message);
    }
    trailers
}

/// Returns the same status with the name of the code in its message, for people.
pub(crate) fn spelled_out(detail: ErrorDetail) -> ErrorDetail {
    let code = ErrorDetail::name_of(detail.code);
    let code = code.map_or_else(|| detail.code.to_string(), str::to_owned);
    let message = match detail.message.as_str() {
        "" => format!("the server ended the stream with {code}"),
        text => format!("the server ended the stream with {code}: {text}"),
    };
    ErrorDetail { message, ..detail }
}

/// Undoes the percent-encoding of `grpc-message`. Text that is not encoded stays as it is.
fn decoded(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(decoded) if *byte == b'%' => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_from_headers() {
        let mut headers = HeaderMap::new();
        assert_eq!(of(&headers), None);
        headers.insert("grpc-status", "7".parse().unwrap());
        headers.insert("grpc-message", "no%20way%".parse().unwrap());
        let detail = of(&headers).unwrap();
        assert_eq!((detail.code, detail.message.as_str()), (7, "no way%"));
        assert_eq!(
            spelled_out(detail).message,
            "the server ended the stream with PERMISSION_DENIED: no way%"
        );
    }

    #[test]
    fn garbage_is_an_unknown_status() {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-status", "x".parse().unwrap());
        assert_eq!(of(&headers).unwrap().code, ErrorDetail::UNKNOWN);
        assert_eq!(of_http(StatusCode::IM_A_TEAPOT).unwrap().code, ErrorDetail::UNKNOWN);
        assert_eq!(of_http(StatusCode::OK), None);
    }
}
