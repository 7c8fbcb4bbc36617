//! States cut into pieces, and put together from them again.
//!
//! A piece ends where the next one begins, and an edit changes the pieces in which its records are: so what
//! has to be written for it does not grow with the state. One more piece, the root, lists the pieces of each
//! state and what holds it back. Not here: the records (`record`) and their bytes (`codec`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::codec::{self, Input, Read, Writer};
use super::record::{self, RecordPlace};
use super::{Memory, Piece, PieceId, Reader, Unreadable};
use crate::audience::Audience;
use crate::changes::{ChangeSet, Hold};
use crate::entry::{Entry, Form, Key};
use crate::layer::Layer;
use crate::lineage::Lineage;
use crate::state::CatalogState;

/// States that are cut into pieces.
#[derive(Clone, Debug)]
pub struct Kept {
    root: PieceId,
    states: Vec<CutState>,
}

/// A state, and its pieces by the place of the first record that each may have.
#[derive(Clone)]
struct CutState {
    state: Arc<CatalogState>,
    pieces: Index,
}

type Index = BTreeMap<RecordPlace, PieceId>;

impl Kept {
    /// The piece that leads to all others.
    pub fn root(&self) -> PieceId {
        self.root
    }

    /// All pieces.
    pub fn pieces(&self) -> BTreeSet<PieceId> {
        let all = self.states.iter().flat_map(|state| state.pieces.values().copied());
        all.chain([self.root]).collect()
    }

    /// The states.
    pub fn memory(&self) -> Memory {
        Memory { states: self.states.iter().map(|state| Arc::clone(&state.state)).collect() }
    }
}

impl Memory {
    /// Cuts the states into pieces, beside those that were cut before. Returns them with the pieces that are
    /// new.
    pub fn cut(&self, before: Option<&Kept>) -> (Kept, Vec<Piece>) {
        let (mut states, mut made) = (Vec::<CutState>::new(), Vec::new());
        let known = before.map_or(&[][..], |before| &before.states);
        for (at, state) in self.states.iter().enumerate() {
            let is_same = |it: &&CutState| Arc::ptr_eq(&it.state, state);
            let pieces = match known.iter().find(is_same) {
                Some(same) => same.pieces.clone(),
                None => cut_beside(
                    state,
                    known.get(at).or_else(|| states.last()).or_else(|| known.first()),
                    &mut made,
                ),
            };
            states.push(CutState { state: Arc::clone(state), pieces });
        }
        let root = root(&states);
        let kept = Kept { root: root.id, states };
        made.push(root);
        let had = before.map(Kept::pieces).unwrap_or_default();
        let mut seen = BTreeSet::new();
        made.retain(|piece| !had.contains(&piece.id) && seen.insert(piece.id));
        (kept, made)
    }

    /// Puts states together from their pieces.
    ///
    /// # Errors
    /// If a piece is missing, damaged, or not what this program writes.
    pub fn read(root: PieceId, reader: &Reader<'_>) -> Result<Kept, Unreadable> {
        let mut reading = Reading { reader, pieces: BTreeMap::new() };
        let bytes = reading.bytes(root)?;
        let outlines = read_root(&bytes).ok_or(Unreadable::Foreign(root))?;
        let mut states: Vec<CutState> = Vec::new();
        for outline in outlines {
            let beside = states.first().map(|first| Arc::clone(&first.state)).unwrap_or_default();
            states.push(reading.state(outline, &beside)?);
        }
        Ok(Kept { root, states })
    }
}

/// The pieces of a state, beside those of another one.
fn cut_beside(state: &CatalogState, beside: Option<&CutState>, made: &mut Vec<Piece>) -> Index {
    let Some(CutState { state: before, pieces }) = beside else {
        let mut index = Index::new();
        cut(state, &RecordPlace::FIRST, None, &mut index, made);
        return index;
    };
    let mut index = pieces.clone();
    let piece_of = |place: RecordPlace| Some(pieces.range(..=place).next_back()?.0.clone());
    let changed: BTreeSet<_> =
        record::differing(before, state).into_iter().filter_map(piece_of).collect();
    for start in changed {
        // A piece may have been joined with the one before it.
        if index.remove(&start).is_none() {
            continue;
        }
        let after = |index: &Index| index.range(&start..).next().map(|(place, _)| place.clone());
        let mut end = after(&index);
        while let Some(next) = &end
            && count(state, &start, Some(next), FEW) < FEW
        {
            index.remove(next);
            end = after(&index);
        }
        cut(state, &start, end.as_ref(), &mut index, made);
    }
    index
}

/// Cuts the records between two places into pieces.
fn cut(
    state: &CatalogState,
    from: &RecordPlace,
    to: Option<&RecordPlace>,
    index: &mut Index,
    made: &mut Vec<Piece>,
) {
    let are_many = count(state, from, to, 2 * USUAL + 1) > 2 * USUAL;
    let most = if are_many { USUAL } else { usize::MAX };
    let (mut writer, mut start, mut records) = (Writer::default(), None, 0);
    let mut end = |writer: &mut Writer, start: &mut Option<RecordPlace>| {
        if let Some(start) = start.take() {
            let piece = Piece::new(std::mem::take(writer).bytes);
            index.insert(start, piece.id);
            made.push(piece);
        }
    };
    record::for_each(state, from, to, |record| {
        let place = || RecordPlace {
            layer: record.layer.clone(),
            key: record.entry.map(|(key, _)| key.clone()),
        };
        start.get_or_insert_with(place);
        writer.record(&record);
        records += 1;
        if records >= most || writer.bytes.len() >= LARGE {
            end(&mut writer, &mut start);
            records = 0;
        }
        true
    });
    end(&mut writer, &mut start);
}

/// The number of records between two places, up to a number.
fn count(state: &CatalogState, from: &RecordPlace, to: Option<&RecordPlace>, most: usize) -> usize {
    let mut count = 0;
    record::for_each(state, from, to, |_| {
        count += 1;
        count < most
    });
    count
}

/// The state as the root lists it.
struct Outline {
    pieces: Vec<PieceId>,
    lineage: Lineage,
    holds: Vec<Hold>,
    held: Vec<Audience>,
}

fn root(states: &[CutState]) -> Piece {
    let mut writer = Writer::default();
    writer.bytes.push(FORMAT);
    writer.length(states.len());
    for CutState { state, pieces } in states {
        writer.length(pieces.len());
        pieces.values().for_each(|id| writer.bytes.extend(id.0.to_le_bytes()));
        let groups: Vec<_> = state.lineage.groups().collect();
        writer.length(groups.len());
        for group in groups {
            writer.text(group);
            writer.text(state.lineage.parent(group).map_or("", |parent| parent));
        }
        writer.length(state.holds.len());
        state.holds.iter().for_each(|hold| write_hold(hold, &mut writer));
        writer.length(state.held.len());
        for Audience { group, node, .. } in &state.held {
            for name in [group, node] {
                writer.bytes.push(u8::from(name.is_some()));
                writer.text(name.as_deref().unwrap_or_default());
            }
        }
    }
    Piece::new(writer.bytes)
}

fn write_hold(hold: &Hold, writer: &mut Writer) {
    let (kind, name) = match hold {
        Hold::Layer(Layer::Base) => (0, ""),
        Hold::Layer(Layer::Group(name)) => (1, &**name),
        Hold::Layer(Layer::Node(id)) => (2, &**id),
        Hold::UnlistedGroups => (3, ""),
        Hold::UnlistedNodes => (4, ""),
    };
    writer.bytes.push(kind);
    writer.text(name);
}

fn read_root(bytes: &[u8]) -> Option<Vec<Outline>> {
    let mut input = Input(bytes);
    if input.array()? != [FORMAT] {
        return None;
    }
    let outlines = repeated(&mut input, |input| {
        let pieces = repeated(input, |input| Some(PieceId(u128::from_le_bytes(input.array()?))))?;
        let extends = repeated(input, |input| Some((input.text()?, input.text()?)))?;
        let lineage = Lineage::new(extends).ok()?;
        let holds = repeated(input, read_hold)?;
        let held =
            repeated(input, |input| Some(Audience::of(read_name(input)?, read_name(input)?)))?;
        Some(Outline { pieces, lineage, holds, held })
    })?;
    input.0.is_empty().then_some(outlines)
}

fn repeated<'a, T>(
    input: &mut Input<'a>,
    read: impl Fn(&mut Input<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    (0..input.length()?).map(|_| read(input)).collect()
}

fn read_hold(input: &mut Input<'_>) -> Option<Hold> {
    let [kind] = input.array()?;
    let name = input.text()?;
    Some(match kind {
        0 => Hold::Layer(Layer::Base),
        1 => Hold::Layer(Layer::Group(name.into())),
        2 => Hold::Layer(Layer::Node(name.into())),
        3 => Hold::UnlistedGroups,
        4 => Hold::UnlistedNodes,
        _ => return None,
    })
}

fn read_name(input: &mut Input<'_>) -> Option<Option<Arc<str>>> {
    let [is_there] = input.array()?;
    let name = input.text()?;
    match is_there {
        0 => Some(None),
        1 => Some(Some(name.into())),
        _ => None,
    }
}

/// The records of a piece: layers that are there, and their entries.
type Records = Arc<Vec<(Layer, Option<(Key, Entry)>)>>;

/// A reading of states, which share pieces.
struct Reading<'a> {
    reader: &'a Reader<'a>,
    pieces: BTreeMap<PieceId, Records>,
}

impl Reading<'_> {
    fn bytes(&self, id: PieceId) -> Result<Vec<u8>, Unreadable> {
        let bytes = (self.reader.piece)(id).filter(|bytes| PieceId::of(bytes) == id);
        bytes.ok_or(Unreadable::Piece(id))
    }

    fn piece(&mut self, id: PieceId) -> Result<Records, Unreadable> {
        if let Some(known) = self.pieces.get(&id) {
            return Ok(Arc::clone(known));
        }
        let read = codec::records(self.reader, &self.bytes(id)?).ok_or(Unreadable::Foreign(id))?;
        let records = read.into_iter().map(|read| match read {
            Read::Layer(layer) => (layer, None),
            Read::Entry(layer, key, entry) => (layer, Some((key, entry))),
        });
        let records = Arc::new(records.collect());
        self.pieces.insert(id, Arc::clone(&records));
        Ok(records)
    }

    /// A state, which shares with another one what both have in common.
    fn state(
        &mut self,
        outline: Outline,
        beside: &Arc<CatalogState>,
    ) -> Result<CutState, Unreadable> {
        let mut pieces = Index::new();
        let mut layers: BTreeMap<Layer, BTreeMap<Key, Entry>> = BTreeMap::new();
        let mut last: Option<RecordPlace> = None;
        for id in outline.pieces {
            let mut start = None;
            for (layer, entry) in &*self.piece(id)? {
                let key = entry.as_ref().map(|(key, _)| key.clone());
                let place = Some(RecordPlace { layer: layer.clone(), key });
                let is_there = entry.is_none() || layers.contains_key(layer);
                if last >= place || !is_there {
                    return Err(Unreadable::Foreign(id));
                }
                start = start.or_else(|| place.clone());
                last = place;
                let entries = layers.entry(layer.clone()).or_default();
                let is_wanted =
                    |(_, entry): &&(Key, Entry)| self.reader.derived || entry.form == Form::Written;
                entries.extend(entry.as_ref().filter(is_wanted).cloned());
            }
            pieces.insert(start.ok_or(Unreadable::Foreign(id))?, id);
        }
        let mut changes = ChangeSet::new("state");
        let gone = beside.layers().filter(|layer| !layers.contains_key(layer));
        gone.for_each(|layer| changes.remove_layer(&layer));
        for (layer, entries) in layers {
            changes.replace_layer(&layer, entries);
        }
        let mut state = match beside.after(changes) {
            Some((state, _)) => state,
            None => CatalogState::clone(beside),
        };
        state.lineage = outline.lineage;
        state.holds = outline.holds.into_iter().collect();
        state.held = outline.held.into_iter().collect();
        Ok(CutState { state: Arc::new(state), pieces })
    }
}

impl std::fmt::Debug for CutState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CutState").field("pieces", &self.pieces.len()).finish_non_exhaustive()
    }
}

/// The format of a root and of its pieces. A change of either is another number.
const FORMAT: u8 = 1;

/// The number of records in most pieces.
const USUAL: usize = 128;

/// The number of records below which a piece is joined with the next one.
const FEW: usize = USUAL / 4;

/// The number of bytes from which on a piece ends, however few records it has.
const LARGE: usize = 256 * 1024;
