//! The fields that refer to what is missing: their places and lines, in the files that people edit.
//!
//! A file is read once more if something in it is found, and no other one. If it is another one meanwhile, the
//! finding stays at its resource. Not here: the findings of one file, which come with their places.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use chancery_files::OpenFile;
use chancery_proto::Schema;
use chancery_proto::document::{Fault, Format, Position, Renderer, find_fields, may_be_shown};
use chancery_sources::Options;

use super::finding::Finding;

/// The fields that findings are about, by their files.
#[derive(Default)]
pub(super) struct Fields {
    wanted: BTreeMap<PathBuf, Vec<Field>>,
}

struct Field {
    /// The number of the finding.
    finding: usize,
    /// The place at which its resource begins.
    start: Position,
    path: String,
}

impl Fields {
    /// Adds the field of a finding, in the resource that begins at this place.
    pub(super) fn add(&mut self, finding: usize, file: &Path, start: Position, path: String) {
        let fields = self.wanted.entry(file.to_path_buf()).or_default();
        fields.push(Field { finding, start, path });
    }

    /// Gives the findings their fields, and the places of these as far as they are found.
    pub(super) fn place(self, schema: &Schema, source: &Options, findings: &mut [Finding]) {
        let top = fs::canonicalize(&source.directory).ok();
        for (file, fields) in self.wanted {
            let text = text(&file, source.max_file_bytes, top.as_deref());
            let (text, may_quote) = text.unwrap_or_default();
            let format = Format::of_path(&file).unwrap_or(Format::Binary);
            let wanted: Vec<_> = fields.iter().map(|it| (it.start, it.path.as_str())).collect();
            let found = find_fields(format, &text, &wanted);
            let confidential = !may_quote || !may_be_shown(schema, &text);
            let mut placed: Vec<_> = fields.into_iter().zip(found).collect();
            placed.sort_by_key(|(_, position)| *position);
            let name = file.display().to_string();
            let mut renderer = Renderer::new(&name, Some(&text));
            for (Field { finding, path, .. }, position) in placed {
                let Some(finding) = findings.get_mut(finding) else { continue };
                finding.field.clone_from(&path);
                let Some(position) = position else { continue };
                let fault = Fault::new(finding.message.clone()).at(position).under(path);
                finding.set_place(position, &renderer.render(&Fault { confidential, ..fault }));
            }
        }
    }
}

/// The text of a file, and true if it may be quoted: a symlink may lead out of the directory.
fn text(path: &Path, limit: u64, top: Option<&Path>) -> Option<(String, bool)> {
    let mut file = OpenFile::open(path).ok()?;
    let text = String::from_utf8(file.read(limit).ok()?).ok()?;
    let real = file.real_path(path).filter(|real| Format::of_path(real).is_some());
    let is_below = top.zip(real).is_some_and(|(top, real)| real.starts_with(top));
    Some((text, is_below))
}
