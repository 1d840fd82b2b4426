//! A batch of embeddings costs what is new in it.

use crate::client::{Answer, ask};
use crate::gateway::{EMBEDDINGS, Gateway, Setup, eventually, mock};
use crate::keeper::Keeper;
use crate::stack::Redis;
use serde_json::{Value, json};
use signet_mock::{Behaviour, Fault, MockUpstream};
use tempfile::TempDir;

fn embed(gateway: &Gateway, input: &Value, headers: &[(&str, &str)]) -> Answer {
    gateway.post(EMBEDDINGS, headers, json!({"model": "e", "input": input}).to_string().as_bytes())
}

/// The inputs of the last request that the provider saw.
fn asked(mock: &MockUpstream) -> Value {
    let seen = mock.requests();
    let last = seen.last().expect("a request");
    serde_json::from_slice::<Value>(&last.body).expect("JSON")["input"].take()
}

fn vectors(answer: &Answer) -> Vec<Value> {
    let data = answer.json()["data"].take();
    let data = data.as_array().expect("a list");
    assert!(data.iter().enumerate().all(|(i, vector)| vector["index"] == i), "{data:?}");
    data.iter().map(|vector| vector["embedding"].clone()).collect()
}

#[test]
fn of_a_batch_of_which_three_are_known_the_provider_sees_the_other_two_in_their_order() {
    let (mock, data) = (mock(), TempDir::new().expect("a folder"));
    let gateway = Setup::on(&mock).within(data.path()).start();
    let alone = embed(&gateway, &json!("b"), &[]);
    let two = embed(&gateway, &json!(["d", "e"]), &[]);
    two.is(200, "MISS");
    assert_eq!(two.need("cache-status"), "signet; fwd=miss; stored");
    let part = embed(&gateway, &json!(["a", "b", "c", "d", "e"]), &[]);
    part.is(200, "MISS");
    assert_eq!(part.need("cache-status"), "signet; fwd=partial; stored");
    assert_eq!(asked(&mock), json!(["a", "c"]));
    let record = gateway.record(&part.id())["predicate"].take();
    let parents: Vec<&Value> = record["parents"].as_array().expect("parents").iter().map(|edge| &edge["id"]).collect();
    assert_eq!(parents, [&json!(alone.id()), &json!(two.id())]);
    let usage = part.json()["usage"].take();
    assert_eq!((&record["usage"]["in"], &record["usage"]["billed"]), (&usage["prompt_tokens"], &json!(true)));
    let whole = embed(&gateway, &json!(["a", "b", "c", "d", "e"]), &[("Cache-Control", "no-store")]);
    whole.is(200, "BYPASS");
    assert_eq!(vectors(&part), vectors(&whole));
    assert!(usage["prompt_tokens"].as_u64() < whole.json()["usage"]["prompt_tokens"].as_u64());
    let calls = mock.counts().requests;
    let hit = embed(&gateway, &json!(["e", "a", "e"]), &[("Cache-Control", "only-if-cached")]);
    hit.is(200, "EXACT");
    assert_eq!(hit.json()["usage"], json!({"prompt_tokens": 0, "total_tokens": 0}));
    let known = vectors(&whole);
    assert_eq!(vectors(&hit), [known[4].clone(), known[0].clone(), known[4].clone()]);
    embed(&gateway, &json!("c"), &[]).is(200, "EXACT");
    assert_eq!(embed(&gateway, &json!(["a", "z"]), &[("Cache-Control", "only-if-cached")]).status, 504);
    assert_eq!(mock.counts().requests, calls);
    drop(gateway.stop());
    let (code, said) = Keeper::of(data.path()).verify(&["--data", data.path().to_str().expect("a name")]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn an_input_that_comes_twice_is_asked_for_once_and_a_failure_is_the_callers_to_see() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let twice = embed(&gateway, &json!(["x", "y", "x"]), &[]);
    twice.is(200, "MISS");
    assert_eq!(asked(&mock), json!(["x", "y"]));
    let vectors = vectors(&twice);
    assert_eq!(vectors[0], vectors[2]);
    assert_ne!(vectors[0], vectors[1]);
    mock.script([Behaviour::status(400)]);
    assert_eq!(embed(&gateway, &json!(["x", "w"]), &[]).status, 400);
    embed(&gateway, &json!(["x", "w"]), &[("Cache-Control", "no-cache")]).is(200, "REFRESH");
    assert_eq!(asked(&mock), json!(["x", "w"]));
    embed(&gateway, &json!(["x", "w"]), &[("X-Cache-Namespace", "other")]).is(200, "MISS");
    assert_eq!(asked(&mock), json!(["x", "w"]), "nothing is known in another namespace");
}

#[test]
fn what_one_replica_embedded_another_finds_in_redis() {
    let mock = mock();
    let redis = Redis::start();
    let setup = Setup::on(&mock).set("redis.url", &redis.url()).set("cache.persist", "false");
    let folder = TempDir::new().expect("a folder");
    let setup = setup.within(folder.path());
    let one = setup.start();
    let input = json!(["a", "c", "e"]);
    eventually("the entries in Redis", || {
        embed(&one, &input, &[("Cache-Control", "no-cache")]).is(200, "REFRESH");
        (redis.keys() == 3).then_some(())
    });
    drop(one.stop());
    let other = setup.start();
    eventually("hits from Redis", || {
        (embed(&other, &input, &[("Cache-Control", "only-if-cached")]).status == 200).then_some(())
    });
    let part = embed(&other, &json!(["a", "b", "c", "d", "e"]), &[]);
    part.is(200, "MISS");
    assert_eq!(asked(&mock), json!(["b", "d"]));
}

#[test]
fn a_stored_answer_to_the_missing_part_never_stands_for_the_batch_when_the_provider_fails() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("cache.stale_if_error_s", "600").start();
    embed(&gateway, &json!(["b"]), &[]).is(200, "MISS");
    embed(&gateway, &json!("a"), &[]).is(200, "MISS");
    mock.script([Behaviour::status(500)]);
    assert_eq!(embed(&gateway, &json!(["a", "b"]), &[]).status, 500);
    assert_eq!(asked(&mock), json!(["b"]));
}

#[test]
fn a_batch_of_which_every_input_was_stored_is_served_past_their_lifetime_while_the_provider_fails() {
    let (mock, data) = (mock(), TempDir::new().expect("a folder"));
    let gateway = Setup::on(&mock).within(data.path()).set("cache.stale_if_error_s", "600").start();
    let second = [("X-Cache-TTL", "1")];
    let stored = embed(&gateway, &json!(["a", "b"]), &second);
    stored.is(200, "MISS");
    eventually("the end of the entries", || {
        (embed(&gateway, &json!(["a", "b"]), &[("Cache-Control", "only-if-cached")]).status == 504).then_some(())
    });
    let fresh = embed(&gateway, &json!("c"), &[]);
    let input = json!(["a", "b", "c", "a"]);
    for failure in [Behaviour::status(500), Behaviour::fault(Fault::CloseBeforeHead)] {
        mock.script([failure]);
        let stale = embed(&gateway, &input, &[]);
        stale.is(200, "STALE");
        assert!(stale.need("cache-status").starts_with("signet; hit; detail=stale; ttl="), "{:?}", stale.headers);
        assert_eq!(asked(&mock), json!(["a", "b"]), "what is missing was asked for");
        let (all, two, one) = (vectors(&stale), vectors(&stored), vectors(&fresh));
        assert_eq!(all, [two[0].clone(), two[1].clone(), one[0].clone(), two[0].clone()]);
        let record = gateway.record(&stale.id())["predicate"].take();
        assert_eq!(record["cache"]["decision"], "stale");
        assert_eq!(record["provider"]["attempts"].as_array().map(Vec::len), Some(1), "{record}");
        assert_eq!(record["parents"].as_array().map(Vec::len), Some(2), "{record}");
        assert!(record["usage"].is_null() && record["response"]["fp"].is_string(), "{record}");
    }
    for (input, headers) in
        [(json!(["a", "b", "never"]), vec![]), (input.clone(), vec![("Cache-Control", "stale-if-error=0")])]
    {
        mock.script([Behaviour::status(500)]);
        assert_eq!(embed(&gateway, &input, &headers).status, 500, "{input}");
    }
    embed(&gateway, &input, &[]).is(200, "MISS");
    drop(gateway.stop());
    let (code, said) = Keeper::of(data.path()).verify(&["--data", data.path().to_str().expect("a name")]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_batch_from_many_records_names_64_of_them_and_says_how_many_there_are() {
    let (mock, data) = (mock(), TempDir::new().expect("a folder"));
    let gateway = Setup::on(&mock).within(data.path()).start();
    let inputs: Vec<String> = (0..66).map(|i| format!("input {i}")).collect();
    for input in &inputs {
        embed(&gateway, &json!(input), &[]).is(200, "MISS");
    }
    let few = embed(&gateway, &json!(inputs[..64]), &[]);
    let many = embed(&gateway, &json!(inputs), &[]);
    let record = |answer: &Answer| {
        answer.is(200, "EXACT");
        gateway.record(&answer.id())["predicate"].take()
    };
    let (few, many) = (record(&few), record(&many));
    assert_eq!((few["parents"].as_array().map(Vec::len), &few["cache"]["sources"]), (Some(64), &Value::Null));
    assert_eq!((many["parents"].as_array().map(Vec::len), &many["cache"]["sources"]), (Some(64), &json!(66)));
    drop(gateway.stop());
    let (code, said) = Keeper::of(data.path()).verify(&["--data", data.path().to_str().expect("a name")]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_batch_that_shares_the_call_of_another_has_an_answer_of_its_own_and_the_log_holds() {
    let (mock, data) = (mock(), TempDir::new().expect("a folder"));
    let gateway = Setup::on(&mock).within(data.path()).start();
    embed(&gateway, &json!("b"), &[]).is(200, "MISS");
    mock.script([Behaviour { latency_ms: Some(1_000), ..Behaviour::default() }]);
    let answers = std::thread::scope(|scope| {
        let leader = scope.spawn(|| embed(&gateway, &json!(["a", "c"]), &[]));
        eventually("the call", || (mock.counts().requests == 2).then_some(()));
        let followers = [json!(["a", "b", "c"]), json!(["a", "c", "b", "b"])];
        let followers = followers.map(|input| {
            scope.spawn({
                let gateway = &gateway;
                move || embed(gateway, &input, &[])
            })
        });
        let mut answers = vec![leader.join().expect("an answer")];
        answers.extend(followers.into_iter().map(|follower| follower.join().expect("an answer")));
        answers
    });
    // Whoever ends first bears the bill.
    let mut told: Vec<&str> = answers.iter().map(|answer| answer.need("x-cache")).collect();
    told.sort_unstable();
    assert_eq!(told, ["COALESCED", "COALESCED", "MISS"]);
    let records: Vec<Value> = answers.iter().map(|answer| gateway.record(&answer.id())["predicate"].take()).collect();
    let fps: Vec<&Value> = records.iter().map(|record| &record["response"]["fp"]).collect();
    assert!(fps.iter().all(|fp| fp.is_string()) && fps[1] != fps[2] && fps[0] != fps[1], "{fps:?}");
    for record in &records[1..] {
        let parents = record["parents"].as_array().expect("the record of b");
        assert!(parents.iter().all(|edge| edge["response_fp"].is_null()), "it has an answer of its own: {record}");
    }
    assert_eq!(mock.counts().requests, 2);
    drop(gateway.stop());
    let (code, said) = Keeper::of(data.path()).verify(&["--data", data.path().to_str().expect("a name")]);
    assert_eq!(code, 0, "{said}");
}

/// Reading all of a body once for each of its inputs took minutes of a thread for 20 MB.
#[test]
fn a_batch_that_would_cost_more_to_take_apart_than_to_ask_for_is_kept_as_one_answer() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("cache.max_entry_bytes", "16777216").start();
    let many: Vec<String> = (0..2049).map(|i| format!("i{i}")).collect();
    let filler = "x".repeat(400_000);
    let most = json!({"model": "e", "input": many[1..].to_vec()});
    for (body, parted) in [
        (json!({"model": "e", "input": many}), false),
        (json!({"model": "e", "input": many[..50].to_vec(), "user": filler}), false),
        (most, true),
    ] {
        let ask = || gateway.post(EMBEDDINGS, &[], body.to_string().as_bytes());
        ask().is(200, "MISS");
        assert_eq!(asked(&mock), body["input"], "it is asked for as the caller did");
        ask().is(200, "EXACT");
        let one = embed(&gateway, &json!("i7"), &[("Cache-Control", "only-if-cached")]);
        assert_eq!(one.status, if parted { 200 } else { 504 });
    }
}

#[test]
fn a_batch_that_is_wrong_takes_all_back_that_it_was_put_together_of() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let known = |input: &str| embed(&gateway, &json!(input), &[("Cache-Control", "only-if-cached")]).status == 200;
    let batch = || {
        embed(&gateway, &json!("a"), &[]).is(200, "MISS");
        embed(&gateway, &json!(["b", "c"]), &[]).is(200, "MISS");
        let batch = embed(&gateway, &json!(["a", "b", "d"]), &[]);
        batch.is(200, "MISS");
        assert!(["a", "b", "c", "d"].iter().all(|input| known(input)));
        batch.id()
    };
    let feedback = gateway.post(&format!("/v1/lineage/{}/feedback", batch()), &[], br#"{"cache":"wrong"}"#);
    assert_eq!(feedback.status, 200, "{}", feedback.text());
    assert!(!["a", "b", "c", "d"].iter().any(|input| known(input)));
    let token = std::fs::read_to_string(gateway.data.join("admin.token")).expect("a token");
    let authorization = format!("Bearer {token}");
    let headers = [("Authorization", &*authorization), ("Content-Type", "application/json")];
    let order = json!({"id": batch()}).to_string();
    let purged = ask(gateway.admin, "POST", "/admin/v1/cache/purge", &headers, order.as_bytes());
    assert_eq!(purged.status, 200, "{}", purged.text());
    assert!(!["a", "b", "c", "d"].iter().any(|input| known(input)));
}
