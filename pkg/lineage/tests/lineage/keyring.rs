//! Keyrings: signed by enough roots or worth nothing, and keys that count by place.

use crate::sample::{ORIGIN, Writer, signer};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use signet_lineage::tlog::{Checkpoint, NoteKey};
use signet_lineage::verify::{Code, KeyVerdict, Keyring, KeyringFault, Options, Report, RootPolicy, Verifier};
use signet_lineage::{KeySet, KeyUse, KeyringEntry, Leaf, TreeHead, draft_keyring, root_of, sign_keyring};
use signet_types::LogId;

const CHECKPOINT_KEY: u8 = 9;
const ROOTS: [u8; 3] = [101, 102, 103];

fn roots(threshold: usize) -> RootPolicy {
    let keys = KeySet::new(ROOTS.map(|seed| signer(seed).public_key())).expect("keys");
    RootPolicy::new(keys, threshold).expect("at most three")
}

fn attest(seed: u8, log: Option<LogId>) -> KeyringEntry {
    let key = signer(seed).public_key();
    KeyringEntry { key, key_use: KeyUse::Attest, log, from: 0, retired: None, revoked: None }
}

fn signed(entries: &[KeyringEntry], seeds: &[u8]) -> Vec<u8> {
    let draft = draft_keyring(1, entries);
    seeds.iter().fold(draft, |envelope, seed| sign_keyring(&envelope, &signer(*seed)).expect("an envelope"))
}

fn ring(entries: &[KeyringEntry]) -> Keyring {
    Keyring::open(&signed(entries, &ROOTS), &RootPolicy::all(roots(1).keys().clone())).expect("all roots signed")
}

/// Judges a log of 12 records under a keyring, with a checkpoint of `size` that was kept elsewhere.
fn judged(entries: &[KeyringEntry], size: usize) -> Report {
    let log = Writer::filled(1, 12);
    let key = NoteKey::new(&format!("{ORIGIN}/{}", log.log), signer(CHECKPOINT_KEY).public_key()).expect("a name");
    let leaves: Vec<_> = log.records[..size].iter().map(|record| Leaf::of(record).hash()).collect();
    let head = TreeHead { size: size as u64, root: root_of(&leaves) };
    let note = Checkpoint { origin: key.name().to_owned(), head }.sign(&key, &signer(CHECKPOINT_KEY));
    let mut verifier = Verifier::trusting(ring(entries).into(), Options::default());
    assert!(verifier.kept(&note));
    log.records.iter().for_each(|record| verifier.record(record.clone(), None));
    verifier.finish()
}

#[track_caller]
fn finds(report: &Report, code: u8) {
    assert_eq!(report.exit_code(), code, "{report}");
}

#[test]
fn a_keyring_counts_when_enough_distinct_roots_signed_exactly_it() {
    let entries = [attest(1, None)];
    for (seeds, threshold, good) in [
        (&[101][..], 1, true),
        (&[101], 2, false),
        (&[101, 103], 2, true),
        (&[102, 101, 103], 3, true),
        (&[], 1, false),
        // A stranger is no voice, and does no harm.
        (&[7, 101], 2, false),
        (&[7, 101], 1, true),
    ] {
        let opened = Keyring::open(&signed(&entries, seeds), &roots(threshold));
        assert_eq!(opened.is_ok(), good, "{seeds:?} of {threshold}");
    }
    // One root that signed twice is one voice.
    let mut twice: serde_json::Value = serde_json::from_slice(&signed(&entries, &[101])).expect("JSON");
    let line = twice["signatures"][0].clone();
    twice["signatures"].as_array_mut().expect("an array").push(line);
    let fault = Keyring::open(twice.to_string().as_bytes(), &roots(2)).expect_err("one root");
    assert_eq!(fault, KeyringFault::Roots { found: 1, needed: 2 });
    let keys = roots(1).keys().clone();
    assert!(RootPolicy::new(keys.clone(), 0).is_none() && RootPolicy::new(keys, 4).is_none());
}

#[test]
fn no_flipped_bit_of_a_keyring_is_believed() {
    let envelope = signed(&[attest(1, Some(LogId::from_bytes([1; 16])))], &[101, 102]);
    let said = Keyring::open(&envelope, &roots(2)).expect("a good one");
    for at in 0..8 * (envelope.len() - 1) {
        let mut flipped = envelope.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        let opened = Keyring::open(&flipped, &roots(2));
        // White space between the envelope's own tokens is none of what is signed.
        assert!(opened.is_err() || opened == Ok(said.clone()), "bit {at}");
    }
}

#[test]
fn what_two_readers_could_read_differently_is_no_keyring() {
    let key = signer(1).public_key();
    let digits = crate::sample::hex(key.as_bytes());
    let entry = format!(r#"{{"from":0,"key":"{digits}","use":"attest"}}"#);
    let both = format!(r#"{entry},{{"from":0,"key":"{digits}","use":"checkpoint"}}"#);
    let good = format!(r#"{{"_type":"signet-keyring/v1","entries":[{entry}],"version":1}}"#);
    let open = |payload: &str| {
        let envelope = format!(
            r#"{{"payload":"{}","payloadType":"application/vnd.signet.keyring+json","signatures":[]}}"#,
            STANDARD.encode(payload)
        );
        Keyring::open(&sign_keyring(envelope.as_bytes(), &signer(101)).expect("an envelope"), &roots(1))
    };
    assert!(open(&good).is_ok());
    for bad in [
        good.replace("v1", "v2"),
        good.replace("\"version\":1", "\"version\":0"),
        good.replace("\"version\":1", "\"version\": 1"),
        good.replace("\"version\":1", "\"version\":1,\"version\":2"),
        good.replace("\"from\":0", "\"from\":00"),
        good.replace("\"use\":\"attest\"", "\"use\":\"attest\",\"want\":1"),
        good.replace("\"use\":\"attest\"", "\"use\":\"checkpoint\""),
        good.replace(&digits, &digits.to_uppercase()),
        good.replace(&entry, &both),
        good.replace(&entry, ""),
    ] {
        assert!(matches!(open(&bad), Err(KeyringFault::Form(_))), "{bad}");
    }
}

#[test]
fn a_record_counts_by_its_place_under_a_keyring_and_not_by_its_time() {
    let (log, mine) = (LogId::from_bytes([1; 16]), |entry: KeyringEntry| {
        let checkpoint = KeyringEntry { key_use: KeyUse::Checkpoint, ..attest(CHECKPOINT_KEY, None) };
        judged(&[entry, checkpoint], 12)
    });
    let own = attest(1, Some(log));
    finds(&mine(own), 0);
    finds(&mine(attest(1, None)), 0);
    finds(&mine(KeyringEntry { revoked: Some(12), retired: Some(12), ..own }), 0);
    let revoked = mine(KeyringEntry { revoked: Some(7), ..own });
    finds(&revoked, Code::RevokedKey as u8);
    let places: Vec<_> = revoked.findings.iter().filter(|it| it.code == Code::RevokedKey).collect();
    assert_eq!(places.iter().filter_map(|it| it.seq).collect::<Vec<_>>(), (7..12).collect::<Vec<_>>());
    finds(&mine(KeyringEntry { retired: Some(11), ..own }), Code::RevokedKey as u8);
    let early = mine(KeyringEntry { from: 1, ..own });
    assert!(early.findings.iter().any(|it| (it.code, it.seq) == (Code::UnknownKey, Some(0))), "{early}");
    finds(&mine(attest(1, Some(LogId::from_bytes([2; 16])))), Code::UnknownKey as u8);
    finds(&mine(attest(2, Some(log))), Code::UnknownKey as u8);
}

#[test]
fn a_checkpoint_counts_by_the_last_record_that_it_covers() {
    let with = |entry: KeyringEntry| judged(&[attest(1, None), entry], 8);
    let own = KeyringEntry { key_use: KeyUse::Checkpoint, ..attest(CHECKPOINT_KEY, None) };
    finds(&with(own), 0);
    finds(&with(KeyringEntry { from: 7, revoked: Some(8), retired: Some(8), ..own }), 0);
    finds(&with(KeyringEntry { revoked: Some(7), ..own }), Code::RevokedKey as u8);
    finds(&with(KeyringEntry { retired: Some(7), ..own }), Code::RevokedKey as u8);
    finds(&with(KeyringEntry { from: 8, ..own }), Code::UnknownKey as u8);
    // What the records themselves name is not enough beside a keyring.
    finds(&judged(&[attest(1, None)], 8), Code::UnknownKey as u8);
}

fn entries() -> impl Strategy<Value = Vec<KeyringEntry>> {
    let place = || proptest::option::of(0_u64..6);
    let log = proptest::option::of((1_u8..3).prop_map(|name| LogId::from_bytes([name; 16])));
    let entry = (1_u8..4, log, 0_u64..6, place(), place());
    let entry = entry.prop_map(|(seed, log, from, retired, revoked)| {
        let key_use = if seed == 3 { KeyUse::Checkpoint } else { KeyUse::Attest };
        KeyringEntry { key_use, from, retired, revoked, ..attest(seed, log) }
    });
    proptest::collection::vec(entry, 1..8)
}

proptest! {
    #[test]
    fn the_verdict_does_not_depend_on_the_order_of_entries_or_signatures(
        (entries, shuffled) in entries().prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
        seeds in Just(ROOTS.to_vec()).prop_shuffle(),
    ) {
        let attests = entries.iter().any(|entry| entry.key_use == KeyUse::Attest);
        let one = Keyring::open(&signed(&entries, &ROOTS), &roots(3));
        let other = Keyring::open(&signed(&shuffled, &seeds), &roots(3));
        prop_assert_eq!(one.is_ok(), attests);
        prop_assert_eq!(other.is_ok(), attests);
        let (Ok(one), Ok(other)) = (one, other) else { return Ok(()) };
        for (seed, log, at) in (1..4).flat_map(|seed| (1..4).flat_map(move |log| (0..7).map(move |at| (seed, log, at)))) {
            let key_use = if seed == 3 { KeyUse::Checkpoint } else { KeyUse::Attest };
            let (log, key) = (LogId::from_bytes([log; 16]), signer(seed).public_key().key_id());
            let verdict = one.judge(log, key_use, &key, at);
            prop_assert_eq!(verdict, other.judge(log, key_use, &key, at));
            let of = entries.iter().filter(|it| it.key.key_id() == key && it.log.is_none_or(|it| it == log));
            let stolen = of.clone().any(|it| it.revoked.is_some_and(|good| at >= good));
            prop_assert_eq!(stolen, verdict == KeyVerdict::Revoked);
            let covered = of.clone().any(|it| at >= it.from && it.retired.is_none_or(|end| at < end));
            prop_assert_eq!(covered && !stolen, verdict == KeyVerdict::Good);
        }
    }
}
