//! The content of one file, parsed as a whole or piece by piece.
//!
//! A piece is a document of a YAML stream. After a change in a file of thousands of them, only the
//! changed pieces are parsed, and the others are taken over. The pieces are put together only if
//! each of them is good and they do not contradict each other; any other file is parsed as a whole,
//! which alone finds faults.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use std::path::Path;

use chancery_catalog::{Entry, EntryContent, Key, Layer, Origin};
use chancery_core::printable::{MAX_NAME_BYTES, cut};
use chancery_core::{Resource, ResourceName, TypeUrl};
use chancery_proto::document::{
    self, BrokenRule, Format, MAX_FAULTS, Parsed, Piece, Position, Renderer, ResourceEdit,
};
use chancery_proto::lint;
use chancery_proto::resource::to_v2;
use chancery_proto::schema::Schema;
use chancery_proto::values::NodeValues;
use xxhash_rust::xxh3::xxh3_128;

use crate::allowance::{Allowance, Allowances};
use crate::fault::{Fault, Scope, Warning, Wrong};
use crate::options::Options;
use crate::read::workers;
use crate::scan::listing::FoundFile;

/// The hint for a broken rule that holds back its layer.
const HOW_TO_SERVE_IT: &str =
    "Envoy rejects this; if all clients accept it, set `gate.messages: warn`";

const HOW_TO_SERVE_TO_GRPC: &str =
    "gRPC rejects this; if all clients accept it, set `gate.messages: warn`";

/// The warning about a comment that lets nothing pass.
const MALFORMED: &str = "allow/malformed";
const NOT_UNDERSTOOD: &str =
    "this comment lets nothing pass; write `# chancery: allow CODE: REASON`";

/// The fault of an edit at the top of the directory.
const NOTHING_BELOW: &str = "`patch` and `remove` change resources of the layers below, and `values` those of \
                             their file or below; nothing is below the files at the top";

/// The hint for it.
const WHERE_EDITS_STAND: &str = "change the resource where it stands, put `values` into its file, or move this to \
                                 the directory of a group (`groups/NAME/`) or a node (`nodes/ID/`)";

/// The fault of an edit where v2 is served: the v2 form of the resource would stay as it is.
const NOT_FOR_V2: &str = "`patch`, `remove` and `values` do not reach clients of v2: write the resource whole, or do \
                          without `enable-v2`";

/// The content of one file.
#[derive(Clone, Default)]
pub(crate) struct Document {
    pub(crate) resources: Vec<LoadedResource>,
    /// The first faults.
    pub(crate) faults: Vec<Fault>,
    /// The number of the others.
    pub(crate) more_faults: usize,
    /// The first rules of messages that resources break, if these hold nothing back.
    pub(crate) violations: Vec<Fault>,
    /// The number of the others.
    pub(crate) more_violations: usize,
    pub(crate) warnings: Vec<Warning>,
    /// The comments that let findings pass.
    pub(crate) allowances: Vec<Allowance>,
    /// True if the file says nothing, not even that it has no resources.
    pub(crate) is_blank: bool,
    /// The pieces of the file, if it was parsed piece by piece.
    parts: Vec<DocumentPart>,
}

/// A resource or an edit of one, as a file has it, and where that is written.
#[derive(Clone)]
pub(crate) struct LoadedResource {
    pub(crate) type_url: TypeUrl,
    pub(crate) content: EntryContent,
    pub(crate) position: Position,
    /// The resource under its v2 type, if it has one and v2 is served.
    pub(crate) v2: Option<(TypeUrl, Arc<Resource>)>,
    /// The fields that differ by node.
    pub(crate) values: Option<Arc<NodeValues>>,
}

impl LoadedResource {
    /// The entries of the resource and of its v2 form.
    pub(crate) fn entries(&self, file: &Arc<Path>) -> impl Iterator<Item = (Key, Entry)> {
        let origin = Origin::File { path: Arc::clone(file), position: self.position };
        let written = Entry::of(self.content.clone(), origin.clone());
        let written = written.with_values(self.values.clone());
        let derived = self.v2.iter().map(move |(type_url, resource)| {
            let entry = Entry::derived(Arc::clone(resource), origin.clone());
            (Key::of(type_url, resource), entry)
        });
        std::iter::once((self.key(), written)).chain(derived)
    }

    /// The key of the resource as it is written.
    fn key(&self) -> Key {
        Key::of_content(&self.type_url, &self.content)
    }

    /// Returns true if both say the same by being the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let is_same = match (&self.content, &other.content) {
            (EntryContent::Whole(one), EntryContent::Whole(other)) => Arc::ptr_eq(one, other),
            (EntryContent::Patch(one), EntryContent::Patch(other)) => Arc::ptr_eq(one, other),
            (EntryContent::Removal(one), EntryContent::Removal(other)) => one == other,
            _ => false,
        };
        let values = match (&self.values, &other.values) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        is_same && values && self.position == other.position
    }

    /// The keys of these entries.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        let derived = self.v2.iter().map(|(type_url, resource)| Key::of(type_url, resource));
        std::iter::once(self.key()).chain(derived)
    }
}

/// The parameters of parsing a file.
#[derive(Clone, Copy)]
pub(crate) struct Parsing<'a> {
    pub(crate) found: &'a FoundFile,
    /// Returns true if faults may quote the file. Nobody asks unless there are any.
    pub(crate) quotes: &'a (dyn Fn() -> bool + Sync),
    pub(crate) options: &'a Options,
    pub(crate) schema: &'a Schema,
}

/// A parsed piece. Its lines are counted from its own start.
#[derive(Clone)]
struct DocumentPart {
    hash: u128,
    document: Arc<Document>,
}

impl Document {
    /// A file of which only a fault is known.
    pub(crate) fn wrong(fault: Fault) -> Self {
        Self { faults: vec![fault], ..Self::default() }
    }

    /// Returns true if the difference does not matter: it is the same document, or both have no
    /// resources, for the same faults.
    pub(crate) fn is_same(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        let nothing = self.resources.is_empty() && other.resources.is_empty();
        let faults = |document: &Self| (document.more_faults, document.is_blank);
        let is_same = || faults(self) == faults(other) && self.faults == other.faults;
        Arc::ptr_eq(self, other) || (nothing && is_same())
    }

    /// The number of faults and violations that are described.
    pub(crate) fn described(&self) -> usize {
        self.faults.len() + self.violations.len()
    }

    /// Makes the violations faults, which hold back the layer of the file.
    fn hold_violations(&mut self) {
        self.faults.append(&mut self.violations);
        self.faults.sort_by_key(|fault| fault.position);
        self.more_faults += std::mem::take(&mut self.more_violations);
        self.more_faults += self.faults.len().saturating_sub(MAX_FAULTS);
        self.faults.truncate(MAX_FAULTS);
    }

    /// The same document with so many faults at most, and one at least, and as many violations. The
    /// others are counted.
    pub(crate) fn with_faults(self: Arc<Self>, most: usize) -> Arc<Self> {
        let most = most.max(1);
        if self.faults.len() <= most && self.violations.len() <= most {
            return self;
        }
        let mut document = Arc::unwrap_or_clone(self);
        document.more_faults += document.faults.len().saturating_sub(most);
        document.faults.truncate(most);
        document.more_violations += document.violations.len().saturating_sub(most);
        document.violations.truncate(most);
        Arc::new(document)
    }
}

impl Parsing<'_> {
    /// Parses the file. `before` is its document so far.
    pub(crate) fn document(
        self,
        bytes: &[u8],
        before: Option<&Document>,
    ) -> Result<Document, Wrong> {
        let known = before.map_or(&[][..], |before| &before.parts);
        let is_yaml = self.found.format == Format::Yaml;
        let text = is_yaml.then(|| str::from_utf8(bytes).ok()).flatten();
        let pieces = text.and_then(document::pieces);
        match pieces.and_then(|pieces| self.together(&pieces, known)) {
            Some(document) => Ok(document),
            None => self.parse_caught(bytes),
        }
    }

    /// The rules of messages that a text breaks, as faults.
    fn violations(self, broken: &[BrokenRule], bytes: &[u8]) -> Vec<Fault> {
        let faults = broken.iter().map(|broken| {
            let is_of_grpc = broken.fault.code.starts_with("grpc/");
            let hint = if is_of_grpc { HOW_TO_SERVE_TO_GRPC } else { HOW_TO_SERVE_IT };
            let hint = self.options.hold_violations.then(|| hint.to_owned());
            document::Fault { hint, ..broken.fault.clone() }
        });
        let faults = self.rendered(faults.collect(), bytes).into_iter().zip(broken);
        faults.map(|(fault, broken)| fault.of_rule(broken)).collect()
    }

    /// Parses a whole text. A parser that panics is a fault of this file and concerns no other.
    fn parse_caught(self, bytes: &[u8]) -> Result<Document, Wrong> {
        let Self { found, options: &Options { v2, ref checks, .. }, schema, .. } = self;
        let (allowing, checks) = (checks, checks.of(&found.layer));
        let parse =
            AssertUnwindSafe(|| document::parse_checked(schema, found.format, bytes, checks));
        let parsed = catch_unwind(parse).map_err(|_| Wrong::Panicked)?;
        let Parsed { mut resources, edits, mut violations, more_violations, .. } = parsed;
        let Parsed { mut faults, more_faults, is_blank, .. } = parsed;
        if let Some(first) = edits.first() {
            faults.extend(self.wrong_edits().map(|fault| fault.at(first.position)));
        }
        // The v2 form of a resource would have the value of the file.
        let valued = resources.iter().filter(|it| v2 && it.values.is_some()).map(|it| it.position);
        faults.extend(valued.take(1).map(|position| {
            document::Fault::new(NOT_FOR_V2).at(position).of_code("wrong-resource")
        }));
        let starts = resources.iter().map(|it| it.position);
        let starts = starts.chain(edits.iter().map(|it| it.position));
        let mut allowances = Allowances::read(found.format, bytes, starts);
        violations.retain(|broken| {
            let code = broken.fault.code;
            !allowances.let_pass(broken.fault.position, code) && !allowing.allow(code)
        });
        for parsed in &mut resources {
            let start = parsed.position;
            parsed.warnings.retain(|warning| {
                let position = warning.position.unwrap_or(start);
                !allowances.let_pass(Some(position), warning.code) && !allowing.allow(warning.code)
            });
        }
        let mut document =
            Document { more_faults, more_violations, is_blank, ..Document::default() };
        document.faults = self.rendered(faults, bytes);
        document.violations = self.violations(&violations, bytes);
        if self.options.hold_violations {
            document.hold_violations();
        }
        document.warnings.extend(allowances.malformed.iter().map(|line| Warning {
            line: Some(*line),
            ..Warning::of_file(MALFORMED, &found.path, NOT_UNDERSTOOD)
        }));
        document.allowances = allowances.into_all();
        for parsed in resources {
            let key = (&parsed.type_url, parsed.resource.name());
            document.warnings.extend(self.warnings(key, parsed.position, &parsed.warnings));
            let old = v2.then(|| to_v2(schema, &parsed.type_url, &parsed.resource));
            document.resources.push(LoadedResource {
                type_url: parsed.type_url,
                content: EntryContent::Whole(parsed.resource),
                position: parsed.position,
                v2: old.flatten().map(|(type_url, resource)| (type_url, Arc::new(resource))),
                values: parsed.values,
            });
        }
        for edit in &edits {
            let key = (&edit.type_url, &edit.name);
            document.warnings.extend(self.warnings(key, edit.position, &edit.warnings));
        }
        document.resources.extend(edits.into_iter().map(|edit| LoadedResource {
            type_url: edit.type_url,
            content: match edit.edit {
                ResourceEdit::Patch(patch) => EntryContent::Patch(patch),
                ResourceEdit::Remove => EntryContent::Removal(edit.name),
            },
            position: edit.position,
            v2: None,
            values: edit.values,
        }));
        Ok(document)
    }

    /// The warnings about a resource that begins at this position.
    fn warnings(
        self,
        (type_url, name): (&TypeUrl, &ResourceName),
        start: Position,
        warnings: &[lint::Warning],
    ) -> impl Iterator<Item = Warning> {
        let shown = cut(name.as_str(), MAX_NAME_BYTES);
        warnings.iter().map(move |warning| Warning {
            file: Some(self.found.path.to_path_buf()),
            line: Some(warning.position.unwrap_or(start).line),
            column: Some(warning.position.unwrap_or(start).column),
            message: format!("{} `{shown}`: {warning}", type_url.short()),
            code: warning.code,
            resource: Some((type_url.clone(), name.clone())),
        })
    }

    /// The fault of a text with edits where there can be none.
    fn wrong_edits(self) -> Option<document::Fault> {
        let fault = match (&self.found.layer, self.options.v2) {
            (Layer::Base, _) => document::Fault::new(NOTHING_BELOW).hint(WHERE_EDITS_STAND),
            (_, true) => document::Fault::new(NOT_FOR_V2),
            (_, false) => return None,
        };
        Some(fault.of_code("wrong-resource"))
    }

    /// The faults of a text. Without any, nothing is made of the text or of its path.
    fn rendered(self, faults: Vec<document::Fault>, bytes: &[u8]) -> Vec<Fault> {
        if faults.is_empty() {
            return Vec::new();
        }
        let found = self.found;
        let quotes = (self.quotes)();
        let file = found.path.display().to_string();
        let mut renderer = Renderer::new(&file, str::from_utf8(bytes).ok());
        let rendered = faults.into_iter().map(|fault| {
            let fault = if quotes { fault } else { fault.unquoted() };
            let rendered = renderer.render(&fault);
            Fault::of_document(Scope::Layer(found.layer.clone()), &found.path, &fault, rendered)
        });
        rendered.collect()
    }

    /// Joins the pieces of a text; `None` if one has a fault or breaks a rule, or two define the same
    /// resource.
    fn together(self, pieces: &[Piece<'_>], known: &[DocumentPart]) -> Option<Document> {
        let mut document = Document { parts: self.parts(pieces, known)?, ..Document::default() };
        for (piece, part) in pieces.iter().zip(&document.parts) {
            let resources = part.document.resources.iter().cloned().map(|mut loaded| {
                loaded.position.line = loaded.position.line.saturating_add(piece.lines);
                loaded
            });
            document.resources.extend(resources);
            let warnings = part.document.warnings.iter().cloned().map(|mut warning| {
                warning.line = warning.line.map(|line| line.saturating_add(piece.lines));
                warning
            });
            document.warnings.extend(warnings);
            let allowances = part.document.allowances.iter().cloned();
            document.allowances.extend(allowances.map(|it| it.moved(piece.lines)));
        }
        document.is_blank = document.parts.iter().all(|part| part.document.is_blank);
        let names = document.resources.iter();
        let names = names.map(|it| (it.content.name().as_str(), it.type_url.as_str()));
        let mut seen = HashSet::with_capacity(document.resources.len());
        names.into_iter().all(|name| seen.insert(name)).then_some(document)
    }

    /// The documents of all pieces, parsed before or now. Returns `None` if one has a fault, and
    /// leaves the others then: the text is parsed as a whole.
    fn parts(self, pieces: &[Piece<'_>], known: &[DocumentPart]) -> Option<Vec<DocumentPart>> {
        let hashes: Vec<u128> =
            pieces.iter().map(|piece| xxh3_128(piece.text.as_bytes())).collect();
        let start = hashes.iter().zip(known).take_while(|(hash, part)| **hash == part.hash).count();
        let moved: HashMap<u128, &DocumentPart> =
            known[start..].iter().map(|part| (part.hash, part)).collect();
        let mut parts = known[..start].to_vec();
        let rest: Vec<_> = pieces.iter().zip(hashes).skip(start).collect();
        let has_fault = AtomicBool::new(false);
        let read = workers::map(&rest, |(piece, hash)| {
            if let Some(part) = moved.get(hash) {
                return Some((*part).clone());
            }
            if has_fault.load(Ordering::Relaxed) {
                return None;
            }
            let part = self.part(piece, *hash);
            has_fault.fetch_or(part.is_none(), Ordering::Relaxed);
            part
        });
        for part in read {
            parts.push(part?);
        }
        Some(parts)
    }

    /// Parses a piece. Returns `None` if it has a fault or breaks a rule.
    fn part(self, piece: &Piece<'_>, hash: u128) -> Option<DocumentPart> {
        let document = self.parse_caught(piece.text.as_bytes()).ok()?;
        let part = DocumentPart { hash, document: Arc::new(document) };
        (part.document.described() == 0).then_some(part)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use chancery_proto::clients::Clients;
    use chancery_proto::document::{Checks, RuleCheck};

    use super::*;
    use crate::scan::listing::FileStamp;

    fn found() -> FoundFile {
        let metadata = std::env::temp_dir().metadata().unwrap();
        FoundFile {
            path: Path::new("a.yaml").into(),
            layer: Layer::Base,
            format: Format::Yaml,
            stamp: FileStamp::of(&metadata),
            bytes: 0,
            is_ours: true,
        }
    }

    /// A document of a stream: mostly a cluster that gRPC warns of, and sometimes one with a fault
    /// or none at all.
    fn piece() -> impl Strategy<Value = String> {
        let cluster = "\"@type\": t/envoy.config.cluster.v3.Cluster";
        let good = (0..12u8, 0..3u8).prop_map(move |(name, seconds)| {
            format!(
                "{cluster}\nname: c{name}\nconnect_timeout: {seconds}s\n\
                 eds_cluster_config: {{ eds_config: {{ path: /a }} }}\n"
            )
        });
        let rest = prop_oneof![
            Just(format!("{cluster}\nname: x\nnonsense: 1\n")),
            Just("# nothing\n".to_owned()),
            Just("[\n".to_owned()),
        ];
        prop_oneof![20 => good, 1 => rest]
    }

    fn told(document: &Document) -> (Vec<String>, [&[Fault]; 2], &[Warning], bool) {
        let resources = document
            .resources
            .iter()
            .map(|it| format!("{:?} {:?} {} {:?}", it.type_url, it.content, it.position, it.v2));
        let faults = [&document.faults[..], &document.violations[..]];
        (resources.collect(), faults, &document.warnings, document.is_blank)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn pieces_that_were_known_are_what_the_whole_is(
            texts in vec(vec(piece(), 1..8), 1..6),
            v2 in any::<bool>(),
        ) {
            let (found, schema) = (found(), Schema::bundled());
            let rules = if v2 { RuleCheck::Warn } else { RuleCheck::Fault };
            let clients = "grpc".parse::<Clients>().unwrap().and(Clients::ENVOY);
            let checks = Checks { rules, clients }.into();
            let options = Options { v2, checks, ..Options::new(".") };
            let parsing =
                Parsing { found: &found, quotes: &|| true, options: &options, schema: &schema };
            let mut before = None;
            for text in texts {
                let text = text.join("---\n");
                let whole = parsing.parse_caught(text.as_bytes()).unwrap();
                let document = parsing.document(text.as_bytes(), before.as_ref()).unwrap();
                prop_assert_eq!(told(&document), told(&whole));
                before = Some(document);
            }
        }
    }

    #[test]
    fn no_piece_is_read_after_one_with_a_fault() {
        let (found, schema, faulty) = (found(), Schema::bundled(), AtomicUsize::new(0));
        // Each text with a fault asks whether it may be quoted.
        let quotes = || faulty.fetch_add(1, Ordering::Relaxed) > 0;
        let options = Options::new(".");
        let parsing =
            Parsing { found: &found, quotes: &quotes, options: &options, schema: &schema };
        // They are too few for several threads.
        let document = parsing.document("nonsense: 1\n---\n".repeat(20).as_bytes(), None).unwrap();
        assert_eq!(document.faults.len() + document.more_faults, 20);
        assert_eq!(faulty.into_inner(), 2, "the first piece, and the whole");
    }

    #[test]
    fn a_piece_that_was_there_before_is_not_read_again() {
        let (found, schema, options) = (found(), Schema::bundled(), Options::new("."));
        let parsing =
            Parsing { found: &found, quotes: &|| true, options: &options, schema: &schema };
        let cluster = |name: &str| {
            format!("{{ \"@type\": t/envoy.config.cluster.v3.Cluster, name: {name} }}\n")
        };
        let read = |names: &[&str], before: Option<&Document>| {
            let text: Vec<_> = names.iter().map(|name| cluster(name)).collect();
            parsing.document(text.join("---\n").as_bytes(), before).unwrap()
        };
        let first = read(&["a", "b", "c"], None);
        let second = read(&["a", "x", "y", "c"], Some(&first));
        let shared = |one: usize, other: usize| {
            let content = |of: &Document, at: usize| of.resources[at].content.resource().cloned();
            Arc::ptr_eq(&content(&first, one).unwrap(), &content(&second, other).unwrap())
        };
        assert!(shared(0, 0) && shared(2, 3));
        assert_eq!(second.resources[3].position.line, 7);
        assert_eq!(second.parts.len(), 4);
    }
}
