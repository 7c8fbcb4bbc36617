//! The types that a server knows, asked for by reflection: v1 first, and v1alpha of servers that do not have
//! it. Both have the same bytes. The questions take the way of calls.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, anyhow};
use bytes::Bytes;
use chancery_core::printable::{MAX_MESSAGE_BYTES, MAX_NAME_BYTES, Printable, cut};
use http::uri::PathAndQuery;
use prost::Message;
use prost_reflect::DescriptorPool;
use prost_reflect::prost_types::FileDescriptorProto;
use tokio::time::timeout;
use tonic::Code;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ErrorResponse, ServerReflectionRequest, ServerReflectionResponse};

use super::codes;
use super::data::Input;
use super::one::{CallReport, Caller, GRACE, Sink};
use super::pool;
use crate::exit::Failure;

/// Asks servers for their types.
pub(super) struct Reflection<'a> {
    caller: &'a Caller,
    is_alpha: bool,
}

/// The files that have come, and those that were asked for.
#[derive(Default)]
struct Files {
    files: BTreeMap<String, FileDescriptorProto>,
    asked: BTreeSet<String>,
    bytes: usize,
}

impl<'a> Reflection<'a> {
    pub(super) fn new(caller: &'a Caller) -> Self {
        Self { caller, is_alpha: false }
    }

    /// Returns the names of all services.
    pub(super) async fn services(&mut self) -> Result<Vec<String>, Failure> {
        let answers = self.ask(vec![MessageRequest::ListServices(String::new())]).await?;
        let Some(MessageResponse::ListServicesResponse(list)) = answers.into_iter().next() else {
            return Err(odd());
        };
        if list.service.len() > MAX_FILES {
            return Err(too_much("services"));
        }
        Ok(list.service.into_iter().map(|service| service.name).collect())
    }

    /// Returns a pool in which these symbols are, with all that they need.
    pub(super) async fn pool(&mut self, symbols: &[String]) -> Result<DescriptorPool, Failure> {
        let limit = self.caller.timeout;
        let late =
            || Failure::broken(anyhow!("the server does not say its types within {limit:?}"));
        // A question that has no answer says why at its own deadline, which is before this.
        timeout(limit.saturating_add(GRACE * 2), self.pool_of(symbols))
            .await
            .unwrap_or_else(|_| Err(late().hint(HINT)))
    }

    async fn pool_of(&mut self, symbols: &[String]) -> Result<DescriptorPool, Failure> {
        let ask = |symbol: &String| MessageRequest::FileContainingSymbol(symbol.clone());
        let answers = self.ask(symbols.iter().map(ask).collect()).await?;
        let mut files = Files::default();
        for (symbol, answer) in symbols.iter().zip(answers) {
            if !files.take(answer)? {
                let symbol = Printable(cut(symbol, MAX_NAME_BYTES));
                return Err(Failure::negative(anyhow!("the server knows no `{symbol}`")));
            }
        }
        for round in 0.. {
            let missing = files.missing();
            if missing.is_empty() {
                break;
            }
            if round == MAX_ROUNDS {
                return Err(too_much("imports of imports"));
            }
            if files.asked.len() > MAX_FILES {
                return Err(too_much("imports"));
            }
            let ask = |name: &String| MessageRequest::FileByFilename(name.clone());
            let answers = self.ask(missing.iter().map(ask).collect()).await?;
            for (name, answer) in missing.iter().zip(answers) {
                if !files.take(answer)? && !files.take_known(name) {
                    let name = Printable(cut(name, MAX_NAME_BYTES));
                    let why =
                        anyhow!("the server does not have the file `{name}` that others import");
                    return Err(Failure::broken(why).hint(HINT));
                }
            }
        }
        let pool = pool::of(files.files.into_values().collect());
        pool.context("the types of the server cannot be used").map_err(Failure::broken)
    }

    /// Asks some questions, and returns an answer to each. A server says that it does not have something by an
    /// answer, or by ending the stream; the questions after that are asked again.
    async fn ask(
        &mut self,
        questions: Vec<MessageRequest>,
    ) -> Result<Vec<MessageResponse>, Failure> {
        let questions = questions.into_iter().map(|question| {
            let message_request = Some(question);
            let host = String::new();
            Bytes::from(ServerReflectionRequest { host, message_request }.encode_to_vec())
        });
        let questions: Vec<_> = questions.collect();
        let mut all = Vec::with_capacity(questions.len());
        let mut ends = 0;
        while let Some(left) = questions.get(all.len()..).filter(|left| !left.is_empty()) {
            let (report, answers) = self.answers(left.to_vec()).await;
            if report.code == Code::Unimplemented && !self.is_alpha {
                self.is_alpha = true;
                continue;
            }
            let is_complete = answers.0.len() == left.len();
            let answers: Option<Vec<_>> = answers.0.into_iter().collect();
            all.extend(answers.ok_or_else(odd)?);
            match report.code {
                Code::Ok if is_complete => {}
                Code::Ok => return Err(odd()),
                Code::NotFound if all.len() < questions.len() => {
                    // The questions that are left are sent again each time.
                    ends += 1;
                    if ends > MAX_ROUNDS {
                        return Err(too_much("files that it does not have"));
                    }
                    all.push(MessageResponse::ErrorResponse(ErrorResponse::default()));
                }
                _ => return Err(failed(&report)),
            }
        }
        Ok(all)
    }

    async fn answers(&self, questions: Vec<Bytes>) -> (CallReport, Answers) {
        let path = PathAndQuery::from_static(if self.is_alpha { V1ALPHA } else { V1 });
        let mut answers = Answers(Vec::new());
        let caller = Caller { max_size: MAX_BYTES, ..self.caller.clone() };
        let report = caller.call(&path, Input::Fixed(questions), &mut answers).await;
        (report, answers)
    }
}

/// The answers; `None` for one that is malformed.
struct Answers(Vec<Option<MessageResponse>>);

impl Sink for Answers {
    async fn take(&mut self, message: Bytes) -> bool {
        let read = ServerReflectionResponse::decode(message);
        self.0.push(read.ok().and_then(|response| response.message_response));
        self.0.len() <= MAX_FILES
    }
}

impl Files {
    /// Takes an answer. Returns false if the server does not have what was asked for.
    fn take(&mut self, answer: MessageResponse) -> Result<bool, Failure> {
        let files = match answer {
            MessageResponse::FileDescriptorResponse(found) => found.file_descriptor_proto,
            MessageResponse::ErrorResponse(_) => return Ok(false),
            _ => return Err(odd()),
        };
        for bytes in files {
            self.bytes = self.bytes.saturating_add(bytes.len());
            if self.bytes > MAX_BYTES || self.files.len() >= MAX_FILES {
                return Err(too_much("types"));
            }
            let file = FileDescriptorProto::decode(&*bytes).map_err(|_| odd())?;
            self.files.entry(file.name().to_owned()).or_insert(file);
        }
        Ok(true)
    }

    /// Takes a file of Google's that every program has, of which servers often say nothing.
    fn take_known(&mut self, name: &str) -> bool {
        let Some(file) = DescriptorPool::global().get_file_by_name(name) else { return false };
        self.files.insert(name.to_owned(), file.file_descriptor_proto().clone());
        true
    }

    /// Returns the names of imported files that were not asked for, and takes note of them.
    fn missing(&mut self) -> Vec<String> {
        let imported = self.files.values().flat_map(|file| &file.dependency);
        let missing = imported.filter(|name| !self.files.contains_key(*name));
        let missing: BTreeSet<_> =
            missing.filter(|name| !self.asked.contains(*name)).cloned().collect();
        self.asked.extend(missing.iter().cloned());
        missing.into_iter().collect()
    }
}

fn failed(report: &CallReport) -> Failure {
    let (code, has_answered) = (report.code, report.place.is_some());
    if has_answered && code == Code::Unimplemented {
        return Failure::broken(anyhow!("the server has no reflection")).hint(HINT);
    }
    let message = Printable(cut(&report.message, MAX_MESSAGE_BYTES));
    let why = anyhow!("{}: {message}", codes::name(code));
    let failure = Failure::broken(why.context("cannot ask the server for its types"));
    // Calls that cannot be made, or that have no answer, do not need types.
    let is_away = matches!(code, Code::DeadlineExceeded | Code::Unavailable | Code::Cancelled);
    if has_answered && !is_away { failure.hint(HINT) } else { failure }
}

fn odd() -> Failure {
    Failure::broken(anyhow!("the answer of the server's reflection is malformed")).hint(HINT)
}

fn too_much(of: &str) -> Failure {
    Failure::broken(anyhow!("the server has more {of} than are taken")).hint(HINT)
}

const HINT: &str = "`--descriptor-set FILE` has the types without asking the server";
const V1: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const V1ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
/// The files, or services, that are taken from a server.
const MAX_FILES: usize = 10_000;
/// The questions for files that were imported by the files of the question before.
const MAX_ROUNDS: usize = 64;
/// The bytes of all files together.
const MAX_BYTES: usize = 64 << 20;
