//! The storefront: it gets an order five times a second, and prints which server it came from.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use chancery_grpc::StatusServer;

use crate::api::OrderRequest;
use crate::api::orders_client::OrdersClient;

/// Calls the orders at a target until the program is ended. At the address of `status` tools can ask what the
/// channel knows.
pub(crate) async fn run(
    target: &str,
    status: Option<SocketAddr>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let _status = match status {
        Some(address) => Some(StatusServer::start(address, chancery_grpc::client_status).await?),
        None => None,
    };
    let channel = chancery_grpc::Channel::new(target)?;
    let mut orders = OrdersClient::new(channel);
    let mut pace = tokio::time::interval(Duration::from_millis(200));
    for id in 1.. {
        pace.tick().await;
        match orders.get(OrderRequest { id }).await {
            Ok(order) => println!("order {id} from {}", order.into_inner().server),
            Err(status) => println!("order {id}: {:?}: {}", status.code(), status.message()),
        }
    }
    Ok(())
}
