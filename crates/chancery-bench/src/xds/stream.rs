//! One stream of one client: its requests, the responses read from pieces of the body, and their
//! acknowledgements.
//!
//! A response is counted and scanned as its pieces arrive, so that it is not kept unless it is
//! recorded. Not here: the encoded requests (`plan`), the fields of a response (`scanner`), and the
//! connection that the stream is on (`session`).

use std::ops::Range;
use std::sync::Arc;

use super::plan::{AckMode, Expect, RequestPlan, acknowledge};
use super::scanner::{ResponseFields, Scanner};
use crate::bytes::take;
use crate::http2::{Http2Connection, StreamFlow};

/// A stream from the first request to its end.
#[derive(Debug)]
pub(super) struct XdsStream {
    /// The number of its client.
    pub(super) client: u32,
    pub(super) ended: bool,
    pub(super) ack_mode: AckMode,
    pub(super) flow: StreamFlow,
    prefix: [u8; PREFIX],
    have: u8,
    left: u32,
    scanner: Scanner,
    /// The first answers that are not complete.
    incomplete: Vec<IncompleteAnswer>,
    /// The places of its subscriptions in the plan.
    subscriptions: Range<u16>,
    /// The whole response, if versions are recorded from it.
    copy: Option<Vec<u8>>,
}

/// A first answer that is not complete.
#[derive(Clone, Copy, Debug)]
struct IncompleteAnswer {
    /// The place of its subscription in the plan.
    at: u16,
    /// The number of resources that were received or removed.
    received: u32,
}

/// A response that was received, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceivedResponse {
    /// The place of its subscription in the plan.
    pub(super) at: u16,
    pub(super) bytes: u64,
    pub(super) resources: u32,
    pub(super) resource_bytes: u64,
    /// With this response all first answers of the stream are complete.
    pub(super) completes: bool,
}

impl XdsStream {
    pub(super) fn new(
        client: u32,
        id: u32,
        flow: StreamFlow,
        ack_mode: AckMode,
        plan: &RequestPlan,
    ) -> Self {
        let planned = &plan.streams[id as usize / 2 % plan.streams.len()];
        let subscriptions = planned.subscriptions.clone();
        let expects = |at: &u16| plan.subscriptions[usize::from(*at)].expect != Expect::Nothing;
        Self {
            client,
            ended: false,
            ack_mode,
            flow,
            prefix: [0; PREFIX],
            have: 0,
            left: 0,
            scanner: Scanner::default(),
            incomplete: subscriptions
                .clone()
                .filter(expects)
                .map(|at| IncompleteAnswer { at, received: 0 })
                .collect(),
            subscriptions,
            copy: None,
        }
    }

    /// Keeps a copy of every response, for [`Self::copied`].
    pub(super) fn keep_copies(&mut self) {
        self.copy = Some(Vec::new());
    }

    /// The response that was just received.
    pub(super) fn copied(&self) -> Option<&[u8]> {
        self.copy.as_deref()
    }

    /// Reads a piece of the body up to the end of a response, and returns the response if it is
    /// whole.
    ///
    /// # Errors
    /// The body is not a sequence of discovery responses.
    pub(super) fn read(
        &mut self,
        bytes: &mut &[u8],
        plan: &RequestPlan,
    ) -> Result<Option<ReceivedResponse>, &'static str> {
        if self.left == 0 && !self.read_prefix(bytes)? {
            return Ok(None);
        }
        let now = take(bytes, self.left as usize);
        self.left -= now.len() as u32;
        self.scanner.feed(now).map_err(|_| DAMAGED)?;
        if let Some(copy) = &mut self.copy {
            copy.extend_from_slice(now);
        }
        if self.left > 0 {
            return Ok(None);
        }
        self.have = 0;
        if !self.scanner.is_complete() {
            return Err(DAMAGED);
        }
        self.response(plan).map(Some)
    }

    /// Sends the first requests of this stream.
    pub(super) fn send_first_requests(
        &mut self,
        http2: &mut Http2Connection,
        plan: &RequestPlan,
        out: &mut Vec<u8>,
    ) {
        let mut node = Some(plan.node.encoded(self.client));
        for at in self.subscriptions.clone() {
            let subscription = &plan.subscriptions[usize::from(at)];
            let own = super::plan::own_fields(plan.protocol, node.take());
            let mut start = Vec::with_capacity(PREFIX + own.len());
            prefix(&mut start, own.len() + subscription.first_request.len());
            start.extend_from_slice(&own);
            self.flow.push(start.into());
            self.flow.push(Arc::clone(&subscription.first_request));
        }
        self.flow.pump(http2, out);
    }

    /// Acknowledges, or rejects, the response that was just received.
    pub(super) fn acknowledge(
        &mut self,
        at: u16,
        http2: &mut Http2Connection,
        plan: &RequestPlan,
        out: &mut Vec<u8>,
    ) {
        if self.ack_mode == AckMode::Silent {
            return;
        }
        let repeated = &plan.subscriptions[usize::from(at)].repeated;
        let ResponseFields { version, nonce, .. } = &self.scanner.fields;
        let start = Http2Connection::begin_data(out);
        let body = out.len();
        prefix(out, 0);
        out.extend_from_slice(repeated);
        acknowledge(out, plan.protocol, self.ack_mode, version, nonce);
        let length = (out.len() - body - PREFIX) as u32;
        out[body + 1..body + PREFIX].copy_from_slice(&length.to_be_bytes());
        self.flow.finish_data(http2, out, start);
    }

    /// Returns true if bytes wait for a window or for room in the buffer.
    pub(super) fn has_unsent(&self) -> bool {
        self.flow.has_unsent() && !self.ended
    }

    /// Returns true if the first answers to all its subscriptions are complete.
    pub(super) fn answered(&self) -> bool {
        self.incomplete.is_empty()
    }

    /// Reads the prefix of a message (compression and length); returns true if it is whole.
    fn read_prefix(&mut self, bytes: &mut &[u8]) -> Result<bool, &'static str> {
        let have = usize::from(self.have);
        let now = take(bytes, PREFIX - have);
        self.prefix[have..have + now.len()].copy_from_slice(now);
        self.have += now.len() as u8;
        if usize::from(self.have) < PREFIX {
            return Ok(false);
        }
        let [compressed, length @ ..] = self.prefix;
        if compressed != 0 {
            return Err("the server compresses responses, which was not offered");
        }
        self.left = u32::from_be_bytes(length);
        self.scanner.clear();
        if let Some(copy) = &mut self.copy {
            copy.clear();
        }
        Ok(true)
    }

    fn response(&mut self, plan: &RequestPlan) -> Result<ReceivedResponse, &'static str> {
        let ResponseFields { type_url, resources, resource_bytes, removed, .. } =
            &self.scanner.fields;
        let known = |subscription: &super::plan::EncodedSubscription| {
            subscription.url.as_str().as_bytes() == &**type_url
        };
        // On a stream of one type the server may leave out the type.
        let at = match type_url.is_empty() {
            true => Some(usize::from(self.subscriptions.start)),
            false => plan.subscriptions.iter().position(known),
        };
        let at = at.ok_or("the server sent a type that was not asked for")? as u16;
        let came = resources + removed;
        let completes = add_resources(&mut self.incomplete, at, came, plan);
        let bytes = u64::from(u32::from_be_bytes([
            self.prefix[1],
            self.prefix[2],
            self.prefix[3],
            self.prefix[4],
        ]));
        let (resources, resource_bytes) = (*resources, *resource_bytes);
        Ok(ReceivedResponse { at, bytes, resources, resource_bytes, completes })
    }
}

/// Adds resources to a first answer; returns true if with them all first answers are complete.
fn add_resources(
    incomplete: &mut Vec<IncompleteAnswer>,
    at: u16,
    came: u32,
    plan: &RequestPlan,
) -> bool {
    let Some(index) = incomplete.iter().position(|incomplete| incomplete.at == at) else {
        return false;
    };
    incomplete[index].received += came;
    if let Expect::Resources(expected) = plan.subscriptions[usize::from(at)].expect
        && incomplete[index].received < expected
    {
        return false;
    }
    incomplete.swap_remove(index);
    incomplete.is_empty()
}

fn prefix(out: &mut Vec<u8>, length: usize) {
    out.push(0);
    out.extend_from_slice(&(length as u32).to_be_bytes());
}

const PREFIX: usize = 5;

const DAMAGED: &str = "the server sent something that is no discovery response";
