//! The index of a disk cache: one line for each resource, each with a checksum of its own.
//!
//! ```text
//!   chancery-stock 1 HASH-OF-THE-NODE
//!   CHECKSUM {"type": …, "name": …, "version": …, "own": …, "server": …, "body": HASH}
//! ```
//!
//! A line that is damaged takes no other with it. Not here: the bodies, and how files are replaced
//! (`files`); the reading at the start (`load`).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::str;
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::client::{AuthorityKey, CachedResource, Machine, ServerId, Setup};
use chancery_core::{Api, ResourceName, TypeUrl, Version};
use chancery_proto::{Schema, sensitive};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_128;

use super::DiskCache;
use super::files::CacheFiles;

/// The servers of a client and its node, as hashes.
pub(super) struct ServerHashes {
    node: u128,
    hashes: BTreeMap<ServerId, u128>,
    authorities: BTreeMap<AuthorityKey, Vec<ServerId>>,
}

/// The resources in the cache on disk.
#[derive(Default)]
pub(super) struct CacheIndex {
    entries: BTreeMap<(TypeUrl, ResourceName), IndexEntry>,
    /// The bodies that are on disk, and were intact when they were read or written.
    written: BTreeSet<u128>,
    /// The bodies that hold a secret and are not to be kept.
    secret: BTreeSet<u128>,
    /// The index as it is on disk.
    index: Vec<u8>,
}

/// One resource in the index.
#[derive(Clone)]
struct IndexEntry {
    version: Arc<str>,
    /// True if `version` is the resource's own, and not the response's.
    is_own: bool,
    server: ServerId,
    hash: u128,
    length: usize,
    is_watched: bool,
    /// The body, until it is on disk.
    body: Option<Bytes>,
}

impl IndexEntry {
    /// The entry of a resource whose body is on disk, and which nobody watches.
    fn new(cached: &CachedResource, hash: u128) -> Self {
        let resource = &cached.resource;
        Self {
            version: Arc::clone(&cached.version),
            is_own: matches!(resource.version(), Version::Explicit(_)),
            server: cached.server,
            hash,
            length: resource.body().len(),
            is_watched: false,
            body: None,
        }
    }
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
            hashes: servers.collect(),
            authorities: authorities.map(|(key, it)| (key.clone(), it.servers.clone())).collect(),
        }
    }

    /// Returns the server of this hash, if it would be asked for the name.
    pub(super) fn find(&self, hash: u128, name: &ResourceName) -> Option<ServerId> {
        let mut asked = self.authorities.get(&AuthorityKey::of(name))?.iter().copied();
        asked.find(|id| self.hashes.get(id) == Some(&hash))
    }

    /// Returns the first line of the index. It begins with a word from the time when this cache had
    /// another name.
    pub(super) fn head(&self) -> String {
        format!("chancery-stock 1 {:032x}", self.node)
    }
}

impl CacheIndex {
    /// An index of no resources, which is on disk as these bytes.
    pub(super) fn on_disk(index: Vec<u8>) -> Self {
        Self { index, ..Self::default() }
    }

    /// Adds a resource that was read from disk.
    pub(super) fn add(&mut self, type_url: TypeUrl, cached: &CachedResource, hash: u128) {
        self.written.insert(hash);
        let entry = IndexEntry::new(cached, hash);
        self.entries.insert((type_url, cached.resource.name().clone()), entry);
    }

    /// Takes over the cache of the machine, and removes what its server says does not exist.
    pub(super) fn update(
        &mut self,
        machine: &Machine,
        servers: &ServerHashes,
        settings: &DiskCache,
    ) {
        self.entries.retain(|(type_url, name), entry| {
            entry.is_watched = false;
            !machine.is_known_missing(type_url, name)
        });
        let mut secret = BTreeSet::new();
        for status in machine.resources() {
            let Some(cached) = status.cached else { continue };
            let resource = &cached.resource;
            let is_secret = status.type_url.api() == Api::Sds && !settings.secrets;
            if is_secret
                || cached.expires.is_some()
                || resource.name() != status.name
                || !servers.hashes.contains_key(&cached.server)
            {
                continue;
            }
            let hash = xxh3_128(resource.body());
            if self.secret.contains(&hash) {
                secret.insert(hash);
                self.entries.remove(&(status.type_url.clone(), status.name.clone()));
                continue;
            }
            let is_new = !self.written.contains(&hash);
            let mut entry = IndexEntry::new(cached, hash);
            entry.is_watched = true;
            entry.body = is_new.then(|| resource.body().clone());
            self.entries.insert((status.type_url.clone(), status.name.clone()), entry);
        }
        self.secret = secret;
        self.fit(settings.max_bytes);
    }

    /// Removes the resources that hold a secret in a field, of those that are not on disk yet.
    pub(super) fn remove_secrets(&mut self) {
        let schema = Schema::bundled();
        let Self { entries, secret, .. } = self;
        entries.retain(|(type_url, _), entry| {
            let Some(body) = &entry.body else { return true };
            let is_secret = sensitive::withheld(&schema, type_url, body).is_some();
            if is_secret {
                secret.insert(entry.hash);
            }
            !is_secret
        });
    }

    /// Removes resources until the rest is within the limit. Those that are not watched go first.
    fn fit(&mut self, limit: usize) {
        let mut total: usize = self.entries.values().map(|entry| entry.length).sum();
        for watched in [false, true] {
            self.entries.retain(|_, entry| {
                let goes = total > limit && entry.is_watched == watched;
                if goes {
                    total -= entry.length;
                }
                !goes
            });
        }
    }

    /// Writes the bodies that are not on disk yet, then the index that names them, and then removes
    /// the bodies that no line names.
    pub(super) fn write(&mut self, disk: &CacheFiles, servers: &ServerHashes) -> io::Result<()> {
        for entry in self.entries.values_mut() {
            if let Some(body) = &entry.body {
                if !self.written.contains(&entry.hash) {
                    disk.put_body(entry.hash, body)?;
                    self.written.insert(entry.hash);
                }
                entry.body = None;
            }
        }
        let index = self.text(servers);
        if index == self.index {
            return Ok(());
        }
        disk.put_index(&index)?;
        self.index = index;
        let named: BTreeSet<_> = self.entries.values().map(|entry| entry.hash).collect();
        disk.keep_bodies(&named);
        self.written = named;
        Ok(())
    }

    fn text(&self, servers: &ServerHashes) -> Vec<u8> {
        let mut index = servers.head();
        for ((type_url, name), entry) in &self.entries {
            let server = servers.hashes.get(&entry.server).copied().unwrap_or_default();
            let json = json!({
                "type": type_url.message_name(),
                "name": name.as_str(),
                "version": &*entry.version,
                "own": entry.is_own,
                "server": format!("{server:032x}"),
                "body": format!("{:032x}", entry.hash),
            })
            .to_string();
            index += &format!("\n{:032x} {json}", hash_of(&json));
        }
        index.push('\n');
        index.into_bytes()
    }
}

/// Returns the content of a line whose checksum is right.
pub(super) fn checked(line: &[u8]) -> Option<Value> {
    let (hash, json) = str::from_utf8(line).ok()?.split_once(' ')?;
    let is_right = u128::from_str_radix(hash, 16) == Ok(hash_of(json));
    if is_right { serde_json::from_str(json).ok() } else { None }
}

fn hash_of(text: &str) -> u128 {
    xxh3_128(text.as_bytes())
}
