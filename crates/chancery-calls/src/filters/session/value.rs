//! The value of a cookie: `address,address;cluster`, in base64.

use std::net::SocketAddr;

use chancery_core::base64;

/// The most bytes of a value that is looked at.
const MAX_VALUE_BYTES: usize = 8 * 1024;
/// The most addresses of an endpoint that a cookie has.
const MAX_ADDRESSES: usize = 32;

/// The endpoint of a session, and its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionTarget {
    /// The addresses of the endpoint, the one that was used first. There is one at least.
    pub addresses: Vec<SocketAddr>,
    /// The cluster; cookies that were made before gRFC A60 have none.
    pub cluster: Option<String>,
}

impl SessionTarget {
    /// Reads the value of a cookie. One that does not have an address is none, and so is one that is too long. Of more
    /// addresses than a cookie has from here the first count.
    pub(super) fn read(value: &str) -> Option<Self> {
        if value.len() > MAX_VALUE_BYTES {
            return None;
        }
        let text = String::from_utf8(base64::decode(value)?).ok()?;
        let (addresses, cluster) = match text.split_once(';') {
            Some((addresses, cluster)) => (addresses, Some(cluster.to_owned())),
            None => (&*text, None),
        };
        let addresses = addresses.split(',').take(MAX_ADDRESSES).map(str::parse);
        let addresses: Result<Vec<_>, _> = addresses.collect();
        Some(Self { addresses: addresses.ok()?, cluster })
    }

    /// The addresses of an endpoint as a cookie has them: the one that was used first, and not too many.
    pub(super) fn addresses(used: SocketAddr, all: &[SocketAddr]) -> Vec<SocketAddr> {
        let others = all.iter().copied().filter(|address| *address != used);
        [used].into_iter().chain(others).take(MAX_ADDRESSES).collect()
    }

    /// Writes the value of a cookie.
    pub(super) fn write(addresses: &[SocketAddr], cluster: &str) -> String {
        let mut text = String::new();
        for (at, address) in addresses.iter().enumerate() {
            text.push_str(if at > 0 { "," } else { "" });
            text.push_str(&address.to_string());
        }
        text.push(';');
        text.push_str(cluster);
        base64::encode(text.as_bytes())
    }
}
