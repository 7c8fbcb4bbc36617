//! Tests of the executor with a socket that counts, and HTTP and timers that only write a log.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker, ready};

use tokio::io::{AsyncWriteExt, ReadBuf};

use super::*;

/// A socket that takes everything and counts writes, or fails.
#[derive(Default)]
struct Socket {
    writes: Rc<RefCell<Vec<String>>>,
    fails: bool,
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.fails {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        self.writes.borrow_mut().push(String::from_utf8_lossy(bytes).into_owned());
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Counts the wakes of the connection's task.
#[derive(Default)]
struct WakeCounter(AtomicUsize);

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

type Boxed = Pin<Box<dyn Future<Output = ()>>>;

/// A connection whose subtasks note in a log that they were polled.
struct TestConnection {
    executor: Executor<Socket, Boxed>,
    cork: Cork<Socket>,
    writes: Rc<RefCell<Vec<String>>>,
    log: Rc<RefCell<Vec<String>>>,
    /// The streams that HTTP adds when it is polled next.
    requests: Vec<Boxed>,
    over: bool,
    task: Arc<WakeCounter>,
}

impl TestConnection {
    fn new() -> Self {
        Self::over(Socket::default())
    }

    fn over(socket: Socket) -> Self {
        let writes = Rc::clone(&socket.writes);
        let cork = Cork::new(socket, Vec::new());
        let executor = Executor::new(cork.clone());
        let (log, task) = (Rc::default(), Arc::default());
        Self { executor, cork, writes, log, requests: Vec::new(), over: false, task }
    }

    /// A stream that is polled `times` times, waking itself in between, and writes its name at each.
    fn request(&mut self, name: &'static str, times: usize) {
        let (mut cork, log, mut left) = (self.cork.clone(), Rc::clone(&self.log), times);
        self.requests.push(Box::pin(std::future::poll_fn(move |cx| {
            log.borrow_mut().push(name.to_owned());
            let written = ready!(Pin::new(&mut cork).poll_write(cx, name.as_bytes()));
            assert_eq!(written.ok(), Some(name.len()));
            left -= 1;
            match left {
                0 => Poll::Ready(()),
                _ => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
            }
        })));
        self.executor.wake_http();
    }

    fn poll(&mut self) -> Poll<io::Result<()>> {
        let waker = Waker::from(Arc::clone(&self.task));
        let Self { executor, log, requests, over, .. } = self;
        executor.poll(&mut Context::from_waker(&waker), |executor, round| {
            if round.has_http() {
                log.borrow_mut().push("http".to_owned());
                let (_, streams) = executor.http();
                requests.drain(..).for_each(|request| streams.insert(request));
            }
            if round.has_lifetime() {
                let _ = executor.lifetime();
                log.borrow_mut().push("lifetime".to_owned());
            }
            if *over { Poll::Ready(()) } else { Poll::Pending }
        })
    }

    fn take_log(&self) -> String {
        self.log.borrow_mut().drain(..).collect::<Vec<_>>().join(" ")
    }

    fn wakes(&self) -> usize {
        self.task.0.load(Ordering::Relaxed)
    }
}

#[test]
fn a_round_polls_the_streams_then_http_then_the_timers() {
    let mut connection = TestConnection::new();
    connection.request("a", 2);
    assert!(connection.poll().is_pending());
    assert_eq!(connection.take_log(), "http lifetime a a", "a request is polled in the same poll");
    connection.request("b", 1);
    connection.request("c", 1);
    connection.executor.wake_lifetime();
    assert!(connection.poll().is_pending());
    assert_eq!(connection.take_log(), "http lifetime b c");
    connection.request("d", 9);
    assert!(connection.poll().is_pending());
    connection.take_log();
    connection.request("e", 1);
    connection.executor.wake_streams();
    assert!(connection.poll().is_pending());
    assert_eq!(connection.take_log(), "http e", "a stream that is done is not polled again");
}

#[test]
fn the_bytes_of_all_rounds_of_a_poll_are_written_once() {
    let mut connection = TestConnection::new();
    connection.request("a", 3);
    connection.request("b", 2);
    connection.request("c", 1);
    assert!(connection.poll().is_pending());
    assert_eq!(*connection.writes.borrow(), ["abcaba"]);
    connection.executor.wake_http();
    assert!(connection.poll().is_pending());
    assert_eq!(connection.writes.borrow().len(), 1, "a poll that gathered nothing writes nothing");
}

#[test]
fn a_poll_ends_after_its_rounds_and_the_task_wakes_itself() {
    let mut connection = TestConnection::new();
    connection.request("a", MAX_ROUNDS + 1);
    connection.wakes();
    assert!(connection.poll().is_pending());
    assert_eq!(connection.take_log().matches('a').count(), MAX_ROUNDS - 1);
    assert_eq!(*connection.writes.borrow(), ["a".repeat(MAX_ROUNDS - 1)]);
    assert_eq!(connection.wakes(), 1);
    assert!(connection.poll().is_pending());
    assert_eq!(connection.take_log(), "a a");
    assert_eq!(connection.wakes(), 1, "nothing is ready any more");
}

#[test]
fn a_connection_that_is_over_is_not_polled_on() {
    let mut connection = TestConnection::new();
    connection.request("a", 1);
    connection.over = true;
    assert!(connection.poll().is_ready());
    assert_eq!(connection.take_log(), "http lifetime");
    assert!(connection.writes.borrow().is_empty());
}

#[test]
fn a_socket_that_fails_ends_the_connection() {
    let mut connection = TestConnection::over(Socket { fails: true, ..Socket::default() });
    assert!(connection.poll().is_pending(), "nothing is written yet");
    connection.request("a", 1);
    assert!(matches!(connection.poll(), Poll::Ready(Err(_))));
}

#[tokio::test]
async fn the_time_of_the_last_read_is_noted() {
    let (mut client, server) = tokio::io::duplex(8);
    let mut cork = Cork::new(server, Vec::new());
    let executor = Executor::<_, Boxed>::new(cork.clone());
    let before = executor.socket_times().last_read;
    client.write_all(b"x").await.unwrap();
    tokio::io::AsyncReadExt::read_u8(&mut cork).await.unwrap();
    assert!(executor.socket_times().last_read >= before);
}
