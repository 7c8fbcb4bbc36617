//! Attacks on secrets: who is given one, by which way, and with which certificate.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::time::sleep;
use tokio_rustls::TlsConnector;

use super::logs::{KEY, private_key};
use crate::attack::{Attack, LONGEST};
use crate::setup::Setup;
use crate::stage::{PATIENCE, Stage};
use crate::wire::grpc::{Call, Http2, READS};
use crate::wire::http1::exchange;
use crate::wire::message::Sotw;
use crate::wire::raw::Raw;
use crate::wire::tls::{Authority, authority, connect};
use crate::wire::{ATTACKER, CDS, ECDS, POLL};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "stranger-inline-key",
        about: "a stranger without TLS asks for a cluster with a private key in it",
        setup: |setup| stranger(setup, private_key),
        run: |stage| Box::pin(stranger_asks(stage, CDS, "keyed")),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "stranger-typed-secret",
        about: "a stranger without TLS asks for an extension whose configuration is a secret",
        setup: |setup| stranger(setup, typed_secret),
        run: |stage| Box::pin(stranger_asks(stage, ECDS, "hidden")),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "rebinding-rest",
        about: "a web page polls over REST, as a browser would for it",
        setup: |_| {},
        run: |stage| Box::pin(rebinding_rest(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "rebinding-admin",
        about: "a web page whose name leads to loopback reads the admin interface",
        setup: |_| {},
        run: |stage| Box::pin(rebinding_admin(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "mtls",
        about: "clients without a certificate, with one of another authority, and without TLS ask",
        setup: tls,
        run: |stage| Box::pin(mtls(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "tls-resumed-after-expiry",
        about: "a client resumes a session of TLS after its certificate has expired",
        setup: tls,
        run: |stage| Box::pin(resumed(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "handshakes-stalled",
        about: "300 connections begin a handshake of TLS and say nothing more",
        setup: tls,
        run: |stage| Box::pin(handshakes(stage)),
        growth: 100,
        in_ci: false,
    },
    Attack {
        name: "unix-over-file",
        about: "the server is told to listen at the path of a regular file",
        setup: over_file,
        run: |stage| Box::pin(over_file_kept(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "unix-mode",
        about: "other users of the machine look for a Unix socket whose mode lets them connect",
        setup: |setup| setup.flags.extend(["--listen".into(), "unix:DIR/socket".into()]),
        run: |stage| Box::pin(unix_mode(stage)),
        growth: 100,
        in_ci: true,
    },
];

/// An address of this machine that is not loopback, if it has one. No packet is sent to learn it,
/// and those to it do not leave the machine.
fn outside() -> Option<SocketAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().filter(|address| !address.ip().is_loopback())
}

fn stranger(setup: &mut Setup, files: fn(&mut Setup)) {
    files(setup);
    if let Some(address) = outside() {
        setup.flags.extend(["--listen".to_owned(), format!("{}:PORT", address.ip())]);
    }
}

fn typed_secret(setup: &mut Setup) {
    let secret = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
    setup.file(
        "hidden.json",
        format!(
            "{{\"@type\": \"{ECDS}\", \"name\": \"hidden\", \"typedConfig\": {{\"@type\": \
             \"{secret}\", \"name\": \"s\", \"genericSecret\": {{\"secret\": {{\"inlineString\": \
             \"{KEY}\"}}}}}}}}"
        ),
    );
}

async fn stranger_asks(stage: &Stage, type_url: &str, name: &str) -> Result<String> {
    let Some(outside) = outside() else {
        return Ok("NOT MADE: this machine has no address but those of loopback".to_owned());
    };
    let to = SocketAddr::new(outside.ip(), stage.xds().port());
    let connection = Http2::connect(ATTACKER, to, READS).await?;
    let mut call = connection.sotw(&Sotw::first("stranger", type_url, [name])).await?;
    match call.message_within(Duration::from_secs(5)).await {
        Ok(response) => {
            let has_key = response.windows(KEY.len()).any(|part| part == KEY.as_bytes());
            ensure!(!has_key, "the stranger has the key");
            bail!("the stranger was answered without `{name}`, as if it were removed")
        }
        Err(refusal) => {
            let refusal = refusal.to_string();
            ensure!(refusal.starts_with("PERMISSION_DENIED"), "the stranger is told: {refusal}");
            Ok(refusal)
        }
    }
}

async fn rebinding_rest(stage: &Stage) -> Result<String> {
    let line = format!("POST {POLL}");
    let body = "{\"node\": {\"id\": \"page\"}}";
    let ask = |headers: &'static [(&'static str, &'static str)]| {
        exchange(ATTACKER, stage.xds(), &line, headers, body, PATIENCE)
    };
    let page = ask(&[("origin", "http://page.example"), ("host", "page.example")]).await?;
    let envoy = ask(&[("host", "xds_cluster")]).await?;
    ensure!(page.status == 403, "a page with an origin is answered {}", page.status);
    ensure!(envoy.status == 200, "an Envoy is answered {}", envoy.status);
    Ok("403 with an origin, 200 for the name of a cluster".to_owned())
}

async fn rebinding_admin(stage: &Stage) -> Result<String> {
    let ask = |host: &'static str| async move {
        let headers = [("host", host)];
        let answer =
            exchange(ATTACKER, stage.admin(), "GET /api/v1/config", &headers, "", PATIENCE).await;
        answer.map(|answer| answer.status)
    };
    ensure!(ask("localhost:18080").await? == 200, "`localhost` is refused");
    ensure!(ask("127.0.0.1").await? == 200, "an address is refused");
    let page = ask("page.example").await?;
    ensure!(page == 403, "a page is answered {page}");
    Ok("403 for a name that is not its own".to_owned())
}

/// A server that only clients with a certificate of our authority may connect to.
pub(super) fn tls(setup: &mut Setup) {
    setup.speaks_tls = true;
    let files = authority().and_then(Authority::files);
    for (name, content) in files.unwrap_or_default() {
        setup.file(&format!(".tls/{name}"), content);
    }
    let flags = ["--tls-cert", "DIR/.tls/cert.pem", "--tls-key", "DIR/.tls/key.pem"];
    setup.flags.extend(flags.map(str::to_owned));
    setup.flags.extend(["--tls-client-ca".to_owned(), "DIR/.tls/ca.pem".to_owned()]);
}

/// Asks over TLS; the answer shows that the server took the client's certificate.
pub(super) async fn asks(stage: &Stage, connector: &TlsConnector) -> Result<(Http2, Call)> {
    let io = connect(connector, ATTACKER, stage.xds()).await?;
    let connection = Http2::over(io, READS).await?;
    let mut call = connection.sotw(&Sotw::first("client", CDS, ["innocent"])).await?;
    call.message_within(Duration::from_secs(15)).await?;
    Ok((connection, call))
}

async fn mtls(stage: &Stage) -> Result<String> {
    let ours = authority()?;
    let good = ours.sign(Duration::from_secs(600))?;
    asks(stage, &ours.client(Some(&good))?).await.context("a client with a certificate")?;
    let bad = Authority::new()?.sign(Duration::from_secs(600))?;
    ensure!(asks(stage, &ours.client(None)?).await.is_err(), "no certificate is enough");
    ensure!(asks(stage, &ours.client(Some(&bad))?).await.is_err(), "any certificate is enough");
    let mut raw = Raw::dial(stage.xds()).await?;
    raw.write(format!("POST {POLL} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await;
    let answer = raw.read_to_end(Duration::from_secs(5)).await;
    ensure!(answer.statuses().is_empty(), "it answers without TLS");
    Ok("only those with its authority's certificate are served".to_owned())
}

async fn resumed(stage: &Stage) -> Result<String> {
    let life = Duration::from_secs(3);
    let identity = authority()?.sign(life)?;
    let connector = authority()?.client(Some(&identity))?;
    asks(stage, &connector).await.context("while the certificate is good")?;
    sleep(life + Duration::from_secs(1)).await;
    ensure!(asks(stage, &connector).await.is_err(), "an expired client is served");
    Ok("the expired client is refused".to_owned())
}

async fn handshakes(stage: &Stage) -> Result<String> {
    let identity = authority()?.sign(Duration::from_secs(600))?;
    let connector = authority()?.client(Some(&identity))?;
    asks(stage, &connector).await.context("before the attack")?;
    let mut open = Vec::new();
    for _ in 0..300 {
        let mut raw = stage.raw().await?;
        // The head of a record of TLS whose content does not come.
        raw.write(&[22, 3, 1, 2, 0]).await;
        open.push(raw);
    }
    stage.metric_reaches("chancery_connections", 300.0, PATIENCE).await?;
    let begin = Instant::now();
    asks(stage, &connector).await.context("beside the attack")?;
    ensure!(begin.elapsed() < LONGEST, "a client waited {:.1} s", begin.elapsed().as_secs_f64());
    Ok(format!("a client waited {:.0} ms", begin.elapsed().as_secs_f64() * 1e3))
}

fn over_file(setup: &mut Setup) {
    setup.is_alone = true;
    setup.file(".precious", "precious");
    setup.flags.extend(["--listen".to_owned(), "unix:DIR/.precious".to_owned()]);
}

async fn over_file_kept(stage: &Stage) -> Result<String> {
    // It is either ready or ends, and both show that it has looked at the path.
    let ready = stage.is_ready().await.is_ok();
    let kept = fs::read(stage.dir().join(".precious")).is_ok_and(|text| text == b"precious");
    ensure!(kept, "the file is gone");
    Ok(if ready { "it serves elsewhere" } else { "it does not start" }.to_owned())
}

async fn unix_mode(stage: &Stage) -> Result<String> {
    let metadata = tokio::fs::metadata(stage.dir().join("socket")).await?;
    let mode = metadata.permissions().mode() & 0o777;
    ensure!(mode == 0o600, "its mode lets others connect: {mode:o}");
    Ok(format!("its mode is {mode:o}"))
}
