//! The assignment of the daemon's clients to the audiences of its directory.

use std::collections::BTreeSet;

use chancery_catalog::OverlayNames;
use chancery_server::{Assign, Audiences, Client, Refusal};

use super::grouping::Grouping;

impl Assign for Grouping {
    fn group(&self, client: &Client<'_>, groups: &OverlayNames) -> Result<Option<String>, Refusal> {
        match client.node {
            Some(node) => self.of_node(node, |name| groups.contains(name)),
            None => self.of_nobody(),
        }
    }

    /// No condition of a rule is about them.
    fn reads_dynamic_parameters(&self) -> bool {
        false
    }
}

/// The groups that the rules name and for which the directory has no files. Their nodes see only
/// the files at the top. That may be meant, but is more often a mistake.
pub(crate) fn without_files(audiences: &Audiences<Grouping>) -> BTreeSet<String> {
    let (grouping, known) = (audiences.assignment(), audiences.catalog().groups());
    grouping.names().filter(|name| !known.contains(name)).map(str::to_owned).collect()
}

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
