//! Tests of the cork over a socket that follows a script.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// The reaction of the socket to a write.
#[derive(Clone, Copy, Debug)]
enum WriteReaction {
    Takes(usize),
    Waits,
    Fails,
}

/// A socket that takes everything once its script is over.
#[derive(Default)]
struct Socket {
    script: VecDeque<WriteReaction>,
    taken: Vec<u8>,
    /// True if it will wake the writer that found it full.
    wakes: bool,
    unflushed: usize,
    writes: usize,
    shut: bool,
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        buffer.put_slice(b"socket");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        assert!(!self.shut);
        self.wakes = false;
        self.writes += 1;
        let size = match self.script.pop_front() {
            Some(WriteReaction::Takes(size)) => size.min(bytes.len()),
            Some(WriteReaction::Fails) => {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            Some(WriteReaction::Waits) => {
                self.wakes = true;
                return Poll::Pending;
            }
            None => bytes.len(),
        };
        self.taken.extend_from_slice(&bytes[..size]);
        self.unflushed += size;
        Poll::Ready(Ok(size))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(WriteReaction::Waits) = self.script.front() {
            self.script.pop_front();
            self.wakes = true;
            return Poll::Pending;
        }
        self.unflushed = 0;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shut = true;
        Poll::Ready(Ok(()))
    }
}

fn cork(script: impl IntoIterator<Item = WriteReaction>) -> Cork<Socket> {
    let script = script.into_iter().collect();
    Cork::new(Socket { script, ..Socket::default() }, Vec::new())
}

fn cx() -> Context<'static> {
    Context::from_waker(std::task::Waker::noop())
}

fn write(cork: &mut Cork<Socket>, bytes: &[u8]) -> Poll<io::Result<usize>> {
    Pin::new(cork).poll_write(&mut cx(), bytes)
}

fn is_done(polled: &Poll<io::Result<()>>) -> bool {
    matches!(polled, Poll::Ready(Ok(())))
}

#[test]
fn writes_of_one_poll_are_one_write() {
    let mut cork = cork([]);
    for frame in [&b"one "[..], b"two ", b"three"] {
        assert!(matches!(write(&mut cork, frame), Poll::Ready(Ok(size)) if size == frame.len()));
        assert!(is_done(&Pin::new(&mut cork).poll_flush(&mut cx())));
    }
    assert_eq!(cork.lock().io.writes, 0);
    assert!(is_done(&cork.poll_uncork(&mut cx())));
    let corked = cork.lock();
    assert_eq!((corked.io.writes, &corked.io.taken[..]), (1, &b"one two three"[..]));
    assert_eq!(corked.held.capacity(), 0, "nothing is kept");
}

#[test]
fn a_full_socket_stops_the_writer_until_all_is_gone() {
    // S-108
    let mut cork = cork([
        WriteReaction::Takes(100),
        WriteReaction::Waits,
        WriteReaction::Takes(50),
        WriteReaction::Waits,
    ]);
    assert!(write(&mut cork, &[1; 300]).is_ready());
    assert!(cork.poll_uncork(&mut cx()).is_pending());
    assert!(cork.lock().held.capacity() <= 200, "no more memory than bytes");
    assert!(write(&mut cork, &[2; 10]).is_pending());
    assert!(cork.lock().io.wakes);
    assert!(is_done(&Pin::new(&mut cork).poll_flush(&mut cx())));
    assert!(write(&mut cork, &[2; 10]).is_ready());
    assert!(is_done(&cork.poll_uncork(&mut cx())));
    assert_eq!(cork.lock().io.taken, [&[1; 300][..], &[2; 10]].concat());
}

#[test]
fn a_buffer_at_the_limit_is_written_before_more_is_taken() {
    let mut cork = cork([]);
    let bytes = vec![7; ROOM + 1];
    assert!(matches!(write(&mut cork, &bytes), Poll::Ready(Ok(ROOM))));
    assert_eq!(cork.lock().io.writes, 0, "at the limit");
    assert!(matches!(write(&mut cork, &bytes[ROOM..]), Poll::Ready(Ok(1))));
    assert_eq!(cork.lock().io.taken.len(), ROOM, "one past it");
}

#[test]
fn the_last_bytes_go_out_before_the_end() {
    // S-139
    let mut cork = cork([WriteReaction::Takes(3), WriteReaction::Waits]);
    assert!(write(&mut cork, b"goaway").is_ready());
    assert!(Pin::new(&mut cork).poll_shutdown(&mut cx()).is_pending());
    assert!(!cork.lock().io.shut);
    assert!(is_done(&Pin::new(&mut cork).poll_shutdown(&mut cx())));
    let corked = cork.lock();
    assert!(corked.io.shut && corked.io.taken == b"goaway" && corked.io.unflushed == 0);
}

#[test]
fn bytes_in_a_buffer_of_tls_are_flushed() {
    let mut cork = cork([WriteReaction::Takes(9), WriteReaction::Waits]);
    assert!(write(&mut cork, b"records").is_ready());
    assert!(cork.poll_uncork(&mut cx()).is_pending(), "TLS holds it");
    assert_eq!(cork.lock().io.unflushed, 7);
    assert!(write(&mut cork, b"more").is_ready(), "it was flushed first");
    assert_eq!(cork.lock().io.unflushed, 0);
}

#[test]
fn errors_come_to_who_writes_and_to_the_task() {
    let broken = |polled: &Poll<io::Result<()>>| matches!(polled, Poll::Ready(Err(_)));
    let mut cork = cork([
        WriteReaction::Fails,
        WriteReaction::Fails,
        WriteReaction::Fails,
        WriteReaction::Takes(0),
    ]);
    assert!(write(&mut cork, b"lost").is_ready());
    assert!(broken(&cork.poll_uncork(&mut cx())));
    assert!(matches!(write(&mut cork, b"more"), Poll::Ready(Err(_))));
    assert!(broken(&Pin::new(&mut cork).poll_shutdown(&mut cx())));
    assert!(broken(&cork.poll_uncork(&mut cx())), "a socket that takes nothing is broken");
}

#[test]
fn bytes_that_were_read_before_come_first() {
    let mut cork = Cork::new(Socket::default(), b"first".to_vec());
    let mut read = |size| {
        let mut bytes = vec![0; size];
        let mut buffer = ReadBuf::new(&mut bytes);
        assert!(is_done(&Pin::new(&mut cork).poll_read(&mut cx(), &mut buffer)));
        buffer.filled().to_vec()
    };
    assert_eq!([read(3), read(9), read(9)], [b"fir".to_vec(), b"st".to_vec(), b"socket".to_vec()]);
}

#[derive(Clone, Debug)]
enum Op {
    Write(usize),
    Vectored(Vec<usize>),
    Flush,
    Push,
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![0..20usize, 1_000..20_000usize, Just(ROOM), ROOM - 9..ROOM + 9]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        size().prop_map(Op::Write),
        vec(size(), 1..4).prop_map(Op::Vectored),
        Just(Op::Flush),
        Just(Op::Push),
    ]
}

fn step() -> impl Strategy<Value = WriteReaction> {
    prop_oneof![
        (1..ROOM).prop_map(WriteReaction::Takes),
        (1..100usize).prop_map(WriteReaction::Takes),
        { Just(WriteReaction::Waits) }
    ]
}

/// Polls until the cork is ready, as a task that is woken does; a writer that waits must be woken.
fn settle<T>(cork: &mut Cork<Socket>, mut poll: impl FnMut(&mut Cork<Socket>) -> Poll<T>) -> T {
    loop {
        if let Poll::Ready(output) = poll(cork) {
            return output;
        }
        assert!(cork.lock().io.wakes, "somebody waits and nobody wakes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// However the socket takes the bytes, those that come out are those that went in, in order.
    #[test]
    fn all_bytes_come_out_in_order(ops in vec(op(), 0..12), script in vec(step(), 0..40)) {
        let mut cork = cork(script);
        let mut accepted = Vec::new();
        let mut counter = 0u32;
        let mut bytes = |size: usize| -> Vec<u8> {
            (0..size).map(|_| { counter = counter.wrapping_add(1); (counter ^ counter >> 8) as u8 }).collect()
        };
        for op in ops {
            let (sizes, vectored) = match op {
                Op::Write(size) => (vec![size], false),
                Op::Vectored(sizes) => (sizes, true),
                Op::Flush => {
                    settle(&mut cork, |cork| Pin::new(cork).poll_flush(&mut cx())).unwrap();
                    continue;
                }
                Op::Push => {
                    settle(&mut cork, |cork| cork.poll_uncork(&mut cx())).unwrap();
                    prop_assert_eq!(cork.lock().held.capacity(), 0);
                    prop_assert_eq!(&cork.lock().io.taken, &accepted);
                    continue;
                }
            };
            let mut left: VecDeque<_> = sizes.into_iter().map(&mut bytes).filter(|it| !it.is_empty()).collect();
            while let Some(first) = left.front() {
                let mut size = settle(&mut cork, |cork| {
                    if vectored {
                        let slices: Vec<_> = left.iter().map(|it| IoSlice::new(it)).collect();
                        Pin::new(cork).poll_write_vectored(&mut cx(), &slices)
                    } else {
                        Pin::new(cork).poll_write(&mut cx(), first)
                    }
                }).unwrap();
                prop_assert!(size > 0);
                prop_assert!(cork.lock().held.len() <= ROOM);
                while size > 0 {
                    let mut chunk = left.pop_front().unwrap();
                    let rest = chunk.split_off(size.min(chunk.len()));
                    size -= chunk.len();
                    accepted.extend_from_slice(&chunk);
                    if !rest.is_empty() {
                        left.push_front(rest);
                    }
                }
            }
        }
        settle(&mut cork, |cork| Pin::new(cork).poll_shutdown(&mut cx())).unwrap();
        prop_assert_eq!(&cork.lock().io.taken, &accepted);
    }
}

#[test]
fn a_poll_of_the_task_reads_a_bounded_part() {
    let mut cork = cork([]);
    let mut read = 0;
    for _ in 0..2 {
        let mut bytes = [0; 64];
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            if Pin::new(&mut cork).poll_read(&mut cx(), &mut buffer).is_pending() {
                break;
            }
            read += buffer.filled().len();
        }
        assert!(cork.is_sated());
        assert!(is_done(&cork.poll_uncork(&mut cx())));
        assert!(!cork.is_sated());
    }
    assert!((2 * READ_AT_ONCE..2 * READ_AT_ONCE + 64).contains(&read), "{read}");
}

/// The bytes that are read until the cork waits.
fn read_all(cork: &mut Cork<Socket>) -> Vec<u8> {
    let (mut bytes, mut all) = ([0; 100], Vec::new());
    loop {
        let mut buffer = ReadBuf::new(&mut bytes);
        if Pin::new(&mut *cork).poll_read(&mut cx(), &mut buffer).is_pending() {
            return all;
        }
        assert!(!buffer.filled().is_empty(), "that would be the end");
        all.extend_from_slice(buffer.filled());
    }
}

#[test]
fn a_poll_of_the_task_reads_a_bounded_number_of_frames_and_loses_no_byte() {
    let frame = |kind: u8| [0, 0, 1, kind, 0, 0, 0, 0, 1, b'x'];
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    // Frames of data, of settings, and of data again, with frames between them that mean nothing.
    let kinds = [0, 8].repeat(400).into_iter().chain([4; 40]).chain([0, 0xee].repeat(300));
    let bytes = [&preface[..], &kinds.map(frame).collect::<Vec<_>>().concat()].concat();
    let mut cork = Cork::new(Socket::default(), bytes.clone());
    cork.count_data(&Arc::default());
    let (mut all, mut polls) = (Vec::new(), Vec::new());
    while all.len() < bytes.len() {
        let read = read_all(&mut cork);
        assert!(cork.is_sated());
        assert!(is_done(&cork.poll_uncork(&mut cx())));
        polls.push(read.len());
        all.extend(read);
    }
    // 128 of data, each with another one, three times; then 16 and 14 of settings; then 16 at a time.
    let begin = preface.len();
    assert_eq!(polls[..5], [begin + 255 * 10, 2560, 2560, (33 + 14) * 10, 160]);
    assert_eq!(all[..bytes.len()], bytes);
}
