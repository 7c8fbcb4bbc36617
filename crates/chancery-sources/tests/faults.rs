//! Every kind of fault: what is told, and where.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use chancery_catalog::Layer;
use chancery_proto::document::{Checks, RuleCheck};
use chancery_proto::schema::Schema;
use chancery_sources::{Directory, Fault, LoadReport, Options, Scope, Warning};

use crate::support;
use crate::support::{Tree, broken, cluster, documents, fifo, named};

/// The only fault there is.
#[track_caller]
fn only(report: &LoadReport) -> &Fault {
    assert_eq!(report.faults.len(), 1, "{:#?}", report.faults);
    &report.faults[0]
}

#[track_caller]
fn load_fault(tree: &Tree) -> (Fault, String) {
    let (_, report) = tree.load();
    let fault = only(&report).clone();
    let file = fault.file.strip_prefix(tree.conf()).unwrap().display().to_string();
    (fault, file)
}

/// A good cluster, and one that breaks a rule of its message.
fn breaking_a_rule() -> String {
    documents(&[cluster("a", 1), cluster("b", 0)])
}

fn load_with(tree: &Tree, rules: RuleCheck, hold_violations: bool) -> LoadReport {
    let checks = Checks { rules, ..Checks::default() }.into();
    let options = Options { checks, hold_violations, ..tree.options() };
    Directory::new(options, Schema::bundled()).load()
}

#[test]
fn a_broken_rule_holds_its_layer_back_and_says_how_it_may_pass() {
    // S-063
    let tree = Tree::with(&[("a.yaml", &breaking_a_rule()), ("groups/g/c.yaml", &cluster("c", 1))]);
    let report = load_with(&tree, RuleCheck::Fault, true);
    let fault = only(&report);
    assert_eq!((fault.code, &fault.scope), ("rule/duration-gt", &Scope::Layer(Layer::Base)));
    assert_eq!(report.layers(), [Layer::Group("g".into())]);
    let rendered = fault.render();
    let place = fault.position.unwrap();
    let line = rendered.lines().nth(1).unwrap_or_default().to_owned();
    assert!(line.ends_with(&format!("a.yaml:{}:{}", place.line, place.column)), "{rendered}");
    assert!(rendered.contains("connect_timeout: 0s"), "{rendered}");
    assert!(rendered.contains("help: Envoy rejects this"), "{rendered}");
}

#[test]
fn a_broken_rule_can_be_listed_or_only_warned_of() {
    // S-063
    let tree = Tree::with(&[("a.yaml", &breaking_a_rule())]);
    let counts = |rules, hold| {
        let report = load_with(&tree, rules, hold);
        let warned = report.warnings.iter().filter(|it| it.code == "rule/duration-gt");
        (report.faults.len(), report.violations.len(), warned.count(), report.resources)
    };
    assert_eq!(counts(RuleCheck::Off, true), (0, 0, 0, 2));
    assert_eq!(counts(RuleCheck::Warn, true), (0, 0, 1, 2));
    assert_eq!(counts(RuleCheck::Fault, false), (0, 1, 0, 2));
    let report = load_with(&tree, RuleCheck::Fault, false);
    let [violation] = &report.violations[..] else { panic!("{:#?}", report.violations) };
    assert_eq!(violation.resource.as_ref().map(|it| it.name.as_str()), Some("b"));
    assert_eq!(violation.hint, None);
}

#[test]
fn faults_and_broken_rules_of_one_file_share_its_bound() {
    let all: Vec<_> = (0..80).flat_map(|at| [cluster(&format!("c{at}"), 0), broken("b")]).collect();
    let tree = Tree::with(&[("a.yaml", &documents(&all))]);
    let report = load_with(&tree, RuleCheck::Fault, true);
    assert_eq!((report.faults.len(), report.fault_count()), (100, 160));
}

#[test]
fn all_faults_of_all_files_are_told_at_once_with_their_places() {
    let tree = Tree::with(&[
        ("a.yaml", &documents(&[cluster("a", 1), broken("b")])),
        ("groups/g/c.yaml", &broken("c")),
        ("nodes/n/d.yaml", &broken("d")),
        ("fine.yaml", &cluster("fine", 1)),
    ]);
    let (catalog, report) = tree.load();
    let scopes: Vec<_> = report.faults.iter().map(|fault| fault.scope.clone()).collect();
    let layers = [Layer::Base, Layer::Group("g".into()), Layer::Node("n".into())];
    assert_eq!(scopes, layers.clone().map(Scope::Layer));
    for fault in &report.faults {
        assert!(fault.position.is_some(), "{fault}");
        assert!(fault.to_string().contains("nonsense"), "{fault}");
    }
    assert!(
        report.faults[0].to_string().starts_with(&format!("{}:8:", tree.at("a.yaml").display()))
    );
    assert!(catalog.snapshot(None, None).is_none());
    assert_eq!(catalog.held_back(), layers);
}

#[test]
fn a_name_defined_twice_is_told_with_both_places() {
    let tree = Tree::with(&[
        ("a.yaml", &documents(&[cluster("x", 1), cluster("twice", 1)])),
        ("b.yaml", &cluster("twice", 1)),
    ]);
    let (fault, file) = load_fault(&tree);
    assert_eq!(file, "b.yaml");
    assert_eq!(fault.position.unwrap().line, 1);
    let first = format!("{}:5", tree.at("a.yaml").display());
    assert!(fault.message.contains("cds `twice`") && fault.message.contains(&first), "{fault}");
}

#[test]
fn a_name_defined_twice_in_one_file_is_told_too() {
    let tree = Tree::with(&[("a.yaml", &documents(&[cluster("x", 1), cluster("x", 2)]))]);
    assert_eq!(load_fault(&tree).0.position.unwrap().line, 5);
}

#[test]
fn a_cycle_of_symlinks_is_a_fault_and_no_loop() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1)), ("sub/b.yaml", &cluster("b", 1))]);
    symlink("..", tree.at("sub/up")).unwrap();
    let (fault, file) = load_fault(&tree);
    assert_eq!(file, "sub/up");
    assert!(fault.message.contains("leads back"), "{fault}");
}

#[test]
fn a_cycle_through_groups_holds_back_that_group() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    fs::create_dir_all(tree.at("groups/g")).unwrap();
    symlink(tree.conf(), tree.at("groups/g/all")).unwrap();
    let (catalog, report) = tree.load();
    assert_eq!(only(&report).scope, Scope::Layer(Layer::Group("g".into())));
    assert_eq!(named(&catalog, None, None), ["a"]);
    assert!(catalog.snapshot(Some("g"), None).is_none());
}

#[test]
fn a_symlink_to_itself_is_a_fault() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    symlink("me.yaml", tree.at("me.yaml")).unwrap();
    let (fault, file) = load_fault(&tree);
    assert_eq!(file, "me.yaml");
    assert!(fault.message.contains("leads to itself"), "{fault}");
}

#[test]
fn many_directories_that_lead_to_each_other_end_soon() {
    let tree = Tree::new();
    for from in 0..12 {
        let dir = tree.at(&format!("d{from}"));
        fs::create_dir(&dir).unwrap();
        for to in 0..12 {
            symlink(format!("../d{to}"), dir.join(format!("to{to}"))).unwrap();
        }
    }
    let (_, report) = tree.load();
    assert!(report.faults.len() > 12);
    assert!(report.faults.iter().any(|fault| fault.message.contains("same directory")));
}

#[test]
fn a_symlink_to_nothing_is_a_fault() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    symlink("gone", tree.at("link.yaml")).unwrap();
    let (fault, file) = load_fault(&tree);
    assert_eq!(file, "link.yaml");
    assert_eq!(fault.message, "the symlink leads nowhere");
    assert!(fault.hint.is_some_and(|hint| hint.contains("its target")));
}

#[test]
fn a_file_that_cannot_be_read_is_a_fault() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    // A regular file whose first byte nobody can read, not even root.
    symlink("/proc/self/mem", tree.at("mem.yaml")).unwrap();
    let (fault, file) = load_fault(&tree);
    assert_eq!(file, "mem.yaml");
    assert!(fault.message.starts_with("cannot be read: "), "{fault}");
}

#[test]
fn what_is_no_regular_file_is_a_fault() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let _socket = UnixListener::bind(tree.at("socket.yaml")).unwrap();
    let (fault, _) = load_fault(&tree);
    assert_eq!(fault.message, "is a socket, not a regular file");
}

#[test]
fn whatever_stands_in_place_of_a_file_is_refused_by_its_kind_and_never_waited_for() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1)), ("groups/g/b.yaml", &cluster("b", 1))]);
    fifo(&tree.at("groups/g/fifo.yaml"));
    fs::create_dir(tree.at("groups/g/dir.yaml")).unwrap();
    symlink("/dev/zero", tree.at("groups/g/zero.yaml")).unwrap();
    let (catalog, report) = tree.load();
    let told: Vec<_> = report.faults.iter().map(|fault| fault.message.as_str()).collect();
    let kinds = ["a directory", "a FIFO", "a character device"];
    assert_eq!(told, kinds.map(|kind| format!("is {kind}, not a regular file")));
    assert_eq!(named(&catalog, None, None), ["a"]);
}

#[test]
fn a_file_that_says_nothing_is_warned_of_where_it_is_new() {
    let files = [
        ("a.yaml", ""),
        ("b.json", " \n"),
        ("c.pb_text", "# nothing\n"),
        ("d.pb", ""),
        ("e.yaml", "# nothing\n---\n---\n# nothing\n"),
        ("f.yaml", "[]"),
    ];
    let (catalog, report) = Tree::with(&files).load();
    assert_eq!(report.faults, []);
    let warned = report.warnings.iter().filter(|it| it.message.starts_with("says nothing"));
    assert_eq!(warned.count(), 5, "{:#?}", report.warnings);
    assert!(catalog.snapshot(None, None).unwrap().is_empty());
}

#[test]
fn a_present_warning_is_listed_until_its_cause_is_gone_and_is_new_once() {
    let tree = Tree::with(&[("a.yaml", ""), ("b.yaml", ""), ("c.yaml", &cluster("c", 1))]);
    let mut directory = tree.directory();
    let counts = |report: &LoadReport| {
        (report.warnings.len(), report.present_warnings.len(), report.warning_count)
    };
    assert_eq!(counts(&directory.load()), (2, 2, 2));
    assert_eq!(counts(&directory.load()), (0, 2, 2));
    tree.write("a.yaml", "[]");
    assert_eq!(counts(&directory.load()), (0, 1, 1));
    // The fault that it said something says the same, and more.
    tree.write("c.yaml", "");
    let report = directory.load();
    assert_eq!((report.faults.len(), counts(&report)), (1, (0, 1, 1)));
}

/// The bytes of a response with one cluster.
const BINARY: &[u8] = b"\x12\x3a\x0a\x33type.googleapis.com/envoy.config.cluster.v3.Cluster\
    \x12\x03\x0a\x01a";

#[test]
fn a_file_that_is_emptied_takes_nothing_away_in_any_format() {
    let url = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
    let json = format!("{{\"@type\": \"{url}\", \"name\": \"a\"}}");
    let text = format!("resources {{ [{url}] {{ name: \"a\" }} }}");
    let yaml = cluster("a", 1);
    for (file, bytes, empty) in [
        ("a.yaml", yaml.as_bytes(), "# nothing\n"),
        ("a.yaml", yaml.as_bytes(), "---\n---\n"),
        ("a.json", json.as_bytes(), " "),
        ("a.pb_text", text.as_bytes(), "# nothing\n"),
        ("a.pb", BINARY, ""),
    ] {
        for empty in [empty, ""] {
            let tree = Tree::with(&[("groups/g/b.yaml", &cluster("b", 1))]);
            fs::write(tree.at(file), bytes).unwrap();
            let mut directory = tree.directory();
            let catalog = directory.catalog();
            assert_eq!(
                (directory.load().faults, named(&catalog, None, None)),
                (vec![], vec!["a".into()])
            );
            tree.write(file, empty);
            tree.write("groups/g/b.yaml", &cluster("c", 1));
            let report = directory.load();
            let fault = only(&report);
            assert!(fault.message.contains("resources it had: 1"), "{fault}");
            assert_eq!(fault.scope, Scope::Layer(Layer::Base));
            assert!(fault.hint.as_ref().unwrap().contains("`[]`"));
            assert_eq!(report.warnings, [], "said once");
            assert_eq!(named(&catalog, None, None), ["a"]);
            // It goes on for as long as the file says nothing.
            tree.write("more.yaml", &cluster("d", 1));
            assert_eq!(directory.load().faults.len(), 1);
            tree.remove(file);
            assert_eq!(directory.load().faults, []);
            assert_eq!(named(&catalog, Some("g"), None), ["c", "d"]);
            // A file that was taken away on purpose is new again.
            tree.write(file, empty);
            let report = directory.load();
            assert_eq!((report.faults, report.warnings.len()), (vec![], 1));
        }
    }
}

#[test]
fn a_file_that_says_nothing_is_a_fault_or_a_warning_and_never_both() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1)), ("z.yaml", &cluster("z", 1))]);
    let mut directory = tree.directory();
    directory.load();
    // More faults than a load keeps, so that of the last file none is kept.
    let unknown = |name: &str| cluster(name, 1) + &"x: 1\n".repeat(100);
    for file in 0..20 {
        tree.write(&format!("b{file:02}.yaml"), &unknown(&format!("b{file}")));
    }
    tree.write("z.yaml", "");
    tree.write("zz.yaml", "");
    let report = directory.load();
    assert_eq!(report.more_faults[&tree.at("z.yaml")], 1);
    let blank = |report: &LoadReport| {
        let said = report.warnings.iter().filter(|it| it.message.starts_with("says nothing"));
        said.filter_map(|it| it.file.clone()).collect::<Vec<_>>()
    };
    assert_eq!(blank(&report), [tree.at("zz.yaml")]);
    // Once its resources are away on purpose, the same file is worth the warning.
    for file in 0..20 {
        tree.remove(&format!("b{file:02}.yaml"));
    }
    tree.remove("z.yaml");
    assert_eq!((directory.load().faults, blank(&directory.load())), (vec![], vec![]));
    tree.write("z.yaml", "");
    assert_eq!(blank(&directory.load()), [tree.at("z.yaml")]);
}

#[test]
fn an_empty_list_takes_everything_away_and_so_does_a_restart_with_an_emptied_file() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1)), ("b.yaml", &cluster("b", 1))]);
    let mut directory = tree.directory();
    directory.load();
    tree.write("a.yaml", "[]");
    assert_eq!(directory.load().faults, []);
    assert_eq!(named(&directory.catalog(), None, None), ["b"]);
    tree.write("b.yaml", "");
    assert_eq!(directory.load().faults.len(), 1);
    assert_eq!(named(&directory.catalog(), None, None), ["b"]);
    let (catalog, report) = tree.load();
    assert_eq!((report.faults.len(), report.warnings.len()), (0, 1));
    assert!(catalog.snapshot(None, None).unwrap().is_empty());
}

#[test]
fn nothing_is_quoted_from_files_that_lie_elsewhere_or_are_no_configuration() {
    // S-138
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let shadow = "root:$6$hash:19000:0:99999:7:::\ndaemon:$6$hash:1:0:99999:7:::\n";
    support::write(&tree.beside("shadow"), shadow);
    support::write(&tree.beside("other/shadow.yaml"), shadow);
    support::write(&tree.at("token"), shadow);
    for target in ["../shadow", "../other/shadow.yaml", "token"] {
        symlink(target, tree.at("x.yaml")).unwrap();
        let (fault, _) = load_fault(&tree);
        let told = format!("{fault} {fault:?} {}", fault.render());
        assert!(!told.contains("hash"), "{told}");
        assert!(fault.position.is_some());
        fs::remove_file(tree.at("x.yaml")).unwrap();
    }
    // A file of the directory is quoted, as it is with symlinks within it.
    tree.write("..data/x.yaml", shadow);
    symlink("..data/x.yaml", tree.at("x.yaml")).unwrap();
    assert!(load_fault(&tree).0.render().contains("hash"));
    fs::remove_file(tree.at("x.yaml")).unwrap();
    symlink("../other", tree.at("sub")).unwrap();
    assert!(!format!("{:?}", load_fault(&tree).0).contains("hash"));
}

#[test]
fn of_many_faults_the_first_are_told_and_all_are_counted() {
    let unknown: String = (0..3000).map(|line| format!("x{line}: 1\n")).collect();
    let tree = Tree::with(&[("b.yaml", &(cluster("b", 1) + &unknown))]);
    let twice: Vec<_> = (0..300).map(|_| cluster("c", 1)).collect();
    tree.write("c.yaml", &documents(&[cluster("a", 1)]));
    tree.write("d.yaml", &documents(&twice));
    for file in 0..1500 {
        tree.write(&format!("nodes/n{file}/a.yaml"), &(cluster("b", 1) + "x: 1\ny: 1\nz: 1\n"));
    }
    let (catalog, report) = tree.load();
    assert_eq!(report.faults.len(), 1000);
    assert_eq!(report.fault_count(), 3000 + 299 + 1500 * 3);
    assert_eq!(report.more_faults[&tree.at("b.yaml")], 2900);
    assert!(report.faults.is_sorted_by_key(|fault| (&fault.file, fault.position)));
    assert_eq!(catalog.held_back().len(), 1501);
    assert!(catalog.snapshot(None, Some("n1499")).is_none());
}

#[test]
fn bad_percent_encoding_is_a_fault() {
    for name in ["nodes/a%2", "groups/%zz"] {
        let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
        tree.write(&format!("{name}/b.yaml"), &cluster("b", 1));
        let (catalog, report) = tree.load();
        let fault = only(&report);
        assert_eq!(fault.file, tree.at(name));
        assert!(fault.message.contains('%') && fault.hint.is_some(), "{fault}");
        assert_eq!(named(&catalog, Some("g"), Some("n")), ["a"]);
    }
}

#[test]
fn a_name_that_is_no_text_is_a_fault() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1)), ("nodes/ok/b.yaml", &cluster("b", 1))]);
    fs::create_dir(tree.at("nodes").join(OsStr::from_bytes(b"\xff"))).unwrap();
    let (_, report) = tree.load();
    assert_eq!(only(&report).message, "the file name is not UTF-8");
}

#[test]
fn a_file_may_be_as_large_as_the_limit_and_no_larger() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let bytes = cluster("a", 1).len() as u64;
    let load = |max_file_bytes| {
        let options = Options { max_file_bytes, ..tree.options() };
        Directory::new(options, support::schema()).load()
    };
    assert_eq!(load(bytes).faults, []);
    let report = load(bytes - 1);
    let fault = only(&report);
    assert_eq!(fault.message, format!("is larger than {} bytes", bytes - 1));
    assert!(fault.hint.is_some());
}

#[test]
fn there_may_be_as_many_files_as_the_limit_and_no_more() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1)), ("b.yaml", &cluster("b", 1))]);
    let load = |max_files| {
        let options = Options { max_files, ..tree.options() };
        Directory::new(options, support::schema()).load()
    };
    assert_eq!(load(2).faults, []);
    let report = load(1);
    assert_eq!(only(&report).scope, Scope::Directory);
    assert_eq!(report.resources, 0, "never half of it");
}

#[test]
fn all_files_together_may_have_as_many_bytes_as_the_limit_and_no_more() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let bytes = cluster("a", 1).len() as u64;
    fs::create_dir_all(tree.at("groups/g")).unwrap();
    fs::hard_link(tree.at("a.yaml"), tree.at("groups/g/a.yaml")).unwrap();
    let directory = |max_directory_bytes| {
        let options = Options { max_directory_bytes, ..tree.options() };
        Directory::new(options, support::schema())
    };
    assert_eq!(directory(2 * bytes).load().faults, []);
    let report = directory(2 * bytes - 1).load();
    let fault = only(&report);
    assert_eq!(fault.scope, Scope::Directory);
    assert_eq!(fault.message, format!("the files have more than {} bytes together", 2 * bytes - 1));
    assert!(fault.hint.as_ref().is_some_and(|hint| hint.contains("max-directory-bytes")));
    assert_eq!(report.resources, 0, "never half of it");
    // The last good state stays.
    let mut directory = directory(3 * bytes - 1);
    directory.load();
    fs::write(tree.at("c.yaml"), cluster("c", 1)).unwrap();
    assert_eq!(only(&directory.load()).scope, Scope::Directory);
    assert!(directory.catalog().snapshot(None, None).is_some());
    fs::remove_file(tree.at("c.yaml")).unwrap();
    assert_eq!(directory.load().faults, []);
}

#[test]
fn a_file_that_is_too_large_counts_for_no_other() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let bytes = cluster("a", 1).len() as u64;
    fs::create_dir_all(tree.at("groups/g")).unwrap();
    fs::File::create(tree.at("groups/g/b.yaml")).unwrap().set_len(1 << 40).unwrap();
    let options = Options { max_file_bytes: bytes, max_directory_bytes: bytes, ..tree.options() };
    let report = Directory::new(options, support::schema()).load();
    assert!(only(&report).message.contains("is larger than"));
    assert_eq!(report.resources, 1);
}

#[test]
fn there_may_be_a_limited_number_of_directories() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    // The directory itself is one of a thousand.
    (1..1000).for_each(|at| fs::create_dir(tree.at(&format!("d{at}"))).unwrap());
    let options = Options { max_files: 10, ..tree.options() };
    let mut directory = Directory::new(options, support::schema());
    assert_eq!(directory.load().faults, []);
    fs::create_dir(tree.at("one-more")).unwrap();
    let report = directory.load();
    assert_eq!(only(&report).scope, Scope::Directory);
    assert_eq!(only(&report).message, "there are more than 1000 directories");
    assert_eq!(named(&directory.catalog(), None, None), ["a"]);
    fs::remove_dir(tree.at("one-more")).unwrap();
    assert_eq!(directory.load().faults, []);
}

#[test]
fn directories_have_a_depth_limit() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    fs::create_dir_all(tree.at(&vec!["d"; 70].join("/"))).unwrap();
    assert!(load_fault(&tree).0.message.contains("64 directories deep"));
}

#[test]
fn a_directory_that_is_not_there_is_a_fault() {
    // S-057
    let tree = Tree::new();
    for (path, message) in [("nowhere", "not there"), ("file", "not a directory")] {
        fs::write(tree.beside("file"), "").unwrap();
        let options = Options { directory: tree.beside(path), ..tree.options() };
        let mut directory = Directory::new(options, support::schema());
        let report = directory.load();
        assert!(only(&report).message.contains(message));
        assert_eq!(report.faults[0].scope, Scope::Directory);
        assert!(directory.catalog().snapshot(None, None).is_none());
    }
}

#[test]
fn an_empty_directory_is_served_as_such_at_start() {
    let (catalog, report) = Tree::new().load();
    assert_eq!(report.faults, []);
    assert_eq!(report.warnings.len(), 1);
    assert!(catalog.snapshot(None, None).unwrap().is_empty());
}

#[test]
fn what_is_no_resource_file_is_left_alone() {
    let tree = Tree::with(&[
        ("a.yaml", &cluster("a", 1)),
        ("chancery.yaml", "listen: 127.0.0.1:1\n"),
        (".hidden.yaml", "nonsense"),
        (".git/config.yaml", "nonsense"),
        ("b.yaml~", "nonsense"),
        ("#b.yaml#", "nonsense"),
        ("b.yaml.tmp", "nonsense"),
        (".b.yaml.swp", "nonsense"),
        ("envoy.yaml", "nonsense"),
        ("sub/grpc.json", "nonsense"),
        ("sub/only.yaml", "nonsense"),
        ("README.md", "nonsense"),
        ("groups/stray.yaml", "nonsense"),
    ]);
    let ignore = ["envoy.yaml", "grpc.json", "sub/only.yaml"].map(Into::into).to_vec();
    let options = Options { ignore, ..tree.options() };
    let mut directory = Directory::new(options, support::schema());
    let report = directory.load();
    assert_eq!(report.faults, []);
    assert_eq!(report.files, 1);
    let told: Vec<_> =
        report.warnings.iter().map(|warning| warning.file.clone().unwrap()).collect();
    assert_eq!(told, [tree.at("README.md"), tree.at("groups/stray.yaml")]);
    assert_eq!(directory.load().warnings, [], "told once");
}

#[test]
fn below_the_top_chancery_yaml_is_a_file_like_any_other() {
    let tree = Tree::with(&[("sub/chancery.yaml", &cluster("a", 1))]);
    assert_eq!(named(&tree.load().0, None, None), ["a"]);
}

#[test]
fn a_mounted_config_map_is_read_once() {
    let tree = Tree::with(&[("..2026_a/a.yaml", &cluster("a", 1))]);
    symlink("..2026_a", tree.at("..data")).unwrap();
    symlink("..data/a.yaml", tree.at("a.yaml")).unwrap();
    let (catalog, report) = tree.load();
    assert_eq!(report.faults, []);
    assert_eq!(report.files, 1);
    assert_eq!(named(&catalog, None, None), ["a"]);
}

#[test]
fn texts_of_files_are_escaped_and_cut_wherever_they_are_shown() {
    let tree = Tree::with(&[("a\u{1b}[31m.txt", "nonsense")]);
    let (_, report) = tree.load();
    let warning = report.warnings.iter().find(|it| it.message.starts_with("ignored")).unwrap();
    assert!(warning.to_string().contains("a\\u{1b}[31m.txt: ignored"), "{warning}");
    let message = "a\u{202e}b\n".to_owned();
    let resource = None;
    let general = Warning { file: None, line: None, column: None, message, code: "odd", resource };
    assert_eq!(general.to_string(), "a\\u{202e}b\\n");
    let long = "n".repeat(2000);
    let tree = Tree::with(&[("a.yaml", &cluster(&long, 1)), ("b.yaml", &cluster(&long, 1))]);
    let (fault, _) = load_fault(&tree);
    assert!(fault.message.contains("is defined twice") && fault.message.len() < 600, "{fault}");
    let tree = Tree::with(&[("a.yaml", &documents(&[cluster(&long, 1), cluster(&long, 1)]))]);
    let (fault, _) = load_fault(&tree);
    assert!(fault.message.contains("is defined twice") && fault.message.len() < 600, "{fault}");
    let tree = Tree::with(&[("a.yaml", &cluster(&long, 0))]);
    let warnings = load_with(&tree, RuleCheck::Warn, true).warnings;
    assert!(warnings.iter().any(|it| it.line.is_some()), "{warnings:?}");
    assert!(warnings.iter().filter(|it| it.line.is_some()).all(|it| it.message.len() < 900));
}

#[test]
fn a_directory_may_be_linked_into_several_layers() {
    let tree = Tree::with(&[("groups/eu/a.yaml", &cluster("a", 1))]);
    symlink("eu", tree.at("groups/us")).unwrap();
    let (catalog, report) = tree.load();
    assert_eq!(report.faults, []);
    assert_eq!(named(&catalog, Some("us"), None), ["a"]);
}
