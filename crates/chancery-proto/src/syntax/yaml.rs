//! The reader of YAML: several documents per text, unique keys, and bounds on nesting and aliases.
//!
//! Aliases share the value that they repeat, so a file cannot fill the memory with them here. A
//! walk over the tree sees each repetition, and [`ALIAS_BUDGET`] bounds these. The size of a text
//! bounds that of its tree ([`TreeSize`]).
//!
//! Merge keys (`<<`, not a part of YAML 1.2), tags other than those of the core schema, and
//! collections as keys are refused. A duplicate key is a fault, but reading continues. Reading ends
//! where a text is not YAML, and the documents before that place stay good.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, Tag};

use super::counted::{CountedInput, TokenCount};
use super::flow;
use super::path::{FieldPath, PathStep};
use super::scalar;
use super::tree::{KeyIndex, MAX_DEPTH, MapEntry, TreeNode, TreeValue, duplicate_key, too_deep};
use super::tree_size::{TooLarge, TreeSize, VALUE, too_large};
use super::{Fault, FaultList, Position};

/// The amount that all aliases of a text together may repeat, in bytes of text and 64 for each
/// value.
pub(crate) const ALIAS_BUDGET: usize = 16 << 20;

/// The documents of a text and its faults.
#[derive(Debug, Default)]
pub(crate) struct Documents<'a> {
    pub(crate) roots: Vec<TreeNode<'a>>,
    pub(crate) faults: FaultList,
}

/// Reads all documents of a text.
pub(crate) fn read(text: &str) -> Documents<'_> {
    let no_json = match flow::read_as_json(text) {
        Ok(documents) => return documents,
        Err(fault) => fault,
    };
    let mut reader = YamlReader { size: TreeSize::of(text), ..YamlReader::default() };
    if let Err(fault) = reader.run(text, no_json) {
        reader.done.faults.push(|| *fault);
    }
    reader.done
}

type YamlResult = Result<(), Box<Fault>>;

#[derive(Default)]
struct YamlReader<'a> {
    open: Vec<Frame<'a>>,
    anchors: BTreeMap<usize, Anchored<'a>>,
    repeated: usize,
    size: TreeSize,
    done: Documents<'a>,
}

/// A collection whose end has not been read.
struct Frame<'a> {
    collection: Collection<'a>,
    anchor: usize,
    position: Position,
    extent: Extent,
}

enum Collection<'a> {
    Sequence(Vec<TreeNode<'a>>),
    Mapping { entries: Vec<MapEntry<'a>>, key: Option<PendingKey<'a>>, index: KeyIndex<'a> },
}

/// A key whose value comes next.
struct PendingKey<'a> {
    text: Cow<'a, str>,
    position: Position,
    /// True if the mapping has this key already.
    again: bool,
}

/// The size of a value for a walk.
#[derive(Clone, Copy, Default)]
struct Extent {
    weight: usize,
    height: usize,
}

struct Anchored<'a> {
    node: Rc<TreeNode<'a>>,
    extent: Extent,
}

/// The line with the first marker of a merge conflict.
fn conflict(text: &str) -> Option<usize> {
    let mut lines = text.lines().zip(1..);
    lines.find(|(line, _)| line.starts_with("<<<<<<< ")).map(|(_, number)| number)
}

impl<'a> YamlReader<'a> {
    /// Reads the text. `no_json` is the reason why it is no JSON, if it looks like that.
    fn run(&mut self, text: &'a str, no_json: Option<Fault>) -> YamlResult {
        let tokens = TokenCount::of_at_most(flow::MOST_TOKENS);
        let mut parser = Parser::new(CountedInput::new(text, &tokens));
        let mut behind = Marker::new(0, 1, 0);
        while let Some(event) = parser.next_event() {
            if tokens.is_exceeded() {
                // The text may have ended within a token, which is an error of its own.
                let start = event.map_or(behind, |(_, span)| span.start);
                return Err(Box::new(flow::too_large(position(&start), no_json)));
            }
            tokens.start_again();
            let (event, span) = event.map_err(|error| {
                let message = format!("no YAML: {}", error.info());
                let fault = self.fault(message, position(error.marker()));
                match conflict(text) {
                    Some(line) => fault.hint(format!(
                        "line {line} is a marker of a merge conflict: keep one of both versions, and remove the \
                         markers"
                    )),
                    None => fault,
                }
            })?;
            behind = span.end;
            self.take_event(event, &span)?;
        }
        Ok(())
    }

    fn take_event(&mut self, event: Event<'a>, span: &Span) -> YamlResult {
        let position = position(&span.start);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(text, style, anchor, tag.as_deref(), position)
            }
            Event::Alias(anchor) => self.alias(anchor, position),
            Event::SequenceStart(anchor, tag) => {
                self.open(Collection::Sequence(Vec::new()), anchor, tag.as_deref(), position)
            }
            Event::MappingStart(anchor, tag) => {
                self.open(Collection::mapping(), anchor, tag.as_deref(), position)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::DocumentStart(_) => {
                self.anchors.clear();
                Ok(())
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: Cow<'a, str>,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        position: Position,
    ) -> YamlResult {
        let plain = style == ScalarStyle::Plain;
        if self.awaits_key() {
            return self.key(text, plain, position);
        }
        let value = match tag {
            None if plain => scalar::plain(text),
            None => TreeValue::Text(text),
            Some(tag) => self.tagged(text, tag, position)?,
        };
        let extent = Extent { weight: weight(&value), height: 0 };
        self.value(TreeNode::new(value, position), anchor, extent)
    }

    /// Reads a scalar with a tag, which states the type.
    fn tagged(
        &self,
        text: Cow<'a, str>,
        tag: &Tag,
        position: Position,
    ) -> Result<TreeValue<'a>, Box<Fault>> {
        let name = core_tag(tag);
        if matches!(name, Some("str" | "!")) {
            return Ok(TreeValue::Text(text));
        }
        let value = scalar::plain(text);
        let fits = match (&value, name) {
            (TreeValue::Null, Some("null")) | (TreeValue::Bool(_), Some("bool")) => true,
            (TreeValue::Number(text), Some("int")) => scalar::integer(text).is_some(),
            (TreeValue::Number(_), Some("float")) => true,
            _ => false,
        };
        if fits { Ok(value) } else { Err(self.bad_tag(tag, position)) }
    }

    fn key(&mut self, text: Cow<'a, str>, plain: bool, position: Position) -> YamlResult {
        if plain && text == "<<" {
            let fault = self.fault("merge keys (`<<`) are not part of YAML 1.2", position);
            let hint = "repeat a whole value with an alias (`key: *anchor`), or write the keys out";
            return Err(Box::new(fault.hint(hint)));
        }
        let Some(Frame { collection: Collection::Mapping { entries, key, index }, .. }) =
            self.open.last_mut()
        else {
            return Ok(());
        };
        let first = index.first_place(entries, &text);
        *key = Some(PendingKey { text, position, again: first.is_some() });
        if let Some(first) = first {
            let Self { open, done, .. } = self;
            done.faults.push(|| {
                let key = open.last().and_then(Frame::key).unwrap_or_default();
                duplicate_key(key, first, position).under(path(open))
            });
        }
        Ok(())
    }

    fn alias(&mut self, anchor: usize, position: Position) -> YamlResult {
        let Some(Anchored { node, extent }) = self.anchors.get(&anchor) else {
            let message = "the alias stands inside of what it repeats, or in another document";
            return Err(Box::new(self.fault(message, position)));
        };
        let (node, extent) = (Rc::clone(node), *extent);
        if self.awaits_key() {
            return match &node.value {
                TreeValue::Text(text) | TreeValue::Number(text) => {
                    self.key(text.clone(), false, position)
                }
                _ => Err(Box::new(self.fault("a key must be a plain scalar", position))),
            };
        }
        self.repeated = self.repeated.saturating_add(extent.weight);
        if self.repeated > ALIAS_BUDGET {
            let message = format!("aliases repeat more than {} MiB", ALIAS_BUDGET >> 20);
            return Err(Box::new(self.fault(message, position)));
        }
        if self.open.len() + extent.height > MAX_DEPTH {
            return Err(Box::new(too_deep(position).under(self.path())));
        }
        self.value(TreeNode::new(TreeValue::Shared(node), position), 0, extent)
    }

    fn open(
        &mut self,
        collection: Collection<'a>,
        anchor: usize,
        tag: Option<&Tag>,
        position: Position,
    ) -> YamlResult {
        if self.awaits_key() {
            return Err(Box::new(self.fault("a key must be a plain scalar", position)));
        }
        if self.open.len() == MAX_DEPTH {
            return Err(Box::new(too_deep(position).under(self.path())));
        }
        if let Some(tag) = tag
            && core_tag(tag) != Some(collection.tag())
        {
            return Err(self.bad_tag(tag, position));
        }
        let extent = Extent { weight: VALUE_WEIGHT, height: 0 };
        self.open.push(Frame { collection, anchor, position, extent });
        Ok(())
    }

    fn close(&mut self) -> YamlResult {
        let Some(Frame { collection, anchor, position, mut extent }) = self.open.pop() else {
            return Ok(());
        };
        extent.height += 1;
        let value = match collection {
            Collection::Sequence(nodes) => TreeValue::Sequence(nodes),
            Collection::Mapping { entries, .. } => TreeValue::Mapping(entries),
        };
        self.value(TreeNode::new(value, position), anchor, extent)
    }

    /// Puts a complete value into its collection.
    fn value(&mut self, mut node: TreeNode<'a>, anchor: usize, extent: Extent) -> YamlResult {
        if anchor != 0 {
            let position = node.position();
            let shared = Rc::new(node);
            node = TreeNode::new(TreeValue::Shared(Rc::clone(&shared)), position);
            self.anchors.insert(anchor, Anchored { node: shared, extent });
        }
        // Documents without a value say no more than two of them.
        if self.open.is_empty() && node.is_null() && self.done.roots.len() >= 2 {
            return Ok(());
        }
        let collection = self.open.last().map(|frame| &frame.collection);
        let size = collection.map_or(VALUE, Collection::size_of_one_more);
        if self.size.add(size) == Err(TooLarge) {
            return Err(Box::new(too_large(node.position())));
        }
        let Some(frame) = self.open.last_mut() else {
            self.done.roots.push(node);
            return Ok(());
        };
        frame.extent.weight = frame.extent.weight.saturating_add(extent.weight);
        frame.extent.height = frame.extent.height.max(extent.height);
        frame.collection.push(node);
        Ok(())
    }

    fn awaits_key(&self) -> bool {
        let last = self.open.last().map(|frame| &frame.collection);
        matches!(last, Some(Collection::Mapping { key: None, .. }))
    }

    fn path(&self) -> String {
        path(&self.open)
    }

    fn fault(&self, message: impl Into<String>, position: Position) -> Fault {
        Fault::new(message).at(position).under(self.path())
    }

    fn bad_tag(&self, tag: &Tag, position: Position) -> Box<Fault> {
        let message = match core_tag(tag) {
            Some(name) => format!("the tag `!!{name}` does not fit this value"),
            None => format!("the tag `{}{}` means nothing here", tag.handle, tag.suffix),
        };
        Box::new(self.fault(message, position))
    }
}

impl Frame<'_> {
    /// The key whose value comes next.
    fn key(&self) -> Option<&str> {
        match &self.collection {
            Collection::Mapping { key: Some(key), .. } => Some(&key.text),
            _ => None,
        }
    }
}

fn position(mark: &Marker) -> Position {
    Position::new(mark.line(), mark.col() + 1)
}

/// The path to what is being read.
fn path(open: &[Frame<'_>]) -> String {
    let mut path = FieldPath::default();
    for frame in open {
        match &frame.collection {
            Collection::Sequence(nodes) => path.push(PathStep::Index(nodes.len())),
            Collection::Mapping { .. } => {
                frame.key().into_iter().for_each(|key| path.push(PathStep::Field(key)));
            }
        }
    }
    path.text()
}

impl<'a> Collection<'a> {
    fn mapping() -> Self {
        Self::Mapping { entries: Vec::new(), key: None, index: KeyIndex::default() }
    }

    fn tag(&self) -> &'static str {
        match self {
            Self::Sequence(_) => "seq",
            Self::Mapping { .. } => "map",
        }
    }

    /// The size in the tree of one value more.
    fn size_of_one_more(&self) -> usize {
        match self {
            Self::Sequence(_) => VALUE,
            Self::Mapping { entries, .. } => KeyIndex::size_of_entry(entries),
        }
    }

    fn push(&mut self, node: TreeNode<'a>) {
        match self {
            Self::Sequence(nodes) => nodes.push(node),
            Self::Mapping { entries, key, .. } => {
                if let Some(PendingKey { text, position, again: false }) = key.take() {
                    entries.push(MapEntry { key: text, key_position: position, node });
                }
            }
        }
    }
}

const VALUE_WEIGHT: usize = 64;

fn weight(value: &TreeValue<'_>) -> usize {
    match value {
        TreeValue::Number(text) | TreeValue::Text(text) => VALUE_WEIGHT + text.len(),
        _ => VALUE_WEIGHT,
    }
}

/// The name of a tag of the core schema, and `!` for the tag that only means "not plain".
fn core_tag(tag: &Tag) -> Option<&str> {
    if tag.is_yaml_core_schema() {
        Some(&tag.suffix)
    } else {
        (format!("{}{}", tag.handle, tag.suffix) == "!").then_some("!")
    }
}
