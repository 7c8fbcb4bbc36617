//! The service that reports the load of a server to clients that ask for it, beside their calls (gRFC A51). Not here:
//! its client (`channel::watched_load`).

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tonic::Status;
use tonic::codegen::{BoxFuture, tokio_stream::Stream};
use tonic::server::{Grpc, NamedService};
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::message::{OrcaLoadReport, OrcaLoadReportRequest, STREAM_CORE_METRICS};
use super::metrics::ServerMetricsProvider;

/// The service `xds.service.orca.v3.OpenRcaService`: it reports the load of a server at once, and then in intervals.
/// Servers of tonic and axum take it as they take services that are generated.
///
/// ```
/// use chancery_grpc::orca::{OpenRcaService, ServerMetricsRecorder};
///
/// let load = ServerMetricsRecorder::default();
/// load.set_cpu_utilization(0.4);
/// let service = OpenRcaService::new(load.clone());
/// // tonic::transport::Server::builder().add_service(service)
/// # let _ = service;
/// ```
#[derive(Clone)]
pub struct OpenRcaService {
    metrics: Arc<dyn ServerMetricsProvider>,
    least: Duration,
}

/// The reports of one client. One is made when it is sent, so that none wait for a client that is slow.
struct Reports {
    metrics: Arc<dyn ServerMetricsProvider>,
    timer: Interval,
}

/// A call of the method.
#[derive(Clone)]
struct StreamCoreMetrics(OpenRcaService);

impl OpenRcaService {
    /// Reports these metrics, not more often than every 30 seconds.
    pub fn new(metrics: impl ServerMetricsProvider) -> Self {
        Self { metrics: Arc::new(metrics), least: DEFAULT_LEAST }
    }

    /// Reports as often as clients ask for, but not more often than once in this interval. Less than 100 ms count as
    /// 100 ms.
    #[must_use]
    pub fn min_reporting_interval(mut self, interval: Duration) -> Self {
        self.least = interval.clamp(LEAST, LONGEST);
        self
    }

    /// Returns the time between two reports for a client that asks for this.
    fn interval(&self, request: &OrcaLoadReportRequest) -> Duration {
        let asked = request.report_interval.as_ref().and_then(|asked| {
            let (seconds, nanos) = (u64::try_from(asked.seconds), u32::try_from(asked.nanos));
            let nanos = Duration::from_nanos(nanos.ok()?.into());
            Some(Duration::from_secs(seconds.ok()?).saturating_add(nanos))
        });
        asked.map_or(self.least, |asked| asked.clamp(self.least, LONGEST))
    }
}

/// By gRFC A51.
const DEFAULT_LEAST: Duration = Duration::from_secs(30);
/// No policy takes new weights more often.
const LEAST: Duration = Duration::from_millis(100);
/// Longer than any connection lasts, and can be added to the time of now.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// The bytes of the longest request that is read.
const LONGEST_REQUEST: usize = 16 << 10;

impl NamedService for OpenRcaService {
    const NAME: &'static str = "xds.service.orca.v3.OpenRcaService";
}

impl<B> Service<Request<B>> for OpenRcaService
where
    B: Body + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
{
    type Response = Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let method = StreamCoreMetrics(self.clone());
        Box::pin(async move {
            if request.uri().path() != STREAM_CORE_METRICS {
                let known = format!("the only method is `{STREAM_CORE_METRICS}`");
                return Ok(Status::unimplemented(known).into_http());
            }
            let codec = ProstCodec::default();
            let mut server = Grpc::new(codec).max_decoding_message_size(LONGEST_REQUEST);
            Ok(server.server_streaming(method, request).await)
        })
    }
}

impl Service<tonic::Request<OrcaLoadReportRequest>> for StreamCoreMetrics {
    type Response = tonic::Response<Reports>;
    type Error = Status;
    type Future = std::future::Ready<Result<Self::Response, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: tonic::Request<OrcaLoadReportRequest>) -> Self::Future {
        let mut timer = interval(self.0.interval(request.get_ref()));
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let reports = Reports { metrics: Arc::clone(&self.0.metrics), timer };
        std::future::ready(Ok(tonic::Response::new(reports)))
    }
}

impl Stream for Reports {
    type Item = Result<OrcaLoadReport, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        ready!(self.timer.poll_tick(cx));
        let mut metrics = self.metrics.server_metrics();
        // Costs are those of a call.
        metrics.request_cost.clear();
        Poll::Ready(Some(Ok(metrics.into())))
    }
}

impl fmt::Debug for OpenRcaService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenRcaService").field("least", &self.least).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use envoy_types::pb::google::protobuf::Duration as Told;
    use http_body_util::{BodyExt, Full};
    use prost::Message;
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::orca::{ServerMetrics, ServerMetricsRecorder};

    fn asks(report_interval: Option<Told>) -> OrcaLoadReportRequest {
        OrcaLoadReportRequest { report_interval }
    }

    fn told(seconds: i64, nanos: i32) -> Option<Told> {
        Some(Told { seconds, nanos })
    }

    /// gRFC A51: a client gets what it asks for, and not more often than the server wants.
    #[test]
    fn clients_have_reports_as_often_as_the_server_wants() {
        let service = OpenRcaService::new(ServerMetrics::default);
        let seconds = |asked| service.interval(&asks(asked)).as_secs();
        for least in [None, told(0, 0), told(29, 999_999_999), told(-1, 0), told(60, -1)] {
            assert_eq!(seconds(least), 30, "{least:?}");
        }
        assert_eq!(seconds(told(61, 0)), 61);
        assert_eq!(seconds(told(i64::MAX, i32::MAX)), LONGEST.as_secs());
        for (least, expected) in [(0, 100), (100, 100), (250, 250)] {
            let service = service.clone().min_reporting_interval(Duration::from_millis(least));
            assert_eq!(service.interval(&asks(None)).as_millis(), expected);
        }
        let rarely = service.min_reporting_interval(Duration::MAX);
        assert_eq!(rarely.interval(&asks(told(1, 0))), LONGEST);
    }

    fn request(path: &str, message: &OrcaLoadReportRequest) -> Request<Full<Bytes>> {
        let message = message.encode_to_vec();
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let body = Bytes::from([&[0], &length[..], &message].concat());
        Request::post(path).body(Full::new(body)).unwrap()
    }

    /// A report is of the time at which it is sent.
    #[tokio::test(start_paused = true)]
    async fn the_first_report_comes_at_once_and_others_in_intervals() {
        let load = ServerMetricsRecorder::default();
        let mut service = OpenRcaService::new(load.clone());
        let request = request(STREAM_CORE_METRICS, &asks(told(45, 0)));
        let mut body = service.call(request).await.unwrap().into_body();
        let began = Instant::now();
        for (time, cpu) in [(0, 0.5), (45, 0.75), (90, 0.25)] {
            load.set_cpu_utilization(cpu);
            let frame = timeout(LONGEST, body.frame()).await.unwrap().unwrap().unwrap();
            let report = OrcaLoadReport::decode(&frame.into_data().unwrap()[5..]).unwrap();
            let expected = ServerMetrics { cpu_utilization: Some(cpu), ..ServerMetrics::default() };
            assert_eq!(report, OrcaLoadReport::from(expected));
            assert_eq!(began.elapsed().as_secs(), time);
        }
    }

    #[tokio::test]
    async fn another_method_is_not_there() {
        let mut service = OpenRcaService::new(ServerMetrics::default);
        let other = request("/xds.service.orca.v3.OpenRcaService/Other", &asks(None));
        let answer = service.call(other).await.unwrap();
        assert_eq!(answer.headers()["grpc-status"], "12");
    }
}
