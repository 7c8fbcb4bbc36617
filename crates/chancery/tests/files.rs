//! Files of every sort under a server, and what it does with them: files that are cut to nothing,
//! that are no files, that are not the operator's, or that have nothing but faults.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::daemon::{
    Program, Server, chancery, cluster, dir_write, directory, eventually, finished,
};

/// Makes a FIFO, which std cannot do.
fn fifo(path: &Path) {
    assert!(Program::new("mkfifo").arg(path).status().unwrap().success());
}

fn serve(dir: &Path, flags: &[&str]) -> Output {
    let words = ["serve", dir.to_str().unwrap(), "--listen", "127.0.0.1:0", "--admin", "off"];
    finished(&mut chancery(&[&words[..], flags].concat()))
}

/// Writes a certificate and its key, `cert.pem` and `key.pem`. Returns their paths.
fn certificate(dir: &TempDir) -> [String; 2] {
    let key = rcgen::KeyPair::generate().unwrap();
    let cert = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    dir_write(dir, "cert.pem", &cert.self_signed(&key).unwrap().pem());
    dir_write(dir, "key.pem", &key.serialize_pem());
    ["cert.pem", "key.pem"].map(|name| dir.path().join(name).to_str().unwrap().to_owned())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_file_that_is_cut_to_nothing_keeps_its_resources() {
    let dir = directory(&[("a.yaml", &cluster("a", 1)), ("nodes/m/b.yaml", &cluster("b", 1))]);
    let mut server = Server::start(&dir, &[]);
    dir_write(&dir, "a.yaml", "");
    server.log_has("a.yaml: says nothing any more");
    assert!(server.clusters("n").contains("\"a\""));
    eventually(|| {
        let config: Value = serde_json::from_str(&server.admin("/api/v1/config").1).unwrap();
        config["fault_count"] == 1 && config["held_back"][0] == "base"
    });
    dir_write(&dir, "a.yaml", "[]\n");
    server.log_has("0 of 1 resource of type `cds` left");
    let admin = format!("127.0.0.1:{}", server.admin);
    let confirmed = finished(&mut chancery(&["confirm", "--all", "--admin", &admin]));
    assert!(confirmed.status.success(), "{confirmed:?}");
    assert!(!server.clusters("n").contains("\"a\""));
    server.log_has("all faults are repaired");
    // A server that is started with it does not know that there ever was something.
    dir_write(&dir, "a.yaml", "");
    let mut server = Server::start(&dir, &[]);
    server.log_has("WARN");
    assert!(server.log().contains("a.yaml: says nothing"), "{}", server.log());
}

#[test]
fn everything_is_held_back_when_all_files_are_gone() {
    let files = ["a.yaml", "groups/g/b.yaml", "nodes/n/c.yaml"];
    let dir = directory(&files.map(|file| (file, "[]\n")));
    // It is loaded when it is told to, so that all files are gone at once.
    dir_write(&dir, "chancery.yaml", "watch: sweeps\nlimits: {sweep: 1h}\n");
    let mut server = Server::start(&dir, &[]);
    server.signal("HUP");
    server.log_has("nothing has changed");
    let config = |server: &Server| -> Value {
        let shown = serde_json::from_str(&server.admin("/api/v1/config").1);
        shown.unwrap()
    };
    assert_eq!(config(&server)["held_back"], serde_json::json!([]));
    for below in ["groups", "nodes"] {
        fs::rename(dir.path().join(below), dir.path().join(format!(".{below}"))).unwrap();
    }
    fs::rename(dir.path().join("a.yaml"), dir.path().join(".a.yaml")).unwrap();
    server.signal("HUP");
    server.log_has("holds no files any more, where there were 3");
    eventually(|| {
        let shown = config(&server);
        let why = shown["everything_held_back"].as_str().unwrap_or_default();
        shown["held_back"] == serde_json::json!(["base", "group `g`", "node `n`"])
            && why.contains("holds no files any more")
    });
    for file in ["groups", "nodes", "a.yaml"] {
        fs::rename(dir.path().join(format!(".{file}")), dir.path().join(file)).unwrap();
    }
    server.signal("HUP");
    eventually(|| {
        let shown = config(&server);
        shown["held_back"] == serde_json::json!([]) && shown.get("everything_held_back").is_none()
    });
}

#[test]
fn a_configuration_that_is_cut_to_nothing_goes_on_refusing() {
    let dir = directory(&[("a.yaml", &cluster("a", 1)), ("chancery.yaml", "unmatched: refuse\n")]);
    let mut server = Server::start(&dir, &[]);
    let ask = |server: &Server| server.post("clusters", "{\"node\": {\"id\": \"n\"}}").0;
    assert_eq!(ask(&server), 403);
    for nothing in ["", "# unmatched: refuse\n"] {
        dir_write(&dir, "chancery.yaml", nothing);
        server.log_has("chancery.yaml cannot be used, what was in force stays");
        eventually(|| server.admin("/metrics").1.contains("\nchancery_config_faulty 1\n"));
        eventually(|| server.admin("/api/v1/config").1.contains("the file says nothing"));
        assert_eq!(ask(&server), 403);
        dir_write(&dir, "chancery.yaml", "unmatched: refuse\nanonymous: refuse\n");
        eventually(|| server.admin("/metrics").1.contains("\nchancery_config_faulty 0\n"));
    }
    dir_write(&dir, "chancery.yaml", "{}\n");
    eventually(|| ask(&server) == 200);
    // At the start it is no different.
    dir_write(&dir, "chancery.yaml", "");
    let refused = serve(dir.path(), &[]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(text(&refused.stderr).contains("write `{}`"), "{refused:?}");
}

#[test]
fn a_pipe_in_place_of_a_file_is_refused_while_the_server_goes_on() {
    let dir = directory(&[
        ("a.yaml", &cluster("a", 1)),
        ("groups/g/b.yaml", &cluster("b", 1)),
        ("chancery.yaml", "groups: [{name: g, match: {id: in-g}}]\n"),
    ]);
    let mut server = Server::start(&dir, &[]);
    let replace = |file: &str| {
        fifo(&dir.path().join("pipe"));
        fs::rename(dir.path().join("pipe"), dir.path().join(file)).unwrap();
    };
    replace("chancery.yaml");
    server.log_has("chancery.yaml: is a FIFO, not a regular file");
    replace("groups/g/b.yaml");
    server.log_has("b.yaml: is a FIFO, not a regular file");
    // Others get their changes, and those that use the file keep what they have.
    dir_write(&dir, "a.yaml", &cluster("other", 1));
    eventually(|| server.clusters("n").contains("other"));
    let kept = server.clusters("in-g");
    assert!(kept.contains("\"a\"") && kept.contains("\"b\""), "{kept}");
    server.signal("TERM");
    server.ends_well();
}

#[test]
fn what_is_no_regular_file_is_refused_at_the_start_by_its_kind() {
    let dir = directory(&[("a.yaml", &cluster("a", 1))]);
    let pipe = dir.path().join("pipe");
    fifo(&pipe);
    let pipe = pipe.to_str().unwrap();
    let [cert, key] = &certificate(&dir);
    for flags in [
        &["--tls-cert", pipe, "--tls-key", pipe][..],
        &["--tls-cert", "/dev/zero", "--tls-key", "/dev/zero"],
        &["--tls-cert", cert, "--tls-key", key, "--tls-client-ca", pipe],
        &["--tls-cert", cert, "--tls-key", key, "--tls-client-ca", cert, "--tls-client-crl", pipe],
        &["--descriptor-set", pipe],
        &["--descriptor-set", "/dev/zero"],
    ] {
        let refused = serve(dir.path(), flags);
        assert_eq!(refused.status.code(), Some(2), "{flags:?}: {refused:?}");
        assert!(text(&refused.stderr).contains("not a regular file"), "{flags:?}: {refused:?}");
    }
    let asked = finished(&mut chancery(&["get", "cds", "--bootstrap", pipe]));
    assert!(text(&asked.stderr).contains("is a FIFO, not a regular file"), "{asked:?}");
    let resumed = ["watch", "cds", "--server", "127.0.0.1:1", "--resume", pipe];
    let resumed = finished(&mut chancery(&resumed));
    assert!(text(&resumed.stderr).contains("is a FIFO, not a regular file"), "{resumed:?}");
    for (file, code) in [("b.yaml", 1), ("chancery.yaml", 2)] {
        let dir = directory(&[("a.yaml", &cluster("a", 1))]);
        fifo(&dir.path().join(file));
        let refused = serve(dir.path(), &[]);
        assert_eq!(refused.status.code(), Some(code), "{file}: {refused:?}");
        assert!(text(&refused.stderr).contains("is a FIFO, not a regular file"), "{refused:?}");
    }
}

#[test]
fn a_certificate_that_becomes_a_pipe_leaves_the_old_one_and_the_signals() {
    let dir = directory(&[("conf/a.yaml", &cluster("a", 1))]);
    let [cert, key] = &certificate(&dir);
    let flags = ["--tls-cert", cert, "--tls-key", key];
    let mut server = Server::start_at(&dir.path().join("conf"), &flags);
    fs::remove_file(cert).unwrap();
    fifo(Path::new(cert));
    server.signal("HUP");
    server.log_has("certificates were not replaced, the old ones stay");
    assert!(server.log().contains("is a FIFO, not a regular file"), "{}", server.log());
    server.signal("TERM");
    server.ends_well();
}

#[test]
fn of_many_faults_twenty_are_told_and_all_are_counted() {
    let unknown: String = (0..20_000).map(|line| format!("x{line}: 1\n")).collect();
    let faulty = cluster("b", 1) + &unknown;
    let dir = directory(&[("good.yaml", &cluster("a", 1)), ("groups/g/b.yaml", &faulty)]);
    let refused = serve(dir.path(), &["--allow-partial=false"]);
    let told = text(&refused.stderr);
    assert_eq!((refused.status.code(), told.matches("error: ").count()), (Some(1), 20), "{told}");
    assert!(told.contains("and 19980 more faults (") && told.contains("b.yaml: 19980)"), "{told}");
    assert!(told.contains("the configuration has 20000 faults"), "{told}");
    let mut server = Server::start(&dir, &[]);
    server.log_has("and 19980 more faults (");
    assert_eq!(server.log().matches("unknown field").count(), 20);
    let config: Value = serde_json::from_str(&server.admin("/api/v1/config").1).unwrap();
    assert_eq!(
        (&config["fault_count"], config["faults"].as_array().unwrap().len()),
        (&20_000.into(), 100)
    );
    assert_eq!(config["more_faults"][0]["faults"], 19_900);
    assert!(server.admin("/metrics").1.contains("\nchancery_faults 20000\n"));
    assert!(server.admin("/ready").1.contains("with faults: 20000"));
}

#[test]
fn no_line_of_a_file_outside_of_the_directory_is_shown() {
    // S-138
    let shadow = "root:$6$hash:19000:0:99999:7:::\n";
    let dir = directory(&[("conf/a.yaml", &cluster("a", 1)), ("shadow", shadow)]);
    let conf = dir.path().join("conf");
    for link in ["chancery.yaml", "b.yaml", "c.json", "d.pb_text", "e.pb"] {
        symlink("../shadow", conf.join(link)).unwrap();
        let refused = serve(&conf, &[]);
        let told = text(&refused.stderr);
        assert!(refused.status.code() == Some(1) && told.contains(link), "{told}");
        assert!(!told.contains("hash") && !told.contains("root"), "{told}");
        fs::remove_file(conf.join(link)).unwrap();
    }
}
