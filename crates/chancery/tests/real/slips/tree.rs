//! The directory of the fleet: how it is at first, edits of it, and the way back.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::chancery::Directory;

pub(super) const CLUSTERS: &str = "clusters.yaml";
pub(super) const ENDPOINTS: &str = "endpoints.yaml";
pub(super) const HTTP: &str = "groups/edge/listeners/http.yaml";
pub(super) const STATUS: &str = "groups/edge/listeners/status.yaml";
pub(super) const ROUTES: &str = "groups/edge/routes.yaml";
pub(super) const FILTERS: &str = "groups/edge/filters.yaml";
pub(super) const MESH: &str = "groups/mesh/listeners.yaml";
pub(super) const SECRETS: &str = "groups/mesh/secrets.yaml";
pub(super) const CANARY: &str = "groups/canary/routes.yaml";
pub(super) const SERVER: &str = "chancery.yaml";
pub(super) const MESH_ROUTES: &str = "groups/mesh/routes.yaml";
pub(super) const NODE: &str = "nodes/edge-3/endpoints.yaml";

/// The files, by path below the directory. `$NAME` stands for what a test chooses.
const FILES: [(&str, &str); 13] = [
    ("chancery.yaml", include_str!("config/chancery.yaml")),
    ("clusters.yaml", include_str!("config/clusters.yaml")),
    ("endpoints.yaml", include_str!("config/endpoints.yaml")),
    ("groups/edge/listeners/http.yaml", include_str!("config/groups/edge/listeners/http.yaml")),
    ("groups/edge/listeners/status.yaml", include_str!("config/groups/edge/listeners/status.yaml")),
    ("groups/edge/filters.yaml", include_str!("config/groups/edge/filters.yaml")),
    ("groups/edge/routes.yaml", include_str!("config/groups/edge/routes.yaml")),
    ("groups/canary/routes.yaml", include_str!("config/groups/canary/routes.yaml")),
    ("groups/mesh/listeners.yaml", include_str!("config/groups/mesh/listeners.yaml")),
    ("groups/mesh/routes.yaml", include_str!("config/groups/mesh/routes.yaml")),
    ("groups/mesh/secrets.yaml", include_str!("config/groups/mesh/secrets.yaml")),
    ("nodes/edge-3/endpoints.yaml", include_str!("config/nodes/edge-3/endpoints.yaml")),
    ("README.md", "The configuration of a fleet.\n"),
];

/// Before a port.
const PORT: &str = "port_value: ";

/// The directory, and the files that it has at first.
#[derive(Debug)]
pub(super) struct Tree {
    directory: Directory,
    files: BTreeMap<&'static str, String>,
}

impl Tree {
    /// Writes the files, with these values.
    pub(super) fn new(test: &Path, values: &[(&str, String)]) -> Self {
        let text = |text: &str| {
            let replaced = |text: String, (name, value): &(&str, String)| text.replace(name, value);
            values.iter().fold(text.to_owned(), replaced)
        };
        let files = FILES.into_iter().map(|(path, of_file)| (path, text(of_file))).collect();
        let tree = Self { directory: Directory::new(test, "config"), files };
        tree.restore();
        tree
    }

    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Makes the directory what it was at first.
    pub(super) fn restore(&self) {
        self.clean(self.directory.path());
        for (path, text) in &self.files {
            if fs::read_to_string(self.path(path)).is_ok_and(|now| now == *text) {
                continue;
            }
            self.write(path, text);
        }
    }

    /// Removes what was not there at first.
    fn clean(&self, dir: &Path) {
        for entry in fs::read_dir(dir).expect("the directory is ours") {
            let path = entry.expect("as above").path();
            let kind = fs::symlink_metadata(&path).expect("as above").file_type();
            let below = path.strip_prefix(self.directory.path()).expect("it is below");
            let is_file = self.files.keys().any(|it| Path::new(it) == below);
            let is_above = self.files.keys().any(|it| Path::new(it).starts_with(below));
            if kind.is_dir() && is_above && !is_file {
                self.clean(&path);
            } else if kind.is_dir() {
                fs::remove_dir_all(&path).expect("as above");
            } else if !kind.is_file() || !is_file {
                fs::remove_file(&path).expect("as above");
            }
        }
    }

    fn path(&self, file: &str) -> std::path::PathBuf {
        self.directory.path().join(file)
    }

    /// The text of a file at first.
    pub(super) fn text(&self, file: &str) -> &str {
        &self.files[file]
    }

    /// Writes or replaces a file.
    pub(super) fn write(&self, file: &str, text: &str) {
        self.directory.write(file, text);
    }

    /// Replaces all occurrences of a text in a file, of which there is at least one.
    pub(super) fn replace(&self, file: &str, from: &str, to: &str) {
        let now = fs::read_to_string(self.path(file)).expect("it is there");
        assert!(now.contains(from), "`{from}` is in {file}");
        self.write(file, &now.replace(from, to));
    }

    /// Replaces the first occurrence of a text in a file.
    pub(super) fn replace_first(&self, file: &str, from: &str, to: &str) {
        let now = fs::read_to_string(self.path(file)).expect("it is there");
        assert!(now.contains(from), "`{from}` is in {file}");
        self.write(file, &now.replacen(from, to, 1));
    }

    /// Puts something in place of the first port in a file.
    pub(super) fn port(&self, file: &str, to: &str) {
        let now = fs::read_to_string(self.path(file)).expect("it is there");
        let (head, tail) = now.split_once(PORT).expect("it has a port");
        let tail = tail.trim_start_matches(|it: char| it.is_ascii_digit());
        self.write(file, &format!("{head}{PORT}{to}{tail}"));
    }

    /// Adds to the end of a file.
    pub(super) fn append(&self, file: &str, text: &str) {
        let now = fs::read_to_string(self.path(file)).expect("it is there");
        self.write(file, &(now + text));
    }

    /// Leaves so many lines of a file.
    pub(super) fn cut(&self, file: &str, lines: usize) {
        let text: String = self.text(file).split_inclusive('\n').take(lines).collect();
        self.write(file, &text);
    }

    /// Removes a file or a directory.
    pub(super) fn remove(&self, file: &str) {
        let path = self.path(file);
        let done = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        done.expect("it is there");
    }

    /// Moves a file or a directory.
    pub(super) fn rename(&self, from: &str, to: &str) {
        let to = self.path(to);
        fs::create_dir_all(to.parent().expect("it is below")).expect("the directory is ours");
        fs::rename(self.path(from), to).expect("it is there");
    }

    /// Replaces a file by a symlink.
    pub(super) fn link(&self, file: &str, to: &str) {
        self.remove(file);
        symlink(to, self.path(file)).expect("the directory is ours");
    }
}
