//! The messages of a call, which are kept for another attempt as long as there may be one (gRFC A6).
//!
//! One attempt reads at a time. The body of an attempt that has ended reads nothing more: it ends with an error,
//! which resets its stream. Not here: whether there is another attempt (`attempts`).

use std::collections::VecDeque;
use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as _, Frame};
use tonic::Status;
use tonic::body::Body;

use crate::metrics::SizeCounter;

/// The bytes of messages that are kept of one call, as in other implementations of gRPC. A call with more is
/// committed to the attempt that runs.
const MOST_KEPT: usize = 256 * 1024;

/// The messages of a call.
#[derive(Clone)]
pub(super) struct Replay(Arc<Mutex<Messages>>);

/// One attempt, which can be ended.
#[derive(Clone)]
pub(super) struct RunningAttempt {
    messages: Replay,
    number: u32,
}

/// The body of one attempt.
struct AttemptBody {
    running: RunningAttempt,
    /// Counts what is sent, if somebody has asked for metrics.
    counter: Option<SizeCounter>,
}

struct Messages {
    source: Body,
    /// The end of the source, once it is known; an error is that of the caller.
    end: Option<Result<(), Status>>,
    /// Those that have come from the source; after the call is committed, only those not read yet.
    frames: VecDeque<KeptFrame>,
    kept_bytes: usize,
    /// True as long as another attempt may need them.
    is_kept: bool,
    /// The number of the attempt that reads, and of the frames that it has read.
    attempt: u32,
    read: usize,
    waits: Option<Waker>,
}

#[derive(Clone)]
enum KeptFrame {
    Data(Bytes),
    Trailers(HeaderMap),
}

impl Replay {
    pub(super) fn new(source: Body) -> Self {
        Self(Arc::new(Mutex::new(Messages {
            source,
            end: None,
            frames: VecDeque::new(),
            kept_bytes: 0,
            is_kept: true,
            attempt: 0,
            read: 0,
            waits: None,
        })))
    }

    /// Returns the body of the next attempt, from the first message on. The one before must have
    /// [ended](Self::end).
    pub(super) fn attempt(&self, counter: Option<SizeCounter>) -> (Body, RunningAttempt) {
        let number = {
            let mut messages = self.lock();
            messages.read = 0;
            messages.attempt
        };
        let running = RunningAttempt { messages: self.clone(), number };
        (Body::new(AttemptBody { running: running.clone(), counter }), running)
    }

    /// Ends the attempt that runs: its body reads nothing more, and ends with an error, which resets its stream if
    /// the request is still open. Returns true if another attempt can have all messages.
    pub(super) fn end(&self) -> bool {
        let (is_kept, waits) = {
            let mut messages = self.lock();
            (messages.is_kept, messages.end_attempt())
        };
        wake(waits);
        is_kept
    }

    /// Keeps no message any more: the attempt that runs is the last one.
    pub(super) fn commit(&self) {
        self.lock().commit();
    }

    /// No code that panics runs under the lock, but for that of the caller's messages.
    fn lock(&self) -> MutexGuard<'_, Messages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningAttempt {
    /// Ends the attempt, unless it has ended.
    pub(super) fn end(&self) {
        let waits = {
            let mut messages = self.messages.lock();
            if messages.attempt != self.number {
                return;
            }
            messages.end_attempt()
        };
        wake(waits);
    }
}

/// Wakes who reads an attempt that has ended. That is done without the lock, which they take.
fn wake(waits: Option<Waker>) {
    if let Some(waits) = waits {
        waits.wake();
    }
}

impl Messages {
    fn end_attempt(&mut self) -> Option<Waker> {
        self.attempt = self.attempt.wrapping_add(1);
        self.waits.take()
    }

    fn commit(&mut self) {
        if self.is_kept {
            self.is_kept = false;
            let read = self.read.min(self.frames.len());
            self.frames.drain(..read);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(frame) = self.next_kept() {
            return Poll::Ready(Some(Ok(frame.into_frame())));
        }
        match &self.end {
            Some(Ok(())) => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(error.clone()))),
            None => {}
        }
        match Pin::new(&mut self.source).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(self.keep(frame).map(Ok)),
            Poll::Ready(Some(Err(error))) => {
                self.end = Some(Err(error.clone()));
                self.commit();
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => {
                self.end = Some(Ok(()));
                Poll::Ready(None)
            }
            Poll::Pending => {
                self.waits = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The next frame that has come before.
    fn next_kept(&mut self) -> Option<KeptFrame> {
        if !self.is_kept {
            return self.frames.pop_front();
        }
        let frame = self.frames.get(self.read)?.clone();
        self.read += 1;
        Some(frame)
    }

    /// Keeps a frame that has come, if it may be needed again.
    fn keep(&mut self, frame: Frame<Bytes>) -> Option<Frame<Bytes>> {
        let frame = KeptFrame::of(frame)?;
        if self.is_kept {
            self.kept_bytes += frame.size();
            self.frames.push_back(frame.clone());
            self.read += 1;
            if self.kept_bytes > MOST_KEPT {
                self.commit();
            }
        }
        Some(frame.into_frame())
    }
}

impl KeptFrame {
    /// Frames are data or trailers, and there is no third kind.
    fn of(frame: Frame<Bytes>) -> Option<Self> {
        match frame.into_data() {
            Ok(data) => Some(Self::Data(data)),
            Err(frame) => frame.into_trailers().ok().map(Self::Trailers),
        }
    }

    fn into_frame(self) -> Frame<Bytes> {
        match self {
            Self::Data(data) => Frame::data(data),
            Self::Trailers(trailers) => Frame::trailers(trailers),
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Data(data) => data.len(),
            Self::Trailers(trailers) => trailers.len() * TRAILER,
        }
    }
}

/// The bytes for which a trailer counts, about.
const TRAILER: usize = 64;

impl http_body::Body for AttemptBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Self { running, counter } = &mut *self;
        let polled = {
            let mut messages = running.messages.lock();
            if messages.attempt != running.number {
                // The server hears that the call is cancelled.
                return Poll::Ready(Some(Err(h2::Error::from(h2::Reason::CANCEL).into())));
            }
            messages.poll(cx)
        };
        if let (Some(counter), Poll::Ready(Some(Ok(frame)))) = (counter, &polled) {
            frame.data_ref().into_iter().for_each(|data| counter.count(data));
        }
        polled.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        let messages = self.running.messages.lock();
        let read = if messages.is_kept { messages.read } else { 0 };
        let has_more = read < messages.frames.len();
        !has_more && (matches!(messages.end, Some(Ok(()))) || messages.source.is_end_stream())
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    /// A body of these messages.
    struct Source(VecDeque<Bytes>);

    impl http_body::Body for Source {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Ready(self.0.pop_front().map(|data| Ok(Frame::data(data))))
        }
    }

    fn replay(messages: &[&'static str]) -> Replay {
        let messages = messages.iter().map(|message| Bytes::from_static(message.as_bytes()));
        Replay::new(Body::new(Source(messages.collect())))
    }

    async fn all(body: Body) -> Bytes {
        body.collect().await.expect("no error").to_bytes()
    }

    #[tokio::test]
    async fn each_attempt_has_all_messages() {
        // gRFC A6
        let replay = replay(&["a", "b", "c"]);
        let mut first = replay.attempt(None).0;
        let frame = first.frame().await.expect("a frame").expect("no error");
        assert_eq!(frame.into_data().expect("data"), "a");
        assert!(replay.end());
        // It reads nothing more, before another attempt has begun either.
        let ended = first.frame().await.expect("an end").expect_err("it has ended");
        assert_eq!(ended.code(), tonic::Code::Cancelled);
        assert_eq!(all(replay.attempt(None).0).await, "abc");
        assert!(replay.end());
        assert_eq!(all(replay.attempt(None).0).await, "abc");
    }

    #[tokio::test]
    async fn a_call_that_is_committed_keeps_nothing() {
        // gRFC A6
        let replay = replay(&["a", "b"]);
        let mut attempt = replay.attempt(None).0;
        attempt.frame().await.expect("a frame").expect("no error");
        replay.commit();
        assert_eq!(all(attempt).await, "b");
        assert!(!replay.end());
        assert!(replay.lock().frames.is_empty());
    }

    #[tokio::test]
    async fn a_call_with_many_messages_is_committed() {
        // gRFC A6
        let message = Bytes::from(vec![0; MOST_KEPT / 2]);
        let replay = Replay::new(Body::new(Source(vec![message; 4].into())));
        let mut attempt = replay.attempt(None).0;
        for is_kept in [true, true, false, false] {
            attempt.frame().await.expect("a frame").expect("no error");
            assert_eq!(replay.lock().is_kept, is_kept);
        }
        assert!(replay.lock().frames.is_empty());
        assert!(attempt.frame().await.is_none());
    }
}
