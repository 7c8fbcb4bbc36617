//! The clients that a resource is for, as somebody declared them: `envoy`, `envoy=1.36` or `grpc`.
//!
//! Not here: what these clients make of a resource. The rules of Envoy's versions are checked with all
//! other rules ([`crate::rules`]), those of gRPC are in [`crate::lint`].

mod table;

use std::fmt;
use std::str::FromStr;

pub(crate) use self::table::{Table, Versions};

/// Kinds of clients. The default is an Envoy of which nobody said the version: whatever is not known to be
/// for gRPC alone may be for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clients {
    is_envoy: bool,
    versions: Versions,
    is_grpc: bool,
    sees_grpc: bool,
}

/// A text that names no client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownClient {
    /// It is neither Envoy nor gRPC.
    #[error("`{0}` is no client; write `envoy`, `envoy=X.Y` or `grpc`")]
    Kind(String),
    /// Nobody knows what this version of Envoy knows.
    #[error("nothing is known of Envoy `{version}`; known are {}", .known.join(", "))]
    Version {
        /// The version.
        version: String,
        /// Those of which something is known.
        known: Vec<&'static str>,
    },
}

impl Clients {
    /// Nobody.
    pub const NONE: Self =
        Self { is_envoy: false, versions: Versions::NONE, is_grpc: false, sees_grpc: false };

    /// Envoys of which nobody said the version.
    pub const ENVOY: Self = Self { is_envoy: true, ..Self::NONE };

    /// Clients or servers of gRPC that were seen, and that nobody declared: what they reject is told, and is no
    /// fault.
    pub const SEEN_GRPC: Self = Self { sees_grpc: true, ..Self::NONE };

    /// The clients of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            is_envoy: self.is_envoy || other.is_envoy,
            versions: self.versions.and(other.versions),
            is_grpc: self.is_grpc || other.is_grpc,
            sees_grpc: self.sees_grpc || other.sees_grpc,
        }
    }

    /// Returns true if some of them are Envoys, or may be.
    pub fn has_envoy(self) -> bool {
        self.is_envoy
    }

    /// Returns true if some of them are gRPC clients or servers.
    pub fn has_grpc(self) -> bool {
        self.is_grpc
    }

    /// Returns true if what gRPC rejects or ignores is told of what they get.
    pub(crate) fn hears_of_grpc(self) -> bool {
        self.is_grpc || self.sees_grpc
    }

    /// Returns true if all of them are gRPC clients or servers.
    pub fn is_grpc_only(self) -> bool {
        self.is_grpc && !self.is_envoy
    }

    /// Returns true if a resource is rejected by all of them that use it, when gRPC rejects it. `is_only_for_grpc`
    /// says that nobody else can use it.
    pub(crate) fn rejects_with_grpc(self, is_only_for_grpc: bool) -> bool {
        self.is_grpc && (is_only_for_grpc || !self.is_envoy)
    }

    /// The versions of Envoy that were named.
    pub(crate) fn versions(self) -> Versions {
        self.versions
    }
}

impl Default for Clients {
    fn default() -> Self {
        Self::ENVOY
    }
}

/// Reads `envoy`, `envoy=1.36` or `grpc`. A patch release has the API of its release.
impl FromStr for Clients {
    type Err = UnknownClient;
    fn from_str(text: &str) -> Result<Self, UnknownClient> {
        match text.split_once('=') {
            None if text == "envoy" => Ok(Self::default()),
            None if text == "grpc" => Ok(Self { is_grpc: true, ..Self::NONE }),
            Some(("envoy", version)) => match Table::known().versions_of(version) {
                Some(versions) => Ok(Self { versions, ..Self::default() }),
                None => Err(UnknownClient::Version {
                    version: version.to_owned(),
                    known: Table::known().names().to_vec(),
                }),
            },
            _ => Err(UnknownClient::Kind(text.to_owned())),
        }
    }
}

/// As in `envoy=1.36, grpc`.
impl fmt::Display for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions = Table::known().listed(self.versions).map(|it| format!("envoy={it}"));
        let mut words: Vec<_> = versions.collect();
        if self.is_envoy && words.is_empty() {
            words.push("envoy".to_owned());
        }
        if self.is_grpc {
            words.push("grpc".to_owned());
        }
        f.write_str(&words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_named_by_their_kind_and_version() {
        let read = |text: &str| text.parse::<Clients>();
        assert_eq!(read("envoy"), Ok(Clients::default()));
        for text in ["envoy", "grpc", "envoy=1.36", "envoy=1.40"] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        let [old, grpc] = ["envoy=1.36.2", "grpc"].map(|text| read(text).unwrap());
        assert_eq!(old.and(grpc).to_string(), "envoy=1.36, grpc");
        assert!(grpc.is_grpc_only() && !old.and(grpc).is_grpc_only());
        assert!(!Clients::default().has_grpc() && !grpc.has_envoy());
    }

    #[test]
    fn what_is_no_client_is_told() {
        for text in ["", "envoy =1.36", "grpc=1.0", "istio", "ENVOY"] {
            assert!(matches!(text.parse::<Clients>(), Err(UnknownClient::Kind(_))), "{text}");
        }
        for version in ["1.34", "1.33.1", "", "1", "1.36.", "1.36.x", "1.041", "2.36"] {
            let told = format!("envoy={version}").parse::<Clients>().unwrap_err().to_string();
            assert!(told.ends_with("known are 1.32, 1.35, 1.36, 1.37, 1.38, 1.39, 1.40"), "{told}");
        }
    }
}
