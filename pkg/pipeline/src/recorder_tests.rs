//! Statements that the recorder makes of itself: times, refusals, what a full log or disk left out.

use super::*;
use serde_json::Value;
use sha2::{Digest, Sha256};
use signet_lineage::{Caller, RequestFacts, Tree};
use signet_spool::{Config as SpoolConfig, MemoryLog, SimFiles, Spool};
use signet_types::{LogId, ManualClock, TenantId};
use std::collections::HashSet;

const NOON_MS: u64 = 1_800_000_000_000;
const DAY_MS: u64 = 86_400_000;

fn recorder() -> (Arc<ManualClock>, Recorder) {
    let clock = Arc::new(ManualClock::at(NOON_MS));
    let gateway = Arc::new(Gateway {
        version: "1".to_owned(),
        instance: "a".to_owned(),
        config_sha256: [0; 32],
        durability: "memory".to_owned(),
    });
    let voice = Voice { origin: "o.example".to_owned(), gateway, durability: Durability::Written, degrade: false };
    let log = Arc::new(MemoryLog::new(LogId::from_bytes([7; 16]), 1 << 20));
    (clock.clone(), Recorder::new(log, Signer::generate(), voice, clock, Arc::new(Metrics::new())))
}

fn statements(recorder: &Recorder) -> Vec<Value> {
    let mut records: Vec<Arc<Record>> = Vec::new();
    loop {
        let next = records.last().map_or(0, |last| last.seq + 1);
        let more = recorder.log().read_from(next, 100, 1 << 20).expect("the log can be read");
        if more.is_empty() {
            break;
        }
        records.extend(more);
    }
    records
        .iter()
        .map(|record| serde_json::from_slice::<Value>(&record.payload).expect("JSON")["predicate"].take())
        .collect()
}

/// A recorder over a spool in RAM, and its disk.
fn on_disk(max_bytes: u64, degrade: bool) -> (Arc<ManualClock>, SimFiles, Recorder) {
    let (clock, memory) = recorder();
    let files = SimFiles::new();
    let config = SpoolConfig { max_bytes, segment_bytes: 16 << 10, ..SpoolConfig::new("unused") };
    let (log, _) = Spool::open_on(Arc::new(files.clone()), config, clock.clone(), None).expect("fresh");
    let voice = Voice { degrade, ..memory.voice().clone() };
    (clock.clone(), files, Recorder::new(Arc::new(log), Signer::generate(), voice, clock, Arc::new(Metrics::new())))
}

fn facts(n: u64) -> OpenFacts {
    OpenFacts {
        id: LineageId::generate(NOON_MS + n),
        received_ms: NOON_MS,
        trace_id: None,
        caller: Caller { tenant: TenantId::from_bytes([1; 16]), auth: "keys", key_epoch: 1, wrapped_key: None },
        route: "/v1/chat/completions",
        stream: false,
        request: RequestFacts { cm: [2; 32], bytes: 3, fp: None, op: "chat", forwarded: None },
        asked: "m".to_owned(),
        cache: "miss",
    }
}

#[test]
fn on_a_full_disk_new_requests_are_refused_those_in_flight_end_and_a_jump_of_the_clock_is_still_signed() {
    let (clock, files, recorder) = on_disk(16 << 20, false);
    let ended = |facts: &OpenFacts| facts.interrupted(NOON_MS, &recorder.voice().gateway);
    let (first, second) = (facts(0), facts(1));
    let opened = [recorder.open(&first).expect("room"), recorder.open(&second).expect("room")];
    files.full(true);
    let mut n = 2;
    let refused = loop {
        let next = facts(n);
        match recorder.open(&next) {
            Ok(opened) => drop(recorder.close(opened, &ended(&next)).expect("promised")),
            Err(fault) => break fault,
        }
        n += 1;
    };
    assert!(matches!(refused, Fault::LineageUnavailable));
    for (opened, facts) in opened.into_iter().zip([&first, &second]) {
        assert!(recorder.close(opened, &ended(facts)).expect("promised").is_some());
    }
    for day in 1..20 {
        clock.set_wall_ms(NOON_MS + day * DAY_MS);
        recorder.tick();
    }
    assert!(matches!(recorder.open(&facts(n)), Err(Fault::LineageUnavailable)), "the reserve is not for these");
    recorder.log().sync().expect("no fault");
    assert_eq!(statements(&recorder).iter().filter(|statement| statement["kind"] == "clock").count(), 19);
    files.full(false);
    recorder.log().check().expect("there is room");
    assert!(recorder.open(&facts(n)).expect("room").is_some());
}

#[test]
fn refusals_of_a_flood_are_folded_under_their_own_ids_and_told_though_the_log_is_full() {
    let (clock, _, recorder) = on_disk(24 << 10, false);
    while recorder.write(&Draft::clock(&recorder.stamp(), 1, 2)) {}
    let mut ids = Vec::new();
    for _ in 0..3 {
        let reasons = ["no_key", "ip_rate", "no_key"].into_iter().cycle();
        ids.push(reasons.take(350).filter_map(|reason| recorder.fold(reason)).collect::<Vec<_>>());
        clock.advance(Duration::from_secs(1));
        recorder.tick();
    }
    recorder.log().sync().expect("no fault");
    let folds: Vec<_> = statements(&recorder).into_iter().filter(|statement| statement["kind"] == "denials").collect();
    assert_eq!(folds.len(), 3);
    for (fold, ids) in folds.iter().zip(&ids) {
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 300);
        let mut tree = Tree::new();
        for id in ids {
            tree.push(Sha256::new().chain_update([0]).chain_update(id.as_bytes()).finalize().into());
        }
        let control = &fold["control"];
        let told = control["ids_root"].as_str().expect("hex").as_bytes().as_chunks::<2>().0;
        let told =
            told.iter().map(|two| u8::from_str_radix(std::str::from_utf8(two).expect("ASCII"), 16).expect("hex"));
        assert!(told.eq(tree.root()));
        assert_eq!((&control["ids"], &control["no_key"], &control["ip_rate"]), (&300.into(), &200.into(), &100.into()));
    }
}

#[test]
fn what_a_full_log_takes_beyond_its_bound_is_bounded_a_minute() {
    let (clock, _, recorder) = on_disk(24 << 10, true);
    while recorder.write(&Draft::clock(&recorder.stamp(), 1, 2)) {}
    let full = recorder.stats().bytes;
    let tick = || {
        assert!(recorder.open(&facts(0)).expect("served all the same").is_none());
        recorder.tick();
    };
    (0..1_000).for_each(|_| tick());
    let beyond = recorder.stats().bytes - full;
    assert!((BEYOND_A_MINUTE / 2..2 * BEYOND_A_MINUTE).contains(&beyond), "{beyond}");
    clock.advance(Duration::from_mins(1));
    tick();
    recorder.log().sync().expect("no fault");
    let told: u64 = statements(&recorder).iter().filter_map(|statement| statement["control"]["count"].as_u64()).sum();
    assert_eq!(told, 1_001, "none is forgotten");
}

#[test]
fn a_jump_of_the_wall_clock_is_signed_once_in_either_direction() {
    let (clock, recorder) = recorder();
    let mut expected = Vec::new();
    for jumped_ms in [NOON_MS - DAY_MS, NOON_MS + 3650 * DAY_MS, NOON_MS + 5_000] {
        let before_ms = clock.now_ms() + 1_000;
        clock.advance(Duration::from_secs(1));
        recorder.tick();
        clock.set_wall_ms(jumped_ms);
        recorder.tick();
        recorder.tick();
        expected.push((before_ms, jumped_ms));
    }
    let told: Vec<_> = statements(&recorder)
        .iter()
        .map(|statement| {
            assert_eq!(statement["kind"], "clock");
            assert_eq!(statement["time"]["received_ms"], statement["control"]["after_ms"]);
            let ms = |name: &str| statement["control"][name].as_u64().expect("a time");
            (ms("before_ms"), ms("after_ms"))
        })
        .collect();
    assert_eq!(told, expected);
}

#[test]
fn a_key_that_no_longer_counts_signs_nothing_until_it_does_again() {
    let (_, recorder) = recorder();
    assert!(recorder.halt(true) && !recorder.halt(true));
    let draft = Draft::log_seal(&recorder.stamp());
    assert!(!recorder.write(&draft) && recorder.close(None, &draft).is_err());
    assert!(statements(&recorder).is_empty());
    assert!(recorder.halt(false));
    assert!(recorder.write(&draft));
}

#[test]
fn a_clock_that_keeps_pace_within_two_seconds_is_not_worth_a_record() {
    let (clock, recorder) = recorder();
    for at_ms in [NOON_MS + 2_000, NOON_MS, NOON_MS - 2_000] {
        clock.set_wall_ms(at_ms);
        recorder.tick();
    }
    clock.set_wall_ms(NOON_MS);
    clock.advance(Duration::from_hours(900));
    recorder.tick();
    assert!(statements(&recorder).is_empty());
    clock.set_wall_ms(clock.now_ms() + 2_001);
    recorder.tick();
    assert_eq!(statements(&recorder).len(), 1);
}

#[test]
fn signed_times_go_back_only_behind_a_record_that_says_so() {
    let (clock, recorder) = recorder();
    assert_eq!(recorder.stamp().at_ms, NOON_MS);
    clock.set_wall_ms(NOON_MS - DAY_MS);
    assert_eq!(recorder.stamp().at_ms, NOON_MS);
    recorder.tick();
    assert_eq!(recorder.stamp().at_ms, NOON_MS - DAY_MS);
    clock.advance(Duration::from_secs(1));
    assert_eq!(recorder.stamp().at_ms, NOON_MS - DAY_MS + 1_000);
}
