//! What a limit is kept for.

use std::net::IpAddr;

/// The address block that one caller is taken to hold: an IPv4 address, or the /64 of an IPv6 address, within which a
/// caller may pick addresses at will.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AddressKey {
    /// An IPv4 address, also one that was written as an IPv4-mapped IPv6 address.
    V4(u32),
    /// The upper 64 bits of an IPv6 address.
    V6(u64),
}

impl From<IpAddr> for AddressKey {
    fn from(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self::V4(ip.to_bits()),
            IpAddr::V6(ip) => Self::V6((ip.to_bits() >> 64) as u64),
        }
    }
}
