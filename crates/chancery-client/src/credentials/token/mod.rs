//! A token in a file, which another program renews (C-009, gRFC A97).
//!
//! ```text
//!                 read        ahead of its end       30 s before `exp`
//!   nothing held --------> held ------------> held, read again ------> nothing held
//!        |                                      |
//!        +--- cannot be used: not read again ---+
//!             until a wait is over, which doubles nearly
//! ```
//!
//! The file is first read for the first stream. The client reads `exp` and verifies nothing; the
//! server verifies the token. The waits have no jitter: a local file is not a server to which many
//! clients would come back at once.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chancery_files::ReadError;
use http::HeaderValue;

use super::CredentialsError;
use crate::tasks::blocking;

/// The time before `exp` at which a token counts as expired, because clocks differ and requests
/// take time.
const EARLIER: Duration = Duration::from_secs(30);

/// The time before its end at which a token is read again, so that no stream waits for a new one.
const AHEAD: Duration = Duration::from_secs(60);

const FIRST_WAIT: Duration = Duration::from_secs(1);
const WAIT_FACTOR: f64 = 1.6;
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// The limit for the file in bytes. A longer file is no token: no server takes headers of that
/// length.
const TOKEN_LIMIT: u64 = 64 * 1024;

const TOO_LARGE: &str = "it is larger than 64 KiB";
const FOREIGN: &str = "it has characters that no token has";

/// A file, and the token that was read from it.
pub(super) struct TokenFile {
    path: PathBuf,
    state: Mutex<TokenState>,
}

#[derive(Default)]
struct TokenState {
    token: Option<Token>,
    failure: Option<TokenFailure>,
}

struct Token {
    header: HeaderValue,
    until: SystemTime,
}

struct TokenFailure {
    error: CredentialsError,
    at: SystemTime,
    wait: Duration,
}

impl TokenFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, state: Mutex::default() }
    }

    /// Returns the header `authorization` for a stream.
    pub(super) async fn header(&self, now: SystemTime) -> Result<HeaderValue, CredentialsError> {
        if let Some(answer) = self.lock().known_answer(now) {
            return answer;
        }
        let read = self.read().await;
        self.lock().take(now, read)
    }

    async fn read(&self) -> Result<Token, CredentialsError> {
        let path = self.path.clone();
        let read = blocking(move || chancery_files::read(&path, TOKEN_LIMIT)).await;
        let unreadable = |source| CredentialsError::TokenUnreadable {
            path: self.path.clone(),
            source: Arc::new(source),
        };
        let invalid = |problem| CredentialsError::TokenInvalid { path: self.path.clone(), problem };
        match read.map_err(|shut_down| unreadable(io::Error::other(shut_down)))? {
            Ok(bytes) => Token::parse(&bytes).map_err(invalid),
            Err(ReadError::TooLarge { .. }) => Err(invalid(TOO_LARGE)),
            Err(error) => Err(unreadable(error.into())),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, TokenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenState {
    /// Returns the header or the error that is known without reading the file.
    fn known_answer(&self, now: SystemTime) -> Option<Result<HeaderValue, CredentialsError>> {
        if let Some(token) = &self.token
            && token.left(now) > AHEAD
        {
            return Some(Ok(token.header.clone()));
        }
        let failure = self.failure.as_ref().filter(|failure| failure.is_recent(now))?;
        Some(self.usable(now).ok_or_else(|| failure.error.clone()))
    }

    /// Takes over what was read, and returns the answer. A new token is used even if it has expired
    /// by the clock here: it is the newest there is, and the server decides.
    fn take(
        &mut self,
        now: SystemTime,
        read: Result<Token, CredentialsError>,
    ) -> Result<HeaderValue, CredentialsError> {
        match read {
            Ok(token) => {
                let header = token.header.clone();
                *self = Self { token: Some(token), failure: None };
                Ok(header)
            }
            Err(error) => {
                let wait = self.failure.as_ref().map_or(FIRST_WAIT, TokenFailure::next_wait);
                self.failure = Some(TokenFailure { error: error.clone(), at: now, wait });
                self.usable(now).ok_or(error)
            }
        }
    }

    fn usable(&self, now: SystemTime) -> Option<HeaderValue> {
        let token = self.token.as_ref().filter(|token| !token.left(now).is_zero())?;
        Some(token.header.clone())
    }
}

impl TokenFailure {
    /// Returns true until the file may be read again. A clock that was put back ends the wait.
    fn is_recent(&self, now: SystemTime) -> bool {
        now.duration_since(self.at).is_ok_and(|passed| passed < self.wait)
    }

    fn next_wait(&self) -> Duration {
        self.wait.mul_f64(WAIT_FACTOR).min(LONGEST_WAIT)
    }
}

impl Token {
    fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let text = str::from_utf8(bytes).map_err(|_| "it is no text")?.trim();
        let exp = expiry(text)?;
        let header = HeaderValue::from_str(&format!("Bearer {text}"));
        let mut header = header.map_err(|_| FOREIGN)?;
        header.set_sensitive(true);
        Ok(Self { header, until: exp.checked_sub(EARLIER).unwrap_or(UNIX_EPOCH) })
    }

    /// Returns the time for which the token can still be used.
    fn left(&self, now: SystemTime) -> Duration {
        self.until.duration_since(now).unwrap_or_default()
    }
}

/// Reads the `exp` of a token: seconds since 1970, perhaps with a fraction.
fn expiry(token: &str) -> Result<SystemTime, &'static str> {
    if !token.bytes().all(|byte| matches!(byte, b'.' | b'=') || sextet(byte).is_some()) {
        return Err(FOREIGN);
    }
    let mut parts = token.split('.');
    let (Some(_), Some(claims), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err("it has not three parts");
    };
    let claims = base64url(claims).ok_or("its second part is no base64url")?;
    let claims: serde_json::Value =
        serde_json::from_slice(&claims).map_err(|_| "its second part holds no JSON")?;
    let exp = claims.get("exp").and_then(serde_json::Value::as_f64).ok_or("it has no `exp`")?;
    let exp = Duration::try_from_secs_f64(exp).ok();
    exp.and_then(|exp| UNIX_EPOCH.checked_add(exp)).ok_or("its `exp` is no time")
}

/// Decodes Base64 for URLs. The padding may be left out, as it is in tokens.
fn base64url(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for four in text.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for char in four {
            bits = bits << 6 | u32::from(sextet(*char)?);
        }
        let [_, all @ ..] = (bits << (6 * (4 - four.len()))).to_be_bytes();
        // Four characters are three bytes, three are two, and two are one. One character alone is
        // an error.
        let whole = four.len().checked_sub(1).filter(|whole| *whole > 0)?;
        bytes.extend_from_slice(&all[..whole]);
    }
    Some(bytes)
}

fn sextet(char: u8) -> Option<u8> {
    Some(match char {
        b'A'..=b'Z' => char - b'A',
        b'a'..=b'z' => char - b'a' + 26,
        b'0'..=b'9' => char - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    })
}

/// The token is secret.
impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenFile").field(&self.path).finish()
    }
}

#[cfg(test)]
mod tests;
