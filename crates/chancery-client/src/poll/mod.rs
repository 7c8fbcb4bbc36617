//! Sources that are polled: each type is a stream of its own for the machine, on which it asks when
//! it is time to, and is answered.
//!
//! Not here: when that is, and what is asked, which the machine decides (C-044); how an answer is
//! had, which is the source's own.

pub(crate) mod files;
pub(crate) mod rest;

use std::future::poll_fn;
use std::sync::Arc;

use chancery_core::client::{ErrorKind, Input, Response, ServerId, StreamId};
use chancery_core::{ErrorDetail, Request, SotwRequest, TypeUrl};
use tokio::task::JoinSet;

use crate::dial::unavailable;
use crate::driver::passed_on;
use crate::engine::{Engine, Ticket};
use files::Files;
use rest::Rest;

/// A source, and the task that asks it.
pub(crate) struct Channel {
    id: ServerId,
    source: Arc<Source>,
}

/// What is polled.
pub(crate) enum Source {
    Rest(Box<Rest>),
    Files(Files),
}

/// One type of a source.
enum Line<'a> {
    Rest(rest::Line<'a>),
    Files(files::Line<'a>),
}

/// What a poll brings.
pub(crate) enum Answer {
    /// All there is.
    Reply(Response),
    /// Nothing new.
    Unchanged,
    /// Nothing that can be used, and why.
    Unusable(ErrorKind, String),
}

impl Channel {
    pub(crate) fn new(id: ServerId, source: Source) -> Self {
        Self { id, source: Arc::new(source) }
    }

    /// Answers polls for as long as the client lives.
    pub(crate) async fn run(self, engine: Arc<Engine>) {
        let mut streams = JoinSet::new();
        loop {
            tokio::select! {
                ticket = engine.order(self.id) => {
                    streams.spawn(run(Arc::clone(&self.source), Arc::clone(&engine), ticket));
                }
                Some(ended) = streams.join_next() => passed_on(ended),
            }
        }
    }
}

/// Answers the polls of one type until one fails.
async fn run(source: Arc<Source>, engine: Arc<Engine>, ticket: Ticket) {
    let Some(type_url) = ticket.stream.scope.only().cloned() else { return };
    let error = tokio::select! {
        error = source.converse(&engine, &ticket, &type_url) => error,
        () = engine.closed(&ticket) => return,
    };
    engine.ended(&ticket, error);
}

impl Source {
    async fn converse(&self, engine: &Engine, ticket: &Ticket, of: &TypeUrl) -> ErrorDetail {
        let mut line = match self.open(engine, &ticket.stream, of).await {
            Ok(line) => line,
            Err(why) => return unavailable(why),
        };
        if !engine.opened(ticket) {
            return ErrorDetail::default();
        }
        loop {
            let request = poll_fn(|cx| engine.poll_request(ticket, cx)).await;
            let Some(Request::Sotw(request)) = request else { return ErrorDetail::default() };
            let answer = match line.answer(&request).await {
                Ok(answer) => answer,
                Err(why) => return unavailable(why),
            };
            let stream = ticket.stream.clone();
            let input = match answer {
                Answer::Reply(reply) => Input::Received(stream, reply),
                Answer::Unchanged => Input::Unchanged(stream),
                Answer::Unusable(kind, why) => Input::Unusable(stream, kind, why),
            };
            let may = poll_fn(|cx| engine.poll_read(ticket, cx)).await;
            if !may || !engine.happened(ticket, input) {
                return ErrorDetail::default();
            }
        }
    }

    async fn open(
        &self,
        engine: &Engine,
        stream: &StreamId,
        of: &TypeUrl,
    ) -> Result<Line<'_>, String> {
        match self {
            Self::Rest(rest) => Ok(Line::Rest(rest.line(of))),
            Self::Files(files) => {
                let is_known = || engine.look(|machine| machine.connection_error(stream).is_some());
                files.wait(is_known).await?;
                Ok(Line::Files(files.line(of)))
            }
        }
    }
}

impl Line<'_> {
    async fn answer(&mut self, request: &SotwRequest) -> Result<Answer, String> {
        match self {
            Self::Rest(line) => line.answer(request).await,
            Self::Files(line) => line.answer(request).await,
        }
    }
}
