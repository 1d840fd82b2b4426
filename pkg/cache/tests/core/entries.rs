//! The encoding of an entry.

use crate::fixture::{NOW, entry, partition};
use proptest::prelude::*;
use signet_cache::{CacheKey, Entry, Origin, Source, Stored};
use signet_openai::Answer;
use signet_types::{EntryId, LineageId, LogId};

fn answer(text: &str) -> Answer {
    let body = serde_json::json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    });
    Answer::from_json(body.to_string().as_bytes(), 1).expect("an answer")
}

fn body() -> impl Strategy<Value = Stored> {
    prop_oneof![
        any::<String>().prop_map(|text| Stored::Chat(answer(&text))),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(|bytes| Stored::Json(bytes.into())),
    ]
}

fn sources() -> impl Strategy<Value = Source> {
    let ids = (any::<[u8; 16]>(), any::<[u8; 16]>());
    (ids, any::<u32>(), any::<u64>(), any::<[u8; 32]>(), any::<[u8; 16]>(), any::<u32>()).prop_map(
        |((id, log), epoch, seq, leaf_hash, response_fp, key_epoch)| Source {
            id: LineageId::from_bytes(id),
            log: LogId::from_bytes(log),
            epoch,
            seq,
            leaf_hash,
            response_fp,
            key_epoch,
        },
    )
}

fn entries() -> impl Strategy<Value = Entry> {
    let times = (any::<u64>(), any::<u64>());
    let origin = (any::<String>(), any::<String>());
    let origin = origin.prop_map(|(model, namespace)| Origin { model: model.into(), namespace: namespace.into() });
    (any::<[u8; 16]>(), any::<[u8; 32]>(), body(), any::<Option<String>>(), times, sources(), origin).prop_map(
        |(id, key, body, question, (created_ms, expires_ms), source, origin)| Entry {
            id: EntryId::from_bytes(id),
            key: CacheKey::from_bytes(key),
            partition: partition(1, ""),
            body,
            question,
            created_ms,
            expires_ms,
            source,
            origin,
        },
    )
}

fn decode(like: &Entry, bytes: &[u8]) -> Option<Entry> {
    Entry::decode(like.key, like.partition, bytes).ok()
}

fn same_body(one: &Stored, other: &Stored) -> bool {
    match (one, other) {
        (Stored::Chat(one), Stored::Chat(other)) => one.encode() == other.encode() && one == other,
        (Stored::Json(one), Stored::Json(other)) => one == other,
        _ => false,
    }
}

proptest! {
    #[test]
    fn an_entry_comes_back_as_it_was(held in entries()) {
        let back = decode(&held, &held.encode()).expect("it was just encoded");
        prop_assert_eq!((back.id, back.key, back.partition), (held.id, held.key, held.partition));
        prop_assert_eq!((back.created_ms, back.expires_ms, back.source), (held.created_ms, held.expires_ms, held.source));
        prop_assert_eq!(&back.question, &held.question);
        prop_assert!(same_body(&back.body, &held.body));
        prop_assert_eq!(back.weight(), held.weight());
    }

    /// So no two byte strings are the same entry, and a change is either noticed or says something else.
    #[test]
    fn only_what_an_entry_encodes_to_is_read_as_that_entry(held in entries(), at: prop::sample::Index, flip in 1..=255_u8) {
        let mut bytes = held.encode();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Some(back) = decode(&held, &bytes) {
            prop_assert_eq!(back.encode(), bytes, "byte {} was read and not kept", at);
        }
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let like = entry(partition(1, ""), "a");
        if let Some(back) = decode(&like, &bytes) {
            prop_assert_eq!(back.encode(), bytes);
        }
    }
}

#[test]
fn every_cut_and_every_flipped_bit_is_an_error_or_another_entry() {
    let mut held = entry(partition(1, ""), "How do I poach an egg?");
    for (question, body) in
        [(None, Stored::Json("[]".into())), (held.question.clone(), Stored::Chat(answer("Gently.")))]
    {
        (held.question, held.body) = (question, body);
        let bytes = held.encode();
        for len in 0..bytes.len() {
            assert!(decode(&held, &bytes[..len]).is_none(), "cut at {len}");
        }
        for (at, bit) in (0..bytes.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut bad = bytes.clone();
            bad[at] ^= 1 << bit;
            if let Some(back) = decode(&held, &bad) {
                assert_eq!(back.encode(), bad, "bit {bit} of byte {at} was read and not kept");
            }
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(decode(&held, &longer).is_none(), "trailing bytes");
    }
}

#[test]
fn another_version_or_kind_is_refused_and_the_fault_says_so() {
    let held = entry(partition(1, ""), "a");
    for (at, version) in [(0, "version"), (1, "kind")] {
        let mut bytes = held.encode();
        bytes[at] += 7;
        let fault = Entry::decode(held.key, held.partition, &bytes).expect_err("not this version");
        assert_eq!(fault.to_string(), format!("not a cache entry of version 2: {version}"));
    }
}

#[test]
fn the_encoding_of_version_2_does_not_change() {
    let mut held = entry(partition(1, ""), "ab");
    held.id = EntryId::from_bytes([1; 16]);
    held.body = Stored::Json("[]".into());
    let expected = [
        &[2, 1][..],
        &[1; 16],
        &NOW.to_be_bytes(),
        &(NOW + 3_600_000).to_be_bytes(),
        &[3; 16],
        &[4; 16],
        &[0, 0, 0, 5],
        &[0, 0, 0, 0, 0, 0, 0, 6],
        &[7; 32],
        &[8; 16],
        &[0, 0, 0, 9],
        b"\0\0\0\x01m",
        b"\0\0\0\0",
        &[1],
        b"\0\0\0\x02ab",
        b"\0\0\0\x02[]",
    ]
    .concat();
    assert_eq!(held.encode(), expected);
}

#[test]
fn an_entry_weighs_at_least_its_texts() {
    let mut held = entry(partition(1, ""), "a");
    let light = held.weight();
    held.question = Some("b".repeat(1_000));
    held.body = Stored::Json(vec![b'1'; 10_000].into());
    assert!(held.weight() >= light + 10_900);
    held.body = Stored::Chat(answer(&"x".repeat(10_000)));
    assert!(held.weight() >= light + 10_900);
}
