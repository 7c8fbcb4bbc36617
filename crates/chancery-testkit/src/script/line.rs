//! One line of a script, as a value.
//!
//! A line is read alone here. Labels such as `n=1` get their meaning later, in the conversation.

use std::sync::Arc;
use std::time::Duration;

use chancery_core::{Node, Pending, Resource, ResourceName, TypeUrl, Variant};

use super::duration::duration;
use super::resource::resource;
use super::{render, type_url};

/// An input of the conversation.
#[derive(Debug)]
pub(super) enum ScriptLine {
    Settings(Vec<(String, String)>),
    Commit(Vec<CommitEdit>),
    Request(Box<RequestLine>),
    Wait(Duration),
    Room(usize),
    Reconnect,
    Busy(Box<Self>),
}

/// One change of one type.
#[derive(Debug)]
pub(super) enum CommitEdit {
    Clear(TypeUrl),
    Set(TypeUrl, Box<Resource>),
    Remove(TypeUrl, ResourceName),
    Version(TypeUrl, String),
    Pending(TypeUrl, Pending),
}

/// A request before its labels are looked up.
#[derive(Debug, Default)]
pub(super) struct RequestLine {
    /// `None` leaves the type empty on the wire.
    pub(super) type_url: Option<TypeUrl>,
    /// `None` if the line says nothing about names.
    pub(super) names: Option<Vec<Arc<str>>>,
    pub(super) subscribe: Vec<Arc<str>>,
    pub(super) unsubscribe: Vec<Arc<str>>,
    pub(super) initial_versions: Vec<(Arc<str>, Arc<str>)>,
    pub(super) answer: Option<AnswerWord>,
    pub(super) version: Option<String>,
    pub(super) nonce: Option<String>,
    pub(super) error: Option<String>,
    pub(super) node: NodeWords,
}

/// The answer in a request, with the label of the response it is for. Without a label it is for the
/// latest response of its type.
#[derive(Debug)]
pub(super) enum AnswerWord {
    Ack(Option<String>),
    Nack(Option<String>),
}

/// The words of a line about the node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeWords {
    words: Vec<(String, String)>,
}

impl ScriptLine {
    pub(super) fn parse(text: &str, variant: Variant) -> Result<Self, String> {
        let (mark, rest) = text.split_at(text.find(' ').unwrap_or(text.len()));
        let rest = rest.trim();
        match mark {
            "=" => commit(rest).map(Self::Commit),
            ">" => request(rest, variant).map(|it| Self::Request(Box::new(it))),
            "~" => duration(rest).map(Self::Wait),
            "." if rest.is_empty() => Ok(Self::Room(usize::MAX)),
            "." => rest.parse().map(Self::Room).map_err(|_| format!("`{rest}` is no number")),
            "%" => Ok(Self::Settings(rest.split_whitespace().map(key_value).collect())),
            "---" => Ok(Self::Reconnect),
            "|" => Ok(Self::Busy(Box::new(Self::parse(rest, variant)?))),
            _ => Err("a line begins with one of = > < ! ~ | . --- % # and a blank".to_owned()),
        }
    }
}

impl NodeWords {
    /// Takes a word if it is about the node, and returns true if it is.
    pub(super) fn take(&mut self, key: &str, value: &str) -> bool {
        let known = matches!(key, "node" | "features" | "agent" | "param");
        if known {
            self.words.push((key.to_owned(), value.to_owned()));
        }
        known
    }

    /// Returns true if the line has no words about the node.
    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The node that these words describe; `None` if they say that there is none.
    pub(super) fn node(&self) -> Option<Arc<Node>> {
        let mut node = Node { id: "node".to_owned(), ..Node::default() };
        for (key, value) in &self.words {
            match key.as_str() {
                "node" if value == "-" => return None,
                "node" => node.id.clone_from(value),
                "features" => {
                    let more = value.split(',').map(feature);
                    node.client_features =
                        node.client_features.iter().cloned().chain(more).collect();
                }
                "agent" => {
                    let (name, version) = value.split_once('/').unwrap_or((value, ""));
                    node.user_agent_name = name.to_owned();
                    node.user_agent_version = version.to_owned();
                }
                _ => add_parameter(&mut node, value),
            }
        }
        Some(Arc::new(node))
    }
}

fn feature(word: &str) -> String {
    match word {
        "ttl" => "xds.config.supports-resource-ttl".to_owned(),
        "wrapped" => "xds.config.resource-in-sotw".to_owned(),
        other => other.to_owned(),
    }
}

/// `TYPE_URL:key:value`.
fn add_parameter(node: &mut Node, text: &str) {
    let mut parts = text.rsplitn(3, ':').map(str::to_owned);
    let (value, key) = (parts.next(), parts.next());
    let of_type = node.dynamic_parameters.entry(parts.next().unwrap_or_default()).or_default();
    of_type.insert(key.unwrap_or_default(), value.unwrap_or_default());
}

fn commit(text: &str) -> Result<Vec<CommitEdit>, String> {
    let mut edits = Vec::new();
    for part in text.split(';') {
        let mut words = part.split_whitespace();
        let type_url = words.next().map(type_url).ok_or("a commit begins with a type")?;
        for word in words {
            edits.push(edit(type_url.clone(), word)?);
        }
    }
    // A stated version lasts until the next edit, so it goes last.
    edits.sort_by_key(|edit| matches!(edit, CommitEdit::Version(..)));
    Ok(edits)
}

fn edit(type_url: TypeUrl, word: &str) -> Result<CommitEdit, String> {
    if word == "[]" {
        return Ok(CommitEdit::Clear(type_url));
    }
    if let Some(version) = word.strip_prefix("v=") {
        return Ok(CommitEdit::Version(type_url, version.to_owned()));
    }
    if let Some(names) = word.strip_prefix('?') {
        return Ok(CommitEdit::Pending(type_url, pending(names)?));
    }
    if let Some(name) = word.strip_prefix('-') {
        let name = ResourceName::parse(name).map_err(|fault| fault.to_string())?;
        return Ok(CommitEdit::Remove(type_url, name));
    }
    Ok(CommitEdit::Set(type_url, resource(word)?.into()))
}

fn pending(names: &str) -> Result<Pending, String> {
    match names {
        "" => Ok(Pending::Nothing),
        "*" => Ok(Pending::Everything),
        names => {
            let names = names.split(',').map(ResourceName::parse).collect::<Result<_, _>>();
            names.map(|names| Pending::Names(Arc::new(names))).map_err(|fault| fault.to_string())
        }
    }
}

fn request(text: &str, variant: Variant) -> Result<RequestLine, String> {
    let (text, error) = match render::split_error(text) {
        (text, Some(error)) => (text, Some(error.to_owned())),
        (text, None) => (text, None),
    };
    let mut words = text.split_whitespace();
    let type_url = match words.next() {
        None => return Err("a request begins with a type, or `-`".to_owned()),
        Some("-") => None,
        Some(word) => Some(type_url(word)),
    };
    let mut request = RequestLine { type_url, error, ..RequestLine::default() };
    for word in words {
        let (key, value) = key_value(word);
        if !request.take_key(word, &key, &value)? {
            request.take_name(word, variant)?;
        }
    }
    Ok(request)
}

impl RequestLine {
    fn take_key(&mut self, word: &str, key: &str, value: &str) -> Result<bool, String> {
        let label = || word.contains('=').then(|| value.to_owned());
        match key {
            "ack" => self.answer = Some(AnswerWord::Ack(label())),
            "nack" => self.answer = Some(AnswerWord::Nack(label())),
            "v" if word.contains('=') => self.version = Some(value.to_owned()),
            "n" if word.contains('=') => self.nonce = Some(value.to_owned()),
            "init" => {
                let held = value.rsplit_once(':').ok_or("`init=` needs `name:version`")?;
                self.initial_versions.push((held.0.into(), held.1.into()));
            }
            _ => return Ok(self.node.take(key, value)),
        }
        Ok(true)
    }

    fn take_name(&mut self, word: &str, variant: Variant) -> Result<(), String> {
        match (variant, word.strip_prefix('+'), word.strip_prefix('-')) {
            (Variant::Sotw, ..) if word == "[]" => self.names = Some(Vec::new()),
            (Variant::Sotw, None, None) => {
                self.names.get_or_insert_default().push(word.into());
            }
            (Variant::Delta, Some(name), _) => self.subscribe.push(name.into()),
            (Variant::Delta, None, Some(name)) => self.unsubscribe.push(name.into()),
            (Variant::Delta, None, None) => {
                return Err(format!("delta names are written `+{word}` or `-{word}`"));
            }
            (Variant::Sotw, ..) => {
                return Err("SotW requests state all names, without signs".to_owned());
            }
        }
        Ok(())
    }
}

/// `key=value`, or a word that is all key.
fn key_value(word: &str) -> (String, String) {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    (key.to_owned(), value.to_owned())
}
