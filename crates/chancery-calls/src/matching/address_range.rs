//! Ranges of addresses, in their canonical form (C-143, C-129).

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// All addresses that begin with the same bits, of one version of IP.
///
/// An IPv4 address within IPv6 counts as the IPv4 address that it is, here and where one is looked for: a
/// socket for both versions tells addresses in that form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressRange {
    network: IpAddr,
    bits: u8,
}

impl AddressRange {
    /// Makes a range of a prefix. More bits than an address has mean all, and bits beyond them are dropped.
    pub fn new(prefix: IpAddr, bits: u32) -> Self {
        match (prefix, prefix.to_canonical()) {
            // Bits of the part that all such addresses have in common say nothing about the IPv4 address.
            (IpAddr::V6(_), IpAddr::V4(inner)) if bits >= 96 => Self::of_v4(inner, bits - 96),
            (IpAddr::V6(prefix), _) => {
                let bits = bits.min(128);
                let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
                Self::of(Ipv6Addr::from_bits(prefix.to_bits() & mask).into(), bits)
            }
            (IpAddr::V4(prefix), _) => Self::of_v4(prefix, bits),
        }
    }

    /// The number of bits that all addresses of the range have in common.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Returns true if the address is in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differs = network.to_bits() ^ address.to_bits();
                differs.leading_zeros() >= self.bits.into()
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differs = network.to_bits() ^ address.to_bits();
                differs.leading_zeros() >= self.bits.into()
            }
            _ => false,
        }
    }

    fn of_v4(prefix: Ipv4Addr, bits: u32) -> Self {
        let bits = bits.min(32);
        let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
        Self::of(Ipv4Addr::from_bits(prefix.to_bits() & mask).into(), bits)
    }

    fn of(network: IpAddr, bits: u32) -> Self {
        Self { network, bits: u8::try_from(bits).unwrap_or(u8::MAX) }
    }
}

impl Display for AddressRange {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(prefix: &str, bits: u32) -> AddressRange {
        AddressRange::new(prefix.parse().unwrap(), bits)
    }

    #[test]
    fn ranges_have_one_form() {
        // C-143
        for (prefix, bits, canonical) in [
            ("10.1.2.3", 8, "10.0.0.0/8"),
            ("10.1.2.3", 0, "0.0.0.0/0"),
            ("10.1.2.3", 99, "10.1.2.3/32"),
            ("2001:db8::1", 32, "2001:db8::/32"),
            ("2001:db8::1", 0, "::/0"),
            ("2001:db8::1", 500, "2001:db8::1/128"),
            ("::ffff:10.1.2.3", 104, "10.0.0.0/8"),
            ("::ffff:10.1.2.3", 20, "::/20"),
        ] {
            assert_eq!(range(prefix, bits).to_string(), canonical);
        }
        assert_eq!(range("10.1.2.3", 8), range("10.9.9.9", 8));
        assert_ne!(range("0.0.0.0", 0), range("::", 0));
    }

    #[test]
    fn a_range_has_the_addresses_with_its_bits() {
        // C-143
        for (prefix, bits, address, contains) in [
            ("10.0.0.0", 8, "10.255.0.1", true),
            ("10.0.0.0", 8, "11.0.0.1", false),
            ("10.0.0.0", 8, "::ffff:10.0.0.1", true),
            ("0.0.0.0", 0, "255.1.2.3", true),
            ("0.0.0.0", 0, "::1", false),
            ("::", 0, "1.2.3.4", false),
            ("::", 0, "fe80::1", true),
            ("10.0.0.1", 32, "10.0.0.1", true),
            ("10.0.0.1", 32, "10.0.0.0", false),
            ("fe80::", 10, "febf::1", true),
            ("fe80::", 10, "fec0::1", false),
        ] {
            let found = range(prefix, bits).contains(address.parse().unwrap());
            assert_eq!(found, contains, "{prefix}/{bits} {address}");
        }
    }
}
