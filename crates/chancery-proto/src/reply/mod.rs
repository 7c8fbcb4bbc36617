//! Responses as a client reads them, whatever they came as.
//!
//! ```text
//!   message of gRPC --> [wire] --+
//!                                +--> entries --> [judge] --> Response: good ones and flaws
//!   JSON of REST -----> [json] --+                   ^
//!                                        a program's own Decoder
//!                                                    v
//!   a file, in any format -----> [file], by the reader of documents --> Response
//! ```
//!
//! One bad resource costs no good one (C-055), and all that are bad are told (C-063). A body stays
//! as the server sent it, so a dump shows what came and equal bytes are equal
//! (C-049, C-061); JSON and files become canonical bytes. Whether a body is good is for the [`Decoder`] to say, and for the descriptors where it has nothing to say.
//!
//! Not here: what a flaw means for the response and the cache. That is the machine's
//! ([`chancery_core::client`]).

use std::sync::Arc;

use bytes::Bytes;
use chancery_core::client::{DecodedBody, ReceivedResource, Response};
use chancery_core::{NameError, ResourceName, TypeUrl, Variant};

use crate::document::{Fault, Format};
use crate::json::JsonError;
use crate::schema::Schema;
use crate::wire::DecodeError;

mod file;
mod grpc;
mod json;
mod judge;
mod wire;

/// What a program makes of bodies.
pub trait Decoder: Send + Sync {
    /// Reads the body of a resource. `None` leaves it to the descriptors to say whether the bytes
    /// are of their type.
    ///
    /// # Errors
    /// When the resource cannot be used: a reason for the operator of the server. It must quote no
    /// body, which may hold secrets (S-138).
    fn decode(
        &self,
        type_url: &TypeUrl,
        name: &ResourceName,
        body: &Bytes,
    ) -> Result<Option<DecodedBody>, String>;
}

/// Bodies stay bytes.
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

/// Reads responses. Cloning it is cheap.
#[derive(Clone)]
pub struct Reader {
    schema: Schema,
    decoder: Arc<dyn Decoder>,
    for_grpc: bool,
}

impl Reader {
    /// A reader that knows these types and leaves bodies as bytes.
    pub fn new(schema: Schema) -> Self {
        Self { schema, decoder: Arc::new(()), for_grpc: false }
    }

    /// Lets a program's own decoder see each body.
    #[must_use]
    pub fn with_decoder(mut self, decoder: Arc<dyn Decoder>) -> Self {
        self.decoder = decoder;
        self
    }

    /// Rejects also what a gRPC client must: routes and endpoints from elsewhere than the stream
    /// (C-080), a load report server other than `self` (C-081), a cluster with an `xdstp:` name that
    /// does not name its endpoints (C-028).
    #[must_use]
    pub fn for_grpc(mut self, yes: bool) -> Self {
        self.for_grpc = yes;
        self
    }

    /// Reads a `DiscoveryResponse` or a `DeltaDiscoveryResponse` of gRPC. On a stream of one type,
    /// `expected` is what a response is of that does not say.
    ///
    /// # Errors
    /// When the bytes are no such message, or nobody says of which type it is: it can be neither
    /// accepted nor rejected.
    pub fn read(
        &self,
        variant: Variant,
        expected: Option<&TypeUrl>,
        message: &Bytes,
    ) -> Result<Response, DecodeError> {
        wire::read(self, variant, expected, message)
    }

    /// Reads the `DiscoveryResponse` that answers a REST poll, in JSON (C-044). Fields that nobody
    /// knows are ignored, as they are in gRPC. A response that does not say of which type it is, is
    /// of the one `expected`.
    ///
    /// # Errors
    /// When the text is no JSON, or no response.
    pub fn read_json(&self, expected: &TypeUrl, text: &[u8]) -> Result<Response, JsonError> {
        json::read(self, expected, text)
    }

    /// Reads a resource that was kept from an earlier run, as if it came now; `version` is its own,
    /// and empty if it has none.
    ///
    /// # Errors
    /// When the bytes are not of their type, or the name cannot be one.
    pub fn read_kept(
        &self,
        type_url: &TypeUrl,
        name: &str,
        version: &str,
        body: Bytes,
    ) -> Result<ReceivedResource, String> {
        judge::judge_alone(self, type_url, name, version, body)
    }

    /// Reads a file that a client subscribes to: resources of one type, in a response, a list or
    /// alone (C-043). Resources of other types are flaws.
    ///
    /// There is nobody to accept or reject the parts of a file to, and one that is cut short must
    /// not look like one from which resources were taken. So a file is good as a whole or not used.
    ///
    /// # Errors
    /// All that is wrong with the file.
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

/// A name the server speaks of, as the client writes it (C-025). One that is malformed stands for
/// nothing and stays as it is.
fn canonical(name: &str) -> Arc<str> {
    ResourceName::read(name).map_or_else(|_| name.into(), |name| name.shared())
}

fn canonical_error(error: NameError) -> NameError {
    NameError { name: canonical(&error.name), ..error }
}

#[cfg(test)]
mod tests;
