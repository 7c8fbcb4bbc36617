//! The rest of an answer, which ends at the deadline of its call. Not here: an answer that has not begun by then
//! (`call`).

use std::fmt::Display;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

/// The body of an answer to a call with a deadline.
pub(super) struct BoundedBody<B> {
    /// The answer of the program; `None` after its end at the deadline.
    inner: Option<B>,
    deadline: Instant,
    /// Runs from the first time that the program has nothing to say.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<B> BoundedBody<B> {
    pub(super) fn new(inner: B, deadline: Instant) -> Self {
        Self { inner: Some(inner), deadline, timer: None }
    }

    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(self.deadline)));
        timer.as_mut().poll(cx).is_ready()
    }
}

impl<B> Body for BoundedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        // A program that always has more to say does not go on after the deadline; one that has said all does not
        // need a timer.
        let is_late = self.deadline <= Instant::now();
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        if !is_late {
            let frame = Pin::new(inner).poll_frame(cx);
            if frame.is_ready() || !self.is_over(cx) {
                return frame;
            }
        }
        self.inner = None;
        Poll::Ready(Some(Ok(Frame::trailers(trailers(&exceeded("the rest of its answer"))))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// The status of a call whose deadline has come before something of its answer.
pub(super) fn exceeded(what: impl Display) -> Status {
    Status::deadline_exceeded(format!("the deadline of the call came before {what}"))
}

/// The trailers that end an answer with a status.
fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    // All that it adds is made here, and fits into headers.
    let _ = status.add_header(&mut trailers);
    trailers
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::time::Duration;

    use http_body_util::{BodyExt, Full};

    use super::*;

    /// An answer of messages without an end, which may pause for ever after each.
    struct Endless {
        pauses: bool,
        has_sent: bool,
        /// Held for as long as the program has its side.
        _program: Arc<()>,
    }

    fn endless(pauses: bool) -> (Endless, Arc<()>) {
        let program = Arc::new(());
        (Endless { pauses, has_sent: false, _program: Arc::clone(&program) }, program)
    }

    impl Body for Endless {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if std::mem::replace(&mut self.has_sent, true) && self.pauses {
                return Poll::Pending;
            }
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"a")))))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_goes_on_ends_at_the_deadline() {
        // C-102
        let deadline = Instant::now() + Duration::from_secs(1);
        let (inner, program) = endless(true);
        let mut body = BoundedBody::new(inner, deadline);
        let end = (&mut body).collect().await.expect("an end");
        assert_eq!(Instant::now(), deadline);
        assert_eq!(end.trailers().expect("a status")["grpc-status"], "4");
        assert_eq!(end.to_bytes(), "a");
        assert_eq!(Arc::strong_count(&program), 1, "the program hears of it");
        assert!(body.is_end_stream());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_never_pauses_ends_at_the_deadline() {
        // C-102
        let (inner, _program) = endless(false);
        let mut body = BoundedBody::new(inner, Instant::now() + Duration::from_secs(1));
        assert!(body.frame().await.expect("a frame").expect("no error").is_data());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(body.frame().await.expect("a frame").expect("no error").is_trailers());
        assert!(body.frame().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_ends_before_is_as_it_was() {
        let inner = Full::new(Bytes::from_static(b"a"));
        let body = BoundedBody::new(inner, Instant::now() + Duration::from_secs(1));
        let body = body.collect().await.expect("an end");
        assert!(body.trailers().is_none());
        assert_eq!(body.to_bytes(), "a");
    }
}
