//! The lines of a client's script, read from their text.
//!
//! Only lines that are inputs are read here; the lines of outcomes (`<`, `!`) are compared as text.
//! Not here: the meaning of each line (`life`, and the table in `watching`), and the lines of a
//! server's script (`script::line`).

use std::time::Duration;

use chancery_core::client::{
    HeartbeatResource, InvalidResource, ReceivedResource, Response, ResponseItem,
};
use chancery_core::{ErrorDetail, NameError, Resource, ResourceName, Scope, TypeUrl, Variant};

use crate::script::duration::duration;
use crate::script::resource::resource;
use crate::script::type_url;

pub(super) enum Line {
    Server { name: String, words: Vec<String> },
    Authority { name: String, words: Vec<String> },
    Setting { key: String, value: String },
    Watch { name: String, type_url: TypeUrl, resource: String, slow: bool },
    Unwatch(String),
    Take(String),
    Opened(Place),
    Ended(Place, ErrorDetail),
    Unchanged(Place),
    Unusable(Place, String),
    Restored { type_url: TypeUrl, resource: Resource },
    Said { server: String, reply: Said },
    Wait(Duration),
}

/// `s` or `s/cds`.
pub(super) struct Place {
    pub(super) server: String,
    pub(super) scope: Scope,
}

/// A response, of which the variant is the server's.
pub(super) struct Said {
    type_url: TypeUrl,
    version: String,
    nonce: String,
    items: Vec<Result<Resource, InvalidResource>>,
    bare: Vec<HeartbeatResource>,
    removed: Vec<String>,
    errors: Vec<NameError>,
}

impl Line {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let mark = words.next().unwrap_or_default();
        let mut word =
            |what: &str| words.next().map(str::to_owned).ok_or_else(|| format!("no {what}"));
        match mark {
            "%" => {
                let key = word("setting")?;
                match key.as_str() {
                    "server" => Ok(Self::Server {
                        name: word("name")?,
                        words: words.map(str::to_owned).collect(),
                    }),
                    "authority" => Ok(Self::Authority {
                        name: word("name")?,
                        words: words.map(str::to_owned).collect(),
                    }),
                    key => {
                        let (key, value) = key.split_once('=').ok_or("no setting")?;
                        Ok(Self::Setting { key: key.to_owned(), value: value.to_owned() })
                    }
                }
            }
            "+" => Ok(Self::Watch {
                name: word("name")?,
                type_url: type_url(&word("type")?),
                resource: word("resource")?,
                slow: words.next() == Some("slow"),
            }),
            "-" => word("name").map(Self::Unwatch),
            "." => word("name").map(Self::Take),
            "~" => duration(&word("time")?).map(Self::Wait),
            "=" => {
                let (type_url, term) = (type_url(&word("type")?), word("resource")?);
                Ok(Self::Restored { type_url, resource: restored(&term)? })
            }
            ">" | "|" => parse_response(text),
            _ => Err("a line begins with one of % + - . ~ = > | < ! #".to_owned()),
        }
    }
}

fn parse_response(text: &str) -> Result<Line, String> {
    let mut words = text.split_whitespace().skip(1);
    let place = place(words.next().ok_or("no server")?);
    match words.next().ok_or("nothing is said")? {
        "open" => Ok(Line::Opened(place)),
        "end" => {
            let message = words.collect::<Vec<_>>().join(" ");
            Ok(Line::Ended(place, ErrorDetail { code: 14, message }))
        }
        "unchanged" => Ok(Line::Unchanged(place)),
        "unusable" => Ok(Line::Unusable(place, words.collect::<Vec<_>>().join(" "))),
        short => {
            let mut said = Said {
                type_url: type_url(short),
                version: String::new(),
                nonce: String::new(),
                items: Vec::new(),
                bare: Vec::new(),
                removed: Vec::new(),
                errors: Vec::new(),
            };
            words.try_for_each(|word| said.take(word))?;
            Ok(Line::Said { server: place.server, reply: said })
        }
    }
}

/// `name@body`, with its body as its version.
fn restored(text: &str) -> Result<Resource, String> {
    let resource = resource(text)?;
    let version = String::from_utf8_lossy(resource.body()).into_owned();
    Ok(resource.with_version(&version))
}

fn place(word: &str) -> Place {
    match word.split_once('/') {
        Some((server, short)) => {
            Place { server: server.to_owned(), scope: Scope::Only(type_url(short)) }
        }
        None => Place { server: word.to_owned(), scope: Scope::Aggregated },
    }
}

impl Said {
    fn take(&mut self, word: &str) -> Result<(), String> {
        if let Some(version) = word.strip_prefix("v=") {
            self.version = version.to_owned();
        } else if let Some(nonce) = word.strip_prefix("n=") {
            self.nonce = nonce.to_owned();
        } else if let Some(name) = word.strip_prefix('-') {
            self.removed.push(name.to_owned());
        } else if let Some(error) = word.strip_prefix('!') {
            let (name, text) = error.split_once('=').ok_or("an error is `!name=CODE`")?;
            let code = (0..17).find(|number| ErrorDetail::name_of(*number) == Some(text));
            let code = code.ok_or_else(|| format!("`{text}` is no code"))?;
            let error = ErrorDetail { code, message: "so it is".to_owned() };
            self.errors.push(NameError { name: name.into(), error });
        } else if let Some((name, why)) = word.split_once("@!") {
            let name = if name.is_empty() { None } else { Some(read(name)?) };
            self.items.push(Err(InvalidResource { name, why: why.replace('_', " ") }));
        } else if let Some(word) = word.strip_suffix("(beat)") {
            let resource = resource(word)?;
            self.bare.push(HeartbeatResource {
                name: resource.name().clone(),
                aliases: Vec::new(),
                version: resource.version().to_string().into(),
                ttl: resource.ttl(),
            });
        } else {
            self.items.push(Ok(resource(word)?));
        }
        Ok(())
    }

    /// As it comes from a server of this variant. SotW has no versions of single resources.
    pub(super) fn reply(self, variant: Variant) -> Response {
        let item = |resource: Resource| {
            let resource = match variant {
                Variant::Delta => resource,
                Variant::Sotw => Resource::new(resource.name().clone(), resource.body().clone())
                    .with_ttl(resource.ttl())
                    .with_aliases(resource.aliases().to_vec())
                    .with_facts(resource.facts().clone()),
            };
            ResponseItem::Resource(ReceivedResource { resource: resource.into(), decoded: None })
        };
        let items = self.items.into_iter().map(|one| one.map(item));
        Response {
            variant,
            type_url: self.type_url,
            version: self.version.into(),
            nonce: self.nonce.into(),
            resources: items
                .chain(self.bare.into_iter().map(|bare| Ok(ResponseItem::Heartbeat(bare))))
                .collect(),
            removed: self.removed.into_iter().map(Into::into).collect(),
            errors: self.errors,
        }
    }
}

fn read(name: &str) -> Result<ResourceName, String> {
    ResourceName::read(name).map_err(|fault| fault.to_string())
}
