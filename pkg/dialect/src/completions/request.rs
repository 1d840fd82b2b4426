//! A completions request, read once.

use bytes::Bytes;
use signet_openai::BadRequest;
use signet_openai::wire::{
    Edit, Json, Member, choices, digest, flag, get, model, object, present, quoted, shape, splice, temperature,
    usage_option,
};
use std::fmt;
use std::ops::Range;

/// Fields that do not change what the model says.
const NEUTRAL: [&str; 3] = ["stream", "stream_options", "user"];

/// How much of a prompt tells where its prefix may be cached at the provider.
const PREFIX_BYTES: usize = 1024;

/// A request to `/v1/completions`, with the caller's bytes.
#[derive(Clone)]
pub struct CompletionsRequest {
    body: Bytes,
    model: String,
    stream: bool,
    include_usage: bool,
    choices: u32,
    shape: [u8; 32],
    last_text: String,
    not_semantic: Option<&'static str>,
    model_span: Range<usize>,
    usage_edit: Option<Edit>,
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
        let (last_text, not_text) = match prompt.map_or(Err("empty"), take_text) {
            Ok(text) => (text, None),
            Err(reason) => (String::new(), Some(reason)),
        };
        let shape = shape(b"signet/shape/completions/v1", &members, &NEUTRAL);
        Ok(Self {
            body: body.clone(),
            model,
            stream,
            include_usage,
            choices,
            shape,
            last_text,
            not_semantic: not_text.or(not_semantic),
            model_span,
            usage_edit,
        })
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

    /// Whether the caller asked for the usage chunk (`stream_options.include_usage`).
    pub fn include_usage(&self) -> bool {
        self.include_usage
    }

    /// How many choices the answer has: `n` for each prompt.
    pub fn choices(&self) -> u32 {
        self.choices
    }

    /// Canonical SHA-256 of everything but the neutral fields and [`Self::last_text`]; the asked model is in it.
    /// Together with the last text it is the whole request.
    pub fn shape(&self) -> &[u8; 32] {
        &self.shape
    }

    /// The prompt, byte-exact, if it is one text; else empty, and the prompts are in the shape.
    pub fn last_text(&self) -> &str {
        &self.last_text
    }

    /// The text to compare with similar ones.
    ///
    /// # Errors
    /// Why this request is only for the exact cache, as a short constant for records and metrics.
    pub fn semantic_candidate(&self) -> Result<&str, &'static str> {
        self.not_semantic.map_or(Ok(&self.last_text), Err)
    }

    /// What requests have in common that begin alike, for a provider's own cache of prompts. Reads the body again.
    pub fn prefix(&self) -> [u8; 32] {
        let members = object(&self.body).expect("the body was read before");
        let start = match get(&members, "prompt") {
            Some(Json::String(text)) => Json::text(&text[..text.floor_char_boundary(PREFIX_BYTES)]),
            Some(Json::Array(prompts)) => prompts.first().cloned().unwrap_or(Json::Null),
            _ => Json::Null,
        };
        digest(b"signet/prefix/completions/v1", [Member::new("prompt", start)].iter())
    }

    /// The body to send upstream: the caller's own bytes, with another `model` and `stream_options.include_usage = true`
    /// where asked for; if nothing changes it is the same buffer.
    pub fn with(&self, model: Option<&str>, include_usage: bool) -> Bytes {
        let model = model.filter(|model| *model != self.model).map(quoted);
        let usage = self.usage_edit.as_ref().filter(|_| include_usage);
        let mut edits: Vec<(&Range<usize>, &[u8])> = Vec::with_capacity(2);
        edits.extend(model.as_ref().map(|model| (&self.model_span, &model[..])));
        edits.extend(usage.map(|(span, text)| (span, text.as_bytes())));
        edits.sort_by_key(|(span, _)| span.start);
        splice(&self.body, &edits)
    }
}

/// Leaves the prompt out: it belongs in no log.
impl fmt::Debug for CompletionsRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("CompletionsRequest");
        out.field("model", &self.model).field("stream", &self.stream).field("choices", &self.choices);
        out.field("body_bytes", &self.body.len()).finish_non_exhaustive()
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
