//! Output items: which of them can be served in both forms, and what they look like before they are filled.

use signet_openai::Layer;
use signet_openai::wire::{Json, Member, duplicate, get};

/// Whether `layer` may keep an answer with this item, and whether the item answers at all (reasoning does not).
pub(super) fn storable(item: &Json<'_>, layer: Layer) -> Result<bool, &'static str> {
    let fields = item.as_object().ok_or("an unknown output item")?;
    let text = |key: &str| get(fields, key).and_then(Json::as_str);
    if duplicate(fields).is_some() || text("id").is_none() {
        return Err("an unknown output item");
    }
    match text("status") {
        Some("completed") | None => {}
        Some(_) => return Err("an unfinished output item"),
    }
    match text("type") {
        Some("message") => message(get(fields, "content"), layer),
        Some("function_call") if layer == Layer::Semantic => Err("tool calls"),
        Some("function_call") if ["call_id", "name", "arguments"].iter().all(|key| text(key).is_some()) => Ok(true),
        Some("reasoning") => reasoning(fields),
        _ => Err("an unknown output item"),
    }
}

fn message(content: Option<&Json<'_>>, layer: Layer) -> Result<bool, &'static str> {
    let mut answers = false;
    for part in content.and_then(Json::as_array).ok_or("an unknown output item")? {
        if part.as_object().is_none_or(|fields| duplicate(fields).is_some()) {
            return Err("an unknown content part");
        }
        let text = |key: &str| part.get(key).and_then(Json::as_str).ok_or("an unknown content part");
        let said = match text("type")? {
            "output_text" => text("text")?,
            "refusal" if layer == Layer::Semantic => return Err("a refusal"),
            "refusal" => text("refusal")?,
            _ => return Err("an unknown content part"),
        };
        answers |= !said.trim().is_empty();
    }
    Ok(answers)
}

fn reasoning(fields: &[Member<'_>]) -> Result<bool, &'static str> {
    let known = |key: &str, kind: &str| match get(fields, key) {
        None | Some(Json::Null) => true,
        Some(Json::Array(parts)) => parts.iter().all(|part| {
            let text = |key: &str| part.get(key).and_then(Json::as_str);
            part.as_object().is_some_and(|fields| duplicate(fields).is_none())
                && text("type") == Some(kind)
                && text("text").is_some()
        }),
        Some(_) => false,
    };
    let whole = known("summary", "summary_text") && known("content", "reasoning_text");
    if whole { Ok(false) } else { Err("an unknown content part") }
}

/// The item as it is announced: nothing in it yet.
pub(super) fn opening<'a>(item: &Json<'a>) -> Json<'a> {
    emptied(item, |key, value| match (key, value) {
        ("status", Json::String(_)) => Some(Json::text("in_progress")),
        ("content" | "summary", Json::Array(_)) => Some(Json::Array(Vec::new())),
        ("arguments", Json::String(_)) => Some(Json::text("")),
        _ => None,
    })
}

/// The part as it is announced: nothing in it yet.
pub(super) fn opening_part<'a>(part: &Json<'a>) -> Json<'a> {
    emptied(part, |key, value| match (key, value) {
        ("text" | "refusal", Json::String(_)) => Some(Json::text("")),
        ("annotations" | "logprobs", Json::Array(_)) => Some(Json::Array(Vec::new())),
        _ => None,
    })
}

/// `value` with other values where `other` has one.
pub(super) fn emptied<'a>(value: &Json<'a>, other: impl Fn(&str, &Json<'a>) -> Option<Json<'a>>) -> Json<'a> {
    let Json::Object(fields) = value else { return value.clone() };
    let change = |field: &Member<'a>| {
        let value = other(&field.key, &field.value).unwrap_or_else(|| field.value.clone());
        Member::new(field.key.clone(), value)
    };
    Json::Object(fields.iter().map(change).collect())
}
