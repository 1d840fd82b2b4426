//! The last turn of a chat: the one text that may differ between two requests which share answers.

use crate::json::{Json, Member, get};
use std::borrow::Cow;

/// Stands between the parts of a message made of several texts. A part that holds U+001F itself makes the turn
/// [`LastTurn::NotText`], so joined parts can never be mistaken for other parts.
pub const BETWEEN_PARTS: &str = "\n\u{1f}\n";

/// What the last message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastTurn {
    /// A user message of text only, taken out of the shape.
    Text,
    /// Anything else, with the reason; all of it is in the shape.
    NotText(&'static str),
}

/// Takes the text of the last message out of the tree, if it is one.
pub fn take_last_text(messages: &mut [Json<'_>]) -> (LastTurn, String) {
    let text = match messages.last_mut() {
        Some(Json::Object(message)) => from_message(message),
        _ => Err("empty"),
    };
    text.map_or_else(|reason| (LastTurn::NotText(reason), String::new()), |text| (LastTurn::Text, text))
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
    match &mut content.value {
        Json::String(text) if text.trim().is_empty() => Err("empty"),
        Json::String(text) => {
            let text = std::mem::take(text).into_owned();
            content.value = Json::Cut;
            Ok(text)
        }
        Json::Array(parts) => from_parts(parts),
        Json::Null => Err("empty"),
        _ => Err("other content"),
    }
}

fn calls_tools(message: &[Member<'_>]) -> bool {
    ["tool_calls", "function_call"].iter().any(|key| get(message, key).is_some_and(|calls| !calls.is_null()))
}

fn from_parts(parts: &mut [Json<'_>]) -> Result<String, &'static str> {
    let texts = parts.iter().map(part_text).collect::<Result<Vec<_>, _>>()?;
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

/// The members of the request's objects that Signet interprets carry each key once.
///
/// # Errors
/// Where a key occurs twice, below the message, and which.
pub fn unique_within<'m>(message: &'m [Member<'_>]) -> Result<(), (&'static str, Cow<'m, str>)> {
    if let Some(key) = crate::json::duplicate(message) {
        return Err(("", key.into()));
    }
    let parts = get(message, "content").and_then(Json::as_array).unwrap_or_default();
    match parts.iter().filter_map(Json::as_object).find_map(crate::json::duplicate) {
        Some(key) => Err((".content", key.into())),
        None => Ok(()),
    }
}
