//! Which requests are the same request.

use crate::gateway::{Gateway, Setup, chat, mock, with};
use serde_json::{Value, json};

const PROMPT: &str = "Name three rivers in Peru";

/// Exact caching only, so that a similar request does not hide a missing field.
fn exact(gateway: &Gateway, request: &str) -> String {
    let answer = gateway.post(crate::gateway::CHAT, &[("X-Cache-Mode", "exact")], request.as_bytes());
    assert_eq!(answer.status, 200, "{request}: {}", answer.text());
    answer.need("x-cache").to_owned()
}

#[test]
fn every_field_that_may_change_the_answer_is_in_the_key_unknown_ones_included() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let message = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
    let picture = |url: &str| {
        message(json!([{"type": "text", "text": PROMPT}, {"type": "image_url", "image_url": {"url": url}}]))
    };
    let variants = [
        json!({}),
        json!({"model": "other"}),
        json!({"temperature": 0.0}),
        json!({"temperature": 0.7}),
        json!({"top_p": 0.5}),
        json!({"n": 1}),
        json!({"n": 2}),
        json!({"seed": 1}),
        json!({"seed": 2}),
        json!({"max_tokens": 10}),
        json!({"max_completion_tokens": 10}),
        json!({"stop": ["x"]}),
        json!({"logit_bias": {"50256": -100}}),
        json!({"logprobs": true}),
        json!({"presence_penalty": 0.5}),
        json!({"frequency_penalty": 0.5}),
        json!({"response_format": {"type": "json_object"}}),
        json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}),
        json!({"tool_choice": "none"}),
        json!({"reasoning_effort": "low"}),
        json!({"service_tier": "flex"}),
        json!({"something_new": true}),
        json!({"messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": PROMPT}]}),
        json!({"messages": [{"role": "user", "content": PROMPT, "name": "ann"}]}),
        picture("https://example.org/a.png"),
        picture("https://example.org/b.png"),
        message(json!(format!("{PROMPT} "))),
        message(json!(PROMPT.to_lowercase())),
    ];
    for variant in &variants {
        let request = with(chat(PROMPT), variant.clone()).to_string();
        assert_eq!(exact(&gateway, &request), "MISS", "{variant}");
    }
    for variant in &variants {
        let request = with(chat(PROMPT), variant.clone()).to_string();
        // Two choices were asked for and the mock gives one: not what was asked, so not stored.
        let expected = if variant == &json!({"n": 2}) { "MISS" } else { "EXACT" };
        assert_eq!(exact(&gateway, &request), expected, "{variant}");
    }
}

#[test]
fn neutral_fields_key_order_and_white_space_are_not_in_the_key() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let base = with(chat(PROMPT), json!({"temperature": 0, "max_tokens": 5})).to_string();
    assert_eq!(exact(&gateway, &base), "MISS");
    for same in [
        with(chat(PROMPT), json!({"temperature": 0, "max_tokens": 5, "user": "u-1"})).to_string(),
        with(chat(PROMPT), json!({"temperature": 0, "max_tokens": 5, "metadata": {"a": "b"}})).to_string(),
        with(chat(PROMPT), json!({"temperature": 0, "max_tokens": 5, "stream": false})).to_string(),
        with(
            chat(PROMPT),
            json!({"temperature": 0, "max_tokens": 5, "stream": true, "stream_options": {"include_usage": true}}),
        )
        .to_string(),
        with(chat(PROMPT), json!({"temperature": 0.0, "max_tokens": 5})).to_string(),
        format!(
            "{{ \"max_tokens\" :5,\n\t\"temperature\":0.0, \"messages\":[ {{\"content\":\"{PROMPT}\" , \"role\":\"user\"}} ],\"model\":\"m\"}}"
        ),
    ] {
        assert_eq!(exact(&gateway, &same), "EXACT", "{same}");
    }
    assert_eq!(mock.counts().requests, 1);
}

#[test]
fn headers_that_reach_the_provider_are_in_the_key_unless_they_cannot_change_its_answer() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("provider.0.forward_headers", "X-Of-The-Provider").start();
    let ask = |headers: &[(&str, &str)]| {
        let answer = gateway.chat(&chat(PROMPT), &[headers, &[("X-Cache-Mode", "exact")]].concat());
        answer.need("x-cache").to_owned()
    };
    let bound: [&[(&str, &str)]; 5] = [
        &[],
        &[("OpenAI-Organization", "org-1")],
        &[("OpenAI-Organization", "org-2")],
        &[("OpenAI-Beta", "org-1")],
        &[("X-Of-The-Provider", "a")],
    ];
    for headers in bound {
        assert_eq!(ask(headers), "MISS", "{headers:?}");
    }
    for headers in bound {
        assert_eq!(ask(headers), "EXACT", "{headers:?}");
        let more = [headers, &[("User-Agent", "b"), ("X-Stainless-Retry-Count", "1"), ("traceparent", "c")]].concat();
        assert_eq!(ask(&more), "EXACT", "{more:?}");
    }
    assert_eq!(ask(&[("X-Unsent", "a")]), "EXACT", "what the provider does not see");
    assert_eq!(mock.counts().requests, 5);
}

#[test]
fn prompts_that_are_equal_for_the_first_megabyte_are_not_the_same() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let long = "word ".repeat(200_000);
    assert_eq!(exact(&gateway, &chat(&format!("{long}a")).to_string()), "MISS");
    assert_eq!(exact(&gateway, &chat(&format!("{long}b")).to_string()), "MISS");
    assert_eq!(exact(&gateway, &chat(&format!("{long}a")).to_string()), "EXACT");
}

#[test]
fn callers_with_different_credentials_never_share_an_answer() {
    let mock = mock();
    let gateway = Setup::passthrough(&mock).start();
    let ask = |key: &str| gateway.chat(&chat("What is a firth?"), &[("Authorization", key)]);
    ask("Bearer one").is(200, "MISS");
    ask("Bearer two").is(200, "MISS");
    ask("bearer one").is(200, "MISS");
    ask("Bearer one").is(200, "EXACT");
    // The same namespace does not join them, and a lowered floor does not either.
    let joined = [("Authorization", "Bearer three"), ("X-Cache-Namespace", "one"), ("X-Cache-Similarity-Min", "0")];
    gateway.chat(&chat("What is a firth?"), &joined).is(200, "MISS");
    assert_eq!(mock.counts().requests, 4);
}

#[test]
fn two_hundred_distinct_prompts_at_once_each_get_their_own_answer() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    std::thread::scope(|scope| {
        for worker in 0..20 {
            let gateway = &gateway;
            scope.spawn(move || {
                for n in 0..10 {
                    let prompt = format!("Question number {worker}-{n}, please");
                    for _ in 0..2 {
                        let answer = gateway.chat(&chat(&prompt), &[]);
                        assert_eq!(answer.said(), signet_mock::answer_text(&prompt));
                    }
                }
            });
        }
    });
    assert_eq!(mock.counts().requests, 200);
}

#[test]
fn an_alias_that_is_mapped_to_another_model_finds_nothing_of_the_old_one() {
    let mock = mock();
    let folder = tempfile::TempDir::new().expect("a folder");
    let mapped = |model: &str| {
        let setup = Setup::on(&mock).within(folder.path()).set("model.0.name", "fast");
        setup.set("model.0.targets.0.provider", "mock").set("model.0.targets.0.model", model).start()
    };
    let request = with(chat("What is a sound?"), json!({"model": "fast"}));
    let first = mapped("small-1");
    first.chat(&request, &[]).is(200, "MISS");
    first.chat(&request, &[]).is(200, "EXACT");
    drop(first.stop());
    let second = mapped("small-2");
    second.chat(&request, &[]).is(200, "MISS");
    assert!(mock.requests().last().is_some_and(|seen| String::from_utf8_lossy(&seen.body).contains("small-2")));
    assert_eq!(second.chat(&chat("What is a sound?"), &[]).refusal(404)["code"], "model_not_found");
}

#[test]
fn the_key_in_a_record_changes_with_what_is_generated() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let key = |more: serde_json::Value| {
        let answer = gateway.chat(&with(chat(PROMPT), more), &[("X-Cache-Mode", "exact")]);
        let key = gateway.record(&answer.id())["predicate"]["cache"]["key_fp"].clone();
        assert!(key.is_string() || key.is_object(), "{key}");
        key.to_string()
    };
    let variants =
        [json!({}), json!({"temperature": 0}), json!({"temperature": 0.1}), json!({"seed": 1}), json!({"model": "n"})];
    let keys: Vec<String> = variants.iter().cloned().map(key).collect();
    let distinct: std::collections::BTreeSet<&String> = keys.iter().collect();
    assert_eq!(distinct.len(), variants.len(), "{keys:?}");
    assert_eq!(variants.into_iter().map(key).collect::<Vec<_>>(), keys, "and with nothing else");
}
