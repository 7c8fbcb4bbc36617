//! The HTTP filters that a call passes before it is sent (C-093, C-150).
//!
//! Not here: the decisions of a filter (`chancery_calls::filters`), and the filters that a listener may have
//! (`read::listeners`).

use chancery_calls::Failure;
use chancery_calls::filters::faults::Fault;
use chancery_calls::filters::{FilterChain, FilterConfig};
use http::Response;
use http::request::Parts;
use tokio::time::sleep;
use tonic::Status;

use super::body::ResponseBody;
use super::call::Way;
use super::sessions::CallSessions;
use crate::codes::status;
use crate::dice::ThreadDice;
use crate::extend::{CallSide, FilteredCall, ProgramFilter};
use crate::process;
use crate::read::quoted;

/// Passes the filters in their order. Returns the answer of the call if one of them ends it. A session may lead the
/// call another way.
pub(super) async fn pass(
    way: &mut Way,
    authority: &str,
    head: &mut Parts,
) -> Option<Result<Response<ResponseBody>, Status>> {
    let Way { filters, sessions, cluster, .. } = way;
    for filter in filters.filters() {
        let fault = match &filter.config {
            FilterConfig::Router | FilterConfig::Disabled => None,
            FilterConfig::Faults(policy) => {
                policy.decide(&head.headers, process::active_faults(), &mut ThreadDice)
            }
            FilterConfig::Custom(_) => {
                let Some(program) = filter.config.custom::<ProgramFilter>() else { continue };
                let call = FilteredCall {
                    side: CallSide::Client,
                    authority,
                    path: head.uri.path(),
                    headers: &mut head.headers,
                    connection: None,
                };
                match program.before(call).await {
                    Ok(()) => None,
                    Err(status) => return Some(Err(status)),
                }
            }
            FilterConfig::Session(cookie) => {
                let begin =
                    |it: &mut Box<CallSessions>| it.begin(cookie, head.uri.path(), &head.headers);
                if let Some(other) = sessions.as_mut().and_then(begin) {
                    *cluster = other;
                }
                None
            }
            // A listener cannot have it, but a route can put it in the place of one that is off.
            other => return Some(Err(status(&unsupported(other)))),
        };
        let Some(fault) = fault else { continue };
        if let Some(answer) = suffer(fault).await {
            return Some(answer);
        }
    }
    *sessions = sessions.take().and_then(CallSessions::chosen);
    None
}

/// Returns the failure of a call that ends at one of the filters whatever the dice say: at a filter that is not
/// supported, or one that aborts all calls.
pub(super) fn certain_end(chain: &FilterChain) -> Option<Failure> {
    chain.filters().iter().find_map(|filter| match &filter.config {
        FilterConfig::Router
        | FilterConfig::Disabled
        | FilterConfig::Session(_)
        | FilterConfig::Custom(_) => None,
        FilterConfig::Faults(policy) => policy.certain_abort()?.failure(),
        other => Some(unsupported(other)),
    })
}

fn unsupported(filter: &FilterConfig) -> Failure {
    let why = format!("the HTTP filter `{}` is not supported yet", quoted(filter.kind()));
    Failure::unavailable(why)
}

/// Waits and ends as the fault says. It counts as active until then.
async fn suffer(fault: Fault) -> Option<Result<Response<ResponseBody>, Status>> {
    let Fault { delay, abort, permit: _permit } = fault;
    if let Some(delay) = delay {
        sleep(delay).await;
    }
    Some(match abort?.failure() {
        Some(failure) => Err(status(&failure)),
        None => Ok(ok()),
    })
}

/// The answer of a server that says OK and nothing else.
fn ok() -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::default());
    let headers = response.headers_mut();
    headers.insert("grpc-status", http::HeaderValue::from_static("0"));
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/grpc"));
    response
}
