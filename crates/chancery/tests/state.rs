//! A server that is started again with a state directory: what is faulty, lost or damaged meanwhile.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

use crate::daemon::{
    Running, Server, chancery, cluster, dir_write, directory, eventually, finished, lines,
    next_line,
};

/// A state directory in a temporary one, and the flag for it.
struct State {
    outer: TempDir,
    flag: String,
}

impl State {
    fn new() -> Self {
        let outer = tempfile::tempdir().unwrap();
        let flag = format!("--state={}", outer.path().join("state").display());
        Self { outer, flag }
    }

    fn dir(&self) -> PathBuf {
        self.outer.path().join("state")
    }

    fn head(&self) -> Option<Value> {
        let bytes = fs::read(self.dir().join("v1/head")).ok()?;
        let text = bytes.split(|byte| *byte == b'\n').nth(1)?;
        serde_json::from_slice(text).ok()
    }

    fn start(&self, dir: &TempDir) -> Server {
        Server::start(dir, &[&self.flag])
    }

    /// All files below it, but for the lock.
    fn files(&self) -> Vec<PathBuf> {
        let mut found = vec![self.dir().join("v1/head")];
        let pieces = fs::read_dir(self.dir().join("v1/pieces")).unwrap();
        found.extend(pieces.map(|piece| piece.unwrap().path()));
        found.sort();
        found
    }
}

/// Ends a server in order.
fn stop(mut server: Server) {
    server.signal("TERM");
    server.ends_well();
}

/// Ends a server as a crash would, when it has kept a state with these words in its head.
fn crash(mut server: Server, state: &State, is_kept: impl Fn(&Value) -> bool) {
    eventually(|| state.head().is_some_and(|head| is_kept(&head)));
    server.child.kill();
}

fn clusters(prefix: &str, count: usize) -> String {
    let all: Vec<_> = (0..count).map(|at| cluster(&format!("{prefix}{at}"), 1)).collect();
    all.join("---\n")
}

/// The number of clusters that a node of a group gets.
fn clusters_of(server: &Server, group: &str) -> usize {
    let node = format!("{{\"node\": {{\"id\": \"n\", \"cluster\": \"{group}\"}}}}");
    let (status, answer) = server.post("clusters", &node);
    assert_eq!(status, 200, "{answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    answer["resources"].as_array().map_or(0, Vec::len)
}

fn status_of(server: &Server, group: &str) -> u16 {
    let node = format!("{{\"node\": {{\"id\": \"n\", \"cluster\": \"{group}\"}}}}");
    server.post("clusters", &node).0
}

fn config(server: &Server) -> Value {
    serde_json::from_str(&server.admin("/api/v1/config").1).unwrap()
}

fn confirm(server: &Server, words: &[&str]) -> Output {
    let admin = format!("127.0.0.1:{}", server.admin);
    finished(chancery(&["confirm", "--admin", &admin]).args(words))
}

/// Base with 20 clusters, and two groups with some of their own.
fn fleet() -> TempDir {
    directory(&[
        ("clusters.yaml", &clusters("base", 20)),
        ("groups/edge/clusters.yaml", &clusters("edge", 15)),
        ("groups/back/clusters.yaml", &clusters("back", 3)),
    ])
}

#[test]
fn a_group_with_a_truncated_file_is_served_as_before_the_restart() {
    let (dir, state) = (fleet(), State::new());
    stop(state.start(&dir));
    let cut = &clusters("edge", 15)[..400];
    dir_write(&dir, "groups/edge/clusters.yaml", &format!("{cut}\nnonsense: 1\n"));
    dir_write(&dir, "clusters.yaml", &clusters("base", 21));
    let mut server = state.start(&dir);
    server.log_has("begins with what was in force at 2");
    server.log_has("group `edge` has faults in ");
    server.log_has(", and is served as it was at 2");
    assert_eq!(clusters_of(&server, "edge"), 35);
    assert_eq!(clusters_of(&server, "back"), 24);
    let (status, ready) = server.admin("/ready");
    assert_eq!(status, 200);
    assert!(ready.contains("- group `edge` is served as it was at 2"), "{ready}");
    assert!(ready.contains("groups/edge/clusters.yaml"), "{ready}");
    let config = config(&server);
    let last_good = &config["last_good"][0];
    assert_eq!((&last_good["layer"], &last_good["served"]), (&"group `edge`".into(), &true.into()));
    let since = last_good["since"].clone();
    assert_eq!(config["held_back"], serde_json::json!(["group `edge`"]));
    // So it is after a crash and another start, since the same time.
    crash(server, &state, |head| !head["faulty"].as_array().unwrap().is_empty());
    let server = state.start(&dir);
    assert_eq!(clusters_of(&server, "edge"), 35);
    assert_eq!(self::config(&server)["last_good"][0]["since"], since);
    dir_write(&dir, "groups/edge/clusters.yaml", &clusters("edge", 16));
    eventually(|| clusters_of(&server, "edge") == 37);
    eventually(|| server.admin("/ready").1 == "ready\n");
}

#[test]
fn what_was_held_back_is_told_after_a_restart_under_a_fault_and_passes() {
    let (dir, state) = (fleet(), State::new());
    dir_write(&dir, "groups/edge/other.yaml", &clusters("other", 40));
    let mut server = state.start(&dir);
    dir_write(&dir, "groups/edge/other.yaml", "[]\n");
    server.log_has("held back from group `edge`: 35 of 75 clusters left");
    let held = |server: &Server| config(server)["held"].clone();
    eventually(|| held(&server).as_array().is_some_and(|held| held.len() == 1));
    let told = held(&server)[0].clone();
    let is_kept = |head: &Value| !head["gate"]["held"].as_array().unwrap().is_empty();
    crash(server, &state, is_kept);
    dir_write(&dir, "groups/edge/more.yaml", "nonsense: 1\n");
    // Nor does another restart forget it.
    let server = state.start(&dir);
    assert!(held(&server).as_array().unwrap().contains(&told), "{} {told}", held(&server));
    assert!(server.admin("/ready").1.contains("35 of 75 clusters left"));
    stop(server);
    let server = state.start(&dir);
    assert!(held(&server).as_array().unwrap().contains(&told), "{} {told}", held(&server));
    assert_eq!(clusters_of(&server, "edge"), 75);
    let passed = confirm(&server, &["--group", "edge"]);
    assert_eq!(passed.status.code(), Some(0), "{passed:?}");
    assert_eq!(clusters_of(&server, "edge"), 35);
    eventually(|| held(&server) == serde_json::json!([]));
}

#[test]
fn a_base_with_faults_is_served_as_before_and_refused_without_a_state() {
    let (dir, state) = (fleet(), State::new());
    stop(state.start(&dir));
    dir_write(&dir, "clusters.yaml", "nonsense\n");
    let server = state.start(&dir);
    assert_eq!((clusters_of(&server, ""), clusters_of(&server, "edge")), (20, 35));
    let words =
        ["serve", dir.path().to_str().unwrap(), "--admin", "off", "--listen", "127.0.0.1:0"];
    let refused = finished(&mut chancery(&words));
    assert_eq!(refused.status.code(), Some(1));
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains("1 fault; nothing is served"), "{told}");
    assert!(told.contains("`--state DIR` keeps the last good state over a restart"), "{told}");
    let strict = finished(chancery(&words).args([&state.flag, "--allow-partial=false"]));
    assert_eq!(strict.status.code(), Some(1));
}

#[test]
fn without_a_state_what_is_whole_is_served_and_the_rest_refused() {
    let dir = fleet();
    dir_write(&dir, "groups/edge/clusters.yaml", "nonsense\n");
    let mut server = Server::start(&dir, &[]);
    server.log_has("group `edge` has faults in ");
    server.log_has("no state to fall back on: its nodes are refused until it is repaired");
    assert_eq!((status_of(&server, "edge"), clusters_of(&server, "back")), (503, 23));
    let ready = server.admin("/ready").1;
    assert!(ready.contains("- nodes of group `edge` are refused"), "{ready}");
    assert_eq!(config(&server)["last_good"][0]["served"], false);
    dir_write(&dir, "groups/edge/clusters.yaml", &clusters("edge", 1));
    eventually(|| status_of(&server, "edge") == 200);
}

#[test]
fn a_load_that_was_held_back_stays_so_with_its_reasons() {
    let (dir, state) = (fleet(), State::new());
    let mut server = state.start(&dir);
    dir_write(&dir, "groups/edge/clusters.yaml", &clusters("edge", 10));
    eventually(|| clusters_of(&server, "edge") == 30);
    // That is a third less, and half of what there was a moment ago.
    dir_write(&dir, "clusters.yaml", &clusters("base", 7));
    server.log_has("held back from group `edge`: 17 of 35 clusters left");
    let held = config(&server)["held"].clone();
    // Base goes live for itself, because no node is of it.
    assert_eq!(config(&server)["held_count"], 2);
    crash(server, &state, |head| head["gate"]["held"].as_array().unwrap().len() == 2);
    let mut server = state.start(&dir);
    server.log_has("held back from group `edge`: 17 of 35 clusters left");
    assert_eq!(config(&server)["held"], held);
    assert_eq!((clusters_of(&server, ""), clusters_of(&server, "edge")), (7, 30));
    assert!(server.admin("/ready").1.contains("17 of 35 clusters left"));
    assert!(confirm(&server, &["--all"]).status.success());
    assert_eq!((clusters_of(&server, ""), clusters_of(&server, "edge")), (7, 17));
    // Whatever was confirmed stays so, also after a crash at once.
    server.child.kill();
    let server = state.start(&dir);
    assert_eq!((clusters_of(&server, ""), clusters_of(&server, "edge")), (7, 17));
    assert_eq!(config(&server)["held_count"], 0);
}

#[test]
fn a_loss_while_the_server_was_down_is_held_until_it_is_confirmed() {
    let (dir, state) = (fleet(), State::new());
    stop(state.start(&dir));
    dir_write(&dir, "groups/edge/clusters.yaml", "[]\n");
    dir_write(&dir, "clusters.yaml", &clusters("base", 9));
    fs::remove_dir_all(dir.path().join("groups/back")).unwrap();
    let mut server = state.start(&dir);
    server.log_has("held back from group `edge`: 9 of 35 clusters left");
    assert_eq!(clusters_of(&server, "edge"), 35);
    assert!(confirm(&server, &["--group", "edge"]).status.success());
    assert_eq!((clusters_of(&server, "edge"), clusters_of(&server, "")), (9, 20));
    // No node was of the other group, so it goes; its nodes would be of base from now on.
    assert_eq!(clusters_of(&server, "back"), 20);
    // Without a state nothing is judged.
    assert_eq!(clusters_of(&Server::start(&dir, &[]), ""), 9);
}

/// A client of a group, by this node id, and its output.
fn client(server: &Server, node: &str, group: &str) -> (Running, Receiver<String>) {
    let address = format!("127.0.0.1:{}", server.port);
    let words =
        ["watch", "cds", "--server", &address, "--node", node, "--cluster", group, "-o", "json"];
    let mut client = Running::start(chancery(&words).stderr(Stdio::null()));
    let seen = lines(client.stdout.take().unwrap(), usize::MAX);
    assert!(next_line(&seen).is_some());
    (client, seen)
}

#[test]
fn a_group_and_a_node_that_were_connected_lose_nothing_while_the_server_is_down() {
    let (dir, state) = (fleet(), State::new());
    dir_write(&dir, "nodes/own/clusters.yaml", &clusters("own", 30));
    let server = state.start(&dir);
    let clients = [client(&server, "n", "back"), client(&server, "own", "")];
    dir_write(&dir, "clusters.yaml", &clusters("base", 21));
    crash(server, &state, |head| head["gate"]["used"].as_array().unwrap().len() >= 3);
    drop(clients);
    fs::remove_dir_all(dir.path().join("groups/back")).unwrap();
    dir_write(&dir, "nodes/own/clusters.yaml", "[]\n");
    let mut server = state.start(&dir);
    server.log_has("held back from group `back`: the directory of group `back` is gone");
    server.log_has("held back from node `own`: 21 of 51 clusters left");
    assert_eq!(clusters_of(&server, "back"), 24);
    let own = server.clusters("own");
    assert_eq!(own.matches("\"own").count(), 30, "{own}");
}

/// A listener of gRPC servers, to which nothing refers.
fn listener(name: &str) -> String {
    format!(
        "\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\nname: {name}\n\
         address: {{pipe: {{path: {name}.sock}}}}\nfilter_chains: [{{}}]\n"
    )
}

#[test]
fn a_file_with_listeners_that_is_gone_stays_held_while_nobody_has_come_back() {
    let state = State::new();
    let dir = directory(&[
        ("groups/edge/a.yaml", &listener("a")),
        ("groups/edge/b.yaml", &listener("b")),
        ("groups/edge/clusters.yaml", &clusters("edge", 1)),
        ("chancery.yaml", "groups: [{name: edge, match: {cluster: edge}}]\n"),
    ]);
    let mut server = state.start(&dir);
    let open = client(&server, "n", "edge");
    fs::remove_file(dir.path().join("groups/edge/b.yaml")).unwrap();
    server.log_has("b.yaml has gone with lds `b`, which nodes use");
    drop(open);
    stop(server);
    let server = state.start(&dir);
    eventually(|| server.admin("/ready").1.contains("b.yaml has gone with lds `b`"));
    dir_write(&dir, "groups/edge/a.yaml", &(listener("a") + "# an edit beside it\n"));
    assert_eq!(config(&server)["held_count"], 1);
    dir_write(&dir, "groups/edge/c.yaml", &clusters("c", 1));
    eventually(|| config(&server)["resources"].to_string().contains("\"c0\""));
    assert_eq!(config(&server)["held_count"], 1, "{}", server.admin("/ready").1);
}

#[test]
fn rules_that_wait_go_on_waiting() {
    const EDGE: &str = "groups: [{name: edge, match: {id: n}}]\n";
    const BACK: &str = "groups: [{name: back, match: {id: n}}]\n";
    let (dir, state) = (fleet(), State::new());
    dir_write(&dir, "chancery.yaml", EDGE);
    let mut server = state.start(&dir);
    let (mut client, _seen) = client(&server, "n", "");
    dir_write(&dir, "chancery.yaml", BACK);
    server.log_has("23 of 35 clusters left");
    eventually(|| config(&server)["held_count"] == 1);
    let held = config(&server)["held"].clone();
    client.kill();
    crash(server, &state, |head| head["rules"].is_object());
    let mut server = state.start(&dir);
    server.log_has("23 of 35 clusters left");
    assert_eq!(config(&server)["held"], held);
    assert_eq!(clusters_of(&server, ""), 35, "the node belongs where it did");
    assert!(confirm(&server, &["--all"]).status.success());
    assert_eq!(clusters_of(&server, ""), 23);
    server.child.kill();
    let server = state.start(&dir);
    assert_eq!((clusters_of(&server, ""), config(&server)["held_count"].as_u64()), (23, Some(0)));
}

#[test]
fn a_slip_in_chancery_yaml_stops_no_start() {
    let (dir, state) = (fleet(), State::new());
    dir_write(&dir, "chancery.yaml", "groups: [{name: edge, match: {id: n}}]\n");
    stop(state.start(&dir));
    dir_write(&dir, "chancery.yaml", "grops: []\n");
    let mut server = state.start(&dir);
    server.log_has(
        "chancery.yaml cannot be used, so the one that was in force before the start stays",
    );
    assert!(server.log().contains("unknown key `grops`"), "{}", server.log());
    assert_eq!(clusters_of(&server, ""), 35);
    assert!(server.admin("/ready").1.starts_with("ready, with faults: 1"));
    assert!(server.admin("/metrics").1.contains("\nchancery_config_faulty 1\n"));
    // A second start goes on with the same.
    stop(server);
    let server = state.start(&dir);
    assert_eq!(clusters_of(&server, ""), 35);
    dir_write(&dir, "chancery.yaml", "groups: [{name: edge, match: {id: n*}}]\n");
    eventually(|| server.admin("/ready").1 == "ready\n");
    stop(server);
    dir_write(&dir, "chancery.yaml", "grops: []\n");
    for flags in [&["--allow-partial=false", &state.flag][..], &[]] {
        let refused = finished(chancery(&["serve", dir.path().to_str().unwrap()]).args(flags));
        assert_eq!(refused.status.code(), Some(1));
    }
}

#[test]
fn the_gate_only_warns_for_a_time_after_the_first_start() {
    let (dir, state) = (fleet(), State::new());
    dir_write(&dir, "chancery.yaml", "gate: {warn-for: 168h}\n");
    let mut server = state.start(&dir);
    server.log_has("the gate only warns until 2");
    dir_write(&dir, "clusters.yaml", &clusters("base", 2));
    server.log_has("goes live for group `edge`: 17 of 35 clusters left");
    eventually(|| clusters_of(&server, "edge") == 17);
    stop(server);
    // The first start was longer ago than that.
    dir_write(&dir, "chancery.yaml", "gate: {warn-for: 1ms}\n");
    dir_write(&dir, "groups/edge/clusters.yaml", "[]\n");
    let mut server = state.start(&dir);
    server.log_has("held back from group `edge`: 2 of 17 clusters left");
    assert!(!server.log().contains("only warns"), "{}", server.log());
}

#[test]
fn a_file_with_the_token_confirms_once() {
    let (dir, state) = (fleet(), State::new());
    let mut server = state.start(&dir);
    dir_write(&dir, "groups/edge/clusters.yaml", "[]\n");
    dir_write(&dir, "clusters.yaml", &clusters("base", 5));
    eventually(|| config(&server)["held_count"] == 2);
    let file = state.dir().join("confirm");
    fs::write(&file, "0123456789abcdef\n").unwrap();
    server.log_has("the file `confirm` in the state directory has no token of what is held back");
    eventually(|| !file.exists());
    assert_eq!(config(&server)["held_count"], 2);
    let held = config(&server)["held"].clone();
    let of_group = |name: &str| {
        let mut rows = held.as_array().unwrap().iter();
        rows.find(|row| row["group"] == name).unwrap()["token"].as_str().unwrap().to_owned()
    };
    fs::write(&file, of_group("edge")).unwrap();
    eventually(|| config(&server)["held_count"] == 1);
    assert_eq!((clusters_of(&server, "edge"), clusters_of(&server, "back")), (5, 23));
    server.log_has("the file `confirm` was taken, and is removed");
    let listed = String::from_utf8(confirm(&server, &["--list"]).stdout).unwrap();
    let (_, token) = listed.trim_end().rsplit_once(" --token ").unwrap();
    fs::write(&file, token).unwrap();
    eventually(|| config(&server)["held_count"] == 0);
    assert!(!file.exists());
    assert_eq!(clusters_of(&server, "back"), 8);
}

#[test]
fn a_damaged_state_is_told_and_put_aside_and_serves_nothing_altered() {
    let (dir, state) = (fleet(), State::new());
    stop(state.start(&dir));
    dir_write(&dir, "groups/edge/clusters.yaml", "nonsense\n");
    let files = state.files();
    assert!(files.len() >= 3, "{files:?}");
    let good: Vec<_> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    let restore = || {
        fs::remove_dir_all(state.dir()).unwrap();
        fs::create_dir_all(state.dir().join("v1/pieces")).unwrap();
        files.iter().zip(&good).for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    };
    let damages: [fn(&mut Vec<u8>); 5] = [
        |bytes| bytes.clear(),
        |bytes| bytes.truncate(bytes.len() / 2),
        |bytes| bytes.truncate(bytes.len() - 1),
        |bytes| bytes[0] ^= 1,
        |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x10;
        },
    ];
    for (path, bytes) in files.iter().zip(&good) {
        for damage in damages {
            restore();
            let mut bad = bytes.clone();
            damage(&mut bad);
            fs::write(path, bad).unwrap();
            let mut server = state.start(&dir);
            server.log_has("cannot be used, it is put aside as");
            assert_eq!((status_of(&server, "edge"), clusters_of(&server, "back")), (503, 23));
            assert!(state.dir().join("v1.damaged").is_dir());
        }
    }
    restore();
    assert_eq!(clusters_of(&state.start(&dir), "edge"), 35, "undamaged it is used");
}

#[test]
fn a_state_that_cannot_be_read_now_is_not_lost() {
    let (dir, state) = (fleet(), State::new());
    stop(state.start(&dir));
    let files = state.files();
    let good: Vec<_> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    for (path, bytes) in files.iter().zip(&good) {
        // No system call reads this, not even for an administrator.
        fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink(path, path).unwrap();
        let mut server = state.start(&dir);
        server.log_has("cannot be read now, and is left as it is");
        assert_eq!(clusters_of(&server, "edge"), 35);
        dir_write(&dir, "clusters.yaml", &clusters("base", 21));
        server.log_has("the one of before cannot be read, and is not overwritten");
        stop(server);
        fs::remove_file(path).unwrap();
        fs::write(path, bytes).unwrap();
        assert_eq!(state.files(), files);
        dir_write(&dir, "clusters.yaml", &clusters("base", 20));
    }
    dir_write(&dir, "groups/edge/clusters.yaml", "nonsense\n");
    let server = state.start(&dir);
    assert_eq!(clusters_of(&server, "edge"), 35);
}

#[test]
fn a_state_that_cannot_be_read_and_is_moved_away_makes_place_for_another_one() {
    let (dir, state) = (fleet(), State::new());
    stop(state.start(&dir));
    let head = state.dir().join("v1/head");
    fs::remove_file(&head).unwrap();
    std::os::unix::fs::symlink(&head, &head).unwrap();
    let mut server = state.start(&dir);
    server.log_has("cannot be read now, and is left as it is");
    fs::rename(state.dir().join("v1"), state.dir().join("old")).unwrap();
    dir_write(&dir, "clusters.yaml", &clusters("base", 21));
    eventually(|| state.head().is_some());
}

#[test]
fn a_state_of_another_directory_is_put_aside() {
    let (dir, other, state) = (fleet(), fleet(), State::new());
    stop(state.start(&dir));
    let mut server = state.start(&other);
    server.log_has("cannot be used, it is put aside as");
    server.log_has("it is of the directory");
}

#[test]
fn of_two_processes_one_writes_and_the_other_takes_over() {
    let (dir, state) = (fleet(), State::new());
    let first = state.start(&dir);
    eventually(|| state.head().is_some());
    let mut second = state.start(&dir);
    second.log_has("is in use by another process");
    second.log_has("begins with what was in force");
    assert_eq!(clusters_of(&second, "edge"), 35);
    dir_write(&dir, "clusters.yaml", &clusters("base", 22));
    second.log_has("the state could not be kept");
    eventually(|| clusters_of(&second, "") == 22);
    stop(first);
    dir_write(&dir, "clusters.yaml", &clusters("base", 23));
    second.log_has("the state is kept again");
    eventually(|| clusters_of(&second, "") == 23);
    stop(second);
    dir_write(&dir, "clusters.yaml", "nonsense\n");
    assert_eq!(clusters_of(&state.start(&dir), ""), 23);
}

#[test]
fn a_state_that_another_process_writes_meanwhile_is_found_whole() {
    let (dir, state) = (fleet(), State::new());
    let _first = state.start(&dir);
    eventually(|| state.head().is_some());
    let root = state.head().unwrap()["root"].as_str().unwrap().to_owned();
    fs::write(state.dir().join("v1/pieces").join(root), "nonsense").unwrap();
    let mut second = state.start(&dir);
    second.log_has("cannot be used, it is left alone");
    assert_eq!(clusters_of(&second, "edge"), 35);
    drop(second);
    // The damaged piece goes with the next state.
    let damaged = state.head();
    dir_write(&dir, "clusters.yaml", &clusters("base", 24));
    eventually(|| state.head() != damaged);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Not for ever, should the other thread fail.
            for count in (21..24).cycle().take(1000) {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let before = state.head();
                dir_write(&dir, "clusters.yaml", &clusters("base", count));
                eventually(|| state.head() != before || is_over.load(Ordering::Relaxed));
            }
        });
        let logs = (0..5).map(|_| {
            let mut second = state.start(&dir);
            second.log_has("is in use by another process");
            second.log()
        });
        let logs: Vec<_> = logs.collect();
        is_over.store(true, Ordering::Relaxed);
        for log in logs {
            assert!(log.contains("begins with what was in force"), "{log}");
        }
    });
}

#[test]
fn a_directory_that_cannot_be_written_is_a_warning() {
    let (dir, state) = (fleet(), State::new());
    // A file in its place, because an administrator may write anywhere.
    fs::write(state.dir(), "").unwrap();
    let mut server = state.start(&dir);
    server.log_has("the state could not be kept");
    assert_eq!(clusters_of(&server, "edge"), 35);
    let failures = |server: &Server| {
        let metrics = server.admin("/metrics").1;
        let (_, rest) = metrics.split_once("\nchancery_state_failures_total ").unwrap();
        rest.lines().next().unwrap().parse::<u64>().unwrap()
    };
    let before = failures(&server);
    assert!(before > 0);
    dir_write(&dir, "clusters.yaml", &clusters("base", 22));
    eventually(|| failures(&server) > before);
    assert_eq!(server.log().matches("could not be kept").count(), 1, "{}", server.log());
    fs::remove_file(state.dir()).unwrap();
    dir_write(&dir, "clusters.yaml", &clusters("base", 23));
    server.log_has("the state is kept again");
    assert!(state.head().is_some());
}

#[test]
fn states_are_for_their_owner_alone() {
    let (dir, state) = (fleet(), State::new());
    let server = state.start(&dir);
    eventually(|| state.head().is_some());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for directory in ["", "v1", "v1/pieces"] {
        assert_eq!(mode(&state.dir().join(directory)), 0o700, "{directory}");
    }
    state.files().iter().for_each(|file| assert_eq!(mode(file), 0o600, "{}", file.display()));
    drop(server);
}

#[test]
fn an_edit_replaces_the_pieces_that_it_changes_and_leaves_none_behind() {
    let dir = directory(&[("clusters.yaml", &clusters("c", 2000)), ("a.yaml", &cluster("a", 1))]);
    let state = State::new();
    let server = state.start(&dir);
    eventually(|| state.head().is_some());
    let before = state.files();
    dir_write(&dir, "a.yaml", &cluster("a", 2));
    let root = |state: &State| state.head().map(|head| head["root"].clone());
    let old = root(&state);
    eventually(|| root(&state) != old && state.files().len() == before.len());
    let after = state.files();
    let new = after.iter().filter(|file| !before.contains(file)).count();
    assert_eq!(new, 2, "a piece and the root, of {}", after.len());
    drop(server);
}

#[test]
fn a_state_directory_below_the_files_is_refused() {
    let dir = fleet();
    let below = format!("--state={}", dir.path().join("a/state").display());
    let words = ["serve", dir.path().to_str().unwrap(), &below];
    let mut refused = Running::start(chancery(&words).stderr(Stdio::piped()));
    let (code, told) = refused.ended();
    assert_eq!(code, Some(1));
    assert!(told.contains("whose files are served"), "{told}");
}
