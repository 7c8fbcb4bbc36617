//! The conversation of a script: one server machine, one clock, one snapshot, and the transcript.
//!
//! The driver here is the loop every machine is driven by: handle one thing, poll to `None` while
//! the wire has room, and wake at the deadline.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::server::{Event, Input, Settings, Violation};
use chancery_core::{
    DeltaRequest, ErrorDetail, Request, Scope, Snapshot, SotwRequest, Time, Variant,
};

use super::duration::duration;
use super::line::{AnswerWord, CommitEdit, NodeWords, RequestLine, ScriptLine};
use super::render::{self, Labels};
use super::type_url;
use crate::compared_machine::ComparedMachine;
use crate::response_rules::ResponseRules;

/// The state of a conversation.
pub(super) struct Conversation {
    variant: Variant,
    scope: Scope,
    watched: Vec<String>,
    settings: Settings,
    node: NodeWords,
    now: Time,
    snapshot: Option<Snapshot>,
    stream: Option<ScriptStream>,
    /// True if the server closed the last stream.
    closed: bool,
    /// Versions that are hashes, by type, in order of appearance. They outlive streams.
    versions: BTreeMap<String, Vec<String>>,
    text: String,
}

/// One stream, with the memory of its client.
struct ScriptStream {
    server: ComparedMachine,
    rules: ResponseRules,
    sent: Vec<SentResponse>,
    /// The names of the last request of each type.
    names: BTreeMap<String, Vec<Arc<str>>>,
    /// The version the client accepted last, by type.
    accepted: BTreeMap<String, Arc<str>>,
    introduced: bool,
    identified: bool,
}

/// A response of this stream.
struct SentResponse {
    type_url: String,
    nonce: Arc<str>,
    version: Arc<str>,
}

impl Conversation {
    pub(super) fn new(variant: Variant, scope: Scope, watched: Vec<String>) -> Self {
        Self {
            variant,
            scope,
            watched,
            settings: Settings::default(),
            node: NodeWords::default(),
            now: Time::default(),
            snapshot: None,
            stream: None,
            closed: false,
            versions: BTreeMap::new(),
            text: String::new(),
        }
    }

    /// Plays one line and adds its outcome to the transcript.
    pub(super) fn play(&mut self, text: &str, line: ScriptLine) -> Result<(), String> {
        self.note(&render::spaced(text));
        match line {
            ScriptLine::Busy(line) => self.happen(*line),
            ScriptLine::Room(count) => {
                self.poll(count);
                Ok(())
            }
            ScriptLine::Wait(time) => {
                self.pass_time(time);
                Ok(())
            }
            line => {
                self.happen(line)?;
                self.poll(usize::MAX);
                Ok(())
            }
        }
    }

    /// The whole transcript.
    pub(super) fn finish(self) -> String {
        self.text
    }

    fn happen(&mut self, line: ScriptLine) -> Result<(), String> {
        match line {
            ScriptLine::Settings(words) => {
                words.iter().try_for_each(|(key, value)| self.apply_setting(key, value))
            }
            ScriptLine::Commit(edits) => {
                self.commit(edits);
                Ok(())
            }
            ScriptLine::Request(request) => self.request(*request),
            ScriptLine::Reconnect => {
                self.stream = None;
                self.closed = false;
                Ok(())
            }
            ScriptLine::Wait(time) => {
                self.now = self.now + time;
                Ok(())
            }
            ScriptLine::Room(_) | ScriptLine::Busy(_) => Err("the wire is busy".to_owned()),
        }
    }

    fn apply_setting(&mut self, key: &str, value: &str) -> Result<(), String> {
        let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is no number"));
        let settings = &mut self.settings;
        match key {
            "ack_wait" => settings.ack_wait = duration(value)?,
            "warm_wait" => settings.warm_wait = duration(value)?,
            "removal_wait" => settings.removal_wait = duration(value)?,
            "source_wait" => settings.source_wait = duration(value)?,
            "max_bytes" => settings.max_response_bytes = number(value)?,
            "max_names" => settings.max_names = number(value)?,
            "max_types" => settings.max_types = number(value)?,
            "report_missing" => settings.report_missing = true,
            "secrets" => settings.secrets_allowed = value != "off",
            "legacy_wildcard" => {
                let (short, switch) = value.split_once(':').unwrap_or((value, "on"));
                settings.legacy_wildcard.push((type_url(short), switch != "off"));
            }
            "watch" => {}
            _ if self.node.take(key, value) => {}
            _ => return Err(format!("`{key}` is no setting")),
        }
        Ok(())
    }

    fn commit(&mut self, edits: Vec<CommitEdit>) {
        let snapshot = self.snapshot.get_or_insert_default();
        for edit in edits {
            match edit {
                CommitEdit::Clear(type_url) => {
                    let all: Vec<_> = snapshot.set(&type_url).iter().map(Arc::clone).collect();
                    all.iter().for_each(|it| snapshot.remove(&type_url, it.name()));
                }
                CommitEdit::Set(type_url, resource) => snapshot.insert(&type_url, *resource),
                CommitEdit::Remove(type_url, name) => snapshot.remove(&type_url, &name),
                CommitEdit::Pending(type_url, pending) => snapshot.set_pending(&type_url, pending),
                CommitEdit::Version(type_url, version) => snapshot.set_version(&type_url, &version),
            }
        }
        self.give_snapshot();
    }

    fn give_snapshot(&mut self) {
        if self.stream.as_ref().is_some_and(|stream| stream.identified)
            && let Some(snapshot) = self.snapshot.clone()
        {
            self.handle(Input::Snapshot(Arc::new(snapshot)));
        }
    }

    fn request(&mut self, line: RequestLine) -> Result<(), String> {
        if self.closed {
            return Err("the server closed the stream; `---` opens another".to_owned());
        }
        let (variant, scope, settings) = (self.variant, self.scope.clone(), self.settings.clone());
        let stream = self.stream.get_or_insert_with(|| ScriptStream::new(variant, scope, settings));
        let node = match (line.node.is_empty(), stream.introduced) {
            (false, _) => line.node.node(),
            (true, false) => self.node.node(),
            (true, true) => None,
        };
        stream.introduced = true;
        let key = match (&line.type_url, &self.scope) {
            (Some(type_url), _) | (None, Scope::Only(type_url)) => type_url.as_str().to_owned(),
            (None, Scope::Aggregated) => String::new(),
        };
        let said = stream.answer_fields(&key, &line)?;
        let version = line.version.as_ref().map(|label| self.version_of(&key, label));
        let said = ResolvedLabels { version: version.unwrap_or(said.version), ..said };
        self.handle(Input::Request(said.request(variant, node, line)));
        Ok(())
    }

    /// The version that a label stands for.
    fn version_of(&self, type_url: &str, label: &str) -> Arc<str> {
        let known = self.versions.get(type_url);
        let index = label.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let found = index.and_then(|index| known.and_then(|known| known.get(index)));
        found.map_or(label, String::as_str).into()
    }

    fn handle(&mut self, input: Input) {
        let Some(stream) = &mut self.stream else { return };
        match stream.server.handle(self.now, input) {
            Ok(events) => events.iter().for_each(|event| self.take_event(event)),
            Err(violation) => self.close(&violation),
        }
    }

    fn close(&mut self, violation: &Violation) {
        self.note(&format!("! closed {violation}"));
        self.stream = None;
        self.closed = true;
    }

    fn take_event(&mut self, event: &Event) {
        let variant = self.variant;
        if let Some(stream) = &self.stream {
            let mut labels =
                StreamLabels { variant, sent: &stream.sent, versions: &mut self.versions };
            let (kind, rest) = render::event(event, &mut labels);
            if self.watched.iter().any(|watched| watched == kind) {
                self.note(&render::spaced(&format!("! {kind} {rest}")));
            }
        }
        if matches!(event, Event::Identified(_) | Event::Anonymous) {
            if let Some(stream) = &mut self.stream {
                stream.identified = true;
            }
            self.give_snapshot();
        }
    }

    /// Sends what is to be sent, as far as the wire has room.
    fn poll(&mut self, room: usize) {
        for _ in 0..room {
            let Some(stream) = &mut self.stream else { return };
            let Some(response) = stream.server.poll(self.now) else {
                if let Some(violation) = stream.server.refusal() {
                    return self.close(&violation);
                }
                if let Some(event) = stream.server.landed() {
                    self.take_event(&event);
                }
                break;
            };
            let fault = stream.rules.fault(&response);
            stream.sent.push(SentResponse {
                type_url: response.type_url.as_str().to_owned(),
                nonce: Arc::clone(&response.nonce),
                version: Arc::clone(&response.version),
            });
            assert!(stream.sent.len() < 10_000, "the server never stops sending\n{}", self.text);
            let variant = self.variant;
            let mut labels =
                StreamLabels { variant, sent: &stream.sent, versions: &mut self.versions };
            let line = render::response(&response, &mut labels);
            self.note(&line);
            if let Some(fault) = fault {
                self.note(&format!("! broken {fault}"));
            }
        }
        if let Some(fault) = self.stream.as_ref().and_then(|stream| stream.server.fault()) {
            let line = format!("! broken {fault}");
            self.note(&line);
        }
    }

    /// Lets time pass, and polls the server at each of its deadlines.
    fn pass_time(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(wake) = self.deadline().filter(|wake| *wake <= end) {
            let before = self.text.len();
            let early = wake <= self.now;
            self.now = self.now.max(wake);
            self.poll(usize::MAX);
            if early && self.text.len() == before {
                self.note("! broken the deadline is past and there is nothing to send");
                break;
            }
        }
        self.now = end;
        self.poll(usize::MAX);
    }

    fn deadline(&self) -> Option<Time> {
        self.stream.as_ref().and_then(|stream| stream.server.deadline())
    }

    fn note(&mut self, line: &str) {
        self.text += line;
        self.text.push('\n');
    }
}

/// The fields of a request that labels stand for.
struct ResolvedLabels {
    version: Arc<str>,
    nonce: Arc<str>,
    names: Vec<Arc<str>>,
    error: Option<ErrorDetail>,
}

impl ScriptStream {
    fn new(variant: Variant, scope: Scope, settings: Settings) -> Self {
        Self {
            server: ComparedMachine::new(variant, scope, Arc::new(settings)),
            rules: ResponseRules::default(),
            sent: Vec::new(),
            names: BTreeMap::new(),
            accepted: BTreeMap::new(),
            introduced: false,
            identified: false,
        }
    }

    /// The fields of a request that answers as the line says.
    fn answer_fields(&mut self, key: &str, line: &RequestLine) -> Result<ResolvedLabels, String> {
        let mut accepted = self.accepted.get(key).cloned().unwrap_or_default();
        let mut nonce = line.nonce.as_ref().map_or_else(|| "".into(), |label| self.nonce_of(label));
        let mut error = line.error.clone();
        match &line.answer {
            Some(AnswerWord::Ack(label)) => {
                let sent = self.sent(key, label.as_deref())?;
                (nonce, accepted) = (Arc::clone(&sent.nonce), Arc::clone(&sent.version));
                self.accepted.insert(key.to_owned(), Arc::clone(&accepted));
            }
            Some(AnswerWord::Nack(label)) => {
                nonce = Arc::clone(&self.sent(key, label.as_deref())?.nonce);
                error.get_or_insert_with(|| "rejected".to_owned());
            }
            None if line.nonce.is_none() => accepted = "".into(),
            None => {}
        }
        let before = line.answer.as_ref().and_then(|_| self.names.get(key));
        let names = line.names.as_ref().or(before).cloned().unwrap_or_default();
        self.names.insert(key.to_owned(), names.clone());
        let error =
            error.map(|message| ErrorDetail { code: ErrorDetail::INVALID_ARGUMENT, message });
        Ok(ResolvedLabels { version: accepted, nonce, names, error })
    }

    /// The response a label means, or the latest of the type.
    fn sent(&self, key: &str, label: Option<&str>) -> Result<&SentResponse, String> {
        let found = match label {
            Some(label) => {
                let index = label.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
                index.and_then(|index| self.sent.get(index))
            }
            None => self.sent.iter().rfind(|sent| sent.type_url == key),
        };
        found.ok_or_else(|| "there is no such response to answer".to_owned())
    }

    fn nonce_of(&self, label: &str) -> Arc<str> {
        self.sent("", Some(label)).map_or_else(|_| label.into(), |sent| Arc::clone(&sent.nonce))
    }
}

impl ResolvedLabels {
    fn request(
        self,
        variant: Variant,
        node: Option<Arc<chancery_core::Node>>,
        line: RequestLine,
    ) -> Request {
        let url = line.type_url.as_ref().map_or("", |type_url| type_url.as_str());
        match variant {
            Variant::Sotw => Request::Sotw(SotwRequest {
                node,
                type_url: url.into(),
                version: self.version,
                nonce: self.nonce,
                names: self.names.iter().collect(),
                error: self.error,
            }),
            Variant::Delta => Request::Delta(DeltaRequest {
                node,
                type_url: url.into(),
                nonce: self.nonce,
                subscribe: line.subscribe.iter().collect(),
                unsubscribe: line.unsubscribe.iter().collect(),
                initial_versions: line.initial_versions.into_iter().collect(),
                error: self.error,
            }),
        }
    }
}

/// The labels of one stream's nonces and of all versions.
struct StreamLabels<'a> {
    variant: Variant,
    sent: &'a [SentResponse],
    versions: &'a mut BTreeMap<String, Vec<String>>,
}

impl Labels for StreamLabels<'_> {
    fn nonce(&self, nonce: &str) -> String {
        let at = self.sent.iter().position(|sent| &*sent.nonce == nonce);
        at.map_or_else(|| nonce.to_owned(), |at| (at + 1).to_string())
    }

    fn version(&mut self, type_url: &str, version: &str) -> Option<String> {
        let hash = version.len() == 32 && version.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !hash {
            let shown = self.variant == Variant::Sotw || !version.is_empty();
            return shown.then(|| version.to_owned());
        }
        if self.variant == Variant::Delta {
            return None;
        }
        let known = self.versions.entry(type_url.to_owned()).or_default();
        let at = known.iter().position(|known| known == version).unwrap_or_else(|| {
            known.push(version.to_owned());
            known.len() - 1
        });
        Some((at + 1).to_string())
    }
}
