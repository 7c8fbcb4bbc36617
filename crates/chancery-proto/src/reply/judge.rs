//! The check of each resource of a response, and its name.
//!
//! The name is the wrapper's. If the wrapper has none, or there is no wrapper, the name is in the
//! body, in the field that the descriptor says.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::client::{
    DecodedBody, HeartbeatResource, InvalidResource, ReceivedResource, ResponseItem,
};
use chancery_core::{Resource, ResourceName, TypeUrl};
use prost_reflect::{DynamicMessage, MessageDescriptor};

use super::Reader;
use crate::facts::ClientFacts;
use crate::lint;
use crate::resource::{ResourceError, is_wrapper, naming_field, own_name};
use crate::wire::fields::{Fields, text};
use crate::wire::{Malformed, WireDuration};

/// One resource as the server sent it: the fields of a `Resource` that are set.
#[derive(Default)]
pub(super) struct RawResource<'m> {
    pub(super) name: Cow<'m, str>,
    pub(super) version: &'m str,
    pub(super) aliases: Vec<Cow<'m, str>>,
    pub(super) ttl: Option<Result<Duration, &'static str>>,
    pub(super) body: Option<RawBody<'m>>,
}

/// The content of an `Any`.
pub(super) struct RawBody<'m> {
    pub(super) type_url: &'m str,
    /// The bytes, or the reason why there are none.
    pub(super) bytes: Result<Bytes, String>,
}

/// Reads a TTL from the two numbers of a `Duration`.
pub(super) fn ttl(seconds: i64, nanos: i32) -> Result<Duration, &'static str> {
    let time = Duration::try_from(WireDuration { seconds, nanos });
    time.ok().filter(|time| !time.is_zero()).ok_or(INVALID_TTL)
}

/// The message for a TTL that is not valid.
pub(super) const INVALID_TTL: &str = "its `ttl` must be longer than nothing";

/// The number of resources without a name that are reported one by one. A server can send one in
/// two bytes, and a hundred messages help an operator no more than ten.
const MAX_NAMELESS: usize = 100;

/// The check of the resources of one response.
pub(super) struct Judge<'r> {
    reader: &'r Reader,
    type_url: &'r TypeUrl,
    descriptor: Option<MessageDescriptor>,
    facts: ClientFacts,
    items: Vec<Result<ResponseItem, InvalidResource>>,
    nameless: usize,
}

impl<'r> Judge<'r> {
    pub(super) fn new(reader: &'r Reader, type_url: &'r TypeUrl) -> Self {
        let descriptor = reader.schema.message(type_url.as_str());
        let facts = ClientFacts::new(descriptor.as_ref());
        Self { reader, type_url, descriptor, facts, items: Vec::new(), nameless: 0 }
    }

    /// Adds a resource, or the reason why it cannot be read.
    pub(super) fn add(&mut self, entry: Result<RawResource<'_>, String>) {
        let item = entry.map_err(|why| InvalidResource { name: None, why });
        let item = item.and_then(|entry| self.item(&entry));
        if let Err(InvalidResource { name: None, .. }) = item {
            self.nameless += 1;
            if self.nameless > MAX_NAMELESS {
                return;
            }
        }
        self.items.push(item);
    }

    /// The results for all resources. Each name occurs once.
    pub(super) fn finish(mut self) -> Vec<Result<ResponseItem, InvalidResource>> {
        refuse_repeated(&mut self.items);
        if let Some(more) = self.nameless.checked_sub(MAX_NAMELESS).filter(|more| *more > 0) {
            let why = format!("{more} more resources without a name that can be told");
            self.items.push(Err(InvalidResource { name: None, why }));
        }
        self.items
    }

    fn item(&self, entry: &RawResource<'_>) -> Result<ResponseItem, InvalidResource> {
        let name = self.name(entry).map_err(|why| InvalidResource { name: None, why })?;
        self.named(&name, entry).map_err(|why| InvalidResource { name: Some(name), why })
    }

    fn named(&self, name: &ResourceName, entry: &RawResource<'_>) -> Result<ResponseItem, String> {
        let ttl = entry.ttl.transpose()?;
        let aliases = entry.aliases.iter().map(|alias| self.read_name(alias));
        let aliases = aliases.collect::<Result<Vec<_>, _>>()?;
        let (name, version) = (name.clone(), entry.version);
        let Some(body) = &entry.body else {
            return Ok(ResponseItem::Heartbeat(HeartbeatResource {
                name,
                aliases,
                version: version.into(),
                ttl,
            }));
        };
        self.check_type(body)?;
        let body = body.bytes.as_ref().map_err(String::clone)?;
        let decoded = self.decoded(&name, body)?;
        let resource = Resource::new(name, body.clone()).with_ttl(ttl).with_aliases(aliases);
        let resource = resource.with_facts(self.facts.of(body));
        let stated = if version.is_empty() { resource } else { resource.with_version(version) };
        Ok(ResponseItem::Resource(ReceivedResource { resource: Arc::new(stated), decoded }))
    }

    fn name(&self, entry: &RawResource<'_>) -> Result<ResourceName, String> {
        let name = match &entry.body {
            _ if !entry.name.is_empty() => Cow::Borrowed(&*entry.name),
            Some(body) => {
                self.check_type(body)?;
                Cow::Owned(self.name_in(body.bytes.as_ref().map_err(String::clone)?)?)
            }
            None => return Err("a wrapper with neither a name nor a resource in it".to_owned()),
        };
        self.read_name(&name)
    }

    fn read_name(&self, text: &str) -> Result<ResourceName, String> {
        let name = ResourceName::read_of(text, self.type_url).map_err(|error| error.to_string())?;
        if name.is_glob() {
            return Err(format!("`{name}` names a collection, and no resource of it"));
        }
        Ok(name)
    }

    /// Checks C-064: all resources are of the type of the response.
    fn check_type(&self, body: &RawBody<'_>) -> Result<(), String> {
        let name = TypeUrl::message_name_in(body.type_url);
        if name == self.type_url.message_name() {
            Ok(())
        } else if is_wrapper(name) {
            Err("a wrapper in a wrapper".to_owned())
        } else {
            Err(format!("it is a `{name}` in a response of `{}`", self.type_url))
        }
    }

    fn name_in(&self, body: &[u8]) -> Result<String, String> {
        let Some(descriptor) = &self.descriptor else {
            let type_name = self.type_url.message_name();
            return Err(format!(
                "a `{type_name}`, of which no descriptor is known, is named only by a `Resource` \
                 around it"
            ));
        };
        let field = naming_field(descriptor);
        let text = field.as_ref().map(|field| text_field(body, field.number())).transpose();
        let text = text.map_err(|fault| {
            format!("the bytes are no `{}`: {fault}", self.type_url.message_name())
        })?;
        let found = field.as_ref().zip(text).map(|(field, text)| (field.name(), text.to_owned()));
        own_name(self.type_url, found).map_err(|error| error.with_causes())
    }

    /// Lets the program's decoder read a body. If it makes nothing of the body, the descriptor
    /// checks the bytes.
    fn decoded(&self, name: &ResourceName, body: &Bytes) -> Result<Option<DecodedBody>, String> {
        let decoded = self.reader.decoder.decode(self.type_url, name, body)?;
        let has_sources = self.reader.for_grpc && lint::may_name_sources(self.type_url);
        let is_read = decoded.is_none() || has_sources;
        if let Some(descriptor) = self.descriptor.clone().filter(|_| is_read) {
            let message = DynamicMessage::decode(descriptor, &**body).map_err(|source| {
                let type_name = self.type_url.message_name().to_owned();
                ResourceError::Decode { type_name, source }.with_causes()
            })?;
            if has_sources {
                lint::check_sources(self.type_url, &message)?;
            }
        }
        Ok(decoded)
    }
}

/// Checks one resource that did not come in a response.
pub(super) fn judge_alone(
    reader: &Reader,
    type_url: &TypeUrl,
    name: &str,
    version: &str,
    bytes: Bytes,
) -> Result<ReceivedResource, String> {
    let judge = Judge::new(reader, type_url);
    let body = Some(RawBody { type_url: type_url.as_str(), bytes: Ok(bytes) });
    let entry = RawResource { name: name.into(), version, body, ..RawResource::default() };
    match judge.item(&entry).map_err(|invalid| invalid.why)? {
        ResponseItem::Resource(received) => Ok(received),
        ResponseItem::Heartbeat(_) => Err("it has no body".to_owned()),
    }
}

/// The text in a field of a message. It is empty if the field is not set.
fn text_field(message: &[u8], wanted: u32) -> Result<&str, Malformed> {
    let mut found = "";
    let mut fields = Fields(message);
    while let Some((number, value)) = fields.next()? {
        if number == wanted {
            found = text(value)?;
        }
    }
    Ok(found)
}

/// Refuses all resources of a name that occurs twice (C-064), because nobody can tell which one is
/// meant.
fn refuse_repeated(items: &mut Vec<Result<ResponseItem, InvalidResource>>) {
    let mut names: Vec<_> = items.iter().flatten().map(name_of).collect();
    names.sort_unstable();
    let repeated = names.chunk_by(PartialEq::eq).filter(|same| same.len() > 1);
    let mut times: BTreeMap<_, _> = repeated.map(|same| (same[0].clone(), same.len())).collect();
    if times.is_empty() {
        return;
    }
    items.retain_mut(|item| {
        let Ok(good) = item else { return true };
        let name = name_of(good).clone();
        let Some(times) = times.get_mut(&name) else { return true };
        let first = std::mem::take(times);
        if first > 0 {
            let why = format!("the response has {first} resources of this name");
            *item = Err(InvalidResource { name: Some(name), why });
        }
        first > 0
    });
}

fn name_of(item: &ResponseItem) -> &ResourceName {
    match item {
        ResponseItem::Resource(received) => received.resource.name(),
        ResponseItem::Heartbeat(heartbeat) => &heartbeat.name,
    }
}
