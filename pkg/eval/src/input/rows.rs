//! What the fields of a row mean.

use super::{Arrival, Format, Members, Pair, Row, Unreadable};
use crate::query::Query;
use serde_json::Value;

/// Names under which data sets keep the two texts of a pair.
const TEXTS: [(&str, &str); 5] =
    [("a", "b"), ("question1", "question2"), ("sentence1", "sentence2"), ("text1", "text2"), ("prompt1", "prompt2")];
const LABELS: [&str; 3] = ["label", "is_duplicate", "same"];
const KINDS: [&str; 2] = ["category", "kind"];
const STREAM_TEXTS: [&str; 4] = ["text", "prompt", "query", "question"];
const CLUSTERS: [&str; 4] = ["cluster", "cluster_id", "answer_id", "answer"];
/// Fields that only LiteLLM's logs have.
const LITELLM: [&str; 3] = ["call_type", "standard_logging_object", "model_parameters"];

fn any<'m>(members: &'m Members, names: &[&str]) -> Option<&'m Value> {
    names.iter().find_map(|name| members.get(*name)).filter(|value| !value.is_null())
}

fn texts(members: &Members) -> Option<(&Value, &Value)> {
    TEXTS.iter().find_map(|(a, b)| members.get(*a).zip(members.get(*b)))
}

/// The form of a file whose first row has these fields.
pub(super) fn recognise(members: &Members) -> Result<Format, Unreadable> {
    if texts(members).is_some() && any(members, &LABELS).is_some() {
        return Ok(Format::Pairs);
    }
    if any(members, &LITELLM).is_some() {
        return Ok(Format::LiteLlm);
    }
    if members.contains_key("messages") || members.get("body").is_some_and(|body| body.get("messages").is_some()) {
        return Ok(Format::OpenAi);
    }
    if any(members, &STREAM_TEXTS).is_some() {
        return Ok(Format::Stream);
    }
    let names: Vec<_> = members.keys().take(12).map(String::as_str).collect();
    Err(Unreadable::Unknown(format!("the first row has the fields {}", names.join(", "))))
}

pub(super) fn read(format: Format, line: u64, members: &Members) -> Result<Row, String> {
    match format {
        // Still to be labelled by hand.
        Format::Pairs if any(members, &LABELS).is_some_and(|label| label == "") => Ok(Row::Other),
        Format::Pairs => pair(line, members).map(|pair| Row::Pair(Box::new(pair))),
        Format::Stream => stream(line, members),
        Format::OpenAi => openai(line, members),
        Format::LiteLlm => litellm(line, members),
    }
}

fn pair(line: u64, members: &Members) -> Result<Pair, String> {
    let (a, b) = texts(members).ok_or("no two texts (a, b)")?;
    let same = label(any(members, &LABELS).ok_or("no label")?)?;
    let kind = any(members, &KINDS).and_then(Value::as_str).unwrap_or("all").to_owned();
    let read = |name: &str, value| Query::read(value).map_err(|what| format!("{name}: {what}"));
    Ok(Pair { line, a: read("the first text", a)?, b: read("the second text", b)?, same, kind })
}

fn label(value: &Value) -> Result<bool, String> {
    let text = value.as_str().map_or_else(|| value.to_string(), |text| text.trim().to_lowercase());
    match text.as_str() {
        "1" | "true" | "1.0" => Ok(true),
        "0" | "false" | "0.0" => Ok(false),
        _ => Err(format!("the label is {text}, neither 0 nor 1")),
    }
}

fn arrival(line: u64, query: Query, cluster: Option<String>) -> Row {
    Row::Arrival(Box::new(Arrival { line, query, cluster }))
}

fn stream(line: u64, members: &Members) -> Result<Row, String> {
    let query = Query::read(any(members, &STREAM_TEXTS).ok_or("no text")?)?;
    let cluster = any(members, &CLUSTERS).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    Ok(arrival(line, query, cluster.filter(|cluster| !cluster.is_empty())))
}

/// A chat completion body, or a line of a batch file: `{"custom_id", "method", "url", "body"}`.
fn openai(line: u64, members: &Members) -> Result<Row, String> {
    let Some(body) = members.get("body") else {
        return Ok(arrival(line, Query::from_body(members.clone(), "")?, None));
    };
    if members.get("url").and_then(Value::as_str).is_some_and(|url| !url.ends_with("/chat/completions")) {
        return Ok(Row::Other);
    }
    let body = body.as_object().ok_or("body is not an object")?;
    Ok(arrival(line, Query::from_body(body.clone(), "")?, None))
}

/// LiteLLM's standard logging payload, by itself or in an object beside other things. The messages may be a list, or that
/// list as text.
fn litellm(line: u64, members: &Members) -> Result<Row, String> {
    let inner = members.get("standard_logging_object").and_then(Value::as_object);
    let members = inner.unwrap_or(members);
    let text = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
    let is_chat = matches!(text("call_type"), "" | "completion" | "acompletion");
    if !is_chat || text("status") == "failure" {
        return Ok(Row::Other);
    }
    let messages = match members.get("messages").ok_or("no messages")? {
        Value::String(text) => serde_json::from_str(text).map_err(|e| format!("messages: {e}"))?,
        other => other.clone(),
    };
    let parameters = members.get("model_parameters").and_then(Value::as_object);
    let mut body = parameters.cloned().unwrap_or_default();
    body.insert("messages".to_owned(), messages);
    if let Some(model) = members.get("model").filter(|model| model.is_string()) {
        body.insert("model".to_owned(), model.clone());
    }
    let key = members.get("metadata").and_then(|metadata| metadata.get("user_api_key_hash")).and_then(Value::as_str);
    Ok(arrival(line, Query::from_body(body, key.unwrap_or_default())?, None))
}
