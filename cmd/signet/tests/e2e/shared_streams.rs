//! Identical requests whose answer is on its way as a stream.

use crate::client::{Answer, Conn};
use crate::gateway::{Gateway, Setup, chat, eventually, mock, records, streamed, with};
use crate::keeper::Keeper;
use serde_json::{Value, json};
use signet_mock::{Behaviour, Fault, MockUpstream};
use std::path::Path;
use tempfile::TempDir;

const PROMPT: &str = "What is a watershed?";

fn slow(mock: &MockUpstream, latency_ms: u64, chunk_ms: u64, chunks: usize) {
    let behaviour = Behaviour { chunk_ms: Some(chunk_ms), chunks: Some(chunks), ..Behaviour::default() };
    mock.script([Behaviour { latency_ms: Some(latency_ms), times: Some(1_000), ..behaviour }]);
}

/// Begins as many requests and waits until all have asked the cache: then they are in a flight.
fn begin(gateway: &Gateway, n: usize, request: &Value, headers: &[(&str, &str)]) -> Vec<Conn> {
    let lookups = || gateway.metric("signet_step_duration_seconds_count{step=\"cache\"}");
    let before = lookups();
    let conns = (0..n).map(|_| gateway.begin(request, headers)).collect();
    eventually("lookups", || (lookups() == before + n as u64).then_some(()));
    conns
}

fn answers(conns: &mut [Conn]) -> Vec<Answer> {
    std::thread::scope(|scope| {
        let reading: Vec<_> = conns.iter_mut().map(|conn| scope.spawn(|| conn.answer())).collect();
        reading.into_iter().map(|answer| answer.join().expect("an answer")).collect()
    })
}

/// The records of requests for `model`'s answers: decision, whether billed, outcome.
fn told(data: &Path) -> Vec<Value> {
    records(data)
        .into_iter()
        .map(|mut record| record["predicate"].take())
        .filter(|it| it["request"]["op"] == "chat")
        .collect()
}

fn billed(told: &[Value]) -> usize {
    told.iter().filter(|it| it["usage"]["billed"] == true).count()
}

#[test]
fn fifty_who_come_before_during_and_after_the_first_byte_share_one_call() {
    let (mock, data) = (mock(), TempDir::new().expect("a folder"));
    let gateway = Setup::on(&mock).within(data.path()).start();
    slow(&mock, 1_500, 150, 24);
    let mut leader = gateway.begin(&streamed(PROMPT), &[("TE", "trailers")]);
    eventually("the call", || (mock.counts().requests == 1).then_some(()));
    let with_usage = with(streamed(PROMPT), json!({"stream_options": {"include_usage": true}}));
    let mut streams = begin(&gateway, 12, &streamed(PROMPT), &[]);
    let mut whole = begin(&gateway, 3, &chat(PROMPT), &[]);
    let head = leader.head().expect("a head");
    streams.extend(begin(&gateway, 10, &streamed(PROMPT), &[("TE", "trailers")]));
    let first = leader.chunk().expect("it flows").expect("a first event");
    streams.extend(begin(&gateway, 10, &streamed(PROMPT), &[]));
    whole.extend(begin(&gateway, 2, &chat(PROMPT), &[]));
    let second = leader.chunk().expect("it flows").expect("a second event");
    streams.extend(begin(&gateway, 10, &streamed(PROMPT), &[]));
    let mut counted = begin(&gateway, 3, &with_usage, &[]);
    let mut led = None;
    let (streams, whole, counted) = std::thread::scope(|scope| {
        scope.spawn(|| led = Some(leader.rest(head)));
        (answers(&mut streams), answers(&mut whole), answers(&mut counted))
    });
    let mut led = led.expect("it was read");
    led.body = [first, second, led.body].concat();
    led.is(200, "MISS");
    assert!(led.ended_well);
    for follower in streams.iter().chain(&whole).chain(&counted) {
        follower.is(200, "COALESCED");
        assert_eq!(follower.need("cache-status"), "signet; fwd=miss; collapsed");
        assert!(follower.ended_well);
    }
    assert!(streams.iter().all(|follower| follower.text() == led.text()), "byte for byte");
    assert!(whole.iter().all(|follower| follower.said() == led.streamed()));
    for follower in &counted {
        assert_eq!(follower.streamed(), led.streamed());
        assert!(follower.events().iter().any(|event| event["usage"].is_object()), "{}", follower.text());
    }
    assert!(!led.text().contains("\"usage\":{"), "the leader did not ask");
    assert_eq!(mock.counts().requests, 1);
    let receipts = streams.iter().filter(|follower| follower.trailer("lineage-receipt").is_some()).count();
    assert_eq!((receipts, led.trailer("lineage-receipt").is_some()), (10, true));
    gateway.chat(&chat(PROMPT), &[]).is(200, "EXACT");
    let leader_id = led.id();
    for follower in streams.iter().chain(&whole).chain(&counted) {
        let said = gateway.record(&follower.id())["predicate"].take();
        assert_eq!(said["cache"]["decision"], "coalesced");
        let parent = &said["parents"][0];
        assert_eq!((&parent["rel"], &parent["id"]), (&"coalesced_leader".into(), &leader_id.as_str().into()));
        assert_eq!((&said["usage"]["billed"], &said["provider"]), (&false.into(), &Value::Null));
        assert_eq!(said["response"]["bytes"], follower.body.len());
    }
    let led_said = gateway.record(&leader_id)["predicate"].take();
    assert_eq!((&led_said["cache"]["decision"], &led_said["usage"]["billed"]), (&"miss".into(), &true.into()));
    drop(gateway.stop());
    assert_eq!(billed(&told(data.path())), 1);
    let mut keeper = Keeper::of(data.path());
    streams.iter().chain(&whole).chain([&led]).for_each(|answer| keeper.keep(answer));
    keeper.accepts(data.path());
}

#[test]
fn whenever_the_leader_leaves_the_others_have_the_whole_stream_from_the_same_call() {
    let (mock, data) = (mock(), TempDir::new().expect("a folder"));
    let gateway = Setup::on(&mock).within(data.path()).start();
    for chunks in 0..6 {
        mock.reset();
        slow(&mock, 300, 150, 6);
        let prompt = format!("{PROMPT} {chunks}");
        let exact = [("X-Cache-Mode", "exact")];
        let mut leader = gateway.begin(&streamed(&prompt), &exact);
        eventually("the call", || (mock.counts().requests == 1).then_some(()));
        let mut streams = begin(&gateway, 3, &streamed(&prompt), &exact);
        let mut whole = begin(&gateway, 1, &chat(&prompt), &exact);
        let head = leader.head().expect("a head");
        let id = head.headers.iter().find(|(name, _)| name == "lineage-id").expect("an id").1.clone();
        (0..chunks).for_each(|_| drop(leader.chunk().expect("it flows")));
        drop(leader);
        let (streams, whole) = (answers(&mut streams), answers(&mut whole));
        for answer in streams.iter().chain(&whole) {
            answer.is(200, "COALESCED");
            assert!(answer.ended_well);
        }
        assert!(streams.iter().all(|answer| answer.streamed() == whole[0].said()), "{chunks}");
        let counts = mock.counts();
        assert_eq!((counts.requests, counts.cancelled), (1, 0), "{chunks}");
        let said = gateway.record(&id)["predicate"].take();
        assert_eq!(said["response"]["outcome"], "client_abort", "{chunks}");
        assert!(said["usage"].is_null() && said["provider"].is_null(), "the call is another's now: {said}");
    }
    drop(gateway.stop());
    let told = told(data.path());
    assert_eq!(billed(&told), 6, "one for each call");
    let attempts = told.iter().filter(|it| it["provider"]["attempts"].is_array()).count();
    assert_eq!(attempts, 6, "and each call is told of once");
    Keeper::of(data.path()).accepts(data.path());
}

#[test]
fn the_last_to_leave_a_shared_stream_takes_the_call_with_it() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    mock.script([Behaviour::fault(Fault::HangAfter(3))]);
    let mut conns = begin(&gateway, 1, &streamed(PROMPT), &[]);
    conns[0].head().expect("a head");
    conns.extend(begin(&gateway, 9, &streamed(PROMPT), &[]));
    let last = conns.pop().expect("ten came");
    drop(conns);
    eventually("nine records", || {
        (gateway.metric("signet_lineage_records_total{outcome=\"client_abort\"}") == 9).then_some(())
    });
    assert_eq!(mock.counts().cancelled, 0);
    drop(last);
    eventually("the cancelled call", || (mock.counts().cancelled == 1).then_some(()));
    assert_eq!(mock.counts().requests, 1);
}

#[test]
fn a_cut_reaches_everyone_who_shares_the_stream_and_nothing_is_kept() {
    let (mock, data) = (mock(), TempDir::new().expect("a folder"));
    let gateway = Setup::on(&mock).within(data.path()).start();
    for fault in [Fault::CutAfter(5), Fault::RstAfter(5)] {
        mock.reset();
        mock.script([Behaviour { latency_ms: Some(500), chunk_ms: Some(50), ..Behaviour::fault(fault) }]);
        let mut conns = begin(&gateway, 20, &streamed(PROMPT), &[]);
        let answers = answers(&mut conns);
        for answer in &answers {
            assert!(!answer.ended_well && !answer.text().contains("[DONE]"), "{fault:?}: {}", answer.text());
            assert!(answer.text().contains("\"type\":\"upstream_error\""), "{fault:?}: {}", answer.text());
            assert_eq!(gateway.record(&answer.id())["predicate"]["response"]["outcome"], "upstream_error");
        }
        assert_eq!(mock.counts().requests, 1, "{fault:?}");
    }
    gateway.chat(&streamed(PROMPT), &[]).is(200, "MISS");
    drop(gateway.stop());
    Keeper::of(data.path()).accepts(data.path());
}

#[test]
fn who_wants_json_from_a_stream_that_breaks_gets_a_call_of_its_own() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    mock.script([Behaviour { latency_ms: Some(500), ..Behaviour::fault(Fault::CutAfter(3)) }]);
    let mut conns = begin(&gateway, 1, &streamed(PROMPT), &[]);
    conns.extend(begin(&gateway, 1, &chat(PROMPT), &[]));
    let answers = answers(&mut conns);
    assert!(!answers[0].ended_well);
    assert_eq!((answers[1].status, answers[1].said().is_empty()), (200, false));
    assert_eq!(mock.counts().requests, 2);
}

#[test]
fn streams_that_meet_a_call_for_json_are_given_its_answer() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    mock.script([Behaviour { latency_ms: Some(1_000), ..Behaviour::default() }]);
    let mut conns = begin(&gateway, 1, &chat(PROMPT), &[]);
    eventually("the call", || (mock.counts().requests == 1).then_some(()));
    conns.extend(begin(&gateway, 5, &streamed(PROMPT), &[("TE", "trailers")]));
    let answers = answers(&mut conns);
    for stream in &answers[1..] {
        assert_eq!(stream.status, 200);
        assert_eq!(stream.need("content-type"), "text/event-stream; charset=utf-8");
        assert_eq!(stream.streamed(), answers[0].said());
        assert!(stream.ended_well && stream.trailer("lineage-receipt").is_some());
    }
    let coalesced = answers.iter().filter(|answer| answer.header("x-cache") == Some("COALESCED")).count();
    assert_eq!((coalesced, mock.counts().requests), (5, 1));
}

#[test]
fn a_failed_call_gives_each_follower_one_more_try_and_not_each_its_own() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    mock.script([Behaviour { latency_ms: Some(1_000), ..Behaviour::status(500) }]);
    let mut conns = begin(&gateway, 20, &streamed(PROMPT), &[]);
    let failed = answers(&mut conns).iter().filter(|answer| answer.status == 500).count();
    assert_eq!(failed, 1);
    assert!(mock.counts().requests <= 3, "{:?}", mock.counts());
}

#[test]
fn a_reader_that_does_not_read_is_given_up_and_the_others_are_not_held_up() {
    let mock = mock();
    let setup = Setup::on(&mock).set("server.stream_buffer_bytes", "65536").set("server.slow_reader_ms", "400");
    let gateway = setup.start();
    let behaviour = Behaviour { answer_bytes: Some(24 << 20), chunks: Some(800), ..Behaviour::default() };
    mock.script([Behaviour { latency_ms: Some(500), chunk_ms: Some(1), ..behaviour }]);
    let mut slow = begin(&gateway, 1, &streamed(PROMPT), &[]).remove(0);
    let mut others = begin(&gateway, 3, &streamed(PROMPT), &[]);
    let head = slow.head().expect("a head");
    let others = answers(&mut others);
    assert!(others.iter().all(|answer| answer.ended_well && answer.body == others[0].body));
    let slow = slow.rest(head);
    assert!(!slow.ended_well && slow.text().contains("\"code\":\"slow_reader\""), "{} bytes", slow.body.len());
    let whole = others[0].text();
    assert!(slow.body.len() < whole.len() && whole.starts_with(&slow.text()[..slow.text().len() / 2]));
    let said = gateway.record(&slow.id())["predicate"].take();
    assert_eq!((&said["response"]["outcome"], &said["usage"]), (&"client_abort".into(), &Value::Null));
    assert_eq!(mock.counts().requests, 1);
}

#[test]
fn where_usage_is_the_callers_choice_streams_with_and_without_are_two_calls() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("provider.0.inject_usage", "false").start();
    slow(&mock, 1_000, 1, 6);
    let mut conns = begin(&gateway, 3, &streamed(PROMPT), &[]);
    let with_usage = with(streamed(PROMPT), json!({"stream_options": {"include_usage": true}}));
    conns.extend(begin(&gateway, 3, &with_usage, &[]));
    let answers = answers(&mut conns);
    let counted: Vec<_> = answers.iter().map(|answer| answer.text().contains("\"usage\":{")).collect();
    assert_eq!((counted, mock.counts().requests), (vec![false, false, false, true, true, true], 2));
}

#[test]
fn refresh_and_bypass_share_no_stream() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    for (wish, x_cache) in [("no-store", "BYPASS"), ("no-cache", "REFRESH")] {
        mock.reset();
        slow(&mock, 500, 10, 6);
        let mut conns: Vec<_> = (0..3).map(|_| gateway.begin(&streamed(PROMPT), &[("Cache-Control", wish)])).collect();
        for answer in answers(&mut conns) {
            answer.is(200, x_cache);
        }
        assert_eq!(mock.counts().requests, 3);
    }
}

#[test]
fn a_kill_after_the_leader_has_left_leaves_a_record_of_who_went_on() {
    let (mock, data) = (mock(), TempDir::new().expect("a folder"));
    let setup = Setup::on(&mock).within(data.path());
    let gateway = setup.start();
    mock.script([Behaviour::fault(Fault::HangAfter(3))]);
    let mut leader = begin(&gateway, 1, &streamed(PROMPT), &[]).remove(0);
    leader.head().expect("a head");
    let mut follower = begin(&gateway, 1, &streamed(PROMPT), &[]).remove(0);
    let head = follower.head().expect("a head");
    let id = head.headers.iter().find(|(name, _)| name == "lineage-id").expect("an id").1.clone();
    drop(leader);
    eventually("its record", || {
        (gateway.metric("signet_lineage_records_total{outcome=\"client_abort\"}") == 1).then_some(())
    });
    drop(gateway.kill());
    let gateway = setup.start();
    let said = gateway.record(&id)["predicate"].take();
    assert_eq!(said["response"]["outcome"], "interrupted", "{said}");
    drop(gateway.stop());
    Keeper::of(data.path()).accepts(data.path());
}

#[test]
fn a_kill_in_a_shared_stream_leaves_a_record_of_everyone_whose_answer_had_begun() {
    let (mock, data) = (mock(), TempDir::new().expect("a folder"));
    let setup = Setup::on(&mock).within(data.path());
    let gateway = setup.start();
    mock.script([Behaviour::fault(Fault::HangAfter(3))]);
    let mut conns = begin(&gateway, 5, &streamed(PROMPT), &[]);
    let id = |conn: &mut Conn| {
        let head = conn.head().expect("a head");
        head.headers.iter().find(|(name, _)| name == "lineage-id").expect("an id").1.clone()
    };
    let ids: Vec<String> = conns.iter_mut().map(id).collect();
    drop(gateway.kill());
    let gateway = setup.start();
    for id in ids {
        let said = gateway.record(&id)["predicate"].take();
        assert_eq!(said["response"]["outcome"], "interrupted", "{said}");
    }
    assert_eq!(mock.counts().requests, 1);
    drop(gateway.stop());
    Keeper::of(data.path()).accepts(data.path());
}

#[test]
fn each_caller_of_a_shared_stream_keeps_its_own_trace() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    slow(&mock, 300, 10, 6);
    let trace = |digit: &str| digit.repeat(32);
    let parent = |digit: &str| format!("00-{}-00f067aa0ba902b7-01", trace(digit));
    let mut conns = begin(&gateway, 1, &streamed(PROMPT), &[("traceparent", &parent("a"))]);
    eventually("the call", || (mock.counts().requests == 1).then_some(()));
    conns.extend(begin(&gateway, 1, &streamed(PROMPT), &[("traceparent", &parent("b"))]));
    for (answer, digit) in answers(&mut conns).iter().zip(["a", "b"]) {
        assert_eq!(gateway.record(&answer.id())["predicate"]["trace_id"], trace(digit));
    }
    let seen = mock.requests();
    assert_eq!((seen.len(), seen[0].header("traceparent")), (1, Some(parent("a").as_str())));
}
