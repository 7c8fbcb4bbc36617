//! Servers that are polled: those of REST, and files. For the machine each type is a stream of its
//! own, on which it sends a request when one is due and gets a response.
//!
//! Not here: the decisions when to poll and for which names, which the machine makes (C-044).

mod answer;
pub(crate) mod files;
pub(crate) mod rest;

use std::future::poll_fn;
use std::sync::Arc;

use chancery_core::client::{Input, ServerId, StreamId};
use chancery_core::{ErrorDetail, Request, SotwRequest, TypeUrl};
use tokio::task::JoinSet;

use crate::engine::{Engine, StreamHandle};
use crate::errors::unavailable;
use crate::tasks::pass_panic_on;
use answer::PollAnswer;
use files::PolledFiles;
use rest::Rest;

/// Polls one server.
pub(crate) struct PollDriver {
    id: ServerId,
    server: Arc<PolledServer>,
}

/// A server that is polled.
pub(crate) enum PolledServer {
    Rest(Box<Rest>),
    Files(PolledFiles),
}

/// Polls one type of a server.
enum Poller<'a> {
    Rest(rest::RestPoller<'a>),
    Files(files::FilePoller<'a>),
}

impl PollDriver {
    pub(crate) fn new(id: ServerId, server: PolledServer) -> Self {
        Self { id, server: Arc::new(server) }
    }

    /// Serves polls for as long as the client lives.
    pub(crate) async fn run(self, engine: Arc<Engine>) {
        let mut streams = JoinSet::new();
        loop {
            tokio::select! {
                handle = engine.stream_to_open(self.id) => {
                    streams.spawn(run(Arc::clone(&self.server), Arc::clone(&engine), handle));
                }
                Some(ended) = streams.join_next() => pass_panic_on(ended),
            }
        }
    }
}

/// Polls one type until a poll fails.
async fn run(server: Arc<PolledServer>, engine: Arc<Engine>, handle: StreamHandle) {
    let Some(type_url) = handle.stream.scope.only().cloned() else { return };
    let error = tokio::select! {
        error = server.converse(&engine, &handle, &type_url) => error,
        () = engine.closed(&handle) => return,
    };
    engine.ended(&handle, error);
}

impl PolledServer {
    async fn converse(&self, engine: &Engine, handle: &StreamHandle, of: &TypeUrl) -> ErrorDetail {
        let mut poller = match self.poller(engine, &handle.stream, of).await {
            Ok(poller) => poller,
            Err(why) => return unavailable(why),
        };
        if !engine.opened(handle) {
            return ErrorDetail::default();
        }
        loop {
            let request = poll_fn(|cx| engine.poll_request(handle, cx)).await;
            let Some(Request::Sotw(request)) = request else { return ErrorDetail::default() };
            let answer = match poller.poll(&request).await {
                Ok(answer) => answer,
                Err(why) => return unavailable(why),
            };
            let stream = handle.stream.clone();
            let input = match answer {
                PollAnswer::Response(response) => Input::Received(stream, response),
                PollAnswer::Unchanged => Input::Unchanged(stream),
                PollAnswer::Unusable(kind, why) => Input::Unusable(stream, kind, why),
            };
            let may = poll_fn(|cx| engine.poll_read(handle, cx)).await;
            if !may || !engine.handle(handle, input) {
                return ErrorDetail::default();
            }
        }
    }

    async fn poller(
        &self,
        engine: &Engine,
        stream: &StreamId,
        of: &TypeUrl,
    ) -> Result<Poller<'_>, String> {
        match self {
            Self::Rest(rest) => Ok(Poller::Rest(rest.poller(of))),
            Self::Files(files) => {
                let is_known =
                    || engine.inspect(|machine| machine.connection_error(stream).is_some());
                files.wait(is_known).await?;
                Ok(Poller::Files(files.poller(of)))
            }
        }
    }
}

impl Poller<'_> {
    async fn poll(&mut self, request: &SotwRequest) -> Result<PollAnswer, String> {
        match self {
            Self::Rest(poller) => poller.poll(request).await,
            Self::Files(poller) => poller.poll(request).await,
        }
    }
}
