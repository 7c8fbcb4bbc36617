//! The discovery messages, as far as a client needs them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::server::{Response, ResponseEntry};
use chancery_core::{
    ErrorDetail, NameError, Names, Node, Request, Resource, ResourceName, TypeUrl, Variant,
};
use prost::Message;

/// A body with its name in field 1, as clusters and assignments have it.
pub(super) fn named(name: &str, revision: u32) -> Bytes {
    Named { name: name.to_owned(), revision }.encode_to_vec().into()
}

pub(super) fn revision(resource: &Resource) -> u32 {
    Named::decode(&**resource.body()).map_or(0, |named| named.revision)
}

pub(super) fn encode(request: &Request) -> Vec<u8> {
    match request {
        Request::Sotw(it) => SotwRequest {
            version: it.version.to_string(),
            node: node(it.node.as_ref()),
            names: texts(&it.names),
            type_url: it.type_url.to_string(),
            nonce: it.nonce.to_string(),
            error: status(it.error.as_ref()),
        }
        .encode_to_vec(),
        Request::Delta(it) => {
            let held = it.initial_versions.iter();
            DeltaRequest {
                node: node(it.node.as_ref()),
                type_url: it.type_url.to_string(),
                subscribe: texts(&it.subscribe),
                unsubscribe: texts(&it.unsubscribe),
                held: held.map(|(name, is)| (name.to_string(), is.to_string())).collect(),
                nonce: it.nonce.to_string(),
                error: status(it.error.as_ref()),
            }
            .encode_to_vec()
        }
    }
}

pub(super) fn decode(variant: Variant, bytes: &[u8]) -> Result<Response, prost::DecodeError> {
    match variant {
        Variant::Sotw => SotwResponse::decode(bytes)?.into_core(),
        Variant::Delta => DeltaResponse::decode(bytes)?.into_core(),
    }
}

fn entry(any: Any, version: Option<&str>) -> Result<ResponseEntry, prost::DecodeError> {
    let name = Named::decode(&*any.value)?.name;
    let resource = Resource::new(plain(&name), any.value.into());
    let resource = match version {
        Some(version) => resource.with_version(version),
        None => resource,
    };
    let (name, resource) = (name.into(), Some(Arc::new(resource)));
    Ok(ResponseEntry { name, aliases: Vec::new(), resource, ttl: false, heartbeat: false })
}

/// Names of these tests are plain.
fn plain(name: &str) -> ResourceName {
    ResourceName::parse(name).unwrap()
}

fn node(node: Option<&Arc<Node>>) -> Option<WireNode> {
    node.map(|node| WireNode { id: node.id.clone() })
}

fn status(error: Option<&ErrorDetail>) -> Option<Status> {
    error.map(|error| Status { code: error.code, message: error.message.clone() })
}

fn texts(names: &Names) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(uint32, tag = "19000")]
    revision: u32,
}

#[derive(Clone, PartialEq, Message)]
struct WireNode {
    #[prost(string, tag = "1")]
    id: String,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct SotwRequest {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(message, optional, tag = "2")]
    node: Option<WireNode>,
    #[prost(string, repeated, tag = "3")]
    names: Vec<String>,
    #[prost(string, tag = "4")]
    type_url: String,
    #[prost(string, tag = "5")]
    nonce: String,
    #[prost(message, optional, tag = "6")]
    error: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
struct DeltaRequest {
    #[prost(message, optional, tag = "1")]
    node: Option<WireNode>,
    #[prost(string, tag = "2")]
    type_url: String,
    #[prost(string, repeated, tag = "3")]
    subscribe: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    unsubscribe: Vec<String>,
    #[prost(btree_map = "string, string", tag = "5")]
    held: BTreeMap<String, String>,
    #[prost(string, tag = "6")]
    nonce: String,
    #[prost(message, optional, tag = "7")]
    error: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
struct SotwResponse {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(message, repeated, tag = "2")]
    resources: Vec<Any>,
    #[prost(string, tag = "4")]
    type_url: String,
    #[prost(string, tag = "5")]
    nonce: String,
}

#[derive(Clone, PartialEq, Message)]
struct Wrapper {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(message, optional, tag = "2")]
    resource: Option<Any>,
    #[prost(string, tag = "3")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct DeltaResponse {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(message, repeated, tag = "2")]
    resources: Vec<Wrapper>,
    #[prost(string, tag = "4")]
    type_url: String,
    #[prost(string, tag = "5")]
    nonce: String,
    #[prost(string, repeated, tag = "6")]
    removed: Vec<String>,
}

impl SotwResponse {
    fn into_core(self) -> Result<Response, prost::DecodeError> {
        let entries: Result<Vec<_>, _> =
            self.resources.into_iter().map(|any| entry(any, None)).collect();
        Ok(response(Variant::Sotw, &self.type_url, self.version, self.nonce, entries?))
    }
}

impl DeltaResponse {
    fn into_core(self) -> Result<Response, prost::DecodeError> {
        let wrapped = self.resources.into_iter();
        let entries: Result<Vec<_>, _> =
            wrapped.map(|it| entry(it.resource.unwrap_or_default(), Some(&it.version))).collect();
        let whole = response(Variant::Delta, &self.type_url, self.version, self.nonce, entries?);
        let removed = self.removed.into_iter().map(Arc::from).collect();
        Ok(Response { removed, ..whole })
    }
}

fn response(
    variant: Variant,
    type_url: &str,
    version: String,
    nonce: String,
    entries: Vec<ResponseEntry>,
) -> Response {
    Response {
        variant,
        type_url: TypeUrl::new(type_url),
        version: version.into(),
        nonce: nonce.into(),
        entries: entries.into_iter().collect(),
        removed: Vec::new(),
        errors: Vec::<NameError>::new(),
        wrapped: variant == Variant::Delta,
    }
}
