//! All streams of one connection, without I/O: bytes in, bytes out, and reports to the
//! measurements.
//!
//! Bytes that no window of the server allows yet wait in their stream. Not here: the socket
//! (`connection`), the frames (`http2`), and the requests and responses of one stream (`stream`).

use std::sync::Arc;

use super::plan::{AckMode, RequestPlan};
use super::status;
use super::stream::{ReceivedResponse, XdsStream};
use crate::connection::Session;
use crate::http2::{Http2Connection, Http2Error, Http2Event, StreamFlow};
use crate::measurements::{Measurements, Traffic};

/// A connection and the streams of the clients on it.
#[derive(Debug)]
pub(crate) struct XdsSession {
    http2: Http2Connection,
    streams: Vec<XdsStream>,
    plan: Arc<RequestPlan>,
    measurements: Arc<Measurements>,
    /// Names and versions of resources are recorded.
    recording: bool,
    /// A stream has bytes to send that wait for a window or for room in the buffer.
    unsent: bool,
    /// The reason, once the server has said that it will close the connection.
    going_away: Option<String>,
}

impl XdsSession {
    /// Begins a connection.
    pub(crate) fn open(
        plan: Arc<RequestPlan>,
        measurements: Arc<Measurements>,
        largest: u32,
        out: &mut Vec<u8>,
    ) -> Self {
        let http2 = Http2Connection::open(largest, out);
        Self {
            http2,
            streams: Vec::new(),
            plan,
            measurements,
            recording: false,
            unsent: false,
            going_away: None,
        }
    }

    /// Records the names and versions of resources from now on.
    pub(crate) fn record_versions(&mut self) {
        self.recording = true;
    }

    /// Opens the streams of a client and sends its first requests.
    ///
    /// # Errors
    /// The server allows fewer streams on a connection.
    pub(crate) fn open_client(
        &mut self,
        client: u32,
        ack_mode: AckMode,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let plan = Arc::clone(&self.plan);
        for opening in &plan.streams {
            let most = self.http2.streams();
            if self.streams.len() as u64 >= u64::from(most) {
                return Err(format!("the server takes {most} streams on a connection"));
            }
            let id = self.streams.len() as u32 * 2 + 1;
            self.http2.request(id, &opening.headers, out);
            let flow = StreamFlow::new(id, &self.http2);
            let mut stream = XdsStream::new(client, id, flow, ack_mode, &plan);
            if self.recording {
                stream.keep_copies();
            }
            stream.send_first_requests(&mut self.http2, &plan, out);
            self.unsent |= stream.has_unsent();
            self.streams.push(stream);
        }
        Ok(())
    }

    /// Returns true if the first answers of all streams are complete.
    pub(crate) fn answered(&self) -> bool {
        self.streams.iter().all(XdsStream::answered)
    }

    fn take_event(
        &mut self,
        event: Http2Event<'_>,
        out: &mut Vec<u8>,
        traffic: &mut Traffic,
    ) -> Result<(), Http2Error> {
        match event {
            Http2Event::Data { stream, bytes, end } => {
                self.data(stream, bytes, out, traffic);
                if end {
                    self.lose_client(stream, "the server ended the stream without a status");
                }
            }
            Http2Event::Headers { stream, fields, end } => {
                if let Some(why) = status::reason(fields.as_deref(), end) {
                    self.lose_client(stream, &why);
                }
            }
            Http2Event::Reset { stream, code } => self.lose_client(stream, &status::reset(code)),
            Http2Event::GoAway { code, text, .. } => {
                self.going_away = Some(status::goaway(code, &text))
            }
            Http2Event::StreamWindow { stream, by } => {
                if let Some(stream) = with_id(&mut self.streams, stream) {
                    stream.flow.resize_window(by.into())?;
                    self.pump(out);
                }
            }
            Http2Event::AllStreamWindows { by } => {
                self.streams.iter_mut().try_for_each(|stream| stream.flow.resize_window(by))?;
                self.pump(out);
            }
        }
        Ok(())
    }

    fn data(&mut self, id: u32, mut bytes: &[u8], out: &mut Vec<u8>, traffic: &mut Traffic) {
        let Some(stream) = with_id(&mut self.streams, id).filter(|stream| !stream.ended) else {
            return;
        };
        stream.flow.release_window(bytes.len(), out);
        while !bytes.is_empty() {
            match stream.read(&mut bytes, &self.plan) {
                Ok(None) => {}
                Ok(Some(response)) => {
                    let probe = self.plan.subscriptions[usize::from(response.at)].probe;
                    add_response(traffic, &response, probe);
                    if self.recording {
                        self.measurements
                            .record_versions(response.at, stream.copied().unwrap_or_default());
                    }
                    self.measurements.response_received(
                        stream.client,
                        response.at == 0,
                        response.completes,
                    );
                    stream.acknowledge(response.at, &mut self.http2, &self.plan, out);
                    self.unsent |= stream.has_unsent();
                }
                Err(why) => {
                    self.lose_client(id, why);
                    return;
                }
            }
        }
    }

    fn lose_client(&mut self, id: u32, why: &str) {
        if let Some(stream) = with_id(&mut self.streams, id).filter(|stream| !stream.ended) {
            stream.ended = true;
            self.measurements.client_lost(stream.client, why);
        }
    }
}

impl Session for XdsSession {
    fn settings_received(&self) -> bool {
        self.http2.settings_received()
    }

    fn feed(&mut self, mut input: &[u8], out: &mut Vec<u8>) -> Result<(), Http2Error> {
        let mut traffic = Traffic { wire: input.len() as u64, ..Traffic::default() };
        let fed = loop {
            match self.http2.next(&mut input, out) {
                Ok(Some(event)) => {
                    if let Err(broken) = self.take_event(event, out, &mut traffic) {
                        break Err(broken);
                    }
                }
                Ok(None) => break Ok(()),
                Err(broken) => break Err(broken),
            }
        };
        self.measurements.add_traffic(&traffic);
        fed
    }

    fn pump(&mut self, out: &mut Vec<u8>) {
        if !std::mem::take(&mut self.unsent) {
            return;
        }
        for stream in self.streams.iter_mut().filter(|stream| stream.has_unsent()) {
            stream.flow.pump(&mut self.http2, out);
            self.unsent |= stream.has_unsent();
        }
    }

    fn has_unsent(&self) -> bool {
        self.unsent
    }

    fn close(&mut self, why: &str) {
        let why = self.going_away.take().unwrap_or_else(|| why.to_owned());
        for stream in self.streams.iter_mut().filter(|stream| !stream.ended) {
            stream.ended = true;
            self.measurements.client_lost(stream.client, &why);
        }
    }
}

fn add_response(traffic: &mut Traffic, response: &ReceivedResponse, probe: bool) {
    traffic.messages += 1;
    traffic.payload += response.bytes;
    if probe {
        return;
    }
    traffic.resources += u64::from(response.resources);
    traffic.resource_bytes += response.resource_bytes;
}

/// The stream with this number. Streams have odd numbers, in the order in which they were opened.
fn with_id(streams: &mut [XdsStream], id: u32) -> Option<&mut XdsStream> {
    streams.get_mut(usize::try_from(id.checked_sub(1)? / 2).ok()?)
}

#[cfg(test)]
mod tests;
