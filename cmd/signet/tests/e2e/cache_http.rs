//! What a caller is told about the cache, and what it may ask of it.

use crate::gateway::{CHAT, EMBEDDINGS, Setup, chat, eventually, mock, streamed};
use serde_json::json;
use signet_mock::{Behaviour, Fault, answer_text};

#[test]
fn a_repeated_request_is_a_miss_and_then_an_exact_hit_with_its_source() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let first = gateway.chat(&chat("Why is the sky blue?"), &[]);
    first.is(200, "MISS");
    assert_eq!(first.need("cache-status"), "signet; fwd=miss; stored");
    assert_eq!((first.header("age"), first.header("x-cache-source")), (None, None));
    assert_eq!(first.need("cache-control"), "private, no-store");
    assert_eq!(first.need("x-signet-attempts"), "1");
    let second = gateway.chat(&chat("Why is the sky blue?"), &[]);
    second.is(200, "EXACT");
    assert_eq!(second.need("x-cache-source"), first.id());
    assert_ne!(second.id(), first.id());
    assert_eq!(second.need("x-cache-similarity"), "1.000");
    assert!(second.need("age").parse::<u64>().is_ok());
    let status = second.need("cache-status");
    let ttl = status.strip_prefix("signet; hit; detail=exact; ttl=").and_then(|ttl| ttl.parse::<u64>().ok());
    assert!(ttl.is_some_and(|ttl| (3500..=3600).contains(&ttl)), "{status}");
    let usage = |id: &str| gateway.record(id)["predicate"]["usage"].clone();
    let (paid, served) = (usage(&first.id()), usage(&second.id()));
    assert_eq!((&paid["billed"], &served["billed"], &paid["out"]), (&json!(true), &json!(false), &served["out"]));
    let timing = second.need("server-timing");
    assert!(timing.contains("cache;dur=") && timing.contains("signet;dur="), "{timing}");
    assert_eq!(mock.counts().requests, 1);
}

#[test]
fn a_hit_has_the_same_text_and_an_id_and_time_of_its_own() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let first = gateway.chat(&chat("Why is the sea salty?"), &[]);
    let second = gateway.chat(&chat("Why is the sea salty?"), &[]);
    second.is(200, "EXACT");
    assert_eq!(
        (first.said(), second.said()),
        (answer_text("Why is the sea salty?"), answer_text("Why is the sea salty?"))
    );
    assert_ne!(first.json()["id"], second.json()["id"]);
    assert!(second.json()["created"].as_u64() > first.json()["created"].as_u64(), "the mock's clock stands in 2023");
    assert_eq!(first.json()["usage"], second.json()["usage"]);
}

#[test]
fn namespaces_are_caches_apart() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let ask = |headers| gateway.chat(&chat("What is a fjord?"), headers);
    ask(&[]).is(200, "MISS");
    ask(&[("X-Cache-Namespace", "a")]).is(200, "MISS");
    ask(&[("X-Cache-Namespace", "b")]).is(200, "MISS");
    ask(&[("X-Cache-Namespace", "a")]).is(200, "EXACT");
    ask(&[]).is(200, "EXACT");
    assert_eq!(mock.counts().requests, 3);
}

#[test]
fn no_store_and_mode_off_neither_read_nor_store() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let request = chat("What is a delta?");
    for headers in [[("Cache-Control", "no-store")], [("X-Cache-Mode", "off")]] {
        for _ in 0..2 {
            let answer = gateway.chat(&request, &headers);
            answer.is(200, "BYPASS");
            assert_eq!(answer.need("cache-status"), "signet; fwd=bypass");
        }
    }
    gateway.chat(&request, &[]).is(200, "MISS");
    gateway.chat(&request, &[("Cache-Control", "no-store")]).is(200, "BYPASS");
    gateway.chat(&request, &[]).is(200, "EXACT");
    assert_eq!(mock.counts().requests, 6);
}

#[test]
fn no_cache_and_max_age_zero_fetch_anew_and_replace_what_is_stored() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let request = chat("What is an estuary?");
    gateway.chat(&request, &[]).is(200, "MISS");
    for value in ["no-cache", "max-age=0"] {
        let fresh = gateway.chat(&request, &[("Cache-Control", value)]);
        fresh.is(200, "REFRESH");
        assert_eq!(fresh.need("cache-status"), "signet; fwd=request; stored");
        let hit = gateway.chat(&request, &[]);
        hit.is(200, "EXACT");
        assert_eq!(hit.need("x-cache-source"), fresh.id(), "{value}");
    }
    assert_eq!(mock.counts().requests, 3);
}

#[test]
fn max_age_refuses_older_answers_and_takes_younger_ones() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let request = chat("What is a glacier?");
    gateway.chat(&request, &[]).is(200, "MISS");
    gateway.chat(&request, &[("Cache-Control", "max-age=600")]).is(200, "EXACT");
    eventually("an entry older than a second", || {
        let answer = gateway.chat(&request, &[("Cache-Control", "max-age=1, only-if-cached")]);
        (answer.status == 504).then_some(())
    });
    gateway.chat(&request, &[]).is(200, "EXACT");
    gateway.chat(&request, &[("Cache-Control", "max-age=1")]).is(200, "MISS");
}

#[test]
fn only_if_cached_never_goes_upstream() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let request = chat("What is a geyser?");
    let refused = gateway.chat(&request, &[("Cache-Control", "only-if-cached")]);
    assert_eq!(refused.refusal(504)["code"], "not_cached");
    assert_eq!(refused.need("x-should-retry"), "false");
    assert_eq!(mock.counts().requests, 0);
    gateway.chat(&request, &[]).is(200, "MISS");
    gateway.chat(&request, &[("Cache-Control", "only-if-cached")]).is(200, "EXACT");
}

#[test]
fn an_entry_lives_as_long_as_its_caller_asked() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let request = chat("What is a moraine?");
    gateway.chat(&request, &[("X-Cache-TTL", "1")]).is(200, "MISS");
    eventually("the end of the entry", || {
        let answer = gateway.chat(&request, &[("Cache-Control", "only-if-cached")]);
        if answer.status == 200 {
            let status = answer.need("cache-status");
            assert!(status.ends_with("ttl=0") || status.ends_with("ttl=1"), "{status}");
        }
        (answer.status == 504).then_some(())
    });
    gateway.chat(&request, &[]).is(200, "MISS");
}

#[test]
fn no_entry_outlives_the_operators_maximum() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("cache.ttl_s", "1").set("cache.ttl_max_s", "1").start();
    let request = chat("What is a cirque?");
    gateway.chat(&request, &[("X-Cache-TTL", "99999999999999999999")]).is(200, "MISS");
    eventually("the end of the entry", || {
        (gateway.chat(&request, &[("Cache-Control", "only-if-cached")]).status == 504).then_some(())
    });
}

#[test]
fn a_ttl_of_zero_stores_nothing() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let answer = gateway.chat(&chat("What is a col?"), &[("X-Cache-TTL", "0")]);
    answer.is(200, "MISS");
    assert_eq!(answer.need("cache-status"), "signet; fwd=miss");
    gateway.chat(&chat("What is a col?"), &[]).is(200, "MISS");
}

#[test]
fn an_answer_over_the_largest_entry_is_not_said_to_be_stored() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("cache.max_entry_bytes", "5000").start();
    let long = chat(&"what is in a long question? ".repeat(300)); // the mock repeats it
    for status in ["signet; fwd=miss", "signet; fwd=miss"] {
        assert_eq!(gateway.chat(&long, &[]).need("cache-status"), status);
    }
    assert_eq!(gateway.chat(&chat("What is a beck?"), &[]).need("cache-status"), "signet; fwd=miss; stored");
    assert_eq!(mock.counts().requests, 3);
}

#[test]
fn what_cannot_be_read_of_the_wishes_is_refused_and_goes_nowhere() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    for (name, value) in [
        ("X-Cache-Mode", "of"),
        ("X-Cache-TTL", "1h"),
        ("X-Cache-Similarity-Min", "high"),
        ("Cache-Control", "max-age=soon"),
        ("X-Cache-Namespace", "a b"),
    ] {
        let error = gateway.chat(&chat("What is a fell?"), &[(name, value)]).refusal(400);
        assert_eq!(error["param"], name, "{value}");
    }
    assert_eq!(mock.counts().requests, 0);
}

/// Asks twice what the provider spoils the first time: the second must reach it again.
#[track_caller]
fn never_stored(spoilt: &Behaviour, stream: bool) {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let request = if stream { streamed("What is a scree?") } else { chat("What is a scree?") };
    mock.script([spoilt.clone()]);
    let bad = gateway.chat(&request, &[]);
    assert_eq!(bad.header("x-cache"), Some("MISS"), "{spoilt:?}");
    let good = gateway.chat(&request, &[]);
    good.is(200, "MISS");
    assert!(good.ended_well);
    gateway.chat(&request, &[]).is(200, "EXACT");
    assert_eq!(mock.counts().requests, 2, "{spoilt:?}");
}

#[test]
fn errors_of_the_provider_are_passed_on_and_never_stored() {
    for status in [400, 401, 404, 429, 500, 503] {
        for stream in [false, true] {
            never_stored(&Behaviour::status(status), stream);
        }
    }
}

#[test]
fn answers_that_are_not_whole_are_never_stored() {
    for stream in [false, true] {
        for fault in [Fault::Length, Fault::CutAfter(3), Fault::RstAfter(3), Fault::NotJson, Fault::CloseBeforeHead] {
            never_stored(&Behaviour::fault(fault), stream);
        }
    }
    never_stored(&Behaviour::fault(Fault::ErrorEvent(2)), true);
}

#[test]
fn an_error_of_the_provider_keeps_its_status_body_and_retry_after() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    mock.script([Behaviour { retry_after: Some("7".to_owned()), ..Behaviour::status(429) }]);
    let answer = gateway.chat(&chat("What is a tarn?"), &[]);
    assert_eq!(answer.refusal(429)["code"], "rate_limit_exceeded");
    assert_eq!(answer.need("retry-after"), "7");
    assert_eq!(answer.refusal(429)["message"], "Mock error 429.");
}

#[test]
fn embeddings_are_cached_exactly_by_their_inputs() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let body = json!({"model": "e", "input": ["one", "two"]}).to_string();
    let first = gateway.post(EMBEDDINGS, &[], body.as_bytes());
    first.is(200, "MISS");
    let second = gateway.post(EMBEDDINGS, &[], body.as_bytes());
    second.is(200, "EXACT");
    assert_eq!(first.json()["data"], second.json()["data"]);
    let other = json!({"model": "e", "input": ["two", "one"]}).to_string();
    let turned = gateway.post(EMBEDDINGS, &[], other.as_bytes());
    turned.is(200, "EXACT");
    assert_eq!(turned.json()["data"][1]["embedding"], first.json()["data"][0]["embedding"]);
    let shorter = json!({"model": "e", "input": ["two", "one"], "dimensions": 64}).to_string();
    gateway.post(EMBEDDINGS, &[], shorter.as_bytes()).is(200, "MISS");
    assert_eq!(mock.counts().by_path[EMBEDDINGS], 2);
    assert!(!mock.counts().by_path.contains_key(CHAT));
}

#[test]
fn an_answer_about_now_is_kept_for_a_moment_only_unless_the_caller_says_how_long() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let kept = |prompt: &str, headers: &[(&str, &str)]| {
        gateway.chat(&chat(prompt), headers).is(200, "MISS");
        let hit = gateway.chat(&chat(prompt), &[]);
        hit.is(200, "EXACT");
        let status = hit.need("cache-status").to_owned();
        status.rsplit_once("ttl=").and_then(|(_, ttl)| ttl.parse::<u64>().ok()).expect("a lifetime")
    };
    assert!(kept("What is the weather in Oslo today?", &[]) <= 60);
    assert!(kept("And what is it there today?", &[]) <= 60, "whatever else keeps it from the semantic cache");
    assert!(kept("What is a barometer?", &[]) > 3_000);
    let reworded = gateway.chat(&chat("so what's the weather in Oslo today"), &[]);
    reworded.is(200, "SEMANTIC");
    let left = reworded.need("cache-status").rsplit_once("ttl=").and_then(|(_, ttl)| ttl.parse::<u64>().ok());
    assert!(left.is_some_and(|left| left <= 60), "no longer than the answer it stands on");
    assert!(kept("What is the weather in Bergen today?", &[("X-Cache-TTL", "900")]) > 800);
}
