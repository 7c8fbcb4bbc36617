//! The errors of watches, in words that name the node, the resource and the server (C-072).

use crate::TypeUrl;
use crate::client::error::{ErrorKind, WatchError};
use crate::client::ids::ServerId;
use crate::client::setup::Setup;

impl Setup {
    /// Nobody can be asked for a name.
    pub(super) fn name_error(
        &self,
        kind: ErrorKind,
        type_url: &TypeUrl,
        name: &str,
        why: &str,
    ) -> WatchError {
        let (short, node) = (type_url.short(), &self.node.id);
        let text = format!("{short} `{name}` (node `{node}`): {why}").into();
        WatchError { kind, text, server: None, is_nameless: false }
    }

    /// A server says, or lets it be seen, that something is wrong with a resource.
    pub(super) fn resource_error(
        &self,
        kind: ErrorKind,
        server: ServerId,
        type_url: &TypeUrl,
        name: &str,
        why: &str,
    ) -> WatchError {
        let (short, uri, node) = (type_url.short(), self.uri(server), &self.node.id);
        let is_rejected = rejected(kind);
        let text =
            format!("{short} `{name}` from {uri} (node `{node}`){is_rejected}: {why}").into();
        WatchError { kind, text, server: Some(server), is_nameless: false }
    }

    /// Nothing of a source can be used (C-043). If what it says was rejected, any resource may be
    /// in it.
    pub(super) fn source_error(
        &self,
        kind: ErrorKind,
        server: ServerId,
        type_url: &TypeUrl,
        why: &str,
    ) -> WatchError {
        let (short, uri, node) = (type_url.short(), self.uri(server), &self.node.id);
        let is_rejected = rejected(kind);
        let text = format!("{short} from {uri} (node `{node}`){is_rejected}: {why}").into();
        let is_nameless = kind == ErrorKind::Rejected;
        WatchError { kind, text, server: Some(server), is_nameless }
    }

    /// A server cannot be reached (C-067).
    pub(super) fn server_error(&self, server: ServerId, why: &str) -> WatchError {
        let (uri, node) = (self.uri(server), &self.node.id);
        let text = format!("server {uri} cannot be reached (node `{node}`): {why}").into();
        WatchError { kind: ErrorKind::Unreachable, text, server: Some(server), is_nameless: false }
    }
}

/// Words for an error of this client about what a server sent, so that it is not taken for one of the server.
fn rejected(kind: ErrorKind) -> &'static str {
    if kind == ErrorKind::Rejected { " is rejected" } else { "" }
}
