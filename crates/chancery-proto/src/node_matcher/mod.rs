//! Matchers of nodes: the clients that a question for their status is about
//! ([`node.proto`](https://www.envoyproxy.io/docs/envoy/latest/api-v3/type/matcher/v3/node.proto)).
//!
//! They are checked when they are read, so that those that are kept can be asked. Whoever asks chooses
//! them, so their number, their depth and the sizes of their patterns are bounded ([`read`]). Not here:
//! the question in which they come ([`crate::wire`], [`crate::json`]).

mod message;
mod read;
mod text;
mod value;

use chancery_core::Node;

pub(crate) use self::read::MatcherFault;
use self::text::TextMatcher;
use self::value::MetadataMatcher;

/// Matchers of nodes, of which a node has to meet one. Without any, every node will do.
#[derive(Clone, Debug, Default)]
pub struct NodeMatchers(Vec<NodeMatcher>);

/// One matcher, of which a node has to meet every part.
#[derive(Clone, Debug)]
struct NodeMatcher {
    id: Option<TextMatcher>,
    metadata: Vec<MetadataMatcher>,
}

impl NodeMatchers {
    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the node meets one of them, or if there are none.
    pub fn matches(&self, node: &Node) -> bool {
        self.0.is_empty() || self.0.iter().any(|matcher| matcher.matches(node))
    }
}

impl NodeMatcher {
    fn matches(&self, node: &Node) -> bool {
        self.id.as_ref().is_none_or(|id| id.matches(&node.id))
            && self.metadata.iter().all(|matcher| matcher.matches(&node.metadata))
    }
}

#[cfg(test)]
mod tests;
