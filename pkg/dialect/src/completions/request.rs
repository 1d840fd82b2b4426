//! A completions request, read once.

use bytes::Bytes;
use signet_openai::wire::{
    Json, Member, choices, flag, model, object, present, shape, split, temperature, usage_option,
};
use signet_openai::{Asked, BadRequest};
use std::ops::Deref;

/// Fields that do not change what the model says.
const NEUTRAL: [&str; 3] = ["stream", "stream_options", "user"];

/// A request to `/v1/completions`. Its last text is the prompt, if it is one text; else the prompts are in the shape.
#[derive(Debug, Clone)]
pub struct CompletionsRequest {
    asked: Asked,
    choices: u32,
}

impl CompletionsRequest {
    /// Reads a body in one pass.
    ///
    /// # Errors
    /// As [`signet_openai::ChatRequest::parse`]; `prompt` is a string, an array of strings, of tokens, or of arrays of
    /// tokens, or left out.
    pub fn parse(body: &Bytes) -> Result<Self, BadRequest> {
        let mut members = object(body)?;
        let (model, model_span) = model(&members)?;
        let stream = flag(&members, "stream", "stream")?;
        let (include_usage, usage_edit) = usage_option(body, &members)?;
        let (n, prompts) = (choices(&members)?, prompts(&members)?);
        let choices = n.checked_mul(prompts).ok_or_else(|| BadRequest::wrong_value("n", "fewer choices"))?;
        let not_semantic = not_semantic(&members, n, temperature(&members)?);
        let prompt = members.iter_mut().find(|member| member.key == "prompt").map(|member| &mut member.value);
        let (last_text, not_text) = split(prompt.map_or(Err("empty"), take_text));
        let asked = Asked {
            body: body.clone(),
            model,
            model_span,
            stream,
            include_usage,
            usage_edit,
            shape: shape(b"signet/shape/completions/v1", &members, &NEUTRAL),
            last_text,
            not_semantic: not_text.or(not_semantic),
        };
        Ok(Self { asked, choices })
    }

    /// How many choices the answer has: `n` for each prompt.
    pub fn choices(&self) -> u32 {
        self.choices
    }
}

/// What every request says.
impl Deref for CompletionsRequest {
    type Target = Asked;

    fn deref(&self) -> &Asked {
        &self.asked
    }
}

/// How many prompts there are; none at all is one, the empty document.
fn prompts(members: &[Member<'_>]) -> Result<u32, BadRequest> {
    let tokens = |items: &[Json<'_>]| items.iter().all(|item| item.as_u64().is_some());
    let expected = || BadRequest::wrong_type("prompt", "a string, or an array of strings or of token arrays");
    let count = match present(members, "prompt") {
        None | Some(Json::String(_)) => 1,
        Some(Json::Array(items)) if items.is_empty() => return Err(expected()),
        Some(Json::Array(items)) if tokens(items) => 1,
        Some(Json::Array(items)) if items.iter().all(|item| item.as_str().is_some()) => items.len(),
        Some(Json::Array(items)) if items.iter().all(|item| item.as_array().is_some_and(tokens)) => items.len(),
        Some(_) => return Err(expected()),
    };
    u32::try_from(count).map_err(|_| expected())
}

/// Takes the one prompt that is text.
fn take_text(prompt: &mut Json<'_>) -> Result<String, &'static str> {
    let text = match prompt {
        Json::String(_) => prompt,
        Json::Array(items) => match &mut items[..] {
            [text @ Json::String(_)] => text,
            [Json::String(_), ..] => return Err("several prompts"),
            _ => return Err("tokens"),
        },
        _ => return Err("empty"),
    };
    match std::mem::replace(text, Json::Cut) {
        Json::String(prompt) if !prompt.trim().is_empty() => Ok(prompt.into_owned()),
        blank => {
            *text = blank;
            Err("empty")
        }
    }
}

/// Why an answer to a similar prompt could not stand in for one to this prompt.
fn not_semantic(members: &[Member<'_>], n: u32, temperature: Option<f64>) -> Option<&'static str> {
    if n != 1 || present(members, "best_of").is_some_and(|best| best.as_u64() != Some(1)) {
        return Some("several choices");
    }
    if temperature.is_some_and(|t| t > 1.0) {
        return Some("temperature");
    }
    if present(members, "echo").is_some_and(|echo| *echo != Json::Bool(false)) {
        return Some("echo");
    }
    let fields = [("logprobs", "logprobs"), ("suffix", "suffix")];
    fields.into_iter().find(|(key, _)| present(members, key).is_some()).map(|(_, reason)| reason)
}
