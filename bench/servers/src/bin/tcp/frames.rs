//! The few frames of HTTP/2 the floor writes and looks for.

use bytes::Bytes;

/// The largest frame every client takes.
const FRAME: usize = 16_384;

/// The bytes at the start of every client connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The stream of all messages.
const STREAM: u32 = 1;

/// The progress of a client up to its first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpeningProgress {
    /// The preface and the settings are not complete.
    Nothing,
    /// The preface and the settings have arrived.
    Settings,
    /// A request has arrived, too.
    Request,
}

/// Empty settings, and the acknowledgement of the client's.
pub(crate) fn greeting() -> Vec<u8> {
    [frame(4, 0, 0, &[]), frame(4, 1, 0, &[])].concat()
}

/// The head of the response: `:status: 200` and `content-type: application/grpc`.
pub(crate) fn head() -> Bytes {
    let content_type = b"application/grpc";
    let fields = [&[0x88, 0x0f, 0x10, 16][..], content_type].concat();
    frame(1, 4, STREAM, &fields).into()
}

/// A message as DATA frames.
pub(crate) fn data(message: &[u8]) -> Bytes {
    let frames: Vec<_> = message.chunks(FRAME).map(|part| frame(0, 0, STREAM, part)).collect();
    frames.concat().into()
}

/// The progress after these bytes, which are all that a client has sent.
pub(crate) fn progress(bytes: &[u8]) -> OpeningProgress {
    let Some(mut rest) = bytes.strip_prefix(PREFACE) else { return OpeningProgress::Nothing };
    let mut progress = OpeningProgress::Nothing;
    while let Some((kind, flags, after)) = next(rest) {
        match kind {
            0 => return OpeningProgress::Request,
            4 if flags & 1 == 0 => progress = OpeningProgress::Settings,
            _ => {}
        }
        rest = after;
    }
    progress
}

/// The kind and flags of a frame that is there in full, and what comes after it.
fn next(bytes: &[u8]) -> Option<(u8, u8, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<9>()?;
    let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
    Some((head[3], head[4], rest.get(length..)?))
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()[..]].concat();
    [&head, payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_read_frame_by_frame() {
        let request = [PREFACE, &frame(4, 0, 0, &[0; 6]), &frame(1, 4, 1, b"head"), &data(b"x")];
        let bytes = request.concat();
        let settings = PREFACE.len() + 15;
        for end in 0..=bytes.len() {
            let expected = match end {
                _ if end == bytes.len() => OpeningProgress::Request,
                _ if end >= settings => OpeningProgress::Settings,
                _ => OpeningProgress::Nothing,
            };
            assert_eq!(progress(&bytes[..end]), expected, "after {end} bytes");
        }
    }

    #[test]
    fn a_long_message_is_cut_into_frames() {
        let message = vec![7; FRAME * 2 + 5];
        let bytes = data(&message);
        assert_eq!(bytes.len(), message.len() + 3 * 9);
        assert_eq!(&bytes[FRAME + 9..FRAME + 18], [0, 0x40, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(&bytes[2 * (FRAME + 9)..][..9], [0, 0, 5, 0, 0, 0, 0, 0, 1]);
    }
}
