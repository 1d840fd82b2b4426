//! The last turn of a chat: the one text that may differ between two requests which share answers.

use crate::error::BadRequest;
use crate::json::{Json, Member, duplicate, get};

/// Stands between the parts of a message made of several texts. A turn with a part that holds U+001F itself is no text, so
/// joined parts can never be mistaken for other parts.
const BETWEEN_PARTS: &str = "\n\u{1f}\n";

/// Takes the text of the last message out of the tree, if it is one of a user and text only.
///
/// # Errors
/// What it is instead, as a short constant for records and metrics; all of it stays in the tree then.
pub fn take_last_text(members: &mut [Member<'_>]) -> Result<String, &'static str> {
    match members.iter_mut().find(|member| member.key == "messages").map(|member| &mut member.value) {
        Some(Json::Array(messages)) => match messages.last_mut() {
            Some(Json::Object(message)) => from_message(message),
            _ => Err("empty"),
        },
        _ => Err("empty"),
    }
}

fn from_message(message: &mut [Member<'_>]) -> Result<String, &'static str> {
    match get(message, "role").and_then(Json::as_str) {
        Some("user") => {}
        Some("tool" | "function") => return Err("tool results"),
        Some("assistant") if calls_tools(message) => return Err("tool calls"),
        Some("assistant") => return Err("assistant last"),
        _ => return Err("no user text"),
    }
    let content = message.iter_mut().find(|member| member.key == "content").ok_or("empty")?;
    take_content(&mut content.value, part_text)
}

/// Takes the text of a message's content out of the tree; `part_text` says the text of a part.
///
/// # Errors
/// Why it is not text only, as a short constant.
pub fn take_content(content: &mut Json<'_>, part_text: PartText) -> Result<String, &'static str> {
    match content {
        Json::String(text) if text.trim().is_empty() => Err("empty"),
        Json::String(text) => {
            let text = std::mem::take(text).into_owned();
            *content = Json::Cut;
            Ok(text)
        }
        Json::Array(parts) => from_parts(parts, part_text),
        Json::Null => Err("empty"),
        _ => Err("other content"),
    }
}

/// Says the text of a part of a message, or why it has none.
type PartText = for<'p> fn(&'p Json<'_>) -> Result<&'p str, &'static str>;

fn calls_tools(message: &[Member<'_>]) -> bool {
    ["tool_calls", "function_call"].iter().any(|key| get(message, key).is_some_and(|calls| !calls.is_null()))
}

fn from_parts(parts: &mut [Json<'_>], part_text: PartText) -> Result<String, &'static str> {
    let texts = parts.iter().map(|part| part_text(part)).collect::<Result<Vec<_>, _>>()?;
    if texts.iter().all(|text| text.trim().is_empty()) {
        return Err("empty");
    }
    if texts.len() > 1 && texts.iter().any(|text| text.contains('\u{1f}')) {
        return Err("control characters");
    }
    let joined = texts.join(BETWEEN_PARTS);
    for part in parts {
        if let Json::Object(members) = part {
            members.iter_mut().filter(|member| member.key == "text").for_each(|member| member.value = Json::Cut);
        }
    }
    Ok(joined)
}

fn part_text<'p>(part: &'p Json<'_>) -> Result<&'p str, &'static str> {
    match part.get("type").and_then(Json::as_str) {
        Some("text") => part.get("text").and_then(Json::as_str).ok_or("other content"),
        Some("image_url" | "input_image" | "image") => Err("images"),
        Some("input_audio" | "audio") => Err("audio"),
        Some("file" | "input_file") => Err("files"),
        Some("tool_result") => Err("tool results"),
        _ => Err("other content"),
    }
}

/// The members of the messages in `list`, which Signet interprets, carry each key once.
///
/// # Errors
/// They do not, or one of the messages is no object.
pub fn check_list(name: &str, list: &[Json<'_>]) -> Result<(), BadRequest> {
    for (i, message) in list.iter().enumerate() {
        let place = || format!("{name}[{i}]");
        let message = message.as_object().ok_or_else(|| BadRequest::wrong_type(&place(), "an object"))?;
        if let Some(key) = duplicate(message) {
            return Err(BadRequest::duplicate(&place(), key));
        }
        let parts = get(message, "content").and_then(Json::as_array).unwrap_or_default();
        if let Some(key) = parts.iter().filter_map(Json::as_object).find_map(duplicate) {
            return Err(BadRequest::duplicate(&(place() + ".content"), key));
        }
    }
    Ok(())
}

/// [`check_list`] of the field `messages`.
///
/// # Errors
/// There is none, or what is wrong with it.
pub fn check_messages(members: &[Member<'_>]) -> Result<(), BadRequest> {
    let messages = get(members, "messages").ok_or_else(|| BadRequest::missing("messages"))?;
    let messages = messages.as_array().ok_or_else(|| BadRequest::wrong_type("messages", "an array of objects"))?;
    check_list("messages", messages)
}
