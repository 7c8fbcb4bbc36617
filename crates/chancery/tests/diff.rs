//! `chancery diff` as a user meets it.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::daemon::{Program, chancery, cluster, dir_write, directory, finished};

/// The exit code, the standard output and the standard error.
fn diff(words: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = finished(&mut chancery(&[&["diff"], words].concat()));
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (status.code(), stdout, stderr)
}

/// The same of two directories: what would be served, and what is.
fn diff_of(
    after: &[(&str, &str)],
    before: &[(&str, &str)],
    flags: &[&str],
) -> (Option<i32>, String, String) {
    let (after, before) = (directory(after), directory(before));
    let paths = [&after, &before].map(|dir| dir.path().to_str().unwrap());
    diff(&[&paths, flags].concat())
}

fn git(dir: &Path, words: &[&str]) {
    let mut command = Program::new("git");
    command.arg("-C").arg(dir).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
}

#[test]
fn a_change_is_told_once_with_those_who_see_it() {
    let (a, b, c) = (cluster("a", 1), cluster("b", 1), cluster("c", 1));
    let (a2, own) = (cluster("a", 2), cluster("a", 7));
    let before =
        [("a.yaml", &*a), ("b.yaml", &b), ("groups/g/c.yaml", &c), ("groups/h/a.yaml", &own)];
    let after = [
        ("a.yaml", &*a2),
        ("groups/g/b.yaml", &b),
        ("groups/h/a.yaml", &own),
        ("nodes/n/c.yaml", &c),
    ];
    let (code, told, trouble) = diff_of(&after, &before, &[]);
    assert_eq!((code, trouble.as_str()), (Some(1), ""), "{told}");
    assert_eq!(
        told,
        "\
# nodes without an overlay, node `n`, group `g`
cds a changed
  @@ -1,3 +1,3 @@
    \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
    name: a
  - connect_timeout: 1s
  + connect_timeout: 2s
# nodes without an overlay, node `n`, group `h`
cds b removed
# node `n`
cds c added
# group `g`
cds c removed
1 added, 1 changed, 2 removed
"
    );
    let (code, told, _) = diff_of(&after, &before, &["--group", "h"]);
    assert_eq!(code, Some(1));
    assert_eq!(told, "# group `h`\ncds b removed\n0 added, 0 changed, 1 removed\n");
}

#[test]
fn equal_directories_are_0_and_what_cannot_be_compared_is_2() {
    let a = cluster("a", 1);
    let (code, told, _) = diff_of(&[("x.yaml", &a)], &[("a.yaml", &a)], &[]);
    assert_eq!((code, told.as_str()), (Some(0), "0 added, 0 changed, 0 removed\n"));
    let broken = a.replace("name", "nam");
    for sides in [[&broken, &a], [&a, &broken]] {
        let [after, before] = sides.map(|text| [("a.yaml", text.as_str())]);
        let (code, told, trouble) = diff_of(&after, &before, &[]);
        assert_eq!((code, told.as_str()), (Some(2), ""), "{trouble}");
        assert!(trouble.contains("error[unknown-field]: nam: unknown field"), "{trouble}");
        assert!(trouble.contains("a.yaml:2:1\n") && trouble.contains("has 1 error\n"), "{trouble}");
    }
    let (code, _, trouble) = diff_of(&[("a.yaml", &a)], &[("a.yaml", &a)], &["--group", "none"]);
    assert_eq!(code, Some(2), "{trouble}");
    assert!(trouble.contains("there is no group `none`, before or after"), "{trouble}");
    assert_eq!(diff(&["."]).0, Some(64));
}

#[test]
fn rules_that_differ_are_a_difference() {
    let (a, g) = (cluster("a", 1), cluster("g", 1));
    let rules = "groups: [{name: g, match: {id: x}}]\n";
    let before = [("a.yaml", &*a), ("groups/g/g.yaml", &g)];
    let after = [before[0], before[1], ("chancery.yaml", rules)];
    let (code, told, trouble) = diff_of(&after, &before, &[]);
    assert_eq!(code, Some(1), "{trouble}");
    let said = "the rules for groups differ: nodes may move to another group\n";
    assert_eq!(told, format!("{said}0 added, 0 changed, 0 removed\n"));
    let (code, told, _) = diff_of(&after, &before, &["-o", "json"]);
    let object: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, &object["change"]), (Some(1), &"rules".into()));
}

#[test]
fn what_is_served_may_break_rules_that_are_repaired() {
    let (wrong, right) = (cluster("a", 0), cluster("a", 1));
    let (code, told, _) = diff_of(&[("a.yaml", &right)], &[("a.yaml", &wrong)], &[]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("  - connect_timeout: 0s\n  + connect_timeout: 1s\n"), "{told}");
    let (code, _, trouble) = diff_of(&[("a.yaml", &wrong)], &[("a.yaml", &right)], &[]);
    assert_eq!(code, Some(2), "{trouble}");
    assert!(trouble.contains("error[rule/duration-gt]"), "{trouble}");
}

#[test]
fn a_change_as_json_has_both_resources_and_no_secret() {
    let secret = |key: &str| {
        format!(
            "\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\n\
             name: s\ngeneric_secret: {{secret: {{inline_string: {key}}}}}\n"
        )
    };
    let (one, two) = (secret("first-word"), secret("second-word"));
    for flags in [&["-o", "json"][..], &[]] {
        let (code, told, _) = diff_of(&[("s.yaml", &two)], &[("s.yaml", &one)], flags);
        assert_eq!(code, Some(1), "{told}");
        assert!(!told.contains("first-word") && !told.contains("second-word"), "{told}");
    }
    let warm = cluster("a", 1) + "type: EDS\neds_cluster_config: {eds_config: {ads: {}}}\n";
    let after = [("groups/g/a.yaml", warm.as_str())];
    let (code, told, _) =
        diff_of(&after, &[("groups/g/b.yaml", &cluster("b", 1))], &["-o", "json"]);
    assert_eq!(code, Some(1), "{told}");
    let added: Value = told
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|change| change["change"] == "added" && change["name"] == "a")
        .unwrap();
    assert_eq!(added["type"], "type.googleapis.com/envoy.config.cluster.v3.Cluster");
    assert_eq!(added["audiences"], serde_json::json!([{"group": "g", "node": null}]));
    assert_eq!(
        (&added["before"], &added["after"]["connect_timeout"]),
        (&Value::Null, &"1s".into())
    );
    assert_eq!(added["effects"][0], "Envoy warms the cluster until its endpoints come");
}

#[test]
fn a_revision_of_git_is_compared_as_it_was_committed() {
    let dir = directory(&[("config/a.yaml", &cluster("a", 1)), ("other/b.yaml", "no resource")]);
    let config = dir.path().join("config");
    let config = config.to_str().unwrap();
    let (code, _, trouble) = diff(&[config, "--git", "HEAD"]);
    assert_eq!(code, Some(2), "{trouble}");
    assert!(trouble.contains("git says: fatal: not a git repository"), "{trouble}");
    git(dir.path(), &["init", "-q"]);
    git(dir.path(), &["add", "."]);
    git(dir.path(), &["commit", "-q", "-m", "one"]);
    assert_eq!(diff(&[config, "--git", "HEAD"]).0, Some(0));
    dir_write(&dir, "config/a.yaml", &cluster("a", 2));
    let (code, told, trouble) = diff(&[config, "--git", "HEAD"]);
    assert_eq!(code, Some(1), "{trouble}");
    assert!(told.contains("  - connect_timeout: 1s\n  + connect_timeout: 2s\n"), "{told}");
    for (revision, why) in [("nowhere", "git says: fatal:"), ("--output=x", "git says: fatal:")] {
        let (code, _, trouble) = diff(&[config, &format!("--git={revision}")]);
        assert_eq!(code, Some(2), "{trouble}");
        assert!(trouble.contains(why), "{trouble}");
    }
    dir_write(&dir, "config/a.yaml", "nam: x");
    git(dir.path(), &["commit", "-q", "-a", "-m", "two"]);
    dir_write(&dir, "config/a.yaml", &cluster("a", 2));
    let (code, _, trouble) = diff(&[config, "--git", "HEAD"]);
    assert_eq!(code, Some(2), "{trouble}");
    assert!(trouble.contains(&format!("HEAD:{config}/a.yaml:1:")), "{trouble}");
    let mut command = chancery(&["diff", config, "--git", "HEAD"]);
    let output = finished(command.env("PATH", "/nonexistent"));
    assert_eq!(output.status.code(), Some(2));
    let trouble = String::from_utf8(output.stderr).unwrap();
    assert!(trouble.contains("cannot run `git`"), "{trouble}");
}
