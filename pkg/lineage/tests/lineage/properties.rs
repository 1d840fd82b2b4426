//! What holds for any input.

use crate::sample::{ALICE, Writer, verify};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use signet_lineage::{
    CacheFacts, Caller, Columns, ControlValue, Draft, Forwarded, KeySet, Kind, OpenFacts, OpenFault, Opening,
    PAYLOAD_TYPE, Receipt, Record, RequestFacts, Signer, TenantKey, Tree, TreeHead, root_of,
};
use signet_types::{LineageId, LogId, TenantId};

/// RFC 6962 §2.1, word for word.
fn by_definition(leaves: &[[u8; 32]]) -> [u8; 32] {
    match leaves {
        [] => Sha256::digest([]).into(),
        [one] => *one,
        many => {
            let split = many.len().next_power_of_two() / 2;
            let (left, right) = (by_definition(&many[..split]), by_definition(&many[split..]));
            Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
        }
    }
}

fn leaf_hash(leaf: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update([0]).chain_update(leaf).finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

#[test]
fn the_tree_has_the_roots_that_certificate_transparency_publishes() {
    let leaves: [&[u8]; 8] = [
        b"",
        b"\x00",
        b"\x10",
        b"\x20\x21",
        b"\x30\x31",
        b"\x40\x41\x42\x43",
        b"\x50\x51\x52\x53\x54\x55\x56\x57",
        b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
    ];
    let roots = [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ];
    let mut tree = Tree::new();
    assert_eq!(hex(&tree.root()), roots[0]);
    for (leaf, root) in leaves.iter().zip(&roots[1..]) {
        tree.push(leaf_hash(leaf));
        assert_eq!(hex(&tree.root()), *root, "size {}", tree.size());
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        proptest::collection::vec(
            prop_oneof![
                Just('"'),
                Just('\\'),
                Just('/'),
                Just('\u{7f}'),
                Just('\u{2028}'),
                any::<char>(),
                proptest::char::range('\0', ' ')
            ],
            0..12
        )
        .prop_map(String::from_iter),
    ]
}

fn any_words() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec!["miss", "hit_exact", "none", "other", "chat", "open", "/v1/models"])
}

prop_compose! {
    fn any_cache()(
        decision in any_words(), tier in proptest::option::of(any_words()), encoder in proptest::option::of(any_text()),
        (key_fp, score_e6, floor_e6, age_ms, ttl_ms, sources) in any::<(Option<[u8; 16]>, Option<u64>, Option<u64>, Option<u64>, Option<u64>, Option<u64>)>(),
        refused_by in proptest::option::of(any_words()), ineligible in proptest::option::of(any_words()),
    ) -> CacheFacts {
        CacheFacts { decision, key_fp, tier, score_e6, floor_e6, refused_by, ineligible, encoder, age_ms, ttl_ms, sources }
    }
}

prop_compose! {
    fn any_request()(
        cm in any::<[u8; 32]>(), bytes in any::<u64>(), fp in any::<Option<[u8; 16]>>(), op in any_words(),
        forwarded in any::<Option<([u8; 32], u64, bool)>>(),
    ) -> RequestFacts {
        let forwarded = forwarded.map(|(cm, bytes, changed)| Forwarded { cm, bytes, changed });
        RequestFacts { cm, bytes, fp, op, forwarded }
    }
}

prop_compose! {
    fn any_opened()(
        id in any::<[u8; 16]>(), received_ms in any::<u64>(), trace_id in proptest::option::of(any_text()),
        (tenant, key_epoch, wrapped_key) in any::<([u8; 16], u32, Option<Vec<u8>>)>(),
        (auth, route, cache) in (any_words(), any_words(), any_words()),
        stream in any::<bool>(), request in any_request(), asked in any_text(),
    ) -> OpenFacts {
        let caller = Caller { tenant: TenantId::from_bytes(tenant), auth, key_epoch, wrapped_key };
        OpenFacts { id: LineageId::from_bytes(id), received_ms, trace_id, caller, route, stream, request, asked, cache }
    }
}

prop_compose! {
    fn any_draft()(
        texts in proptest::collection::vec(any_text(), 8), numbers in proptest::collection::vec(any::<u64>(), 8),
        cache in any_cache(), request in any_request(), wrapped_key in any::<Option<Vec<u8>>>(), some in any::<[bool; 6]>(),
    ) -> Draft {
        let mut draft = Writer::open(1, "spool").request(ALICE);
        let e = draft.exchange.as_mut().expect("a request");
        let text = |at: usize| texts[at].clone();
        (e.cache, e.request, e.caller.wrapped_key) = (cache, request, wrapped_key);
        (e.model.asked, e.model.served, e.response.finish) = (text(0), some[0].then(|| text(1)), some[1].then(|| text(2)));
        (e.response.bytes, e.response.chunks) = (numbers[0], numbers[1]);
        if some[2] { e.provider = None } else if let Some(p) = &mut e.provider {
            (p.name, p.endpoint, p.attempts[0].model, p.attempts[0].ms) = (text(3), text(4), text(5), numbers[2]);
            p.attempts[0].provider = text(3);
            e.model.routed = Some(text(5));
            let again = p.attempts[0].clone();
            p.attempts[0].status = 0;
            p.attempts.push(again);
        }
        e.limit.retry_after_ms = some[3].then_some(numbers[3]);
        if some[4] { e.usage = None }
        draft.trace_id = some[5].then(|| text(6));
        draft.time.total_us = numbers[4];
        draft.time.completed_ms = numbers[5];
        draft
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_written_is_canonical_to_a_reader_that_shares_no_code(draft in any_draft()) {
        let mut log = Writer::open(1, "spool");
        let record = log.append(&draft);
        let report = verify(&log.keys(), &log.records);
        prop_assert_eq!(report.exit_code(), 0, "{} {}", report, String::from_utf8_lossy(&record.payload));
        let parsed: serde_json::Value = serde_json::from_slice(&record.payload).expect("JSON");
        let asked = &draft.exchange.as_ref().expect("a request").model.asked;
        prop_assert_eq!(parsed["predicate"]["model"]["asked"].as_str(), Some(asked.as_str()));
        prop_assert_eq!(Record::from_envelope_json(&record.to_envelope_json()).expect("an envelope"), record);
    }

    #[test]
    fn control_facts_are_written_in_order_whatever_their_order(mut facts in Just(vec![
        ("zebra", ControlValue::Int(1)), ("alpha", ControlValue::Bool(true)), ("mid", ControlValue::Text("x".to_owned())),
    ]).prop_shuffle(), text in any_text()) {
        facts.push(("note", ControlValue::Text(text)));
        let mut log = Writer::open(1, "spool");
        let draft = Draft::control(Kind::Clock, &log.stamp(), facts);
        log.append(&draft);
        let report = verify(&log.keys(), &log.records);
        prop_assert_eq!(report.exit_code(), 0, "{}", report);
    }

    #[test]
    fn the_signature_covers_type_and_lengths(draft in any_draft()) {
        let mut log = Writer::open(1, "spool");
        let record = log.append(&draft);
        let head = format!("DSSEv1 {} {} {} ", PAYLOAD_TYPE.len(), PAYLOAD_TYPE, record.payload.len());
        let message = [head.as_bytes(), &record.payload].concat();
        prop_assert_eq!(record.sig, log.signer.sign(&message));
    }

    #[test]
    fn the_frontier_has_the_root_of_the_definition_and_can_be_taken_up(leaves in proptest::collection::vec(any::<[u8; 32]>(), 0..200), cut in any::<proptest::sample::Index>()) {
        let at = cut.index(leaves.len() + 1);
        let mut tree = Tree::new();
        leaves[..at].iter().for_each(|leaf| tree.push(*leaf));
        let mut again = Tree::from_bytes(&tree.to_bytes()).expect("what was saved");
        leaves[at..].iter().for_each(|leaf| again.push(*leaf));
        prop_assert_eq!(again.head(), TreeHead { size: leaves.len() as u64, root: by_definition(&leaves) });
        prop_assert_eq!(root_of(&leaves), by_definition(&leaves));
        let saved = again.to_bytes();
        prop_assert!(Tree::from_bytes(&saved[..saved.len() - 1]).is_err());
    }

    #[test]
    fn a_receipt_is_read_back_as_it_was(origin in "[!-:<-~]{1,60}", log in any::<[u8; 16]>(), epoch in any::<u32>(), seq in any::<u64>(), leaf_hash in any::<[u8; 32]>()) {
        let receipt = Receipt { origin, log: LogId::from_bytes(log), epoch, seq, leaf_hash };
        prop_assert_eq!(receipt.to_string().parse::<Receipt>(), Ok(receipt));
    }

    #[test]
    fn any_other_text_is_no_receipt(text in "(v1;)?[ -~]{0,80}") {
        if let Ok(receipt) = text.parse::<Receipt>() {
            prop_assert_eq!(receipt.to_string(), text);
        }
    }

    #[test]
    fn an_open_is_read_back_as_it_was_and_never_in_part(opened in any_opened(), cut in any::<proptest::sample::Index>()) {
        let bytes = opened.encode();
        let again = OpenFacts::decode(&bytes).expect("what was written");
        prop_assert_eq!(format!("{:?}", &again), format!("{:?}", &opened));
        prop_assert!(OpenFacts::decode(&bytes[..cut.index(bytes.len())]).is_err());
        prop_assert_eq!(OpenFacts::decode(&[bytes.as_slice(), &[0]].concat()).map(|_| ()), Err(OpenFault::Damaged));
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut versioned = bytes.clone();
        versioned.insert(0, 1);
        let _ = (OpenFacts::decode(&versioned), Record::from_envelope_json(&bytes), Columns::read(&bytes), Tree::from_bytes(&bytes));
        let _ = KeySet::parse(&String::from_utf8_lossy(&bytes));
        prop_assert!(Signer::from_pkcs8(&bytes).is_err());
    }

    #[test]
    fn a_caller_checks_its_commitments_with_the_opening_alone(bytes in proptest::collection::vec(any::<u8>(), 0..300), label in "[a-z]{1,12}", id in any::<[u8; 16]>(), cut in any::<proptest::sample::Index>()) {
        let (key, id) = (TenantKey::generate(), LineageId::from_bytes(id));
        let made = key.commitment(id, &label, &bytes);
        let opening: Opening = key.opening(id).to_string().parse().expect("the header");
        prop_assert_eq!(opening.commitment_key(&label).commit(&bytes), made);
        let (mut pieces, at) = (opening.commitment_key(&label).hasher(), cut.index(bytes.len() + 1));
        pieces.update(&bytes[..at]);
        pieces.update(&bytes[at..]);
        prop_assert_eq!(pieces.finish(), made);
        prop_assert_ne!(TenantKey::generate().commitment(id, &label, &bytes), made);
        prop_assert_ne!(opening.commitment_key("Another").commit(&bytes), made);
    }
}
