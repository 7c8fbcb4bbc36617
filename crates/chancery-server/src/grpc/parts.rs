//! A queue of parts of responses.
//!
//! A client that names ten thousand resources is sent as many parts, and a thousand such clients may
//! come at once, and take their responses in turn. So a part that is a resource is kept as a pointer
//! to it, in blocks that are small, so that memory which one stream gives back serves the next one:
//! references to encodings in one list were measured as twice the memory of a subscribed name.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::server::{Form, Response, Segment};
use chancery_core::{Resource, TypeUrl};
use chancery_proto::wire;

/// The number of resources in a block.
const BLOCK: usize = 512;

/// Parts, in their order.
#[derive(Default)]
pub(super) struct Parts(VecDeque<Block>);

enum Block {
    Bytes(Bytes),
    Resources(Resources),
}

/// Resources of one response that come one after another.
struct Resources {
    type_url: TypeUrl,
    form: Form,
    list: VecDeque<Arc<Resource>>,
}

impl Parts {
    /// The parts of a response, and the number of their bytes.
    pub(super) fn of(response: &Response) -> (Self, usize) {
        let (mut parts, mut size) = (Self::default(), 0);
        let encoded = wire::encode_entries(response);
        for (segment, bytes) in response.entries.segments().iter().zip(encoded) {
            size += bytes.len();
            match segment {
                Segment::Resource(resource) => parts.push_resource(response, resource),
                Segment::Run(_) | Segment::Own(_) => parts.push(bytes),
            }
        }
        (parts, size)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next part.
    pub(super) fn first(&self) -> Option<Bytes> {
        self.iter().next()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Bytes> {
        self.0.iter().flat_map(Block::iter)
    }

    pub(super) fn push(&mut self, part: Bytes) {
        self.0.push_back(Block::Bytes(part));
    }

    fn push_resource(&mut self, response: &Response, resource: &Arc<Resource>) {
        if let Some(Block::Resources(block)) = self.0.back_mut()
            && block.list.len() < BLOCK
        {
            return block.list.push_back(Arc::clone(resource));
        }
        let (type_url, form) = (response.type_url.clone(), response.form());
        let list = VecDeque::from([Arc::clone(resource)]);
        self.0.push_back(Block::Resources(Resources { type_url, form, list }));
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let part = match self.0.front_mut()? {
            Block::Bytes(bytes) => std::mem::take(bytes),
            Block::Resources(block) => {
                let part = block.list.front().map(|resource| block.encode(resource));
                block.list.pop_front();
                if !block.list.is_empty() {
                    return part;
                }
                part.unwrap_or_default()
            }
        };
        self.0.pop_front();
        if self.is_empty() {
            self.0 = VecDeque::new();
        }
        Some(part)
    }

    pub(super) fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    /// The number of bytes of the parts that nobody else keeps.
    pub(super) fn own_bytes(&self) -> usize {
        let own = |block: &Block| match block {
            Block::Bytes(bytes) if bytes.is_unique() => bytes.len(),
            Block::Bytes(_) | Block::Resources(_) => 0,
        };
        self.0.iter().map(own).sum()
    }

    /// The number of bytes of the references.
    pub(super) fn held_bytes(&self) -> usize {
        let lists = self.0.iter().map(|block| match block {
            Block::Bytes(_) => 0,
            Block::Resources(block) => block.list.capacity(),
        });
        lists.sum::<usize>() * size_of::<Arc<Resource>>() + self.0.capacity() * size_of::<Block>()
    }
}

impl Block {
    fn iter(&self) -> impl Iterator<Item = Bytes> {
        let (bytes, resources) = match self {
            Self::Bytes(bytes) => (Some(bytes.clone()), None),
            Self::Resources(resources) => (None, Some(resources)),
        };
        bytes.into_iter().chain(resources.into_iter().flat_map(Resources::iter))
    }
}

impl Resources {
    fn iter(&self) -> impl Iterator<Item = Bytes> {
        self.list.iter().map(|resource| self.encode(resource))
    }

    /// The encoding of one of these, which is kept with it.
    fn encode(&self, resource: &Arc<Resource>) -> Bytes {
        wire::encode_resource(&self.type_url, self.form, resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_out_in_their_order() {
        let part = |at: usize| Bytes::from(vec![7; at + 1]);
        let (mut parts, mut others) = (Parts::default(), Parts::default());
        (0..10).for_each(|at| parts.push(part(at)));
        (10..20).for_each(|at| others.push(part(at)));
        parts.append(others);
        assert_eq!(parts.own_bytes(), (1..=20).sum::<usize>());
        assert_eq!(parts.first(), Some(part(0)));
        for at in 0..20 {
            assert_eq!(parts.pop(), Some(part(at)));
        }
        assert_eq!((parts.pop(), parts.held_bytes()), (None, 0));
    }
}
