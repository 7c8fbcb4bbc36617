//! The admin interface of a server, as commands ask it.
//!
//! Not here: the interface itself (`admin`), and one request with its answer (`exchange`).

mod args;
mod connect;
mod exchange;
mod nodes;
mod usual;

use std::fmt::{self, Display, Formatter, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, anyhow};
use chancery_core::printable::{MAX_MESSAGE_BYTES, Printable, cut};
use serde::de::DeserializeOwned;

pub(crate) use self::args::{AdminAccess, AdminArgs, AdminServer, HEADING};
use self::connect::Route;
pub(crate) use self::exchange::{Reply, Unanswered};
pub(crate) use self::nodes::{ConnectedNode, ConnectedNodes, value_of};
use crate::admin::{ErrorDocument, NO_SUCH_PATH};
use crate::config::AdminAddress;
use crate::exit::Failure;

/// The admin interface of a server.
#[derive(Clone, Debug)]
pub(crate) struct AdminClient {
    route: Route,
    /// The server, as it is named in `Host` and to people.
    name: String,
    /// The header with the token, if there is one. It is not for people.
    credentials: Credentials,
    answer_time: Duration,
}

/// A header with a token, or nothing.
#[derive(Clone, Default)]
struct Credentials(String);

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "a token" })
    }
}

impl AdminClient {
    /// The interface at an address.
    fn new(address: AdminAddress) -> Result<Self, Failure> {
        let AdminAddress::On(server) = address else {
            return Err(Failure::misuse("there is no admin interface at `off`: `--admin` has it"));
        };
        let server = local(server);
        let (route, name) = (Route::Address(server), server.to_string());
        Ok(Self { route, name, credentials: Credentials::default(), answer_time: ANSWER_TIME })
    }

    /// The interface at a place, asked as the flags say.
    pub(crate) fn at(server: &AdminServer, access: &AdminAccess) -> Result<Self, Failure> {
        let (client, is_private) = match server {
            AdminServer::At(address) => {
                let is_local = |server: SocketAddr| local(server).ip().to_canonical().is_loopback();
                let is_private = matches!(*address, AdminAddress::On(server) if is_local(server));
                (Self::new(*address)?, is_private)
            }
            AdminServer::Url { tls, authority } => {
                let route = match tls {
                    false => Route::Host(authority.clone()),
                    true => Route::Tls(authority.clone(), connect::tls(access)?),
                };
                let (name, credentials) = (authority.clone(), Credentials::default());
                (Self { route, name, credentials, answer_time: ANSWER_TIME }, *tls)
            }
        };
        let is_tls = matches!(client.route, Route::Tls(..));
        if !is_tls && access.is_given() {
            return Err(Failure::misuse(
                "`--admin-ca` and `--admin-cert` need `--admin https://…`",
            ));
        }
        let Some(path) = &access.admin_token_file else { return Ok(client) };
        if !is_private {
            return Err(Failure::misuse(
                "a token is sent over TLS alone: others could read it; give `--admin https://…`",
            ));
        }
        let shown = path.display().to_string();
        let read = chancery_files::read_to_string(path, MAX_TOKEN_BYTES);
        let token = read.with_context(|| format!("cannot read the token in `{shown}`"))?;
        let token = token.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let odd =
                format!("`{shown}` has no token: a word of ASCII characters, and nothing else");
            return Err(Failure::broken(anyhow!(odd)));
        }
        let credentials = Credentials(format!("authorization: Bearer {token}\r\n"));
        Ok(Self { credentials, ..client })
    }

    /// The same interface, which is waited for no longer than that.
    pub(crate) fn within(self, answer_time: Duration) -> Self {
        Self { answer_time, ..self }
    }

    /// Asks for a path.
    pub(crate) fn get(&self, path: &str) -> Result<Reply, Failure> {
        let Self { name, credentials: Credentials(credentials), .. } = self;
        self.ask(&format!(
            "GET {path} HTTP/1.1\r\nhost: {name}\r\n{credentials}connection: close\r\n\r\n"
        ))
    }

    /// Sends JSON to a path.
    pub(crate) fn post(&self, path: &str, json: &str) -> Result<Reply, Failure> {
        let Self { name, credentials: Credentials(credentials), .. } = self;
        self.ask(&format!(
            "POST {path} HTTP/1.1\r\nhost: {name}\r\n{credentials}content-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{json}",
            json.len()
        ))
    }

    /// The document in a reply, if it is one.
    pub(crate) fn document<D: DeserializeOwned>(&self, reply: &Reply) -> Result<D, Failure> {
        let text = reply.body.trim_end();
        match reply.status {
            200 => serde_json::from_str(text).map_err(|error| {
                let error = anyhow::Error::from(error).context(format!("`{self}` is no chancery"));
                Failure::broken(error)
            }),
            _ => Err(self.refused(reply)),
        }
    }

    /// The failure that a reply without a document is.
    pub(crate) fn refused(&self, reply: &Reply) -> Failure {
        let status = reply.status;
        let Some(ErrorDocument { code, message, hint }) = reply.error() else {
            let text = cut(reply.body.trim_end(), MAX_MESSAGE_BYTES);
            let error = anyhow!("`{self}` answered {status}: {text}");
            return match status {
                404 => Failure::broken(error).hint(WRONG_ADDRESS),
                _ => Failure::broken(error),
            };
        };
        let failure = Failure::broken(anyhow!("`{self}` answered {status}: {message}"));
        match hint {
            // A list of what is there helps whoever writes requests by hand.
            _ if code == NO_SUCH_PATH => failure.hint("the server is older than this command"),
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    fn ask(&self, request: &str) -> Result<Reply, Failure> {
        let asked = exchange::exchange(&self.route, request, self.answer_time);
        asked
            .with_context(|| format!("cannot ask `{self}`"))
            .map_err(|error| Failure::broken(error).hint(WRONG_ADDRESS))
    }
}

impl Display for AdminClient {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Printable(&self.name).fmt(f)
    }
}

/// A text as a part of a query, in which all but plain letters and digits are percent-encoded.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
                out.push(char::from(byte))
            }
            _ => write!(out, "%{byte:02X}").unwrap_or_default(),
        }
    }
    out
}

/// The address at which a server on this machine is reached that listens on all of its addresses.
fn local(admin: SocketAddr) -> SocketAddr {
    let ip = match admin.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, admin.port())
}

const WRONG_ADDRESS: &str = "give the address of the admin interface with `--admin`";

/// The bytes of a file with a token.
const MAX_TOKEN_BYTES: u64 = 4096;

/// The time to wait for the server, which applies a confirmation before it answers.
const ANSWER_TIME: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_is_asked_over_loopback() {
        let local = |text: &str| local(text.parse().unwrap()).to_string();
        assert_eq!(local("0.0.0.0:1"), "127.0.0.1:1");
        assert_eq!(local("[::]:1"), "[::1]:1");
        assert_eq!(local("10.1.2.3:1"), "10.1.2.3:1");
    }
}
