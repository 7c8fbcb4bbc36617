//! The flags every server under test takes. Those that mean nothing to one are read and not used.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};

use crate::content::ResourceKind;

/// What to serve, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerFlags {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// The types there are; the first one changes.
    pub types: Vec<ResourceKind>,
    /// How many resources of each type.
    pub resources: usize,
    /// About how many bytes each has.
    pub bytes: usize,
    /// The number of nodes that have a resource of their own, besides those that all nodes see.
    pub own: usize,
    /// Whether responses are those of the delta variant, for servers that do not look.
    pub delta: bool,
    /// Whether the TCP loop reads what clients answer, after it has written.
    pub drain: bool,
}

impl ServerFlags {
    /// The flags of this process.
    ///
    /// # Errors
    /// When one is unknown, lacks its value, or has one that does not fit.
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
