//! The cache of a client: what is watched, what is held of it, and which server is asked for it.
//!
//! ```text
//!   [ResourceCache] --> [AuthorityCache] --> [TypeCache] --> [CacheSlot] --> [CacheEntry]
//!                                            |              ^
//!                                            +--> [WatchedCollection], by the names of its members
//! ```
//!
//! The first level is the authority, the second the type, the third the name (C-051). Every change
//! tells the watchers that it concerns. Not here: what a response means (`machine`), and what is
//! sent (`servers`).

mod authority;
mod collection;
mod entry;
mod expiries;
mod membership;
mod resource_cache;
mod restored;
mod slots;
mod statements;
mod type_cache;
mod type_changes;
mod type_watches;
mod wanted;

pub(super) use self::authority::AuthorityCache;
pub(super) use self::entry::OnError;
pub(super) use self::membership::{Membership, StateChange};
pub(super) use self::resource_cache::ResourceCache;
pub(super) use self::slots::CacheSlot;
pub(super) use self::statements::Statement;
pub(super) use self::type_cache::TypeCache;
pub(super) use self::wanted::WantedNames;
