//! A tool that asks for the status of clients.

use std::net::SocketAddr;

use bytes::Bytes;
use chancery_client::status::ClientConfig;
use chancery_proto::frames::{Messages, framed};
use chancery_proto::wire::decode_client_status;
use http::Request;
use tokio::net::TcpStream;

use crate::within::within;

const FETCH: &str = "envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";

/// Asks for the status once.
pub(crate) async fn fetch_status(address: SocketAddr) -> Vec<ClientConfig> {
    let socket = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post(format!("http://localhost/{FETCH}"))
        .header("content-type", "application/grpc");
    let mut sender = within(sender.ready()).await.unwrap();
    let (response, mut out) = sender.send_request(request.body(()).unwrap(), false).unwrap();
    out.send_data(framed(b""), true).unwrap();
    let mut body = within(response).await.unwrap().into_body();
    let mut messages = Messages::new(usize::MAX);
    loop {
        if let Some(message) = messages.next().unwrap() {
            return decode_client_status(&message).unwrap();
        }
        let chunk: Bytes = within(body.data()).await.unwrap().unwrap();
        messages.push(chunk);
    }
}
