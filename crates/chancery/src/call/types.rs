//! The types of messages and methods: from files, or from the server.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use chancery_core::printable::{MAX_NAME_BYTES, Printable, cut};
use http::uri::PathAndQuery;
use prost::Message;
use prost_reflect::prost_types::FileDescriptorSet;
use prost_reflect::{DescriptorPool, MethodDescriptor};

use super::one::Caller;
use super::pool;
use super::reflection::Reflection;
use crate::exit::Failure;

/// The name of a method: `orders.v1.Orders/Get`, or with a dot as the last separator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MethodName {
    pub(super) service: String,
    pub(super) method: String,
}

/// The source of types.
pub(super) enum Types<'a> {
    Files(DescriptorPool),
    Server(Reflection<'a>),
}

impl MethodName {
    /// Reads a name.
    pub(super) fn read(text: &str) -> Option<Self> {
        let text = text.strip_prefix('/').unwrap_or(text);
        let (service, method) = text.split_once('/').or_else(|| text.rsplit_once('.'))?;
        let is_name = |part: &str| {
            let is_word = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '.');
            !part.is_empty() && part.chars().all(is_word)
        };
        let (service, method) = (service.to_owned(), method.to_owned());
        (is_name(&service) && is_name(&method)).then_some(Self { service, method })
    }

    /// Returns the path of calls.
    pub(super) fn path(&self) -> Result<PathAndQuery, Failure> {
        let path = PathAndQuery::try_from(format!("/{}/{}", self.service, self.method));
        path.map_err(|error| Failure::misuse(error.to_string()))
    }
}

impl<'a> Types<'a> {
    /// Takes the types in files, or else asks the server.
    pub(super) fn new(files: &[PathBuf], caller: &'a Caller) -> Result<Self, Failure> {
        if files.is_empty() {
            return Ok(Self::Server(Reflection::new(caller)));
        }
        let mut all = Vec::new();
        for path in files {
            let shown = path.display();
            let bytes = chancery_files::read(path, MAX_BYTES);
            let bytes = bytes.with_context(|| format!("cannot read `{shown}`"))?;
            let set = FileDescriptorSet::decode(&*bytes);
            all.extend(set.with_context(|| format!("`{shown}` is no FileDescriptorSet"))?.file);
        }
        // Several files may have one import, of which the first counts.
        let mut names = BTreeSet::new();
        all.retain(|file| names.insert(file.name().to_owned()));
        let pool = pool::of(all).context("the files of `--descriptor-set` cannot be used together");
        pool.map(Self::Files).map_err(Failure::broken)
    }

    /// Returns the names of all services.
    pub(super) async fn services(&mut self) -> Result<Vec<String>, Failure> {
        let mut names: Vec<_> = match self {
            Self::Files(pool) => pool.services().map(|it| it.full_name().to_owned()).collect(),
            Self::Server(reflection) => reflection.services().await?,
        };
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Returns a pool in which these symbols are, if they exist.
    pub(super) async fn pool(&mut self, symbols: &[String]) -> Result<DescriptorPool, Failure> {
        match self {
            Self::Files(pool) => Ok(pool.clone()),
            Self::Server(reflection) => reflection.pool(symbols).await,
        }
    }

    /// Returns a method.
    pub(super) async fn method(&mut self, name: &MethodName) -> Result<MethodDescriptor, Failure> {
        let pool = self.pool(std::slice::from_ref(&name.service)).await.map_err(Failure::breaks)?;
        let shown = Printable(cut(&name.service, MAX_NAME_BYTES));
        let Some(service) = pool.get_service_by_name(&name.service) else {
            return Err(Failure::broken(anyhow!("there is no service `{shown}`")));
        };
        let found = service.methods().find(|method| method.name() == name.method);
        found.ok_or_else(|| {
            let methods: Vec<_> = service.methods().map(|it| it.name().to_owned()).collect();
            let why = anyhow!("service `{shown}` has no method `{}`", name.method);
            Failure::broken(why).hint(format!("it has {}", cut(&methods.join(", "), 1000)))
        })
    }
}

/// The bytes of a file of types.
const MAX_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_named_with_a_slash_or_a_dot() {
        let read =
            |text: &str| MethodName::read(text).map(|it| format!("{} {}", it.service, it.method));
        for text in ["a.b.C/Get", "/a.b.C/Get", "a.b.C.Get"] {
            assert_eq!(read(text).as_deref(), Some("a.b.C Get"));
        }
        for wrong in ["Get", "", "/", "a.b.C/", "a/b/c", "a b/c", "a/\u{1b}"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
