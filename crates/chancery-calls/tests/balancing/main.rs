//! Scripts of trees of policies on a network without sockets, each with the rule that it proves.

mod pick_first;
mod ring_hash;
mod round_robin;
mod support;
