//! Identical requests at the same time.

use crate::client::Answer;
use crate::gateway::{Gateway, Setup, chat, eventually, mock};
use serde_json::Value;
use signet_mock::{Behaviour, Counts, MockUpstream};
use std::collections::BTreeMap;

const PROMPT: &str = "What is a watershed?";

fn slow(mock: &MockUpstream, more: Behaviour) {
    mock.script([Behaviour { latency_ms: Some(2_000), times: Some(1_000), ..more }]);
}

fn arrived(mock: &MockUpstream, wanted: impl Fn(&Counts) -> bool) {
    eventually("the provider's counts", || wanted(&mock.counts()).then_some(()));
}

/// Waits until so many requests have asked the cache; without another wait they then sit in a flight.
fn looked_up(gateway: &Gateway, n: u64) {
    let lookups = || gateway.metric("signet_step_duration_seconds_count{step=\"cache\"}");
    eventually("lookups", || (lookups() == n).then_some(()));
}

/// Sends the request on `n` connections before it reads any answer.
fn at_once(gateway: &Gateway, n: usize, request: &Value, headers: &[(&str, &str)]) -> Vec<Answer> {
    let mut conns: Vec<_> = (0..n).map(|_| gateway.begin(request, headers)).collect();
    conns.iter_mut().map(crate::client::Conn::answer).collect()
}

fn tally(answers: &[Answer]) -> BTreeMap<(u16, &str), usize> {
    let mut tally = BTreeMap::new();
    for answer in answers {
        *tally.entry((answer.status, answer.need("x-cache"))).or_default() += 1;
    }
    tally
}

#[test]
fn fifty_identical_requests_make_one_call() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    slow(&mock, Behaviour::default());
    let answers = at_once(&gateway, 50, &chat(PROMPT), &[]);
    assert_eq!(tally(&answers), BTreeMap::from([((200, "MISS"), 1), ((200, "COALESCED"), 49)]));
    assert_eq!(mock.counts().requests, 1);
    let leader = answers.iter().find(|answer| answer.header("x-cache") == Some("MISS")).expect("one leads");
    for follower in answers.iter().filter(|answer| answer.header("x-cache") == Some("COALESCED")) {
        assert_eq!(follower.need("cache-status"), "signet; fwd=miss; collapsed");
        assert_eq!(follower.body, leader.body);
        let record = gateway.record(&follower.id());
        let predicate = &record["predicate"];
        assert_eq!(predicate["cache"]["decision"], "coalesced");
        let parent = &predicate["parents"][0];
        assert_eq!((&parent["rel"], &parent["id"]), (&Value::from("coalesced_leader"), &Value::from(leader.id())));
        assert_eq!(predicate["usage"]["billed"], false);
    }
    gateway.chat(&chat(PROMPT), &[]).is(200, "EXACT");
}

#[test]
fn a_leader_that_leaves_does_not_take_the_call_with_it() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    slow(&mock, Behaviour::default());
    let leader = gateway.begin(&chat(PROMPT), &[]);
    arrived(&mock, |counts| counts.requests == 1);
    let mut followers: Vec<_> = (0..5).map(|_| gateway.begin(&chat(PROMPT), &[])).collect();
    looked_up(&gateway, 6);
    drop(leader);
    let answers: Vec<_> = followers.iter_mut().map(crate::client::Conn::answer).collect();
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    let counts = mock.counts();
    assert_eq!((counts.requests, counts.cancelled), (1, 0));
    let left = gateway.record_where(|record| record["predicate"]["response"]["outcome"] == "client_abort");
    assert_eq!(left["predicate"]["http"]["status"], 499);
}

#[test]
fn when_all_have_left_the_call_is_cancelled() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    mock.script([Behaviour::fault(signet_mock::Fault::Hang)]);
    let waiting: Vec<_> = (0..3).map(|_| gateway.begin(&chat(PROMPT), &[])).collect();
    looked_up(&gateway, 3);
    arrived(&mock, |counts| counts.requests == 1);
    drop(waiting);
    arrived(&mock, |counts| counts.cancelled == 1);
    gateway.chat(&chat(PROMPT), &[]).is(200, "MISS");
}

#[test]
fn one_failed_call_does_not_fail_all_who_waited_for_it() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    mock.script([Behaviour { latency_ms: Some(2_000), ..Behaviour::status(500) }]);
    let answers = at_once(&gateway, 50, &chat(PROMPT), &[]);
    let failed = answers.iter().filter(|answer| answer.status == 500).count();
    assert_eq!(failed, 1, "{:?}", tally(&answers));
    assert!(mock.counts().requests <= 3, "{:?}", mock.counts());
    gateway.chat(&chat(PROMPT), &[]).is(200, "EXACT");
}

#[test]
fn a_provider_that_stays_broken_is_asked_once_or_twice_and_not_once_for_each() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    slow(&mock, Behaviour::status(503));
    let answers = at_once(&gateway, 30, &chat(PROMPT), &[]);
    assert!(answers.iter().all(|answer| answer.status == 503), "{:?}", tally(&answers));
    assert!(mock.counts().requests <= 3, "{:?}", mock.counts());
}

#[test]
fn bypass_and_refresh_join_nobody() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    for (wish, x_cache) in [("no-store", "BYPASS"), ("no-cache", "REFRESH")] {
        mock.reset();
        slow(&mock, Behaviour::default());
        let answers = at_once(&gateway, 4, &chat(PROMPT), &[("Cache-Control", wish)]);
        assert_eq!(tally(&answers), BTreeMap::from([((200, x_cache), 4)]));
        assert_eq!(mock.counts().requests, 4);
    }
}

#[test]
fn tenants_do_not_wait_for_each_other() {
    let mock = mock();
    let gateway = Setup::passthrough(&mock).start();
    slow(&mock, Behaviour::default());
    let mut conns: Vec<_> =
        ["a", "b", "c"].iter().map(|key| gateway.begin(&chat(PROMPT), &[("Authorization", key)])).collect();
    let answers: Vec<_> = conns.iter_mut().map(crate::client::Conn::answer).collect();
    assert_eq!(tally(&answers), BTreeMap::from([((200, "MISS"), 3)]));
    assert_eq!(mock.counts().requests, 3);
}
