//! Reading matchers within bounds, with the place of the first fault.

use bytes::Bytes;
use prost::Message;

use super::message::{WireNodeMatcher, WireStringMatcher, WireStructMatcher};
use super::text::TextMatcher;
use super::value::MetadataMatcher;
use super::{NodeMatcher, NodeMatchers};

/// The reason why matchers cannot be used. Whoever asks is at fault.
#[derive(Debug, thiserror::Error)]
#[error("`{place}` {why}")]
pub(crate) struct MatcherFault {
    /// The field, which is made of names and numbers of the message alone: `node_matchers[1].node_id`.
    pub(super) place: String,
    /// The rest of a sentence about it.
    pub(super) why: String,
}

/// The bounds of one question, counted while its matchers are read.
pub(super) struct Reading {
    parts: usize,
}

impl NodeMatchers {
    /// Reads the matchers of a question, each in its bytes.
    pub(crate) fn read(messages: &[Bytes]) -> Result<Self, MatcherFault> {
        let mut reading = Reading { parts: 0 };
        if messages.len() > MAX_PARTS {
            return Err(reading.too_many("node_matchers"));
        }
        let read = messages.iter().enumerate().map(|(at, message)| {
            let place = format!("node_matchers[{at}]");
            let message = WireNodeMatcher::decode(message.as_ref())
                .map_err(|error| fault(&place, format!("is no `NodeMatcher`: {error}")))?;
            reading.node(&place, &message)
        });
        Ok(Self(read.collect::<Result<_, _>>()?))
    }
}

impl Reading {
    fn node(
        &mut self,
        place: &str,
        message: &WireNodeMatcher,
    ) -> Result<NodeMatcher, MatcherFault> {
        self.count(place)?;
        let id = message.node_id.as_ref();
        let id = id.map(|id| self.text(&format!("{place}.node_id"), id)).transpose()?;
        let metadata = message.node_metadatas.iter().enumerate();
        let metadata =
            metadata.map(|(at, it)| self.metadata(&format!("{place}.node_metadatas[{at}]"), it));
        Ok(NodeMatcher { id, metadata: metadata.collect::<Result<_, _>>()? })
    }

    fn metadata(
        &mut self,
        place: &str,
        message: &WireStructMatcher,
    ) -> Result<MetadataMatcher, MatcherFault> {
        self.count(place)?;
        let path: Vec<_> = message.path.iter().map(|segment| segment.key.clone()).collect();
        if path.is_empty() || path.len() > MAX_DEPTH || path.iter().any(String::is_empty) {
            let why = format!("has to have 1 to {MAX_DEPTH} keys, none of them empty");
            return Err(fault(&format!("{place}.path"), why));
        }
        let place = format!("{place}.value");
        let Some(value) = &message.value else { return Err(fault(&place, "is missing")) };
        Ok(MetadataMatcher { path, value: self.value(&place, value, MAX_DEPTH)? })
    }

    pub(super) fn text(
        &mut self,
        place: &str,
        message: &WireStringMatcher,
    ) -> Result<TextMatcher, MatcherFault> {
        self.count(place)?;
        TextMatcher::read(message).map_err(|why| fault(place, why))
    }

    /// Counts one more part of the matchers, each of which may be asked of every node.
    pub(super) fn count(&mut self, place: &str) -> Result<(), MatcherFault> {
        self.parts += 1;
        if self.parts > MAX_PARTS { Err(self.too_many(place)) } else { Ok(()) }
    }

    fn too_many(&self, place: &str) -> MatcherFault {
        fault(place, format!("makes the matchers have more than {MAX_PARTS} parts"))
    }
}

pub(super) fn fault(place: &str, why: impl Into<String>) -> MatcherFault {
    MatcherFault { place: place.to_owned(), why: why.into() }
}

/// The number of matchers of nodes, texts, metadata and values in one question.
pub(super) const MAX_PARTS: usize = 64;

/// The number of keys in a path, and of values within each other.
pub(super) const MAX_DEPTH: usize = 16;
