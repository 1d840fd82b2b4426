//! A chat completion request, read once.
//!
//! What decides the answer is a deny-list's complement: every field is in [`Asked::shape`] unless it is known to be
//! neutral, so a field that nobody here has heard of still keeps two requests apart.

use crate::canon;
use crate::error::BadRequest;
use crate::json::{Json, Member, duplicate, get, write_str};
use crate::turn::{check_messages, take_last_text};
use bytes::Bytes;
use std::fmt;
use std::ops::{Deref, Range};

/// Fields that do not change what the model says.
const NEUTRAL: [&str; 4] = ["stream", "stream_options", "user", "metadata"];

/// Replace these bytes of the body by this text.
pub type Edit = (Range<usize>, &'static str);

/// What a request says whatever its API, with the caller's bytes.
#[derive(Clone)]
pub struct Asked {
    /// The bytes as the caller sent them.
    pub body: Bytes,
    /// The model as asked.
    pub model: String,
    /// Where the model's name lies in the body, quotes included.
    pub model_span: Range<usize>,
    /// Whether an event stream is wanted.
    pub stream: bool,
    /// Whether the caller wants the usage within its stream: asked for, or always told by its API.
    pub include_usage: bool,
    /// What makes the provider tell the usage within its stream, where that has to be asked for.
    pub usage_edit: Option<Edit>,
    /// Canonical SHA-256 of everything but the neutral fields and the last text; the asked model is in it. Together with
    /// the last text it is the whole request.
    pub shape: [u8; 32],
    /// The text of the last message, byte-exact; empty where that is not text only, and all of it in the shape. Several
    /// text parts are joined by a line with U+001F.
    pub last_text: String,
    /// Why this request is only for the exact cache, if it is, as a short constant for records and metrics.
    pub not_semantic: Option<&'static str>,
}

impl Asked {
    /// A request with no text apart from its shape, in an API without streams.
    pub fn whole(body: &Bytes, (model, model_span): (String, Range<usize>), shape: [u8; 32]) -> Self {
        Self {
            body: body.clone(),
            model,
            model_span,
            stream: false,
            include_usage: true,
            usage_edit: None,
            shape,
            last_text: String::new(),
            not_semantic: Some("operation"),
        }
    }

    /// The text to compare with similar ones.
    ///
    /// # Errors
    /// Why there is none, as a short constant for records and metrics.
    pub fn semantic_candidate(&self) -> Result<&str, &'static str> {
        self.not_semantic.map_or(Ok(&self.last_text), Err)
    }

    /// What stays the same while a conversation grows, as [`crate::prefix`] finds it.
    pub fn prefix(&self) -> Option<[u8; 32]> {
        crate::prefix(&self.body)
    }

    /// The body to send upstream: the caller's own bytes, with another `model`, and asking for usage within a stream where
    /// `ask_usage`. Every other byte stays as it was; if nothing changes it is the same buffer.
    pub fn with(&self, model: Option<&str>, ask_usage: bool) -> Bytes {
        let model = model.filter(|model| *model != self.model).map(quoted);
        let usage = self.usage_edit.as_ref().filter(|_| ask_usage);
        let mut edits: Vec<(&Range<usize>, &[u8])> = Vec::with_capacity(2);
        edits.extend(model.as_ref().map(|model| (&self.model_span, &model[..])));
        edits.extend(usage.map(|(span, text)| (span, text.as_bytes())));
        edits.sort_by_key(|(span, _)| span.start);
        splice(&self.body, &edits)
    }
}

/// Leaves the prompt out: it belongs in no log.
impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Asked");
        out.field("model", &self.model).field("stream", &self.stream).field("not_semantic", &self.not_semantic);
        out.field("body_bytes", &self.body.len()).finish_non_exhaustive()
    }
}

/// A request to `/v1/chat/completions`.
#[derive(Debug, Clone)]
pub struct ChatRequest {
    asked: Asked,
    n: u32,
}

impl ChatRequest {
    /// Reads a body in one pass.
    ///
    /// # Errors
    /// Not JSON, not UTF-8, nested over 128 levels, a duplicate key in the body, `stream_options`, a message or a content
    /// part, or a field that Signet interprets has a wrong type. Everything else is left to the provider.
    pub fn parse(body: &Bytes) -> Result<Self, BadRequest> {
        let mut members = object(body)?;
        let (model, model_span) = model(&members)?;
        check_messages(&members)?;
        let stream = flag(&members, "stream", "stream")?;
        let (include_usage, usage_edit) = usage_option(body, &members)?;
        let n = choices(&members)?;
        let temperature = temperature(&members)?;
        integer(&members, "max_completion_tokens")?;
        integer(&members, "max_tokens")?;
        let not_semantic = not_semantic(&members, n, temperature);
        let (last_text, not_text) = split(take_last_text(&mut members));
        let asked = Asked {
            body: body.clone(),
            model,
            model_span,
            stream,
            include_usage,
            usage_edit,
            shape: shape(b"signet/shape/chat/v1", &members, &NEUTRAL),
            last_text,
            not_semantic: not_text.or(not_semantic),
        };
        Ok(Self { asked, n })
    }

    /// How many choices are wanted, at least 1.
    pub fn n(&self) -> u32 {
        self.n
    }
}

/// What every request says.
impl Deref for ChatRequest {
    type Target = Asked;

    fn deref(&self) -> &Asked {
        &self.asked
    }
}

/// The last text, and why there is none.
pub fn split(text: Result<String, &'static str>) -> (String, Option<&'static str>) {
    text.map_or_else(|reason| (String::new(), Some(reason)), |text| (text, None))
}

/// The members of the body, which is an object without duplicate keys.
///
/// # Errors
/// It is not.
pub fn object(body: &Bytes) -> Result<Vec<Member<'_>>, BadRequest> {
    let Json::Object(members) = Json::parse(body).map_err(|e| BadRequest::syntax(&e))? else {
        let message = "We could not parse the JSON body of your request: expected an object.".to_owned();
        return Err(BadRequest { message, param: None, code: None });
    };
    match duplicate(&members) {
        Some(key) => Err(BadRequest::duplicate("", key)),
        None => Ok(members),
    }
}

/// Longest name of a model, in bytes. It is kept with every answer, in the clear.
const MODEL_MAX: usize = 512;

/// The model's name and where it lies, quotes included.
///
/// # Errors
/// There is none, it is no string, or too long to keep.
pub fn model(members: &[Member<'_>]) -> Result<(String, Range<usize>), BadRequest> {
    let member = members.iter().find(|member| member.key == "model").ok_or_else(|| BadRequest::missing("model"))?;
    let name = member.value.as_str().ok_or_else(|| BadRequest::wrong_type("model", "a string"))?;
    if name.len() > MODEL_MAX {
        return Err(BadRequest::wrong_value("model", "a name of at most 512 bytes"));
    }
    Ok((name.to_owned(), member.span.clone()))
}

/// The canonical digest of `members` without the neutral ones.
pub fn shape(domain: &[u8], members: &[Member<'_>], neutral: &[&str]) -> [u8; 32] {
    canon::digest(domain, members.iter().filter(|member| !neutral.contains(&&*member.key)))
}

/// `text` as a JSON string.
pub fn quoted(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_str(text, &mut out);
    out
}

/// `body` with each range replaced; ranges are in order and do not overlap.
pub(crate) fn splice(body: &Bytes, edits: &[(&Range<usize>, &[u8])]) -> Bytes {
    if edits.is_empty() {
        return body.clone();
    }
    let grown: usize = edits.iter().map(|(_, text)| text.len()).sum();
    let mut out = Vec::with_capacity(body.len() + grown);
    let mut from = 0;
    for (span, text) in edits {
        out.extend_from_slice(&body[from..span.start]);
        out.extend_from_slice(text);
        from = span.end;
    }
    out.extend_from_slice(&body[from..]);
    out.into()
}

/// A field that is there and not null.
pub fn present<'m, 'a>(members: &'m [Member<'a>], key: &str) -> Option<&'m Json<'a>> {
    get(members, key).filter(|value| !value.is_null())
}

/// Whether a switch is on; absent and null are off.
///
/// # Errors
/// It is no boolean.
pub fn flag(members: &[Member<'_>], key: &str, param: &str) -> Result<bool, BadRequest> {
    match present(members, key) {
        None => Ok(false),
        Some(Json::Bool(value)) => Ok(*value),
        Some(_) => Err(BadRequest::wrong_type(param, "a boolean")),
    }
}

/// Whether a number is one if it is there. Some servers read -1 as "no limit", so only the type is judged here.
///
/// # Errors
/// It is no number.
pub fn integer(members: &[Member<'_>], key: &str) -> Result<(), BadRequest> {
    match present(members, key) {
        None | Some(Json::Number(_)) => Ok(()),
        Some(_) => Err(BadRequest::wrong_type(key, "an integer")),
    }
}

/// How many choices are wanted (`n`).
///
/// # Errors
/// It is no whole number of at least 1.
pub fn choices(members: &[Member<'_>]) -> Result<u32, BadRequest> {
    match present(members, "n") {
        None => Ok(1),
        Some(number @ Json::Number(_)) => {
            let n = number.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
            n.ok_or_else(|| BadRequest::wrong_value("n", "an integer of at least 1"))
        }
        Some(_) => Err(BadRequest::wrong_type("n", "an integer")),
    }
}

/// The temperature, if one is given.
///
/// # Errors
/// It is no number.
pub fn temperature(members: &[Member<'_>]) -> Result<Option<f64>, BadRequest> {
    match present(members, "temperature") {
        None => Ok(None),
        Some(Json::Number(text)) => Ok(text.parse().ok()),
        Some(_) => Err(BadRequest::wrong_type("temperature", "a number")),
    }
}

/// Whether usage is asked for, and the edit that would ask for it.
///
/// # Errors
/// `stream_options` is no object, or has a key twice.
pub fn usage_option(body: &Bytes, members: &[Member<'_>]) -> Result<(bool, Option<Edit>), BadRequest> {
    let Some(options) = members.iter().find(|member| member.key == "stream_options") else {
        let inside = body.iter().position(|byte| *byte == b'{').map_or(0, |open| open + 1);
        return Ok((false, Some((inside..inside, "\"stream_options\":{\"include_usage\":true},"))));
    };
    let fields = match &options.value {
        Json::Null => return Ok((false, Some((options.span.clone(), "{\"include_usage\":true}")))),
        Json::Object(fields) => fields,
        _ => return Err(BadRequest::wrong_type("stream_options", "an object")),
    };
    if let Some(key) = duplicate(fields) {
        return Err(BadRequest::duplicate("stream_options", key));
    }
    let asked = flag(fields, "include_usage", "stream_options.include_usage")?;
    let inside = options.span.start + 1;
    let edit = match fields.iter().find(|field| field.key == "include_usage") {
        Some(_) if asked => None,
        Some(field) => Some((field.span.clone(), "true")),
        None if fields.is_empty() => Some((inside..inside, "\"include_usage\":true")),
        None => Some((inside..inside, "\"include_usage\":true,")),
    };
    Ok((asked, edit))
}

/// Why an answer to a similar question could not stand in for one to this question.
fn not_semantic(members: &[Member<'_>], n: u32, temperature: Option<f64>) -> Option<&'static str> {
    let wanted = |key: &str| match present(members, key) {
        None | Some(Json::Bool(false)) => false,
        Some(Json::Array(items)) => !items.is_empty(),
        Some(_) => true,
    };
    let fields = [
        ("tools", "tools"),
        ("functions", "tools"),
        ("logprobs", "logprobs"),
        ("top_logprobs", "logprobs"),
        ("prediction", "prediction"),
        ("audio", "audio"),
        ("modalities", "modalities"),
        ("web_search_options", "web search"),
    ];
    if n != 1 {
        return Some("several choices");
    }
    if temperature.is_some_and(|t| t > 1.0) {
        return Some("temperature");
    }
    fields.into_iter().find(|(key, _)| wanted(key)).map(|(_, reason)| reason)
}
