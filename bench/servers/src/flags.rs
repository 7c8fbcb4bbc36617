//! The flags that every server under test takes. A server reads and ignores those that it does not
//! need.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};

use crate::content::ResourceKind;

/// The resources to serve, and the address.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerFlags {
    /// The address for clients.
    pub listen: SocketAddr,
    /// The types that are served; changes are made to the first.
    pub types: Vec<ResourceKind>,
    /// The number of resources of each type.
    pub resources: usize,
    /// The approximate size of a resource in bytes.
    pub bytes: usize,
    /// The number of nodes that have a resource of their own, besides those that all nodes see.
    pub own: usize,
    /// True if responses are those of the delta variant, for servers that do not read requests.
    pub delta: bool,
    /// True if the TCP loop reads the answers of clients, after it has written.
    pub drain: bool,
}

impl ServerFlags {
    /// The flags of this process.
    ///
    /// # Errors Returns an error if a flag is unknown, or its value is missing or wrong.
    pub fn read() -> Result<Self> {
        Self::parse(std::env::args().skip(1))
    }

    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut flags = Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            types: vec![ResourceKind::Eds],
            resources: 100,
            bytes: 1_100,
            own: 0,
            delta: true,
            drain: false,
        };
        while let Some(flag) = words.next() {
            if flag == "--drain" {
                flags.drain = true;
                continue;
            }
            let value = words.next().with_context(|| format!("`{flag}` needs a value"))?;
            flags.set(&flag, &value).with_context(|| format!("`{flag} {value}`"))?;
        }
        Ok(flags)
    }

    fn set(&mut self, flag: &str, value: &str) -> Result<()> {
        match flag {
            "--listen" => self.listen = value.parse()?,
            "--types" => self.types = value.split(',').map(str::parse).collect::<Result<_>>()?,
            "--resources" => self.resources = value.parse()?,
            "--bytes" => self.bytes = value.parse()?,
            "--own" => self.own = value.parse()?,
            "--protocol" => self.delta = value == "delta",
            "--cache" => {}
            _ => bail!("unknown flag"),
        }
        Ok(())
    }

    /// The type that changes.
    pub fn first(&self) -> ResourceKind {
        self.types.first().copied().unwrap_or(ResourceKind::Eds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<ServerFlags> {
        ServerFlags::parse(words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_are_read() {
        let flags = parse("--types cds,eds --resources 5 --protocol sotw --drain").unwrap();
        assert_eq!(flags.types, [ResourceKind::Cds, ResourceKind::Eds]);
        assert_eq!((flags.resources, flags.delta, flags.drain), (5, false, true));
    }

    #[test]
    fn a_wrong_flag_is_told() {
        for (words, expected) in [
            ("--typos eds", "`--typos eds`: unknown flag"),
            ("--types", "`--types` needs a value"),
            ("--types sds", "`--types sds`: unknown type `sds`; there are cds, eds, lds and rds"),
        ] {
            assert_eq!(format!("{:#}", parse(words).unwrap_err()), expected);
        }
    }
}
