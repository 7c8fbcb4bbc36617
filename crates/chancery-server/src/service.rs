//! The response to any request: a discovery stream, a poll, a call of another gRPC service, or an
//! error.
//!
//! A path decides, and discovery comes first. A client of gRPC gets errors as statuses. Not here:
//! the paths (`routes`), discovery itself (`grpc`, `rest`), CSDS (`csds`), other services (`tower_service`), and
//! the sending (`connection`).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::TypeUrl;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use tonic::Status;
use tracing::debug;

use crate::activity::{ActiveRequest, RequestContext};
use crate::body::ServerBody;
use crate::csds::{self, CallKind, Csds, CsdsBody, CsdsReaders};
use crate::grpc::{
    StreamService, from_a_page, grpc_response, no_such_method, out_of_memory, status_response,
};
use crate::http_error::{FROM_A_PAGE, http_error};
use crate::request_body::RequestBody;
use crate::rest::PollService;
use crate::routes::{Route, Routes};
use crate::server_state::{ServerState, StreamPermit};
use crate::tower_service::{Admission, TowerService};

/// The number of bytes that a call of a service holds, whatever it does with its messages.
const CALL_BYTES: usize = 12 * 1024;

/// Everything that answers requests.
pub(crate) struct Services {
    pub(crate) shared: Arc<ServerState>,
    routes: Routes,
    streams: StreamService,
    polls: PollService,
    others: Vec<TowerService>,
}

/// The response to a request.
pub(crate) enum ServiceResponse {
    Ready(Response<ServerBody>),
    Pending(ResponseFuture),
}

/// A response that has to be waited for.
pub(crate) type ResponseFuture = Pin<Box<dyn Future<Output = Response<ServerBody>> + Send>>;

impl Services {
    pub(crate) fn new(shared: &Arc<ServerState>, others: Vec<TowerService>) -> Self {
        Self {
            shared: Arc::clone(shared),
            routes: routes(shared),
            streams: StreamService::new(shared),
            polls: PollService::new(shared),
            others,
        }
    }

    /// Answers one request.
    pub(crate) fn answer(
        self: &Arc<Self>,
        context: &Arc<RequestContext>,
        request: Request<RequestBody>,
    ) -> ServiceResponse {
        let active = context.activity.begin();
        let path = request.uri().path();
        // A page in a browser can reach a server that only its user's machine or network can, and a
        // browser says so (DNS rebinding). `Host` says nothing: Envoy sends the name of its cluster.
        if request.headers().contains_key(header::ORIGIN) {
            debug!(peer = %context.peer, path, "refused: it comes from a web page");
            return ready(refuse_page(request.headers()));
        }
        let error = match self.routes.get(path) {
            Some(_) if request.method() != Method::POST => only_post(),
            Some(Route::Stream(_) | Route::Load | Route::Csds(_))
                if !is_grpc(request.headers()) =>
            {
                unsupported_media_type()
            }
            Some(Route::Stream(route)) => {
                return match self.streams.open(context, route, request) {
                    Ok(response) => ready(response.map(|body| ServerBody::stream(body, active))),
                    Err(status) => ready(status_response(&status)),
                };
            }
            Some(Route::Csds(kind)) => {
                return ready(self.open_csds(context, active, *kind, request));
            }
            Some(Route::CsdsPoll) => return self.poll_csds(context, active, request),
            Some(Route::Load) => return ready(self.open_load(context, active, request)),
            // The media type does not matter: the body can only be JSON, and `curl -d` says that it
            // is a form.
            Some(Route::Poll(type_url)) => {
                return self.poll(context, active, type_url.clone(), request);
            }
            None => match self.others.iter().find(|service| service.has_method(path)) {
                Some(service) if is_grpc(request.headers()) => {
                    return self.call(service, context, active, request);
                }
                _ if is_grpc(request.headers()) => {
                    return ready(status_response(&no_such_method()));
                }
                _ => http_error(StatusCode::NOT_FOUND, "there is nothing here"),
            },
        };
        ready(error.map(ServerBody::full))
    }

    fn open_load(
        &self,
        context: &RequestContext,
        active: ActiveRequest,
        request: Request<RequestBody>,
    ) -> Response<ServerBody> {
        let Some(reports) = &self.shared.load_reports else {
            return status_response(&no_such_method());
        };
        match self.streams.open_load(context, reports, request) {
            Ok(response) => response.map(|body| ServerBody::load(body, active)),
            Err(status) => status_response(&status),
        }
    }

    fn open_csds(
        &self,
        context: &RequestContext,
        active: ActiveRequest,
        kind: CallKind,
        request: Request<RequestBody>,
    ) -> Response<ServerBody> {
        let Some(csds) = &self.shared.csds else { return status_response(&no_such_method()) };
        if !csds.readers().include(&context.peer, request.headers()) {
            return status_response(&Status::permission_denied(csds.readers().refusal()));
        }
        let opened = self.streams.admit(context).and_then(|permit| {
            let charge = self.shared.charge(&context.share, CsdsBody::BYTES);
            Ok((permit, charge.map_err(out_of_memory)?))
        });
        match opened {
            Ok((permit, charge)) => {
                let (csds, activity) = ((csds.clone(), kind), Arc::clone(&context.activity));
                let body = CsdsBody::new(csds, request.into_body(), permit, activity, charge);
                grpc_response(ServerBody::csds(body, active))
            }
            Err(status) => status_response(&status),
        }
    }

    fn poll_csds(
        self: &Arc<Self>,
        context: &Arc<RequestContext>,
        active: ActiveRequest,
        request: Request<RequestBody>,
    ) -> ServiceResponse {
        let refuse = |status, text: &str| ready(http_error(status, text).map(ServerBody::full));
        let Some(csds) = self.shared.csds.clone() else {
            return refuse(StatusCode::NOT_FOUND, "there is nothing here");
        };
        if !csds.readers().include(&context.peer, request.headers()) {
            return refuse(StatusCode::FORBIDDEN, csds.readers().refusal());
        }
        let Some(permit) = StreamPermit::take(&self.shared, &context.share) else {
            let text = "the server takes no more questions, or no more of this client";
            return refuse(StatusCode::SERVICE_UNAVAILABLE, text);
        };
        let (shared, context) = (Arc::clone(&self.shared), Arc::clone(context));
        ServiceResponse::Pending(Box::pin(async move {
            let held = Csds::MAX_QUESTION + CsdsBody::BYTES;
            let charge = match shared.charge(&context.share, held) {
                Ok(charge) => charge,
                Err(shortage) => return unaffordable(&shortage.to_string()),
            };
            let patience = shared.config.times.handshake_timeout;
            let answer = match csds.answer_rest(request.into_body(), patience).await {
                Ok(answer) => answer,
                Err(refused) => return refused.map(ServerBody::full),
            };
            match shared.metrics.counted(charge.set(CsdsBody::BYTES + answer.len())) {
                Ok(()) => csds::json_response(ServerBody::answer(answer, (permit, charge), active)),
                Err(shortage) => unaffordable(&shortage.to_string()),
            }
        }))
    }

    fn poll(
        self: &Arc<Self>,
        context: &Arc<RequestContext>,
        active: ActiveRequest,
        type_url: TypeUrl,
        request: Request<RequestBody>,
    ) -> ServiceResponse {
        let (services, context) = (Arc::clone(self), Arc::clone(context));
        ServiceResponse::Pending(Box::pin(async move {
            services.polls.answer(&context, active, &type_url, request).await
        }))
    }

    /// Calls a tower service. The body, the permit and the charge of a call end together.
    fn call(
        &self,
        service: &TowerService,
        context: &RequestContext,
        active: ActiveRequest,
        request: Request<RequestBody>,
    ) -> ServiceResponse {
        let activity = Arc::clone(&context.activity);
        let charge = match self.shared.charge(&context.share, CALL_BYTES) {
            Ok(charge) => charge,
            Err(shortage) => return ready(status_response(&out_of_memory(shortage))),
        };
        let permit = match service.admission {
            Admission::Always => None,
            Admission::Limited => match self.streams.admit(context) {
                Ok(permit) => Some(permit),
                Err(status) => return ready(status_response(&status)),
            },
        };
        let mut request = request.map(tonic::body::Body::new);
        request.extensions_mut().insert(Arc::clone(&context.peer));
        let response = service.call(request);
        ServiceResponse::Pending(Box::pin(async move {
            let counted = (permit, charge);
            response.await.map(|body| ServerBody::service(body, activity, counted, active))
        }))
    }
}

/// The paths that the server knows.
fn routes(shared: &ServerState) -> Routes {
    let mut routes = Routes::new(&shared.schema, shared.config.v2);
    if shared.load_reports.is_some() {
        routes.add_load();
    }
    if shared.csds.as_ref().is_some_and(|csds| csds.readers() != CsdsReaders::Nobody) {
        routes.add_csds();
    }
    routes
}

/// The refusal of what its client may not hold.
fn unaffordable(why: &str) -> Response<ServerBody> {
    http_error(StatusCode::SERVICE_UNAVAILABLE, why).map(ServerBody::full)
}

fn ready(response: Response<ServerBody>) -> ServiceResponse {
    ServiceResponse::Ready(response)
}

/// The refusal of a request that a page in a browser sent.
fn refuse_page(headers: &HeaderMap) -> Response<ServerBody> {
    if is_grpc(headers) {
        return status_response(&from_a_page());
    }
    http_error(StatusCode::FORBIDDEN, FROM_A_PAGE).map(ServerBody::full)
}

fn is_grpc(headers: &HeaderMap) -> bool {
    media_type(headers).is_some_and(|it| it == "application/grpc" || it == "application/grpc+proto")
}

/// The media type without its parameters, such as the charset.
fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?;
    let text = value.to_str().unwrap_or("?");
    Some(text.split(';').next().unwrap_or("").trim().to_ascii_lowercase())
}

fn only_post() -> Response<Bytes> {
    let mut response = http_error(StatusCode::METHOD_NOT_ALLOWED, "only POST is allowed here");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
    response
}

fn unsupported_media_type() -> Response<Bytes> {
    http_error(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "the body is of a media type not understood here",
    )
}
