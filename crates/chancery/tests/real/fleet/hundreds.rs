//! Three hundred simulated clients and five real ones, through loads, rejections, silence, reconnects and moves. After
//! each step the server is asked in all ways, and compared with what the clients hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use chancery_core::{TypeUrl, Variant};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::simulated::{History, Simulated, UNLUCKY};
use super::{Content, Fleet, Kind, Program};
use crate::support::ask::status;
use crate::support::chancery::Chancery;
use crate::support::clients::clients;
use crate::support::resources::{Source, cluster, endpoints, listener, rds, routes};
use crate::support::wait;

const KINDS: [Kind; 5] = [Kind::EnvoyDelta, Kind::EnvoySotw, Kind::Python, Kind::Node, Kind::Go];

/// The groups of simulated clients, and the number of clients in each.
const GROUPS: [(&str, usize); 3] = [("blue", 140), ("green", 140), ("picky", 20)];

/// The rules: `moved` begins as a pattern that nobody meets.
fn rules(moved: &str) -> String {
    let mut rules = format!(
        "status: {{silent-after: 2s, grace: 4s}}\ngroups:\n- {{name: green, match: {{id: '{moved}'}}}}\n"
    );
    for (group, _) in GROUPS {
        _ = writeln!(rules, "- {{name: {group}, match: {{id: '{group}-*'}}}}");
    }
    rules
}

/// The resources of a layer: a listener with its routes, and two clusters with their endpoints, in one edit.
fn layer(name: &str, edit: usize, word: &str) -> String {
    let listeners = match name {
        // Envoys see this one too, and have listeners of their own.
        "base" => String::new(),
        _ => {
            listener(name, 9000, &rds(name, Source::Ads), "") + &routes(name, &format!("{name}-0"))
        }
    };
    let clusters = (0..2).map(|number| {
        let name = format!("{name}-{number}");
        let body = format!("  type: EDS\n  alt_stat_name: {word}edit-{edit}-\n");
        cluster(&name, Source::Ads).replace("  type: EDS\n", &body)
            + &endpoints(&name, &[u16::try_from(1000 + edit).expect("edits are few")])
    });
    listeners + &clusters.collect::<String>()
}

/// The last edit of each layer.
type Edits = BTreeMap<&'static str, usize>;

/// Writes another edit of a layer, and returns its file.
fn write(fleet: &Fleet, edits: &mut Edits, name: &'static str, word: &str) -> String {
    let edit = edits.entry(name).or_default();
    *edit += 1;
    let file = match name {
        "base" => "base.yaml".to_owned(),
        group => format!("groups/{group}/service.yaml"),
    };
    fleet.directory.write(&file, &layer(name, *edit, word));
    file
}

/// The stage: the fleet, the simulated clients, and what was written last.
struct Stage {
    fleet: Fleet,
    simulated: Vec<Simulated>,
    tasks: JoinSet<()>,
    /// The tasks run here.
    _runtime: Runtime,
    edits: Edits,
    /// The ids of those that went for good.
    gone: BTreeSet<String>,
    /// The prefix of the ids of those that moved to `green`.
    moved: &'static str,
}

impl Stage {
    fn chancery(&self) -> &Chancery {
        &self.fleet.chancery
    }

    /// Writes another edit of a layer, and returns its file.
    fn edit(&mut self, name: &'static str, word: &str) -> String {
        write(&self.fleet, &mut self.edits, name, word)
    }

    /// The group that a simulated client is in by now.
    fn group_of(&self, client: &Simulated) -> &'static str {
        if client.id.starts_with(self.moved) {
            return "green";
        }
        let group = GROUPS.iter().find(|(group, _)| client.id.starts_with(group));
        group.expect("ids begin with it").0
    }

    fn present(&self) -> impl Iterator<Item = &Simulated> {
        self.simulated.iter().filter(|client| !self.gone.contains(&client.id))
    }

    /// Everybody has all that was written: in their own books, and in the words of the server. `step` is for messages.
    fn all_have_it(&mut self, step: &str) {
        let clusters = TypeUrl::new("envoy.config.cluster.v3.Cluster");
        for client in self.present() {
            for layer in ["base", self.group_of(client)] {
                let word = format!("edit-{}-", self.edits[layer]);
                let (name, id) = (format!("{layer}-1"), &client.id);
                assert!(client.has(&clusters, &name, &word), "{step}: {id} lacks {word} of {name}");
            }
        }
        self.is_told(step, &BTreeMap::new());
        for member in &self.fleet.members {
            let Program::Envoy(envoy) = &member.program else { continue };
            let at = format!("127.0.0.1:{}", envoy.admin_port());
            let words = ["--envoy", &at, "--admin", &self.chancery().admin_address()];
            // An Envoy acknowledges a listener before it uses it.
            let mut last = None;
            let runs = wait::within(wait::BOUND, || {
                last = Some(status(self.fleet.dir.path(), &words));
                (last.as_ref()?.0 == Some(0)).then_some(())
            });
            assert!(runs.is_some(), "{step}: {last:#?}");
        }
    }

    /// The server tells these states, and `in-step` of all others; and of each simulated client it tells that it holds
    /// just what it holds.
    fn is_told(&mut self, step: &str, states: &BTreeMap<String, &str>) {
        while let Some(ended) = self.tasks.try_join_next() {
            ended.unwrap_or_else(|fault| panic!("{step}: {fault}"));
        }
        let real = KINDS.iter().map(|kind| (kind.id(), kind.group()));
        let of = |client: &Simulated| (client.id.clone(), self.group_of(client));
        let expected: BTreeMap<_, _> = real.chain(self.present().map(of)).collect();
        let summary = self.chancery().api("status?limit=1000");
        let mut counts = BTreeMap::<&str, BTreeMap<&str, u64>>::new();
        for row in rows(&summary, "nodes") {
            let id = word(row, "id");
            if self.gone.contains(id) {
                assert_eq!(word(row, "state"), "gone", "{step}: {row}");
                continue;
            }
            let state = states.get(id).copied().unwrap_or("in-step");
            let found = (word(row, "state"), word(row, "group"), row["streams"].as_u64());
            assert_eq!(found, (state, expected[id], Some(1)), "{step}: {row}");
            *counts.entry(expected[id]).or_default().entry(state).or_default() += 1;
        }
        let told: u64 = counts.values().flat_map(BTreeMap::values).sum();
        assert_eq!(told, expected.len() as u64, "{step}: {summary}");
        for row in rows(&summary, "groups") {
            let of_group = &counts[word(row, "group")];
            for (key, state) in
                [("in_step", "in-step"), ("rejected", "rejected"), ("silent", "silent")]
            {
                let number = of_group.get(state).copied().unwrap_or_default();
                assert_eq!(row[key].as_u64(), Some(number), "{step}: {row}");
            }
        }
        let connected = self.chancery().api("nodes?limit=1000&fields=id");
        let ids: BTreeSet<_> = rows(&connected, "nodes").map(|row| word(row, "id")).collect();
        assert!(ids.iter().copied().eq(expected.keys().map(String::as_str)), "{step}: {ids:?}");
        let mut connection = self.chancery().connection();
        for client in self.present() {
            let path = format!("/api/v1/nodes/{}?resources=all", client.id);
            let reply = connection.get(&path, &[]).expect("the daemon answers");
            let node: Value = serde_json::from_str(&reply.body).expect("it answers in JSON");
            holds_what_is_told(step, client, &node);
        }
    }

    /// The metrics come to these numbers of nodes of a group, by state.
    fn is_counted(&self, group: &str, counts: &[(&str, usize)]) {
        for (state, count) in counts {
            let line = format!("chancery_nodes{{state=\"{state}\",group=\"{group}\"}}");
            wait::holds(&format!("{line} to be {count}"), || {
                self.chancery().metric(&line) == f64::from(u32::try_from(*count).expect("few"))
            });
        }
    }

    /// Waits for a load, which lands on all.
    fn lands(&self, step: &str, file: &str) {
        let (code, told) = self.fleet.wait_for(file);
        assert_eq!(code, Some(0), "{step}: {told}");
    }

    /// Waits for a load, which does not land, and returns the ids of those that are named.
    fn lands_not(&self, step: &str, file: &str) -> BTreeSet<String> {
        let (code, told) = self.fleet.wait_for(file);
        assert_eq!(code, Some(1), "{step}: {told}");
        let lines = told.lines().skip(1).take_while(|line| !line.starts_with("chancery: "));
        lines.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    }
}

/// The server tells of the resources that a client holds, in these versions, and of no others. A client that has
/// rejected something holds what the server says that it held before.
fn holds_what_is_told(step: &str, client: &Simulated, node: &Value) {
    let mut told = BTreeMap::new();
    let mut is_accepted = true;
    for of_type in rows(&node["streams"][0], "types") {
        for resource in rows(of_type, "resources") {
            let key = format!("{}/{}", word(of_type, "type"), word(resource, "name"));
            is_accepted &= resource["state"] == "acknowledged";
            told.insert(key, word(resource, "held").to_owned());
        }
    }
    let holds = client.holds();
    match is_accepted {
        true => assert_eq!(told, holds, "{step}: {}: {node}", client.id),
        // Of a response that was rejected the client has nothing.
        false => assert!(told.keys().eq(holds.keys()) && told != holds, "{step}: {node}"),
    }
}

fn rows<'a>(of: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    of[key].as_array().unwrap_or_else(|| panic!("no {key}: {of}")).iter()
}

fn word<'a>(of: &'a Value, key: &str) -> &'a str {
    of[key].as_str().unwrap_or_default()
}

fn stage() -> Option<Stage> {
    let clients = clients()?;
    let fleet = Fleet::start(&clients, &KINDS, &rules("nobody-*"), &[]);
    let mut edits = BTreeMap::new();
    let mut file = String::new();
    for name in ["base", "blue", "green", "picky"] {
        file = write(&fleet, &mut edits, name, "");
    }
    let (code, told) = fleet.wait_for(&file);
    assert_eq!(code, Some(0), "the first load: {told}");
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("there is a thread");
    let mut tasks = JoinSet::new();
    let (port, _entered) = (fleet.chancery.port(), runtime.enter());
    let ids = GROUPS.iter().flat_map(|(group, count)| {
        (0..*count).map(move |number| (*group, number, format!("{group}-{number:03}")))
    });
    let simulated = ids.map(|(group, number, id)| {
        let variant = if number % 2 == 0 { Variant::Sotw } else { Variant::Delta };
        Simulated::start(&mut tasks, id, port, variant, group == "picky")
    });
    let simulated = simulated.collect();
    drop(_entered);
    let gone = BTreeSet::new();
    Some(Stage { fleet, simulated, tasks, _runtime: runtime, edits, gone, moved: "nobody" })
}

#[test]
fn the_server_tells_of_three_hundred_clients_what_they_hold() {
    let Some(mut stage) = stage() else { return };
    let (code, told) = stage.chancery().told_by(&["wait", "--min-nodes", "305"]);
    assert_eq!(code, Some(0), "{told}");
    stage.all_have_it("all are there");
    for name in ["blue", "base", "green"] {
        let file = stage.edit(name, "");
        stage.lands(name, &file);
        stage.all_have_it(name);
    }
    rejections(&mut stage);
    silence(&mut stage);
    reconnects(&mut stage);
    moves(&mut stage);
    what_happened(&stage);
}

/// Some clients reject a resource, and all others of their kind have it; an edit repairs that.
fn rejections(stage: &mut Stage) {
    let step = "rejections";
    let file = stage.edit("picky", UNLUCKY);
    let picky: Vec<_> = stage.present().filter(|it| it.id.starts_with("picky")).collect();
    let picky: BTreeSet<_> = picky.into_iter().map(|it| it.id.clone()).collect();
    assert_eq!(stage.lands_not(step, &file), picky);
    let states = picky.iter().map(|id| (id.clone(), "rejected")).collect();
    stage.is_told(step, &states);
    stage.is_counted("picky", &[("rejected", picky.len()), ("in-step", 0)]);
    for (group, _) in GROUPS.iter().filter(|(group, _)| *group != "picky") {
        let (code, told) = stage.chancery().told_by(&["wait", "--group", group]);
        assert_eq!(code, Some(0), "{group}: {told}");
    }
    let file = stage.edit("picky", "");
    stage.lands("the repair", &file);
    stage.all_have_it("the repair");
    stage.is_counted("picky", &[("rejected", 0), ("in-step", picky.len())]);
}

/// Some clients answer no more: real ones whose process is stopped, and simulated ones.
fn silence(stage: &mut Stage) {
    let step = "silence";
    let stopped = [Kind::EnvoyDelta, Kind::Go];
    let members = |stage: &Stage| -> Vec<usize> {
        let members = stage.fleet.members.iter().enumerate();
        members.filter(|(_, it)| stopped.contains(&it.kind)).map(|(at, _)| at).collect()
    };
    let mut silent: BTreeSet<_> = stopped.iter().map(|kind| kind.id()).collect();
    for at in members(stage) {
        stage.fleet.members[at].signal("STOP");
        stage.fleet.write(&stage.fleet.members[at], Content::Mended);
    }
    for client in stage.simulated.iter().filter(|it| it.id.starts_with("green-00")) {
        client.fall_silent();
        silent.insert(client.id.clone());
    }
    let file = stage.edit("base", "");
    assert_eq!(stage.lands_not(step, &file), silent);
    let summary = stage.chancery().api("status?state=silent&limit=1000");
    let told: BTreeSet<_> = rows(&summary, "nodes").map(|row| word(row, "id").to_owned()).collect();
    assert_eq!(told, silent, "{step}");
    stage.is_counted("green", &[("silent", 10), ("in-step", 130)]);
    for at in members(stage) {
        stage.fleet.members[at].signal("CONT");
    }
    stage.simulated.iter().filter(|it| silent.contains(&it.id)).for_each(Simulated::come_back);
    let (code, told) = stage.chancery().told_by(&["wait"]);
    assert_eq!(code, Some(0), "{told}");
    stage.all_have_it("after the silence");
    stage.is_counted("green", &[("silent", 0), ("in-step", 140)]);
}

/// Many clients reconnect while a load is under way, and some do not come back: they are waited for as long as they
/// may, and told of from then on.
fn reconnects(stage: &mut Stage) {
    for round in 0..3 {
        let file = stage.edit(["blue", "base", "green"][round], "");
        stage.simulated.iter().skip(round).step_by(3).for_each(Simulated::reconnect);
        stage.lands("reconnects", &file);
        stage.all_have_it("reconnects");
    }
    let leaving = stage.simulated.iter().filter(|it| it.id.ends_with("-013"));
    let leaving: Vec<_> = leaving.inspect(|it| it.leave()).map(|it| it.id.clone()).collect();
    let file = stage.edit("base", "");
    stage.lands("departures", &file);
    stage.gone.extend(leaving);
    stage.all_have_it("departures");
    stage.is_counted("blue", &[("gone", 1), ("in-step", 139)]);
}

/// Clients move to another group by an edit of the rules, and back.
fn moves(stage: &mut Stage) {
    for (moved, pattern) in [("blue-1", "blue-1*"), ("nobody", "nobody-*")] {
        let group = |kind: &Kind| format!("- {{name: {0}, match: {{id: {0}-*}}}}\n", kind.group());
        let groups: String = KINDS.iter().map(group).collect();
        stage.fleet.directory.write("chancery.yaml", &(rules(pattern) + &groups));
        stage.moved = moved;
        let count = stage.present().filter(|it| stage.group_of(it) == "green").count();
        wait::holds("the clients to move", || {
            stage.fleet.group("green")["nodes"].as_u64() == Some(count as u64)
        });
        let (code, told) = stage.chancery().told_by(&["wait"]);
        assert_eq!(code, Some(0), "{told}");
        stage.all_have_it("moves");
        let file = stage.edit("green", "");
        stage.lands("after the moves", &file);
        stage.all_have_it("after the moves");
    }
}

/// The events tell of each simulated client what has happened to it.
fn what_happened(stage: &Stage) {
    let loads = stage.chancery().api("loads?limit=1");
    let last = &loads["loads"][0]["number"];
    let mut events = stage.chancery().events_after("00000000-1");
    let mut told = BTreeMap::<String, History>::new();
    let mut moved = BTreeMap::<String, Vec<String>>::new();
    loop {
        let (kind, event) = events.next();
        if kind == "landed" && event["load"] == *last {
            break;
        }
        let id = word(&event, "node").to_owned();
        let of_node = told.entry(id.clone()).or_default();
        match kind.as_str() {
            "appeared" => of_node.appeared += 1,
            "gone" => of_node.gone += 1,
            "rejected" => of_node.rejected += 1,
            "moved" => moved.entry(id).or_default().push(word(&event, "audience").to_owned()),
            "missed" => panic!("{event}"),
            _ => {}
        }
    }
    for client in &stage.simulated {
        assert_eq!(told.get(&client.id), Some(&client.history()), "{}", client.id);
        let back = ["groups/green", "groups/blue"].map(str::to_owned);
        let is_moved = client.id.starts_with("blue-1");
        let expected = if is_moved { &back[..] } else { &[] };
        assert_eq!(moved.get(&client.id).map_or(&[][..], |it| it), expected, "{}", client.id);
    }
}
