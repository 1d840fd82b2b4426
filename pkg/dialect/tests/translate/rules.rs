//! The list of what is mapped, left out or refused: true, whole, and the one in the documents.

use super::{DEFAULTS, WANTED, ask, golden, value};
use bytes::Bytes;
use serde_json::{Value, json};
use signet_dialect::{Api, Defaults, Fate, RULES, translate_request, translate_stream, translate_whole};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The pairs that have rules.
fn ruled() -> BTreeSet<(Api, Api)> {
    RULES.iter().map(|rule| (rule.from, rule.to)).collect()
}

fn pair_of(from: Api, to: Api) -> String {
    format!("{}-to-{}", from.name(), to.name())
}

/// A small request of `api` with these fields.
fn small(api: Api, changes: &[&Value]) -> Value {
    let mut body = match api {
        Api::Chat => json!({"model": "m", "messages": [{"role": "user", "content": "Hello"}]}),
        Api::Messages => json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}),
        Api::Responses => json!({"model": "m", "input": "Hello", "store": false}),
        _ => json!({"model": "m", "prompt": "Hello"}),
    };
    for (key, value) in changes.iter().filter_map(|change| change.as_object()).flatten() {
        body[key] = value.clone();
    }
    body
}

/// `path` without the places in its arrays.
fn general(path: &str) -> String {
    let pieces = path.split('[').map(|piece| piece.split_once(']').map_or(piece, |(_, behind)| behind));
    pieces.collect::<Vec<_>>().join("[]")
}

#[test]
fn what_cannot_be_said_is_refused_by_name_and_every_line_of_the_list_is_true() {
    for (from, to) in ruled() {
        let pair = pair_of(from, to);
        let mut seen = BTreeSet::new();
        for golden in value(&golden(&pair, "refused.json")).as_array().expect("a list") {
            let param = golden["param"].as_str().expect("a param");
            let refusal = ask(from, to, &small(from, &[&golden["change"]])).expect_err(param);
            assert_eq!(refusal.param.as_deref(), Some(param), "{pair}: {refusal}");
            assert_eq!(refusal.code, Some("unsupported_value"), "{pair}: {param}");
            let rule = RULES.iter().find_map(|rule| match rule.fate {
                Fate::Refused(why) if (rule.from, rule.to) == (from, to) && rule.field == general(param) => Some(why),
                _ => None,
            });
            let why = rule.unwrap_or_else(|| panic!("{pair}: {param} is in no line"));
            assert!(refusal.message.contains(why), "{refusal}");
            seen.insert(general(param));
        }
        for rule in RULES.iter().filter(|rule| (rule.from, rule.to) == (from, to)) {
            if let Fate::Refused(_) = rule.fate {
                assert!(seen.contains(rule.field), "{pair}: no golden for {}", rule.field);
            }
        }
    }
}

#[test]
fn a_hint_changes_nothing_and_every_one_is_in_the_list() {
    for (from, to) in ruled() {
        let pair = pair_of(from, to);
        let mut seen = BTreeSet::new();
        for golden in value(&golden(&pair, "hints.json")).as_array().expect("a list") {
            let (base, change) = (&golden["base"], &golden["change"]);
            let without = ask(from, to, &small(from, &[base])).expect("a request");
            assert_eq!(ask(from, to, &small(from, &[base, change])).expect("a hint"), without, "{pair}: {change}");
            seen.insert(golden["field"].as_str().expect("a field").to_owned());
        }
        let hints =
            RULES.iter().filter(|rule| (rule.from, rule.to) == (from, to) && matches!(rule.fate, Fate::Hint(_)));
        assert_eq!(seen, hints.map(|rule| rule.field.to_owned()).collect(), "{pair}");
    }
}

#[test]
fn a_field_that_nobody_knows_is_refused_wherever_it_stands() {
    for (from, to, change, param) in [
        (Api::Chat, Api::Messages, json!({"tomorrow": 1}), "tomorrow"),
        (Api::Chat, Api::Messages, json!({"tomorrow": null}), "tomorrow"),
        (
            Api::Chat,
            Api::Messages,
            json!({"messages": [{"role": "user", "content": "a", "tomorrow": 1}]}),
            "messages[0].tomorrow",
        ),
        (Api::Chat, Api::Messages, json!({"stream_options": {"tomorrow": 1}}), "stream_options.tomorrow"),
        (Api::Messages, Api::Chat, json!({"tomorrow": 1}), "tomorrow"),
        (Api::Messages, Api::Chat, json!({"tool_choice": {"type": "auto", "tomorrow": 1}}), "tool_choice.tomorrow"),
        (
            Api::Messages,
            Api::Chat,
            json!({"system": [{"type": "text", "text": "a", "tomorrow": 1}]}),
            "system[0].tomorrow",
        ),
        (Api::Messages, Api::Chat, json!({"output_format": {"type": "json_schema"}}), "output_format"),
    ] {
        let refusal = ask(from, to, &small(from, &[&change])).expect_err(param);
        assert_eq!((refusal.param.as_deref(), refusal.code), (Some(param), Some("unsupported_value")));
    }
}

#[test]
fn a_request_that_is_wrong_in_its_own_api_is_refused_too() {
    let call = |arguments: &str| {
        let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}});
        json!({"messages": [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": ""}]})
    };
    let arguments = "messages[0].tool_calls[0].function.arguments";
    for (from, to, change, param, code) in [
        (Api::Chat, Api::Messages, call("{"), arguments, "invalid_value"),
        (Api::Chat, Api::Messages, call("[1]"), arguments, "invalid_value"),
        (Api::Chat, Api::Messages, json!({"max_tokens": 1, "max_completion_tokens": 2}), "max_tokens", "invalid_value"),
        (Api::Chat, Api::Messages, json!({"stop": 1}), "stop", "invalid_type"),
        (Api::Chat, Api::Messages, json!({"messages": null}), "messages", "missing_required_parameter"),
        (Api::Messages, Api::Chat, json!({"max_tokens": null}), "max_tokens", "missing_required_parameter"),
        (Api::Messages, Api::Chat, json!({"system": 1}), "system", "invalid_type"),
    ] {
        let refusal = ask(from, to, &small(from, &[&change])).expect_err(param);
        assert_eq!((refusal.param.as_deref(), refusal.code), (Some(param), Some(code)), "{change}");
    }
    let body = Bytes::from(small(Api::Chat, &[]).to_string());
    let refusal = translate_request(Api::Chat, Api::Messages, &body, &Defaults::default()).expect_err("no limit");
    assert_eq!(refusal.param.as_deref(), Some("max_completion_tokens"));
    let duplicate = Bytes::from_static(br#"{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"a","url":"b"}}]}]}"#);
    let refusal = translate_request(Api::Chat, Api::Messages, &duplicate, &DEFAULTS).expect_err("a duplicate");
    assert_eq!(refusal.param.as_deref(), Some("messages[0].content[0].image_url.url"));
    assert_eq!(refusal.code, Some("duplicate_key"));
}

#[test]
fn pairs_without_a_translation_are_refused_by_the_model() {
    let body = Bytes::from(small(Api::Chat, &[]).to_string());
    for (from, to) in [(Api::Chat, Api::Responses), (Api::Messages, Api::Completions), (Api::Embeddings, Api::Chat)] {
        let refusal = translate_request(from, to, &body, &DEFAULTS).expect_err("no pair");
        assert_eq!((refusal.param.as_deref(), refusal.code), (Some("model"), Some("unsupported_for_model")));
        assert!(translate_stream(to, from, WANTED).is_none());
    }
    assert!(translate_stream(Api::Chat, Api::Chat, WANTED).is_none(), "the same API needs none");
}

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/dialects.md");

#[test]
fn the_documents_tables_are_the_codes_own_list() {
    let document = std::fs::read_to_string(DOCUMENT).expect("docs/dialects.md");
    for (from, to) in ruled() {
        let mut table = "| Field | What becomes of it |\n|---|---|\n".to_owned();
        for rule in RULES.iter().filter(|rule| (rule.from, rule.to) == (from, to)) {
            let fate = match rule.fate {
                Fate::Mapped(to) => to.to_owned(),
                Fate::Hint(values) => format!("hint, left out: {values}"),
                Fate::Refused(why) => format!("**400**: {why}"),
            };
            let _ = writeln!(table, "| `{}` | {fate} |", rule.field);
        }
        assert!(document.contains(&table), "docs/dialects.md lacks the table of {}:\n{table}", pair_of(from, to));
    }
}

/// The rows of the document's table with this heading.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let document = std::fs::read_to_string(DOCUMENT).expect("docs/dialects.md");
    let table = document.split_once(heading).unwrap_or_else(|| panic!("{heading}")).1;
    let lines =
        table.lines().skip(1).skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
    let rows: Vec<Vec<String>> = lines.skip(2).map(cells).collect();
    assert!(!rows.is_empty(), "{heading} has rows");
    rows
}

#[test]
fn the_documents_stop_reasons_are_what_is_said() {
    let answer = |pair: &str, name: &str| value(&golden(pair, name));
    for row in rows("| From messages | To chat |") {
        let mut message = answer("chat-to-messages", "text.answer.in.json");
        message["stop_reason"] = json!(row[0]);
        match translate_whole(Api::Messages, Api::Chat, WANTED, &message.to_string().into()) {
            Ok(said) => {
                let said: Value = serde_json::from_slice(&said).expect("JSON");
                assert_eq!(said["choices"][0]["finish_reason"], json!(row[1]), "{row:?}");
            }
            Err(_) => assert!(row[1].starts_with("502"), "{row:?}"),
        }
    }
    for row in rows("| From chat | To messages |") {
        let mut completion = answer("messages-to-chat", "text.answer.in.json");
        completion["choices"][0]["finish_reason"] = json!(row[0]);
        match translate_whole(Api::Chat, Api::Messages, WANTED, &completion.to_string().into()) {
            Ok(said) => {
                let said: Value = serde_json::from_slice(&said).expect("JSON");
                assert_eq!(said["stop_reason"], json!(row[1].split(',').next()), "{row:?}");
            }
            Err(_) => assert!(row[1].starts_with("502"), "{row:?}"),
        }
    }
}
