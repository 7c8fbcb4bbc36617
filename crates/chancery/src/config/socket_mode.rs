//! The mode of the file of a Unix socket, in octal digits as `chmod` takes them.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The mode of the file of a Unix socket. A client needs the permission to write.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct SocketMode(pub(crate) u32);

/// The error for a text that is no mode.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no mode; write octal digits up to `0777`, as in `0660`")]
pub(crate) struct InvalidMode(String);

impl Default for SocketMode {
    fn default() -> Self {
        Self(0o600)
    }
}

impl FromStr for SocketMode {
    type Err = InvalidMode;
    fn from_str(text: &str) -> Result<Self, InvalidMode> {
        let digits = text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
        let mode = digits.then(|| u32::from_str_radix(text, 8).ok()).flatten();
        let mode = mode.filter(|mode| *mode <= 0o777);
        mode.map(Self).ok_or_else(|| InvalidMode(text.to_owned()))
    }
}

impl TryFrom<String> for SocketMode {
    type Error = InvalidMode;
    fn try_from(text: String) -> Result<Self, InvalidMode> {
        text.parse()
    }
}

impl Display for SocketMode {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl From<SocketMode> for String {
    fn from(mode: SocketMode) -> Self {
        mode.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_read_and_printed_in_octal_digits() {
        for (text, printed) in [("0600", "0600"), ("660", "0660"), ("0777", "0777"), ("0", "0000")]
        {
            assert_eq!(text.parse::<SocketMode>().unwrap().to_string(), printed);
        }
        for text in ["", "0800", "1777", "00600", "0o600", "-600", "+600", "rw-------"] {
            assert!(text.parse::<SocketMode>().is_err(), "{text}");
        }
    }
}
