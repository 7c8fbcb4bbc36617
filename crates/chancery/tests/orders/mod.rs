//! A gRPC service of orders with all kinds of methods, and with reflection.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, Value};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic_reflection::server::Builder;

use crate::daemon::ports::Port;

/// The reflection that a server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reflects {
    V1,
    V1Alpha,
    /// It answers with a file that is none.
    Garbage,
    Nothing,
}

/// A server that runs as long as this lives.
pub(crate) struct Orders {
    pub(crate) port: Port,
    _runtime: Runtime,
}

impl Orders {
    pub(crate) fn start(name: &'static str, reflects: Reflects) -> Self {
        Self::start_by(name, reflects, None)
    }

    /// Starts a server that speaks TLS, for clients with certificates of the same authority.
    pub(crate) fn start_tls(name: &'static str, pki: &Path) -> Self {
        let certs = CertificateDer::pem_file_iter(pki.join("leaf.pem")).unwrap();
        let certs: Vec<_> = certs.map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_file(pki.join("leaf.key")).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(pki.join("ca.pem")).unwrap()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let clients =
            WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_client_cert_verifier(clients.build().unwrap());
        let mut config = builder.with_single_cert(certs, key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self::start_by(name, Reflects::V1, Some(TlsAcceptor::from(Arc::new(config))))
    }

    fn start_by(name: &'static str, reflects: Reflects, tls: Option<TlsAcceptor>) -> Self {
        let port = Port::reserve();
        let address: SocketAddr = port.address().parse().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let tls = tls.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| serve(name, reflects, request));
                    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    // A client that goes away is no fault of the server.
                    match tls {
                        None => server.serve_connection(TokioIo::new(stream), service).await.ok(),
                        Some(tls) => match tls.accept(stream).await {
                            Ok(io) => server.serve_connection(TokioIo::new(io), service).await.ok(),
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        Self { port, _runtime: runtime }
    }
}

/// The types, as a compiler would write them: a FileDescriptorSet.
pub(crate) fn descriptor_set() -> Vec<u8> {
    let set = DescriptorPool::global().get_message_by_name("google.protobuf.FileDescriptorSet");
    let mut json = serde_json::Deserializer::from_str(TYPES);
    DynamicMessage::deserialize(set.unwrap(), &mut json).unwrap().encode_to_vec()
}

async fn serve(
    name: &'static str,
    reflects: Reflects,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let builder = || Builder::configure().register_encoded_file_descriptor_set(leaked());
    match (reflects, path.as_str()) {
        (Reflects::V1, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo") => {
            builder().build_v1().unwrap().call(request).await
        }
        (Reflects::V1Alpha, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo") => {
            builder().build_v1alpha().unwrap().call(request).await
        }
        (Reflects::Garbage, path) if path.starts_with("/grpc.reflection.v1.") => {
            Ok(response(&HeaderMap::new(), &[vec![0x22, 3, 0x0a, 1, 0xff]], 0, ""))
        }
        (_, "/orders.v1.Orders/Chat") => Ok(chat(request)),
        _ => Ok(answer(name, &path, request).await),
    }
}

/// Sends each message back as soon as it comes.
fn chat(request: Request<Incoming>) -> Response<Body> {
    let (frames, body) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut asked = request.into_body();
        while let Some(Ok(frame)) = asked.frame().await {
            if let Ok(data) = frame.into_data() {
                frames.send(Ok::<_, Infallible>(Frame::data(data))).await.ok();
            }
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", 0.into());
        frames.send(Ok(Frame::trailers(trailers))).await.ok();
    });
    let body = Body::new(StreamBody::new(ReceiverStream::new(body)));
    let mut response = Response::new(body);
    response.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    response
}

/// The builder of reflection borrows the types for as long as it likes.
fn leaked() -> &'static [u8] {
    static SET: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    SET.get_or_init(descriptor_set)
}

async fn answer(name: &str, path: &str, request: Request<Incoming>) -> Response<Body> {
    let pool = DescriptorPool::decode(leaked()).unwrap();
    let Some((_, method)) = path.strip_prefix("/orders.v1.").and_then(|it| it.split_once('/'))
    else {
        return response(&HeaderMap::new(), &[], 12, "no such method");
    };
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else { return response(&head.headers, &[], 1, "gone") };
    let input = if matches!(method, "Get" | "Watch") { "Request" } else { "Order" };
    let input = pool.get_message_by_name(&format!("orders.v1.{input}")).unwrap();
    let mut bytes = body.to_bytes();
    let mut asked = Vec::new();
    while bytes.remaining() >= 5 {
        bytes.advance(1);
        let length = bytes.get_u32();
        let message = bytes.copy_to_bytes(usize::try_from(length).unwrap());
        asked.push(DynamicMessage::decode(input.clone(), message).unwrap());
    }
    let id = |message: &DynamicMessage| message.get_field_by_name("id").unwrap().as_i64().unwrap();
    let order = |id: i64| {
        let mut order = DynamicMessage::new(pool.get_message_by_name("orders.v1.Order").unwrap());
        order.set_field_by_name("id", Value::I64(id));
        order.set_field_by_name("server", Value::String(name.to_owned()));
        order.encode_to_vec()
    };
    match method {
        "Get" if id(&asked[0]) == 404 => response(&head.headers, &[], 5, "no such order%1B%5B31m"),
        "Get" if id(&asked[0]) == 500 => response(&head.headers, &[vec![0xff; 3]], 0, ""),
        "Get" => response(&head.headers, &[order(id(&asked[0]))], 0, ""),
        "Watch" => {
            let first = id(&asked[0]);
            response(&head.headers, &[order(first), order(first + 1)], 0, "")
        }
        "Put" => {
            let sum = asked.iter().map(id).sum();
            response(&head.headers, &[order(sum)], 0, "")
        }
        _ => response(&head.headers, &[], 12, "no such method"),
    }
}

/// Frames of messages, and a status. The metadata `tier` comes back.
fn response(asked: &HeaderMap, messages: &[Vec<u8>], code: u16, message: &str) -> Response<Body> {
    let mut bytes = Vec::new();
    for message in messages {
        bytes.push(0);
        bytes.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        bytes.extend(message);
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", code.into());
    trailers.insert("grpc-message", message.parse().unwrap());
    let body = Full::new(Bytes::from(bytes)).with_trailers(async move { Some(Ok(trailers)) });
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert("content-type", "application/grpc".parse().unwrap());
    if let Some(tier) = asked.get("tier") {
        headers.insert("seen-tier", tier.clone());
    }
    response
}

const TYPES: &str = r#"{"file": [
  {"name": "orders/item.proto", "package": "orders.v1", "syntax": "proto3",
   "enumType": [{"name": "Size", "value": [{"name": "SIZE_UNKNOWN", "number": 0}, {"name": "SIZE_LARGE", "number": 1}]}]},
  {"name": "orders/orders.proto", "package": "orders.v1", "syntax": "proto3",
   "dependency": ["orders/item.proto", "google/protobuf/timestamp.proto"],
   "messageType": [
     {"name": "Request", "field": [
       {"name": "id", "number": 1, "label": "LABEL_OPTIONAL", "type": "TYPE_INT64", "jsonName": "id"}]},
     {"name": "Order", "field": [
       {"name": "id", "number": 1, "label": "LABEL_OPTIONAL", "type": "TYPE_INT64", "jsonName": "id"},
       {"name": "server", "number": 2, "label": "LABEL_OPTIONAL", "type": "TYPE_STRING", "jsonName": "server"},
       {"name": "size", "number": 3, "label": "LABEL_OPTIONAL", "type": "TYPE_ENUM", "typeName": ".orders.v1.Size", "jsonName": "size"},
       {"name": "placed_at", "number": 4, "label": "LABEL_OPTIONAL", "type": "TYPE_MESSAGE", "typeName": ".google.protobuf.Timestamp", "jsonName": "placedAt"},
       {"name": "notes", "number": 5, "label": "LABEL_REPEATED", "type": "TYPE_STRING", "jsonName": "notes"}]}],
   "service": [{"name": "Orders", "method": [
     {"name": "Get", "inputType": ".orders.v1.Request", "outputType": ".orders.v1.Order"},
     {"name": "Watch", "inputType": ".orders.v1.Request", "outputType": ".orders.v1.Order", "serverStreaming": true},
     {"name": "Put", "inputType": ".orders.v1.Order", "outputType": ".orders.v1.Order", "clientStreaming": true},
     {"name": "Chat", "inputType": ".orders.v1.Order", "outputType": ".orders.v1.Order", "clientStreaming": true, "serverStreaming": true}]}]},
  {"name": "google/protobuf/timestamp.proto", "package": "google.protobuf", "syntax": "proto3",
   "messageType": [{"name": "Timestamp", "field": [
     {"name": "seconds", "number": 1, "label": "LABEL_OPTIONAL", "type": "TYPE_INT64", "jsonName": "seconds"},
     {"name": "nanos", "number": 2, "label": "LABEL_OPTIONAL", "type": "TYPE_INT32", "jsonName": "nanos"}]}]}
]}"#;
