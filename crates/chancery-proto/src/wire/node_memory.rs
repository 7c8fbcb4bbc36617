//! The memory of a node, counted from its bytes before they are decoded.
//!
//! The decoder keeps a map of one entry for each six bytes of a node, and can be asked only when it
//! has kept them all. Not here: what each part takes (`crate::node_memory`).

use super::fields::{Fields, Outcome};
use crate::node_memory::NodeMemory;

/// Counts the metadata, features and parameters of a node.
pub(super) fn count_node(node: &[u8], memory: &mut NodeMemory) -> Outcome<()> {
    let (mut features, mut parameters) = (0, 0);
    let mut fields = Fields(node);
    while let Some((number, value)) = fields.next()? {
        match number {
            3 => count_map(value, memory, DEPTH)?,
            10 => count_text(&mut features, value, memory)?,
            12 => {
                memory.add_entry(parameters)?;
                parameters += 1;
                count_entry(value, memory, |context, memory| count_map(context, memory, 0))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Counts a message that is a map and nothing else. At depth 0 its values are texts.
fn count_map(map: &[u8], memory: &mut NodeMemory, depth: usize) -> Outcome<()> {
    let mut count = 0;
    let mut fields = Fields(map);
    while let Some((number, entry)) = fields.next()? {
        if number == 1 {
            memory.add_entry(count)?;
            count += 1;
            count_entry(entry, memory, |value, memory| match depth.checked_sub(1) {
                Some(depth) => count_value(value, memory, depth),
                None => Ok(memory.add_text(value.len())?),
            })?;
        }
    }
    Ok(())
}

/// Counts the key of an entry, and its value.
fn count_entry(
    entry: &[u8],
    memory: &mut NodeMemory,
    count: impl Fn(&[u8], &mut NodeMemory) -> Outcome<()>,
) -> Outcome<()> {
    let mut fields = Fields(entry);
    while let Some((number, found)) = fields.next()? {
        match number {
            1 => memory.add_text(found.len())?,
            2 => count(found, memory)?,
            _ => {}
        }
    }
    Ok(())
}

/// Counts a `google.protobuf.Value`. The decoder refuses one that is deeper than this looks.
fn count_value(value: &[u8], memory: &mut NodeMemory, depth: usize) -> Outcome<()> {
    let Some(depth) = depth.checked_sub(1) else { return Ok(()) };
    let mut fields = Fields(value);
    while let Some((number, inner)) = fields.next()? {
        match number {
            3 => memory.add_text(inner.len())?,
            5 => count_map(inner, memory, depth + 1)?,
            6 => count_list(inner, memory, depth)?,
            _ => {}
        }
    }
    Ok(())
}

fn count_list(list: &[u8], memory: &mut NodeMemory, depth: usize) -> Outcome<()> {
    let mut count = 0;
    let mut fields = Fields(list);
    while let Some((number, value)) = fields.next()? {
        if number == 1 {
            memory.add_element(count)?;
            count += 1;
            count_value(value, memory, depth)?;
        }
    }
    Ok(())
}

fn count_text(count: &mut usize, text: &[u8], memory: &mut NodeMemory) -> Outcome<()> {
    memory.add_element(*count)?;
    *count += 1;
    Ok(memory.add_text(text.len())?)
}

/// The values within each other that are counted. The decoder reads a hundred messages within each
/// other, of which each value is at least one.
const DEPTH: usize = 100;
