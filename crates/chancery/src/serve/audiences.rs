//! The assignment of the daemon's clients to the audiences of its directory.

use std::collections::BTreeSet;

use chancery_catalog::OverlayNames;
use chancery_core::printable::Printable;
use chancery_proto::syntax::{closest, did_you_mean};
use chancery_server::{Assign, Audiences, Client, LoadReporting, Refusal};

use super::grouping::Grouping;

impl Assign for Grouping {
    fn group(&self, client: &Client<'_>, groups: &OverlayNames) -> Result<Option<String>, Refusal> {
        match client.node {
            Some(node) => self.of_node(node, |name| groups.contains(name)),
            None => self.of_nobody(),
        }
    }

    fn load_reporting(&self, group: Option<&str>) -> Option<LoadReporting> {
        self.load_reporting_of(group)
    }

    /// No condition of a rule is about them.
    fn reads_dynamic_parameters(&self) -> bool {
        false
    }
}

/// The groups that the rules name, or extend, and that have no files of their own or below them. Their nodes
/// see only the files at the top. That may be meant, but is more often a mistake.
pub(crate) fn without_files(audiences: &Audiences<Grouping>) -> BTreeSet<String> {
    let (grouping, known) = (audiences.assignment(), audiences.catalog().groups());
    let lineage = grouping.lineage();
    let extended = lineage.groups().filter_map(|group| lineage.parent(group));
    let named = grouping.names().chain(extended.map(|group| &**group));
    let has_files = |name: &str| {
        known.contains(name) || lineage.ancestors(name).any(|below| known.contains(below))
    };
    named.filter(|name| !has_files(name)).map(str::to_owned).collect()
}

/// The words about a group that rules name and that has no files. One of the first groups with files may be
/// meant.
pub(crate) fn say_without_files(name: &str, known: &OverlayNames) -> String {
    let near = closest(name, known.iter().take(MOST_COMPARED).map(|known| &**known));
    let near = near.map(|near| format!("; {}", Printable(did_you_mean(name, near))));
    let (name, near) = (Printable(name), near.unwrap_or_default());
    format!("chancery.yaml: group `{name}` has rules and no files below `groups/{name}`{near}")
}

/// The number of groups that a name is compared with.
const MOST_COMPARED: usize = 1000;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use chancery_core::Node;
    use chancery_proto::schema::Schema;
    use chancery_server::{Peer, Policy};
    use chancery_sources::{Directory, Options};

    use super::*;
    use crate::config::Config;

    struct ServedDirectory {
        dir: tempfile::TempDir,
        directory: Directory,
        audiences: Audiences<Grouping>,
    }

    impl ServedDirectory {
        fn new(files: &[&str], rules: &str) -> Self {
            let dir = tempfile::tempdir().unwrap();
            files.iter().for_each(|file| write(dir.path(), file));
            let mut directory = Directory::new(Options::new(dir.path()), Schema::bundled());
            directory.load();
            let config: Config = serde_json::from_str(rules).unwrap();
            let audiences = Audiences::new(directory.catalog(), Grouping::new(&config));
            Self { dir, directory, audiences }
        }

        fn audience(&self, node: Option<&Node>) -> String {
            let peer = Peer { address: None, tls: false, certificates: Vec::new() };
            self.audiences.audience(&Client { node, peer: &peer }).unwrap().to_string()
        }
    }

    /// A cluster named as its file.
    fn write(dir: &Path, file: &str) {
        let path = dir.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let url = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
        fs::write(&path, format!("\"@type\": {url}\nname: {name}\n")).unwrap();
    }

    #[test]
    fn rules_and_directories_say_who_belongs_where() {
        let files = ["a.yaml", "groups/g/b.yaml", "groups/back/c.yaml", "nodes/n/d.yaml"];
        let rules = r#"{"groups": [{"name": "g", "match": {"id": "g-*"}}]}"#;
        let setup = ServedDirectory::new(&files, rules);
        let node = |id: &str, cluster: &str| {
            let (id, cluster) = (id.to_owned(), cluster.to_owned());
            setup.audience(Some(&Node { id, cluster, ..Node::default() }))
        };
        assert_eq!(node("g-1", "back"), "groups/g");
        assert_eq!(node("n", "back"), "groups/back+nodes/n");
        assert_eq!(node("n", "g"), "nodes/n");
        assert_eq!(node("m", ""), "base");
        assert_eq!(setup.audience(None), "base");
    }

    #[test]
    fn a_group_needs_no_files_if_it_extends_one_that_has_some() {
        let rules = r#"{"groups": [{"name": "h", "extends": "g", "match": {"id": "h"}},
                                   {"name": "i", "extends": "gg", "match": {"id": "i"}}]}"#;
        let setup = ServedDirectory::new(&["a.yaml", "groups/g/b.yaml"], rules);
        let without = without_files(&setup.audiences).into_iter().collect::<Vec<_>>();
        assert_eq!(without, ["gg", "i"]);
        let node = Node { cluster: "g".to_owned(), ..Node::default() };
        assert_eq!(setup.audience(Some(&node)), "groups/g", "it is extended, and has no rule");
    }

    #[test]
    fn groups_without_files_are_known() {
        let rules = r#"{"groups": [{"name": "g", "match": {"id": "g"}},
                                   {"name": "h", "match": {"id": "h"}}]}"#;
        let mut setup = ServedDirectory::new(&["a.yaml", "groups/g/b.yaml"], rules);
        assert_eq!(without_files(&setup.audiences), ["h".to_owned()].into());
        write(setup.dir.path(), "groups/h/c.yaml");
        setup.directory.load();
        assert_eq!(without_files(&setup.audiences), [].into());
    }
}
