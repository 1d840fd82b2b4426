//! A request to `/v1/responses`, read once.

use bytes::Bytes;
use signet_openai::BadRequest;
use signet_openai::wire::{
    BETWEEN_PARTS, Json, Member, digest, flag, get, model, object, present, quoted, shape, splice, temperature,
    unique_within,
};
use std::fmt;
use std::ops::Range;

/// Fields that do not change the answer. `user`, `metadata`, `safety_identifier` and `prompt_cache_key` are not among
/// them: the answer repeats them, and one caller's must not be told to another.
const NEUTRAL: [&str; 2] = ["stream", "stream_options"];

/// A request with the caller's bytes.
#[derive(Clone)]
pub struct ResponsesRequest {
    body: Bytes,
    model: String,
    stream: bool,
    shape: [u8; 32],
    last_text: String,
    not_semantic: Option<&'static str>,
    state: Option<&'static str>,
    model_span: Range<usize>,
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
        let (last_text, not_text) = match input.map_or(Err("empty"), take_last_text) {
            Ok(text) => (text, None),
            Err(reason) => (String::new(), Some(reason)),
        };
        let shape = shape(b"signet/shape/responses/v1", &members, &NEUTRAL);
        let not_semantic = not_text.or(not_semantic);
        Ok(Self { body: body.clone(), model, stream, shape, last_text, not_semantic, state, model_span })
    }

    /// The bytes as the caller sent them.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The model as asked.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Whether an event stream is wanted.
    pub fn stream(&self) -> bool {
        self.stream
    }

    /// Whether the body says all that decides the answer, so that the answer may be kept.
    ///
    /// # Errors
    /// Which state at the provider it rests on or changes, as a short constant for records and metrics.
    pub fn stateless(&self) -> Result<(), &'static str> {
        self.state.map_or(Ok(()), Err)
    }

    /// Canonical SHA-256 of everything but the neutral fields and [`Self::last_text`]; the asked model is in it.
    /// Together with the last text it is the whole request.
    pub fn shape(&self) -> &[u8; 32] {
        &self.shape
    }

    /// The text of the last user message, byte-exact; empty where the input ends with anything else, which is in the shape
    /// then. Several text parts are joined by a line with U+001F.
    pub fn last_text(&self) -> &str {
        &self.last_text
    }

    /// The text to compare with similar ones.
    ///
    /// # Errors
    /// Why this request is only for the exact cache, as a short constant for records and metrics.
    pub fn semantic_candidate(&self) -> Result<&str, &'static str> {
        self.state.or(self.not_semantic).map_or(Ok(&self.last_text), Err)
    }

    /// What the turns of one conversation have in common, for a provider's own cache of prompts: the caller's
    /// `prompt_cache_key`, else tools, instructions and the input up to the first user message. Reads the body again.
    pub fn prefix(&self) -> [u8; 32] {
        const DOMAIN: &[u8] = b"signet/prefix/responses/v1";
        let members = object(&self.body).expect("the body was read before");
        if present(&members, "prompt_cache_key").is_some() {
            return digest(DOMAIN, members.iter().filter(|member| member.key == "prompt_cache_key"));
        }
        let user = |item: &Json<'_>| item.get("role").and_then(Json::as_str) == Some("user");
        let start = match get(&members, "input") {
            Some(Json::Array(items)) => {
                let end = items.iter().position(user).map_or(items.len(), |first| first + 1);
                Json::Array(items[..end].to_vec())
            }
            Some(input) => input.clone(),
            None => Json::Null,
        };
        let fixed = members.iter().filter(|member| matches!(&*member.key, "tools" | "instructions"));
        digest(DOMAIN, fixed.chain([&Member::new("input", start)]))
    }

    /// The body to send upstream; every byte but the model's name as it was.
    pub fn with(&self, model: Option<&str>) -> Bytes {
        let model = model.filter(|model| *model != self.model).map(quoted);
        let edits: Vec<_> = model.iter().map(|model| (&self.model_span, &model[..])).collect();
        splice(&self.body, &edits)
    }
}

/// Leaves the input out: it belongs in no log.
impl fmt::Debug for ResponsesRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("ResponsesRequest");
        out.field("model", &self.model).field("stream", &self.stream).field("state", &self.state);
        out.field("body_bytes", &self.body.len()).finish_non_exhaustive()
    }
}

fn check_input(members: &[Member<'_>]) -> Result<(), BadRequest> {
    let items = match present(members, "input") {
        None | Some(Json::String(_)) => return Ok(()),
        Some(Json::Array(items)) => items,
        Some(_) => return Err(BadRequest::wrong_type("input", "a string or an array of objects")),
    };
    for (i, item) in items.iter().enumerate() {
        let place = || format!("input[{i}]");
        let item = item.as_object().ok_or_else(|| BadRequest::wrong_type(&place(), "an object"))?;
        unique_within(item).map_err(|(part, key)| BadRequest::duplicate(&(place() + part), &key))?;
    }
    Ok(())
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
        Json::String(_) => return take_text(input),
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
    take_text(&mut content.value)
}

fn take_text(content: &mut Json<'_>) -> Result<String, &'static str> {
    match content {
        Json::String(text) if text.trim().is_empty() => Err("empty"),
        Json::String(text) => {
            let text = std::mem::take(text).into_owned();
            *content = Json::Cut;
            Ok(text)
        }
        Json::Array(parts) => from_parts(parts),
        Json::Null => Err("empty"),
        _ => Err("other content"),
    }
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
        Some("input_text") => part.get("text").and_then(Json::as_str).ok_or("other content"),
        Some("input_image") => Err("images"),
        Some("input_audio") => Err("audio"),
        Some("input_file") => Err("files"),
        _ => Err("other content"),
    }
}
