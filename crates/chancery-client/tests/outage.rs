//! Outages of any length, in virtual time: who watches is told once, waits grow to a bound and no
//! further, and the first server that can be reached again is used.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chancery_client::bootstrap::{Address, Node, XdsServer};
use chancery_client::credentials::ChannelCredentials;
use chancery_client::dial::{Dial, DialFuture};
use chancery_client::watch::ErrorKind;
use chancery_client::{Bootstrap, Client, Event, Options, RawWatch, TypeUrl};
use tokio::time::{Instant, timeout};

use crate::stage::message::CDS;
use crate::stage::theatre::{Manner, Theatre};
use crate::stage::{door, within};

/// The way to a server that is away now and then.
struct Gate {
    inner: Arc<dyn Dial>,
    shut: AtomicBool,
    refused: Mutex<Vec<Instant>>,
}

impl Dial for Gate {
    fn dial<'a>(&'a self, address: &'a Address) -> DialFuture<'a> {
        if self.shut.load(Ordering::Relaxed) {
            self.refused.lock().unwrap().push(Instant::now());
            return Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) });
        }
        self.inner.dial(address)
    }
}

/// A server, the way to it, and a client that has a value from it.
struct Scene {
    theatre: Theatre,
    gate: Arc<Gate>,
    client: Client,
    watch: RawWatch,
}

impl Scene {
    async fn new() -> Self {
        let (door, inner) = door();
        let theatre = Theatre::new(door, Manner::Good("old"));
        let refused = Mutex::default();
        let gate = Arc::new(Gate { inner, shut: AtomicBool::new(false), refused });
        let channel = ChannelCredentials::Insecure;
        let server = XdsServer { uri: "xds.test:1".to_owned(), channel, ..XdsServer::default() };
        let node = Node { id: "test".to_owned(), ..Node::default() };
        let bootstrap = Bootstrap { servers: vec![server], node, ..Bootstrap::default() };
        let dial = Arc::clone(&gate) as Arc<dyn Dial>;
        let client = Client::new(&bootstrap, Options { dial, ..Options::default() }).unwrap();
        let mut watch = client.watch_raw(&TypeUrl::new(CDS), "a");
        assert!(matches!(within(watch.next()).await, Some(Event::Changed { value: Ok(_), .. })));
        Self { theatre, gate, client, watch }
    }

    /// The server goes away, and whoever has a value hears that it may become old.
    async fn fall(&mut self) {
        self.gate.shut.store(true, Ordering::Relaxed);
        self.theatre.act(Manner::Good("new"));
        let told = within(self.watch.next()).await.unwrap();
        let Event::Ambient { error: Some(error), .. } = told else { panic!("{told:?}") };
        assert_eq!(error.kind, ErrorKind::Unreachable);
    }

    /// The server is there again, and the new value comes as soon as the longest wait is over.
    async fn rise(&mut self) {
        self.gate.shut.store(false, Ordering::Relaxed);
        let told = timeout(LONGEST, self.watch.next()).await.expect("a wait has an end").unwrap();
        let Event::Changed { value: Ok(value), .. } = told else { panic!("{told:?}") };
        assert!(value.resource.body().ends_with(b"new"));
    }

    fn refused(&self) -> Vec<Instant> {
        self.gate.refused.lock().unwrap().clone()
    }

    /// Waits grow, and end at the longest.
    fn are_bounded(&self) {
        let refused = self.refused();
        let waits: Vec<_> = refused.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(waits.iter().all(|wait| *wait >= Duration::from_millis(800) && *wait <= LONGEST));
        let late = waits.iter().skip(15);
        assert!(late.clone().all(|wait| *wait >= Duration::from_secs(96)), "they have grown");
        assert!(late.count() > 10, "there were some");
    }
}

/// Two minutes, and a fifth more by chance.
const LONGEST: Duration = Duration::from_secs(145);

/// C-067, C-069, C-073
#[tokio::test(start_paused = true)]
async fn two_hours_without_a_server_are_told_once_and_survived() {
    let mut scene = Scene::new().await;
    scene.fall().await;
    let silence = timeout(Duration::from_secs(2 * 3600), scene.watch.next()).await;
    assert!(silence.is_err(), "there is nothing more to say: {silence:?}");
    scene.are_bounded();
    let mut late = scene.client.watch_raw(&TypeUrl::new(CDS), "b");
    let told = late.next().await.unwrap();
    assert!(matches!(told, Event::Changed { value: Err(_), .. }), "{told:?}");
    scene.rise().await;
}

/// C-069: fourteen days, in which nothing overflows, gives up or piles up.
#[tokio::test(start_paused = true)]
async fn ten_thousand_failures_in_a_row_are_survived() {
    let mut scene = Scene::new().await;
    scene.fall().await;
    while scene.refused().len() < 10_000 {
        let silence = timeout(Duration::from_secs(24 * 3600), scene.watch.next()).await;
        assert!(silence.is_err(), "there is nothing more to say: {silence:?}");
    }
    scene.are_bounded();
    scene.rise().await;
}

/// C-050, C-087: each event of an outage asks whether anything is missing, and that costs nothing.
#[tokio::test(start_paused = true)]
async fn many_watches_may_end_in_an_outage() {
    let mut scene = Scene::new().await;
    let watches: Vec<_> = (0..20_000)
        .map(|number| scene.client.watch_raw(&TypeUrl::new(CDS), &format!("other{number}")))
        .collect();
    scene.fall().await;
    drop(watches);
    let held = scene.client.resources().len();
    assert_eq!(held, 1);
    scene.rise().await;
}
