//! Hamming distances of sign codes: the loop of the coarse search.
//!
//! One body, compiled for several instruction sets: the compiler turns `count_ones` into what each of them has. The set is
//! chosen when the program runs; all compute the same integers.

/// Rows that are looked at together: where none of them is near, they cost one comparison.
const BLOCK: usize = 32;

/// Appends the distance and the number of every code that is within `limit` bits of `query`. Codes are as long as `query`
/// and numbered from `first`.
pub(crate) fn within(codes: &[u64], query: &[u64], limit: u16, first: u32, found: &mut Vec<(u16, u32)>) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512vpopcntdq")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
    {
        #[expect(unsafe_code, reason = "a function that needs AVX-512 is unsafe to call from one that does not")]
        // SAFETY: the processor has just been found to have what the function enables.
        unsafe {
            x86::within_avx512(codes, query, limit, first, found);
        }
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
        #[expect(unsafe_code, reason = "a function that needs AVX2 is unsafe to call from one that does not")]
        // SAFETY: the processor has just been found to have what the function enables.
        unsafe {
            x86::within_avx2(codes, query, limit, first, found);
        }
        return;
    }
    portable(codes, query, limit, first, found);
}

#[expect(clippy::inline_always, reason = "it is compiled again inside each function that enables instructions")]
#[inline(always)]
fn portable(codes: &[u64], query: &[u64], limit: u16, first: u32, found: &mut Vec<(u16, u32)>) {
    match query.len() {
        4 => rows::<4>(codes, query, limit, first, found), // 256 dimensions
        8 => rows::<8>(codes, query, limit, first, found),
        _ => {
            for (row, at) in codes.chunks_exact(query.len()).zip(first..) {
                let distance = distance(row, query);
                if distance <= limit {
                    found.push((distance, at));
                }
            }
        }
    }
}

#[expect(clippy::inline_always, reason = "as for `portable`")]
#[inline(always)]
fn rows<const WORDS: usize>(codes: &[u64], query: &[u64], limit: u16, first: u32, found: &mut Vec<(u16, u32)>) {
    let query: &[u64; WORDS] = query.try_into().expect("the caller matched the length");
    let (codes, _) = codes.as_chunks::<WORDS>();
    for (block, at) in codes.chunks(BLOCK).zip((first..).step_by(BLOCK)) {
        let mut distances = [u16::MAX; BLOCK];
        for (out, row) in distances.iter_mut().zip(block) {
            *out = distance(row, query);
        }
        if distances.iter().fold(u16::MAX, |least, &d| least.min(d)) <= limit {
            let near = distances.iter().zip(at..).filter(|&(&distance, _)| distance <= limit);
            found.extend(near.take(block.len()).map(|(&distance, at)| (distance, at)));
        }
    }
}

#[expect(clippy::inline_always, reason = "as for `portable`")]
#[inline(always)]
fn distance(row: &[u64], query: &[u64]) -> u16 {
    let bits: u32 = row.iter().zip(query).map(|(row, query)| (row ^ query).count_ones()).sum();
    u16::try_from(bits).expect("a code has at most 16,384 bits")
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    /// As [`super::portable`].
    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn within_avx2(codes: &[u64], query: &[u64], limit: u16, first: u32, found: &mut Vec<(u16, u32)>) {
        super::portable(codes, query, limit, first, found);
    }

    /// As [`super::portable`].
    #[target_feature(enable = "avx512vpopcntdq,avx512bw,avx512vl,avx2,popcnt")]
    pub(super) fn within_avx512(codes: &[u64], query: &[u64], limit: u16, first: u32, found: &mut Vec<(u16, u32)>) {
        super::portable(codes, query, limit, first, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Within = fn(&[u64], &[u64], u16, u32, &mut Vec<(u16, u32)>);

    /// Every version that this processor can run.
    fn versions() -> Vec<Within> {
        let mut versions: Vec<Within> = vec![within, portable];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
            #[expect(unsafe_code, reason = "as in `within`")]
            // SAFETY: the processor has just been found to have what the function enables.
            versions.push(|codes, query, limit, first, found| unsafe {
                x86::within_avx2(codes, query, limit, first, found);
            });
        }
        versions
    }

    fn counted(codes: &[u64], query: &[u64], limit: u16, first: u32) -> Vec<(u16, u32)> {
        let differ = |row: &[u64], i: usize| ((row[i / 64] ^ query[i / 64]) >> (i % 64)) & 1 == 1;
        let count = |row: &[u64]| (0..row.len() * 64).filter(|&i| differ(row, i)).count();
        let counts = codes.chunks(query.len()).map(|row| u16::try_from(count(row)).expect("small"));
        counts.zip(first..).filter(|&(distance, _)| distance <= limit).collect()
    }

    proptest! {
        #[test]
        fn every_version_finds_what_counting_bit_by_bit_finds(
            query in prop_oneof![Just(4), Just(8), 1usize..10].prop_flat_map(|words| prop::collection::vec(any::<u64>(), words)),
            count in 0usize..110,
            noise in prop::collection::vec(any::<u64>(), 37),
            limit in 0u16..400,
            skip in 0usize..5,
        ) {
            // Rows from quite near to far: each word differs by what up to four noise words have in common.
            let far = |i: usize| (0..=i % 4).fold(u64::MAX, |bits, k| bits & noise[(i * 5 + k * 7) % noise.len()]);
            let codes: Vec<u64> = (0..skip + count * query.len()).map(|i| query[i % query.len()] ^ far(i)).collect();
            let codes = &codes[skip..]; // every alignment that words can have
            let least = counted(codes, &query, u16::MAX, 0).iter().map(|&(distance, _)| distance).min();
            for limit in least.into_iter().chain([limit]) {
                let expected = counted(codes, &query, limit, 7);
                for version in versions() {
                    let mut found = vec![(0, 0)];
                    version(codes, &query, limit, 7, &mut found);
                    prop_assert_eq!(found.split_first(), Some((&(0, 0), &expected[..])), "appended");
                }
            }
        }
    }

    #[test]
    fn the_bits_of_the_largest_code_are_all_counted() {
        let mut found = Vec::new();
        within(&[u64::MAX; 256], &[0; 256], 16_384, 0, &mut found);
        assert_eq!(found, [(16_384, 0)]);
    }
}
