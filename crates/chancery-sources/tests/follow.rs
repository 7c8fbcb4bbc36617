//! Every way in which a directory changes, noticed by events alone.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::time::Duration;

use chancery_catalog::Layer;
use chancery_proto::document::{Checks, RuleCheck};
use chancery_sources::{LayerChecks, Options, Scope, Watch};

use crate::support::{Followed, Tree, broken, cluster, documents, named, version, write};

#[test]
fn a_file_written_in_place_is_picked_up() {
    // T-31
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let followed = Followed::new(tree.options());
    followed.until_named(&["a"]);
    let old = version(&followed.catalog, "a").unwrap();
    let mut file = fs::OpenOptions::new().write(true).open(tree.at("a.yaml")).unwrap();
    file.write_all(cluster("a", 2).as_bytes()).unwrap();
    followed.until_other("a", &old);
}

#[test]
fn files_that_come_go_and_move_are_picked_up() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let followed = Followed::new(tree.options());
    followed.until_named(&["a"]);
    tree.write("b.yaml", &cluster("b", 1));
    followed.until_named(&["a", "b"]);
    fs::rename(tree.at("b.yaml"), tree.at("b.yaml~")).unwrap();
    followed.until_named(&["a"]);
    tree.write("deep/er/c.yaml", &cluster("c", 1));
    followed.until_named(&["a", "c"]);
    tree.write("deep/er/c.yaml", &cluster("d", 1));
    followed.until_named(&["a", "d"]);
    fs::remove_dir_all(tree.at("deep")).unwrap();
    followed.until_named(&["a"]);
}

#[test]
fn a_warning_whose_cause_is_gone_is_reported_though_nothing_else_changed() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1)), ("b.yaml", "")]);
    let followed = Followed::new(tree.options());
    followed.until(|report, _| report.warning_count == 1);
    tree.write("b.yaml", "[]");
    followed.until(|report, _| report.warning_count == 0);
}

#[test]
fn other_checks_are_in_force_without_a_change_of_a_file() {
    // S-063
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let checks = |rules| LayerChecks::from(Checks { rules, ..Checks::default() });
    let options = Options { checks: checks(RuleCheck::Fault), ..tree.options() };
    let followed = Followed::new(options);
    followed.until_named(&["a"]);
    tree.write("b.yaml", &cluster("b", 0));
    followed.until(|report, _| report.fault_count() == 1);
    followed.following.set_checks(checks(RuleCheck::Warn));
    let report = followed.until_named(&["a", "b"]);
    assert_eq!((report.fault_count(), report.warning_count), (0, 1));
    followed.following.set_checks(checks(RuleCheck::Off));
    followed.until(|report, _| report.warning_count == 0);
    followed.following.set_checks(checks(RuleCheck::Fault));
    followed.until(|report, _| report.fault_count() == 1);
}

#[test]
fn a_load_that_is_asked_for_is_reported_though_nothing_changed() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let followed = Followed::new(tree.options());
    let first = followed.until_named(&["a"]);
    assert!(!first.is_requested);
    followed.following.reload();
    let report = followed.until(|report, _| report.is_requested);
    assert_eq!((report.files, report.layers()), (1, &[][..]));
}

#[test]
fn a_file_renamed_over_another_is_picked_up_each_time() {
    // T-31
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let followed = Followed::new(tree.options());
    followed.until_named(&["a"]);
    for name in ["b", "c", "d"] {
        tree.write(".a.yaml.new", &cluster(name, 1));
        fs::rename(tree.at(".a.yaml.new"), tree.at("a.yaml")).unwrap();
        followed.until_named(&[name]);
    }
}

#[test]
fn swaps_of_a_mounted_config_map_are_picked_up_each_time() {
    // T-31
    let tree = Tree::with(&[("..1/a.yaml", &cluster("a1", 1))]);
    symlink("..1", tree.at("..data")).unwrap();
    symlink("..data/a.yaml", tree.at("a.yaml")).unwrap();
    let followed = Followed::new(tree.options());
    followed.until_named(&["a1"]);
    for turn in 2..5 {
        tree.write(&format!("..{turn}/a.yaml"), &cluster(&format!("a{turn}"), 1));
        symlink(format!("..{turn}"), tree.at("..data_tmp")).unwrap();
        fs::rename(tree.at("..data_tmp"), tree.at("..data")).unwrap();
        fs::remove_dir_all(tree.at(&format!("..{}", turn - 1))).unwrap();
        followed.until_named(&[&format!("a{turn}")]);
    }
    // In place, behind both links.
    tree.write("..4/a.yaml", &cluster("b", 1));
    followed.until_named(&["b"]);
}

#[test]
fn a_file_behind_a_symlink_is_picked_up_whatever_its_name() {
    let tree = Tree::new();
    write(&tree.beside("elsewhere/data"), &cluster("a", 1));
    symlink("../elsewhere/data", tree.at("a.yaml")).unwrap();
    let followed = Followed::new(tree.options());
    followed.until_named(&["a"]);
    write(&tree.beside("elsewhere/data"), &cluster("b", 1));
    followed.until_named(&["b"]);
    fs::rename(tree.beside("elsewhere"), tree.beside("moved")).unwrap();
    write(&tree.beside("elsewhere/data"), &cluster("c", 1));
    // The rename was in a directory that is none of ours; the next look finds it.
    followed.following.reload();
    followed.until_named(&["c"]);
}

#[test]
fn a_directory_behind_a_symlink_is_followed_and_so_is_the_link() {
    let tree = Tree::new();
    write(&tree.beside("one/a.yaml"), &cluster("a", 1));
    write(&tree.beside("two/b.yaml"), &cluster("b", 1));
    symlink("../one", tree.at("current")).unwrap();
    let followed = Followed::new(tree.options());
    followed.until_named(&["a"]);
    write(&tree.beside("one/a.yaml"), &cluster("c", 1));
    followed.until_named(&["c"]);
    symlink("../two", tree.at("new")).unwrap();
    fs::rename(tree.at("new"), tree.at("current")).unwrap();
    followed.until_named(&["b"]);
    write(&tree.beside("two/b.yaml"), &cluster("d", 1));
    followed.until_named(&["d"]);
}

#[test]
fn a_whole_directory_swapped_by_renames_is_picked_up_each_time() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let followed = Followed::new(tree.options());
    followed.until_named(&["a"]);
    for (turn, name) in ["b", "c"].into_iter().enumerate() {
        write(&tree.beside("new/x.yaml"), &cluster(name, 1));
        let old = tree.beside(&format!("old{turn}"));
        fs::rename(tree.conf(), &old).unwrap();
        fs::rename(tree.beside("new"), tree.conf()).unwrap();
        followed.until_named(&[name]);
        fs::remove_dir_all(old).unwrap();
        // The removal of the old one must not end the watch on the new one.
        tree.write("x.yaml", &cluster(&format!("{name}2"), 1));
        followed.until_named(&[&format!("{name}2")]);
    }
}

#[test]
fn a_directory_that_is_a_symlink_may_be_switched() {
    let tree = Tree::new();
    write(&tree.beside("v1/a.yaml"), &cluster("a", 1));
    write(&tree.beside("v2/b.yaml"), &cluster("b", 1));
    symlink("v1", tree.beside("live")).unwrap();
    let followed = Followed::new(Options { directory: tree.beside("live"), ..tree.options() });
    followed.until_named(&["a"]);
    symlink("v2", tree.beside("next")).unwrap();
    fs::rename(tree.beside("next"), tree.beside("live")).unwrap();
    followed.until_named(&["b"]);
    write(&tree.beside("v2/b.yaml"), &cluster("c", 1));
    followed.until_named(&["c"]);
}

#[test]
fn a_directory_below_a_symlink_may_be_switched() {
    let tree = Tree::new();
    write(&tree.beside("v1/conf/a.yaml"), &cluster("a", 1));
    write(&tree.beside("v2/conf/b.yaml"), &cluster("b", 1));
    symlink("v1", tree.beside("live")).unwrap();
    let followed = Followed::new(Options { directory: tree.beside("live/conf"), ..tree.options() });
    followed.until_named(&["a"]);
    symlink("v2", tree.beside("next")).unwrap();
    fs::rename(tree.beside("next"), tree.beside("live")).unwrap();
    followed.until_named(&["b"]);
}

#[test]
fn a_directory_that_disappears_deletes_nothing_and_is_picked_up_when_it_is_back() {
    // S-057
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let followed = Followed::new(tree.options());
    followed.until_named(&["a"]);
    fs::rename(tree.conf(), tree.beside("away")).unwrap();
    let report = followed.until(|report, _| !report.faults.is_empty());
    assert_eq!(report.faults[0].scope, Scope::Directory);
    assert_eq!(report.changed(), []);
    assert_eq!(named(&followed.catalog, None, None), ["a"]);
    write(&tree.beside("away/b.yaml"), &cluster("b", 1));
    fs::rename(tree.beside("away"), tree.conf()).unwrap();
    let report = followed.until_named(&["a", "b"]);
    assert_eq!(report.faults, []);
}

#[test]
fn a_directory_that_is_removed_and_made_anew_is_picked_up_once_it_has_files() {
    // S-057
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let followed = Followed::new(tree.options());
    followed.until_named(&["a"]);
    fs::remove_dir_all(tree.conf()).unwrap();
    followed
        .until(|report, _| report.faults.iter().any(|fault| fault.message.contains("not there")));
    fs::create_dir(tree.conf()).unwrap();
    let report = followed
        .until(|report, _| report.faults.iter().any(|fault| fault.message.contains("no files")));
    assert_eq!(report.changed(), []);
    assert_eq!(named(&followed.catalog, None, None), ["a"]);
    tree.write("b.yaml", &cluster("b", 1));
    followed.until_named(&["b"]);
}

#[test]
fn a_directory_that_comes_back_empty_deletes_nothing() {
    // S-057
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let followed = Followed::new(tree.options());
    followed.until_named(&["a"]);
    let told = |words: &'static str| {
        followed.until(|report, _| report.faults.iter().any(|fault| fault.message.contains(words)))
    };
    fs::rename(tree.conf(), tree.beside("away")).unwrap();
    told("not there");
    fs::remove_file(tree.beside("away/a.yaml")).unwrap();
    fs::rename(tree.beside("away"), tree.conf()).unwrap();
    told("no files");
    assert_eq!(named(&followed.catalog, None, None), ["a"]);
}

#[test]
fn all_files_gone_at_once_delete_nothing() {
    // S-057
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1)), ("b.yaml", &cluster("b", 1))]);
    let options = Options { settle: Duration::from_millis(400), ..tree.options() };
    let followed = Followed::new(options);
    followed.until_named(&["a", "b"]);
    tree.remove("a.yaml");
    tree.remove("b.yaml");
    let report = followed.until(|report, _| !report.faults.is_empty());
    assert!(report.faults[0].hint.as_ref().unwrap().contains("empty list"));
    assert_eq!(named(&followed.catalog, None, None), ["a", "b"]);
    tree.write("empty.yaml", "[]\n");
    let report = followed.until(|report, _| report.faults.is_empty());
    assert_eq!(report.files, 1);
    assert!(followed.catalog.snapshot(None, None).unwrap().is_empty());
}

#[test]
fn the_last_file_taken_out_on_purpose_takes_its_resources_along() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1)), ("b.yaml", &cluster("b", 1))]);
    let followed = Followed::new(tree.options());
    followed.until_named(&["a", "b"]);
    tree.remove("b.yaml");
    followed.until_named(&["a"]);
    tree.remove("a.yaml");
    let report = followed.until(|_, catalog| catalog.snapshot(None, None).unwrap().is_empty());
    assert_eq!(report.faults, []);
}

#[test]
fn a_change_of_many_files_is_published_as_one() {
    // S-107
    let tree = Tree::new();
    let write_all = |seconds| {
        for index in 0..20 {
            tree.write(&format!("{index}.yaml"), &cluster(&format!("c{index}-{seconds}"), seconds));
        }
    };
    write_all(1);
    // Longer than any pause of a busy machine between two writes.
    let settle = Duration::from_secs(1);
    let options = Options { settle, settle_bound: Duration::from_secs(30), ..tree.options() };
    let followed = Followed::new(options);
    let (first, names) = followed.next();
    assert_eq!((first.faults, names.len()), (vec![], 20));
    write_all(2);
    let (second, names) = followed.next();
    assert_eq!(second.layers(), [Layer::Base]);
    assert_eq!(names.len(), 20);
    assert!(names.iter().all(|name| name.ends_with("-2")), "{names:?}");
}

#[test]
fn a_broken_file_is_told_and_so_is_its_repair() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let followed = Followed::new(tree.options());
    followed.until_named(&["a"]);
    tree.write("a.yaml", &broken("a"));
    let report = followed.until(|report, _| !report.faults.is_empty());
    assert_eq!(report.changed(), []);
    assert_eq!(named(&followed.catalog, None, None), ["a"]);
    tree.write("a.yaml", &cluster("a", 1));
    let report = followed.until(|report, _| report.faults.is_empty());
    assert_eq!(report.changed(), [], "repaired to what it was");
}

#[test]
fn a_file_that_is_cut_to_nothing_holds_back_what_it_had() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1)), ("groups/g/b.yaml", &cluster("b", 1))]);
    let followed = Followed::new(tree.options());
    followed.until_named(&["a"]);
    tree.write("a.yaml", "");
    let report = followed.until(|report, _| !report.faults.is_empty());
    assert_eq!(
        (report.changed(), named(&followed.catalog, None, None)),
        (&[][..], vec!["a".into()])
    );
    assert_eq!(followed.catalog.held_back(), [Layer::Base]);
    tree.write("a.yaml", &cluster("c", 1));
    followed.until_named(&["c"]);
    tree.write("a.yaml", "[]\n");
    let report = followed.until(|_, catalog| catalog.snapshot(None, None).unwrap().is_empty());
    assert_eq!(report.faults, []);
}

#[test]
fn nobody_waits_for_a_follower_that_waits_itself() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let directory = tree.directory();
    // It stands for storage that does not answer.
    let (begun, begins) = std::sync::mpsc::channel();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let report = move |_: &chancery_sources::LoadReport| {
        begun.send(()).unwrap();
        let _ = gone.recv_timeout(Duration::from_secs(600));
    };
    let following = directory.follow(report).unwrap();
    begins.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(!following.stop_within(Duration::from_millis(1)));
    drop(go);
    let following = tree.directory().follow(|_| {}).unwrap();
    assert!(following.stop_within(Duration::from_secs(60)));
}

#[test]
fn what_changed_between_the_load_and_the_following_is_not_lost() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let mut directory = tree.directory();
    directory.load();
    let catalog = directory.catalog();
    tree.write("b.yaml", &cluster("b", 1));
    let (sender, reports) = std::sync::mpsc::channel();
    let following = directory.follow(move |report| sender.send(report.clone()).unwrap()).unwrap();
    reports.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(named(&catalog, None, None), ["a", "b"]);
    following.stop();
    assert!(reports.try_recv().is_err(), "nothing is told after the stop");
}

#[test]
fn without_events_sweeps_find_what_changed() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let sweep = Duration::from_millis(20);
    let followed = Followed::new(Options { watch: Watch::Sweeps, sweep, ..tree.options() });
    followed.until_named(&["a"]);
    tree.write("b.yaml", &cluster("b", 1));
    followed.until_named(&["a", "b"]);
    tree.remove("a.yaml");
    followed.until_named(&["b"]);
    fs::remove_dir_all(tree.conf()).unwrap();
    followed.until(|report, _| !report.faults.is_empty());
    tree.write("c.yaml", &cluster("c", 1));
    followed.until_named(&["c"]);
    // The same size, and perhaps the same tick of the clock.
    tree.write("c.yaml", &cluster("d", 1));
    followed.until_named(&["d"]);
}

#[test]
fn a_list_in_one_file_and_in_many_are_the_same() {
    // S-031: a replica that reads the same resources from other files says the same versions
    let one = Tree::with(&[("all.yaml", &documents(&[cluster("a", 1), cluster("b", 1)]))]);
    let many = Tree::with(&[("x/b.yaml", &cluster("b", 1)), ("a.yaml", &cluster("a", 1))]);
    assert_eq!(one.load().0.snapshot(None, None), many.load().0.snapshot(None, None));
}
