//! Reading `X-Forwarded-For` and `Forwarded` (RFC 7239) from the right, the end that proxies write.
//!
//! Splitting starts at the right too: whatever a caller wrote further left, an open quote included, cannot change how the
//! part that a proxy appended is read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Elements of a list between `separator`s outside of quotes, from the right. Empty ones are left out (RFC 9110 §5.6.1).
pub(crate) struct FromRight<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> FromRight<'a> {
    pub(crate) const fn new(list: &'a [u8], separator: u8) -> Self {
        Self { rest: Some(list), separator }
    }
}

impl<'a> Iterator for FromRight<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let rest = self.rest?;
            let element = match last_separator(rest, self.separator) {
                Some(at) => {
                    self.rest = Some(&rest[..at]);
                    &rest[at + 1..]
                }
                None => self.rest.take()?,
            };
            let element = element.trim_ascii();
            if !element.is_empty() {
                return Some(element);
            }
        }
    }
}

fn last_separator(list: &[u8], separator: u8) -> Option<usize> {
    let mut quoted = false;
    (0..list.len()).rev().find(|&at| {
        let escapes = || list[..at].iter().rev().take_while(|&&byte| byte == b'\\').count();
        if list[at] == b'"' && escapes().is_multiple_of(2) {
            quoted = !quoted;
        }
        list[at] == separator && !quoted
    })
}

/// The address of one `X-Forwarded-For` element: `1.2.3.4`, `1.2.3.4:567`, `2001:db8::1`, `[2001:db8::1]:567`, an IPv6
/// zone allowed. IPv4-mapped addresses are given as IPv4.
pub(crate) fn address(element: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(element).ok()?.trim_ascii();
    let ip = if let Some(bracketed) = text.strip_prefix('[') {
        let (host, port) = bracketed.split_once(']')?;
        is_port_or_none(port).then(|| v6(host))??
    } else if text.matches(':').count() < 2 {
        let host = text.split(':').next()?;
        is_port_or_none(&text[host.len()..]).then(|| host.parse::<Ipv4Addr>().ok())??.into()
    } else {
        v6(text)?
    };
    Some(ip.to_canonical())
}

fn v6(host: &str) -> Option<IpAddr> {
    let host = host.split_once('%').map_or(host, |(host, _zone)| host);
    host.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

fn is_port_or_none(text: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok();
    text.is_empty() || text.strip_prefix(':').is_some_and(digits)
}

/// The address of one `Forwarded` element: its one `for` parameter. Names that hide the address (`unknown`, `_x`) are
/// none.
pub(crate) fn forwarded_address(element: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    for pair in FromRight::new(element, b';') {
        let at = pair.iter().position(|&byte| byte == b'=')?;
        if pair[..at].trim_ascii().eq_ignore_ascii_case(b"for") && found.replace(&pair[at + 1..]).is_some() {
            return None;
        }
    }
    let value = found?.trim_ascii();
    address(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
}
