//! The limiter as a whole: threads, floods, memory.

use super::*;
use std::sync::atomic::AtomicUsize;

fn limiter(rps: u32, burst: u32, max_keys: usize) -> IpLimiter {
    IpLimiter::new(Quota::new(rps, burst).expect("a good quota"), max_keys)
}

fn allows(limiter: &IpLimiter, key: AddressKey, now_ns: u64) -> bool {
    matches!(limiter.check(key, 1, now_ns), Decision::Allow { .. })
}

#[test]
fn simultaneous_checks_admit_exactly_the_burst() {
    let (limiter, admitted) = (limiter(1, 1000, 1024), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..500 {
                    admitted.fetch_add(usize::from(allows(&limiter, AddressKey::V4(7), 42)), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 1000);
}

#[test]
fn addresses_do_not_share_a_quota() {
    let limiter = limiter(1, 1, 1024);
    assert!(allows(&limiter, AddressKey::V4(1), 0));
    assert!(!allows(&limiter, AddressKey::V4(1), 0));
    assert!(allows(&limiter, AddressKey::V4(2), 0));
    assert!(allows(&limiter, AddressKey::V6(1), 0));
}

#[test]
fn a_flood_of_addresses_neither_grows_memory_nor_frees_a_caller_from_its_limit() {
    let limiter = limiter(1, 2, 1024);
    let honest = AddressKey::V4(u32::MAX);
    assert!(allows(&limiter, honest, 0) && allows(&limiter, honest, 0) && !allows(&limiter, honest, 0));
    for number in 0..300_000u64 {
        limiter.check(AddressKey::V6(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)), 1, number);
        assert!(number % 1000 != 0 || limiter.tracked() <= 1024);
    }
    assert!(limiter.overflowed() > 0);
    assert_eq!(limiter.tracked(), 1024, "all slots are taken by live addresses");
    assert!(!allows(&limiter, honest, 300_000), "its charge is not forgotten");
    let later = 3_000_000_000;
    assert!(allows(&limiter, honest, later));
    assert!(allows(&limiter, AddressKey::V4(1), later), "after the flood there is room again");
}

#[test]
fn a_slow_flood_of_new_addresses_is_never_refused_as_old_ones_make_room() {
    // One unit lasts 1 ms; a new address each 10 us keeps about a hundred alive, far fewer than fit.
    let limiter = limiter(1000, 1, 64 * 64);
    for number in 0..300_000u32 {
        assert!(allows(&limiter, AddressKey::V4(number), u64::from(number) * 10_000), "{number}");
    }
    assert_eq!(limiter.overflowed(), 0);
}
