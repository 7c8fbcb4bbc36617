//! The index of a disk cache: one line for each resource, each with a checksum of its own.
//!
//! ```text
//!   chancery-stock 1 HASH-OF-THE-NODE
//!   CHECKSUM {"type": …, "name": …, "version": …, "own": …, "server": …, "body": HASH}
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::str;
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::client::{AuthorityKey, CachedResource, Machine, ServerId, Setup};
use chancery_core::{Api, ResourceName, Time, TypeUrl, Version};
use chancery_proto::reply::Reader;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_128;

use super::DiskCache;
use super::files::CacheFiles;

/// The servers that a client asks, as hashes, and the node that it is.
pub(super) struct ServerHashes {
    node: u128,
    servers: BTreeMap<ServerId, u128>,
    authorities: BTreeMap<AuthorityKey, Vec<ServerId>>,
}

/// The resources in the cache on disk.
#[derive(Default)]
pub(super) struct CacheIndex {
    lines: BTreeMap<(TypeUrl, ResourceName), IndexEntry>,
    /// The bodies that are on disk, and were whole when they were read or written.
    written: BTreeSet<u128>,
    /// The index as it is on disk.
    index: Vec<u8>,
}

/// One resource in the index.
#[derive(Clone)]
struct IndexEntry {
    version: Arc<str>,
    /// True if that is the resource's own version, and not the response's.
    own: bool,
    server: ServerId,
    hash: u128,
    length: usize,
    watched: bool,
    /// The body, until it is on disk.
    body: Option<Bytes>,
}

impl ServerHashes {
    pub(super) fn of(setup: &Setup) -> Self {
        let servers = setup.servers().map(|(id, server)| {
            let key = &server.key;
            (id, hash_of(&format!("{}\n{}\n{:?}", key.uri, key.credentials, key.features)))
        });
        let authorities = setup.authorities().iter();
        Self {
            node: hash_of(&format!("{}\n{}", setup.node.id, setup.node.cluster)),
            servers: servers.collect(),
            authorities: authorities.map(|(key, it)| (key.clone(), it.servers.clone())).collect(),
        }
    }

    /// Returns the server of this hash, if it would be asked for the name.
    fn find(&self, hash: u128, name: &ResourceName) -> Option<ServerId> {
        let mut asked = self.authorities.get(&AuthorityKey::of(name))?.iter().copied();
        asked.find(|id| self.servers.get(id) == Some(&hash))
    }

    fn head(&self) -> String {
        format!("chancery-stock 1 {:032x}", self.node)
    }
}

/// Reads the cache of an earlier run, and the faults of what cannot be used.
pub(super) fn load(
    disk: &CacheFiles,
    sources: &ServerHashes,
    reader: &Reader,
    secrets: bool,
) -> (CacheIndex, Vec<(TypeUrl, CachedResource)>, Vec<String>) {
    let mut loaded = CacheIndex::default();
    let (mut left, mut faults) = (Vec::new(), Vec::new());
    match disk.index() {
        Ok(index) => loaded.index = index,
        Err(error) => faults.push(format!("the index: {error}")),
    }
    let index = loaded.index.clone();
    let mut lines = index.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let head = lines.next().unwrap_or_default();
    if head != sources.head().as_bytes() {
        if !head.is_empty() {
            faults.push("it is of another node, or another version of this program".to_owned());
        }
        return (loaded, left, faults);
    }
    for line in lines {
        match loaded.take(line, disk, sources, reader, secrets) {
            Ok(found) => left.push(found),
            Err(fault) => faults.push(fault),
        }
    }
    (loaded, left, faults)
}

impl CacheIndex {
    fn take(
        &mut self,
        text: &[u8],
        disk: &CacheFiles,
        sources: &ServerHashes,
        reader: &Reader,
        secrets: bool,
    ) -> Result<(TypeUrl, CachedResource), String> {
        let json = checked(text).ok_or("a line of the index is not as it was written")?;
        let text = |key: &str| json[key].as_str().unwrap_or_default();
        let hash = |key: &str| u128::from_str_radix(text(key), 16);
        let type_url = TypeUrl::new(text("type"));
        let named_fault =
            |why: &dyn std::fmt::Display| format!("{} `{}`: {why}", type_url.short(), text("name"));
        let name = ResourceName::read(text("name")).map_err(|error| named_fault(&error))?;
        if type_url.api() == Api::Sds && !secrets {
            return Err(named_fault(&"it is a secret, and secrets are not to be kept"));
        }
        let server = hash("server").ok().and_then(|hash| sources.find(hash, &name));
        let server = server
            .ok_or_else(|| named_fault(&"it is of a server that is not asked for it any more"))?;
        let hash = hash("body").map_err(|error| named_fault(&error))?;
        let body = disk.body(hash).map_err(|error| named_fault(&format!("its body: {error}")))?;
        self.written.insert(hash);
        let (version, own): (Arc<str>, _) = (text("version").into(), json["own"] == true);
        let length = body.len();
        let stated = if own { &version } else { "" };
        let given = reader.read_kept(&type_url, name.as_str(), stated, body);
        let given = given.map_err(|why| named_fault(&why))?;
        let line = IndexEntry {
            version: Arc::clone(&version),
            own,
            server,
            hash,
            length,
            watched: false,
            body: None,
        };
        self.lines.insert((type_url.clone(), name), line);
        let (resource, reading) = (given.resource, given.decoded);
        let at = Time::default();
        Ok((
            type_url,
            CachedResource {
                resource,
                decoded: reading,
                version,
                last_updated: at,
                server,
                expires: None,
            },
        ))
    }

    /// Takes over the cache of the machine, and removes what its server says does not exist.
    pub(super) fn update(
        &mut self,
        machine: &Machine,
        sources: &ServerHashes,
        settings: &DiskCache,
    ) {
        self.lines.retain(|(type_url, name), line| {
            line.watched = false;
            !machine.is_known_missing(type_url, name)
        });
        for status in machine.resources() {
            let Some(held) = status.cached else { continue };
            let resource = &held.resource;
            let is_secret = status.type_url.api() == Api::Sds && !settings.secrets;
            if is_secret
                || held.expires.is_some()
                || resource.name() != status.name
                || !sources.servers.contains_key(&held.server)
            {
                continue;
            }
            let (hash, length) = (xxh3_128(resource.body()), resource.body().len());
            let is_new = !self.written.contains(&hash);
            let line = IndexEntry {
                version: Arc::clone(&held.version),
                own: matches!(resource.version(), Version::Explicit(_)),
                server: held.server,
                hash,
                length,
                watched: true,
                body: is_new.then(|| resource.body().clone()),
            };
            self.lines.insert((status.type_url.clone(), status.name.clone()), line);
        }
        self.fit(settings.max_bytes);
    }

    /// Removes resources beyond the limit, first those that are not watched.
    fn fit(&mut self, limit: usize) {
        let mut total: usize = self.lines.values().map(|line| line.length).sum();
        for watched in [false, true] {
            self.lines.retain(|_, line| {
                let goes = total > limit && line.watched == watched;
                if goes {
                    total -= line.length;
                }
                !goes
            });
        }
    }

    /// Writes the bodies that are not on disk yet, then the index that names them, and then removes
    /// the bodies that no line names.
    pub(super) fn write(&mut self, disk: &CacheFiles, sources: &ServerHashes) -> io::Result<()> {
        for line in self.lines.values_mut() {
            if let Some(body) = &line.body {
                if !self.written.contains(&line.hash) {
                    disk.put_body(line.hash, body)?;
                    self.written.insert(line.hash);
                }
                line.body = None;
            }
        }
        let index = self.text(sources);
        if index == self.index {
            return Ok(());
        }
        disk.put_index(&index)?;
        self.index = index;
        let named: BTreeSet<_> = self.lines.values().map(|line| line.hash).collect();
        disk.keep_bodies(&named);
        self.written = named;
        Ok(())
    }

    fn text(&self, sources: &ServerHashes) -> Vec<u8> {
        let mut index = sources.head();
        for ((type_url, name), line) in &self.lines {
            let server = sources.servers.get(&line.server).copied().unwrap_or_default();
            let json = json!({
                "type": type_url.message_name(),
                "name": name.as_str(),
                "version": &*line.version,
                "own": line.own,
                "server": format!("{server:032x}"),
                "body": format!("{:032x}", line.hash),
            })
            .to_string();
            index += &format!("\n{:032x} {json}", hash_of(&json));
        }
        index.push('\n');
        index.into_bytes()
    }
}

/// Returns the content of a line whose checksum is right.
fn checked(line: &[u8]) -> Option<Value> {
    let (hash, json) = str::from_utf8(line).ok()?.split_once(' ')?;
    let is_right = u128::from_str_radix(hash, 16) == Ok(hash_of(json));
    if is_right { serde_json::from_str(json).ok() } else { None }
}

fn hash_of(text: &str) -> u128 {
    xxh3_128(text.as_bytes())
}
