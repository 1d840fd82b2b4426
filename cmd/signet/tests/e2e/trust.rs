//! Sampled hits: checked behind the request, labelled, and what the labels do to a route.

use crate::client::ask;
use crate::gateway::{Gateway, Setup, chat, eventually, mock, streamed};
use crate::stack::fresh_database;
use serde_json::{Value, json};
use signet_mock::{Behaviour, MockUpstream};
use std::fs;
use tempfile::TempDir;

const COUNTRIES: [&str; 5] = ["France", "Norway", "Peru", "Kenya", "Japan"];

fn asked(country: &str) -> String {
    format!("What is the capital of {country}?")
}

fn rephrased(country: &str) -> String {
    format!("What's the capital of {country}?")
}

fn every_hit_is_checked(mock: &MockUpstream) -> Setup {
    Setup::on(mock).set("semantic.sample_share", "1")
}

/// From now on prompts that contain `when` are answered with `text`.
fn says(mock: &MockUpstream, when: &str, text: &str) {
    let (when, text) = (Some(when.to_owned()), Some(text.to_owned()));
    mock.script([Behaviour { when, text, times: Some(1_000), ..Behaviour::default() }]);
}

fn labels(gateway: &Gateway, verdict: &str, evidence: &str) -> u64 {
    gateway.metric(&format!("signet_semantic_labels_total{{verdict=\"{verdict}\",evidence=\"{evidence}\"}}"))
}

#[track_caller]
fn until_labelled(gateway: &Gateway, verdict: &str, evidence: &str, count: u64) {
    eventually("a label", || (labels(gateway, verdict, evidence) == count).then_some(()));
}

#[track_caller]
fn until_route_is(gateway: &Gateway, state: &str) {
    let name = format!("signet_semantic_trust{{route=\"other\",state=\"{state}\"}}");
    eventually(state, || (gateway.metric(&name) == 1).then_some(()));
}

/// Two questions that one answer serves; the verdict on the second.
#[track_caller]
fn second_of_two(gateway: &Gateway, country: &str) -> String {
    gateway.chat(&chat(&asked(country)), &[]).is(200, "MISS");
    gateway.chat(&chat(&rephrased(country)), &[]).need("x-cache").to_owned()
}

#[test]
fn a_sampled_hit_is_answered_afresh_and_labelled_right_where_the_answers_agree() {
    let mock = mock();
    says(&mock, "capital of", "Oslo.");
    let gateway = every_hit_is_checked(&mock).start();
    let first = gateway.chat(&chat(&asked("Norway")), &[]);
    let second = gateway.chat(&chat(&rephrased("Norway")), &[]);
    second.is(200, "MISS");
    assert_eq!(mock.counts().requests, 2);
    until_labelled(&gateway, "right", "texts", 1);
    let record = gateway.record_where(|record| record["predicate"]["kind"] == "label");
    let control = &record["predicate"]["control"];
    assert_eq!((&control["of"], &control["source"]), (&json!(second.id()), &json!(first.id())));
    assert_eq!((&control["verdict"], &control["score_e6"]), (&json!("right"), &json!(1_000_000)));
    assert_eq!(gateway.record(&second.id())["predicate"]["cache"]["tier"], "same-words");
    assert_eq!(gateway.metric("signet_semantic_decisions_total{tier=\"same-words\",verdict=\"sampled\"}"), 1);
    until_route_is(&gateway, "collecting");
}

#[test]
fn streams_are_compared_as_well() {
    let mock = mock();
    says(&mock, "capital of", "Oslo.");
    let gateway = every_hit_is_checked(&mock).start();
    gateway.chat(&streamed(&asked("Norway")), &[]);
    gateway.chat(&streamed(&rephrased("Norway")), &[]);
    until_labelled(&gateway, "right", "texts", 1);
}

#[test]
fn shadow_decisions_are_labelled_and_callers_who_want_only_stored_answers_are_not_drawn() {
    let mock = mock();
    says(&mock, "capital of", "Oslo.");
    let gateway = every_hit_is_checked(&mock).set("semantic.mode", "shadow").start();
    assert_eq!(second_of_two(&gateway, "Norway"), "MISS");
    until_labelled(&gateway, "right", "texts", 1);
    let gateway = every_hit_is_checked(&mock).start();
    gateway.chat(&chat(&asked("Norway")), &[]).is(200, "MISS");
    gateway.chat(&chat(&rephrased("Norway")), &[("Cache-Control", "only-if-cached")]).is(200, "SEMANTIC");
}

#[test]
fn without_a_judge_or_a_clear_word_of_it_different_texts_prove_nothing() {
    let mock = mock();
    let gateway = every_hit_is_checked(&mock).start();
    assert_eq!(second_of_two(&gateway, "Norway"), "MISS");
    until_labelled(&gateway, "unknown", "texts", 1);

    let gateway = every_hit_is_checked(&mock).set("semantic.judge", "a-judge").start();
    says(&mock, "\"stored\"", "Hard to say, yes.");
    assert_eq!(second_of_two(&gateway, "Norway"), "MISS");
    until_labelled(&gateway, "unknown", "judge", 1);
    assert!(gateway.metric("signet_tokens_total{kind=\"output_judge\"}") > 0);
    mock.reset();
    let when = Some("\"stored\"".to_owned());
    mock.script([Behaviour { when, ..Behaviour::status(500) }]);
    assert_eq!(second_of_two(&gateway, "Peru"), "MISS");
    until_labelled(&gateway, "unknown", "judge", 2);
}

#[test]
fn a_judge_is_asked_as_itself_and_its_yes_counts() {
    let mock = mock();
    says(&mock, "\"stored\"", "Yes.");
    let gateway = every_hit_is_checked(&mock).set("semantic.judge", "a-judge").start();
    assert_eq!(second_of_two(&gateway, "Norway"), "MISS");
    until_labelled(&gateway, "right", "judge", 1);
    let asked = mock.requests().into_iter().find(|seen| String::from_utf8_lossy(&seen.body).contains("a-judge"));
    let body: Value = serde_json::from_slice(&asked.expect("the judge was asked").body).expect("JSON");
    let data = body["messages"][1]["content"].as_str().expect("a text");
    let data: Value = serde_json::from_str(data).expect("the texts are JSON strings");
    assert_eq!(data["question"], rephrased("Norway"));
    assert_eq!(data["stored"], signet_mock::answer_text(&self::asked("Norway")));
    assert_eq!(data["fresh"], signet_mock::answer_text(&rephrased("Norway")));
    let record = gateway.record_where(|record| record["predicate"]["kind"] == "label");
    assert_eq!(record["predicate"]["control"]["judge_said"], "yes");
}

#[test]
fn wrong_hits_send_the_route_to_shadow_until_an_operator_says_otherwise_and_a_restart_changes_nothing() {
    let mock = mock();
    says(&mock, "\"stored\"", "no");
    let folder = TempDir::new().expect("a folder");
    let setup = every_hit_is_checked(&mock).set("semantic.judge", "a-judge").within(folder.path());
    let gateway = setup.start();
    for country in COUNTRIES {
        assert_eq!(second_of_two(&gateway, country), "MISS");
    }
    until_labelled(&gateway, "wrong", "judge", 5);
    until_route_is(&gateway, "alarm");
    drop(gateway.stop());

    let gateway = setup.set("semantic.judge", "").set("semantic.sample_share", "0").start();
    until_route_is(&gateway, "alarm");
    assert_eq!(second_of_two(&gateway, "Chile"), "MISS", "nothing is drawn, and still nothing is served");
    assert_eq!(gateway.metric("signet_semantic_decisions_total{tier=\"same-words\",verdict=\"shadow\"}"), 1);
    assert_eq!(gateway.status()["routes"][0]["state"], "alarm");

    let token = fs::read_to_string(gateway.data.join("admin.token")).expect("a token");
    let headers = [("Authorization", &*format!("Bearer {}", token.trim())), ("Content-Type", "application/json")];
    let order = |body: &[u8]| ask(gateway.admin, "POST", "/admin/v1/semantic/reset", &headers, body).status;
    assert_eq!(order(b"{}"), 400);
    assert_eq!(order(br#"{"model":"m"}"#), 200);
    until_route_is(&gateway, "collecting");
    assert_eq!(second_of_two(&gateway, "Ghana"), "SEMANTIC");
    let order = gateway.record_where(|record| record["predicate"]["kind"] == "config");
    assert_eq!(order["predicate"]["control"]["trust_reset"], "m");
}

#[test]
fn a_complaint_of_a_semantic_hit_tells_against_its_route_and_praise_does_not() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("semantic.sample_share", "0.000001").start();
    let feedback = |country: &str, verdict: &str| {
        gateway.chat(&chat(&asked(country)), &[]).is(200, "MISS");
        let hit = gateway.chat(&chat(&rephrased(country)), &[]);
        hit.is(200, "SEMANTIC");
        let body = json!({"cache": verdict}).to_string();
        gateway.post(&format!("/v1/lineage/{}/feedback", hit.id()), &[], body.as_bytes()).status
    };
    assert_eq!(feedback("Norway", "right"), 200);
    assert_eq!(feedback("Peru", "wrong"), 200);
    until_labelled(&gateway, "wrong", "feedback", 1);
    eventually("the label in the route", || (gateway.status()["routes"][0]["labels"] == 1).then_some(()));
}

#[test]
fn labels_lower_the_floor_for_a_model_never_under_its_own_and_are_told_apart_by_tier() {
    let mock = mock();
    let (stored, near) = ("How do I choose a lawyer in a small town?", "How do I select an attorney in a small town?");
    says(&mock, "small town", "By asking around.");
    let folder = TempDir::new().expect("a folder");
    let mut setup = every_hit_is_checked(&mock).within(folder.path()).set("semantic.similarity_lowest", "0.8");
    // At a half, one right label is enough.
    setup = setup.set("semantic.max_false_share", "0.5").set("model.1.similarity_min", "0.98");
    for (number, name) in ["loose", "strict"].into_iter().enumerate() {
        let key = |part: &str| format!("model.{number}.{part}");
        setup = setup.set(&key("name"), name);
        setup = setup.set(&key("targets.0.provider"), "mock").set(&key("targets.0.model"), name);
    }
    let gateway = setup.start();
    let ask = |gateway: &Gateway, model: &str, prompt: &str| {
        let request = crate::gateway::with(chat(prompt), json!({ "model": model }));
        gateway.chat(&request, &[]).need("x-cache").to_owned()
    };
    for model in ["loose", "strict"] {
        assert_eq!(ask(&gateway, model, stored), "MISS");
        assert_eq!(ask(&gateway, model, near), "MISS", "drawn, or under the floor");
        assert_eq!(ask(&gateway, model, "How do I choose a lawyer in a small town, please?"), "MISS", "drawn");
    }
    let route = |gateway: &Gateway, model: &str| {
        let status = gateway.status();
        let routes = status["routes"].as_array().expect("routes").clone();
        routes.into_iter().find(|route| route["model"] == model).unwrap_or_default()
    };
    eventually("labels of both tiers", || (route(&gateway, "loose")["labels"] == 2).then_some(()));
    eventually("a label", || (route(&gateway, "strict")["labels"] == 1).then_some(()));
    let loose = route(&gateway, "loose");
    let one = json!({"right": 1, "wrong": 0, "unknown": 0});
    assert_eq!((&loose["mode"], &loose["floor_e6"]), (&json!("on"), &json!(800_000)));
    assert_eq!(loose["tiers"], json!({"same-words": one, "vector": one}));
    assert_eq!(route(&gateway, "strict")["floor_e6"], 980_000);
    drop(gateway.stop());

    let gateway = setup.set("semantic.sample_share", "0").start();
    assert_eq!(route(&gateway, "loose"), loose);
    for (model, expected) in [("loose", "SEMANTIC"), ("strict", "MISS")] {
        let other = near.replace("small", "large");
        assert_eq!(ask(&gateway, model, &stored.replace("small", "large")), "MISS");
        assert_eq!(ask(&gateway, model, &other), expected, "{model}");
    }
}

#[test]
fn replicas_learn_each_others_labels() {
    let mock = mock();
    says(&mock, "\"stored\"", "no");
    let setup = every_hit_is_checked(&mock).set("semantic.judge", "a-judge").on_services(&fresh_database(), None);
    let (one, two) = (setup.start(), setup.start());
    for (country, gateway) in COUNTRIES.iter().zip([&one, &two, &one, &two, &one]) {
        assert_eq!(second_of_two(gateway, country), "MISS");
    }
    until_route_is(&one, "alarm");
    until_route_is(&two, "alarm");
    assert_eq!(one.status()["routes"], two.status()["routes"]);
}
