//! The HTTP filters that a call passes before it is sent (C-093, C-150).
//!
//! Not here: the decisions of a filter (`chancery_calls::filters`), and the filters that a listener may have
//! (`read::listeners`).

use chancery_calls::filters::faults::Fault;
use chancery_calls::filters::{FilterChain, FilterConfig};
use http::Response;
use http::request::Parts;
use tokio::time::sleep;
use tonic::Status;

use super::body::ResponseBody;
use super::call::status;
use crate::dice::ThreadDice;
use crate::extend::{CallSide, FilteredCall, ProgramFilter};
use crate::process;
use crate::read::quoted;

/// Passes the filters in their order. Returns the answer of the call if one of them ends it.
pub(super) async fn pass(
    chain: &FilterChain,
    head: &mut Parts,
) -> Option<Result<Response<ResponseBody>, Status>> {
    for filter in chain.filters() {
        let fault = match &filter.config {
            FilterConfig::Router | FilterConfig::Disabled => None,
            FilterConfig::Faults(policy) => {
                policy.decide(&head.headers, process::active_faults(), &mut ThreadDice)
            }
            FilterConfig::Custom(_) => {
                let Some(program) = filter.config.custom::<ProgramFilter>() else { continue };
                let (path, headers) = (head.uri.path(), &mut head.headers);
                let call = FilteredCall { side: CallSide::Client, path, headers };
                match program.before(call).await {
                    Ok(()) => None,
                    Err(status) => return Some(Err(status)),
                }
            }
            // A listener cannot have it, but a route can put it in the place of one that is off.
            other => {
                let why =
                    format!("the HTTP filter `{}` is not supported yet", quoted(other.kind()));
                return Some(Err(Status::unavailable(why)));
            }
        };
        let Some(fault) = fault else { continue };
        if let Some(answer) = suffer(fault).await {
            return Some(answer);
        }
    }
    None
}

/// Waits and ends as the fault says. It counts as active until then.
async fn suffer(fault: Fault) -> Option<Result<Response<ResponseBody>, Status>> {
    let Fault { delay, abort, permit: _permit } = fault;
    if let Some(delay) = delay {
        sleep(delay).await;
    }
    Some(match abort?.failure() {
        Some(failure) => Err(status(failure)),
        None => Ok(ok()),
    })
}

/// The answer of a server that says OK and nothing else.
fn ok() -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::empty());
    let headers = response.headers_mut();
    headers.insert("grpc-status", http::HeaderValue::from_static("0"));
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/grpc"));
    response
}
