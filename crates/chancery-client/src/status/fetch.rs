//! CSDS from the other side: a question to a server of it, and the answer.
//!
//! It may be a client that tells of itself ([`StatusServer`](super::StatusServer), a gRPC application), or
//! an xDS server that tells of its clients.

use std::pin::pin;

use bytes::Bytes;
use chancery_core::ErrorDetail;
use chancery_proto::wire::{ClientConfig, decode_client_status, encode_client_status_request};
use h2::client::SendRequest;
use tokio::time::timeout;

use super::server::FETCH;
use crate::bootstrap::XdsServer;
use crate::calls::client::Caller;
use crate::errors::{error_chain, internal, unavailable};
use crate::options::Options;

/// A question for the status of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusQuestion {
    /// The id of the node that is asked about. By default the question is about all that the server
    /// tells of; a client that tells of itself takes no other one.
    pub node: Option<String>,
    /// True if the bodies of resources are not needed.
    pub exclude_contents: bool,
}

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message)]
pub struct FetchError(ErrorDetail);

impl FetchError {
    /// The status of the call, as gRPC counts them.
    pub fn code(&self) -> i32 {
        self.0.code
    }
}

/// Asks a CSDS server once. Of the options, those of connections and the largest response count; the
/// answer has as much time as a connection.
///
/// # Errors
/// If the server cannot be reached, does not answer in time, or refuses to answer.
pub async fn fetch(
    server: &XdsServer,
    question: &StatusQuestion,
    options: &Options,
) -> Result<Vec<ClientConfig>, FetchError> {
    let caller = Caller::new(server, options.clone());
    let (connection, driver) =
        caller.connect().await.map_err(|why| FetchError(unavailable(why)))?;
    let limit = options.connect_timeout;
    let mut asked = pin!(timeout(limit, ask(&caller, connection.sender(), question)));
    let late = || unavailable(format!("no answer within {limit:?}"));
    let answer = tokio::select! {
        answer = &mut asked => answer.unwrap_or_else(|_| Err(late())),
        // The reader returns a better error for the end of the connection.
        () = driver => asked.await.unwrap_or_else(|_| Err(late())),
    };
    let message = answer.map_err(FetchError)?;
    decode_client_status(&message).map_err(|error| FetchError(internal(error_chain(&error))))
}

async fn ask(
    caller: &Caller,
    sender: SendRequest<Bytes>,
    question: &StatusQuestion,
) -> Result<Bytes, ErrorDetail> {
    let (mut inbox, mut out) = caller.open(sender, FETCH).await?;
    let StatusQuestion { node, exclude_contents } = question;
    let message = encode_client_status_request(node.as_deref(), *exclude_contents);
    // A server that refuses the call may do so before it has read the question.
    let is_written = out.write(&message).await.is_ok();
    if is_written {
        out.finish();
    }
    let answer = inbox.next().await?;
    // A call of one answer ends well, or has none.
    match inbox.next().await {
        Ok(_) => Err(internal("the server sent two answers to one question".to_owned())),
        Err(end) if end.code == 0 => Ok(answer),
        Err(end) => Err(end),
    }
}
