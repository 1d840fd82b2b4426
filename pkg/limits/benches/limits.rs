//! What admission costs a request.

use criterion::{Criterion, criterion_group, criterion_main};
use signet_limits::{AddressKey, ClientIp, IpLimiter, Limiter, Quota};
use std::hint::black_box;

fn check(c: &mut Criterion) {
    let limiter =
        |rps, burst| IpLimiter::new(Quota::new(rps, burst).expect("a good quota"), IpLimiter::DEFAULT_MAX_KEYS);
    c.bench_function("check/hit", |b| {
        let (limiter, mut now) = (limiter(1_000_000, 1000), 0);
        b.iter(|| {
            now += 1_000;
            limiter.check(black_box(AddressKey::V4(7)), 1, now)
        });
    });
    c.bench_function("check/deny", |b| {
        let limiter = limiter(1, 1);
        limiter.check(AddressKey::V4(7), 1, 0);
        b.iter(|| limiter.check(black_box(AddressKey::V4(7)), 1, 5));
    });
    for (name, gap_ns) in [("check/flood_that_makes_room", 1_000), ("check/flood_into_overflow", 0)] {
        c.bench_function(name, |b| {
            let (limiter, mut number) = (limiter(50, 100), 0u64);
            b.iter(|| {
                number += 1;
                limiter.check(AddressKey::V6(number), 1, number * gap_ns)
            });
        });
    }
}

fn resolve(c: &mut Criterion) {
    let trusted = ["10.0.0.0/8".parse().expect("a block")];
    let peer = "10.0.0.1".parse().expect("an address");
    let line = b"203.0.113.9, 10.1.2.3".as_slice();
    c.bench_function("client_ip/two_hops", |b| b.iter(|| ClientIp::resolve(peer, [black_box(line)], [], &trusted)));
}

criterion_group!(benches, check, resolve);
criterion_main!(benches);
