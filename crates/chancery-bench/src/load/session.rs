//! All streams of load reports on one connection, without I/O: bytes in, bytes out, and the times at
//! which reports are due.
//!
//! A client begins at its own place in the interval, so that the reports of all come evenly. The
//! interval is the server's. Not here: the bytes of a report (`plan`), and the socket (`connection`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::plan::ReportPlan;
use crate::bytes::take;
use crate::connection::Session;
use crate::http2::{Http2Connection, Http2Error, Http2Event, StreamFlow};
use crate::measurements::{Measurements, Traffic};
use crate::xds::{RequestPlan, proto, status};

/// A connection and the streams of the clients on it.
#[derive(Debug)]
pub(crate) struct LoadSession {
    http2: Http2Connection,
    streams: Vec<LoadStream>,
    plan: Arc<RequestPlan>,
    reports: Arc<ReportPlan>,
    measurements: Arc<Measurements>,
    /// The number of clients of the run.
    clients: usize,
    /// A report, and the interval that it states.
    report: Option<(Duration, Arc<[u8]>)>,
    /// The reason, once the server has said that it will close the connection.
    going_away: Option<String>,
}

/// The stream of one client.
#[derive(Debug)]
struct LoadStream {
    client: u32,
    ended: bool,
    flow: StreamFlow,
    /// The response that is not whole yet, with its prefix.
    part: Vec<u8>,
    /// The time between two reports, and the next report.
    due: Option<(Duration, Instant)>,
    answered: bool,
}

/// The server asks for reports, this often.
#[derive(Debug, PartialEq, Eq)]
struct Asked(Duration);

const PREFIX: usize = 5;

/// The largest response that is read: one with the names of all clusters is smaller.
const LARGEST: usize = 4 << 20;

const DAMAGED: &str = "the server sent something that is no answer to a load report";

impl LoadSession {
    /// Begins a connection.
    pub(crate) fn open(
        (plan, reports): (Arc<RequestPlan>, Arc<ReportPlan>),
        measurements: Arc<Measurements>,
        largest: u32,
        clients: usize,
        out: &mut Vec<u8>,
    ) -> Self {
        let http2 = Http2Connection::open(largest, out);
        let (streams, report, going_away) = (Vec::new(), None, None);
        Self { http2, streams, plan, reports, measurements, clients, report, going_away }
    }

    /// Opens the stream of a client, which says who it is.
    ///
    /// # Errors
    /// The server allows fewer streams on a connection.
    pub(crate) fn open_client(&mut self, client: u32, out: &mut Vec<u8>) -> Result<(), String> {
        let most = self.http2.streams();
        if self.streams.len() as u64 >= u64::from(most) {
            return Err(format!("the server takes {most} streams on a connection"));
        }
        let id = self.streams.len() as u32 * 2 + 1;
        for opening in &self.plan.streams {
            self.http2.request(id, &opening.headers, out);
        }
        let mut flow = StreamFlow::new(id, &self.http2);
        flow.push(ReportPlan::first(self.plan.node.encoded(client)));
        flow.pump(&mut self.http2, out);
        let (part, due) = (Vec::new(), None);
        self.streams.push(LoadStream { client, ended: false, flow, part, due, answered: false });
        Ok(())
    }

    /// The time of the next report of any client.
    pub(crate) fn due(&self) -> Option<Instant> {
        let open = self.streams.iter().filter(|stream| !stream.ended);
        open.filter_map(|stream| Some(stream.due?.1)).min()
    }

    /// Sends the reports that are due.
    pub(crate) fn send_due(&mut self, now: Instant, out: &mut Vec<u8>) {
        for stream in self.streams.iter_mut().filter(|stream| !stream.ended) {
            let Some((interval, due)) = stream.due.filter(|(_, due)| *due <= now) else { continue };
            stream.due = Some((interval, due + interval));
            if self.report.as_ref().is_none_or(|(stated, _)| *stated != interval) {
                self.report = Some((interval, self.reports.report(interval)));
            }
            // A server that does not read is not given more than one report for later.
            if let Some((_, report)) = self.report.as_ref().filter(|_| !stream.flow.has_unsent()) {
                stream.flow.push(Arc::clone(report));
                stream.flow.pump(&mut self.http2, out);
                self.measurements.reported(stream.client);
            }
        }
    }

    fn take_event(&mut self, event: Http2Event<'_>, out: &mut Vec<u8>) -> Result<(), Http2Error> {
        match event {
            Http2Event::Data { stream, bytes, end } => {
                self.data(stream, bytes, out);
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
                self.going_away = Some(status::goaway(code, &text));
            }
            Http2Event::StreamWindow { stream, by } => {
                if let Some(stream) = with_id(&mut self.streams, stream) {
                    stream.flow.resize_window(by.into())?;
                    self.pump(out);
                }
            }
            Http2Event::AllStreamWindows { by } => {
                let mut streams = self.streams.iter_mut();
                streams.try_for_each(|stream| stream.flow.resize_window(by))?;
                self.pump(out);
            }
        }
        Ok(())
    }

    fn data(&mut self, id: u32, mut bytes: &[u8], out: &mut Vec<u8>) {
        let clients = self.clients;
        let Some(stream) = with_id(&mut self.streams, id).filter(|stream| !stream.ended) else {
            return;
        };
        stream.flow.release_window(bytes.len(), out);
        while !bytes.is_empty() {
            match stream.read(&mut bytes) {
                Ok(None) => {}
                Ok(Some(asked)) => {
                    stream.follow(&asked, clients);
                    let is_first = !std::mem::replace(&mut stream.answered, true);
                    self.measurements.response_received(stream.client, false, is_first);
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

impl Session for LoadSession {
    fn settings_received(&self) -> bool {
        self.http2.settings_received()
    }

    fn feed(&mut self, mut input: &[u8], out: &mut Vec<u8>) -> Result<(), Http2Error> {
        let wire = input.len() as u64;
        self.measurements.add_traffic(&Traffic { wire, ..Traffic::default() });
        while let Some(event) = self.http2.next(&mut input, out)? {
            self.take_event(event, out)?;
        }
        Ok(())
    }

    fn pump(&mut self, out: &mut Vec<u8>) {
        for stream in self.streams.iter_mut().filter(|stream| !stream.ended) {
            stream.flow.pump(&mut self.http2, out);
        }
    }

    fn has_unsent(&self) -> bool {
        self.streams.iter().any(|stream| !stream.ended && stream.flow.has_unsent())
    }

    fn close(&mut self, why: &str) {
        let why = self.going_away.take().unwrap_or_else(|| why.to_owned());
        for stream in self.streams.iter_mut().filter(|stream| !stream.ended) {
            stream.ended = true;
            self.measurements.client_lost(stream.client, &why);
        }
    }
}

impl LoadStream {
    /// Reads up to the end of a response, and returns what it asks for if it is whole.
    fn read(&mut self, bytes: &mut &[u8]) -> Result<Option<Asked>, &'static str> {
        if self.part.len() < PREFIX {
            let missing = PREFIX - self.part.len();
            self.part.extend_from_slice(take(bytes, missing));
        }
        let Some([compressed, a, b, c, d]) = self.part.first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        if *compressed != 0 || length > LARGEST {
            return Err(DAMAGED);
        }
        let missing = PREFIX + length - self.part.len();
        self.part.extend_from_slice(take(bytes, missing));
        if self.part.len() < PREFIX + length {
            return Ok(None);
        }
        let asked = asked(&self.part[PREFIX..]);
        self.part = Vec::new();
        asked.map(Some)
    }

    /// Reports as the server wants it from now on.
    fn follow(&mut self, Asked(interval): &Asked, clients: usize) {
        if self.due.is_some_and(|(before, _)| before == *interval) {
            return;
        }
        let place = f64::from(self.client) / clients.max(1) as f64;
        self.due = Some((*interval, Instant::now() + interval.mul_f64(1.0 + place)));
    }
}

/// The interval in a `LoadStatsResponse`.
fn asked(response: &[u8]) -> Result<Asked, &'static str> {
    let interval = proto::fields(response).filter(|(number, _)| *number == 2).last();
    let (_, interval) = interval.ok_or(DAMAGED)?;
    let part = |number| proto::number(interval, number).unwrap_or(0);
    let nanos = u32::try_from(part(2)).map_err(|_| DAMAGED)?;
    let interval = Duration::from_secs(part(1)).saturating_add(Duration::from_nanos(nanos.into()));
    if !(SHORTEST..=LONGEST).contains(&interval) {
        return Err("the server asks for load reports in no time, or never");
    }
    Ok(Asked(interval))
}

/// The intervals that a client follows.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(3600);

/// The stream with this number. Streams have odd numbers, in the order in which they were opened.
fn with_id(streams: &mut [LoadStream], id: u32) -> Option<&mut LoadStream> {
    streams.get_mut(usize::try_from(id.checked_sub(1)? / 2).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> LoadStream {
        let flow = StreamFlow::new(1, &Http2Connection::open(0, &mut Vec::new()));
        LoadStream { client: 5, ended: false, flow, part: Vec::new(), due: None, answered: false }
    }

    /// Ten seconds and a half, for all clusters.
    const RESPONSE: &[u8] =
        &[0, 0, 0, 0, 12, 0x12, 8, 8, 10, 16, 0x80, 0xca, 0xb5, 0xee, 1, 0x20, 1];

    #[test]
    fn a_response_is_read_in_whatever_pieces_it_comes() {
        let interval = Duration::from_millis(10_500);
        for size in 1..=RESPONSE.len() {
            let mut stream = stream();
            let mut found = Vec::new();
            for mut piece in RESPONSE.chunks(size) {
                while !piece.is_empty() {
                    found.extend(stream.read(&mut piece).unwrap());
                }
            }
            assert_eq!(found, [Asked(interval)], "{size}");
        }
    }

    #[test]
    fn what_is_no_answer_is_told() {
        for odd in
            [&[1, 0, 0, 0, 0][..], &[0, 0xff, 0, 0, 0], &[0, 0, 0, 0, 0], &[0, 0, 0, 0, 2, 0x12, 0]]
        {
            let (mut stream, mut rest) = (stream(), odd);
            let mut ends = None;
            while !rest.is_empty() && ends.is_none() {
                ends = stream.read(&mut rest).err();
            }
            assert!(ends.is_some(), "{odd:?}");
        }
    }

    #[test]
    fn clients_begin_at_places_of_their_own_in_the_interval() {
        let mut stream = stream();
        let interval = Duration::from_secs(10);
        let before = Instant::now();
        stream.follow(&Asked(interval), 10);
        let (_, first) = stream.due.unwrap();
        assert!(first >= before + interval.mul_f64(1.5) && first <= Instant::now() + interval * 2);
        stream.follow(&Asked(interval), 10);
        assert_eq!(stream.due.unwrap().1, first, "the same interval changes nothing");
    }
}
