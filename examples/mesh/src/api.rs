//! The messages, a client and a server of `proto/orders.proto`.
//!
//! A program has them from `tonic-prost-build`. Here they are written out, so that the example needs no crate
//! that the project does not have.

/// The question for an order.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OrderRequest {
    /// The number of the order.
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// An order.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Order {
    /// The number of the order.
    #[prost(int64, tag = "1")]
    pub id: i64,
    /// The name of the server that answers.
    #[prost(string, tag = "2")]
    pub server: String,
}

/// The name of the service.
const SERVICE: &str = "shop.v1.Orders";

/// The path of its method.
const GET: &str = "/shop.v1.Orders/Get";

/// The client of the service.
pub mod orders_client {
    use std::error::Error;

    use http::uri::PathAndQuery;
    use tonic::client::{Grpc, GrpcService};
    use tonic::codegen::{Body, Bytes, StdError};
    use tonic::{GrpcMethod, IntoRequest, Response, Status};
    use tonic_prost::ProstCodec;

    use super::{GET, Order, OrderRequest, SERVICE};

    /// A client of the service, on any channel.
    #[derive(Clone, Debug)]
    pub struct OrdersClient<T> {
        inner: Grpc<T>,
    }

    impl<T> OrdersClient<T>
    where
        T: GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + Send + 'static,
        <T::ResponseBody as Body>::Error: Into<Box<dyn Error + Send + Sync>> + Send,
    {
        /// Makes a client on a channel.
        pub fn new(channel: T) -> Self {
            Self { inner: Grpc::new(channel) }
        }

        /// Gets an order.
        ///
        /// # Errors
        /// If the call does not end with OK.
        pub async fn get(
            &mut self,
            request: impl IntoRequest<OrderRequest>,
        ) -> Result<Response<Order>, Status> {
            self.inner.ready().await.map_err(|error| {
                Status::unknown(format!("the channel is not ready: {}", error.into()))
            })?;
            let mut request = request.into_request();
            request.extensions_mut().insert(GrpcMethod::new(SERVICE, "Get"));
            let path = PathAndQuery::from_static(GET);
            self.inner.unary(request, path, ProstCodec::default()).await
        }
    }
}

/// The server of the service.
pub mod orders_server {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    use http::Response;
    use tonic::codegen::{Body, BoxFuture, Service, StdError};
    use tonic::server::{Grpc, NamedService, UnaryService};
    use tonic::{Request, Status};
    use tonic_prost::ProstCodec;

    use super::{GET, Order, OrderRequest, SERVICE};

    /// The methods that a program implements.
    #[tonic::async_trait]
    pub trait Orders: Send + Sync + 'static {
        /// Answers with an order.
        async fn get(
            &self,
            request: Request<OrderRequest>,
        ) -> Result<tonic::Response<Order>, Status>;
    }

    /// A server of the service.
    #[derive(Debug)]
    pub struct OrdersServer<T> {
        orders: Arc<T>,
    }

    /// The one method, as tonic calls it.
    struct Get<T>(Arc<T>);

    impl<T: Orders> OrdersServer<T> {
        /// Makes a server.
        pub fn new(orders: T) -> Self {
            Self { orders: Arc::new(orders) }
        }
    }

    impl<T: Orders> UnaryService<OrderRequest> for Get<T> {
        type Response = Order;
        type Future = BoxFuture<tonic::Response<Order>, Status>;

        fn call(&mut self, request: Request<OrderRequest>) -> Self::Future {
            let orders = Arc::clone(&self.0);
            Box::pin(async move { orders.get(request).await })
        }
    }

    impl<T, B> Service<http::Request<B>> for OrdersServer<T>
    where
        T: Orders,
        B: Body + Send + 'static,
        B::Error: Into<StdError> + Send + 'static,
    {
        type Response = Response<tonic::body::Body>;
        type Error = Infallible;
        type Future = BoxFuture<Self::Response, Infallible>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<B>) -> Self::Future {
            if request.uri().path() != GET {
                return Box::pin(async { Ok(Status::unimplemented("").into_http()) });
            }
            let get = Get(Arc::clone(&self.orders));
            Box::pin(async move { Ok(Grpc::new(ProstCodec::default()).unary(get, request).await) })
        }
    }

    impl<T> Clone for OrdersServer<T> {
        fn clone(&self) -> Self {
            Self { orders: Arc::clone(&self.orders) }
        }
    }

    impl<T> NamedService for OrdersServer<T> {
        const NAME: &'static str = SERVICE;
    }
}
