//! The lines of fields in the files that people edit, for findings of which only the resource has a place.
//!
//! Nobody keeps the places of all fields, so a file is read again if something in it is told, and no other one; if it
//! is another one meanwhile, a finding stays at its resource. Not here: the texts that `check` shows beside it
//! (`check::fields`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chancery_proto::document::{Format, Position, find_fields};

/// A field: its file, the place at which its resource begins, and its path.
pub(crate) type Field = (PathBuf, Position, String);

/// The state of a file, which is another one when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    /// That of a file, if it is there.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self { bytes: metadata.len(), modified: metadata.modified().ok() })
    }
}

/// The places of these fields, in their order. Each file is read once, unless it is large.
pub(crate) fn find(fields: &[Field]) -> Vec<Option<Position>> {
    let mut by_file: BTreeMap<&Path, Vec<usize>> = BTreeMap::new();
    for (at, (file, ..)) in fields.iter().enumerate() {
        by_file.entry(file).or_default().push(at);
    }
    let mut found = vec![None; fields.len()];
    for (file, numbers) in by_file {
        let format = Format::of_path(file).unwrap_or(Format::Binary);
        let Ok(text) = chancery_files::read_to_string(file, MOST_BYTES) else { continue };
        let wanted = numbers.iter().map(|at| (fields[*at].1, fields[*at].2.as_str()));
        let places = find_fields(format, &text, &wanted.collect::<Vec<_>>());
        numbers.into_iter().zip(places).for_each(|(at, place)| found[at] = place);
    }
    found
}

/// The bytes of a file that is read again while somebody waits for a load.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_their_files() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.yaml");
        let text =
            "# first\n\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: a\n";
        std::fs::write(&file, text).unwrap();
        let start = Position { line: 2, column: 1 };
        let field = |file: &Path| (file.to_path_buf(), start, "name".to_owned());
        let found = find(&[field(&dir.path().join("no.yaml")), field(&file)]);
        assert_eq!(found, [None, Some(Position { line: 3, column: 7 })]);
        let before = Stamp::of(&file);
        std::fs::write(&file, format!("{text}# last\n")).unwrap();
        assert_ne!(Stamp::of(&file), before);
        assert_eq!(Stamp::of(dir.path().join("no.yaml").as_path()), None);
    }
}
