//! The cache of an earlier run, read from disk and checked.

use std::fmt::Display;
use std::sync::Arc;

use chancery_core::client::CachedResource;
use chancery_core::{Api, ResourceName, Time, TypeUrl};
use chancery_proto::reply::Reader;
use chancery_proto::{Schema, sensitive};
use serde_json::Value;

use super::files::CacheFiles;
use super::index::{CacheIndex, ServerHashes, checked};

/// The parameters for reading the cache.
pub(super) struct CacheLoader<'a> {
    pub(super) disk: &'a CacheFiles,
    pub(super) servers: &'a ServerHashes,
    pub(super) reader: &'a Reader,
    /// True if secrets are read too.
    pub(super) secrets: bool,
}

/// The cache that was read.
#[derive(Default)]
pub(super) struct LoadedCache {
    pub(super) index: CacheIndex,
    pub(super) resources: Vec<(TypeUrl, CachedResource)>,
    /// The reasons why parts of it cannot be used.
    pub(super) faults: Vec<String>,
}

impl CacheLoader<'_> {
    pub(super) fn load(&self) -> LoadedCache {
        let mut loaded = LoadedCache::default();
        let index = match self.disk.index() {
            Ok(index) => index,
            Err(error) => {
                loaded.faults.push(format!("the index: {error}"));
                Vec::new()
            }
        };
        loaded.index = CacheIndex::on_disk(index.clone());
        let mut lines = index.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let head = lines.next().unwrap_or_default();
        if head != self.servers.head().as_bytes() {
            if !head.is_empty() {
                let fault = "it is of another node, or another version of this program";
                loaded.faults.push(fault.to_owned());
            }
            return loaded;
        }
        for line in lines {
            match self.read_line(line, &mut loaded.index) {
                Ok(found) => loaded.resources.push(found),
                Err(fault) => loaded.faults.push(fault),
            }
        }
        loaded
    }

    /// Reads the resource of one line.
    fn read_line(
        &self,
        line: &[u8],
        index: &mut CacheIndex,
    ) -> Result<(TypeUrl, CachedResource), String> {
        let json = checked(line).ok_or("a line of the index is not as it was written")?;
        let text = |key: &str| json[key].as_str().unwrap_or_default();
        let type_url = TypeUrl::new(text("type"));
        let (cached, hash) = self
            .resource(&json, &type_url)
            .map_err(|why| format!("{} `{}`: {why}", type_url.short(), text("name")))?;
        index.add(type_url.clone(), &cached, hash);
        Ok((type_url, cached))
    }

    /// Reads a resource, and returns it with the hash of its body.
    fn resource(&self, json: &Value, type_url: &TypeUrl) -> Result<(CachedResource, u128), String> {
        let text = |key: &str| json[key].as_str().unwrap_or_default();
        let hash = |key: &str| u128::from_str_radix(text(key), 16);
        let name = ResourceName::read(text("name")).map_err(shown)?;
        if type_url.api() == Api::Sds && !self.secrets {
            return Err("it is a secret, and secrets are not to be kept".to_owned());
        }
        let server = hash("server").ok().and_then(|hash| self.servers.find(hash, &name));
        let server = server.ok_or("it is of a server that is not asked for it any more")?;
        let hash = hash("body").map_err(shown)?;
        let body = self.disk.body(hash).map_err(|error| format!("its body: {error}"))?;
        if !self.secrets && sensitive::withheld(&Schema::bundled(), type_url, &body).is_some() {
            return Err("it holds a secret, and secrets are not to be kept".to_owned());
        }
        let version: Arc<str> = text("version").into();
        let own = if json["own"] == true { &*version } else { "" };
        let read = self.reader.read_kept(type_url, name.as_str(), own, body).map_err(shown)?;
        let cached = CachedResource {
            resource: read.resource,
            decoded: read.decoded,
            version,
            last_updated: Time::default(),
            server,
            expires: None,
        };
        Ok((cached, hash))
    }
}

fn shown(error: impl Display) -> String {
    error.to_string()
}
