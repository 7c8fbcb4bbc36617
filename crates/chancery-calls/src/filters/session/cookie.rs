//! The cookie of a session: found in a request, made for a response.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::time::Duration;

use http::header::{COOKIE, HeaderMap, HeaderValue};

use super::SessionTarget;

/// The cookie that holds the sessions of a way together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionCookie {
    name: Box<str>,
    path: Box<str>,
    ttl: Duration,
}

/// A call that has a session, or may begin one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRequest {
    /// The endpoint and cluster of the session so far.
    pub target: Option<SessionTarget>,
}

impl SessionCookie {
    /// Takes the name of the cookie, the path of the calls that it is for (all if it is empty), and its time
    /// to live, which the caller obeys and gRPC does not (none if it is zero).
    pub fn new(name: &str, path: &str, ttl: Duration) -> Result<Self, SessionCookieError> {
        if name.is_empty() {
            return Err(SessionCookieError::NoName);
        }
        let cookie = Self { name: name.into(), path: path.into(), ttl };
        match cookie.header("") {
            Some(_) => Ok(cookie),
            None => Err(SessionCookieError::NotAHeader),
        }
    }

    /// Looks for the session of a call. `None` if the cookie is not for its path: no session begins then.
    pub fn request(&self, path: &str, headers: &HeaderMap) -> Option<SessionRequest> {
        if !self.is_for(path) {
            return None;
        }
        let target = self.value_in(headers).and_then(SessionTarget::read);
        Some(SessionRequest { target })
    }

    /// The value of `set-cookie` for the response, if the call has gone somewhere else than its cookie says: to an
    /// endpoint of these addresses, of which one was used.
    pub fn response(
        &self,
        request: &SessionRequest,
        used: SocketAddr,
        all: &[SocketAddr],
        cluster: &str,
    ) -> Option<HeaderValue> {
        let addresses = SessionTarget::addresses(used, all);
        let is_same = request.target.as_ref().is_some_and(|target| {
            target.addresses == addresses && target.cluster.as_deref() == Some(cluster)
        });
        match is_same {
            true => None,
            false => self.header(&SessionTarget::write(&addresses, cluster)),
        }
    }

    /// The name of the cookie.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if the cookie is for calls of this path (RFC 6265, 5.1.4).
    fn is_for(&self, path: &str) -> bool {
        match path.strip_prefix(&*self.path) {
            Some(rest) => {
                rest.is_empty()
                    || self.path.is_empty()
                    || self.path.ends_with('/')
                    || rest.starts_with('/')
            }
            None => false,
        }
    }

    /// The value of the first cookie with the name.
    fn value_in<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut cookies = lines.flat_map(|line| line.split(';'));
        cookies.find_map(|cookie| {
            let (name, value) = cookie.split_once('=')?;
            let value = value.trim();
            let unquoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
            (name.trim() == &*self.name).then_some(unquoted.unwrap_or(value))
        })
    }

    fn header(&self, value: &str) -> Option<HeaderValue> {
        let mut text = format!("{}={value}; HttpOnly", self.name);
        if !self.path.is_empty() {
            text.push_str("; Path=");
            text.push_str(&self.path);
        }
        if !self.ttl.is_zero() {
            text.push_str(&format!("; Max-Age={}", self.ttl.as_secs()));
        }
        HeaderValue::from_str(&text).ok()
    }
}

/// A cookie that is refused. The fault is that of whoever wrote the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionCookieError {
    /// The name is empty.
    NoName,
    /// The name or the path has characters that no header can have.
    NotAHeader,
}

impl Display for SessionCookieError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoName => "the cookie of a stateful session has no name",
            Self::NotAHeader => {
                "the cookie of a stateful session has a name or path with characters that no header can have"
            }
        })
    }
}

impl Error for SessionCookieError {}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn cookie(path: &str) -> SessionCookie {
        SessionCookie::new("session", path, MINUTE).unwrap()
    }

    fn headers(lines: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(COOKIE, HeaderValue::from_str(line).unwrap());
        }
        headers
    }

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// The session that a call with these cookies has.
    fn target(lines: &[&str]) -> Option<SessionTarget> {
        cookie("").request("/s/M", &headers(lines)).and_then(|request| request.target)
    }

    #[test]
    fn a_cookie_comes_back_with_the_next_call() {
        // gRFCs A55, A60, A61.
        let cookie = cookie("/s");
        let first = cookie.request("/s/M", &HeaderMap::new()).unwrap();
        assert_eq!(first.target, None);
        let used = addresses(&["206.12.3.6:8080", "[2001:db8::1]:8080"]);
        let (one, other) = (used[0], used[1]);
        let set = cookie.response(&first, one, &[other, one], "canary").unwrap();
        let set = set.to_str().unwrap();
        let (pair, attributes) = set.split_once(';').unwrap();
        assert_eq!(attributes, " HttpOnly; Path=/s; Max-Age=60");
        let second = cookie.request("/s/M", &headers(&[&format!("a=b; {pair}; c=d")])).unwrap();
        let target = second.target.clone().unwrap();
        assert_eq!((&target.addresses, target.cluster.as_deref()), (&used, Some("canary")));
        // The cookie is set anew if the endpoint, its addresses or the cluster have changed.
        assert_eq!(cookie.response(&second, one, &used, "canary"), None);
        assert!(cookie.response(&second, one, &used, "stable").is_some());
        assert!(cookie.response(&second, one, &[one], "canary").is_some());
        assert!(cookie.response(&second, other, &used, "canary").is_some());
    }

    #[test]
    fn a_cookie_has_bounds() {
        // C-106
        let pair =
            |text: &str| format!("session={}", chancery_core::base64::encode(text.as_bytes()));
        assert!(target(&[&pair(&format!("1.2.3.4:80;{}", "c".repeat(5_000)))]).is_some());
        assert_eq!(target(&[&pair(&format!("1.2.3.4:80;{}", "c".repeat(9_000)))]), None);
        let many = |count| vec!["1.2.3.4:80"; count].join(",");
        assert_eq!(target(&[&pair(&many(500))]).unwrap().addresses.len(), 32);
        // A cookie that is set has as many addresses as are read, so that the session goes on.
        let all: Vec<SocketAddr> = (1..100).map(|port| ([1, 2, 3, 4], port).into()).collect();
        let begins = SessionRequest { target: None };
        let set = cookie("").response(&begins, all[50], &all, "c").unwrap();
        let (pair, _) = set.to_str().unwrap().split_once(';').unwrap();
        let again = cookie("").request("/s/M", &headers(&[pair])).unwrap();
        assert_eq!(again.target.as_ref().unwrap().addresses[..2], [all[50], all[0]]);
        assert_eq!(cookie("").response(&again, all[50], &all, "c"), None);
    }

    #[test]
    fn cookies_of_others_are_read_and_those_that_mean_nothing_are_none() {
        // gRFC A55: the first cookie with the name counts.
        let (old, new) = ("MS4yLjMuNDo4MA==", "MS4yLjMuNDo4MDtj"); // 1.2.3.4:80, 1.2.3.4:80;c
        let one = addresses(&["1.2.3.4:80"]);
        let is = |cluster: Option<&str>| {
            let cluster = cluster.map(str::to_owned);
            Some(SessionTarget { addresses: one.clone(), cluster })
        };
        assert_eq!(target(&[&format!("session={old}")]), is(None));
        assert_eq!(target(&[&format!("session=\"{new}\"")]), is(Some("c")));
        assert_eq!(
            target(&["x=y", &format!("other=1;session={new};session={old}")]),
            is(Some("c"))
        );
        for none in
            ["", "session", "session=", "session=!", "Session=MS4yLjMuNDo4MA==", "sessions=x"]
        {
            assert_eq!(target(&[none]), None, "{none}");
        }
        for text in ["orders:80", "1.2.3.4", "1.2.3.4:80,", ";c", "1.2.3.4:80,x;c"] {
            let value = chancery_core::base64::encode(text.as_bytes());
            assert_eq!(target(&[&format!("session={value}")]), None, "{text}");
        }
    }

    #[test]
    fn a_cookie_is_for_its_path_and_those_below() {
        // gRFC A55.
        for (cookie_path, path, is_for) in [
            ("", "/s/M", true),
            ("/", "/s/M", true),
            ("/s", "/s/M", true),
            ("/s/", "/s/M", true),
            ("/s/M", "/s/M", true),
            ("/s", "/s2/M", false),
            ("/s/M", "/s", false),
            ("/t", "/s/M", false),
        ] {
            let request = cookie(cookie_path).request(path, &HeaderMap::new());
            assert_eq!(request.is_some(), is_for, "{cookie_path} {path}");
        }
    }

    #[test]
    fn a_cookie_is_checked() {
        // gRFC A55.
        let new = |name, path| SessionCookie::new(name, path, Duration::ZERO);
        assert_eq!(new("", "/"), Err(SessionCookieError::NoName));
        assert_eq!(new("a\n", "/"), Err(SessionCookieError::NotAHeader));
        assert_eq!(new("a", "/\r\nx: y"), Err(SessionCookieError::NotAHeader));
        let header = new("a", "").unwrap().header("v").unwrap();
        assert_eq!(header, "a=v; HttpOnly");
    }
}
