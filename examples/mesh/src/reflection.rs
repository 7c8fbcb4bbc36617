//! Reflection beside a service, so that `chancery call` knows its types.
//!
//! A program with the feature `router` of tonic has `Routes::new(orders).add_service(reflection)` in place of
//! this file.

use std::convert::Infallible;
use std::task::{Context, Poll};

use http::{Request, Response};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;
use tonic_reflection::server::{Builder, Error};

/// The types of `proto/orders.proto`.
const TYPES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/orders.pb"));

/// Two services of one server.
#[derive(Clone)]
pub(crate) struct Pair<S, R> {
    service: S,
    reflection: R,
}

/// A service that tonic can serve.
pub(crate) trait Served:
    Service<
        Request<Body>,
        Response = Response<Body>,
        Error = Infallible,
        Future = BoxFuture<Response<Body>, Infallible>,
    > + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> Served for S where
    S: Service<
            Request<Body>,
            Response = Response<Body>,
            Error = Infallible,
            Future = BoxFuture<Response<Body>, Infallible>,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

/// Adds reflection to a service.
pub(crate) fn with_reflection<S: Served>(service: S) -> Result<impl Served, Error> {
    let reflection = Builder::configure().register_encoded_file_descriptor_set(TYPES).build_v1()?;
    Ok(Pair { service, reflection })
}

impl<S: Served, R: Served + NamedService> Service<Request<Body>> for Pair<S, R> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path().strip_prefix('/').unwrap_or_default();
        let name = path.split_once('/').map(|(service, _)| service);
        match name == Some(R::NAME) {
            true => self.reflection.call(request),
            false => self.service.call(request),
        }
    }
}
