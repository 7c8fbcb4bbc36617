//! The attempts of one call: each is given an endpoint and sent there. A call that no program has seen is sent
//! again, and others by the policy of their route (C-148, gRFC A6, gRFC A44).
//!
//! Not here: the decision after an attempt (`chancery_calls::retrying`), and the messages (`replay`).

use std::sync::Arc;
use std::time::Duration;

use chancery_calls::filters::faults::AbortStatus;
use chancery_calls::retrying::{AttemptEnd, NextAttempt, Pushback, Retries};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{Request, Response, Uri};
use hyper::client::conn::TrySendError;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tonic::Status;
use tonic::body::Body;

use super::awaited::{self, exceeded};
use super::body::{ResponseBody, Sent, at_end, is_refused, lost};
use super::call::{Way, within};
use super::deadline;
use super::pick::{self, Asked, Chosen, NotChosen};
use super::place::CallPlace;
use super::replay::Replay;
use super::sessions::CallSession;
use crate::codes::{code, status};
use crate::connect::Sender;
use crate::dice::ThreadDice;
use crate::metrics::{AttemptMeter, CallMeter, RetryKind};
use crate::read::quoted;

/// A call that has its way.
pub(super) struct Attempts<'a> {
    pub(super) way: Way,
    pub(super) head: Parts,
    pub(super) authority: Authority,
    pub(super) messages: Replay,
    pub(super) waits: bool,
    pub(super) end: Option<Instant>,
    pub(super) meter: Option<&'a mut CallMeter>,
}

/// An attempt that has not succeeded, and the answer of the caller if it was the last one.
struct Failed {
    end: AttemptEnd,
    answer: Result<Response<ResponseBody>, Status>,
}

impl Attempts<'_> {
    /// Makes attempts until one is answered, or there is no other.
    pub(super) async fn run(&mut self) -> Result<Response<ResponseBody>, Status> {
        let mut retries = Retries::new(self.way.retry.clone());
        let mut tries = 0_u32;
        loop {
            tries = tries.saturating_add(1);
            let failed = match self.attempt(tries, &retries).await {
                Ok(response) => {
                    self.messages.commit();
                    return Ok(response);
                }
                Err(failed) => failed,
            };
            if !self.messages.end() {
                retries.commit();
            }
            match retries.after(failed.end, self.left(), None, &mut ThreadDice) {
                NextAttempt::Transparent => self.retried(RetryKind::Transparent),
                NextAttempt::After(wait) => {
                    self.retried(RetryKind::Policy(wait));
                    // The attempt gives back before the wait all that it holds.
                    drop(failed.answer);
                    sleep(wait).await;
                }
                NextAttempt::UntilDeadline => {
                    let late = another(failed);
                    if let Some(end) = self.end {
                        sleep_until(end).await;
                    }
                    return Err(late);
                }
                NextAttempt::Stop(_) => return failed.answer,
            }
        }
    }

    fn retried(&mut self, kind: RetryKind) {
        if let Some(meter) = &mut self.meter {
            meter.retried(kind);
        }
    }

    /// Addresses the call to the service, whatever the client that made it has put there.
    fn uri(&self, hostname: &str, sender: &Sender) -> Result<Uri, Status> {
        let authority = match hostname {
            name if self.way.rewrites_authority && !name.is_empty() => rewritten(name, sender)?,
            _ => self.authority.clone(),
        };
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(sender.scheme());
        parts.authority = Some(authority);
        let path = self.head.uri.path_and_query().cloned();
        parts.path_and_query = Some(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        Uri::from_parts(parts).map_err(|error| Status::internal(error.to_string()))
    }

    /// The time up to the deadline.
    fn left(&self) -> Option<Duration> {
        self.end.map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// Chooses an endpoint, and says how the call is addressed there.
    async fn choose(&self, asked: Asked<'_>) -> Result<(Uri, Chosen), (AttemptEnd, Status)> {
        let cluster = &self.way.cluster;
        let chosen = match pick::pick(cluster, asked) {
            Ok(Some(chosen)) => Ok(chosen),
            Ok(None) => {
                let late = || exceeded(awaited::connection(cluster, asked));
                let waited = within(self.end, Box::pin(pick::wait(cluster, asked)), late).await;
                waited.map_err(|status| (AttemptEnd::Dropped, status))?
            }
            Err(why) => Err(why),
        };
        let chosen = chosen.map_err(not_chosen)?;
        let uri = self.uri(&chosen.picked.endpoint.hostname, &chosen.sender);
        Ok((uri.map_err(|status| (AttemptEnd::Dropped, status))?, chosen))
    }

    async fn attempt(
        &self,
        tries: u32,
        retries: &Retries,
    ) -> Result<Response<ResponseBody>, Failed> {
        let Way { cluster, hash, sessions, .. } = &self.way;
        let session = sessions.as_ref().and_then(|sessions| sessions.session());
        // All attempts wish for the same endpoint, and the last one says where it went (gRFC A55).
        let asked = Asked {
            head: &self.head,
            hash: *hash,
            session: session.map(CallSession::addresses),
            waits: self.waits,
        };
        let mut meter = self.meter.as_ref().map(|it| it.attempt(&cluster.name, self.end));
        let (uri, Chosen { picked, permit, mut sender }) = match self.choose(asked).await {
            Ok(chosen) => chosen,
            Err((end, status)) => {
                if let Some(meter) = meter {
                    meter.ended(status.code());
                }
                return Err(Failed { end, answer: Err(status) });
            }
        };
        let mut head = self.head.clone();
        head.uri = uri;
        if let Some(left) = self.left() {
            deadline::state(&mut head.headers, left);
        }
        if let Some(previous) = retries.previous_attempts() {
            head.headers.insert(PREVIOUS_ATTEMPTS, HeaderValue::from(previous));
        }
        let place = CallPlace::new(&cluster.name, &picked, tries);
        if let Some(meter) = &mut meter {
            meter.goes_to(&place.cluster, &picked.endpoint.locality);
        }
        let (body, running) = self.messages.attempt(meter.as_ref().map(AttemptMeter::count_sent));
        let mut sent = Sent::new(picked, permit, Arc::clone(cluster), meter);
        sent.keeps_open(running);
        let request: Request<Body> = Request::from_parts(head, body);
        let answer = sender.try_send_request(request);
        // A call that arrives while its connection ends may stay in the queue of that until the last sender is
        // dropped. This call must not wait for itself.
        drop(sender);
        // Not by `within`: an answer is large, and each function that it passes copies it.
        let answer = match self.end {
            None => answer.await,
            Some(end) => match timeout_at(end, answer).await {
                Ok(answer) => answer,
                Err(_) => return Err(late(sent)),
            },
        };
        match answer {
            Ok(mut response) => {
                if let Some(session) = session {
                    session.answer(response.headers_mut(), &place, &cluster.name);
                }
                response.extensions_mut().insert(place);
                sent.hear(response.headers());
                let end = failure(&response);
                if let Some(AttemptEnd::Failed { code, .. }) = &end {
                    // An answer that is not of gRPC has no status of its own.
                    sent.ends(tonic::Code::from_i32(*code as i32));
                }
                let deadline = self.end.map(|end| Box::pin(sleep_until(end)));
                let response = response.map(|inner| ResponseBody::new(inner, deadline, sent));
                match end {
                    Some(end) => Err(Failed { end, answer: Ok(response) }),
                    None => Ok(response),
                }
            }
            Err(error) => Err(not_answered(error, sent, self.end)),
        }
    }
}

/// Returns the failure of an attempt whose time is over.
fn late(mut sent: Sent) -> Failed {
    let status = exceeded(awaited::answer(sent.picked()));
    sent.ends(status.code());
    Failed { end: AttemptEnd::Dropped, answer: Err(status) }
}

/// Returns the failure of an attempt whose connection has broken, or has not taken it.
fn not_answered(
    mut error: TrySendError<Request<Body>>,
    mut sent: Sent,
    end: Option<Instant>,
) -> Failed {
    // The connection took no more calls, and the driver will hear of it.
    let was_sent = error.take_message().is_none();
    let error = error.into_error();
    let late = || exceeded(awaited::answer(sent.picked()));
    let status = at_end(lost(&error), end, late);
    sent.ends(status.code());
    let end = match status.code() {
        _ if !was_sent => AttemptEnd::NeverSent,
        of if is_refused(&error) => AttemptEnd::Refused(code(of)),
        of => AttemptEnd::Failed { code: code(of), pushback: None },
    };
    Failed { end, answer: Err(status) }
}

/// The failure of a response that has a status and nothing else, or is none of gRPC, as that of a proxy on the way.
/// Such a response does not commit the call.
fn failure<B>(response: &Response<B>) -> Option<AttemptEnd> {
    let headers = response.headers();
    let Some(stated) = headers.get("grpc-status") else {
        let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let is_grpc = content_type.is_some_and(|it| it.starts_with(b"application/grpc"));
        let status = AbortStatus::from_http(response.status().as_u16().into());
        return match status {
            Some(AbortStatus::Code(code)) if !is_grpc => {
                Some(AttemptEnd::Failed { code, pushback: None })
            }
            _ => None,
        };
    };
    let of = tonic::Code::from_bytes(stated.as_bytes());
    let pushback = Pushback::read(headers);
    (of != tonic::Code::Ok).then(|| AttemptEnd::Failed { code: code(of), pushback })
}

/// Returns the status of a call whose time is over before it is tried again. The attempt gives back all that it
/// holds.
fn another(failed: Failed) -> Status {
    let code = match failed.end {
        AttemptEnd::Refused(code) | AttemptEnd::NotPicked(code) => code,
        AttemptEnd::Failed { code, .. } => code,
        AttemptEnd::Dropped | AttemptEnd::NeverSent => return exceeded("another attempt"),
    };
    exceeded(format_args!("another attempt, as the last one has ended with {code}"))
}

/// Returns the end of an attempt for which no endpoint was chosen.
fn not_chosen(why: NotChosen) -> (AttemptEnd, Status) {
    match why {
        NotChosen::Dropped(failure) => (AttemptEnd::Dropped, status(&failure)),
        NotChosen::Failed(failure) => (AttemptEnd::NotPicked(failure.code), status(&failure)),
    }
}

/// Returns the authority that a hostname makes. A certificate that has to be for the host has to be for this one
/// too (C-127).
fn rewritten(hostname: &str, sender: &Sender) -> Result<Authority, Status> {
    let unavailable = |why: String| Status::unavailable(format!("`{}`: {why}", quoted(hostname)));
    let authority =
        Authority::try_from(hostname).map_err(|error| unavailable(error.to_string()))?;
    match sender.is_for(&authority) {
        true => Ok(authority),
        false => {
            let why =
                "it is the authority of the call, and the certificate of the server is not for it";
            Err(unavailable(why.to_owned()))
        }
    }
}

/// The number of attempts that servers have seen before this one.
const PREVIOUS_ATTEMPTS: &str = "grpc-previous-rpc-attempts";
