//! What a request is for: a discovery stream, a poll, health, reflection, or nothing we have.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use tonic::Status;
use tonic::codegen::Service as TowerService;

use crate::body::{ConnectionActivity, ServerBody};
use crate::policy::Peer;
use crate::request::RequestBody;
use crate::routes::{Route, Routes};
use crate::shared::Shared;
use crate::{grpc, rest};

type TonicFuture = Pin<Box<dyn Future<Output = Response<tonic::body::Body>> + Send>>;

/// A gRPC service that is not ours: health and reflection.
pub(crate) struct GrpcService {
    prefix: String,
    call: Box<dyn Fn(Request<RequestBody>) -> TonicFuture + Send + Sync>,
}

/// All that answers requests.
pub(crate) struct Services {
    pub(crate) shared: Arc<Shared>,
    pub(crate) routes: Routes,
    pub(crate) grpc_services: Vec<GrpcService>,
}

/// The answer to a request.
pub(crate) enum ServiceResponse {
    Ready(Response<ServerBody>),
    Pending(ResponseFuture),
}

/// An answer that has to be waited for.
pub(crate) type ResponseFuture = Pin<Box<dyn Future<Output = Response<ServerBody>> + Send>>;

/// Where a request came from.
pub(crate) struct RequestContext {
    pub(crate) peer: Arc<Peer>,
    pub(crate) activity: Arc<ConnectionActivity>,
}

impl GrpcService {
    pub(crate) fn new<S>(service: S) -> Self
    where
        S: tonic::server::NamedService + Clone + Send + Sync + 'static,
        S: TowerService<
                Request<RequestBody>,
                Response = Response<tonic::body::Body>,
                Error = std::convert::Infallible,
            >,
        S::Future: Send + 'static,
    {
        let call = move |request| -> TonicFuture {
            let answer = service.clone().call(request);
            Box::pin(async move { answer.await.unwrap_or_else(|never| match never {}) })
        };
        Self { prefix: format!("/{}/", S::NAME), call: Box::new(call) }
    }
}

impl Services {
    /// Responder one request.
    pub(crate) fn answer(
        self: &Arc<Self>,
        context: &Arc<RequestContext>,
        request: Request<RequestBody>,
    ) -> ServiceResponse {
        let active = context.activity.begin();
        let path = request.uri().path();
        ServiceResponse::Ready(match self.routes.get(path) {
            Some(Route::Stream(_)) if request.method() != Method::POST => only_post(),
            Some(Route::Stream(_)) if !is_grpc(request.headers()) => unsupported_media_type(),
            Some(Route::Stream(route)) => {
                grpc::open(&self.shared, &context.peer, route, active, request)
            }
            Some(Route::Poll(_)) if request.method() != Method::POST => only_post(),
            // Whatever the body is said to be: it is JSON, there is nothing else it could be, and
            // `curl -d` says that it is a form.
            Some(Route::Poll(type_url)) => {
                let (services, context) = (Arc::clone(self), Arc::clone(context));
                let type_url = type_url.clone();
                return ServiceResponse::Pending(Box::pin(async move {
                    let _active = active;
                    rest::answer(&services.shared, &context, &type_url, request).await
                }));
            }
            None => match self.grpc_services.iter().find(|it| path.starts_with(&it.prefix)) {
                Some(service) if is_grpc(request.headers()) => {
                    let answer = (service.call)(request);
                    return ServiceResponse::Pending(Box::pin(async move {
                        answer.await.map(|body| ServerBody::service(body, active))
                    }));
                }
                _ => not_found(request.headers()),
            },
        })
    }
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

/// A gRPC client is told in its own way; the method may be of v2, which is not enabled (S-010).
fn not_found(headers: &HeaderMap) -> Response<ServerBody> {
    if is_grpc(headers) {
        return grpc::refuse(&Status::unimplemented("this server has no such method"));
    }
    refuse(StatusCode::NOT_FOUND, "there is nothing here")
}

fn only_post() -> Response<ServerBody> {
    let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, "only POST is allowed here");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
    response
}

fn unsupported_media_type() -> Response<ServerBody> {
    refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body is of a media type not understood here")
}

/// An HTTP error, with a line of text.
pub(crate) fn refuse(status: StatusCode, text: &str) -> Response<ServerBody> {
    let mut response = Response::new(ServerBody::full(format!("{text}\n")));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}
