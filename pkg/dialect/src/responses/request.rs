//! A request to `/v1/responses`, read once.

use bytes::Bytes;
use signet_openai::wire::{
    Json, Member, check_list, flag, get, model, object, present, shape, split, take_content, temperature,
};
use signet_openai::{Asked, BadRequest};
use std::ops::Deref;

/// Fields that do not change the answer. `user`, `metadata`, `safety_identifier` and `prompt_cache_key` are not among
/// them: the answer repeats them, and one caller's must not be told to another.
const NEUTRAL: [&str; 2] = ["stream", "stream_options"];

/// A request to `/v1/responses`. Its last text is that of a last user message.
#[derive(Debug, Clone)]
pub struct ResponsesRequest {
    asked: Asked,
    state: Option<&'static str>,
}

impl ResponsesRequest {
    /// Reads a body in one pass.
    ///
    /// # Errors
    /// Not JSON, not UTF-8, nested over 128 levels, a duplicate key in the body, an item or a content part, or a field that
    /// Signet interprets has a wrong type. Everything else is left to the provider.
    pub fn parse(body: &Bytes) -> Result<Self, BadRequest> {
        let mut members = object(body)?;
        let (model, model_span) = model(&members)?;
        check_input(&members)?;
        let stream = flag(&members, "stream", "stream")?;
        let state = state(&members)?;
        let not_semantic = not_semantic(&members, temperature(&members)?);
        let input = members.iter_mut().find(|member| member.key == "input").map(|member| &mut member.value);
        let (last_text, not_text) = split(input.map_or(Err("empty"), take_last_text));
        let asked = Asked {
            body: body.clone(),
            model,
            model_span,
            stream,
            include_usage: true,
            usage_edit: None,
            shape: shape(b"signet/shape/responses/v1", &members, &NEUTRAL),
            last_text,
            not_semantic: state.or(not_text).or(not_semantic),
        };
        Ok(Self { asked, state })
    }

    /// Whether the body says all that decides the answer, so that the answer may be kept.
    ///
    /// # Errors
    /// Which state at the provider it rests on or changes, as a short constant for records and metrics.
    pub fn stateless(&self) -> Result<(), &'static str> {
        self.state.map_or(Ok(()), Err)
    }
}

/// What every request says.
impl Deref for ResponsesRequest {
    type Target = Asked;

    fn deref(&self) -> &Asked {
        &self.asked
    }
}

fn check_input(members: &[Member<'_>]) -> Result<(), BadRequest> {
    match present(members, "input") {
        None | Some(Json::String(_)) => Ok(()),
        Some(Json::Array(items)) => check_list("input", items),
        Some(_) => Err(BadRequest::wrong_type("input", "a string or an array of objects")),
    }
}

/// The state at the provider that the answer rests on, or that the request changes.
fn state(members: &[Member<'_>]) -> Result<Option<&'static str>, BadRequest> {
    let fields = [
        ("previous_response_id", "a previous response"),
        ("conversation", "a conversation"),
        ("prompt", "a stored prompt"),
    ];
    if flag(members, "background", "background")? {
        return Ok(Some("background"));
    }
    let items = get(members, "input").and_then(Json::as_array).unwrap_or_default();
    let refers = |item: &Json<'_>| match item.get("type").and_then(Json::as_str) {
        Some(kind) => kind == "item_reference",
        None => item.get("id").is_some() && item.get("role").is_none(),
    };
    if items.iter().any(refers) {
        return Ok(Some("an item reference"));
    }
    Ok(fields.into_iter().find(|(key, _)| present(members, key).is_some()).map(|(_, state)| state))
}

/// Why an answer to a similar question could not stand in for one to this question. An answer that is kept at the provider
/// belongs to its own question: who continues it by its id would continue another one.
fn not_semantic(members: &[Member<'_>], temperature: Option<f64>) -> Option<&'static str> {
    let wanted = |key: &str| match present(members, key) {
        None => false,
        Some(Json::Array(items)) => !items.is_empty(),
        Some(_) => true,
    };
    if get(members, "store") != Some(&Json::Bool(false)) {
        return Some("a stored response");
    }
    if temperature.is_some_and(|t| t > 1.0) {
        return Some("temperature");
    }
    let fields =
        [("tools", "tools"), ("top_logprobs", "logprobs"), ("include", "include"), ("modalities", "modalities")];
    fields.into_iter().find(|(key, _)| wanted(key)).map(|(_, reason)| reason)
}

/// Takes the text of the last user message out of the tree, if it is one.
fn take_last_text(input: &mut Json<'_>) -> Result<String, &'static str> {
    let item = match input {
        Json::String(_) => return take_content(input, part_text),
        Json::Array(items) => items.last_mut(),
        _ => None,
    };
    let Some(Json::Object(item)) = item else { return Err("empty") };
    match (get(item, "type").and_then(Json::as_str), get(item, "role").and_then(Json::as_str)) {
        (Some("message") | None, Some("user")) => {}
        (Some("message") | None, Some("assistant")) => return Err("assistant last"),
        (Some(kind), _) if kind.ends_with("_call_output") => return Err("tool results"),
        (Some(kind), _) if kind.ends_with("_call") => return Err("tool calls"),
        _ => return Err("no user text"),
    }
    let content = item.iter_mut().find(|member| member.key == "content").ok_or("empty")?;
    take_content(&mut content.value, part_text)
}

fn part_text<'p>(part: &'p Json<'_>) -> Result<&'p str, &'static str> {
    match part.get("type").and_then(Json::as_str) {
        Some("input_text") => part.get("text").and_then(Json::as_str).ok_or("other content"),
        Some("input_image") => Err("images"),
        Some("input_audio") => Err("audio"),
        Some("input_file") => Err("files"),
        _ => Err("other content"),
    }
}
