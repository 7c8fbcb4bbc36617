//! Resources as one word: `c@1->eds:c(ttl=9s)`.

use bytes::Bytes;
use chancery_core::{Facts, Link, Resource, ResourceName};

use super::duration::duration;
use super::type_url;

/// Reads a resource from one word.
pub(super) fn resource(word: &str) -> Result<Resource, String> {
    let (word, attributes) = match word.strip_suffix(')').and_then(|it| it.rsplit_once('(')) {
        Some((word, attributes)) => (word, attributes),
        None => (word, ""),
    };
    let (word, links) = links(word)?;
    let (name, version) = word
        .rsplit_once('@')
        .ok_or_else(|| format!("`{word}` is not of the form `name@version`"))?;
    let mut stated =
        Attributes { facts: Facts { links, ..Facts::default() }, ..Attributes::default() };
    for attribute in attributes.split(',').filter(|it| !it.is_empty()) {
        stated.take(attribute)?;
    }
    let mut body = version.as_bytes().to_vec();
    body.resize(stated.size.max(body.len()), b' ');
    Ok(Resource::new(parse(name)?, Bytes::from(body))
        .with_version(version)
        .with_ttl(stated.ttl)
        .with_aliases(stated.aliases)
        .with_facts(stated.facts))
}

/// The attributes in the parentheses of a resource.
#[derive(Default)]
struct Attributes {
    ttl: Option<std::time::Duration>,
    aliases: Vec<ResourceName>,
    size: usize,
    facts: Facts,
}

impl Attributes {
    fn take(&mut self, attribute: &str) -> Result<(), String> {
        let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is no number"));
        let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
        match key {
            "ttl" => self.ttl = Some(duration(value)?),
            "alias" => self.aliases.push(parse(value)?),
            "host" => self.facts.hosts.push(value.into()),
            "secret" => self.facts.sensitive = true,
            "self" => self.facts.reports_to_server = true,
            "vhds" => self.facts.vhds = Some(number(value)? as u128),
            "size" => self.size = number(value)?,
            _ => {
                let known = "ttl, alias, host, secret, self, vhds, size";
                return Err(format!("`{attribute}` is none of {known}"));
            }
        }
        Ok(())
    }
}

/// Cuts `->eds:c` and `~>sds:s` off the end.
fn links(word: &str) -> Result<(&str, Vec<Link>), String> {
    let first = [word.find("->"), word.find("~>")].into_iter().flatten().min();
    let Some(first) = first else { return Ok((word, Vec::new())) };
    let mut links = Vec::new();
    let mut rest = &word[first..];
    while !rest.is_empty() {
        let aggregated = rest.starts_with("->");
        let target = &rest[2..];
        let end = [target.find("->"), target.find("~>")].into_iter().flatten().min();
        let (target, after) = target.split_at(end.unwrap_or(target.len()));
        let (short, name) =
            target.split_once(':').ok_or_else(|| format!("`{target}` is not `type:name`"))?;
        links.push(Link { type_url: type_url(short), name: parse(name)?, aggregated });
        rest = after;
    }
    Ok((&word[..first], links))
}

fn parse(name: &str) -> Result<ResourceName, String> {
    ResourceName::parse(name).map_err(|fault| fault.to_string())
}
