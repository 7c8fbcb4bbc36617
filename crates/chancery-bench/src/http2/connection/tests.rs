//! The events of a connection, however its bytes are cut, and whatever they are.

use super::*;
use crate::bytes::Damage;

/// An event that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OwnedEvent {
    Data(u32, Vec<u8>, bool),
    Other(String),
}

fn connection() -> Http2Connection {
    Http2Connection::open(0, &mut Vec::new())
}

/// All events of some pieces, with neighbouring data joined, and the bytes of the answers.
fn events(pieces: &[&[u8]]) -> Result<(Vec<OwnedEvent>, Vec<u8>), Http2Error> {
    let (mut connection, mut out, mut events) = (connection(), Vec::new(), Vec::new());
    for piece in pieces {
        let mut input = *piece;
        while let Some(event) = connection.next(&mut input, &mut out)? {
            match (event, events.last_mut()) {
                (
                    Http2Event::Data { stream, bytes, end },
                    Some(OwnedEvent::Data(same, all, ended)),
                ) if stream == *same && !*ended => {
                    all.extend_from_slice(bytes);
                    *ended = end;
                }
                (Http2Event::Data { stream, bytes, end }, _) => {
                    events.push(OwnedEvent::Data(stream, bytes.to_vec(), end));
                }
                (other, _) => events.push(OwnedEvent::Other(format!("{other:?}"))),
            }
        }
        assert!(input.is_empty(), "everything is eaten");
    }
    Ok((events, out))
}

/// A frame: kind, flags, stream and payload.
type Frame<'a> = (u8, u8, u32, &'a [u8]);

fn framed(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write(&mut bytes, frame::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 10]);
    for (kind, flags, stream, payload) in frames {
        frame::write(&mut bytes, *kind, *flags, *stream, payload);
    }
    bytes
}

fn conversation() -> Vec<u8> {
    framed(&[
        (frame::SETTINGS, frame::ACK, 0, &[]),
        (frame::HEADERS, frame::PADDED | frame::PRIORITY, 1, &[2, 0, 0, 0, 0, 0, 0x88, 9, 9]),
        (frame::CONTINUATION, frame::END_HEADERS, 1, &[0x88]),
        (frame::DATA, 0, 1, b"abc"),
        (frame::DATA, frame::PADDED, 1, b"\x02defpp"),
        (frame::DATA, frame::PADDED, 1, b"\x03ppp"),
        (frame::DATA, 0, 1, b""),
        (frame::PING, 0, 0, b"12345678"),
        (frame::WINDOW_UPDATE, 0, 0, &[0, 0, 1, 0]),
        (frame::WINDOW_UPDATE, 0, 1, &[0, 0, 1, 0]),
        (0x77, 0xff, 3, b"nobody knows this"),
        (frame::RST_STREAM, 0, 3, &[0, 0, 0, 8]),
        (frame::DATA, frame::PADDED | frame::END_STREAM, 5, b"\x01xp"),
        (frame::DATA, frame::END_STREAM, 7, b""),
        (frame::GOAWAY, 0, 0, &[0, 0, 0, 7, 0, 0, 0, 11, b'n', b'o']),
    ])
}

#[test]
fn a_conversation_is_read_the_same_however_it_is_cut() {
    let bytes = conversation();
    let (whole, answers) = events(&[&bytes]).unwrap();
    let data: Vec<_> =
        whole.iter().filter(|events| matches!(events, OwnedEvent::Data(..))).collect();
    let expected = [
        OwnedEvent::Data(1, b"abcdef".into(), false),
        OwnedEvent::Data(5, b"x".into(), true),
        OwnedEvent::Data(7, Vec::new(), true),
    ];
    assert_eq!(data, expected.iter().collect::<Vec<_>>());
    for cut in 0..=bytes.len() {
        let (events, sent) = events(&[&bytes[..cut], &bytes[cut..]]).unwrap();
        assert_eq!((&events, &sent), (&whole, &answers), "cut at {cut}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(events(&single).unwrap(), (whole, answers));
}

#[test]
fn settings_and_pings_are_answered() {
    let mut expected = Vec::new();
    frame::write(&mut expected, frame::SETTINGS, frame::ACK, 0, &[]);
    frame::write(&mut expected, frame::PING, frame::ACK, 0, b"12345678");
    assert_eq!(events(&[&conversation()]).unwrap().1, expected);
}

#[test]
fn a_server_that_does_not_speak_http2_is_recognised() {
    let Err(Http2Error::NoHttp2(begins)) = events(&[b"HTTP/1.1 400 Bad Request\r\n"]) else {
        panic!()
    };
    assert_eq!(begins, "HTTP/1.1 ");
}

#[test]
fn a_frame_larger_than_announced_is_refused_and_the_largest_is_not() {
    let most = FRAME_SIZES.0;
    let mut bytes = framed(&[(frame::DATA, 0, 1, &vec![0; most as usize])]);
    assert!(events(&[&bytes]).is_ok());
    bytes.extend(FrameHeader { length: most + 1, kind: frame::DATA, flags: 0, stream: 1 }.bytes());
    assert_eq!(events(&[&bytes]), Err(Http2Error::TooLarge { found: most + 1, most }));
}

#[test]
fn malformed_frames_are_refused() {
    let broken: [&[Frame<'_>]; 8] = [
        &[(frame::DATA, frame::PADDED, 1, b"")],
        &[(frame::DATA, frame::PADDED, 1, b"\x02x")],
        &[(frame::HEADERS, 0, 1, b""), (frame::DATA, 0, 1, b"")],
        &[(frame::HEADERS, 0, 1, b""), (frame::CONTINUATION, 0, 3, b"")],
        &[(frame::CONTINUATION, 0, 1, b"")],
        &[(frame::HEADERS, frame::PADDED | frame::END_HEADERS, 1, b"\x09a")],
        &[(frame::RST_STREAM, 0, 1, b"ab")],
        &[(frame::SETTINGS, 0, 0, &[0, 4, 0xff, 0xff, 0xff, 0xff])],
    ];
    for frames in broken {
        assert!(matches!(events(&[&framed(frames)]), Err(Http2Error::Frame(_))), "{frames:?}");
    }
}

#[test]
fn endless_headers_are_refused() {
    let part = vec![0_u8; 16_000];
    let mut frames: Vec<Frame<'_>> = vec![(frame::HEADERS, 0, 1, &part)];
    frames.extend([(frame::CONTINUATION, 0, 1, &part[..]); 5]);
    assert!(matches!(events(&[&framed(&frames)]), Err(Http2Error::Frame(_))));
}

#[test]
fn what_is_sent_keeps_to_the_windows_and_to_the_frame_size() {
    let (mut connection, mut out) = (connection(), Vec::new());
    let mut settings = &framed(&[])[..];
    connection.next(&mut settings, &mut out).unwrap();
    let mut window = connection.stream_window();
    assert_eq!(connection.sendable(window, 100), 10, "the server allows ten bytes");

    out.clear();
    let start = Http2Connection::begin_data(&mut out);
    out.extend_from_slice(&[0; 11]);
    assert!(!connection.finish_data(1, &mut window, &mut out, start));
    out.pop();
    assert!(connection.finish_data(1, &mut window, &mut out, start));
    assert_eq!(FrameHeader::parse(out[..HEADER_SIZE].try_into().unwrap()).length, 10);
    assert_eq!(connection.sendable(window, 100), 0);
    window.add(1_000_000_i64).unwrap();
    assert_eq!(connection.sendable(window, 1_000_000), FRAME_SIZES.0 as usize);
    assert!(window.add(i64::from(WINDOW)).is_err());
}

#[test]
fn windows_are_topped_up_rarely() {
    let mut connection = connection();
    connection.settings_received = true;
    let (frame, mut out) = (vec![0_u8; FRAME_SIZES.0 as usize], Vec::new());
    let mut bytes = Vec::new();
    frame::write(&mut bytes, frame::DATA, 0, 1, &frame);
    for _ in 0..WINDOW_STEP / FRAME_SIZES.0 {
        assert!(out.is_empty());
        let mut input = &bytes[..];
        while connection.next(&mut input, &mut out).unwrap().is_some() {}
    }
    assert_eq!(
        FrameHeader::parse(out[..HEADER_SIZE].try_into().unwrap()).kind,
        frame::WINDOW_UPDATE
    );
    assert_eq!(out[HEADER_SIZE..], WINDOW_STEP.to_be_bytes());
}

#[test]
fn hostile_bytes_never_panic_and_are_never_hoarded() {
    let mut damage = Damage::new(0x9e37_79b9_7f4a_7c15);
    for round in 0..2000 {
        let mut bytes = conversation();
        damage.apply(&mut bytes, 1 + round % 5);
        let (mut connection, mut out) = (connection(), Vec::new());
        'connection: for piece in bytes.chunks(1 + round % 40) {
            let mut input = piece;
            loop {
                match connection.next(&mut input, &mut out) {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => break 'connection,
                }
            }
            assert!(
                connection.payload.capacity() <= 2 * bytes.len() && out.len() <= 4 * bytes.len()
            );
        }
    }
}
