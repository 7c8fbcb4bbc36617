//! Watches without a value, and what they hear when their server dies: over every kind of stream,
//! over REST and from files (gRFC A88).

use std::time::Duration;

use chancery_client::options::Variant;
use chancery_client::{Event, Options, Watch};
use chancery_testkit::TestServer;
use tokio::task::JoinSet;

use crate::watching::{Cluster, client, clusters, heard, quick, server, snapshot, within};

/// A server's word is waited for as long as such a server needs.
fn hasty(options: Options) -> Options {
    let mut options = options;
    options.settings.missing_after = Duration::from_millis(300);
    options
}

/// The kind of what is wrong with a resource that has no value.
async fn trouble(watch: &mut Watch<Cluster>) -> String {
    match within(watch.next()).await.unwrap() {
        Event::Changed { name, value: Err(error) } => format!("{name} none {:?}", error.kind),
        event => panic!("{event:?}"),
    }
}

/// The next trouble that is another one than before. An answer that was on its way while another name was asked for
/// comes a second time, and says again what it said.
async fn next_trouble(watch: &mut Watch<Cluster>, before: &str) -> String {
    loop {
        let told = trouble(watch).await;
        if told != before {
            return told;
        }
    }
}

/// A resource is missing and another one is rejected, and then the server dies.
async fn die(uri: &'static str, testing: TestServer, options: Options) {
    let client =
        client(vec![server(uri.replace("ADDRESS", &testing.address().to_string()))], options);
    let mut bad = client.watch::<Cluster>("bad");
    let mut gone = client.watch_raw(&clusters(), "gone");
    assert_eq!(trouble(&mut bad).await, "bad none Rejected");
    let told = heard(&mut gone).await;
    assert!(["gone none Missing", "gone none Refused(5)"].contains(&&*told), "{told}");
    testing.stop().await;
    assert_eq!(next_trouble(&mut bad, "bad none Rejected").await, "bad none Unreachable");
    assert_eq!(heard(&mut gone).await, "gone none Unreachable");
    let mut late = client.watch_raw(&clusters(), "gone");
    assert_eq!(heard(&mut late).await, "gone none Unreachable");
}

/// C-067, C-070
#[tokio::test]
async fn every_kind_of_stream_tells_a_watcher_without_a_value() {
    let mut dying = JoinSet::new();
    for variant in [Variant::Sotw, Variant::Delta] {
        for aggregated in [true, false] {
            let testing = TestServer::start(snapshot(&[("bad", "1")])).await.unwrap();
            dying.spawn(die("ADDRESS", testing, hasty(Options { variant, aggregated, ..quick() })));
        }
    }
    dying.join_all().await;
}

/// C-044, C-067
#[tokio::test]
async fn polls_tell_a_watcher_without_a_value() {
    let testing = TestServer::start(snapshot(&[("bad", "1")])).await.unwrap();
    let rest_refresh = Duration::from_millis(20);
    die("http://ADDRESS", testing, hasty(Options { rest_refresh, ..quick() })).await;
}

/// C-043, C-067
#[tokio::test]
async fn files_tell_a_watcher_without_a_value() {
    let dir = tempfile::tempdir().unwrap();
    let (path, aside) = (dir.path().join("xds"), dir.path().join("aside"));
    std::fs::create_dir(&path).unwrap();
    let any = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
    std::fs::write(path.join("cds.yaml"), format!("- \"@type\": {any}\n  name: bad\n")).unwrap();
    let options = hasty(Options { file_refresh: Duration::from_millis(20), ..quick() });
    let client = client(vec![server(format!("file://{}", path.display()))], options);
    let mut bad = client.watch::<Cluster>("bad");
    let mut gone = client.watch_raw(&clusters(), "gone");
    assert_eq!(trouble(&mut bad).await, "bad none Rejected");
    assert_eq!(heard(&mut gone).await, "gone none Missing");
    std::fs::rename(&path, &aside).unwrap();
    assert_eq!(next_trouble(&mut bad, "bad none Rejected").await, "bad none Unreachable");
    assert_eq!(heard(&mut gone).await, "gone none Unreachable");
}
