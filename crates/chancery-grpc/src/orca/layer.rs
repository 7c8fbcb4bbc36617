//! A layer for servers that reports the metrics of each call in its trailers (gRFC A51). Not here: the text of the
//! trailer (`trailer`), and reports that belong to no call (`service`).

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use tower_layer::Layer;
use tower_service::Service;

use super::message::OrcaLoadReport;
use super::metrics::{CallMetricsRecorder, ServerMetrics, ServerMetricsProvider};
use super::trailer;

/// Lets the handlers of a server record metrics of their calls, with the [`CallMetricsRecorder`] of each request, and
/// reports them in the trailers.
///
/// ```
/// use chancery_grpc::orca::{CallMetricsLayer, ServerMetricsRecorder};
///
/// // Of the handlers alone:
/// let layer = CallMetricsLayer::new();
/// // Of the server too, where a handler says nothing else:
/// let load = ServerMetricsRecorder::default();
/// let layer = CallMetricsLayer::with_server_metrics(load.clone());
/// // tonic::transport::Server::builder().layer(layer)
/// # let _ = layer;
/// ```
#[derive(Clone, Default)]
pub struct CallMetricsLayer(Server);

/// A service whose calls report their metrics, as [`CallMetricsLayer`] makes one.
#[derive(Clone)]
pub struct CallMetrics<S> {
    inner: S,
    server: Server,
}

/// The answer of a service whose calls report their metrics.
pub struct CallMetricsFuture<F> {
    inner: Pin<Box<F>>,
    metrics: Option<Metrics>,
}

/// The body of an answer, which ends with the metrics of its call.
pub struct CallMetricsBody<B> {
    inner: Pin<Box<B>>,
    metrics: Metrics,
}

/// The metrics of the server, if they are reported with calls.
type Server = Option<Arc<dyn ServerMetricsProvider>>;

/// The metrics of one call.
struct Metrics {
    call: CallMetricsRecorder,
    server: Server,
}

impl CallMetricsLayer {
    /// Reports what handlers record.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports with each call the metrics of the server too. Those that a handler records count in place of them.
    pub fn with_server_metrics(server: impl ServerMetricsProvider) -> Self {
        Self(Some(Arc::new(server)))
    }
}

impl<S> CallMetrics<S> {
    /// Lets a service report what its handlers record, where nothing takes a layer.
    pub fn new(inner: S) -> Self {
        CallMetricsLayer::new().layer(inner)
    }

    /// The same with the metrics of the server, as [`CallMetricsLayer::with_server_metrics`].
    pub fn with_server_metrics(inner: S, server: impl ServerMetricsProvider) -> Self {
        CallMetricsLayer::with_server_metrics(server).layer(inner)
    }
}

impl<S> Layer<S> for CallMetricsLayer {
    type Service = CallMetrics<S>;

    fn layer(&self, inner: S) -> CallMetrics<S> {
        CallMetrics { inner, server: self.0.clone() }
    }
}

impl<S, A, B> Service<Request<A>> for CallMetrics<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    B: Body,
{
    type Response = Response<CallMetricsBody<B>>;
    type Error = S::Error;
    type Future = CallMetricsFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        let call = CallMetricsRecorder::default();
        request.extensions_mut().insert(call.clone());
        let metrics = Some(Metrics { call, server: self.server.clone() });
        CallMetricsFuture { inner: Box::pin(self.inner.call(request)), metrics }
    }
}

impl<F, B, E> Future for CallMetricsFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<CallMetricsBody<B>>, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut response = ready!(self.inner.as_mut().poll(cx))?;
        // A future is not polled any more after its answer.
        let Some(metrics) = self.metrics.take() else { return Poll::Pending };
        metrics.end(response.headers_mut());
        Poll::Ready(Ok(response.map(|inner| CallMetricsBody { inner: Box::pin(inner), metrics })))
    }
}

impl<B: Body> Body for CallMetricsBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut frame = ready!(self.inner.as_mut().poll_frame(cx));
        if let Some(Ok(frame)) = &mut frame
            && let Some(trailers) = frame.trailers_mut()
        {
            self.metrics.end(trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Metrics {
    /// The call ends with these headers or trailers, if they have a status.
    fn end(&self, headers: &mut HeaderMap) {
        if headers.contains_key("grpc-status") {
            let server = self.server.as_deref();
            let mut all =
                server.map_or_else(ServerMetrics::default, ServerMetricsProvider::server_metrics);
            all.merge(self.call.server_metrics());
            trailer::write(&OrcaLoadReport::from(all), headers);
        }
    }
}

impl fmt::Debug for CallMetricsLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallMetricsLayer").finish_non_exhaustive()
    }
}

impl<S> fmt::Debug for CallMetrics<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallMetrics").finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for CallMetricsFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallMetricsFuture").finish_non_exhaustive()
    }
}

impl<B> fmt::Debug for CallMetricsBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallMetricsBody").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{Ready, ready};

    use bytes::Bytes;
    use http_body_util::{BodyExt, Full, StreamBody};
    use tonic::codegen::tokio_stream::iter;

    use super::*;

    type Stream = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

    /// Answers with what this function makes of the recorder of the call.
    #[derive(Clone)]
    struct Handler(fn(CallMetricsRecorder) -> Response<Stream>);

    impl Service<Request<()>> for Handler {
        type Response = Response<Stream>;
        type Error = Infallible;
        type Future = Ready<Result<Response<Stream>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<()>) -> Self::Future {
            let metrics = CallMetricsRecorder::of(request.extensions()).expect("a layer");
            ready(Ok((self.0)(metrics.clone())))
        }
    }

    fn status() -> HeaderMap {
        [("grpc-status".parse().unwrap(), "0".parse().unwrap())].into_iter().collect()
    }

    /// A message, and then trailers. What is recorded after the message counts too.
    fn streaming(metrics: CallMetricsRecorder) -> Response<Stream> {
        metrics.set_cpu_utilization(0.25);
        let frames = (0..2).map(move |number| {
            metrics.set_eps(f64::from(number + 1));
            Ok(match number {
                0 => Frame::data(Bytes::from_static(b"a message")),
                _ => Frame::trailers(status()),
            })
        });
        Response::new(StreamBody::new(iter(frames)).boxed_unsync())
    }

    fn alone(metrics: CallMetricsRecorder) -> Response<Stream> {
        metrics.set_cpu_utilization(0.25);
        let mut answer = Response::new(Full::default().boxed_unsync());
        *answer.headers_mut() = status();
        answer
    }

    /// An answer that is none of gRPC, as that of a service beside.
    fn page(metrics: CallMetricsRecorder) -> Response<Stream> {
        metrics.set_cpu_utilization(0.25);
        Response::new(Full::from("a page").boxed_unsync())
    }

    /// Returns the reports in the headers and in the trailers of an answer.
    async fn reports(
        layer: &CallMetricsLayer,
        handler: fn(CallMetricsRecorder) -> Response<Stream>,
    ) -> [Option<chancery_core::client::load::OrcaReport>; 2] {
        let answer = layer.layer(Handler(handler)).call(Request::new(())).await.unwrap();
        let headers = trailer::read(answer.headers());
        let collected = answer.into_body().collect().await.unwrap();
        [headers, collected.trailers().and_then(trailer::read)]
    }

    #[tokio::test]
    async fn a_report_stands_beside_the_status() {
        let layer = CallMetricsLayer::new();
        let [headers, trailers] = reports(&layer, streaming).await;
        assert_eq!(headers, None);
        let report = trailers.expect("a report");
        assert_eq!((report.cpu_utilization, report.eps), (Some(0.25), Some(2.0)));
        let [headers, trailers] = reports(&layer, alone).await;
        assert_eq!(headers.and_then(|report| report.cpu_utilization), Some(0.25));
        assert_eq!(trailers, None);
        assert_eq!(reports(&layer, page).await, [None, None]);
    }

    #[tokio::test]
    async fn the_metrics_of_the_server_are_reported_with_each_call() {
        let load = crate::orca::ServerMetricsRecorder::default();
        load.set_cpu_utilization(0.5);
        load.set_memory_utilization(0.5);
        let layer = CallMetricsLayer::with_server_metrics(load);
        let [_, trailers] = reports(&layer, streaming).await;
        let report = trailers.expect("a report");
        assert_eq!((report.cpu_utilization, report.mem_utilization), (Some(0.25), Some(0.5)));
    }
}
