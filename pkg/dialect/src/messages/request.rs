//! Requests to `/v1/messages` and `/v1/messages/count_tokens`, read once.

use bytes::Bytes;
use signet_openai::wire::{
    self, Json, Member, Members, digest, duplicate, flag, get, object, present, quoted, splice, take_last_text,
    unique_within,
};
use signet_openai::{BadRequest, LastTurn};
use std::fmt;
use std::ops::Range;

/// Fields that do not change what the model says.
const NEUTRAL: [&str; 2] = ["stream", "metadata"];

/// A request to `/v1/messages`, with the caller's bytes.
#[derive(Clone)]
pub struct MessagesRequest {
    body: Bytes,
    model: String,
    model_span: Range<usize>,
    stream: bool,
    temperature: Option<f64>,
    max_tokens: Option<u64>,
    shape: [u8; 32],
    last_text: String,
    last_turn: LastTurn,
    not_semantic: Option<&'static str>,
    container: bool,
}

impl MessagesRequest {
    /// Reads a body in one pass.
    ///
    /// # Errors
    /// Not JSON, not UTF-8, nested over 128 levels, a duplicate key in the body, a message, a content block or a block of
    /// the system prompt, or a field that Signet interprets has a wrong type. Everything else is left to the provider.
    pub fn parse(body: &Bytes) -> Result<Self, BadRequest> {
        let mut members = object(body)?;
        let (model, model_span) = wire::model(&members)?;
        check_messages(&members)?;
        let stream = flag(&members, "stream", "stream")?;
        let temperature = wire::temperature(&members)?;
        let max_tokens = match present(&members, "max_tokens") {
            None => None,
            Some(number @ Json::Number(_)) => number.as_u64(),
            Some(_) => return Err(BadRequest::wrong_type("max_tokens", "an integer")),
        };
        let not_semantic = not_semantic(&members);
        let container = present(&members, "container").is_some();
        let messages = members.iter_mut().find(|member| member.key == "messages").map(|member| &mut member.value);
        let (last_turn, last_text) = match messages {
            Some(Json::Array(messages)) => take_last_text(messages),
            _ => (LastTurn::NotText("empty"), String::new()),
        };
        let shape = wire::shape(b"signet/shape/messages/v1", &members, &NEUTRAL);
        let body = body.clone();
        Ok(Self {
            body,
            model,
            model_span,
            stream,
            temperature,
            max_tokens,
            shape,
            last_text,
            last_turn,
            not_semantic,
            container,
        })
    }

    /// Whether the body says all that decides the answer, so that the answer may be kept.
    ///
    /// # Errors
    /// It runs in a container, whose files the provider keeps.
    pub fn stateless(&self) -> Result<(), &'static str> {
        if self.container { Err("container") } else { Ok(()) }
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

    /// Sampling temperature, if one was sent.
    pub fn temperature(&self) -> Option<f64> {
        self.temperature
    }

    /// Most tokens to write.
    pub fn max_tokens(&self) -> Option<u64> {
        self.max_tokens
    }

    /// Canonical SHA-256 of everything but the neutral fields (`stream`, `metadata`) and [`Self::last_text`]; the asked
    /// model is in it. Together with the last text it is the whole request.
    pub fn shape(&self) -> &[u8; 32] {
        &self.shape
    }

    /// The text of the last message, byte-exact; empty unless [`Self::last_turn`] is text. Several text blocks are joined
    /// by a line with U+001F.
    pub fn last_text(&self) -> &str {
        &self.last_text
    }

    /// What the last message is.
    pub fn last_turn(&self) -> LastTurn {
        self.last_turn
    }

    /// The text to compare with similar ones.
    ///
    /// # Errors
    /// Why this request is only for the exact cache, as a short constant for records and metrics.
    pub fn semantic_candidate(&self) -> Result<&str, &'static str> {
        match (self.last_turn, self.not_semantic) {
            (LastTurn::NotText(reason), _) | (_, Some(reason)) => Err(reason),
            (LastTurn::Text, None) => Ok(&self.last_text),
        }
    }

    /// Canonical SHA-256 of what a growing conversation keeps: tools, system prompt and first user turn. Two requests
    /// with one prefix profit from the same prompt cache of a provider. Computed on demand.
    pub fn prefix(&self) -> [u8; 32] {
        let members = object(&self.body).unwrap_or_default();
        let mut kept: Members<'_> = Vec::with_capacity(3);
        for member in members {
            match &*member.key {
                "tools" | "system" => kept.push(member),
                "messages" => kept.extend(first_user_turn(member.value)),
                _ => {}
            }
        }
        digest(b"signet/prefix/messages/v1", kept.iter())
    }

    /// The body to send upstream: the caller's own bytes, with another `model` if it is given and differs. If nothing
    /// changes it is the same buffer.
    pub fn with(&self, model: Option<&str>) -> Bytes {
        with_model(&self.body, &self.model, &self.model_span, model)
    }
}

/// Leaves the prompt out: it belongs in no log.
impl fmt::Debug for MessagesRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessagesRequest")
            .field("model", &self.model)
            .field("stream", &self.stream)
            .field("last_turn", &self.last_turn)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// A request to `/v1/messages/count_tokens`, with the caller's bytes.
#[derive(Clone)]
pub struct CountTokensRequest {
    body: Bytes,
    model: String,
    model_span: Range<usize>,
    shape: [u8; 32],
}

impl CountTokensRequest {
    /// Reads a body in one pass.
    ///
    /// # Errors
    /// As [`MessagesRequest::parse`].
    pub fn parse(body: &Bytes) -> Result<Self, BadRequest> {
        let members = object(body)?;
        let (model, model_span) = wire::model(&members)?;
        check_messages(&members)?;
        let shape = wire::shape(b"signet/shape/count_tokens/v1", &members, &NEUTRAL);
        Ok(Self { body: body.clone(), model, model_span, shape })
    }

    /// The bytes as the caller sent them.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The model as asked.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Canonical SHA-256 of everything that is counted; the asked model is in it.
    pub fn shape(&self) -> &[u8; 32] {
        &self.shape
    }

    /// As [`MessagesRequest::with`].
    pub fn with(&self, model: Option<&str>) -> Bytes {
        with_model(&self.body, &self.model, &self.model_span, model)
    }
}

/// Leaves the prompt out: it belongs in no log.
impl fmt::Debug for CountTokensRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("CountTokensRequest");
        out.field("model", &self.model).field("body_bytes", &self.body.len()).finish_non_exhaustive()
    }
}

fn with_model(body: &Bytes, asked: &str, span: &Range<usize>, model: Option<&str>) -> Bytes {
    match model.filter(|model| *model != asked) {
        None => body.clone(),
        Some(model) => splice(body, &[(span, &quoted(model))]),
    }
}

fn first_user_turn(messages: Json<'_>) -> Option<Member<'_>> {
    let Json::Array(messages) = messages else { return None };
    let is_user = |message: &Json<'_>| message.get("role").and_then(Json::as_str) == Some("user");
    messages.into_iter().find(is_user).map(|message| Member::new("first", message))
}

fn check_messages(members: &[Member<'_>]) -> Result<(), BadRequest> {
    let messages = get(members, "messages").ok_or_else(|| BadRequest::missing("messages"))?;
    let messages = messages.as_array().ok_or_else(|| BadRequest::wrong_type("messages", "an array of objects"))?;
    for (i, message) in messages.iter().enumerate() {
        let place = || format!("messages[{i}]");
        let message = message.as_object().ok_or_else(|| BadRequest::wrong_type(&place(), "an object"))?;
        unique_within(message).map_err(|(part, key)| BadRequest::duplicate(&(place() + part), &key))?;
    }
    let system = get(members, "system").and_then(Json::as_array).unwrap_or_default();
    match system.iter().filter_map(Json::as_object).find_map(duplicate) {
        Some(key) => Err(BadRequest::duplicate("system", key)),
        None => Ok(()),
    }
}

/// Why an answer to a similar question could not stand in for one to this question.
fn not_semantic(members: &[Member<'_>]) -> Option<&'static str> {
    let wanted = |key: &str| match present(members, key) {
        None => false,
        Some(Json::Array(items)) => !items.is_empty(),
        Some(_) => true,
    };
    let fields = [("tools", "tools"), ("mcp_servers", "tools"), ("container", "container")];
    fields.into_iter().find(|(key, _)| wanted(key)).map(|(_, reason)| reason)
}
