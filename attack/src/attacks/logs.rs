//! Attacks by the log: pipes that nobody reads, and texts of peers that get into it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::attack::Attack;
use crate::setup::Setup;
use crate::stage::{PATIENCE, Stage};
use crate::wire::grpc::{Call, Http2, READS};
use crate::wire::message::{Delta, Fields, Sotw, node, rejection, text};
use crate::wire::{ADS_DELTA, CDS};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "log-unread",
        about: "2,000 short streams while nobody reads the log, which has 64 KiB",
        setup: log_unread_setup,
        run: |stage| Box::pin(log_unread(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "nack-2mb",
        about: "four rejections have a text of 2 MB",
        setup: |_| {},
        run: |stage| Box::pin(long_nacks(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "nack-loop",
        about: "a stream rejects what it was sent, again and again",
        setup: |_| {},
        run: |stage| Box::pin(nack_loop(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "nack-nodes",
        about: "10,000 streams of one connection reject as another node each",
        setup: |_| {},
        run: |stage| Box::pin(nack_nodes(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "nack-private-key",
        about: "a rejection quotes the private key of the cluster that it rejects",
        setup: private_key,
        run: |stage| Box::pin(nack_private_key(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "nack-escapes",
        about: "rejections and node ids hold escapes for terminals, C1 bytes and bidi overrides",
        setup: |_| {},
        run: |stage| Box::pin(escapes(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "nack-escapes-json",
        about: "the same, where the log is JSON",
        setup: |setup| setup.flags.extend(["--log-format".into(), "json".into()]),
        run: |stage| Box::pin(escapes(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "name-escapes",
        about: "names of files, keys and resources in faults hold escapes and bidi overrides",
        setup: |setup| setup.file("groups/other/a.json", "[]"),
        run: |stage| Box::pin(name_escapes(stage)),
        growth: 100,
        in_ci: true,
    },
];

/// A stream, its connection, its first request, and the first response to it.
struct Answered {
    call: Call,
    request: Sotw,
    response: bytes::Bytes,
    _connection: Http2,
}

async fn answered(stage: &Stage, request: Sotw) -> Result<Answered> {
    let connection = stage.http2(READS).await?;
    let mut call = connection.sotw(&request).await?;
    let response = call.message_within(PATIENCE).await?;
    Ok(Answered { call, request, response, _connection: connection })
}

impl Answered {
    fn reject(&mut self, error: &str) -> Result<()> {
        self.call.send(&self.request.answer(&self.response, Some(error)).encode())
    }
}

fn log_unread_setup(setup: &mut Setup) {
    setup.is_log_unread = true;
    setup.config = "log: {buffer: 64KiB}\n".to_owned();
}

async fn log_unread(stage: &Stage) -> Result<String> {
    let streams = stage.scale(2_000, 800);
    // A long name, so that the lines fill the pipe and the buffer behind it.
    let request = Sotw::first(&format!("attacker-{}", "x".repeat(200)), CDS, ["innocent"]);
    let mut connection = stage.http2(READS).await?;
    for at in 1..=streams {
        // No connection has used up the lines that it may write at once.
        if at % 200 == 0 {
            connection = stage.http2(READS).await?;
        }
        let mut call = connection.sotw(&request).await?;
        let response = call.message_within(Duration::from_secs(15)).await?;
        call.send(&request.answer(&response, Some("no")).encode())?;
        call.reset();
    }
    stage.metric_reaches("chancery_log_lines_dropped_total", 1.0, PATIENCE).await?;
    stage.serves_others().await?;
    let dropped = stage.metric("chancery_log_lines_dropped_total").await?;
    Ok(format!("{streams} streams were answered, and {dropped} lines dropped"))
}

/// The longest line of a log, whatever a peer says.
const LINE: usize = 32 * 1024;

async fn long_nacks(stage: &Stage) -> Result<String> {
    let mut streams = Vec::new();
    for at in 0..4 {
        let request = Sotw::first(&format!("attacker-{at}"), CDS, ["innocent"]);
        streams.push(answered(stage, request).await?);
    }
    for stream in &mut streams {
        stream.reject(&"x".repeat(2_000_000))?;
    }
    stage.metric_reaches("chancery_nacks_total", 4.0, PATIENCE).await?;
    for at in 0..4 {
        stage.log.has(&format!("attacker-{at}")).await?;
    }
    stage.serves_others().await?;
    let longest = stage.log.text().lines().map(str::len).max().unwrap_or(0);
    ensure!(longest <= LINE, "a line of the log has {longest} bytes");
    Ok(format!("the longest line has {longest} bytes"))
}

/// The lines that repeated rejections by one node may make.
const LINES: usize = 200;

async fn nack_loop(stage: &Stage) -> Result<String> {
    let connection = stage.http2(READS).await?;
    let mut call = connection.stream(ADS_DELTA).await?;
    let mut request = Delta::first("attacker", CDS, ["innocent"]);
    let (rejections, begin) = (stage.scale(20_000, 2_000), Instant::now());
    let mut made = 0;
    while made < rejections && begin.elapsed() < 4 * stage.seconds() {
        call.send(&request.encode())?;
        let response = call.message_within(PATIENCE).await?;
        // A name that is subscribed to once more is sent once more, and so on without end.
        let (nonce, error) = (text(&response, 5), Some(rejection("no")));
        request = Delta { node: None, nonce, error, ..request };
        made += 1;
    }
    // The line about another node comes after all of those.
    let mut last = answered(stage, Sotw::first("the-last", CDS, ["innocent"])).await?;
    last.reject("no")?;
    stage.log.has("the-last").await?;
    let lines = stage.log.text().lines().filter(|line| line.contains("attacker")).count();
    ensure!(lines >= 1, "{made} rejections made no line");
    ensure!(lines <= LINES, "{made} rejections made {lines} lines");
    Ok(format!("{made} rejections, {lines} lines"))
}

/// The lines that one connection may write at once, and those of the seconds of the attack.
const OF_CONNECTION: usize = 2_000 + 200;

async fn nack_nodes(stage: &Stage) -> Result<String> {
    let connection = stage.http2(READS).await?;
    let streams = stage.scale(10_000, 3_000);
    for at in 0..streams {
        let request = Sotw::first(&format!("flood-{at}"), CDS, ["innocent"]);
        let mut call = connection.sotw(&request).await?;
        let response = call.message_within(PATIENCE).await?;
        call.send(&request.answer(&response, Some("no")).encode())?;
        // The server has read the rejection when it answers this, and then the stream may end.
        let more = Sotw { names: vec!["edited".to_owned()], ..request.answer(&response, None) };
        call.send(&more.encode())?;
        call.message_within(PATIENCE).await?;
    }
    let mut last = answered(stage, Sotw::first("the-last", CDS, ["innocent"])).await?;
    last.reject("no")?;
    stage.log.has("the-last").await?;
    // Lines about streams that open and close have a bound of their own.
    let is_rejection = |line: &&str| line.contains("flood-") && line.contains("rejected");
    let lines = stage.log.text().lines().filter(is_rejection).count();
    ensure!(lines >= 100, "{streams} nodes made {lines} lines");
    ensure!(lines <= OF_CONNECTION, "{streams} nodes made {lines} lines");
    Ok(format!("{streams} nodes, {lines} lines"))
}

/// A text that stands for a private key.
pub(super) const KEY: &str = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49";

/// A cluster with a private key in it.
pub(super) fn private_key(setup: &mut Setup) {
    let kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3";
    let key = format!("-----BEGIN PRIVATE KEY-----\\n{KEY}\\n-----END PRIVATE KEY-----\\n");
    let cluster = format!(
        "{{\"@type\": \"{CDS}\", \"name\": \"keyed\", \"transportSocket\": {{\"name\": \"tls\", \
         \"typedConfig\": {{\"@type\": \"{kind}.UpstreamTlsContext\", \"commonTlsContext\": \
         {{\"tlsCertificates\": [{{\"certificateChain\": {{\"filename\": \"c.pem\"}}, \
         \"privateKey\": {{\"inlineString\": \"{key}\"}}}}]}}}}}}}}"
    );
    setup.file("keyed.json", cluster);
}

/// The ways to write a character of the key.
const FORMS: [fn(char) -> String; 5] = [
    |char| char.to_string(),
    |char| format!("\\{:03o}", u32::from(char)),
    |char| format!("\\x{:02x}", u32::from(char)),
    |char| format!("\\u{:04x}", u32::from(char)),
    |char| format!("%{:02X}", u32::from(char)),
];

/// Texts with the key in them, whole, in part, and where a text may be cut.
fn quotes() -> Vec<String> {
    let mut quotes = vec![
        format!("keyed: private_key {{ inline_string: \"-----BEGIN PRIVATE KEY-----\n{KEY}\n"),
        format!("keyed: \\\"-----BEGIN PRIVATE KEY-----\\\\n{KEY}\\\\n"),
        format!("half of it: {}", &KEY[..20]),
    ];
    quotes.extend(FORMS.map(|form| KEY.chars().map(form).collect()));
    quotes.extend([236, 496, 1_004, 2_028, 4_076].map(|size| format!("{}{KEY}", "x".repeat(size))));
    quotes
}

async fn nack_private_key(stage: &Stage) -> Result<String> {
    let quotes = quotes();
    let mut streams = Vec::new();
    for (at, quote) in quotes.iter().enumerate() {
        let request = Sotw::first(&format!("quoter-{at}."), CDS, ["keyed"]);
        let mut stream = answered(stage, request).await?;
        stream.reject(quote)?;
        streams.push(stream);
    }
    stage.metric_reaches("chancery_nacks_total", quotes.len() as f64, PATIENCE).await?;
    for at in 0..quotes.len() {
        stage.log.has(&format!("quoter-{at}.")).await?;
    }
    stage.log.has("[redacted]").await?;
    let log = stage.log.text();
    for form in FORMS {
        for at in 0..=KEY.len() - 12 {
            let part: String = KEY[at..at + 12].chars().map(form).collect();
            ensure!(!log.contains(&part), "`{part}` of the key is in the log");
        }
    }
    Ok(format!("{} quotes of the key, none in the log", quotes.len()))
}

/// Texts that no line of a log may hold as they are.
const ESCAPES: [&str; 5] = ["\u{1b}[2J", "\u{202e}", "\u{9b}31m", "\r", "\u{2066}"];

async fn escapes(stage: &Stage) -> Result<String> {
    let mut streams = Vec::new();
    for (at, escape) in ESCAPES.iter().enumerate() {
        let named = Sotw {
            node: Some(Fields::of(|fields| {
                fields.text(1, format!("id-{at}.{escape}"));
                fields.text(2, format!("group{escape}"));
            })),
            ..Sotw::first("", CDS, ["innocent".to_owned(), format!("name{escape}")])
        };
        let mut stream = answered(stage, named).await?;
        stream.reject(&format!("text{escape}"))?;
        let typed = Sotw { node: Some(node("n")), ..Sotw::first("", &format!("t{escape}"), ["a"]) };
        stream.call.send(&typed.encode())?;
        streams.push(stream);
    }
    stage.metric_reaches("chancery_nacks_total", ESCAPES.len() as f64, PATIENCE).await?;
    none_is_logged(stage, "id").await
}

async fn name_escapes(stage: &Stage) -> Result<String> {
    for (escape, at) in ESCAPES.iter().zip(0_u32..) {
        let fault = format!(
            "- {{\"@type\": \"{CDS}\", \"name\": \"n{escape}\", \"key{escape}\": 1}}\n- \"text{escape}\"\n"
        );
        stage.write(&format!("groups/other/file-{at}.{escape}.yaml"), fault)?;
        stage.metric_reaches("chancery_faults", f64::from(at + 1), PATIENCE).await?;
    }
    none_is_logged(stage, "file").await
}

/// Waits for the line about each of the texts, and looks for the texts as they are.
async fn none_is_logged(stage: &Stage, named: &str) -> Result<String> {
    for at in 0..ESCAPES.len() {
        stage.log.has(&format!("{named}-{at}.")).await?;
    }
    let log = stage.log.text();
    for escape in ESCAPES {
        ensure!(!log.contains(escape), "{escape:?} is in the log as it is");
    }
    Ok(format!("{} lines, and none is in the log as it is", ESCAPES.len()))
}
