//! The service of orders, and its server: first an ordinary one of tonic, then one that a control plane
//! configures.

use std::error::Error;

use tonic::{Request, Response, Status};

use crate::api::orders_server::{Orders, OrdersServer};
use crate::api::{Order, OrderRequest};
use crate::reflection::{Served, with_reflection};

/// A server of orders, with its name.
struct Shelf {
    server: String,
}

#[tonic::async_trait]
impl Orders for Shelf {
    async fn get(&self, request: Request<OrderRequest>) -> Result<Response<Order>, Status> {
        let OrderRequest { id } = request.into_inner();
        Ok(Response::new(Order { id, server: self.server.clone() }))
    }
}

/// Serves orders as any program on tonic does.
pub(crate) async fn serve(address: &str, name: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    let address = address.parse()?;
    tonic::transport::Server::builder().serve(address, services(name)?).await?;
    Ok(())
}

/// Serves orders as the control plane says.
pub(crate) async fn serve_xds(
    address: &str,
    name: &str,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    chancery_grpc::Server::new(address)?.serve(services(name)?).await?;
    Ok(())
}

fn services(name: &str) -> Result<impl Served, tonic_reflection::server::Error> {
    with_reflection(OrdersServer::new(Shelf { server: name.to_owned() }))
}
