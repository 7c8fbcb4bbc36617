//! `chancery check` as a user meets it, and the examples of its page.

use std::path::Path;
use std::process::{Output, Stdio};

use crate::daemon::{PATIENCE, Running, chancery, cluster, dir_write, directory, finished, lines};

/// Runs the command on a directory of these files.
fn check(files: &[(&str, &str)], flags: &[&str]) -> (Option<i32>, String) {
    let dir = directory(files);
    let path = dir.path().to_str().unwrap();
    let Output { status, stdout, stderr } =
        finished(&mut chancery(&[&["check", path], flags].concat()));
    let told = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (status.code(), told.concat().replace(path, "DIR"))
}

const LISTENER: &str = "\
\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener
name: a
address: {pipe: {path: /run/a.sock}}
filter_chains:
- filters:
  - name: tcp
    typed_config:
      \"@type\": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
      cluster: b
";

#[test]
fn everything_wrong_is_told_at_once_with_its_place() {
    let files = [
        ("a.yaml", LISTENER),
        ("b.yaml", &cluster("b", 0)),
        ("groups/g/c.yaml", "\"@type\": t/envoy.config.cluster.v3.Cluster\nnam: c\n"),
        ("fine.yaml", &cluster("fine", 1)),
    ];
    let (code, told) = check(&files, &[]);
    assert_eq!(code, Some(1), "{told}");
    assert_eq!(
        told,
        "\
error[rule/string-min-len]: filter_chains[0].filters[0].typed_config.stat_prefix: is not set, and must \
not be empty
 --> DIR/a.yaml:7:5
  |
7 |     typed_config:
  |     ^

error[rule/duration-gt]: connect_timeout: must be greater than 0s, found 0s
 --> DIR/b.yaml:3:18
  |
3 | connect_timeout: 0s
  |                  ^

error[unknown-field]: nam: unknown field `nam`: `Cluster` has none such
 --> DIR/groups/g/c.yaml:2:1
  |
2 | nam: c
  | ^
help: did you mean `name`?

3 errors, 0 warnings (4 files, 3 resources)
"
    );
}

#[test]
fn nothing_wrong_is_0_and_so_are_warnings_unless_they_are_denied() {
    let (code, told) = check(&[("a.yaml", &cluster("a", 1))], &[]);
    assert_eq!((code, told.as_str()), (Some(0), "0 errors, 0 warnings (1 file, 1 resource)\n"));
    let route = "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\nname: a\n\
                 virtual_hosts: [{name: a, domains: [a], routes: [{match: {prefix: /}, \
                 route: {cluster: b}}]}]\n";
    let (code, told) = check(&[("a.yaml", route)], &[]);
    assert_eq!(code, Some(0), "{told}");
    let line = "warning[dangling-reference]: virtual_hosts[0].routes[0].route.cluster: rds `a` refers to \
                cds `b`, which does not exist; if the clients have it from elsewhere, write `external: \
                [b]` in chancery.yaml\n --> DIR/a.yaml:3:88\n  |\n3 | _hosts: ";
    assert!(told.starts_with(line), "{told}");
    let (code, told) = check(&[("a.yaml", route)], &["--deny", "dangling-reference"]);
    assert_eq!(code, Some(1), "{told}");
    assert_eq!(check(&[("a.yaml", route)], &["--deny", "held"]).0, Some(1));
    let but = ["--deny", "held", "--allow", "dangling-reference"];
    assert_eq!(check(&[("a.yaml", route)], &but).0, Some(0));
    let external = [("a.yaml", route), ("chancery.yaml", "external: [b]\n")];
    assert!(check(&external, &[]).1.starts_with("0 errors, 0 warnings"));
    let (code, told) = check(&[("a.yaml", route)], &["--allow", "dangling-reference"]);
    assert_eq!((code, told.as_str()), (Some(0), "0 errors, 0 warnings (1 file, 1 resource)\n"));
}

#[test]
fn a_reference_that_leads_nowhere_is_told_at_its_field() {
    let rds = "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
    let host = "virtual_hosts:\n- name: a\n  domains: [a]\n  routes:\n";
    let route = |to: &str| format!("  - match: {{prefix: /{to}}}\n    route: {{cluster: {to}}}\n");
    let file = format!("{rds}\nname: a\n{host}{}{}", route("b"), route("moer"));
    let clusters = format!("{}---\n{}", cluster("b", 1), cluster("more", 1));
    let (code, told) = check(&[("a.yaml", &file), ("b.yaml", &clusters)], &[]);
    assert_eq!(code, Some(0));
    let wanted = "\
warning[dangling-reference]: virtual_hosts[0].routes[1].route.cluster: rds `a` refers to cds `moer`, which \
does not exist; did you mean `more`? If the clients have it from elsewhere, write `external: [moer]` in \
chancery.yaml
 --> DIR/a.yaml:10:22
   |
10 |     route: {cluster: moer}
   |                      ^
";
    assert!(told.starts_with(wanted), "{told}");
    let files = [("a.yaml", &*file), ("b.yaml", &*clusters)];
    let told = |format| check(&files, &["--output", format]).1;
    let place = "\"line\":10,\"column\":22,\"field\":\"virtual_hosts[0].routes[1].route.cluster\"";
    assert!(told("json").contains(place), "{}", told("json"));
    assert!(told("sarif").contains("\"startColumn\":22,\"startLine\":10"), "{}", told("sarif"));
    assert!(told("github").contains("line=10,col=22,"), "{}", told("github"));
    // A comment lets it pass at the resource and at the field, and at no other field.
    let comment = "# chancery: allow dangling-reference: soon\n";
    let at = |line: &str| file.replacen(line, &format!("    {comment}{line}"), 1);
    for (allowed, passes) in [
        (format!("{comment}{file}"), true),
        (at("    route: {cluster: moer}"), true),
        (at("    route: {cluster: b}"), false),
    ] {
        let (_, told) = check(&[("a.yaml", &allowed), ("b.yaml", &clusters)], &[]);
        assert_eq!(told.starts_with("0 errors, 0 warnings"), passes, "{told}");
    }
    // A file with words of secrets is not quoted.
    let secret = format!(
        "{file}---\n\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\n\
                          name: s\ngeneric_secret: {{secret: {{inline_string: hidden}}}}\n"
    );
    let (_, told) =
        check(&[("a.yaml", &secret), ("b.yaml", &clusters)], &["--only", "dangling-reference"]);
    assert!(told.contains("DIR/a.yaml:10:22\n") && !told.contains("10 |"), "{told}");
}

#[test]
fn only_what_is_asked_for_is_told_and_what_cannot_be_read() {
    let files = [("a.yaml", LISTENER), ("b.yaml", &cluster("b", 0))];
    let (code, told) = check(&files, &["--only", "rule/duration-gt", "-o", "json"]);
    assert_eq!((code, told.lines().count()), (Some(1), 1), "{told}");
    assert!(told.contains("rule/duration-gt"), "{told}");
    let (code, told) = check(&files, &["--only", "grpc", "-o", "json"]);
    assert_eq!((code, told.as_str()), (Some(0), ""));
    let (code, told) = check(&[("a.yaml", "name: [a\n")], &["--only", "grpc", "-o", "json"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("\"code\":\"syntax\""), "{told}");
    assert_eq!(check(&files, &["--only", "grcp"]).0, Some(64));
}

#[test]
fn a_baseline_hides_old_findings_shows_new_ones_and_names_those_that_are_gone() {
    let place = directory(&[]);
    let file = place.path().join("baseline.jsonl");
    let file = file.to_str().unwrap();
    let old = [("a.yaml", LISTENER), ("b.yaml", &cluster("b", 0))];
    let (code, told) = check(&old, &["--write-baseline", file]);
    assert_eq!((code, told.as_str()), (Some(0), "0 errors, 0 warnings (2 files, 2 resources)\n"));
    let known = ["--baseline", file, "-o", "json"];
    // Another directory, and another line.
    let moved = [("a.yaml", &*format!("# new\n{LISTENER}")), ("b.yaml", &cluster("b", 0))];
    assert_eq!(check(&moved, &known), (Some(0), String::new()));
    let more = [old[0], old[1], ("c.yaml", &cluster("c", 0))];
    let (code, told) = check(&more, &known);
    assert_eq!((code, told.lines().count()), (Some(1), 1), "{told}");
    assert!(told.contains("DIR/c.yaml"), "{told}");
    let (code, told) = check(&[old[0], ("b.yaml", &cluster("b", 1))], &known);
    assert_eq!((code, told.lines().count()), (Some(0), 1), "{told}");
    assert!(told.contains("baseline/unused") && told.contains("\"line\":2"), "{told}");
    // Nobody knows what is in a file that cannot be read, and no baseline hides it.
    let broken = [old[0], ("b.yaml", "name: [b\n")];
    let (code, told) = check(&broken, &known);
    assert_eq!((code, told.lines().count()), (Some(1), 1), "{told}");
    assert!(told.contains("\"code\":\"syntax\""), "{told}");
    check(&broken, &["--write-baseline", file]);
    assert_eq!(check(&broken, &known).0, Some(1));
    std::fs::write(file, "{}\n").unwrap();
    let (code, told) = check(&old, &known);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("line 1 of the baseline"), "{told}");
}

#[test]
fn programs_get_one_object_for_each_finding() {
    let (code, told) = check(&[("b.yaml", &cluster("b", 0))], &["-o", "json"]);
    assert_eq!(code, Some(1));
    assert_eq!(
        told,
        "{\"code\":\"rule/duration-gt\",\"severity\":\"error\",\"file\":\"DIR/b.yaml\",\"line\":3,\
         \"column\":18,\"field\":\"connect_timeout\",\"message\":\"must be greater than 0s, found \
         0s\",\"resource_type\":\"cds\",\"resource_name\":\"b\"}\n"
    );
}

#[test]
fn a_warning_has_its_place_and_its_resource_too() {
    let endpoints = "\"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\n\
                     cluster_name: a\nendpoints:\n- locality: {}\n";
    let (code, told) = check(&[("a.yaml", endpoints)], &["-o", "json", "--for", "grpc"]);
    assert_eq!(code, Some(0), "{told}");
    let parts = ["\"code\":\"grpc/ignored\"", "\"line\":4,\"column\":3", "\"resource_name\":\"a\""];
    let found = told.lines().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(found, "{told}");
}

#[test]
fn a_comment_with_a_reason_lets_a_finding_pass() {
    let clusters = "\
# chancery: allow rule/duration-gt: the old ones take it
- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: a
  connect_timeout: 0s
- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: b
  # chancery: allow rule: this line alone
  connect_timeout: 0s
  health_checks: [{}]
";
    let codes = |files: &[(&str, &str)], flags: &[&str]| -> Vec<String> {
        let (_, told) = check(files, &[&["-o", "json"], flags].concat());
        let lines =
            told.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let text = |it: &serde_json::Value| it.as_str().unwrap_or_default().to_owned();
        lines
            .map(|it| format!("{}:{} {}", text(&it["file"]), it["line"], text(&it["code"])))
            .collect()
    };
    let told = codes(&[("a.yaml", clusters)], &[]);
    assert!(
        told.iter().all(|it| it.starts_with("DIR/a.yaml:9 rule/")) && told.len() > 2,
        "{told:?}"
    );
    // Those of no single message, and comments that let nothing pass.
    let route = "\
# chancery: allow dangling-reference: it comes from the bootstrap
\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: a
# chancery: allow rule
# chancery: allow ruel: a slip
# chancery: allow shadowed-route: it was once
virtual_hosts: [{name: a, domains: [a], routes: [{match: {prefix: /}, route: {cluster: b}}]}]
";
    let slips = [
        "DIR/a.yaml:4 allow/malformed",
        "DIR/a.yaml:5 allow/unknown-code",
        "DIR/a.yaml:6 allow/unused",
    ];
    assert_eq!(codes(&[("a.yaml", route)], &[]), slips);
    assert_eq!(codes(&[("a.yaml", route)], &["--for", "envoy"]), slips[..2]);
    // Nothing hides a file that cannot be used.
    let broken = "# chancery: allow syntax: no\nname: [a\n";
    let told = ["DIR/a.yaml:1 allow/unknown-code", "DIR/a.yaml:3 syntax"];
    assert_eq!(codes(&[("a.yaml", broken)], &[]), told);
}

#[test]
fn the_configuration_lets_all_findings_of_a_code_pass() {
    let bad = cluster("b", 0);
    let with = |allow: &str| {
        let allow = format!("allow: {{{allow}}}\n");
        check(&[("chancery.yaml", &allow), ("b.yaml", &bad)], &[])
    };
    let (code, told) = with("rule/duration-gt: none of them minds");
    assert_eq!((code, told.as_str()), (Some(0), "0 errors, 0 warnings (1 file, 1 resource)\n"));
    let (code, told) = with("rule: none of them minds, grpc: there is none");
    assert_eq!(code, Some(0));
    let line =
        "warning[allow/unused]: `allow` in chancery.yaml has `grpc`, and nothing is: remove it\n";
    assert!(told.starts_with(line), "{told}");
    for (allow, why) in
        [("rule: ''", "say why"), ("ruel: a", "no finding"), ("syntax: a", "cannot")]
    {
        let (code, told) = with(allow);
        assert_eq!(code, Some(1), "{told}");
        assert!(told.starts_with("error[config]") && told.contains(why), "{told}");
    }
}

#[test]
fn a_watch_tells_what_is_new_and_what_is_gone_and_ends_as_the_last_check() {
    let dir = directory(&[("a.yaml", &cluster("a", 1))]);
    let path = dir.path().to_str().unwrap();
    let mut watch = Running::start(chancery(&["check", path, "--watch"]).stdout(Stdio::piped()));
    let lines = lines(watch.stdout.take().unwrap(), 1000);
    let until = |wanted: &str| {
        let mut told = Vec::new();
        while told.last().is_none_or(|line| line != wanted) {
            told.push(
                lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{wanted}: {told:?}")),
            );
        }
        told
    };
    until("0 errors, 0 warnings (1 file, 1 resource)");
    dir_write(&dir, "b.yaml", &cluster("b", 0));
    let told = until("1 error, 0 warnings (2 files, 2 resources)");
    assert!(told[0].starts_with("error[rule/duration-gt]: connect_timeout"), "{told:?}");
    // A line above it is no news, and a comment that lets it pass is.
    dir_write(&dir, "b.yaml", &format!("# one\n{}", cluster("b", 0)));
    let allowed = format!("# chancery: allow rule/duration-gt: a test\n{}", cluster("b", 0));
    dir_write(&dir, "b.yaml", &allowed);
    let told = until("0 errors, 0 warnings (2 files, 2 resources)");
    assert!(told[0].starts_with("gone[rule/duration-gt]: ") && told.len() == 3, "{told:?}");
    dir_write(&dir, "chancery.yaml", "clients: envoy=1.20\n");
    let told = until("1 error, 0 warnings (nothing else was read)");
    assert!(told[0].starts_with("error[config]: clients"), "{told:?}");
    watch.signal("INT");
    assert_eq!(watch.ended().0, Some(1));
    assert_eq!(check(&[("a.yaml", "[]")], &["--watch", "-o", "json"]).0, Some(64));
}

/// A cluster with a field that came with Envoy 1.40.
const NEW: &str = "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: a\n\
                   stats_matcher: {reject_all: true}\n";

#[test]
fn what_a_version_of_envoy_does_not_know_is_told_with_its_place() {
    let told = |flags: &[&str]| check(&[("a.yaml", NEW)], flags);
    assert_eq!(told(&[]).1, "0 errors, 0 warnings (1 file, 1 resource)\n");
    assert_eq!(told(&["--for", "envoy=1.40"]).1, "0 errors, 0 warnings (1 file, 1 resource)\n");
    let (code, text) = told(&["--for", "envoy=1.36,envoy=1.39.1", "--for", "envoy=1.40"]);
    assert_eq!(code, Some(0), "{text}");
    let line = "warning[envoy-version/field]: cds `a`: stats_matcher: is not known to Envoy 1.36 and \
                1.39 (but to 1.40 and later), and so ignored\n --> DIR/a.yaml:3:1\n";
    assert!(text.starts_with(line), "{text}");
    let (code, text) = told(&["--for", "envoy=1.34"]);
    assert_eq!(code, Some(64), "{text}");
    let known =
        "nothing is known of Envoy `1.34`; known are 1.32, 1.35, 1.36, 1.37, 1.38, 1.39, 1.40";
    assert!(text.contains(known), "{text}");
    assert_eq!(told(&["--for", "istio"]).0, Some(64));
}

#[test]
fn the_clients_of_a_group_decide_what_is_wrong_with_its_files() {
    let groups = "clients: envoy=1.40\ngroups:\n- {name: old, match: {id: a}, clients: envoy=1.36}\n\
                  - {name: grpc, match: {id: b}, clients: grpc}\n";
    let grpc = "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: b\n\
                connect_timeout: 0s\neds_cluster_config: {eds_config: {path: a}}\ntype: EDS\n";
    let files = [
        ("chancery.yaml", groups),
        ("groups/old/a.yaml", NEW),
        ("groups/new/a.yaml", NEW),
        ("groups/grpc/a.yaml", grpc),
        ("groups/new/b.yaml", grpc),
    ];
    let (code, told) = check(&files, &["-o", "json"]);
    assert_eq!(code, Some(1), "{told}");
    let of = |file: &str| -> Vec<String> {
        let lines =
            told.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let lines = lines.filter(|it| it["file"].as_str().unwrap_or_default().ends_with(file));
        let text = |it: &serde_json::Value| it.as_str().unwrap().to_owned();
        let told = lines.map(|it| format!("{} {}", text(&it["severity"]), text(&it["code"])));
        told.filter(|it| !it.ends_with("dangling-reference")).collect()
    };
    assert_eq!(of("groups/old/a.yaml"), ["warning envoy-version/field"]);
    assert_eq!(of("groups/new/a.yaml"), [""; 0]);
    assert!(of("groups/grpc/a.yaml").contains(&"warning rule/duration-gt".to_owned()), "{told}");
    assert!(of("groups/grpc/a.yaml").contains(&"error grpc/rejected".to_owned()), "{told}");
    assert!(of("groups/new/b.yaml").contains(&"error rule/duration-gt".to_owned()), "{told}");
    assert!(!of("groups/new/b.yaml").iter().any(|it| it.contains("grpc")), "{told}");
    // A cluster for the Envoys among all clients.
    let of_envoy = cluster("c", 1);
    let (_, told) = check(&[files[0], ("c.yaml", &of_envoy)], &["-o", "json"]);
    assert!(!told.contains("\"grpc/"), "{told}");
    // The clients of the flags are those of all groups.
    let (_, told) = check(&files, &["--for", "envoy=1.40", "-o", "json"]);
    assert!(!told.contains("envoy-version") && !told.contains("\"grpc/"), "{told}");
}

/// `serve` judges by the clients that are declared, whatever a check is for.
#[test]
fn a_check_for_some_clients_tells_what_serve_holds_back_for_others() {
    let bad = cluster("b", 0) + "type: EDS\neds_cluster_config: {eds_config: {ads: {}}}\n";
    let check = |rules: &str, flags: &[&str]| {
        let (code, told) = check(&[("chancery.yaml", rules), ("b.yaml", &bad)], flags);
        (code, told.contains("error[declared-clients]: `chancery serve` holds back 1 error"), told)
    };
    let (code, is_told, told) = check("{}\n", &["--for", "grpc"]);
    assert_eq!((code, is_told), (Some(1), true), "{told}");
    assert!(told.contains("help: `chancery check` without `--for` shows them"), "{told}");
    for (rules, flags) in [
        ("clients: grpc\n", &["--for", "grpc"][..]),
        ("{}\n", &["--for", "grpc", "--allow", "declared-clients"]),
        ("gate: {messages: warn}\n", &["--for", "grpc"]),
        ("allow: {rule/duration-gt: nobody minds}\n", &["--for", "grpc"]),
    ] {
        let (code, is_told, told) = check(rules, flags);
        assert_eq!((code, is_told), (Some(0), false), "{rules}{flags:?}: {told}");
    }
    let (code, is_told, told) = check("{}\n", &["--for", "envoy"]);
    assert_eq!((code, is_told), (Some(1), false), "{told}");
}

#[test]
fn the_configuration_is_that_of_serve() {
    let bad = cluster("b", 0);
    let ignoring = [("chancery.yaml", "ignore: [b.yaml]\n"), ("b.yaml", &bad)];
    assert_eq!(check(&ignoring, &[]).0, Some(0));
    let (code, told) = check(&[("chancery.yaml", "ignor: [b.yaml]\n"), ("b.yaml", &bad)], &[]);
    assert_eq!(code, Some(1));
    assert!(told.starts_with("error[config]: ignor: unknown key `ignor`"), "{told}");
    assert!(told.ends_with("1 error, 0 warnings (nothing else was read)\n"), "{told}");
    let tls = "tls: {cert: nowhere.pem, key: nowhere.pem}\n";
    assert_eq!(check(&[("chancery.yaml", tls), ("a.yaml", &cluster("a", 1))], &[]).0, Some(0));
}

#[test]
fn a_directory_that_is_not_there_is_2_and_misuse_64() {
    let ended = |args: &[&str]| finished(&mut chancery(args)).status.code();
    assert_eq!(ended(&["check", "/nowhere/at/all"]), Some(2));
    assert_eq!(ended(&["check"]), Some(64));
    assert_eq!(ended(&["check", ".", "--deny", "no-such-code"]), Some(64));
    assert_eq!(ended(&["check", ".", "-o", "yaml"]), Some(64));
}

#[test]
fn a_directory_with_too_much_in_it_is_not_read() {
    let files = [("chancery.yaml", "limits: {max-files: 1}\n"), ("a.yaml", ""), ("b.yaml", "")];
    let (code, told) = check(&files, &[]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.starts_with("error[file/limit]: there are more than 1 files"), "{told}");
}

#[test]
fn the_examples_of_this_repository_have_no_errors() {
    for name in ["quickstart", "federation/team-a", "federation/team-b"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
        let ended = finished(&mut chancery(&["check", path.to_str().unwrap()]));
        assert_eq!(ended.status.code(), Some(0), "{name}: {ended:?}");
    }
}

#[test]
fn what_may_be_secret_is_not_quoted() {
    let secret = "\"@type\": t/envoy.extensions.transport_sockets.tls.v3.Secret\nname: a\n\
                  tls_certificate: {private_key: {inline_string: hunter2}, certificate_chain: \
                  {filename: ''}}\n";
    for flags in [&[][..], &["-o", "json"]] {
        let (code, told) = check(&[("a.yaml", secret)], flags);
        assert_eq!(code, Some(1), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
}

#[test]
fn help_says_how_it_ends() {
    let help = finished(&mut chancery(&["check", "--help"]));
    let help = String::from_utf8(help.stdout).unwrap();
    for told in ["Examples:", "Exit codes:", "docs/checks.md", "--deny", "[default: text]"] {
        assert!(help.contains(told), "{told} in {help}");
    }
}

#[test]
fn other_programs_get_the_findings_in_their_formats() {
    let bad = ["rule,a.yaml", "more\"<&>.yaml"];
    let texts = bad.map(|file| (file, cluster("b", 0)));
    let files: Vec<_> = texts.iter().map(|(file, text)| (*file, text.as_str())).collect();
    let (code, told) = check(&files[..1], &["-o", "github"]);
    assert_eq!(code, Some(1));
    assert_eq!(
        told,
        "::error file=DIR/rule%2Ca.yaml,line=3,col=18,title=rule/duration-gt::connect_timeout: must be \
         greater than 0s, found 0s\n"
    );
    let (_, told) = check(&files, &["-o", "sarif"]);
    let log: serde_json::Value = serde_json::from_str(&told).unwrap();
    let run = &log["runs"][0];
    // The second file defines the same resource.
    let codes: Vec<_> = run["results"].as_array().unwrap().iter().map(|it| &it["ruleId"]).collect();
    assert!(codes.contains(&&"rule/duration-gt".into()), "{codes:?}");
    assert_eq!(run["results"][0]["level"], "error");
    let place = &run["results"][0]["locations"][0]["physicalLocation"];
    let uri = place["artifactLocation"]["uri"].as_str().unwrap();
    assert!(uri.ends_with("more%22%3C%26%3E.yaml"), "{uri}");
    assert_eq!(run["invocations"][0]["executionSuccessful"], true);
    let (_, told) = check(&files, &["-o", "junit"]);
    assert!(told.contains("more&quot;&lt;&amp;&gt;.yaml"), "{told}");
    let (code, told) = check(&[("a.yaml", &cluster("b", 1))], &["-o", "junit"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("tests=\"1\" failures=\"0\""), "{told}");
}

/// One section of the page: its code, and its examples.
fn examples(page: &str) -> Vec<(&str, Vec<&str>)> {
    let sections = page.split("\n### `").skip(1);
    sections
        .map(|section| {
            let (code, rest) = section.split_once('`').unwrap();
            let blocks = rest.split("```yaml\n").skip(1);
            (code, blocks.map(|block| block.split_once("```").unwrap().0).collect())
        })
        .collect()
}

/// The files of an example: each begins with a line that has its name, and one without is `a.yaml`.
fn files_of(example: &str) -> Vec<(&str, &str)> {
    let name_of = |line: &str| line.strip_prefix("# ").is_some_and(|name| name.ends_with(".yaml"));
    let mut starts: Vec<_> = example.match_indices("# ").map(|(at, _)| at).collect();
    starts.retain(|at| {
        let is_first = *at == 0 || example[..*at].ends_with('\n');
        is_first && example[*at..].lines().next().is_some_and(name_of)
    });
    if starts.first() != Some(&0) {
        return vec![("a.yaml", example)];
    }
    let ends = starts.iter().copied().skip(1).chain([example.len()]);
    let texts = starts.iter().zip(ends).map(|(start, end)| &example[*start..end]);
    texts.map(|text| (&text.lines().next().unwrap()[2..], text)).collect()
}

#[test]
fn the_examples_of_the_page_are_what_they_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/checks.md");
    let page = std::fs::read_to_string(path).unwrap();
    let sections = examples(&page);
    assert!(sections.len() > 15, "{}", sections.len());
    for (code, blocks) in sections {
        let [wrong, right] = blocks[..] else { panic!("{code} has {} examples", blocks.len()) };
        for (text, is_wrong) in [(wrong, true), (right, false)] {
            let flags = text.lines().next().and_then(|line| line.strip_prefix("# --for "));
            let flags = flags.map(|client| format!("--for={client}"));
            let flags = [Some("-o=json"), flags.as_deref()];
            let flags: Vec<_> = flags.into_iter().flatten().collect();
            let (_, told) = check(&files_of(text), &flags);
            let found = told.contains(&format!("\"code\":\"{code}\""));
            assert_eq!(found, is_wrong, "{code}: {told}{text}");
        }
    }
}
