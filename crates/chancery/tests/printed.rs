//! All that is printed: no text of a server or a file gives a terminal orders.

use std::process::Output;

use chancery_core::printable::is_printable;
use tokio::task::spawn_blocking;

use crate::daemon::{chancery, directory, finished};
use crate::raw::RawServer;

/// Orders to a terminal, a mark of direction, a C1 character, a separator and an invisible one.
const ODD: &str = "x\u{1b}[31m\u{202e}\u{9b}\u{85}\u{2028}\u{200b}\r\ny";

async fn run(words: &[&str]) -> Output {
    let mut command = chancery(words);
    spawn_blocking(move || finished(&mut command)).await.unwrap()
}

#[track_caller]
fn is_plain(run: &Output) -> String {
    let text = [&run.stdout[..], &run.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    let odd = text.chars().find(|it| *it != '\n' && !is_printable(*it));
    assert_eq!(odd, None, "{text:?}");
    text
}

/// A message with a text as its first field.
fn named(name: &str) -> Vec<u8> {
    [&[0x0a, u8::try_from(name.len()).unwrap()], name.as_bytes()].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_calls_its_resources_is_escaped() {
    let bodies = [named(ODD), named(&format!("{ODD}2"))];
    let cluster = "envoy.config.cluster.v3.Cluster";
    let server = RawServer::start(&[(cluster, &bodies[0]), (cluster, &bodies[1])]).await;
    for format in ["table", "yaml", "json", "text"] {
        let got = run(&["get", "cds", "-v", "--server", &server.address, "-o", format]).await;
        let text = is_plain(&got);
        assert!(text.contains('y') && got.status.success(), "{text}");
    }
    for format in ["table", "yaml", "json", "text", "diff"] {
        let bounds = ["--count", "2", "--for", "60s"];
        let words = ["watch", "cds", "-v", "--server", &server.address, "-o", format];
        is_plain(&run(&[&words[..], &bounds].concat()).await);
    }
    let named = run(&["get", "cds", "-o", "json", "--server", &server.address]).await;
    let first = String::from_utf8(named.stdout).unwrap().lines().next().unwrap().to_owned();
    let object: serde_json::Value = serde_json::from_str(&first).unwrap();
    assert_eq!(object["name"], ODD);
}

#[tokio::test(flavor = "multi_thread")]
async fn why_there_is_no_resource_is_escaped() {
    let mut server = RawServer::start(&[(ODD, b"")]).await;
    let mut rejections = 0;
    // A command may end before it has sent its rejection.
    for _ in 0..20 {
        for words in [&["get", "cds"][..], &["get", "cds", ODD], &["watch", "cds", "--count", "1"]]
        {
            let bounds = ["--server", &server.address, "--timeout", "2s"];
            let text = is_plain(&run(&[words, &bounds].concat()).await);
            assert!(!text.is_empty());
        }
        while let Ok(rejected) = server.rejected.try_recv() {
            assert!(rejected.chars().all(is_printable), "{rejected:?}");
            rejections += 1;
        }
        if rejections > 0 {
            return;
        }
    }
    panic!("no command has sent a rejection");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_files_and_keys_are_escaped() {
    let odd = ODD.replace(['\r', '\n'], "");
    let yaml = format!(
        "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n\"{odd}\": 1\nname: {odd:?}\n"
    );
    let json = format!("{{\"{odd}\": 1, \"name\": \"{odd}\"}}");
    let (one, two) = (format!("{odd}.yaml"), format!("groups/{odd}/{odd}.json"));
    let dir = directory(&[(&one, &yaml), (&two, &json)]);
    let words = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let path = dir.path().to_str().unwrap();
    let text = is_plain(&run(&[&["serve", path][..], &words].concat()).await);
    assert!(text.contains("faults") || text.contains("fault"), "{text}");
    let dir =
        directory(&[("chancery.yaml", &format!("groups:\n- name: \"{odd}\"\n  x{odd}: 1\n"))]);
    let path = dir.path().to_str().unwrap();
    is_plain(&run(&[&["serve", path][..], &words].concat()).await);
}
