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
pub(super) struct Parts {
    blocks: VecDeque<Block>,
    /// The bytes of the parts that nobody else keeps.
    own: usize,
}

enum Block {
    /// A part, and true if nobody else keeps it.
    Bytes(Bytes, bool),
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
                // An encoding as another type than the first one is not kept with the resource.
                Segment::Resource(resource) if !bytes.is_unique() => {
                    parts.push_resource(response, resource);
                }
                _ => parts.push(bytes),
            }
        }
        (parts, size)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The next part.
    pub(super) fn first(&self) -> Option<Bytes> {
        self.iter().next()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Bytes> {
        self.blocks.iter().flat_map(Block::iter)
    }

    pub(super) fn push(&mut self, part: Bytes) {
        let is_own = part.is_unique();
        self.own += if is_own { part.len() } else { 0 };
        self.blocks.push_back(Block::Bytes(part, is_own));
    }

    fn push_resource(&mut self, response: &Response, resource: &Arc<Resource>) {
        if let Some(Block::Resources(block)) = self.blocks.back_mut()
            && block.list.len() < BLOCK
        {
            return block.list.push_back(Arc::clone(resource));
        }
        let (type_url, form) = (response.type_url.clone(), response.form());
        let list = VecDeque::from([Arc::clone(resource)]);
        self.blocks.push_back(Block::Resources(Resources { type_url, form, list }));
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let part = match self.blocks.front_mut()? {
            Block::Bytes(bytes, is_own) => {
                self.own -= if *is_own { bytes.len() } else { 0 };
                std::mem::take(bytes)
            }
            Block::Resources(block) => {
                let part = block.list.front().map(|resource| block.encode(resource));
                block.list.pop_front();
                if !block.list.is_empty() {
                    return part;
                }
                part.unwrap_or_default()
            }
        };
        self.blocks.pop_front();
        if self.is_empty() {
            self.blocks = VecDeque::new();
        }
        Some(part)
    }

    pub(super) fn append(&mut self, mut others: Self) {
        self.blocks.append(&mut others.blocks);
        self.own += others.own;
    }

    /// The number of bytes of the references, and of the parts that nobody else keeps.
    pub(super) fn held_bytes(&self) -> usize {
        let lists = self.blocks.iter().map(|block| match block {
            Block::Bytes(..) => 0,
            Block::Resources(block) => block.list.capacity(),
        });
        let lists = lists.sum::<usize>() * size_of::<Arc<Resource>>();
        lists + self.blocks.capacity() * size_of::<Block>() + self.own
    }
}

impl Block {
    fn iter(&self) -> impl Iterator<Item = Bytes> {
        let (bytes, resources) = match self {
            Self::Bytes(bytes, _) => (Some(bytes.clone()), None),
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
        assert_eq!(parts.own, (1..=20).sum::<usize>());
        assert_eq!(parts.first(), Some(part(0)));
        for at in 0..20 {
            assert_eq!(parts.pop(), Some(part(at)));
        }
        assert_eq!((parts.pop(), parts.held_bytes()), (None, 0));
    }
}
