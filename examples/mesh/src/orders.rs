//! The service of orders, and its server: first an ordinary one of tonic, then one that a control plane
//! configures.

use std::error::Error;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use tonic::{Request, Response, Status};

use crate::api::orders_server::{Orders, OrdersServer};
use crate::api::{Order, OrderRequest};
use crate::reflection::{Served, with_reflection};

/// A server of orders, with its name.
struct Shelf {
    server: String,
    /// Every call of this number fails, if there is one.
    fails: Option<NonZeroU64>,
    calls: AtomicU64,
}

#[tonic::async_trait]
impl Orders for Shelf {
    async fn get(&self, request: Request<OrderRequest>) -> Result<Response<Order>, Status> {
        let OrderRequest { id } = request.into_inner();
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if self.fails.is_some_and(|every| call.is_multiple_of(every.get())) {
            return Err(Status::unavailable("the shelf is out of reach"));
        }
        Ok(Response::new(Order { id, server: self.server.clone() }))
    }
}

/// Serves orders as any program on tonic does.
pub(crate) async fn serve(
    address: &str,
    name: &str,
    fails: Option<NonZeroU64>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let address = address.parse()?;
    tonic::transport::Server::builder().serve(address, services(name, fails)?).await?;
    Ok(())
}

/// Serves orders as the control plane says.
pub(crate) async fn serve_xds(
    address: &str,
    name: &str,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    chancery_grpc::Server::new(address)?.serve(services(name, None)?).await?;
    Ok(())
}

fn services(
    name: &str,
    fails: Option<NonZeroU64>,
) -> Result<impl Served, tonic_reflection::server::Error> {
    let (server, calls) = (name.to_owned(), AtomicU64::new(0));
    with_reflection(OrdersServer::new(Shelf { server, fails, calls }))
}
