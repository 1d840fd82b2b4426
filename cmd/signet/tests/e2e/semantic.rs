//! Rephrased questions: what hits, what must not, and who may ask for more caution.

use crate::gateway::{Gateway, Setup, chat, mock, with};
use serde_json::json;

const CAPITAL: &str = "What is the capital of France?";
const SAME: &str = "What's the capital of France?";

fn x_cache(gateway: &Gateway, prompt: &str) -> String {
    gateway.chat(&chat(prompt), &[]).need("x-cache").to_owned()
}

#[test]
fn the_same_words_hit_and_name_the_answer_they_stand_on() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let first = gateway.chat(&chat(CAPITAL), &[]);
    first.is(200, "MISS");
    let second = gateway.chat(&chat(SAME), &[]);
    second.is(200, "SEMANTIC");
    assert_eq!(second.need("x-cache-source"), first.id());
    assert_eq!(second.need("x-cache-similarity"), "1.000");
    assert!(second.need("cache-status").starts_with("signet; hit; detail=same-words; ttl="));
    assert_eq!(second.said(), signet_mock::answer_text(CAPITAL));
    let record = gateway.record(&second.id());
    let predicate = &record["predicate"];
    assert_eq!(predicate["cache"]["decision"], "hit_semantic");
    assert_eq!(predicate["parents"][0]["id"], first.id());
    assert_eq!(predicate["parents"][0]["rel"], "cache_source");
    assert_eq!(mock.counts().requests, 1);
    gateway.chat(&chat(SAME), &[]).is(200, "SEMANTIC");
}

#[test]
fn questions_with_another_answer_never_hit() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let pairs = [
        ("How do I turn on dark mode in the editor?", "How do I turn off dark mode in the editor?"),
        ("What was the revenue of the company in 2024?", "What was the revenue of the company in 2025?"),
        ("How do I convert USD to EUR?", "How do I convert EUR to USD?"),
        ("What is the status of dispute #D-7781?", "What is the status of dispute #D-7782?"),
        ("What is the train fare from Oslo to Bergen?", "What is the train fare from Bergen to Oslo?"),
        ("Is aspirin safe for a child?", "Is aspirin not safe for a child?"),
        ("What is the boiling point of water in Celsius?", "What is the boiling point of water in Fahrenheit?"),
        ("Explain photosynthesis in one sentence", "Explain photosynthesis in five paragraphs"),
        ("What is the capital of Norway?", "Write a haiku about the sea"),
    ];
    for (stored, asked) in pairs {
        assert_eq!(x_cache(&gateway, stored), "MISS", "{stored}");
        assert_eq!(x_cache(&gateway, asked), "MISS", "{stored} / {asked}");
    }
    assert_eq!(mock.counts().requests, 2 * pairs.len() as u64);
}

#[test]
fn questions_about_me_or_it_are_left_to_the_exact_cache() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    for (one, other) in [
        ("Where is my order?", "Where's my order?"),
        ("And what is it in Paris?", "And what's it in Paris?"),
        ("Cancel the order for the blue chair", "Please cancel the order for the blue chair"),
    ] {
        assert_eq!(x_cache(&gateway, one), "MISS", "{one}");
        assert_eq!(x_cache(&gateway, other), "MISS", "{one} / {other}");
        assert_eq!(x_cache(&gateway, one), "EXACT", "{one}");
    }
}

#[test]
fn only_one_choice_at_a_low_temperature_is_answered_semantically() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    for (more, expected) in [
        (json!({}), "SEMANTIC"),
        (json!({"temperature": 0}), "SEMANTIC"),
        (json!({"temperature": 1}), "SEMANTIC"),
        (json!({"temperature": 1.1}), "MISS"),
        (json!({"n": 2}), "MISS"),
    ] {
        gateway.chat(&with(chat(CAPITAL), more.clone()), &[]).is(200, "MISS");
        gateway.chat(&with(chat(SAME), more.clone()), &[]).is(200, expected);
    }
}

#[test]
fn the_rest_of_the_conversation_must_be_the_same() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let asked = |system: &str, question: &str| json!({"model": "m", "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}]});
    gateway.chat(&asked("Answer in French.", CAPITAL), &[]).is(200, "MISS");
    gateway.chat(&asked("Answer in German.", SAME), &[]).is(200, "MISS");
    gateway.chat(&asked("Answer in French.", SAME), &[]).is(200, "SEMANTIC");
    let parts = json!([{"type": "text", "text": SAME}, {"type": "image_url", "image_url": {"url": "https://example.org/x.png"}}]);
    let picture = with(chat(SAME), json!({"messages": [{"role": "user", "content": parts}]}));
    gateway.chat(&chat(CAPITAL), &[]).is(200, "MISS");
    gateway.chat(&picture, &[]).is(200, "MISS");
}

#[test]
fn a_caller_may_leave_semantic_answers_out_and_cannot_make_them_easier() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let far = "Which city is the seat of government of the French republic?";
    gateway.chat(&chat(CAPITAL), &[]).is(200, "MISS");
    gateway.chat(&chat(SAME), &[("X-Cache-Mode", "exact")]).is(200, "MISS");
    gateway.chat(&chat("Tell me, what is the capital of France?"), &[("X-Cache-Similarity-Min", "0")]);
    gateway.chat(&chat(far), &[("X-Cache-Similarity-Min", "0")]).is(200, "MISS");
}

#[test]
fn a_caller_may_raise_the_floor_above_what_a_neighbour_reaches() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("semantic.similarity_min", "0.8").start();
    let (stored, near) = ("How do I choose a lawyer in a small town?", "How do I select an attorney in a small town?");
    gateway.chat(&chat(stored), &[]).is(200, "MISS");
    let hit = gateway.chat(&chat(near), &[]);
    hit.is(200, "SEMANTIC");
    assert!(hit.need("cache-status").contains("detail=vector"));
    let similarity: f32 = hit.need("x-cache-similarity").parse().expect("a number");
    assert!((0.8..0.97).contains(&similarity), "{similarity}");
    let record = gateway.record(&hit.id());
    assert_eq!(record["predicate"]["cache"]["tier"], "vector");
    assert!(record["predicate"]["cache"]["score_e6"].as_u64().is_some_and(|score| score >= 800_000));
    gateway.chat(&chat(near), &[("X-Cache-Similarity-Min", "0.97"), ("Cache-Control", "only-if-cached")]).refusal(504);
    gateway.chat(&chat(near), &[("X-Cache-Similarity-Min", "0.1")]).is(200, "SEMANTIC");
}

#[test]
fn a_semantic_hit_never_prolongs_the_life_of_its_source() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    gateway.chat(&chat(CAPITAL), &[("X-Cache-TTL", "2")]).is(200, "MISS");
    gateway.chat(&chat(SAME), &[("X-Cache-TTL", "600")]).is(200, "SEMANTIC");
    crate::gateway::eventually("the end of the source", || {
        let answer = gateway.chat(&chat(SAME), &[("X-Cache-TTL", "600"), ("Cache-Control", "only-if-cached")]);
        (answer.status == 504).then_some(())
    });
}

#[test]
fn shadow_decides_and_records_but_serves_the_fresh_answer() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("semantic.mode", "shadow").start();
    gateway.chat(&chat(CAPITAL), &[]).is(200, "MISS");
    let answer = gateway.chat(&chat(SAME), &[]);
    answer.is(200, "MISS");
    assert_eq!(answer.said(), signet_mock::answer_text(SAME));
    assert_eq!(gateway.record(&answer.id())["predicate"]["cache"]["tier"], "same-words");
    assert_eq!(mock.counts().requests, 2);
}

#[test]
fn switched_off_it_answers_nothing() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("semantic.mode", "off").start();
    gateway.chat(&chat(CAPITAL), &[]).is(200, "MISS");
    gateway.chat(&chat(SAME), &[]).is(200, "MISS");
}

#[test]
fn a_model_may_be_in_shadow_or_off_while_others_are_served() {
    let mock = mock();
    let mut setup = Setup::on(&mock);
    for (number, (name, mode)) in [("loud", "on"), ("quiet", "shadow"), ("mute", "off")].into_iter().enumerate() {
        let key = |part: &str| format!("model.{number}.{part}");
        setup = setup.set(&key("name"), name).set(&key("semantic_mode"), mode);
        setup = setup.set(&key("targets.0.provider"), "mock").set(&key("targets.0.model"), name);
    }
    let gateway = setup.start();
    for (model, expected, verdict) in [
        ("loud", "SEMANTIC", json!("same-words")),
        ("quiet", "MISS", json!("same-words")),
        ("mute", "MISS", json!(null)),
    ] {
        let ask = |prompt: &str| gateway.chat(&with(chat(prompt), json!({ "model": model })), &[]);
        ask(CAPITAL).is(200, "MISS");
        let asked = ask(SAME);
        asked.is(200, expected);
        let cache = gateway.record(&asked.id())["predicate"]["cache"].clone();
        assert_eq!(cache["tier"], verdict, "{cache}");
        assert_eq!(cache["ineligible"], if model == "mute" { json!("off") } else { json!(null) });
    }
}
