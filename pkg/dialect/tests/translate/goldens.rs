//! What is said is what the goldens say, and wherever the bytes were cut.

use super::{DEFAULTS, PAIRS, WANTED, ask, golden, goldens, stream, value};
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value;
use signet_dialect::{translate_error, translate_request, translate_whole};

#[test]
fn requests_are_said_as_the_goldens_say() {
    for (pair, from, to) in PAIRS {
        for name in goldens(pair, ".request.in.json") {
            let said = ask(from, to, &value(&golden(pair, &name))).unwrap_or_else(|e| panic!("{pair}/{name}: {e}"));
            let out = name.replace(".in.", ".out.");
            assert_eq!(said, value(&golden(pair, &out)), "{pair}/{name}");
        }
    }
}

/// The answers in the folder of a pair are those of its provider's API.
#[test]
fn whole_answers_are_said_as_the_goldens_say() {
    for (pair, from, to) in PAIRS {
        for name in goldens(pair, ".answer.in.json") {
            let said = translate_whole(to, from, WANTED, &golden(pair, &name).into());
            let said: Value =
                serde_json::from_slice(&said.unwrap_or_else(|e| panic!("{pair}/{name}: {e}"))).expect("JSON");
            let out = name.replace(".in.", ".out.");
            assert_eq!(said, value(&golden(pair, &out)), "{pair}/{name}");
        }
    }
}

#[test]
fn streams_are_said_as_the_goldens_say() {
    for (pair, from, to) in PAIRS {
        for name in goldens(pair, ".stream.in.txt") {
            let said = stream(to, from, WANTED, &[golden(pair, &name).as_bytes()]);
            let said = said.unwrap_or_else(|e| panic!("{pair}/{name}: {e}"));
            assert_eq!(said, golden(pair, &name.replace(".in.", ".out.")), "{pair}/{name}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_translated_stream_does_not_depend_on_where_the_bytes_were_cut(cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..9)) {
        for (pair, from, to) in PAIRS {
            for name in goldens(pair, ".stream.in.txt") {
                let whole = golden(pair, &name);
                let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(whole.len())).chain([0, whole.len()]).collect();
                at.sort_unstable();
                let pieces: Vec<&[u8]> = at.windows(2).map(|cut| &whole.as_bytes()[cut[0]..cut[1]]).collect();
                let said = stream(to, from, WANTED, &pieces).expect("a stream");
                prop_assert_eq!(said, golden(pair, &name.replace(".in.", ".out.")));
            }
        }
    }

    #[test]
    fn nothing_that_comes_in_panics(noise in ".{0,80}", at in any::<prop::sample::Index>(), len in 0usize..9) {
        for (pair, from, to) in PAIRS {
            for name in goldens(pair, ".in.json").into_iter().chain(goldens(pair, ".in.txt")) {
                let mut text = golden(pair, &name);
                let mut start = at.index(text.len());
                while !text.is_char_boundary(start) {
                    start -= 1;
                }
                let end = text.ceil_char_boundary((start + len).min(text.len()));
                text.replace_range(start..end, &noise);
                let body = Bytes::from(text);
                let _ = translate_request(from, to, &body, &DEFAULTS);
                let _ = translate_whole(to, from, WANTED, &body);
                let _ = stream(to, from, WANTED, &[&body]);
                let _ = translate_error(to, from, 500, &body);
            }
        }
    }
}
