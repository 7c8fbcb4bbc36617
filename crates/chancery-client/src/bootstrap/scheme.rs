//! The kind of a server, which is stated by the scheme of its URI.
//!
//! It is stated nowhere else. A URI without one of these schemes is a name of gRPC.

use std::path::PathBuf;

use super::Address;
use crate::credentials::ChannelCredentials;

/// The kind of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Streams of gRPC.
    Grpc,
    /// Polls over HTTP/1.1: `http://…`, `https://…`.
    Rest(RestUri),
    /// A file, or a directory of files: `file:…`, `path:…`.
    Files(PathBuf),
}

/// A URI of the form `http://HOST:PORT,HOST:PORT/PREFIX`: some addresses, each of which will do,
/// and the text before the paths of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RestUri {
    pub(crate) addresses: Vec<Address>,
    pub(crate) prefix: String,
}

impl Scheme {
    /// Reads the URI of a server with these credentials. The error is the rest of a sentence about
    /// the URI.
    pub(crate) fn of(uri: &str, channel: &ChannelCredentials) -> Result<Self, String> {
        let in_clear = *channel == ChannelCredentials::Insecure;
        if let Some(rest) = uri.strip_prefix("http://") {
            if !in_clear {
                return Err(format!(
                    "`{uri}` is in the clear, which its credentials are not; write `https://`, or \
                     have `insecure` credentials"
                ));
            }
            return rest_uri(uri, rest, 80).map(Self::Rest);
        }
        if let Some(rest) = uri.strip_prefix("https://") {
            if in_clear {
                return Err(format!(
                    "`{uri}` is not in the clear, which its credentials are; write `http://`, or \
                     have other credentials than `insecure`"
                ));
            }
            return rest_uri(uri, rest, 443).map(Self::Rest);
        }
        for scheme in ["file:", "path:"] {
            if let Some(path) = uri.strip_prefix(scheme) {
                return path_of(uri, path).map(Self::Files);
            }
        }
        Ok(Self::Grpc)
    }
}

fn rest_uri(uri: &str, rest: &str, default: u16) -> Result<RestUri, String> {
    if rest.contains(['?', '#', '@']) {
        return Err(format!("`{uri}` has more than addresses and a path"));
    }
    let (places, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let addresses = places.split(',').map(|place| Address::tcp(place, default));
    let addresses = addresses.collect::<Result<_, _>>();
    let prefix = prefix.trim_end_matches('/');
    Ok(RestUri {
        addresses: addresses.map_err(|why| format!("`{uri}` is at no address: {why}"))?,
        prefix: if prefix.is_empty() { String::new() } else { format!("/{prefix}") },
    })
}

/// Returns the path of a URI with or without an empty authority.
fn path_of(uri: &str, path: &str) -> Result<PathBuf, String> {
    let path = match path.strip_prefix("//") {
        Some(rest) if rest.starts_with('/') => rest,
        Some(_) => return Err(format!("`{uri}` is on another machine; write `file:///PATH`")),
        None => path,
    };
    if path.is_empty() { Err(format!("`{uri}` has no path")) } else { Ok(path.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::TlsFiles;

    fn read(uri: &str, channel: ChannelCredentials) -> Result<Scheme, String> {
        Scheme::of(uri, &channel)
    }

    fn clear(uri: &str) -> String {
        match read(uri, ChannelCredentials::Insecure) {
            Ok(Scheme::Grpc) => "grpc".to_owned(),
            Ok(Scheme::Files(path)) => format!("files {}", path.display()),
            Ok(Scheme::Rest(RestUri { addresses, prefix })) => {
                let all: Vec<_> = addresses.iter().map(ToString::to_string).collect();
                format!("rest {} {prefix}", all.join(" "))
            }
            Err(why) => why,
        }
    }

    /// C-043, C-044
    #[test]
    fn the_scheme_says_what_a_server_is() {
        for (uri, scheme) in [
            ("xds.example.com:443", "grpc"),
            ("dns:///xds.example.com:443", "grpc"),
            ("unix:/run/xds", "grpc"),
            ("http://xds.example.com", "rest xds.example.com:80 "),
            ("http://a:1,[::1]:2/xds/", "rest a:1 [::1]:2 /xds"),
            ("file:///etc/xds", "files /etc/xds"),
            ("file:/etc/xds", "files /etc/xds"),
            ("path:xds/cds.yaml", "files xds/cds.yaml"),
        ] {
            assert_eq!(clear(uri), scheme, "{uri}");
        }
    }

    #[test]
    fn what_says_nowhere_is_refused() {
        for uri in ["http://", "http://a:x", "http://a,,b", "http://a/?b", "file:", "file://host/a"]
        {
            assert!(clear(uri).starts_with(&format!("`{uri}`")), "{uri}: {}", clear(uri));
        }
    }

    /// C-084: encryption that somebody asked for is not left out.
    #[test]
    fn the_scheme_and_the_credentials_must_agree() {
        let tls = || ChannelCredentials::Tls(TlsFiles::default());
        assert!(matches!(read("https://a", tls()), Ok(Scheme::Rest(_))));
        assert!(read("http://a", tls()).unwrap_err().contains("write `https://`"));
        assert!(clear("https://a").contains("write `http://`"));
        assert!(matches!(read("file:a", tls()), Ok(Scheme::Files(_))));
    }
}
