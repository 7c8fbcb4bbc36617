//! Responses as a client reads them, from gRPC, REST or a file.
//!
//! ```text
//!   message of gRPC --> [wire] --+
//!                                +--> raw resources --> [judge] --> Response: resources and errors
//!   JSON of REST -----> [json] --+                           ^
//!                                                a program's own Decoder
//!                                                            v
//!   a file, in any format -----> [file], by the reader of documents --> Response
//! ```
//!
//! Each resource is checked for itself. One bad resource does not make the others unusable (C-055,
//! [gRFC A46](https://github.com/grpc/proposal/blob/master/A46-xds-nack-semantics-improvement.md)),
//! and all bad ones are reported (C-063,
//! [NACK](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#nack)). Duplicate names
//! and wrong types are errors (C-064, [Duplicate Resource
//! Names](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#duplicate-resource-names)).
//! The bytes of a body stay as the server sent them, so a dump shows what came and equal bytes are
//! equal (C-049, C-061). JSON and files become canonical bytes. The [`Decoder`] decides if a body
//! is good; the descriptors decide where it has no opinion.
//!
//! This module does not say what a bad resource means for the response and the cache. The machine
//! of [`chancery_core::client`] does.

use std::sync::Arc;

use bytes::Bytes;
use chancery_core::client::{DecodedBody, ReceivedResource, Response};
use chancery_core::{NameError, ResourceName, TypeUrl, Variant};

use crate::document::{Fault, Format};
use crate::json::JsonError;
use crate::schema::Schema;
use crate::wire::DecodeError;

mod file;
mod json;
mod judge;
mod wire;

/// A program's own reader of bodies.
pub trait Decoder: Send + Sync {
    /// Reads the body of a resource. `None` leaves it to the descriptors to check the bytes.
    ///
    /// # Errors
    /// Fails if the resource cannot be used, with a reason for the operator of the server. The
    /// reason must not quote the body, which may hold secrets (S-138).
    fn decode(
        &self,
        type_url: &TypeUrl,
        name: &ResourceName,
        body: &Bytes,
    ) -> Result<Option<DecodedBody>, String>;
}

/// A decoder that leaves bodies as bytes.
impl Decoder for () {
    fn decode(
        &self,
        _: &TypeUrl,
        _: &ResourceName,
        _: &Bytes,
    ) -> Result<Option<DecodedBody>, String> {
        Ok(None)
    }
}

/// The reader of responses. Clones are cheap.
#[derive(Clone)]
pub struct Reader {
    schema: Schema,
    decoder: Arc<dyn Decoder>,
    for_grpc: bool,
}

impl Reader {
    /// Creates a reader that knows these types and leaves bodies as bytes.
    pub fn new(schema: Schema) -> Self {
        Self { schema, decoder: Arc::new(()), for_grpc: false }
    }

    /// Sets a program's own decoder, which sees each body.
    #[must_use]
    pub fn with_decoder(mut self, decoder: Arc<dyn Decoder>) -> Self {
        self.decoder = decoder;
        self
    }

    /// Sets if resources that a gRPC client must refuse are errors: routes and endpoints from
    /// elsewhere than the stream (C-080), a load report server other than `self` (C-081), and a
    /// cluster with an `xdstp:` name that does not name its endpoints (C-028).
    #[must_use]
    pub fn for_grpc(mut self, yes: bool) -> Self {
        self.for_grpc = yes;
        self
    }

    /// Reads a `DiscoveryResponse` or a `DeltaDiscoveryResponse` of gRPC. A response that does not
    /// state its type is of the type `expected`, which is known on a stream of one type.
    ///
    /// # Errors
    /// Fails if the bytes are no such message, or if no type is known. Such a response can be
    /// neither accepted nor rejected.
    pub fn read(
        &self,
        variant: Variant,
        expected: Option<&TypeUrl>,
        message: &Bytes,
    ) -> Result<Response, DecodeError> {
        wire::read(self, variant, expected, message)
    }

    /// Reads the `DiscoveryResponse` that answers a REST poll, in JSON (C-044). Unknown fields are
    /// ignored, as they are in gRPC. A response that does not state its type is of the type
    /// `expected`.
    ///
    /// # Errors
    /// Fails if the text is not JSON, or not a response.
    pub fn read_json(&self, expected: &TypeUrl, text: &[u8]) -> Result<Response, JsonError> {
        json::read(self, expected, text)
    }

    /// Reads a resource that the client kept from an earlier run, as if it came now. `version` is
    /// the version that the server gave it, and empty if it gave none.
    ///
    /// # Errors
    /// Fails if the bytes are not of their type, or if the name is not valid.
    pub fn read_kept(
        &self,
        type_url: &TypeUrl,
        name: &str,
        version: &str,
        body: Bytes,
    ) -> Result<ReceivedResource, String> {
        judge::judge_alone(self, type_url, name, version, body)
    }

    /// Reads a file that a client subscribes to: resources of one type, in a response, in a list or
    /// alone (C-043). Resources of other types are errors.
    ///
    /// A file is used as a whole or not at all. There is no server to which a part of a file could
    /// be rejected, and a file that is cut short must not look like one from which resources were
    /// removed.
    ///
    /// # Errors
    /// Fails with all faults of the file.
    pub fn read_file(
        &self,
        expected: &TypeUrl,
        format: Format,
        bytes: &[u8],
    ) -> Result<Response, Vec<Fault>> {
        file::read(self, expected, format, bytes)
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// The canonical form of a name in a response (C-025). A malformed name names nothing and stays as
/// it is.
fn canonical(name: &str) -> Arc<str> {
    ResourceName::read(name).map_or_else(|_| name.into(), |name| name.shared())
}

fn canonical_error(error: NameError) -> NameError {
    NameError { name: canonical(&error.name), ..error }
}

#[cfg(test)]
mod tests;
