//! The value of a cookie: `address,address;cluster`, in base64.

use std::net::SocketAddr;

use chancery_core::base64;

/// The endpoint of a session, and its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionTarget {
    /// The addresses of the endpoint, the one that was used first. There is one at least.
    pub addresses: Vec<SocketAddr>,
    /// The cluster; cookies that were made before gRFC A60 have none.
    pub cluster: Option<String>,
}

impl SessionTarget {
    /// Reads the value of a cookie. One that does not have an address is none.
    pub(super) fn read(value: &str) -> Option<Self> {
        let text = String::from_utf8(base64::decode(value)?).ok()?;
        let (addresses, cluster) = match text.split_once(';') {
            Some((addresses, cluster)) => (addresses, Some(cluster.to_owned())),
            None => (&*text, None),
        };
        let addresses: Result<Vec<_>, _> = addresses.split(',').map(str::parse).collect();
        Some(Self { addresses: addresses.ok()?, cluster })
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
