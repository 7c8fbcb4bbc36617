//! Edits behind a fault in another file of their layer: they are told, and pass if somebody lets them.

use std::time::Duration;

use chancery_catalog::Layer;
use chancery_sources::{BehindFaults, LoadReport, Passing};

use crate::support::{Followed, Tree, broken, cluster, named};

const LONG: Duration = Duration::from_secs(60);

/// Those of a report that wait or were let pass.
fn behind(report: &LoadReport) -> Vec<(usize, bool, Vec<String>)> {
    let row = |it: &BehindFaults| {
        let files = it.files.iter().map(|file| file.file_name().unwrap().to_string_lossy());
        (it.count, it.is_passed, files.map(Into::into).collect())
    };
    report.behind_faults.iter().map(row).collect()
}

fn waits(report: &LoadReport, edits: usize) -> bool {
    report.behind_faults.iter().any(|it| it.count == edits)
}

/// Waits until base has these clusters, which it may have already.
#[track_caller]
fn has(followed: &Followed, names: &[&str]) {
    followed.settled(|catalog| named(catalog, None, None) == names);
}

fn order(report: &LoadReport) -> Vec<(Layer, u128)> {
    report.behind_faults.iter().map(|it| (it.layer.clone(), it.digest)).collect()
}

#[test]
fn an_edit_passes_a_file_with_a_fault_which_stays_as_it_was() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1)), ("b.yaml", &cluster("b", 1))]);
    let followed = Followed::new(tree.options());
    has(&followed, &["a", "b"]);
    tree.write("a.yaml", &broken("x"));
    let report = followed.until(|report, _| report.fault_count() == 1);
    let nothing = |file: &str| (0, false, vec![file.to_owned()]);
    assert_eq!(behind(&report), [nothing("a.yaml")], "nothing waits so far");
    tree.write("c.yaml", &cluster("c", 1));
    let report = followed.until(|report, _| waits(report, 1));
    assert_eq!(behind(&report), [(1, false, vec!["a.yaml".to_owned()])]);
    let passer = followed.following.passer();
    assert_eq!(passer.pass(vec![(Layer::Base, 0)], LONG), Passing::Done, "it was looked at");
    tree.write("b.yaml", &cluster("b", 2));
    let report = followed.until(|report, _| waits(report, 2));
    assert!(followed.catalog.layer(&Layer::Base).is_none(), "what nobody has read of waits");
    assert_eq!(passer.pass(order(&report), LONG), Passing::Done);
    let report = followed.until(|report, _| report.behind_faults.iter().any(|it| it.is_passed));
    assert_eq!(behind(&report), [(0, true, vec!["a.yaml".to_owned()])]);
    assert_eq!(report.fault_count(), 1, "the fault is told as before");
    has(&followed, &["a", "b", "c"]);
    // So do later edits, until another file has a fault.
    tree.write("d.yaml", &cluster("d", 1));
    has(&followed, &["a", "b", "c", "d"]);
    tree.write("b.yaml", &broken("x"));
    tree.write("e.yaml", &cluster("e", 1));
    followed.until(|report, _| waits(report, 1));
    has(&followed, &["a", "b", "c", "d"]);
    tree.write("b.yaml", &cluster("b", 1));
    has(&followed, &["a", "b", "c", "d", "e"]);
    // A file that was repaired counts like any other file again.
    tree.write("a.yaml", &cluster("new", 1));
    has(&followed, &["b", "c", "d", "e", "new"]);
    tree.write("a.yaml", &broken("x"));
    tree.write("f.yaml", &cluster("f", 1));
    let report = followed.until(|report, _| waits(report, 1));
    assert_eq!(behind(&report), [(1, false, vec!["a.yaml".to_owned()])]);
}

#[test]
fn a_resource_that_moves_out_of_a_file_with_a_fault_waits_for_it() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1)), ("b.yaml", &cluster("b", 1))]);
    let followed = Followed::new(tree.options());
    has(&followed, &["a", "b"]);
    tree.write("a.yaml", &broken("x"));
    tree.write("c.yaml", &cluster("a", 2));
    let report = followed.until(|report, _| report.fault_count() == 1 && report.files == 3);
    assert_eq!(behind(&report), []);
    // Of two files that define a name, both stay as they were.
    tree.write("a.yaml", &cluster("a", 1));
    tree.write("d.yaml", &cluster("d", 1));
    let report = followed.until(|report, _| waits(report, 1));
    assert_eq!(behind(&report), [(1, false, vec!["a.yaml".to_owned(), "c.yaml".to_owned()])]);
    assert_eq!(followed.following.passer().pass(order(&report), LONG), Passing::Done);
    has(&followed, &["a", "b", "d"]);
}

#[test]
fn a_file_that_lost_all_it_had_and_a_load_of_everything_are_no_exceptions() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1)), ("b.yaml", &cluster("b", 1))]);
    let followed = Followed::new(tree.options());
    has(&followed, &["a", "b"]);
    tree.write("a.yaml", "");
    tree.write("c.yaml", &cluster("c", 1));
    let report = followed.until(|report, _| waits(report, 1));
    assert_eq!(followed.following.passer().pass(order(&report), LONG), Passing::Done);
    has(&followed, &["a", "b", "c"]);
    followed.following.reload();
    let report = followed.until(|report, _| report.is_requested);
    assert_eq!(behind(&report), [(0, true, vec!["a.yaml".to_owned()])]);
    has(&followed, &["a", "b", "c"]);
}

#[test]
fn fields_that_differ_by_node_are_an_edit_like_others_and_part_of_what_somebody_reads() {
    let with_values = |template: &str| {
        let field = format!("set: {{alt_stat_name: \"{template}\"}}");
        format!("{}---\nvalues: [{{type: cds, name: b, {field}}}]\n", cluster("b", 1))
    };
    let tree =
        Tree::with(&[("a.yaml", &cluster("a", 1)), ("b.yaml", &with_values("a-${node.id}"))]);
    let followed = Followed::new(tree.options());
    has(&followed, &["a", "b"]);
    tree.write("a.yaml", &broken("x"));
    followed.until(|report, _| report.fault_count() == 1);
    tree.write("b.yaml", &with_values("${node.id}"));
    let read = order(&followed.until(|report, _| waits(report, 1)));
    tree.write("b.yaml", &with_values("${node.cluster}"));
    let report = followed.until(|report, _| waits(report, 1) && order(report) != read);
    assert_eq!(followed.following.passer().pass(read, LONG), Passing::Done);
    assert!(followed.catalog.layer(&Layer::Base).is_none(), "what nobody has read of waits");
    assert_eq!(followed.following.passer().pass(order(&report), LONG), Passing::Done);
    followed.settled(|catalog| catalog.layer(&Layer::Base).is_some());
}

#[test]
fn an_edit_of_a_group_passes_a_fault_at_the_top_with_all_that_waits_for_it() {
    let tree = Tree::with(&[
        ("a.yaml", &cluster("a", 1)),
        ("groups/edge/web.yaml", &cluster("web", 1)),
        ("groups/back/b.yaml", &cluster("b", 1)),
    ]);
    let followed = Followed::new(tree.options());
    has(&followed, &["a"]);
    tree.write("a.yaml", &broken("x"));
    followed.until(|report, _| report.fault_count() == 1);
    tree.write("groups/edge/web.yaml", &cluster("web", 2));
    let read = order(&followed.until(|report, _| waits(report, 1)));
    assert_eq!(read[0].0, Layer::Base);
    // Another group would go live with it.
    tree.write("groups/back/b.yaml", &cluster("b2", 1));
    let report = followed.until(|report, _| waits(report, 3));
    let passer = followed.following.passer();
    assert_eq!(passer.pass(read, LONG), Passing::Done);
    assert_eq!(named(&followed.catalog, Some("back"), None), ["a", "b"], "nobody has read of it");
    assert_eq!(passer.pass(order(&report), LONG), Passing::Done);
    followed.settled(|catalog| named(catalog, Some("back"), None) == ["a", "b2"]);
    // A layer whose edits have passed waits for none.
    tree.write("groups/edge/web.yaml", &broken("x"));
    let report = followed.until(|report, _| report.fault_count() == 2);
    assert_eq!(
        behind(&report),
        [(0, true, vec!["a.yaml".to_owned()]), (0, false, vec!["web.yaml".to_owned()])]
    );
    // An edit at the top is live for the others, and waits in the group with the fault.
    tree.write("more.yaml", &cluster("more", 1));
    let report = followed.until(|report, _| waits(report, 1));
    assert_eq!(named(&followed.catalog, Some("edge"), None), ["a", "web"]);
    assert_eq!(passer.pass(order(&report), LONG), Passing::Done);
    followed.settled(|catalog| named(catalog, Some("edge"), None) == ["a", "more", "web"]);
}
