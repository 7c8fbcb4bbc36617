//! A network, as an operator writes it: an address and the number of bits that count.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A network, such as `10.1.0.0/16` or `2001:db8::/32`. An address alone is a network of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// The error for a text that is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a network: write an address, or one with a prefix as in `10.1.0.0/16`")]
pub struct InvalidNetwork(String);

impl Network {
    /// Returns true if the address is in the network. An IPv4 address that is mapped to IPv6 counts
    /// as what it is.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                leading(u128::from(own.to_bits()) << 96, self.bits)
                    == leading(u128::from(other.to_bits()) << 96, self.bits)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                leading(own.to_bits(), self.bits) == leading(other.to_bits(), self.bits)
            }
            _ => false,
        }
    }
}

/// The first bits of an address, the others zero.
fn leading(address: u128, bits: u8) -> u128 {
    let rest = 128_u32.saturating_sub(u32::from(bits));
    address.checked_shr(rest).and_then(|it| it.checked_shl(rest)).unwrap_or(0)
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let invalid = || InvalidNetwork(text.chars().take(64).collect());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| invalid())?)),
            None => (text, None),
        };
        let address = address.parse::<IpAddr>().map_err(|_| invalid())?.to_canonical();
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most { Err(invalid()) } else { Ok(Self { address, bits }) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(network: &str, address: &str) -> bool {
        network.parse::<Network>().unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn a_network_contains_what_begins_as_it_does() {
        assert!(has("10.1.0.0/16", "10.1.255.3"));
        assert!(!has("10.1.0.0/16", "10.2.0.1"));
        assert!(has("10.1.0.0/16", "::ffff:10.1.2.3"));
        assert!(has("10.1.2.3", "10.1.2.3"));
        assert!(!has("10.1.2.3", "10.1.2.4"));
        assert!(has("2001:db8::/32", "2001:db8:1::1"));
        assert!(!has("2001:db8::/32", "2001:db9::1"));
        assert!(has("0.0.0.0/0", "192.0.2.1"));
        assert!(!has("0.0.0.0/0", "2001:db8::1"));
        assert!(has("::/0", "2001:db8::1"));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for wrong in ["", "10.1", "10.1.0.0/33", "10.1.0.0/", "::/129", "host", "10.0.0.0/-1"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
        let network: Network = "::ffff:10.1.2.3".parse().unwrap();
        assert_eq!(network.to_string(), "10.1.2.3/32");
    }
}
