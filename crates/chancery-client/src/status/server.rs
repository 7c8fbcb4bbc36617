//! CSDS: a server that sends tools the state of clients when they ask for it (C-136).
//!
//! Each response answers one request, on a stream too; there are no responses about changes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::{fmt, io};

use chancery_core::ErrorDetail;
use chancery_proto::wire::{ClientConfig, decode_client_status_request, encode_client_status};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::calls::messages::{Incoming, MessageReader, MessageWriter};
use crate::calls::server::{CallLimits, IncomingCall, serve};
use crate::calls::status;

/// Answers tools that ask for the state of clients, until it is dropped.
///
/// An answer shows the configuration of the program, without its secrets. Choose an address beyond
/// loopback only if all who can reach it may see that.
///
/// ```no_run
/// use chancery_client::{Bootstrap, Client, Options};
/// use chancery_client::status::StatusServer;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::new(&Bootstrap::discover(None)?, Options::default())?;
/// let shown = client.clone();
/// let server =
///     StatusServer::start("127.0.0.1:15099".parse()?, move || vec![shown.status()]).await?;
/// println!("grpcdebug {} xds status", server.address());
/// # Ok(())
/// # }
/// ```
pub struct StatusServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

type StatusSource = dyn Fn() -> Vec<ClientConfig> + Send + Sync;

/// The methods of the service.
#[derive(Clone, Copy, PartialEq)]
enum StatusMethod {
    /// One request, and one response.
    Fetch,
    /// A response for each request.
    Stream,
}

/// The path of the method with one answer.
pub(super) const FETCH: &str =
    "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";
const STREAM: &str = "/envoy.service.status.v3.ClientStatusDiscoveryService/StreamClientStatus";

const LIMITS: CallLimits = CallLimits { connections: 32, calls: 8, message_bytes: 64 * 1024 };

impl StatusServer {
    /// Listens on an address; port 0 is any free one. `clients` is called for each answer.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn start(
        at: SocketAddr,
        clients: impl Fn() -> Vec<ClientConfig> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(at).await?;
        let address = listener.local_addr()?;
        let clients: Arc<StatusSource> = Arc::new(clients);
        let answer = move |call| answer(call, Arc::clone(&clients));
        let task = tokio::spawn(serve(listener, LIMITS, answer));
        Ok(Self { address, task })
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for StatusServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for StatusServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatusServer").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Answers one call.
async fn answer(call: IncomingCall, clients: Arc<StatusSource>) {
    let method = match call.path() {
        FETCH => StatusMethod::Fetch,
        STREAM => StatusMethod::Stream,
        _ => {
            let why = "this is the status of a client, and nothing else";
            return call.refuse(&error(ErrorDetail::UNIMPLEMENTED, why));
        }
    };
    let Some((mut requests, mut responses)) = call.accept() else { return };
    // An error of the connection means that the caller has gone.
    if let Ok(end) = respond(method, &mut requests, &mut responses, &*clients).await {
        responses.end(status::trailers(&end));
    }
}

/// Answers requests until there are no more of them, and returns the status of the call.
async fn respond(
    method: StatusMethod,
    requests: &mut MessageReader,
    responses: &mut MessageWriter,
    clients: &StatusSource,
) -> Result<ErrorDetail, h2::Error> {
    loop {
        let message = match requests.next().await? {
            Incoming::Message(message) => message,
            Incoming::End if method == StatusMethod::Stream => return Ok(ErrorDetail::default()),
            Incoming::End => return Ok(error(ErrorDetail::INTERNAL, "there is no question")),
            Incoming::CutShort => {
                return Ok(error(ErrorDetail::INTERNAL, "a question ends in its middle"));
            }
            Incoming::Malformed(why) => {
                return Ok(error(ErrorDetail::INTERNAL, &why.to_string()));
            }
        };
        let request = match decode_client_status_request(&message) {
            Ok(request) => request,
            Err(why) => return Ok(error(ErrorDetail::INTERNAL, &why.to_string())),
        };
        if !request.matchers.is_empty() {
            let why = "`node_matchers` choose among clients; this is one, and knows no other";
            return Ok(error(ErrorDetail::INVALID_ARGUMENT, why));
        }
        let mut clients = clients();
        if request.exclude_contents {
            let all = clients.iter_mut().flat_map(|client| &mut client.generic_xds_configs);
            all.for_each(|resource| resource.xds_config = None);
        }
        responses.write(&encode_client_status(&clients)).await?;
        if method == StatusMethod::Fetch {
            return Ok(ErrorDetail::default());
        }
    }
}

fn error(code: i32, why: &str) -> ErrorDetail {
    ErrorDetail { code, message: why.to_owned() }
}
