//! The size of a request while it is read, compared with the limits of the server.
//!
//! A request is measured before anything of it is kept: a list of empty names takes a dozen times its
//! size in memory, and a node a hundred times its (`node_memory`). Not here: the limits themselves
//! ([`RequestLimits`]), those on all requests of a stream (`chancery_core::server`), and that on the
//! bytes of a message, which the transport applies.

use chancery_core::server::RequestLimits;

use crate::node_memory::NodeMemory;

/// The part of a request that is larger than the server allows. The client is at fault, or an
/// operator who has to raise the limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestTooLarge {
    /// A list has too many names.
    #[error("a list of the request has more than {limit} names (`max-names`)")]
    Names {
        /// The most names that are allowed.
        limit: usize,
    },
    /// A name is too long.
    #[error("a name in the request has {found} bytes; {limit} are allowed (`max-name-length`)")]
    Name {
        /// The bytes of the name.
        found: usize,
        /// The most bytes that are allowed.
        limit: usize,
    },
    /// The type URL is too long.
    #[error("the type URL has {found} bytes; {limit} are allowed (`max-name-length`)")]
    TypeUrl {
        /// The bytes of the type URL.
        found: usize,
        /// The most bytes that are allowed.
        limit: usize,
    },
    /// The names and versions are too long together.
    #[error("the names of the request have more than {limit} bytes (`max-name-bytes`)")]
    NameBytes {
        /// The most bytes that are allowed.
        limit: usize,
    },
    /// The node is too large.
    #[error("the node in the request has {found} bytes; {limit} are allowed (`max-node-bytes`)")]
    Node {
        /// The bytes of the node.
        found: usize,
        /// The most bytes that are allowed.
        limit: usize,
    },
    /// The node takes too much memory for the bytes that it has.
    #[error(
        "the node in the request takes more than {limit} bytes, which is eight times `max-node-bytes`"
    )]
    NodeMemory {
        /// The most bytes that are allowed.
        limit: usize,
    },
}

/// The size of a request as far as it was read.
#[derive(Debug)]
pub(crate) struct RequestSize {
    limits: RequestLimits,
    name_bytes: usize,
    node_bytes: usize,
    node_memory: NodeMemory,
}

impl RequestSize {
    pub(crate) fn new(limits: &RequestLimits) -> Self {
        Self { limits: *limits, name_bytes: 0, node_bytes: 0, node_memory: NodeMemory::new(limits) }
    }

    /// Adds a name, and the version beside it if there is one, to a list that has `others`.
    pub(crate) fn add_name(
        &mut self,
        others: usize,
        name: &str,
        version: &str,
    ) -> Result<(), RequestTooLarge> {
        let RequestLimits { max_names, max_name_length, max_name_bytes, .. } = self.limits;
        self.name_bytes = self.name_bytes.saturating_add(name.len() + version.len());
        let longer = name.len().max(version.len());
        if others >= max_names {
            Err(RequestTooLarge::Names { limit: max_names })
        } else if longer > max_name_length {
            Err(RequestTooLarge::Name { found: longer, limit: max_name_length })
        } else if self.name_bytes > max_name_bytes {
            Err(RequestTooLarge::NameBytes { limit: max_name_bytes })
        } else {
            Ok(())
        }
    }

    /// Adds the bytes of a node, which a request may have in several parts.
    pub(crate) fn add_node(&mut self, bytes: usize) -> Result<(), RequestTooLarge> {
        self.node_bytes = self.node_bytes.saturating_add(bytes);
        let (found, limit) = (self.node_bytes, self.limits.max_node_bytes);
        if found > limit { Err(RequestTooLarge::Node { found, limit }) } else { Ok(()) }
    }

    /// The memory of the node, which is counted while the node is read.
    pub(crate) fn node_memory(&mut self) -> &mut NodeMemory {
        &mut self.node_memory
    }

    pub(crate) fn check_type_url(&self, type_url: &str) -> Result<(), RequestTooLarge> {
        let (found, limit) = (type_url.len(), self.limits.max_name_length);
        if found > limit { Err(RequestTooLarge::TypeUrl { found, limit }) } else { Ok(()) }
    }
}
