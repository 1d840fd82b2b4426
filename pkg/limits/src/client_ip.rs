//! Who is calling: the TCP peer, unless that is a proxy which is trusted to say.

use crate::address::AddressKey;
use crate::hops::{FromRight, address, forwarded_address};
use ipnet::IpNet;
use std::net::IpAddr;

/// The caller's address and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientIp {
    /// The address; an IPv4-mapped IPv6 address is given as IPv4.
    pub ip: IpAddr,
    /// A trusted proxy named it.
    pub forwarded: bool,
    /// A peer that is not trusted sent forwarding headers. They were ignored; the operator should know, as it is either
    /// an attempt to forge or a proxy missing from `trusted_proxies`.
    pub untrusted_xff: bool,
}

impl ClientIp {
    /// Resolves the caller behind `peer`. `x_forwarded_for` and `forwarded` are the values of all lines of these headers,
    /// in the order of the message.
    ///
    /// Headers count only if `peer` is in `trusted`. Then the hops are walked from the right, as each proxy appends the
    /// address it saw: the first that is not trusted is the caller. A hop that cannot be read ends the walk at the last
    /// trusted one, and so does the end of the list. Where both headers are there and disagree, one of them was passed
    /// through from the caller and neither is believed: the caller is `peer`.
    pub fn resolve<'a>(
        peer: IpAddr,
        x_forwarded_for: impl IntoIterator<Item = &'a [u8]>,
        forwarded: impl IntoIterator<Item = &'a [u8]>,
        trusted: &[IpNet],
    ) -> Self {
        let peer = peer.to_canonical();
        let legacy: Vec<&[u8]> = x_forwarded_for.into_iter().collect();
        let standard: Vec<&[u8]> = forwarded.into_iter().collect();
        let any = !legacy.is_empty() || !standard.is_empty();
        if !is_trusted(peer, trusted) {
            return Self { ip: peer, forwarded: false, untrusted_xff: any };
        }
        let legacy = (!legacy.is_empty()).then(|| walk(peer, &legacy, address, trusted));
        let standard = (!standard.is_empty()).then(|| walk(peer, &standard, forwarded_address, trusted));
        let ip = match (legacy, standard) {
            (Some(one), Some(other)) if one != other => peer,
            (one, other) => one.or(other).unwrap_or(peer),
        };
        Self { ip, forwarded: ip != peer, untrusted_xff: false }
    }

    /// What a limit is kept for.
    pub fn key(&self) -> AddressKey {
        self.ip.into()
    }
}

fn walk(peer: IpAddr, lines: &[&[u8]], read: impl Fn(&[u8]) -> Option<IpAddr>, trusted: &[IpNet]) -> IpAddr {
    let mut last = peer;
    for hop in lines.iter().rev().flat_map(|line| FromRight::new(line, b',')) {
        let Some(ip) = read(hop) else { return last };
        last = ip;
        if !is_trusted(ip, trusted) {
            break;
        }
    }
    last
}

fn is_trusted(ip: IpAddr, trusted: &[IpNet]) -> bool {
    trusted.iter().any(|net| match (ip, net) {
        // A block of IPv4-mapped addresses means the IPv4 addresses; `::/0` does not.
        (IpAddr::V4(ip), IpNet::V6(net)) => net.prefix_len() >= 96 && net.contains(&ip.to_ipv6_mapped()),
        _ => net.contains(&ip),
    })
}

#[cfg(test)]
#[path = "client_ip_tests.rs"]
mod tests;
