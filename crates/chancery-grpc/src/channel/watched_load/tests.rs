//! Streams of reports over a connection in memory, in the time of the test.

use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use chancery_core::client::load::OrcaReport;
use http::HeaderMap;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::client::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::codegen::tokio_stream::{StreamExt, iter, pending};

use super::*;

/// Longer than anybody waits, in the time of the test.
const HOUR: Duration = Duration::from_secs(3600);
/// `cpu_utilization: 0.5`.
const HALF: &[u8] = &[9, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f];

/// The answer of a server to one stream.
type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Hears of reports: when one comes, and of its processor.
#[derive(Debug)]
struct Hearing(mpsc::Sender<(Duration, Option<f64>)>);

impl LoadWatcher for Hearing {
    fn reported(&self, report: &OrcaReport, now: Time) {
        self.0.try_send((now.0, report.cpu_utilization)).expect("there is room");
    }
}

/// A server, and somebody who wants its reports.
struct Play {
    /// When streams are asked for, and with which requests.
    asked: mpsc::Receiver<(Duration, Bytes)>,
    heard: mpsc::Receiver<(Duration, Option<f64>)>,
    _watched: WatchedLoad,
}

impl Play {
    /// Each stream is answered with what this function makes of its number, from 0.
    async fn with(answer: fn(usize) -> Answer) -> Self {
        let ((io, peer), began) = (tokio::io::duplex(1 << 20), Instant::now());
        let (asking, asked) = mpsc::channel(100);
        let count = Arc::<AtomicUsize>::default();
        let service = service_fn(move |request: Request<Incoming>| {
            let (asking, count) = (asking.clone(), Arc::clone(&count));
            async move {
                assert_eq!(*request.uri(), *format!("http://orders{STREAM_CORE_METRICS}"));
                let body = request.into_body().collect().await.expect("a request").to_bytes();
                asking.try_send((began.elapsed(), body)).expect("there is room");
                Ok::<_, Infallible>(answer(count.fetch_add(1, Ordering::Relaxed)))
            }
        });
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        tokio::spawn(server.serve_connection(TokioIo::new(peer), service));
        let client = http2::handshake(TokioExecutor::new(), TokioIo::new(io));
        let (sender, running) = timeout(HOUR, client).await.expect("in time").expect("it is one");
        tokio::spawn(running);
        let (hearing, heard) = mpsc::channel(100);
        let period = Duration::from_millis(1_500);
        let watch = LoadWatch { period, watcher: Arc::new(Hearing(hearing)) };
        let sender = Sender::of_test(sender);
        let (authority, address) = (Authority::from_static("orders"), ([127, 0, 0, 1], 1).into());
        let watched = WatchedLoad::new(sender, authority, address, watch, began);
        Self { asked, heard, _watched: watched }
    }

    /// The time at which the next stream is asked for, if that is within an hour.
    async fn asked(&mut self) -> Option<Duration> {
        timeout(HOUR, self.asked.recv()).await.ok().flatten().map(|(time, _)| time)
    }

    /// The next streams are asked for after these times in milliseconds, each counted from the one before.
    async fn is_asked_after(&mut self, times: &[RangeInclusive<u128>]) {
        let mut last = self.asked().await.expect("a stream");
        for time in times {
            let next = self.asked().await.expect("another one");
            let passed = (next - last).as_millis();
            assert!(time.contains(&passed), "{passed} and not {time:?}");
            last = next;
        }
    }
}

fn answer(body: UnsyncBoxBody<Bytes, Infallible>) -> Answer {
    let answer = Response::builder().header("content-type", "application/grpc");
    answer.body(body).expect("an answer")
}

/// An answer with a status and nothing else.
fn status_alone(status: &'static str) -> Answer {
    let mut answer = answer(Full::default().boxed_unsync());
    answer.headers_mut().insert("grpc-status", HeaderValue::from_static(status));
    answer
}

/// Frames of a stream of messages.
fn frames(messages: &[&[u8]]) -> Vec<Result<Frame<Bytes>, Infallible>> {
    let frame = |message: &&[u8]| {
        let length = u32::try_from(message.len()).expect("a short one").to_be_bytes();
        Ok(Frame::data(Bytes::from([&[0], &length[..], message].concat())))
    };
    messages.iter().map(frame).collect()
}

/// A stream that goes on after these messages.
fn open(messages: &[&[u8]]) -> Answer {
    answer(StreamBody::new(iter(frames(messages)).chain(pending())).boxed_unsync())
}

/// A stream that ends after these messages, because the server has to do something else.
fn ended(messages: &[&[u8]]) -> Answer {
    let mut frames = frames(messages);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("14"));
    frames.push(Ok(Frame::trailers(trailers)));
    answer(StreamBody::new(iter(frames)).boxed_unsync())
}

/// C-116: a server is asked for the interval that is wanted, and each of its reports is heard.
#[tokio::test(start_paused = true)]
async fn each_report_is_heard() {
    let mut play = Play::with(|_| open(&[HALF, &[], HALF])).await;
    let (_, request) = timeout(HOUR, play.asked.recv()).await.expect("in time").expect("a stream");
    let request = OrcaLoadReportRequest::decode(&request[5..]).expect("a message");
    assert_eq!(request, OrcaLoadReportRequest::every(Duration::from_millis(1_500)));
    for expected in [Some(0.5), None, Some(0.5)] {
        let heard = timeout(HOUR, play.heard.recv()).await.expect("in time");
        assert_eq!(heard.map(|(_, cpu)| cpu), Some(expected));
    }
    assert_eq!(play.asked().await, None, "the stream goes on");
}

/// It begins again later and later, and soon after one that was of use.
#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_begins_again() {
    let mut play = Play::with(|number| match number {
        0..=1 => status_alone("14"),
        2 => ended(&[]),
        _ => ended(&[HALF]),
    })
    .await;
    let (first, second, third) = (800..=1_201, 1_280..=1_921, 2_048..=3_073);
    play.is_asked_after(&[first.clone(), second, third, first.clone(), first]).await;
    let (heard, _) = timeout(HOUR, play.heard.recv()).await.expect("in time").expect("a report");
    assert!(heard > Duration::from_secs(4), "by the time of the watcher: {heard:?}");
}

/// Nobody is asked again for what it does not have.
#[tokio::test(start_paused = true)]
async fn a_server_without_the_service_is_asked_once() {
    let mut play = Play::with(|_| status_alone("12")).await;
    assert!(play.asked().await.is_some());
    assert_eq!(play.asked().await, None);
}

/// A report that cannot be read, or is too long to be, is not heard.
#[tokio::test(start_paused = true)]
async fn a_report_that_cannot_be_read_breaks_the_stream() {
    let mut play = Play::with(|number| match number {
        0 => open(&[&[0xff; 9], HALF]),
        1 => open(&[&report_of(LONGEST_REPORT + 1), HALF]),
        _ => open(&[&report_of(LONGEST_REPORT), HALF]),
    })
    .await;
    play.is_asked_after(&[800..=1_201, 1_280..=1_921]).await;
    for expected in [None, Some(0.5)] {
        let heard = timeout(HOUR, play.heard.recv()).await.expect("in time");
        assert_eq!(heard.map(|(_, cpu)| cpu), Some(expected));
    }
    assert_eq!(play.asked().await, None);
}

/// A report of this many bytes, of a field that nobody knows.
fn report_of(length: usize) -> Vec<u8> {
    let mut report = vec![0x82, 1];
    let unknown = u64::try_from(length - HEAD).expect("it is short");
    prost::encoding::encode_varint(unknown, &mut report);
    assert_eq!(report.len(), HEAD);
    report.resize(length, 0);
    report
}

/// The bytes of the number of that field, and of its length.
const HEAD: usize = 5;
