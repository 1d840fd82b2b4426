//! The wrong-hit drill: from a complaint to the decision, to everyone who was served, to an answer that is served no more.

use crate::client::{Answer, ask};
use crate::gateway::{Gateway, Setup, chat, eventually, mock, mock_with, signet};
use crate::keeper::Keeper;
use crate::stack::{Redis, fresh_database};
use serde_json::{Value, json};
use signet_mock::Behaviour;
use signet_types::{Clock as _, SystemClock};
use std::fs;
use std::process::Output;
use tempfile::TempDir;

const ASKED: &str = "What is the capital of France?";
const REPHRASED: &str = "What's the capital of France?";

fn feedback(gateway: &Gateway, id: &str, body: &Value) -> Answer {
    gateway.post(&format!("/v1/lineage/{id}/feedback"), &[], body.to_string().as_bytes())
}

fn admin(gateway: &Gateway, method: &str, path: &str, body: &Value) -> Answer {
    let token = fs::read_to_string(gateway.data.join("admin.token")).expect("a token");
    let headers = [("Authorization", &*format!("Bearer {}", token.trim())), ("Content-Type", "application/json")];
    ask(gateway.admin, method, path, &headers, body.to_string().as_bytes())
}

fn tool(gateway: &Gateway, arguments: &[&str]) -> Output {
    signet(arguments).arg("--data").arg(&gateway.data).output().expect("it runs")
}

fn said(out: &Output) -> String {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout.clone()).expect("text")
}

#[test]
fn a_wrong_hit_is_explained_followed_and_served_no_more_even_after_a_restart() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let setup = Setup::on(&mock).within(folder.path());
    let gateway = setup.start();
    let source = gateway.chat(&chat(ASKED), &[]);
    source.is(200, "MISS");
    let hit = gateway.chat(&chat(REPHRASED), &[("X-Request-Id", "complaint-7")]);
    hit.is(200, "SEMANTIC");

    let explained = said(&tool(&gateway, &["cache", "explain", "--request-id", "complaint-7"]));
    assert!(explained.starts_with(&hit.id()), "{explained}");
    for fact in ["hit_semantic", "same words", "1.000000", "0.970000", "static-256", &source.id()] {
        assert!(explained.contains(fact), "{fact}: {explained}");
    }
    assert_eq!(explained, said(&tool(&gateway, &["cache", "explain", "--lineage", &hit.id()])));
    let children = said(&tool(&gateway, &["lineage", "children", &source.id()]));
    assert_eq!(children.lines().count(), 1);
    assert!(children.starts_with(&format!("{} cache_source ", hit.id())), "{children}");

    let taken = feedback(&gateway, &hit.id(), &json!({"cache": "wrong"}));
    assert_eq!(taken.status, 200, "{}", taken.text());
    assert_eq!((&taken.json()["source"], &taken.json()["withdrawn"]), (&json!(source.id()), &json!(true)));
    gateway.chat(&chat(REPHRASED), &[("Cache-Control", "only-if-cached")]).refusal(504);
    gateway.chat(&chat(ASKED), &[("Cache-Control", "only-if-cached")]).refusal(504);
    let record = gateway.record_where(|record| record["predicate"]["kind"] == "feedback");
    let control = &record["predicate"]["control"];
    assert_eq!((&control["of"], &control["source"]), (&json!(hit.id()), &json!(source.id())));
    assert_eq!(control["verdict"], "wrong");

    drop(gateway.stop());
    let gateway = setup.start();
    gateway.chat(&chat(ASKED), &[("Cache-Control", "only-if-cached")]).refusal(504);
    gateway.chat(&chat(ASKED), &[]).is(200, "MISS");
    gateway.chat(&chat(ASKED), &[]).is(200, "EXACT");
    Keeper::of(&gateway.data).accepts(&gateway.data);
}

#[test]
fn a_right_hit_stays_and_feedback_that_cannot_be_meant_is_refused() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let source = gateway.chat(&chat(ASKED), &[]);
    assert_eq!(feedback(&gateway, &source.id(), &json!({"cache": "right"})).status, 200);
    gateway.chat(&chat(ASKED), &[]).is(200, "EXACT");
    for body in [json!({"cache": "maybe"}), json!({}), json!({"cache": "wrong", "note": "x"}), json!([])] {
        feedback(&gateway, &source.id(), &body).refusal(400);
    }
    feedback(&gateway, "01a22c6b-d9f8-7e8a-98bc-b47a7f877d5b", &json!({"cache": "wrong"})).refusal(404);
    gateway.get(&format!("/v1/lineage/{}/feedback", source.id())).refusal(405);
    gateway.chat(&chat(ASKED), &[]).is(200, "EXACT");
    assert_eq!(gateway.metric("signet_feedback_total{verdict=\"right\"}"), 1);
}

#[test]
fn a_tenant_takes_back_no_answers_but_its_own() {
    let mock = mock();
    let gateway = Setup::passthrough(&mock).start();
    let (mine, theirs) = ([("Authorization", "Bearer a")], [("Authorization", "Bearer b")]);
    let source = gateway.chat(&chat(ASKED), &theirs);
    let path = format!("/v1/lineage/{}/feedback", source.id());
    gateway.post(&path, &mine, br#"{"cache":"wrong"}"#).refusal(404);
    gateway.chat(&chat(ASKED), &theirs).is(200, "EXACT");
    gateway.post(&path, &theirs, br#"{"cache":"wrong"}"#);
    gateway.chat(&chat(ASKED), &theirs).is(200, "MISS");
}

/// What is asked within the millisecond of an order counts as asked before it.
fn later_than(purged: &Answer) {
    let ordered = purged.json()["stored_by_ms"].as_u64().expect("a moment");
    let clock = SystemClock::new();
    eventually("the next millisecond", || (clock.now_ms() > ordered).then_some(()));
}

#[test]
fn what_an_operator_purges_is_gone_and_the_rest_is_not() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let space = [("X-Cache-Namespace", "a")];
    let fill = || {
        gateway.chat(&chat("What is a fjord?"), &[]);
        gateway.chat(&chat("What is a fjord?"), &space);
    };
    let verdicts = || {
        let of = |headers: &[(&str, &str)]| gateway.chat(&chat("What is a fjord?"), headers).need("x-cache").to_owned();
        (of(&[]), of(&space))
    };
    let verdict = |plain: &str, spaced: &str| (plain.to_owned(), spaced.to_owned());
    fill();
    let purge = |body: &Value| admin(&gateway, "POST", "/admin/v1/cache/purge", body);
    for nothing in [json!({}), json!({"all": true, "model": "m"}), json!({"tenant": "x"}), json!({"older": 1})] {
        assert_eq!(purge(&nothing).status, 400, "{nothing}");
    }
    assert_eq!(verdicts(), verdict("EXACT", "EXACT"));
    for (body, expected) in [
        (json!({"namespace": "a"}), verdict("EXACT", "MISS")),
        (json!({"model": "another"}), verdict("EXACT", "EXACT")),
        (json!({"older_than_s": 3600}), verdict("EXACT", "EXACT")),
        (json!({"model": chat("")["model"]}), verdict("MISS", "MISS")),
        (json!({"all": true}), verdict("MISS", "MISS")),
    ] {
        let purged = purge(&body);
        assert_eq!(purged.status, 200, "{body}");
        later_than(&purged);
        assert_eq!(verdicts(), expected, "{body}");
    }
    let hit = gateway.chat(&chat("What is a fjord?"), &[]);
    let address = gateway.admin.to_string();
    let out = tool(&gateway, &["cache", "purge", "--admin", &address, "--id", &hit.id()]);
    assert!(said(&out).contains(hit.need("x-cache-source")));
    assert_eq!(verdicts(), verdict("MISS", "EXACT"));
    assert_eq!(tool(&gateway, &["cache", "purge", "--admin", &address]).status.code(), Some(64));
    gateway.record_where(|record| record["predicate"]["kind"] == "purge");
}

#[test]
fn replicas_learn_what_was_taken_back_and_that_semantic_answers_are_off() {
    let mock = mock();
    let (url, redis) = (fresh_database(), Redis::start());
    let setup = Setup::on(&mock).on_services(&url, Some(&redis.url()));
    let (one, two) = (setup.start(), setup.start());
    let source = one.chat(&chat(ASKED), &[]);
    source.is(200, "MISS");
    // Only if cached: or the other replica would have an answer of its own, which nobody calls wrong.
    let cached = [("Cache-Control", "only-if-cached")];
    eventually("the answer on the other replica", || (two.chat(&chat(ASKED), &cached).status == 200).then_some(()));
    assert_eq!(feedback(&one, &source.id(), &json!({"cache": "wrong"})).status, 200);
    eventually("the notice on the other replica", || (two.chat(&chat(ASKED), &cached).status == 504).then_some(()));
    let late = setup.start();
    late.chat(&chat(ASKED), &cached).refusal(504);

    two.chat(&chat(ASKED), &[]).is(200, "MISS");
    two.chat(&chat(REPHRASED), &[]).is(200, "SEMANTIC");
    assert_eq!(admin(&one, "PUT", "/admin/v1/semantic", &json!({"off": true})).status, 200);
    eventually("the switch", || (two.status()["semantic_off"] == true).then_some(()));
    two.chat(&chat(REPHRASED), &[]).is(200, "MISS");
    assert_eq!(admin(&two, "PUT", "/admin/v1/semantic", &json!({"off": false})).status, 200);
    eventually("the switch back", || (one.status()["semantic_off"] == false).then_some(()));
}

#[test]
fn an_erased_tenants_answers_can_be_read_nowhere_and_its_records_still_verify() {
    let mock = mock();
    let (url, redis) = (fresh_database(), Redis::start());
    let setup = Setup::passthrough(&mock).on_services(&url, Some(&redis.url()));
    let (one, two) = (setup.start(), setup.start());
    let (gone, stays) = ([("Authorization", "Bearer a")], [("Authorization", "Bearer b")]);
    let mut keeper = Keeper::of(&one.data);
    let first = one.chat(&chat(ASKED), &gone);
    first.is(200, "MISS");
    keeper.keep(&first);
    one.chat(&chat(ASKED), &stays).is(200, "MISS");
    for caller in [&gone, &stays] {
        eventually("the answers on the other replica", || {
            (two.chat(&chat(ASKED), caller).need("x-cache") == "EXACT").then_some(())
        });
    }
    let tenant =
        one.record_as(&first.id(), &gone)["predicate"]["caller"]["tenant"].as_str().expect("a tenant").to_owned();
    assert_eq!(admin(&one, "DELETE", "/admin/v1/tenants/x", &json!({})).status, 400);
    let erased = admin(&one, "DELETE", &format!("/admin/v1/tenants/{tenant}"), &json!({}));
    assert_eq!((erased.status, erased.json()), (200, json!({ "keys": 1 })), "{}", erased.text());
    let cached = |caller: &[(&'static str, &'static str)]| [caller, &[("Cache-Control", "only-if-cached")]].concat();
    one.chat(&chat(ASKED), &cached(&gone)).refusal(504);
    eventually("the notice on the other replica", || {
        (two.chat(&chat(ASKED), &cached(&gone)).status == 504).then_some(())
    });
    setup.start().chat(&chat(ASKED), &cached(&gone)).refusal(504);
    two.chat(&chat(ASKED), &stays).is(200, "EXACT");
    let again = one.chat(&chat(ASKED), &gone);
    again.is(200, "MISS");
    assert_eq!(one.record_as(&again.id(), &gone)["predicate"]["caller"]["key_epoch"], 2);
    one.chat(&chat(ASKED), &gone).is(200, "EXACT");
    eventually("shipping", || {
        let log = one.status()["log"].clone();
        (log["shipped_seq"].as_u64() == log["next_seq"].as_u64()).then_some(())
    });
    drop((one.stop(), two.stop()));
}

#[test]
fn an_answer_on_its_way_is_taken_back_as_well() {
    let mock = mock_with(Behaviour { latency_ms: Some(700), ..Behaviour::default() });
    let gateway = Setup::on(&mock).start();
    let mut asking = gateway.begin(&chat(ASKED), &[]);
    eventually("the call upstream", || (mock.counts().requests == 1).then_some(()));
    assert_eq!(admin(&gateway, "POST", "/admin/v1/cache/purge", &json!({"all": true})).status, 200);
    asking.answer().is(200, "MISS");
    gateway.chat(&chat(ASKED), &[("Cache-Control", "only-if-cached")]).refusal(504);
}
