//! `chancery call` against a control plane of this project and real services, with the example that
//! docs/call.md shows.

use std::io::Write;
use std::path::Path;
use std::process::Output;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::Value;
use tempfile::TempDir;

use crate::daemon;
use crate::daemon::ports::Port;
use crate::daemon::{Program, Running, Server, chancery, directory, finished, lines, next_line};
use crate::orders::{Orders, Reflects, descriptor_set};

/// The example, on ports of its own: zone a is away, and the others answer.
struct Mesh {
    server: Server,
    _backends: Vec<Orders>,
    _away: Port,
    work: TempDir,
    /// The ports of the example with those that stand for them.
    ports: Vec<(&'static str, u16)>,
}

impl Mesh {
    fn start(reflects: Reflects) -> Self {
        Self::with(reflects, |resources| resources)
    }

    /// The same with resources that are changed before they are served.
    fn with(reflects: Reflects, change: impl Fn(String) -> String) -> Self {
        let away = Port::reserve();
        let backends = ["b", "gold-1", "gold-2"].map(|name| Orders::start(name, reflects));
        let mut ports = vec![("50051", away.number())];
        let names = ["50052", "50053", "50054"];
        ports.extend(names.into_iter().zip(backends.iter().map(|it| it.port.number())));
        let resources = change(ours(&example("mesh/orders.yaml"), &ports));
        let work = directory(&[("mesh/orders.yaml", &resources)]);
        let server = Server::start_at(&work.path().join("mesh"), &[]);
        ports.push(("18000", server.port));
        daemon::dir_write(&work, "bootstrap.json", &ours(&example("bootstrap.json"), &ports));
        std::fs::write(work.path().join("orders.pb"), descriptor_set()).unwrap();
        Self { server, _backends: backends.into(), _away: away, work, ports }
    }

    fn command(&self, words: &[&str]) -> Program {
        let mut command = chancery(&["call", "xds:///orders:8080"]);
        command.args(words).env("GRPC_XDS_BOOTSTRAP", "bootstrap.json");
        command.current_dir(self.work.path());
        command
    }

    fn call(&self, words: &[&str]) -> Output {
        finished(&mut self.command(words))
    }

    /// The text with the ports of the example.
    fn as_in_the_example(&self, text: &str) -> String {
        self.ports.iter().fold(text.to_owned(), |text, (theirs, ours)| {
            text.replace(&format!(":{ours}"), &format!(":{theirs}"))
        })
    }
}

fn example(file: &str) -> String {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/calls");
    std::fs::read_to_string(example.join(file)).unwrap()
}

fn ours(text: &str, ports: &[(&str, u16)]) -> String {
    ports
        .iter()
        .fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, &ours.to_string()))
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
fn is(output: &Output, code: i32, text: &str) {
    assert_eq!(output.status.code(), Some(code), "{}\n{}", out(output), err(output));
    assert_eq!(out(output), text, "{}", err(output));
}

/// A bootstrap with one control plane, in the clear.
fn bootstrap(server: &Port) -> String {
    format!(
        r#"{{"xds_servers": [{{"server_uri": "{}", "channel_creds": [{{"type": "insecure"}}]}}]}}"#,
        server.address()
    )
}

fn objects(output: &Output) -> Vec<Value> {
    out(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn any_method_is_called_by_reflection_of_both_versions_and_by_a_file() {
    let one = "{\n  \"id\": \"7\",\n  \"server\": \"b\"\n}\n";
    let two = one.to_owned() + &one.replace('7', "8");
    for (reflects, more) in [
        (Reflects::V1, &[][..]),
        (Reflects::V1Alpha, &[][..]),
        (Reflects::Nothing, &["--descriptor-set", "orders.pb"][..]),
    ] {
        let mesh = Mesh::start(reflects);
        let call = |words: &[&str]| mesh.call(&[words, more].concat());
        is(&call(&["orders.v1.Orders/Get", "-d", r#"{"id": 7}"#]), 0, one);
        is(&call(&["orders.v1.Orders.Get", "-d", r#"{"id": "7"}"#]), 0, one);
        is(&call(&["orders.v1.Orders/Watch", "-d", r#"{"id": 7}"#]), 0, &two);
        is(&call(&["orders.v1.Orders/Put", "-d", r#"{"id": 3} {"id": 4}"#]), 0, one);
        let chat = r#"{"id": 7, "server": "b"}{"id": 8, "server": "b"}"#;
        is(&call(&["orders.v1.Orders/Chat", "-d", chat]), 0, &two);
        is(&call(&["orders.v1.Orders/Chat"]), 0, "");
        is(&call(&["orders.v1.Orders/Get"]), 0, "{\n  \"server\": \"b\"\n}\n");
    }
}

#[test]
fn a_request_comes_from_a_file_or_from_stdin() {
    let mesh = Mesh::start(Reflects::V1);
    daemon::dir_write(&mesh.work, "order.json", "{\"id\": 1}\n\n{\"id\": 2}\n");
    let put = mesh.call(&["orders.v1.Orders/Put", "-d", "@order.json", "-o", "json"]);
    assert_eq!(objects(&put)[0]["response"]["id"], "3", "{}", err(&put));
    let mut command = mesh.command(&["orders.v1.Orders/Put", "-d", "-", "-o", "json"]);
    let file = std::fs::File::open(mesh.work.path().join("order.json")).unwrap();
    let put = finished(command.stdin(file));
    assert_eq!(objects(&put)[0]["response"]["id"], "3", "{}", err(&put));
    let named = ["orders.v1.Orders/Put", "--bootstrap", "bootstrap.json"];
    let put = finished(mesh.command(&named).env("GRPC_XDS_BOOTSTRAP", "nowhere"));
    assert_eq!(put.status.code(), Some(0), "{}", err(&put));
}

/// Each message is answered before the next one is written.
#[test]
fn a_stream_is_sent_as_it_comes() {
    let mesh = Mesh::start(Reflects::V1);
    let words = ["orders.v1.Orders/Chat", "-d", "-", "-o", "json"];
    let (input, mut output) = std::io::pipe().unwrap();
    let mut running = Running::start(mesh.command(&words).stdin(input));
    let lines = lines(running.stdout.take().unwrap(), 10);
    for id in ["1", "2"] {
        write!(output, "{{\"id\": {id}}}").unwrap();
        let line: Value = serde_json::from_str(&next_line(&lines).unwrap()).unwrap();
        assert_eq!(line["response"]["id"], id);
    }
    drop(output);
    let ended: Value = serde_json::from_str(&next_line(&lines).unwrap()).unwrap();
    assert_eq!((&ended["code"], next_line(&lines)), (&"OK".into(), None));
    assert!(running.wait().unwrap().success());
}

/// A server must not take the beginning of a request for the whole of it.
#[test]
fn a_stream_that_breaks_is_not_finished() {
    let mesh = Mesh::start(Reflects::V1);
    daemon::dir_write(&mesh.work, "odd.json", "{\"id\": 1} {\"id\": ");
    let words = ["orders.v1.Orders/Put", "-d", "-"];
    let file = std::fs::File::open(mesh.work.path().join("odd.json")).unwrap();
    let put = finished(mesh.command(&words).stdin(file));
    is(&put, 2, "");
    assert!(err(&put).contains("the request is no JSON: EOF"), "{}", err(&put));
}

#[test]
fn calls_can_be_interrupted() {
    let mesh = Mesh::start(Reflects::V1);
    let words = ["orders.v1.Orders/Get", "-n", "1000000", "--rate", "50", "-o", "json"];
    let mut running = Running::start(&mut mesh.command(&words));
    let lines = lines(running.stdout.take().unwrap(), 1_000_000);
    next_line(&lines).unwrap();
    running.signal("INT");
    while next_line(&lines).is_some() {}
    assert!(running.wait().unwrap().success());
}

#[test]
fn a_status_of_the_server_is_a_negative_answer() {
    let mesh = Mesh::start(Reflects::V1);
    let missing = mesh.call(&["orders.v1.Orders/Get", "-d", r#"{"id": 404}"#]);
    is(&missing, 1, "");
    assert_eq!(err(&missing), "chancery: NOT_FOUND: no such order\\u{1b}[31m\n");
    let many = mesh.call(&["orders.v1.Orders/Get", "-d", r#"{"id": 404}"#, "-n", "3"]);
    assert_eq!(many.status.code(), Some(1));
    assert!(out(&many).contains("NOT_FOUND 3\n"), "{}", out(&many));
    assert!(err(&many).ends_with("chancery: 3 of 3 calls failed\n"), "{}", err(&many));
    let odd = mesh.call(&["orders.v1.Orders/Get", "-d", r#"{"id": 500}"#]);
    is(&odd, 2, "");
    assert!(err(&odd).contains("a message of the answer is no `orders.v1.Order`"), "{}", err(&odd));
    let small = mesh.call(&["orders.v1.Orders/Get", "--max-size", "2"]);
    assert_eq!(small.status.code(), Some(1), "{}", err(&small));
}

/// The outputs in docs/call.md are those of the command.
#[test]
fn the_page_shows_what_the_command_prints() {
    let mesh = Mesh::start(Reflects::V1);
    let page = include_str!("../../../docs/call.md");
    for (words, code) in [
        (&["orders.v1.Orders/Get", "--dry-run"][..], 0),
        (&["orders.v1.Orders/Get", "-d", r#"{"id": 1}"#], 0),
        (&["--list"], 0),
        (&["--list", "orders.v1.Orders"], 0),
        (&["--describe", "orders.v1.Orders/Get"], 0),
    ] {
        let output = mesh.call(words);
        assert_eq!(output.status.code(), Some(code), "{}", err(&output));
        let shown = words.iter().map(|word| match word.contains(' ') {
            true => format!("'{word}'"),
            false => (*word).to_owned(),
        });
        let shown = shown.collect::<Vec<_>>().join(" ");
        let printed = mesh.as_in_the_example(&out(&output));
        let shown = format!("$ chancery call xds:///orders:8080 {shown}\n{printed}");
        let indented: String = shown.lines().map(|line| format!("    {line}\n")).collect();
        assert!(
            page.contains(&indented.replace("    \n", "\n")),
            "not in docs/call.md:\n{indented}"
        );
    }
}

#[test]
fn it_is_told_where_a_call_goes_and_where_it_went() {
    let mesh = Mesh::start(Reflects::V1);
    let words = ["orders.v1.Orders/Get", "-H", "Tier: gold", "-d", r#"{"id": 1}"#];
    let told = mesh.call(&[&words[..], &["--explain"]].concat());
    assert_eq!(told.status.code(), Some(0), "{}", err(&told));
    let text = mesh.as_in_the_example(&err(&told));
    for part in [
        "route 0 `gold` matches",
        "cluster `orders-gold` is READY",
        "the call went to 127.0.0.1:5005",
        ", in cluster `orders-gold`, locality eu/a, in attempt 1: OK after ",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    let json = mesh.call(&[&words[..], &["--explain", "-o", "json"]].concat());
    let lines = objects(&json);
    assert_eq!(lines.len(), 3, "{lines:?}");
    let explained = &lines[0]["explanation"];
    assert_eq!(
        (&explained["route"]["name"], &explained["outcome"]["kind"]),
        (&"gold".into(), &"sent".into())
    );
    assert_eq!(lines[1]["call"], 1);
    let ended = &lines[2];
    assert_eq!((&ended["code"], &ended["cluster"]), (&"OK".into(), &"orders-gold".into()));
    assert_eq!(ended["headers"]["seen-tier"][0], "gold");
    assert_eq!(ended["locality"]["zone"], "a");
    let dry = mesh.call(&["orders.v1.Orders/Get", "--dry-run", "-o", "json"]);
    let explained = &objects(&dry)[0]["explanation"];
    assert_eq!(explained["passed_routes"][0]["name"], "gold");
    let tree = &explained["balancing"]["children"][0]["is"];
    assert_eq!(
        (&tree["kind"], &tree["children"][0]["calls"]),
        (&"cluster".into(), &"passed over".into())
    );
}

#[test]
fn a_table_shows_how_calls_were_spread() {
    let mesh = Mesh::start(Reflects::V1);
    let words = ["orders.v1.Orders/Get", "-H", "tier: gold", "-n", "40", "--concurrency", "4"];
    let spread = mesh.call(&[&words[..], &["--rate", "1000"]].concat());
    assert_eq!(spread.status.code(), Some(0), "{}", err(&spread));
    let text = out(&spread);
    let rows: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["CLUSTER", "LOCALITY", "ENDPOINT", "CALLS", "MEDIAN", "99%", "CODES"]);
    let calls = rows[1..].iter().map(|row| {
        assert_eq!(row[..2], ["orders-gold", "eu/a"], "{text}");
        assert_eq!(row[6..], ["OK", row[3]], "{text}");
        row[3].parse::<u32>().unwrap()
    });
    assert_eq!(calls.sum::<u32>(), 40, "{text}");
    let lines = mesh.call(&["orders.v1.Orders/Get", "-n", "3", "-o", "json"]);
    assert_eq!(objects(&lines).len(), 6, "{}", out(&lines));
}

#[test]
fn without_an_answer_it_is_told_why() {
    let mesh = Mesh::start(Reflects::Nothing);
    let none = mesh.call(&["orders.v1.Orders/Get"]);
    is(&none, 2, "");
    let told = err(&none);
    assert!(
        told.starts_with("chancery: the server has no reflection\nhint: `--descriptor-set"),
        "{told}"
    );
    let away =
        mesh.call(&["orders.v1.Orders/Get", "--authority", "x", "--descriptor-set", "orders.pb"]);
    is(&away, 2, "");
    assert!(err(&away).contains("UNAVAILABLE: no virtual host has a domain"), "{}", err(&away));
    let dry = mesh.call(&["orders.v1.Orders/Get", "--authority", "x", "--dry-run"]);
    assert_eq!(dry.status.code(), Some(1), "{}", err(&dry));
    assert!(out(&dry).contains("a call fails with UNAVAILABLE: no virtual host"), "{}", out(&dry));
    let nobody = Port::reserve();
    daemon::dir_write(&mesh.work, "bootstrap.json", &bootstrap(&nobody));
    for more in ["--dry-run", "--list"] {
        let words = ["orders.v1.Orders", "--timeout", "300ms", more];
        let alone = mesh.call(&words);
        assert!(matches!(alone.status.code(), Some(1 | 2)), "{}", err(&alone));
        assert!(!(out(&alone) + &err(&alone)).is_empty());
    }
}

/// C-117, C-127: targets without a control plane, and an endpoint that does not speak TLS.
#[test]
fn a_service_is_called_without_a_control_plane() {
    let orders = Orders::start("alone", Reflects::V1);
    let target = orders.port.address();
    let call = |words: &[&str]| {
        let all = [&["call", &target, "orders.v1.Orders/Get"], words].concat();
        finished(&mut chancery(&all))
    };
    is(&call(&["--plaintext"]), 0, "{\n  \"server\": \"alone\"\n}\n");
    let dry = call(&["--plaintext", "--dry-run"]);
    let text = out(&dry).replace(&target, "TARGET");
    let expected = "\
call of `/orders.v1.Orders/Get` at `TARGET`
cluster `TARGET` is IDLE, 0 calls under way
  priority 0: pick_first, IDLE
    TARGET IDLE
a call waits for a connection, which is made when a call needs it
";
    assert_eq!((dry.status.code(), text.as_str()), (Some(0), expected), "{}", err(&dry));
    let spread = call(&["--plaintext", "-n", "3", "--explain"]);
    assert!(out(&spread).contains("OK 3"), "{}{}", out(&spread), err(&spread));
    let secure = call(&["--tls", "--timeout", "5s"]);
    is(&secure, 2, "");
    assert!(err(&secure).contains("TLS"), "{}", err(&secure));
}

/// C-121, C-127: the flags have the authorities and the certificate of a client, and servers are verified.
#[test]
fn connections_are_secured_by_flags() {
    let pki = tempfile::tempdir().unwrap();
    certificates(pki.path());
    let orders = Orders::start_tls("secure", pki.path());
    let target = format!("dns:///localhost:{}", orders.port.number());
    let call = |words: &[&str]| {
        let all = [&["call", &target, "orders.v1.Orders/Get", "--timeout", "5s"], words].concat();
        finished(chancery(&all).current_dir(pki.path()))
    };
    let identity = ["--cert", "leaf.pem", "--key", "leaf.key"];
    let both = [&["--ca", "ca.pem"][..], &identity].concat();
    is(&call(&both), 0, "{\n  \"server\": \"secure\"\n}\n");
    for (words, why) in [(&identity[..], "certificate"), (&["--plaintext"], "UNAVAILABLE")] {
        let failed = call(words);
        is(&failed, 2, "");
        assert!(err(&failed).contains(why), "{words:?}: {}", err(&failed));
    }
    let absent = call(&["--ca", "none.pem"]);
    is(&absent, 2, "");
    assert!(err(&absent).contains("none.pem"), "{}", err(&absent));
    assert_eq!(call(&["--cert", "leaf.pem"]).status.code(), Some(64));
    assert_eq!(call(&["--tls", "--plaintext"]).status.code(), Some(64));
}

/// C-138: an endpoint without an address is told by its name, also in JSON.
#[test]
fn a_socket_of_unix_is_told_by_its_name() {
    let words =
        ["call", "unix:/nowhere/socket", "orders.v1.Orders/Get", "--plaintext", "--dry-run"];
    let explained = finished(chancery(&words).args(["-o", "json"]));
    let text = String::from_utf8_lossy(&explained.stdout);
    assert!(text.contains("unix:/nowhere/socket") && !text.contains("0.0.0.0"), "{text}");
}

/// An authority, and a certificate of it for `localhost`.
fn certificates(dir: &Path) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    std::fs::write(dir.join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &issuer).unwrap();
    std::fs::write(dir.join("leaf.pem"), leaf.pem()).unwrap();
    std::fs::write(dir.join("leaf.key"), key.serialize_pem()).unwrap();
}

#[test]
fn types_that_are_none_are_told() {
    let mesh = Mesh::start(Reflects::Garbage);
    let odd = mesh.call(&["orders.v1.Orders/Get"]);
    is(&odd, 2, "");
    assert!(
        err(&odd).contains("the answer of the server's reflection is malformed"),
        "{}",
        err(&odd)
    );
}

/// C-103: a call fails when it is known that nothing is there, unless it waits for ready.
#[test]
fn a_call_waits_for_ready_if_it_is_told_to() {
    let mesh = Mesh::start(Reflects::Nothing);
    let call = |more: &[&str]| {
        let words =
            ["call", "xds:///nobody", "orders.v1.Orders/Get", "--descriptor-set", "orders.pb"];
        let mut command = chancery(&words);
        command.args(more).current_dir(mesh.work.path());
        let output = finished(command.env("GRPC_XDS_BOOTSTRAP", "bootstrap.json"));
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        err(&output)
    };
    let told = call(&[]);
    assert!(told.starts_with("chancery: UNAVAILABLE: lds `nobody`"), "{told}");
    let told = call(&["--wait-for-ready", "--timeout", "500ms"]);
    assert!(told.starts_with("chancery: DEADLINE_EXCEEDED: "), "{told}");
}

#[test]
fn a_request_that_does_not_fit_is_not_sent() {
    let mesh = Mesh::start(Reflects::V1);
    for (words, code, why) in [
        (&["orders.v1.Orders/Get", "-d", "{"][..], 2, "the request is no JSON"),
        (
            &["orders.v1.Orders/Get", "-d", r#"{"no": 1}"#],
            2,
            "the request is no `orders.v1.Request`",
        ),
        (&["orders.v1.Orders/Get", "-d", "{}{}"], 2, "takes one message, and the request has 2"),
        (&["orders.v1.Orders/Get", "-d", ""], 2, "the request has 0"),
        (&["orders.v1.Orders/Get", "-d", "@none"], 2, "cannot read `none`"),
        (&["orders.v1.Orders/Got"], 2, "has no method `Got`\nhint: it has Get, Watch, Put, Chat"),
        (&["orders.v1.None/Get"], 2, "the server knows no `orders.v1.None`"),
        (&["--list", "orders.v1.None"], 1, "the server knows no `orders.v1.None`"),
        (&["--describe", "orders.v1.Order.id"], 1, "there is no `orders.v1.Order.id`"),
        (&["Get"], 64, "is no method; write `PACKAGE.SERVICE/METHOD`"),
        (&["orders.v1.Orders/Get", "-H", "te: x"], 64, "gRPC itself sets `te`"),
        (&["--list", "--describe"], 64, "cannot be used with"),
        (&["orders.v1.Orders/Get", "-n", "0"], 64, "0 is not in"),
        (&["orders.v1.Orders/Get", "--timeout", "0s"], 64, "no call can be made in no time"),
    ] {
        let output = mesh.call(words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", err(&output));
        assert!(err(&output).contains(why), "{words:?}: {}", err(&output));
    }
    let none = finished(&mut chancery(&["call", "xds:///orders:8080", "a.B/C"]));
    assert_eq!(none.status.code(), Some(64));
    assert!(err(&none).contains("give `--bootstrap`"), "{}", err(&none));
    let unsaid = finished(&mut chancery(&["call", "localhost:1", "a.B/C"]));
    assert_eq!(unsaid.status.code(), Some(64));
    assert!(err(&unsaid).contains("give `--plaintext` or `--tls`"), "{}", err(&unsaid));
    let needless = ["call", "localhost:1", "a.B/C", "--plaintext", "--bootstrap", "x"];
    assert_eq!(finished(&mut chancery(&needless)).status.code(), Some(64));
    let odd = finished(&mut chancery(&["call", "ftp://x", "a.B/C"]));
    assert_eq!(odd.status.code(), Some(2), "{}", err(&odd));
}

#[test]
fn definitions_are_printed() {
    let mesh = Mesh::start(Reflects::V1);
    let words = ["--describe", "orders.v1.Order", "--descriptor-set", "orders.pb"];
    let expected = "\
message orders.v1.Order {
  int64 id = 1;
  string server = 2;
  orders.v1.Size size = 3;
  google.protobuf.Timestamp placed_at = 4;
  repeated string notes = 5;
}
";
    is(&mesh.call(&words), 0, expected);
    let size = "enum orders.v1.Size {\n  SIZE_UNKNOWN = 0;\n  SIZE_LARGE = 1;\n}\n";
    is(&mesh.call(&["--describe", "orders.v1.Size"]), 0, size);
    let all = mesh.call(&["--describe"]);
    assert!(
        out(&all)
            .contains("  rpc Chat(stream orders.v1.Order) returns (stream orders.v1.Order);\n"),
        "{}",
        err(&all)
    );
}

/// C-102: a call whose time is over says what it has waited for, and types are asked for only where somebody
/// answers.
#[test]
fn a_call_without_an_answer_says_what_it_waits_for() {
    let mesh = Mesh::start(Reflects::V1);
    let (silent, nobody) = (Port::reserve(), Port::reserve());
    let listener = std::net::TcpListener::bind(silent.address()).unwrap();
    for (file, server) in [("silent.json", &silent), ("nobody.json", &nobody)] {
        daemon::dir_write(&mesh.work, file, &bootstrap(server));
    }
    let call = |target: &str, more: &[&str]| {
        let words = ["call", target, "orders.v1.Orders/Get", "--timeout", "1s"];
        let mut command = chancery(&words);
        let output = finished(command.args(more).current_dir(mesh.work.path()));
        is(&output, 2, "");
        err(&output)
    };
    let xds = "xds:///orders:8080";
    let begin = "chancery: cannot ask the server for its types: DEADLINE_EXCEEDED: the deadline of the call is \
                 over; it waited for ";
    let told = call(xds, &["--bootstrap", "silent.json"]);
    assert_eq!(told, format!("{begin}the configuration, which the control plane has not sent\n"));
    let told = call(xds, &["--bootstrap", "nobody.json", "--wait-for-ready"]);
    assert!(told.starts_with(&format!("{begin}a configuration: ")), "{told}");
    assert!(told.contains("Connection refused") && !told.contains("hint"), "{told}");
    let (target, plain) = (silent.address(), "--plaintext");
    let told = call(&target, &[plain]);
    let cluster = format!("a connection to an endpoint of cluster `{target}`: ");
    assert_eq!(told, format!("{begin}{cluster}{target} does not answer\n"));
    let told = call(&target, &[plain, "--descriptor-set", "orders.pb"]);
    assert!(told.starts_with("chancery: DEADLINE_EXCEEDED: the deadline "), "{told}");
    assert!(told.ends_with(&format!("{cluster}{target} does not answer\n")), "{told}");
    // An explanation is an answer as long as there is a configuration.
    let dry = |target: &str, more: &[&str]| {
        let words = ["call", target, "orders.v1.Orders/Get", "--timeout", "1s", "--dry-run"];
        let mut command = chancery(&words);
        finished(command.args(more).current_dir(mesh.work.path())).status.code()
    };
    assert_eq!(dry(&target, &[plain]), Some(0));
    assert_eq!(dry(xds, &["--bootstrap", "nobody.json"]), Some(1));
    assert_eq!(dry(xds, &["--bootstrap", "silent.json"]), Some(2));
    drop(listener);
}

/// The way of a call is told before the server is asked for its types, which may have no answer.
#[test]
fn a_call_is_explained_before_there_are_types() {
    let nobody = Port::reserve();
    let words = ["call", &nobody.address(), "orders.v1.Orders/Get", "--plaintext", "--explain"];
    let failed = finished(&mut chancery(&words));
    is(&failed, 2, "");
    let told = err(&failed);
    assert!(told.starts_with("call of `/orders.v1.Orders/Get` at"), "{told}");
    assert!(
        told.contains("\nchancery: cannot ask the server for its types: UNAVAILABLE"),
        "{told}"
    );
}

/// C-133: the control plane hears of all calls, also of those since the last report.
#[test]
fn the_last_calls_are_reported() {
    let mesh = Mesh::with(Reflects::V1, |resources| {
        resources.replace("  type: EDS\n", "  type: EDS\n  lrs_server: {self: {}}\n")
    });
    for (count, sum) in [("25", 25), ("1", 26)] {
        // Questions for types would be calls too.
        let words = ["orders.v1.Orders/Get", "--descriptor-set", "orders.pb", "-n", count];
        let output = mesh.call(&words);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        daemon::eventually(|| {
            let rows: Value = serde_json::from_str(&mesh.server.admin("/api/v1/load").1).unwrap();
            let issued = rows["rows"].as_array().unwrap().iter().map(|row| row["issued"].as_u64());
            issued.flatten().sum::<u64>() == sum
        });
    }
}
