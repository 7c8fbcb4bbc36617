//! The command as a user meets it: the binary is run on directories, and what it prints, how it
//! ends and what it answers over HTTP is compared.
//!
//! Every server takes free ports and tells them in its log lines, which is how a test finds it.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use crate::daemon::{
    PATIENCE, Running, Server, chancery, cluster, dir_write, directory, eventually, exchange,
    finished,
};

#[test]
fn a_load_names_the_resources_that_it_changes() {
    let dir = directory(&[("a.yaml", &cluster("a", 1)), ("groups/g/old.yaml", &cluster("old", 1))]);
    let mut server = Server::start(&dir, &[]);
    assert!(server.log_has("loaded files=2 resources=2 layers=2"));
    assert!(!server.log().contains("edits="), "a start adds everything");
    dir_write(&dir, "a.yaml", &cluster("a", 2));
    assert!(server.log_has("edits=\"base: ~cds a\""));
    fs::rename(dir.path().join("groups/g/old.yaml"), dir.path().join("b.yaml")).unwrap();
    assert!(server.log_has("edits=\"base: +cds old; group `g`: -cds old\""));
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn the_allocator_keeps_little_unless_the_operator_says_otherwise() {
    let dir = directory(&[("clusters.yaml", &cluster("one", 5))]);
    let settings = |own: &[(&str, &str)]| {
        let mut program = chancery(&["serve", dir.path().to_str().unwrap()]);
        for (name, value) in own {
            program.env(name, value);
        }
        // It has the process id with which it was started.
        let server = Server::start_by(&mut program, &[]);
        let environment =
            fs::read_to_string(format!("/proc/{}/environ", server.child.id())).unwrap();
        let names = environment.split('\0').filter(|setting| setting.starts_with("MALLOC_"));
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(settings(&[]).len(), 2, "{:?}", settings(&[]));
    assert_eq!(settings(&[("MALLOC_ARENA_MAX", "2")]), ["MALLOC_ARENA_MAX=2"]);
}

#[test]
fn help_tells_what_there_is_and_how_it_ends() {
    let overview = run(&["--help"]);
    assert!(overview.status.success());
    assert!(text(&overview.stdout).contains("serve"), "{overview:?}");
    let help = run(&["serve", "--help"]);
    assert!(help.status.success());
    let help = text(&help.stdout);
    for told in ["Addresses:", "TLS:", "Examples:", "Exit codes:", "[env: CHANCERY_LISTEN]"] {
        assert!(help.contains(told), "{told} in {help}");
    }
}

#[test]
fn braces_are_in_the_help_as_they_are_typed() {
    for flag in ["-h", "--help"] {
        let help = text(&run(&["bench", "fan-out", flag]).stdout);
        for told in [
            "writes; {n} stands for the number",
            "{:06} stands for their number",
            "[default: bench-{}]",
        ] {
            assert!(help.contains(told), "{told} in {help}");
        }
        assert!(!help.contains('\u{1b}'), "{help}");
    }
}

#[test]
fn misuse_is_64_and_told_on_stderr() {
    for args in [
        &[][..],
        &["serve"],
        &["serve", ".", "--lisen", "127.0.0.1:1"],
        &["serve", ".", "--listen", "localhost"],
        &["serve", ".", "--listen", "127.0.0.1:1", "--listen", "127.0.0.1:1"],
        &["serve", ".", "--tls-cert", "cert.pem"],
    ] {
        let ended = run(args);
        assert_eq!(ended.status.code(), Some(64), "{args:?}: {ended:?}");
        assert!(ended.stdout.is_empty() && !ended.stderr.is_empty(), "{args:?}: {ended:?}");
    }
}

#[test]
fn a_misuse_is_told_with_the_usage_of_the_subcommand() {
    for (args, usage) in [
        (&["get", "cds", "--server", "127.0.0.1:1", "--token", "/x"][..], "chancery get "),
        (&["watch", "cdx", "--server", "127.0.0.1:1"], "chancery watch "),
        (&["get", "cds", "--lisen"], "chancery get "),
    ] {
        let ended = run(args);
        let told = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(64), "{args:?}: {told}");
        assert!(told.contains(&format!("Usage: {usage}")), "{args:?}: {told}");
    }
}

#[test]
fn a_misuse_by_a_variable_is_told_with_its_name() {
    let told = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = chancery(&[&["serve", "."], args].concat());
        for (name, value) in variables {
            command.env(name, value);
        }
        let ended = finished(&mut command);
        assert_eq!(ended.status.code(), Some(64), "{ended:?}");
        text(&ended.stderr)
    };
    let listen = told(&[], &[("CHANCERY_LISTEN", "foo"), ("CHANCERY_ADMIN", "off")]);
    let hint = "hint: `CHANCERY_LISTEN` in the environment sets `--listen`\n";
    assert!(listen.contains("invalid value 'foo'") && listen.ends_with(hint), "{listen}");
    let pair = told(&[], &[("CHANCERY_TLS_CERT", "cert.pem")]);
    assert!(pair.contains("--tls-key") && pair.contains("`CHANCERY_TLS_CERT` in"), "{pair}");
    // The flag is at fault, and the variable is not read.
    let flag = told(&["--listen", "bar"], &[("CHANCERY_LISTEN", "foo")]);
    assert!(flag.contains("invalid value 'bar'") && !flag.contains("hint"), "{flag}");
}

#[test]
fn what_does_not_work_is_2_and_comes_with_a_hint() {
    let gone = run(&["serve", "/nowhere/at/all"]);
    assert_eq!(gone.status.code(), Some(2));
    assert!(text(&gone.stderr).contains("chancery: cannot read `/nowhere/at/all`: No such file"));

    let dir = directory(&[]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let path = dir.path().to_str().unwrap();
    let ended = run(&["serve", path, "--admin", "off", "--listen", &address]);
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert!(text(&ended.stderr).contains(&format!("cannot listen on `{address}`")));
    assert!(text(&ended.stderr).contains("hint: "));
}

#[test]
fn nothing_is_printed_of_a_directory_that_is_not_there() {
    for flag in ["--print-config", "--print-limits"] {
        let gone = run(&["serve", "/nowhere/at/all", flag]);
        assert_eq!((gone.status.code(), text(&gone.stdout).as_str()), (Some(2), ""));
        let told = text(&gone.stderr);
        assert!(told.contains("cannot read `/nowhere/at/all`: No such file"), "{told}");
    }
}

#[test]
fn output_that_nobody_reads_is_no_failure() {
    let dir = directory(&[]);
    for flag in ["--print-config", "--print-limits"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = chancery(&["serve", dir.path().to_str().unwrap(), flag]);
        let mut run = Running::start(command.stdout(writer).stderr(Stdio::piped()));
        assert_eq!(run.ended(), (Some(0), String::new()), "{flag}");
    }
}

#[test]
fn a_directory_with_faults_is_1_and_all_of_them_are_shown() {
    let dir = directory(&[
        ("a.yaml", "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nnmae: a\n"),
        ("groups/g/b.json", "{\"@type\": \"type.googleapis.com/no.Such\"}"),
        ("good.yaml", &cluster("good", 1)),
    ]);
    let ended = run(&["serve", dir.path().to_str().unwrap()]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let told = text(&ended.stderr);
    for expected in
        ["a.yaml:2:1\n", "2 | nmae: a\n", "did you mean `name`?", "b.json:1:", "2 faults"]
    {
        assert!(told.contains(expected), "{expected} in {told}");
    }
    assert!(!told.contains("serving on"), "{told}");
}

#[test]
fn a_slip_in_chancery_yaml_is_1_and_pointed_at() {
    let dir = directory(&[("chancery.yaml", "unmatched: base\nlisen: [\"127.0.0.1:1\"]\n")]);
    let ended = run(&["serve", dir.path().to_str().unwrap()]);
    assert_eq!(ended.status.code(), Some(1));
    let told = text(&ended.stderr);
    for expected in ["chancery.yaml:2:1\n", "unknown key `lisen`", "did you mean `listen`?"] {
        assert!(told.contains(expected), "{expected} in {told}");
    }
}

#[test]
fn partial_serves_what_is_whole() {
    let dir = directory(&[("good.yaml", &cluster("good", 1)), ("groups/broken/a.yaml", "{\n")]);
    let mut server = Server::start(&dir, &[]);
    assert!(server.clusters("me").contains("\"good\""));
    let (status, told) = server.admin("/ready");
    assert_eq!(status, 200);
    assert!(
        told.starts_with("ready, with faults: 1; see /api/v1/config\n- nodes of group `broken`"),
        "{told}"
    );
    let (_, config) = server.admin("/api/v1/config");
    assert!(
        config.contains("groups/broken/a.yaml") && config.contains("group `broken`"),
        "{config}"
    );
    assert!(server.log_has("a.yaml:"));
}

#[test]
fn an_edit_is_followed_within_a_second() {
    let dir = directory(&[("a.yaml", &cluster("a", 1))]);
    let server = Server::start(&dir, &[]);
    // The quickest of some: the machine may be busy with other tests.
    let quickest = (2..5).map(|seconds| {
        dir_write(&dir, "a.yaml", &cluster("a", seconds));
        let begun = Instant::now();
        eventually(|| server.clusters("me").contains(&format!("\"{seconds}s\"")));
        begun.elapsed()
    });
    let quickest = quickest.min().unwrap();
    assert!(quickest < Duration::from_secs(1), "{quickest:?}");
}

#[test]
fn a_broken_edit_changes_nothing_and_is_told_until_it_is_repaired() {
    let dir = directory(&[("a.yaml", &cluster("a", 1))]);
    let mut server = Server::start(&dir, &[]);
    let before = server.clusters("me");
    dir_write(&dir, "a.yaml", "- nothing: like\n  this: exists\n");
    assert!(server.log_has("a.yaml:1:"));
    assert_eq!(server.clusters("me"), before);
    eventually(|| server.admin("/metrics").1.contains("\nchancery_faults 1\n"));
    dir_write(&dir, "a.yaml", &cluster("a", 2));
    eventually(|| server.admin("/ready").1 == "ready\n");
    assert!(server.clusters("me").contains("\"2s\""));
}

#[test]
fn groups_follow_chancery_yaml_while_the_server_runs() {
    // S-024
    let dir = directory(&[
        ("base.yaml", &cluster("base", 1)),
        ("groups/canary/c.yaml", &cluster("canary", 1)),
        ("nodes/a%2F1/n.yaml", &cluster("own", 1)),
    ]);
    let mut server = Server::start(&dir, &[]);
    assert!(!server.clusters("a/1").contains("\"canary\""));
    assert!(server.clusters("a/1").contains("\"own\""));
    assert!(!server.clusters("b").contains("\"own\""));
    assert!(!server.post("clusters", "{}").1.contains("\"canary\""));

    let rules = "groups:\n- name: canary\n  match: {id: \"a/*\"}\nanonymous: {group: canary}\n";
    dir_write(&dir, "chancery.yaml", rules);
    eventually(|| server.clusters("a/1").contains("\"canary\""));
    assert!(!server.clusters("b").contains("\"canary\""));
    assert!(server.post("clusters", "{}").1.contains("\"canary\""));

    dir_write(&dir, "chancery.yaml", "groops: []\n");
    assert!(server.log_has("unknown key `groops`"));
    eventually(|| server.admin("/metrics").1.contains("\nchancery_config_faulty 1\n"));
    assert!(server.clusters("a/1").contains("\"canary\""));

    dir_write(
        &dir,
        "chancery.yaml",
        "limits: {max-names: 5}\nunmatched: refuse\nanonymous: refuse\n",
    );
    assert!(server.log_has("keys=\"limits.max-names\""));
    // A poll that is being answered is of a node that these rules would refuse, which is held back.
    eventually(|| server.admin("/metrics").1.contains("\nchancery_config_faulty 0\n"));
    assert_eq!(server.post("clusters", "{\"node\": {\"id\": \"b\"}}").0, 403);
    assert_eq!(server.post("clusters", "{}").0, 400);
}

#[test]
fn an_order_to_stop_is_obeyed_and_an_order_to_reload_too() {
    // S-139
    let by_order = "watch: sweeps\nlimits: {sweep: 1h}\n";
    let dir = directory(&[("a.yaml", &cluster("a", 1)), ("chancery.yaml", by_order)]);
    let mut server = Server::start(&dir, &[]);
    dir_write(&dir, "a.yaml", &cluster("b", 1));
    server.signal("HUP");
    assert!(server.log_has("told to read everything again"));
    eventually(|| server.clusters("me").contains("\"b\""));
    server.signal("HUP");
    assert!(server.log_has("the directory was read again: nothing has changed"));
    dir_write(&dir, "a.yaml", "{\n");
    server.signal("HUP");
    assert!(server.log_has("loaded with faults"));
    server.signal("HUP");
    assert!(server.log_has("nothing has changed; `/api/v1/config` lists the faults"));
    server.signal("TERM");
    assert!(server.log_has("stopped"));
    let told = server.log().matches("nothing has changed").count();
    assert_eq!(told, 2, "{}", server.log());
    server.ends_well();
}

#[test]
fn no_secret_gets_into_log_lines_or_admin_pages() {
    // S-138
    let secret = |name: &str, wrong: &str| {
        format!(
            "\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\n\
             name: {name}\n{wrong}generic_secret: {{secret: {{inline_string: hunter2}}}}\n"
        )
    };
    let dir = directory(&[("s.yaml", &secret("s", ""))]);
    let mut server = Server::start(&dir, &["-vv", "--log-format", "json"]);
    let node = "{\"node\": {\"id\": \"me\", \"metadata\": {\"token\": \"opensesame\"}}, \
                \"resource_names\": [\"s\"]}";
    assert!(server.post("secrets", node).1.contains("hunter2"));
    dir_write(&dir, "s.yaml", &secret("s", "nmae: hunter2\n"));
    assert!(server.log_has("s.yaml:3:1"));
    let pages: String =
        ["/ready", "/api/v1/config", "/metrics"].map(|page| server.admin(page).1).concat();
    server.signal("TERM");
    server.ends_well();
    let log = server.log();
    for told in [&log, &pages] {
        assert!(!told.contains("hunter2") && !told.contains("opensesame"), "{told}");
    }
    assert!(log.contains("\"message\":\"answered a poll\""), "{log}");

    let refused = run(&["serve", dir.path().to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(!text(&refused.stderr).contains("hunter2"), "{refused:?}");
}

#[test]
fn the_admin_interface_is_read_only() {
    let dir = directory(&[("a.yaml", &cluster("a", 1))]);
    let server = Server::start(&dir, &[]);
    let ask = |line: &str| exchange(&mut server.dial(server.admin), line, "");
    assert_eq!(ask("GET /").0, 200);
    assert_eq!(ask("GET /healthz"), (200, "ok\n".to_owned()));
    assert_eq!(ask("HEAD /ready"), (200, String::new()));
    assert_eq!(ask("POST /ready").0, 405);
    assert_eq!(ask("GET /nothing").0, 404);
    let (_, metrics) = ask("GET /metrics");
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    let (_, config) = ask("GET /api/v1/config");
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    let row = &config["resources"][0];
    assert_eq!((&row["name"], &row["line"]), (&"a".into(), &1.into()));
    assert!(row["file"].as_str().unwrap().ends_with("/a.yaml"));
}

#[test]
fn a_unix_socket_serves_too() {
    let dir = directory(&[("a.yaml", &cluster("a", 1))]);
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("xds.sock");
    let listen = format!("unix:{}", socket.display());
    let mut server = Server::start(&dir, &["--listen", &listen]);
    assert!(server.log_has(&format!("serving on {listen}")));
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (status, body) = exchange(&mut stream, "POST /v3/discovery:clusters", NODE);
    assert_eq!(status, 200);
    assert!(body.contains("\"a\""));
    server.signal("TERM");
    server.ends_well();
    assert!(!socket.exists());
}

#[test]
fn the_configuration_in_force_can_be_printed_and_read_again() {
    let dir = directory(&[("chancery.yaml", "listen: [\"127.0.0.1:1\"]\nadmin: \"off\"\n")]);
    let print = || {
        let mut command = chancery(&["serve", dir.path().to_str().unwrap(), "--print-config"]);
        command.env("CHANCERY_LISTEN", "127.0.0.1:2,unix:/s").env("CHANCERY_ENABLE_V2", "1");
        let printed = finished(&mut command);
        assert!(printed.status.success(), "{printed:?}");
        text(&printed.stdout)
    };
    let printed = print();
    let config: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(config["listen"], serde_json::json!(["127.0.0.1:2", "unix:/s"]));
    assert_eq!((&config["admin"], &config["enable-v2"]), (&"off".into(), &true.into()));
    dir_write(&dir, "chancery.yaml", &printed);
    assert_eq!(print(), printed);
}

#[test]
fn directories_that_go_are_no_trouble() {
    let dir = directory(&[
        ("a.yaml", &cluster("a", 1)),
        ("more/b.yaml", &cluster("b", 1)),
        ("groups/g/deep/c.yaml", &cluster("c", 1)),
    ]);
    let mut server = Server::start(&dir, &[]);
    assert!(server.clusters("me").contains("\"b\""));
    fs::remove_dir_all(dir.path().join("more")).unwrap();
    eventually(|| !server.clusters("me").contains("\"b\""));
    fs::rename(dir.path().join("groups/g/deep"), dir.path().join("more")).unwrap();
    eventually(|| server.clusters("me").contains("\"c\""));
    server.signal("TERM");
    server.ends_well();
    let of_watches = |line: &&str| line.contains("WARN") && line.contains("watch");
    assert_eq!(server.log().lines().find(of_watches), None);
}

#[test]
fn a_server_that_is_killed_leaves_nothing_behind_for_long() {
    let (dir, temporary) = (directory(&[("a.yaml", &cluster("a", 1))]), directory(&[]));
    let start = || {
        let mut command = chancery(&["serve", dir.path().to_str().unwrap()]);
        Server::start_by(command.env("TMPDIR", temporary.path()), &[])
    };
    let left = || fs::read_dir(temporary.path()).unwrap().count();
    let (alive, mut killed) = (start(), start());
    assert_eq!(left(), 2);
    killed.child.kill();
    assert_eq!(left(), 2, "nobody could clean up");
    let mut third = start();
    assert_eq!(left(), 2, "one is of the dead");
    // The others go on as before.
    dir_write(&dir, "a.yaml", &cluster("b", 1));
    for server in [&alive, &third] {
        eventually(|| server.clusters("me").contains("\"b\""));
    }
    third.signal("TERM");
    third.ends_well();
    assert_eq!(left(), 1);
}

#[test]
fn the_quickstart_is_whole() {
    let quickstart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/quickstart");
    let mut server = Server::start_at(&quickstart, &[]);
    assert!(server.log_has("loaded"));
    assert_eq!(server.admin("/ready"), (200, "ready\n".to_owned()));
    assert!(server.clusters("me").contains("\"chancery-admin\""));
    assert!(!server.clusters("me").contains("\"hello\""));
    let grpc = "{\"node\": {\"id\": \"me\", \"user_agent_name\": \"gRPC Go\"}}";
    assert!(server.post("clusters", grpc).1.contains("\"hello\""));
}

/// Runs a command that ends by itself.
fn run(args: &[&str]) -> Output {
    finished(&mut chancery(args))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const NODE: &str = "{\"node\": {\"id\": \"me\"}}";
