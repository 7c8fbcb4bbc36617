//! The values of single flags, parsed from text.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use chancery_bench::{NameCount, SlowClients, parse_type};

use crate::config::Span;

/// The kind of trigger that `--trigger` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TriggerKind {
    /// A line to a control port; the answer says that the change is published.
    Tcp(String),
    /// A command, run by `sh`.
    Exec(String),
    /// A file that is replaced.
    File(PathBuf),
}

impl FromStr for TriggerKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let misfit = || {
            format!("`{text}` is no trigger; write `tcp:HOST:PORT`, `exec:COMMAND` or `file:PATH`")
        };
        let (kind, rest) =
            text.split_once(':').filter(|(_, rest)| !rest.is_empty()).ok_or_else(misfit)?;
        match kind {
            "tcp" => Ok(Self::Tcp(rest.to_owned())),
            "exec" => Ok(Self::Exec(rest.to_owned())),
            "file" => Ok(Self::File(rest.into())),
            _ => Err(misfit()),
        }
    }
}

pub(super) fn span(text: &str) -> Result<Duration, String> {
    text.parse::<Span>().map(|span| span.0).map_err(|invalid| invalid.to_string())
}

pub(super) fn gap(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_millis).or_else(|_| span(text))
}

pub(super) fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.001..=100_000.0).contains(rate));
    rate.ok_or_else(|| format!("`{text}` is no rate; write 0.001 to 100000 changes in a second"))
}

pub(super) fn named(text: &str) -> Result<NameCount, String> {
    let (url, count) = match text.split_once('=') {
        Some((url, count)) => (Some(parse_type(url)?), count),
        None => (None, text),
    };
    let count = count.parse().map_err(|_| format!("`{count}` is no number of names"))?;
    Ok(NameCount { url, count })
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("`{text}` lacks a `=`"))?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(super) fn slow(text: &str) -> Result<SlowClients, String> {
    let misfit =
        || format!("`{text}` is no pace; write `10@65536`: ten clients, 64 KiB in a second");
    let (clients, bytes) = text.split_once('@').ok_or_else(misfit)?;
    let bytes = bytes.parse().ok().filter(|bytes| *bytes > 0);
    let slow = clients.parse().ok().zip(bytes);
    slow.map(|(count, bytes_per_second)| SlowClients { count, bytes_per_second }).ok_or_else(misfit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read() {
        assert_eq!(gap("30"), Ok(Duration::from_millis(30)));
        assert_eq!(gap("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(slow("3@100"), Ok(SlowClients { count: 3, bytes_per_second: 100 }));
        assert_eq!(named("7"), Ok(NameCount { url: None, count: 7 }));
        assert_eq!(named("eds=7").unwrap().url.unwrap().short(), "eds");
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
    }

    #[test]
    fn triggers_are_read() {
        assert_eq!("tcp:127.0.0.1:1".parse(), Ok(TriggerKind::Tcp("127.0.0.1:1".into())));
        assert_eq!("exec:echo a:b".parse(), Ok(TriggerKind::Exec("echo a:b".into())));
        assert_eq!("file:/a/b".parse(), Ok(TriggerKind::File("/a/b".into())));
        for text in ["", "tcp:", "127.0.0.1:1", "udp:x"] {
            assert!(text.parse::<TriggerKind>().is_err(), "{text}");
        }
    }

    #[test]
    fn misuse_is_refused_in_words() {
        assert!(slow("3@0").unwrap_err().contains("3@0"));
        assert!(rate("0").is_err() && rate("NaN").is_err() && rate("2.5") == Ok(2.5));
        assert!(named("x=1").unwrap_err().contains("`x`"));
        assert!(gap("soon").is_err() && pair("a").is_err() && named("many").is_err());
    }
}
