//! Documents, seen through the directory: their formats, faults in them, and what follows.

use chancery_catalog::External;
use chancery_core::TypeUrl;
use chancery_sources::{Directory, Options};

use crate::support::{Tree, cluster, documents, named, schema};

const EDS_CLUSTER: &str = "\
\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: waits
type: EDS
connect_timeout: 1s
eds_cluster_config: { eds_config: { ads: {}, resource_api_version: V3 } }
";

const ROUTES: &str = "\
\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: routes
virtual_hosts:
- name: all
  domains: [\"*\"]
  routes:
  - match: { prefix: / }
    route: { cluster: elsewhere }
";

fn types(tree: &Tree, v2: bool) -> Vec<(String, usize)> {
    let options = Options { v2, ..tree.options() };
    let mut directory = Directory::new(options, schema());
    assert_eq!(directory.load().faults, []);
    let snapshot = directory.catalog().snapshot(None, None).unwrap();
    let count =
        |type_url: &TypeUrl| (type_url.message_name().to_owned(), snapshot.set(type_url).len());
    snapshot.types().map(count).collect()
}

#[test]
fn every_fault_in_a_document_is_told_with_its_place() {
    let twice = cluster("a", 1) + "name: b\n";
    let cases: [(&str, &[u8], u32, &str); 8] = [
        ("duplicate.yaml", twice.as_bytes(), 4, "name"),
        (
            "unknown.yaml",
            b"'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: a\nx: 1\n",
            3,
            "`x`",
        ),
        (
            "type.yaml",
            b"\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: []\n",
            2,
            "",
        ),
        ("any.yaml", b"\"@type\": type.googleapis.com/foo.Bar\nname: a\n", 1, "foo.Bar"),
        ("utf8.yaml", b"# fine\nname: \xff\n", 2, "UTF-8"),
        ("cut.json", b"{\"@type\":\n\"type.googleapis.com/envoy.config", 2, ""),
        ("cut.pb", b"\x12\xff", 0, ""),
        ("text.pb_text", b"version_info: \"1\"\nresources {\n", 3, ""),
    ];
    for (file, bytes, line, words) in cases {
        let tree = Tree::new();
        std::fs::write(tree.at(file), bytes).unwrap();
        let (_, report) = tree.load();
        let [fault] = &*report.faults else { panic!("{file}: {:#?}", report.faults) };
        assert_eq!(fault.file, tree.at(file));
        assert_eq!(fault.position.map_or(0, |position| position.line), line, "{fault}");
        assert!(fault.to_string().contains(words), "{fault}");
        assert!(
            fault.render().contains(&tree.at(file).display().to_string()),
            "{}",
            fault.render()
        );
        if file == "any.yaml" {
            assert!(fault.hint.as_ref().unwrap().contains("--descriptor-set"), "{fault:?}");
        }
    }
}

#[test]
fn every_format_is_read_by_its_extension() {
    let json = r#"{"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "j"}"#;
    let text =
        "resources { [type.googleapis.com/envoy.config.cluster.v3.Cluster] { name: \"t\" } }";
    let tree = Tree::with(&[
        ("a.yaml", &cluster("a", 1)),
        ("b.yml", &documents(&[cluster("b", 1), cluster("c", 1)])),
        ("j.json", json),
        ("t.pb_text", text),
        ("e.pb", ""),
    ]);
    let (catalog, report) = tree.load();
    assert_eq!(report.faults, []);
    assert_eq!(named(&catalog, None, None), ["a", "b", "c", "j", "t"]);
}

#[test]
fn a_cluster_without_endpoints_is_given_empty_ones() {
    // S-101
    let tree = Tree::with(&[("a.yaml", EDS_CLUSTER)]);
    let expected = [
        ("envoy.config.cluster.v3.Cluster", 1),
        ("envoy.config.endpoint.v3.ClusterLoadAssignment", 1),
    ];
    assert_eq!(types(&tree, false), expected.map(|(name, count)| (name.to_owned(), count)));
    let (catalog, _) = tree.load();
    assert_eq!(catalog.entries().count(), 1, "no file holds the empty one");
}

#[test]
fn resources_are_offered_under_their_v2_types_if_asked_to() {
    // S-010
    let tree = Tree::with(&[("a.yaml", EDS_CLUSTER), ("groups/g/b.yaml", &cluster("b", 1))]);
    let names: Vec<_> = types(&tree, true).into_iter().map(|(name, _)| name).collect();
    assert!(names.contains(&"envoy.api.v2.Cluster".to_owned()), "{names:?}");
    assert!(names.contains(&"envoy.api.v2.ClusterLoadAssignment".to_owned()), "{names:?}");
    let options = Options { v2: true, ..tree.options() };
    let mut directory = Directory::new(options, schema());
    let report = directory.load();
    assert_eq!(report.resources, 2);
    assert_eq!(directory.catalog().entries().count(), 2);
    let snapshot = directory.catalog().snapshot(Some("g"), None).unwrap();
    assert_eq!(snapshot.set(&TypeUrl::new("envoy.api.v2.Cluster")).len(), 2);
}

/// The texts of the targets that are missing for somebody.
fn missing(directory: &mut Directory) -> Vec<String> {
    directory.load();
    let references = directory.catalog().references(&External::default());
    references.missing.iter().map(ToString::to_string).collect()
}

#[test]
fn references_that_lead_nowhere_are_found_after_each_load() {
    // S-103
    let tree = Tree::with(&[("a.yaml", ROUTES)]);
    let mut directory = tree.directory();
    let told = missing(&mut directory);
    assert!(told.len() == 1 && told[0].contains("`elsewhere`"), "{told:?}");
    tree.write("b.yaml", &cluster("elsewhere", 1));
    assert_eq!(missing(&mut directory), [""; 0]);
    tree.remove("b.yaml");
    assert_eq!(missing(&mut directory), told);
}

#[test]
fn what_a_group_adds_to_base_leads_somewhere() {
    // S-103
    let tree = Tree::with(&[("a.yaml", ROUTES), ("groups/g/b.yaml", &cluster("elsewhere", 1))]);
    let mut directory = tree.directory();
    assert_eq!(missing(&mut directory), [""; 0]);
    directory.catalog().snapshot(None, None).unwrap();
    assert_eq!(missing(&mut directory).len(), 1, "now that somebody sees base alone");
}
