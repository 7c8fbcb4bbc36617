//! The states that audiences see, as values that can be kept over a restart of the program.
//!
//! ```text
//!   Catalog --memory--> Memory --cut--> Kept: an index of pieces, of which an edit changes few
//!   Catalog <-restore-- Memory <-read-- pieces, whoever kept them
//! ```
//!
//! A piece has some of the entries of a state, in their order, and is called by the digest of its bytes:
//! so states share pieces, and a damaged one is none. Not here: files. Whoever keeps pieces says how they
//! are read, and what happens if some are missing.

mod codec;
mod pieces;
mod record;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use chancery_proto::schema::Schema;
use xxhash_rust::xxh3::xxh3_128;

use crate::audience::Audience;
use crate::entry::{Entry, Key};
use crate::layer::Layer;
use crate::lineage::Lineage;
use crate::state::CatalogState;

pub use self::pieces::Kept;

/// The states that audiences of a catalog see, the newest first. Clones are cheap.
#[derive(Clone, Default)]
pub struct Memory {
    pub(crate) states: Vec<Arc<CatalogState>>,
}

/// A piece of the states of a catalog, by the digest of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PieceId(u128);

/// Bytes, and the digest by which they are called.
#[derive(Clone)]
pub struct Piece {
    /// The digest.
    pub id: PieceId,
    /// The bytes, which may hold secrets.
    pub bytes: Arc<[u8]>,
}

/// The error for pieces that are missing, damaged, or written by another version of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unreadable {
    /// A piece is missing, or is not what it is called.
    Piece(PieceId),
    /// A piece is whole, and not what this program writes.
    Foreign(PieceId),
}

/// The surroundings of a reading of pieces.
pub struct Reader<'a> {
    /// The types of resources.
    pub schema: &'a Schema,
    /// Gives the bytes of a piece, if there are any.
    pub piece: &'a dyn Fn(PieceId) -> Option<Vec<u8>>,
    /// Gives an entry that is known from elsewhere. If it is what is kept, it is used, and nothing is made of
    /// the bytes.
    pub known: &'a dyn Fn(&Layer, &Key) -> Option<Entry>,
    /// False if resources that were [derived](crate::Form::Derived) from others are not served any more. They
    /// are left out then, so that nobody takes them for lost.
    pub derived: bool,
}

impl Memory {
    /// Returns true if nothing was committed.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Returns true if both are of the same states.
    pub fn is_same(&self, other: &Self) -> bool {
        let same = |(one, other): (&Arc<CatalogState>, &Arc<CatalogState>)| Arc::ptr_eq(one, other);
        self.states.len() == other.states.len() && self.states.iter().zip(&other.states).all(same)
    }

    /// The layers of the newest state.
    pub fn layers(&self) -> BTreeSet<Layer> {
        self.states.first().into_iter().flat_map(|state| state.layers()).collect()
    }

    /// The audiences that the gate holds in the newest state.
    pub fn held(&self) -> impl Iterator<Item = &Audience> {
        self.states.first().into_iter().flat_map(|state| state.held.iter())
    }

    /// The lineage of the newest state.
    pub fn lineage(&self) -> Lineage {
        self.states.first().map(|state| state.lineage.clone()).unwrap_or_default()
    }
}

impl PieceId {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(xxh3_128(bytes))
    }
}

impl Piece {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { id: PieceId::of(&bytes), bytes: bytes.into() }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Piece(id) => write!(f, "piece `{id}` is missing or damaged"),
            Self::Foreign(id) => write!(f, "piece `{id}` is not of this version of the program"),
        }
    }
}

impl std::error::Error for Unreadable {}

impl fmt::Display for PieceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for PieceId {
    type Err = std::num::ParseIntError;

    /// Reads exactly what [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_plain = text.len() == 32 && !text.starts_with('+');
        u128::from_str_radix(if is_plain { text } else { "" }, 16).map(Self)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("states", &self.states.len()).finish_non_exhaustive()
    }
}

/// The bytes may hold secrets and are never printed (S-138).
impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.id, self.bytes.len())
    }
}
