//! Each kind of real client rejects a resource that loads. It is told everywhere, with the node, the resource and the
//! reason; nobody else is affected; an edit repairs it, and that is told too.

use serde_json::{Value, json};

use super::{Content, Fleet, Kind, Member};
use crate::support::ask::WatchProcess;
use crate::support::chancery::Events;
use crate::support::clients::clients;
use crate::support::wait;

const KINDS: [Kind; 5] = [Kind::EnvoyDelta, Kind::Python, Kind::Node, Kind::Go, Kind::Java];

/// A client of our own in the group of a real one, which takes what that rejects.
fn steady(fleet: &Fleet, kind: Kind) -> WatchProcess {
    let (node, of) = (format!("{}-steady", kind.group()), kind.at_fault().0);
    let words = [of, "--node", &node, "--server", &fleet.chancery.address()];
    WatchProcess::start(fleet.dir.path(), &words)
}

// S-034, S-134
#[test]
fn a_rejection_of_each_kind_is_told_everywhere_until_it_is_repaired() {
    let Some(clients) = clients() else { return };
    let fleet = Fleet::start(&clients, &KINDS, "groups:\n", &[]);
    let _steady = KINDS.map(|kind| steady(&fleet, kind));
    let all = (2 * KINDS.len()).to_string();
    let (code, told) = fleet.chancery.told_by(&["wait", "--min-nodes", &all]);
    assert_eq!(code, Some(0), "{told}");
    for member in &fleet.members {
        let mut events = fleet.chancery.events("?event=rejected&event=repaired");
        let before = nacks(&fleet, member.kind);
        fleet.write(member, Content::Bad);
        let (code, told) = fleet.wait_for(&member.kind.file());
        // Whoever waited for it has seen it: so have all others, at once.
        is_told(&fleet, member, code, &told);
        assert!(nacks(&fleet, member.kind) > before, "{:?}: no rejection is counted", member.kind);
        is_next(&mut events, "rejected", &member.kind.id());
        is_counted(&fleet, member.kind, 1.0);
        fleet.members.iter().for_each(Member::goes_on);

        fleet.write(member, Content::Mended);
        let (code, told) = fleet.wait_for(&member.kind.file());
        assert_eq!(code, Some(0), "{:?}: {told}", member.kind);
        is_repaired(&fleet, member);
        is_next(&mut events, "repaired", &member.kind.id());
        is_counted(&fleet, member.kind, 0.0);
        member.goes_on();
    }
}

#[track_caller]
fn is_next(events: &mut Events, expected: &str, node: &str) {
    let (kind, event) = events.next();
    assert_eq!((kind.as_str(), &event["node"]), (expected, &json!(node)), "{event}");
}

/// The command that waits, the summary, the node, the resource and CSDS tell of the rejection, and of no other.
fn is_told(fleet: &Fleet, member: &Member, code: Option<i32>, told: &str) {
    let (kind, id) = (member.kind, member.kind.id());
    let (of, name) = kind.at_fault();
    let table = told.lines().skip(1).take_while(|line| !line.starts_with("chancery: "));
    let rows: Vec<_> = table.collect();
    assert!(code == Some(1) && rows.len() == 1, "{kind:?}: {told}");
    assert!(rows[0].starts_with(&id) && rows[0].contains(name), "{kind:?}: {told}");
    let summary = fleet.chancery.api("status?state=rejected");
    assert_eq!((&summary["count"], &summary["nodes"][0]["id"]), (&json!(1), &json!(id)));
    let rejection = &summary["nodes"][0]["rejections"][0];
    assert_eq!(
        (&rejection["type"], &rejection["suspects"]),
        (&json!(of), &json!([name])),
        "{kind:?}"
    );
    assert!(rejection["reason"].as_str().is_some_and(|why| !why.is_empty()), "{rejection}");
    for other in KINDS {
        let row = fleet.group(other.group());
        let rejects = usize::from(other == kind);
        let expected = (json!(2), json!(2 - rejects), json!(rejects));
        let found = (row["nodes"].clone(), row["in_step"].clone(), row["rejected"].clone());
        assert_eq!(found, expected, "{kind:?}: {row}");
        if other != kind {
            let (code, told) = fleet.chancery.told_by(&["wait", "--group", other.group()]);
            assert_eq!(code, Some(0), "{kind:?}, {other:?}: {told}");
        }
    }
    let node = fleet.chancery.api(&format!("nodes/{id}?resources=all&type={of}"));
    let row = &node["streams"][0]["types"][0];
    assert_eq!(row["suspects"], json!([name]), "{node}");
    assert!(row["rejected"] == row["sent"] && row["rejected"] != row["acknowledged"], "{row}");
    assert_eq!(node["history"][0]["event"], "rejected");
    let nodes = nodes_with(fleet, kind);
    assert!(nodes.contains(&(id.clone(), json!("rejected"))), "{nodes:?}");
    let steady = format!("{}-steady", kind.group());
    assert!(nodes.contains(&(steady, json!("acknowledged"))), "{nodes:?}");
    let by_csds = fleet.told_by_csds(&id);
    let in_trouble: Vec<_> = by_csds.iter().filter(|line| !line.ends_with(" SYNCED")).collect();
    let line = format!("{name} ERROR");
    assert!(in_trouble.len() == 1 && in_trouble[0].ends_with(&line), "{kind:?}: {by_csds:?}");
}

/// Nothing tells of a rejection any more, but for the history.
fn is_repaired(fleet: &Fleet, member: &Member) {
    let (kind, id) = (member.kind, member.kind.id());
    let summary = fleet.chancery.api("status?state=rejected");
    assert_eq!(summary["count"], 0, "{kind:?}: {summary}");
    assert_eq!(fleet.group(kind.group())["in_step"], 2, "{kind:?}");
    let node = fleet.chancery.api(&format!("nodes/{id}"));
    let history: Vec<_> = (0..2).map(|at| node["history"][at]["event"].clone()).collect();
    assert_eq!(history, ["repaired", "rejected"], "{kind:?}: {node}");
    assert_eq!(node["node"]["state"], "in-step", "{kind:?}: {node}");
    let states = nodes_with(fleet, kind);
    assert!(states.iter().all(|(_, state)| state == "acknowledged"), "{kind:?}: {states:?}");
    let by_csds = fleet.told_by_csds(&id);
    assert!(by_csds.len() == 4 && by_csds.iter().all(|it| it.ends_with(" SYNCED")), "{by_csds:?}");
}

/// The nodes of the group of this kind that have the resource at fault, with its state there.
fn nodes_with(fleet: &Fleet, kind: Kind) -> Vec<(String, Value)> {
    let (of, name) = kind.at_fault();
    let page = fleet.chancery.api(&format!("resources/{of}/{name}?group={}", kind.group()));
    let rows = page["nodes"].as_array().expect("a list");
    let row =
        |row: &Value| (row["node"].as_str().unwrap_or_default().to_owned(), row["state"].clone());
    rows.iter().map(row).collect()
}

/// The number of all rejections of the type in question.
fn nacks(fleet: &Fleet, kind: Kind) -> f64 {
    let of = kind.at_fault().0;
    let line = |variant| format!("chancery_nacks_total{{variant=\"{variant}\",type=\"{of}\"}}");
    fleet.chancery.metric(&line("sotw")) + fleet.chancery.metric(&line("delta"))
}

/// The metrics of nodes and resources come to this.
fn is_counted(fleet: &Fleet, kind: Kind, rejected: f64) {
    let (of, group) = (kind.at_fault().0, kind.group());
    let lines = [
        format!("chancery_nodes{{state=\"rejected\",group=\"{group}\"}}"),
        "chancery_rejected_types".to_owned(),
        format!("chancery_rejected_resources{{type=\"{of}\"}}"),
    ];
    for line in lines {
        wait::holds(&line, || fleet.chancery.metric(&line) == rejected);
    }
}
