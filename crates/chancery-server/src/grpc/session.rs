//! One stream: its machine, and the audience whose snapshots it sees.
//!
//! The protocol is decided by [`chancery_core::server::Machine`] alone. Here bytes become its inputs,
//! its responses become bytes, and its events are told to the [`Account`].

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use chancery_core::server::{Event, Input, Response, Segment};
use chancery_core::{Request, Scope, Time, TypeUrl, Variant, server};
use chancery_proto::wire;
use tokio::time::Instant;
use tonic::Status;

use super::account::Account;
use super::framing::{Frames, frame_response};
use super::status;
use crate::budget::ValuesPermit;
use crate::policy::Peer;
use crate::server_state::{ServerState, StreamPermit, permit_values};
use crate::slice::{LARGE_STREAM, LONG_REQUEST, MANY_NAMES, MANY_RESOURCES, WorkSize};
use crate::status::{AwayFor, Look, MachineState};
use crate::store::{AudienceState, Watch};

/// One stream.
pub(crate) struct StreamSession {
    account: Account,
    variant: Variant,
    machine: server::Machine,
    watch: Option<Watch>,
    /// The permit for the values of its audience, which is held for as long as that is watched.
    values: Option<ValuesPermit>,
    answered: bool,
    /// True if the stream was given a snapshot.
    shown: bool,
    /// True if the machine has the snapshot of its audience that the stream looked at last.
    is_current: bool,
    /// The number of resources in the snapshot.
    resources: usize,
    /// True if there was no response since the last input.
    is_quiet: bool,
}

/// Work for which the session leaves its connection for a while.
pub(crate) struct LongWork {
    pub(crate) size: WorkSize,
    pub(crate) run: Box<RunWork>,
}

/// Adds responses to the frames.
type RunWork = dyn FnOnce(&mut StreamSession, &mut Frames) -> Result<(), Status> + Send;

/// The outcome of a look for the next response.
pub(crate) enum Responded {
    /// There is none.
    Nothing,
    /// It was added.
    Added,
    /// It is long work to look for it, or to encode it.
    Later(LongWork),
}

impl StreamSession {
    pub(crate) fn open(
        permit: StreamPermit,
        peer: Arc<Peer>,
        variant: Variant,
        only: Option<TypeUrl>,
    ) -> Self {
        let scope = only.clone().map_or(Scope::Aggregated, Scope::Only);
        let machine = server::Machine::new(variant, scope, permit.shared().settings(&peer));
        let account = Account::open(permit, peer, variant, only);
        Self {
            account,
            variant,
            machine,
            watch: None,
            values: None,
            answered: false,
            shown: false,
            is_current: false,
            resources: 0,
            is_quiet: false,
        }
    }

    /// Takes one message of the client. If that is long work, it is returned instead.
    ///
    /// # Errors
    /// With the status to end the stream with.
    pub(crate) fn receive(
        &mut self,
        message: &Bytes,
        now: Instant,
    ) -> Result<Option<LongWork>, Status> {
        if message.len() >= LONG_REQUEST || self.is_large() {
            return Ok(Some(self.read_later(message)));
        }
        let request = self.decode(message)?;
        if names_in(&request) >= MANY_NAMES {
            // It is read again there, because the names take more memory than the message.
            return Ok(Some(self.read_later(message)));
        }
        if self.resources >= MANY_RESOURCES && request.is_about_everything() {
            return Ok(Some(LongWork {
                size: WorkSize::of_resources(self.resources),
                run: Box::new(move |session, _| session.take_request(request, Instant::now())),
            }));
        }
        self.take_request(request, now)?;
        Ok(None)
    }

    fn read_later(&self, message: &Bytes) -> LongWork {
        let message = message.clone();
        let size = WorkSize::of_bytes(message.len()) + self.size();
        let run = move |session: &mut Self, _: &mut Frames| {
            let request = session.decode(&message)?;
            session.take_request(request, Instant::now())
        };
        LongWork { size, run: Box::new(run) }
    }

    fn decode(&self, message: &[u8]) -> Result<Request, Status> {
        let limits = self.shared().config.protocol.request_limits();
        let request = match self.variant {
            Variant::Sotw => wire::decode_sotw_within(message, &limits).map(Request::Sotw),
            Variant::Delta => wire::decode_delta_within(message, &limits).map(Request::Delta),
        };
        request.map_err(|error| {
            self.account.client_fault(&error);
            status::of_decode_error(&error)
        })
    }

    fn take_request(&mut self, request: Request, now: Instant) -> Result<(), Status> {
        self.account.heard(now);
        for event in self.handle(Input::Request(request), now)? {
            if let (Event::Subscribed { demand, .. }, Some(watch)) = (event, &mut self.watch) {
                watch.want(&demand);
            }
        }
        Ok(())
    }

    /// Takes what its audience should see, if that is news.
    ///
    /// # Errors
    /// With the status to end the stream with.
    pub(crate) fn poll_audience(&mut self, cx: &Context<'_>, now: Instant) -> Result<(), Status> {
        while let Some(watch) = &mut self.watch {
            let Poll::Ready(state) = watch.poll_state(cx, now) else { break };
            self.is_current = false;
            self.see(state, now)?;
        }
        Ok(())
    }

    /// Tells the card of the stream where the machine is. Whoever has the session do something calls this
    /// after all of it: each call takes some steps for each type.
    pub(crate) fn note(&self, now: Instant) {
        let started = self.account.started();
        let state = MachineState {
            has_landed: self.is_current && self.machine.has_landed(),
            unanswered_since: self.machine.unanswered_since().map(|time| started + time.0),
            rejected_types: self.machine.rejected_types(),
        };
        self.account.note(&self.machine, state, now);
    }

    /// Answers those who ask the stream, unless that is long work.
    pub(crate) fn answer_looks(&self, now: Instant) -> Option<LongWork> {
        if !self.account.card().is_asked() {
            return None;
        }
        let looks = self.account.card().take_looks();
        let sees_many = self.is_large() || self.resources >= MANY_RESOURCES;
        if sees_many && looks.iter().any(Look::may_be_long) {
            let size = self.size() + WorkSize::of_resources(self.resources);
            let run = move |session: &mut Self, _: &mut Frames| {
                session.answer(&looks, Instant::now());
                Ok(())
            };
            return Some(LongWork { size, run: Box::new(run) });
        }
        self.answer(&looks, now);
        None
    }

    fn answer(&self, looks: &[Look], now: Instant) {
        looks.iter().for_each(|look| look.answer(&self.machine, self.time(now)));
    }

    /// Adds the next response, if there is one and that is not long work.
    ///
    /// # Errors
    /// With the status to end the stream with.
    pub(crate) fn respond(&mut self, out: &mut Frames, now: Instant) -> Result<Responded, Status> {
        if !self.is_large() {
            let Some(response) = self.next_response(now)? else { return Ok(Responded::Nothing) };
            if !is_long(&response) {
                self.add(&response, out);
                return Ok(Responded::Added);
            }
            let size = WorkSize::of_resources(response.entries.len());
            let run = move |session: &mut Self, out: &mut Frames| {
                session.add(&response, out);
                Ok(())
            };
            return Ok(Responded::Later(LongWork { size, run: Box::new(run) }));
        }
        let is_due = || self.deadline().is_some_and(|deadline| deadline <= now);
        if self.is_quiet && !is_due() {
            return Ok(Responded::Nothing);
        }
        let run = |session: &mut Self, out: &mut Frames| {
            if let Some(response) = session.next_response(Instant::now())? {
                session.add(&response, out);
            }
            Ok(())
        };
        Ok(Responded::Later(LongWork { size: self.size(), run: Box::new(run) }))
    }

    fn next_response(&mut self, now: Instant) -> Result<Option<Response>, Status> {
        let response = self.machine.poll(self.time(now));
        self.is_quiet = response.is_none();
        if let Some(refusal) = self.machine.refusal() {
            self.account.may_not_have(refusal);
            return Err(status::of_violation(refusal));
        }
        if self.is_quiet
            && let Some(event) = self.machine.landed()
        {
            self.account.record(&event, now, &self.machine);
        }
        Ok(response)
    }

    fn add(&mut self, response: &Response, out: &mut Frames) {
        let tail = wire::encode_tail(response, &self.shared().config.control_plane);
        let bytes = frame_response(response, &tail, out);
        self.answered = true;
        self.account.sent(response, bytes);
    }

    /// Returns true if so much is kept for the client that work on all of it is long.
    pub(crate) fn is_large(&self) -> bool {
        self.machine.held_bytes() >= LARGE_STREAM
    }

    /// The size of work on all that is kept for the client.
    pub(crate) fn size(&self) -> WorkSize {
        WorkSize::of_stream(self.machine.held_bytes())
    }

    /// The time at which to ask for responses again, if nothing happens before.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let times = self.machine.deadline().into_iter().chain(self.machine.landing_deadline());
        times.min().map(|time| self.account.started() + time.0)
    }

    /// Returns true if the client got its first answer (S-112), or needs none because it holds what
    /// is current. The result is right only when nothing is due.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered || self.shown
    }

    /// Returns true if no request has come yet.
    pub(crate) fn awaits_first_request(&self) -> bool {
        self.watch.is_none()
    }

    /// Notes that the client takes a part of a large response, or that the stream gets in line to send it.
    pub(crate) fn takes(&self, now: Instant) {
        self.account.takes(now);
    }

    /// Notes why the session is away from its connection, or that it is back.
    pub(crate) fn leaves(&self, why: AwayFor) {
        self.account.card().leaves(why);
    }

    /// Notes the status with which the stream is ended.
    pub(crate) fn ends(&mut self, status: &Status) {
        self.account.ends(status.code() as i32);
    }

    /// The number of bytes that the stream holds of what its client has said, and that are kept because of
    /// values that its node states.
    pub(crate) fn held_bytes(&self) -> usize {
        let values = self.watch.as_ref().map_or(0, |watch| watch.audience().held_bytes());
        self.machine.held_bytes() + self.account.card().held_bytes() + values
    }

    /// The number of bytes that the stream is charged for because it holds a snapshot that is
    /// superseded. The task is woken when that may have changed.
    pub(crate) fn superseded_bytes(&self, cx: &Context<'_>) -> usize {
        let (Some(watch), Some(held)) = (&self.watch, self.machine.snapshot()) else { return 0 };
        watch.superseded_bytes(cx, held)
    }

    pub(crate) fn shared(&self) -> &Arc<ServerState> {
        self.account.shared()
    }

    fn handle(&mut self, input: Input, now: Instant) -> Result<Vec<Event>, Status> {
        self.is_quiet = false;
        let events = self.machine.handle(self.time(now), input).map_err(|violation| {
            self.account.client_fault(&violation);
            status::of_violation(&violation)
        })?;
        for event in &events {
            self.account.record(event, now, &self.machine);
            match event {
                Event::Identified(node) => {
                    self.account.identified(Arc::clone(node));
                    self.choose_audience()?;
                }
                Event::ParametersChanged(node) => {
                    self.account.identified(Arc::clone(node));
                    if let Some(watch) = &self.watch {
                        watch.is_of(Arc::clone(node));
                    }
                    if self.shared().policy.reads_dynamic_parameters() {
                        self.choose_audience()?;
                    }
                }
                Event::Anonymous => self.choose_audience()?,
                _ => {}
            }
        }
        Ok(events)
    }

    /// Asks the policy, and follows the audience it names.
    fn choose_audience(&mut self) -> Result<(), Status> {
        let client = self.account.client();
        let asking = self.shared().store.asking(self.account.caller());
        let refused = |refusal| {
            self.account.refused(&refusal);
            Status::from(refusal)
        };
        let audience = self.shared().policy.audience(&client).map_err(refused)?;
        let values = permit_values(self.account.share(), &audience).map_err(refused)?;
        if self.watch.as_ref().is_none_or(|watch| *watch.audience() != audience) {
            self.account.assigned(&audience);
            let mut watch = self.shared().store.watch(audience, &asking);
            self.account.placed(&mut watch);
            if let Some(before) = &self.watch {
                watch.want_as(before);
            }
            self.watch = Some(watch);
            self.is_current = false;
            self.values = values;
        }
        Ok(())
    }

    /// Gives the machine the snapshot of the audience. Without a snapshot the client waits, or
    /// keeps what it has.
    fn see(&mut self, state: AudienceState, now: Instant) -> Result<(), Status> {
        if state.reassigned {
            let before = self.watch.as_ref().map(|watch| watch.audience().clone());
            self.choose_audience()?;
            self.account.card().has_asked();
            if self.watch.as_ref().map(Watch::audience) != before.as_ref() {
                // The state of the other audience comes next.
                return Ok(());
            }
        }
        let Some(snapshot) = state.snapshot else { return Ok(()) };
        self.shown = true;
        self.resources = snapshot.len();
        self.account.published(state.published);
        self.is_current = true;
        self.handle(Input::Snapshot(snapshot), now)?;
        Ok(())
    }

    /// The age of the stream at that moment.
    fn time(&self, now: Instant) -> Time {
        Time(now.saturating_duration_since(self.account.started()))
    }
}

/// The number of names in a request.
fn names_in(request: &Request) -> usize {
    match request {
        Request::Sotw(request) => request.names.len(),
        Request::Delta(request) => {
            request.subscribe.len() + request.unsubscribe.len() + request.initial_versions.len()
        }
    }
}

/// Returns true if a response has a long list that no stream was sent yet.
fn is_long(response: &Response) -> bool {
    response.entries.segments().iter().any(|segment| match segment {
        Segment::Run(run) => {
            run.resources().len() >= MANY_RESOURCES && !run.is_encoded(response.form())
        }
        Segment::Resource(_) | Segment::Own(_) => false,
    })
}
