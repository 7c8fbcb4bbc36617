//! The protocols that attackers and innocent clients speak, written apart from those of the product,
//! so that a mistake of the server is not measured against itself.
//!
//! Not here: the requests of one attack, which are its own.

pub(crate) mod frame;
pub(crate) mod grpc;
pub(crate) mod http1;
pub(crate) mod message;
pub(crate) mod raw;
pub(crate) mod tls;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpSocket, TcpStream};

/// The address of innocent clients.
pub(crate) const INNOCENT: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// The address of attackers: another peer than the innocent clients, and on loopback as they are.
pub(crate) const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// The paths of the aggregated services.
pub(crate) const ADS_SOTW: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
pub(crate) const ADS_DELTA: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
/// The path of load reports.
pub(crate) const LRS: &str = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats";
/// The path of questions for the status of clients.
pub(crate) const CSDS: &str =
    "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";
/// The path of a poll of clusters.
pub(crate) const POLL: &str = "/v3/discovery:clusters";

pub(crate) const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
pub(crate) const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
pub(crate) const RDS: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
pub(crate) const VHDS: &str = "type.googleapis.com/envoy.config.route.v3.VirtualHost";
pub(crate) const ECDS: &str = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig";

/// Connects from an address of loopback, with a receive buffer that is small if `reads` is false.
pub(crate) async fn dial(from: Ipv4Addr, to: SocketAddr, reads: bool) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if to.ip().is_loopback() {
        socket.bind((from, 0).into())?;
    }
    if !reads {
        socket.set_recv_buffer_size(4096)?;
    }
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
