//! CSDS: the server tells how the resources of its clients stand, when somebody asks (S-134, S-135).
//!
//! ```text
//!   question --> matched: clients of the fleet --> looks at their streams, some at once
//!                                                    |
//!                        gRPC, REST <-- [writer] <-- [client]: one `ClientConfig` each
//! ```
//!
//! It is question and answer, and no watch. An answer has a bound, and so have its parts and its time; one
//! is made at a time, the work on it beside the threads of discovery. Not here: what a stream knows
//! ([`StatusBook`]), and the bytes of messages (`chancery_proto`).

mod body;
mod client;
mod matched;
mod patience;
mod readers;
mod rest;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::server::{ResourceQuery, ResourceSelection};
use chancery_proto::json::client_status_request_from_json;
use chancery_proto::schema::Schema;
use chancery_proto::wire::{ClientStatusRequest, decode_client_status_request};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

pub(crate) use self::body::{CallKind, CsdsBody};
use self::matched::MatchedClient;
use self::patience::{Deaf, Patience};
pub use self::readers::CsdsReaders;
pub(crate) use self::rest::json_response;
use self::writer::{AnswerForm, AnswerWriter};
use crate::status::{LookQuery, StatusBook, StreamDetails};

/// The answers to questions for the status of clients. Clones are the same.
#[derive(Clone)]
pub struct Csds {
    book: StatusBook,
    schema: Schema,
    readers: CsdsReaders,
    /// Held while an answer is made, with the streams that left the last questions unanswered.
    turn: Arc<Mutex<Deaf>>,
}

/// The reason why a question is not answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CsdsRefused {
    /// The question is malformed, or exceeds a bound.
    #[error("{0}")]
    Malformed(String),
    /// The answer would be too large.
    #[error(
        "the answer has more than {limit} bytes: ask about fewer clients (`node_matchers`), or without \
         bodies (`exclude_resource_contents`)"
    )]
    TooLarge {
        /// The most bytes that are allowed.
        limit: usize,
    },
    /// The answer was not complete in time.
    #[error("the answer was not complete within {0:?}: ask about fewer clients (`node_matchers`)")]
    TooSlow(Duration),
    /// The answer could not be made; the log says why.
    #[error("the answer could not be made")]
    Failed,
}

impl Csds {
    /// Tells of the clients in this book to those who may ask. The schema tells secrets apart (S-138).
    pub fn new(book: StatusBook, schema: &Schema, readers: CsdsReaders) -> Self {
        Self { book, schema: schema.clone(), readers, turn: Arc::default() }
    }

    /// Answers a `ClientStatusRequest` in JSON with a `ClientStatusResponse` in JSON. The caller has made
    /// sure that whoever asks may know, and bounds the size of the question
    /// ([`MAX_QUESTION`](Self::MAX_QUESTION)).
    ///
    /// # Errors
    /// If the question is malformed, or the answer would exceed a bound.
    pub async fn answer_json(&self, question: &[u8]) -> Result<Bytes, CsdsRefused> {
        let read = |question: &[u8]| {
            client_status_request_from_json(question).map_err(|error| {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                CsdsRefused::Malformed(format!("{error}{}", cause.unwrap_or_default()))
            })
        };
        self.answer(question, read, AnswerForm::Json).await
    }

    /// Answers a `ClientStatusRequest` in protobuf.
    async fn answer_wire(&self, question: &[u8]) -> Result<Bytes, CsdsRefused> {
        let read = |question: &[u8]| {
            let request = decode_client_status_request(question);
            request.map_err(|error| CsdsRefused::Malformed(error.to_string()))
        };
        self.answer(question, read, AnswerForm::Wire).await
    }

    async fn answer(
        &self,
        question: &[u8],
        read: ReadQuestion,
        form: AnswerForm,
    ) -> Result<Bytes, CsdsRefused> {
        let until = Instant::now() + LONGEST;
        match timeout_at(until, self.make(question.to_vec(), read, form)).await {
            Ok(answer) => answer,
            Err(_) => Err(CsdsRefused::TooSlow(LONGEST)),
        }
    }

    async fn make(
        &self,
        question: Vec<u8>,
        read: ReadQuestion,
        form: AnswerForm,
    ) -> Result<Bytes, CsdsRefused> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        // Its patterns are compiled, which may take a time.
        let (request, turn) = beside(move || (read(&question), turn)).await?;
        let ClientStatusRequest { matchers, exclude_contents } = request?;
        let book = self.book.clone();
        // The turn goes to the thread that works and comes back, so that it lasts as long as the work.
        let (matched, mut deaf) =
            beside(move || (matched::clients(&book.fleet(), &matchers), turn)).await?;
        let mut patience = Patience::default();
        let mut writer = AnswerWriter::new(&self.schema, form, exclude_contents);
        for clients in matched::parts(matched) {
            let looked = self.look(clients, &mut deaf, &mut patience).await?;
            let book = self.book.clone();
            (writer, deaf) = beside(move || {
                for (client, details) in looked {
                    let room = writer.room();
                    let config = client::config(&book, client, details, &mut writer.bodies, room)?;
                    writer.add(&config)?;
                }
                Ok::<_, CsdsRefused>((writer, deaf))
            })
            .await??;
        }
        drop(deaf);
        Ok(writer.finish())
    }

    /// Asks the streams of some clients for all of their resources.
    async fn look(
        &self,
        clients: Vec<MatchedClient>,
        deaf: &mut Deaf,
        patience: &mut Patience,
    ) -> Result<Vec<(MatchedClient, Vec<(u64, StreamDetails)>)>, CsdsRefused> {
        let streams: Vec<u64> = clients.iter().flat_map(MatchedClient::ids).collect();
        let query = LookQuery::resources(None, everything(None));
        let answers = patience.look(&self.book, streams, query, deaf).await;
        let mut details: Vec<(u64, StreamDetails)> =
            answers.iter().map(|(id, details)| (*id, StreamDetails::clone(details))).collect();
        let mut count = 0;
        for (id, details) in &mut details {
            for of_type in &mut details.types {
                while of_type.resources.is_cut {
                    let after = of_type.resources.resources.last().map(|it| Arc::clone(&it.name));
                    let query =
                        LookQuery::resources(Some(of_type.type_url.clone()), everything(after));
                    let more = patience.look(&self.book, vec![*id], query, deaf).await;
                    let more = more.into_iter().flat_map(|(_, more)| more.types.clone());
                    // A stream that is gone meanwhile, or takes nothing any more, has no more.
                    let page = more.map(|it| it.resources).next().unwrap_or_default();
                    of_type.resources.resources.extend(page.resources);
                    of_type.resources.is_cut = page.is_cut;
                    if of_type.resources.resources.len() > MOST_RESOURCES {
                        return Err(too_large());
                    }
                }
                count += of_type.resources.resources.len();
            }
        }
        if count > MOST_RESOURCES {
            return Err(too_large());
        }
        let of = |client: MatchedClient| {
            let ids: Vec<u64> = client.ids().collect();
            let its = details.extract_if(.., |(id, _)| ids.contains(id)).collect();
            (client, its)
        };
        Ok(clients.into_iter().map(of).collect())
    }

    /// The readers that are let in.
    pub(crate) fn readers(&self) -> CsdsReaders {
        self.readers
    }

    /// The most bytes of a question.
    pub const MAX_QUESTION: usize = 64 * 1024;
    /// The most bytes of an answer.
    pub const MAX_ANSWER: usize = 16 * 1024 * 1024;
}

impl std::fmt::Debug for Csds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Csds").field("readers", &self.readers).finish_non_exhaustive()
    }
}

/// Reads a question in one form.
type ReadQuestion = fn(&[u8]) -> Result<ClientStatusRequest, CsdsRefused>;

/// Does a piece of work beside the threads of discovery.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CsdsRefused> {
    tokio::task::spawn_blocking(work).await.map_err(|_| CsdsRefused::Failed)
}

fn everything(after: Option<Arc<str>>) -> ResourceQuery {
    let (selection, limit) = (ResourceSelection::All, LookQuery::MAX_RESOURCES);
    ResourceQuery { selection, after, limit }
}

fn too_large() -> CsdsRefused {
    CsdsRefused::TooLarge { limit: Csds::MAX_ANSWER }
}

/// The time for a whole answer, with the wait for others.
const LONGEST: Duration = Duration::from_secs(30);

/// The resources that are looked at together. The names of so many do not fit into an answer.
const MOST_RESOURCES: usize = 200_000;
