//! Other gRPC services on the port: health, reflection, and those of the program.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;

use bytes::Bytes;
use http::{Request, Response};
use tonic::body::Body;
use tonic::codegen::{Service, StdError};
use tonic::server::NamedService;

/// A tower service under the name of a gRPC service.
pub(crate) struct TowerService {
    prefix: String,
    call: Box<dyn Fn(Request<Body>) -> TowerFuture + Send + Sync>,
    pub(crate) admission: Admission,
}

/// The calls of a service that are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// All calls. Health and reflection answer a server that is full or stopping too.
    Always,
    /// Those within the limit of streams, until the connection drains.
    Limited,
}

/// The response of a call.
pub(crate) type TowerFuture = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

impl TowerService {
    pub(crate) fn new<S, B>(service: S, admission: Admission) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>, Error = Infallible>,
        S: NamedService + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<StdError>,
    {
        let call = move |request| -> TowerFuture {
            let mut service = service.clone();
            Box::pin(async move {
                let Ok(()) = poll_fn(|cx| service.poll_ready(cx)).await;
                let Ok(response) = service.call(request).await;
                response.map(Body::new)
            })
        };
        Self { prefix: format!("/{}/", S::NAME), call: Box::new(call), admission }
    }

    /// Returns true if the path is that of one of its methods.
    pub(crate) fn has_method(&self, path: &str) -> bool {
        path.starts_with(&self.prefix)
    }

    pub(crate) fn call(&self, request: Request<Body>) -> TowerFuture {
        (self.call)(request)
    }
}
