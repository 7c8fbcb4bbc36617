//! A gRPC service that is not part of discovery: health, reflection.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;

use http::{Request, Response};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::NamedService;

use crate::request::RequestBody;

/// A tower service under the name of a gRPC service.
pub(crate) struct TowerService {
    prefix: String,
    call: Box<dyn Fn(Request<RequestBody>) -> TowerFuture + Send + Sync>,
}

type TowerFuture = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

impl TowerService {
    pub(crate) fn new<S>(service: S) -> Self
    where
        S: Service<Request<RequestBody>, Response = Response<Body>, Error = Infallible>,
        S: NamedService + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        let call = move |request| -> TowerFuture {
            let response = service.clone().call(request);
            Box::pin(async move { response.await.unwrap_or_else(|never| match never {}) })
        };
        Self { prefix: format!("/{}/", S::NAME), call: Box::new(call) }
    }

    /// Returns true if the path is that of one of its methods.
    pub(crate) fn has(&self, path: &str) -> bool {
        path.starts_with(&self.prefix)
    }

    pub(crate) fn call(&self, request: Request<RequestBody>) -> TowerFuture {
        (self.call)(request)
    }
}
