//! Whose address counts, and that nobody else can choose it.

use super::*;
use proptest::prelude::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn trusted() -> Vec<IpNet> {
    ["10.0.0.0/8", "fd00::/8"].iter().map(|net| net.parse().expect("a block")).collect()
}

/// Resolves with these lines of `X-Forwarded-For`.
fn xff(peer: &str, lines: &[&str]) -> ClientIp {
    ClientIp::resolve(ip(peer), lines.iter().map(|line| line.as_bytes()), [], &trusted())
}

/// Resolves with these lines of `Forwarded`.
fn forwarded(peer: &str, lines: &[&str]) -> ClientIp {
    ClientIp::resolve(ip(peer), [], lines.iter().map(|line| line.as_bytes()), &trusted())
}

#[test]
fn headers_of_a_peer_that_is_not_trusted_are_ignored_and_reported() {
    let client = xff("203.0.113.9", &["1.2.3.4"]);
    assert_eq!(client, ClientIp { ip: ip("203.0.113.9"), forwarded: false, untrusted_xff: true });
    assert!(forwarded("203.0.113.9", &["for=1.2.3.4"]).untrusted_xff);
    assert!(!xff("203.0.113.9", &[]).untrusted_xff);
}

#[test]
fn the_first_untrusted_hop_from_the_right_is_the_caller() {
    let client = xff("10.0.0.1", &["6.6.6.6, 203.0.113.9, 10.0.0.2"]);
    assert_eq!(client, ClientIp { ip: ip("203.0.113.9"), forwarded: true, untrusted_xff: false });
}

#[test]
fn a_caller_that_rotates_forged_addresses_stays_in_its_bucket() {
    let real = xff("10.0.0.1", &["203.0.113.9"]).key();
    for n in 0..256 {
        assert_eq!(xff("10.0.0.1", &[&format!("1.2.3.{n}, 203.0.113.9")]).key(), real);
        assert_eq!(xff("10.0.0.1", &[&format!("1.2.3.{n}"), "203.0.113.9"]).key(), real);
        assert_eq!(xff("203.0.113.9", &[&format!("1.2.3.{n}")]).key(), real);
    }
}

#[test]
fn a_hop_that_cannot_be_read_ends_the_walk_at_the_last_trusted_one() {
    for junk in ["unknown", "1.2.3", "1.2.3.4:99999", "1.2.3.4:", "[1.2.3.4]", "[::1", "::1]", "\u{fffd}", "01.2.3.4"] {
        assert_eq!(xff("10.0.0.1", &[&format!("1.1.1.1, {junk}, 10.0.0.2")]).ip, ip("10.0.0.2"), "{junk}");
        assert_eq!(xff("10.0.0.1", &[junk]).ip, ip("10.0.0.1"), "{junk}");
    }
}

#[test]
fn a_list_of_trusted_hops_only_gives_the_first_of_them() {
    assert_eq!(xff("10.0.0.1", &["10.0.0.3, 10.0.0.2"]).ip, ip("10.0.0.3"));
}

#[test]
fn all_spellings_of_an_address_have_one_key() {
    let spellings = [
        "203.0.113.9",
        "203.0.113.9:567",
        "::ffff:203.0.113.9",
        "[::ffff:203.0.113.9]:1",
        "::ffff:cb00:7109",
        "0:0:0:0:0:ffff:cb00:7109",
        " 203.0.113.9\t",
    ];
    for spelling in spellings {
        assert_eq!(xff("10.0.0.1", &[spelling]).key(), AddressKey::V4(0xcb00_7109), "{spelling}");
        assert_eq!(xff("::ffff:10.0.0.1", &[spelling]).key(), AddressKey::V4(0xcb00_7109), "{spelling}");
    }
    let spellings = ["2001:db8::1", "[2001:DB8::1]", "[2001:db8::1]:567", "2001:db8:0::1%eth0", "2001:db8:0:0:ffff::9"];
    for spelling in spellings {
        assert_eq!(xff("10.0.0.1", &[spelling]).key(), AddressKey::V6(0x2001_0db8_0000_0000), "{spelling}");
    }
}

#[test]
fn addresses_that_differ_above_the_prefix_have_different_keys() {
    assert_ne!(AddressKey::from(ip("2001:db8:0:1::1")), AddressKey::from(ip("2001:db8:0:2::1")));
    assert_ne!(AddressKey::from(ip("::ffff:1.2.3.4")), AddressKey::from(ip("::ffff:1.2.3.5")));
    assert_ne!(AddressKey::from(ip("::1")), AddressKey::from(ip("0.0.0.1")));
}

#[test]
fn the_standard_header_is_read_in_all_its_forms() {
    let forms = [
        "for=203.0.113.9",
        "For=\"203.0.113.9:8080\"",
        "by=10.0.0.1;for=203.0.113.9;proto=https",
        "for=6.6.6.6, for=203.0.113.9",
        "for=\"6.6.6.6, for=203.0.113.9",
        "for=6.6.6.6;ext=\"a,b\\\"\", for=203.0.113.9",
        "for=203.0.113.9, for=\"[fd00::2]:90\";ext=\"a,b;c\"",
    ];
    for form in forms {
        assert_eq!(forwarded("10.0.0.1", &[form]).ip, ip("203.0.113.9"), "{form}");
    }
    assert_eq!(forwarded("10.0.0.1", &["for=\"[2001:db8::7]:4711\""]).ip, ip("2001:db8::7"));
    for hidden in ["for=unknown", "for=_secret", "proto=https", "for=1.1.1.1;for=2.2.2.2", "for", "for=\"1.1.1.1"] {
        assert_eq!(forwarded("10.0.0.1", &[hidden]).ip, ip("10.0.0.1"), "{hidden}");
    }
}

#[test]
fn where_both_headers_disagree_neither_is_believed() {
    let both = |legacy: &str, standard: &str| {
        ClientIp::resolve(ip("10.0.0.1"), [legacy.as_bytes()], [standard.as_bytes()], &trusted()).ip
    };
    assert_eq!(both("203.0.113.9", "for=203.0.113.9"), ip("203.0.113.9"));
    assert_eq!(both("203.0.113.9", "for=6.6.6.6"), ip("10.0.0.1"));
    assert_eq!(both("6.6.6.6", "for=203.0.113.9"), ip("10.0.0.1"));
}

#[test]
fn blocks_written_as_mapped_addresses_trust_the_ipv4_ones_and_the_ipv6_world_does_not() {
    let resolve = |block: &str| {
        let trusted = [block.parse().expect("a block")];
        ClientIp::resolve(ip("10.0.0.1"), [b"203.0.113.9".as_slice()], [], &trusted).ip
    };
    assert_eq!(resolve("::ffff:10.0.0.0/104"), ip("203.0.113.9"));
    assert_eq!(resolve("::/0"), ip("10.0.0.1"));
}

fn any_line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..60),
        "[0-9a-f:.,\"\\\\;=\\[\\] %]{0,60}".prop_map(String::into_bytes),
        "((for=)?(10\\.0\\.0\\.[0-9]|\"?\\[?fd00::[0-9]\\]?\"?|[0-9.]{7})[,;] ?){0,6}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn no_header_makes_it_panic_and_the_peer_bounds_what_is_believed(
        legacy in prop::collection::vec(any_line(), 0..3),
        standard in prop::collection::vec(any_line(), 0..3),
        peer in any::<u32>(),
    ) {
        let peer = IpAddr::V4(peer.into());
        let (legacy, standard) = (legacy.iter().map(Vec::as_slice), standard.iter().map(Vec::as_slice));
        let client = ClientIp::resolve(peer, legacy, standard, &trusted());
        if !is_trusted(peer, &trusted()) {
            prop_assert_eq!(client.ip, peer);
        }
    }

    #[test]
    fn nothing_a_caller_writes_changes_its_key(prefix in any_line(), real in any::<u32>(), own_line in any::<bool>()) {
        let real = std::net::Ipv4Addr::from(real);
        prop_assume!(!is_trusted(real.into(), &trusted()));
        for (element, standard) in [(real.to_string(), false), (format!("for=\"{real}:80\""), true)] {
            let appended = [prefix.as_slice(), b", ", element.as_bytes()].concat();
            let lines: Vec<&[u8]> = if own_line { vec![&prefix, element.as_bytes()] } else { vec![&appended] };
            let (legacy, forwarded) = if standard { (vec![], lines) } else { (lines, vec![]) };
            let client = ClientIp::resolve(ip("10.0.0.1"), legacy, forwarded, &trusted());
            prop_assert_eq!(client.key(), AddressKey::V4(real.to_bits()));
        }
    }
}
